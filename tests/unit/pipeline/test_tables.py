"""Tables of steps: several of one step, partitions, what is promised of them, and what is written and referenced."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from stores import NUMBERS, run, states

import craton
import craton.pandas
from craton.pipeline import Input, Pipeline, PipelineFailed, RunSettings
from craton.store import Store


def test_several_tables_of_one_step(store: Store) -> None:
    @craton.step(outputs=["train", "test"])
    def split(numbers: pa.Table) -> dict[str, pa.Table]:
        return {"test": numbers.slice(3), "train": numbers.slice(0, 3)}

    @craton.step
    def fitted(train: pd.DataFrame) -> pd.DataFrame:
        return train.head(1)

    @craton.step(inputs={"other": "split.test", "columns": Input("train", columns=["g"])})
    def both(other: pa.Table, columns: pa.Table) -> pa.Table:
        assert columns.column_names == ["g"]
        return other

    @craton.step
    def undeclared(numbers: pa.Table) -> dict[str, pa.Table]:
        return {"x": numbers, "y": numbers.slice(2)}

    @craton.step(inputs={"t": "undeclared.y"})
    def of_y(t: pa.Table) -> pa.Table:
        return t

    for _ in range(2):  # the second time from the cache
        result = run([split, fitted, both, undeclared, of_y], store)
        assert result["train"]["n"].to_pylist() == [1, 2, 3]
        assert {name: table.num_rows for name, table in result["split"].items()} == {"test": 1, "train": 3}
        assert result["split.test"]["n"].to_pylist() == [4]
        assert result["both"]["n"].to_pylist() == [4]
        assert result["of_y"]["n"].to_pylist() == [3, 4]
    assert set(states(result).values()) == {"cached"}

    @craton.step(inputs={"t": "undeclared.z"})
    def of_z(t: pa.Table) -> pa.Table:
        return t

    with pytest.raises(PipelineFailed, match="step 'of_z': it takes a table 'z' of 'undeclared', which made x, y"):
        run([undeclared, of_z], store)

    @craton.step(outputs=["one", "two"])
    def wrong(numbers: pa.Table) -> dict[str, pa.Table]:
        return {"one": numbers}

    with pytest.raises(PipelineFailed, match="returned tables one; outputs= declares one, two"):
        run([wrong], store)


def test_promised_columns(store: Store) -> None:
    @craton.step(schema={"n": "int64", "g": "string"})
    def kept(numbers: pa.Table, *, drop: bool = False) -> pa.Table:
        return numbers.drop_columns("g") if drop else numbers

    assert run([kept], store)["kept"].equals(NUMBERS)
    with pytest.raises(PipelineFailed, match=r"the column 'g' is missing .there are n.; schema= promises string"):
        run([kept], store, parameters={"drop": True})


@pytest.mark.parametrize("form", ["arrow", "pandas", "polars"])
@pytest.mark.parametrize("partitions", [1, 3, 7, 100, "g", ["g", "h"]])
def test_partitions_are_mapped_in_order(form: str, partitions: Any, store: Store) -> None:
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(
        {
            "n": np.arange(30),
            "g": pd.Series(rng.choice(["a", "b", None], 30), dtype="str"),
            "h": rng.choice([1.0, np.nan], 30),
        }
    )

    @craton.step
    def made(table: Any) -> Any:
        return table

    @craton.step(map_over="made", partitions=partitions)
    def mapped(made: Any, numbers: pa.Table) -> Any:
        if isinstance(made, pa.Table):
            return made.append_column("k", pa.array([made.num_rows + numbers.num_rows] * made.num_rows, pa.int64()))
        if isinstance(made, pl.DataFrame):
            return made.with_columns(k=pl.lit(len(made) + numbers.num_rows, pl.Int64))
        return made.assign(k=np.int64(len(made) + numbers.num_rows))

    @craton.step(map_over="mapped")
    def again(mapped: Any) -> Any:
        size = len(mapped)
        if isinstance(mapped, pa.Table):
            return pa.table({"size": pa.array([size], pa.int64())})
        return (pl.DataFrame if isinstance(mapped, pl.DataFrame) else pd.DataFrame)({"size": [size]})

    source = {
        "arrow": pa.Table.from_pandas(frame, preserve_index=False),
        "pandas": frame,
        "polars": pl.DataFrame(frame),
    }[form]
    result = run([made, mapped, again], store, {"table": source, "numbers": NUMBERS})
    if isinstance(partitions, int):
        ends = [30 * number // partitions for number in range(partitions + 1)]
        parts = [frame.iloc[start:end] for start, end in itertools.pairwise(ends)]
    else:
        keys = frame[[partitions] if isinstance(partitions, str) else partitions].astype(object).fillna("-")
        parts = [frame[(keys == key).all(axis=1)] for key in keys.drop_duplicates().to_numpy()]
    expected = pd.concat([part.assign(k=len(part) + 4) for part in parts])
    found = result.table("mapped", "pandas")
    pd.testing.assert_frame_equal(found.reset_index(drop=True), expected.reset_index(drop=True))
    if form == "pandas" and not isinstance(partitions, int):
        assert found.index.tolist() == expected.index.tolist()
    sizes = result.table("again", "pandas")["size"].tolist()
    assert sizes == [len(part) for part in parts]
    assert result.steps.loc["mapped", "calls"] == len(parts)
    cached = run([made, mapped, again], store, {"table": source, "numbers": NUMBERS})
    pd.testing.assert_frame_equal(cached.table("mapped", "pandas"), found)


def test_partitions_that_differ_are_refused(store: Store) -> None:
    @craton.step(map_over="numbers", partitions=2)
    def odd(numbers: pa.Table) -> pa.Table:
        return numbers if numbers["n"][0].as_py() == 1 else numbers.select(["n"])

    @craton.step(map_over="numbers", partitions=2)
    def types(numbers: pa.Table) -> pa.Table:
        return pa.table({"x": [1 if numbers["n"][0].as_py() == 1 else 1.5]})

    @craton.step(map_over="numbers", partitions=2)
    def fails(numbers: pa.Table) -> pa.Table:
        assert numbers["n"][0].as_py() == 1, "the second part"
        return numbers

    with pytest.raises(PipelineFailed) as caught:
        run([odd, types, fails], store)
    texts = {name: str(error) for name, error in caught.value.errors.items()}
    assert "partition 1 has the columns n, and partition 0 n, g" in texts["odd"]
    assert "the column 'x' is double in partition 1, and int64 in partition 0" in texts["types"]
    assert "AssertionError: the second part" in texts["fails"]


def test_a_table_is_written_and_replaced_whole(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "new" / "total.parquet"

    @craton.step(to_parquet=str(path), persist="all numbers")
    def total(numbers: pd.DataFrame, *, least: int = 0) -> pd.DataFrame:
        return numbers[numbers["n"] > least].set_index("g")

    result = run([total], store)
    pd.testing.assert_frame_equal(pd.read_parquet(path), result["total"])
    path.unlink()
    assert states(run([total], store)) == {"total": "cached"}
    pd.testing.assert_frame_equal(pd.read_parquet(path), result["total"])
    run([total], store, parameters={"least": 3})
    assert len(pd.read_parquet(path)) == 1
    assert store.get_set("all numbers").to_arrow().num_rows == 1
    assert [one.name for one in path.parent.iterdir()] == ["total.parquet"]
    path.unlink()
    path.mkdir()
    (path / "x").write_text("")
    with pytest.raises(PipelineFailed, match=r"step 'total'.*cannot be written"):
        run([total], store)


@pytest.mark.parametrize("in_process", [True, False])
def test_memory_of_a_step_is_that_of_its_table_when_it_has_ended(in_process: bool, tmp_path: Path) -> None:
    @craton.step(memory=170 << 20, source=True)
    def large(*, rows: int = 20 << 20) -> pa.Table:
        return pa.table({"x": np.arange(rows)})

    @craton.step
    def last(large: pa.Table) -> pa.Table:
        return large.slice(large.num_rows - 1)

    with Store.open(256 << 20, directory=tmp_path) as store:
        result = Pipeline([large, last]).run(store=store, in_process=in_process)
        assert result["last"]["x"].to_pylist() == [(20 << 20) - 1]
        assert store.counters()["reserved"] == 0
        assert store.counters()["written"] == 0


def test_what_is_read_is_released_when_the_last_step_has_taken_it(store: Store) -> None:
    sets: dict[str, int] = {}

    def report(name: str, ended: Any) -> None:
        sets[name] = len(store.describe())

    @craton.step(inputs={"numbers": ["n"]})
    def a(numbers: pa.Table) -> pa.Table:
        return pa.table({"x": [1]})

    @craton.step(inputs={"numbers": ["n"]})
    def b(numbers: pa.Table, a: pa.Table) -> pa.Table:
        return pa.table({"x": [2]})

    @craton.step
    def c(b: pa.Table) -> pa.Table:
        return b

    result = run([a, b, c], store, settings=RunSettings(cache=False, report=report))
    assert list(sets.values()) == [1, 2, 2, 3]  # the source; with a; a and b without the source; and c
    assert result["a"]["x"].to_pylist() == [1]
    assert len(store.describe()) == 3
    del result
    assert len(store.describe()) == 0


def test_tables_between_steps_are_referenced(store: Store) -> None:
    rows = 300_000
    numbers = pa.table({"a": np.arange(rows), "b": np.arange(rows) / 2})

    @craton.step
    def same(numbers: pa.Table) -> pa.Table:
        return numbers

    @craton.step(inputs={"same": ["a"]})
    def more(same: pa.Table) -> pa.Table:
        assert same.column_names == ["a"]
        return same.slice(10).append_column("c", pa.array(np.arange(rows - 10)))

    result = run([same, more], store, {"numbers": numbers}, settings=RunSettings(cache=False))
    assert result.steps.loc["same", "copied"] == 0
    assert result.steps.loc["same", "shared"] == rows * 16
    assert result.steps.loc["more", "copied"] == (rows - 10) * 8
    assert result.bytes_copied == rows * 16 + (rows - 10) * 8
