"""Shuffles of tables: every row arrives once, equal keys meet, and the table stays what it was."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from craton.comm.tables import concatenated, partition_by_hash


def frame(rank: int, rows: int = 500) -> pd.DataFrame:
    generator = np.random.default_rng(rank)
    return pd.DataFrame(
        {
            "key": pd.array(generator.integers(0, 40, rows), "Int64"),
            "text": pd.Categorical.from_codes(generator.integers(-1, 3, rows), ["a", "b", "c"]),
            "value": generator.standard_normal(rows),
            "when": pd.Timestamp("2026-01-01", tz="UTC") + pd.to_timedelta(generator.integers(0, 99, rows), "h"),
        },
        index=pd.RangeIndex(rank * rows, (rank + 1) * rows, name="row"),
    ).assign(key=lambda table: table["key"].mask(generator.random(rows) < 0.1))


KINDS = {
    "pandas": lambda table: table,
    "polars": lambda table: pl.from_pandas(table.reset_index()),
    "arrow": lambda table: pa.Table.from_pandas(table.reset_index(), preserve_index=False),
    "batch": lambda table: pa.RecordBatch.from_pandas(table.reset_index(), preserve_index=False),
}


def as_frame(table):
    if isinstance(table, pd.DataFrame):
        return table.reset_index()
    return table.to_pandas()


@pytest.mark.parametrize("kind", KINDS)
def test_shuffle(few_ranks, kind):
    def program(comm, convert):
        found = {}
        for keys in (["key"], ["text", "key"]):
            for rows in (500, 0 if comm.rank else 3):
                table = convert(frame(comm.rank, rows))
                arrived = comm.shuffle(table, keys)
                assert type(arrived) is type(table)
                if isinstance(table, pd.DataFrame):
                    assert arrived.dtypes.equals(table.dtypes)
                    assert arrived.index.names == table.index.names
                else:
                    assert arrived.schema == table.schema
                found[str(keys), bool(rows == 500)] = as_frame(arrived)
        with pytest.raises(KeyError, match="'nothing'"):
            comm.shuffle(table, ["nothing"])
        return found

    found = few_ranks.run(program, KINDS[kind])
    for keys in (["key"], ["text", "key"]):
        parts = [one[str(keys), True] for one in found]
        expected = pd.concat([as_frame(KINDS[kind](frame(rank))) for rank in range(few_ranks.size)])
        whole = pd.concat(parts)
        assert sorted(whole["row"]) == sorted(expected["row"])
        for part in parts:
            # By the rank that sent them, and in its order.
            assert part["row"].is_monotonic_increasing
        owners = pd.concat([part[keys].drop_duplicates() for part in parts])
        assert not owners.duplicated().any()


def test_partitions_are_those_of_exchanges():
    from craton import _native

    table = pa.table({"key": list(range(1000)), "text": [str(number % 7) for number in range(1000)]})
    for keys in (["key"], ["text"], ["text", "key"]):
        expected = [pa.table(part) for part in _native.partition(table, keys, 5)]
        found = partition_by_hash(table, keys, 5)
        assert [part.to_pydict() for part in found] == [part.to_pydict() for part in expected]
        assert concatenated(found).num_rows == 1000


def test_frames_of_craton(make):
    def program(comm):
        import craton.pandas as cpd

        table = cpd.DataFrame({"a": [comm.rank, 5], "b": ["x", "y"]})
        arrived = comm.shuffle(table, ["a"])
        assert type(arrived) is cpd.DataFrame
        return arrived["a"].tolist()

    found = make("own", 2).run(program)
    assert sorted(found[0] + found[1]) == [0, 1, 5, 5]


def test_wrong_keys():
    table = pd.DataFrame([[1, 2, 3]], columns=["a", "b", "b"])
    with pytest.raises(KeyError, match="'b' is the name of 2 columns"):
        partition_by_hash(table, ["b"], 2)
    with pytest.raises(TypeError, match=r"write \['a'\]"):
        partition_by_hash(table, "a", 2)
    with pytest.raises(ValueError, match="at least one column"):
        partition_by_hash(table, [], 2)
    with pytest.raises(TypeError, match="expected an Arrow table"):
        partition_by_hash([1], ["a"], 2)
