"""Join maps: pairs of rows are those of pandas' merge, for keys of every type; and errors."""

from __future__ import annotations

import datetime
import decimal
import math
import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from craton.store import JoinMap, Store, shuffle
from tests.unit.store.joined_tables import KINDS, arrow, column, found, pairs

LIMIT = 16 << 20


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(LIMIT, directory=tmp_path) as made:
        yield made


@pytest.mark.parametrize("kind", KINDS)
def test_keys_of_every_type(store: Store, kind: str) -> None:
    rng = random.Random(kind)
    theirs, ours = (column(rng, kind, count, 40) for count in (300, 200))
    for data_type in KINDS[kind][0]:
        made = JoinMap.build(store, {"k": arrow(theirs, data_type), "row": range(300)}, on="k")
        for other in KINDS[kind][0]:
            assert found(made, {"k": arrow(ours, other)}) == pairs([ours], [theirs]), (data_type, other)
            table = pa.table({"k": arrow(ours, other)})
            assert found(made, table.slice(7, 150)) == pairs([ours[7:157]], [theirs])
        assert made.table()["row"].to_pylist() == list(range(300))
    assert store.describe()["pages"].sum() == 3


@pytest.mark.parametrize("kind", [*KINDS, "several"])
def test_the_rows_are_those_of_pandas_merge(store: Store, kind: str) -> None:
    rng = random.Random(kind)
    kinds = rng.sample([name for name in KINDS if name not in ("zoned", "time")], 3) if kind == "several" else [kind]
    keys = [f"k{number}" for number in range(len(kinds))]
    sides = []
    for count, name in ((200, "left"), (300, "right")):
        columns = {
            key: arrow(
                column(rng, one, count, 4 if len(kinds) > 1 else 40), KINDS[one][0][1 if one == "binary" else -1]
            )
            for key, one in zip(keys, kinds, strict=True)
        }
        sides.append(pa.table({**columns, name: range(count)}))
    left, right = sides
    made = JoinMap.build(store, right, on=keys)
    frames = [side.to_pandas(types_mapper=pd.ArrowDtype) for side in sides]
    for frame in frames:  # pandas compares the values of categories as objects
        for key in keys:
            if isinstance(frame[key].dtype.pyarrow_dtype, pa.DictionaryType):
                frame[key] = frame[key].astype(pd.ArrowDtype(pa.string()))
    if any(part in ("float32", "float64") for part in kinds):  # NaN and null differ in Arrow only
        frames = [side.to_pandas() for side in sides]
        sides = [pa.Table.from_pandas(frame) for frame in frames]
        left, made = sides[0], JoinMap.build(store, sides[1], on=keys)
    for how in ("inner", "left"):
        expected = frames[0].merge(frames[1], on=keys, how=how)
        joined = made.join(left, how)  # type: ignore[arg-type]
        assert joined.column_names == list(expected.columns)
        assert joined["left"].to_pylist() == expected["left"].tolist()
        assert joined["right"].to_pylist() == [None if pd.isna(row) else int(row) for row in expected["right"]]
    rows = set(found(made, left))
    matched = sorted({row for row, _ in rows})
    assert made.join(left, "semi").equals(left.take(matched))
    assert made.join(left, "anti")["left"].to_pylist() == [row for row in range(200) if row not in matched]


@pytest.mark.parametrize("seed", range(20))
def test_random_tables_with_little_memory(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    kinds = rng.choices(list(KINDS), k=rng.choice([1, 1, 2, 3]))
    on = [f"k{number}" for number in range(len(kinds))]
    distinct = rng.choice([3, 30, 1000])
    theirs = [column(rng, kind, rng_count, distinct) for kind in kinds for rng_count in [(0, 1, 4000)[seed % 3]]]
    ours = [column(rng, kind, 1000 if seed % 5 else 0, distinct) for kind in kinds]
    with Store.open(2 << 20, directory=tmp_path) as store:
        types = [rng.choice(KINDS[kind][0]) for kind in kinds]
        columns = [arrow(values, data_type) for values, data_type in zip(theirs, types, strict=True)]
        table = pa.table([*columns, list(range(len(theirs[0])))], [*on, "row"])
        parts = iter([table.slice(start, 700) for start in range(0, max(table.num_rows, 1), 700)])
        made = JoinMap.build(store, parts, on, page_bytes=rng.choice([None, 1 << 12, 1 << 14]))
        assert (len(made), made.on, made.schema.names) == (table.num_rows, on, [*on, "row"])
        asked = pa.table([arrow(v, rng.choice(KINDS[kind][0])) for v, kind in zip(ours, kinds, strict=True)], on)
        assert found(made, asked) == pairs(ours, theirs)
        renamed = asked.rename_columns([f"other {name}" for name in on])
        assert found(made, renamed, renamed.column_names) == pairs(ours, theirs)


def test_numbers_match_exactly_whatever_their_types(store: Store) -> None:
    values = [0, 1, 2**31, 2**53, 2**53 + 1, 2**63 - 1, -(2**63), -1]
    made = JoinMap.build(store, {"k": pa.array(values, pa.int64())}, on="k")
    floats = [0.0, -0.0, 1.0, 1.5, 2.0**53, 2.0**63, -(2.0**63), math.nan, 1e300, 2.0**64]
    assert found(made, {"k": pa.array(floats)}) == [(0, 0), (1, 0), (2, 1), (4, 3), (6, 6)]
    assert found(made, {"k": pa.array([2**63 - 1, 2**63, 2**64 - 1], pa.uint64())}) == [(0, 5)]
    assert found(made, {"k": pa.array([-1, 1, None], pa.int8())}) == [(0, 7), (1, 1)]
    made = JoinMap.build(store, {"k": pa.array(floats)}, on="k")
    assert found(made, {"k": pa.array([2**63, 2**53, 2**53 + 1, 2**64 - 1], pa.uint64())}) == [(0, 5), (1, 4)]
    assert found(made, {"k": pa.array([1.5, math.nan, 1.0], pa.float32())}) == [(0, 3), (1, 7), (2, 2)]
    assert found(made, {"k": pa.array([1.5, 1.0, math.nan], pa.float16())}) == [(0, 3), (1, 2), (2, 7)]


def test_instants_match_whatever_their_units(store: Store) -> None:
    days = pa.array([0, -1, 2**31 - 1, None], pa.date32())
    made = JoinMap.build(store, {"k": days}, on="k")
    seconds = pa.array([86_400 * (2**31 - 1), 0, 1, -86_400, None], pa.timestamp("s"))
    assert found(made, {"k": seconds}) == [(0, 2), (1, 0), (3, 1), (4, 3)]
    with pytest.raises(TypeError, match='of the kind "instant"'):
        made.probe({"k": seconds.cast(pa.timestamp("s", "UTC"))})


def test_several_keys_do_not_run_together(store: Store) -> None:
    texts = ["", "a", "ab", "b", "\0", "\1", "a\0", "\0a", "x" * 249, "x" * 250, "x" * 300]
    both = [(one, other) for one in texts for other in [*texts, None]]
    table = pa.table({"a": [one for one, _ in both], "b": [other for _, other in both]})
    made = JoinMap.build(store, table, on=["a", "b"])
    assert found(made, table) == [(row, row) for row in range(len(both))]
    numbers = [0, 1, -1, 127, 128, -128, -129, 255, 256, 2**31, -(2**31) - 1, 2**63 - 1, -(2**63), None]
    grid = pa.table({"a": [one for one in numbers for _ in numbers], "b": numbers * len(numbers)})
    made = JoinMap.build(store, grid, on=["a", "b"])
    assert found(made, grid) == [(row, row) for row in range(grid.num_rows)]
    assert found(made, grid.select(["b", "a"]), ["b", "a"]) == found(made, grid, ["b", "a"])


@pytest.mark.parametrize("kind", ["arrow", "batch", "polars", "pandas", "dict", "set", "iterator"])
def test_data_of_every_kind(store: Store, kind: str) -> None:
    table = pa.table({"k": [f"key {number % 7}" for number in range(100)], "v": range(100)})
    kept = store.create_set()
    kept.append(table)
    data = {
        "arrow": table,
        "batch": table.to_batches()[0],
        "polars": pl.DataFrame(table),
        "pandas": table.to_pandas(),
        "dict": table.to_pydict(),
        "set": kept,
        "iterator": iter([table.slice(0, 60), table.slice(60)]),
    }[kind]
    made = JoinMap.build(store, data, on="k")
    assert len(made) == 100
    asked = {"k": ["key 3", "none", "key 0"]}
    if kind not in ("set", "iterator"):
        assert found(made, data)[:15] == [(0, 7 * row) for row in range(15)]
    assert found(made, asked) == [(0, row) for row in range(3, 100, 7)] + [(2, row) for row in range(0, 100, 7)]
    joined = made.join(asked, "left")
    assert joined["v"].to_pylist() == [*range(3, 100, 7), None, *range(0, 100, 7)]
    assert made.join(pl.DataFrame(asked), "anti").to_pydict() == {"k": ["none"]}


def test_joined_tables_keep_the_types_of_polars(store: Store) -> None:
    count = 50
    table = pl.DataFrame(
        {
            "key": [f"key {row % 7} that is long" for row in range(count)],
            "category": pl.Series([f"c{row % 5}" for row in range(count)], dtype=pl.Categorical),
            "enum": pl.Series(["a" if row % 2 else "b" for row in range(count)], dtype=pl.Enum(["a", "b"])),
            "lists": [[str(row), "x" * 20, None] for row in range(count)],
            "structs": [{"a": row, "b": str(row)} for row in range(count)],
            "decimal": [decimal.Decimal(row) for row in range(count)],
            "time": [datetime.time(1, row) for row in range(count)],
            "nothing": [None] * count,
            "binary": [b"x" * row for row in range(count)],
            "arrays": pl.Series([[1, 2]] * count, dtype=pl.Array(pl.Int64, 2)),
        }
    )
    for key in ("key", "category", "enum", "time", "binary"):
        for data in (table, iter([table.slice(0, 20), table.slice(20)])):
            made = JoinMap.build(store, data, key)
            asked = pl.concat([table.select(key).head(5), pl.DataFrame({key: [None]}, schema=table.select(key).schema)])
            joined = pl.DataFrame(made.join(asked, "left"))
            expected = asked.join(table, on=key, how="left", maintain_order="left_right", nulls_equal=True)
            assert joined.equals(expected)
            assert joined.schema == expected.schema
        assert pl.DataFrame(made.join(table, "semi")).equals(table)
        assert made.join(table, "anti").num_rows == 0


def test_partitions_of_a_shuffle_are_not_copied(store: Store) -> None:
    rng = np.random.default_rng(1)
    build = pa.table({"k": rng.integers(0, 5000, 40_000), "v": np.arange(40_000)})
    probe = pa.table({"k": rng.integers(0, 6000, 20_000), "w": np.arange(20_000)})
    ours, theirs = (shuffle(store, side, "k", 4) for side in (probe, build))
    total = 0
    for mine, other in zip(ours, theirs, strict=True):
        before = store.counters()
        made = JoinMap.build(store, other, on="k")
        after = store.counters()
        assert after["shared"] - before["shared"] >= 16 * len(made) - 100
        joined = made.join(mine.to_arrow())
        expected = mine.to_arrow().to_pandas().merge(other.to_arrow().to_pandas(), on="k")
        assert joined.to_pandas().equals(expected)
        total += joined.num_rows
    assert total == len(probe.to_pandas().merge(build.to_pandas(), on="k"))


# ---- errors ----


def test_errors_while_building(store: Store) -> None:
    table = {"k": [1, 2], "v": [1, 2]}
    with pytest.raises(ValueError, match="on must name at least one column"):
        JoinMap.build(store, table, [])
    with pytest.raises(ValueError, match="more than once"):
        JoinMap.build(store, table, ["k", "k"])
    with pytest.raises(KeyError, match="no column is named"):
        JoinMap.build(store, table, "x")
    with pytest.raises(KeyError, match="several columns are named"):
        JoinMap.build(store, pa.table([[1], [2]], ["k", "k"]), "k")
    with pytest.raises(TypeError, match="expected a table"):
        JoinMap.build(store, [1, 2], "k")
    with pytest.raises(ValueError, match="page_bytes must be greater than 0"):
        JoinMap.build(store, table, "k", page_bytes=0)
    for values in (
        pa.array([[1]]),
        pa.array([{"a": 1}]),
        pa.array([1], pa.decimal128(5, 1)),
        pa.array([b"ab"], pa.binary(2)),
    ):
        with pytest.raises(TypeError, match="cannot be a key"):
            JoinMap.build(store, {"k": values}, "k")
    with pytest.raises(ValueError, match=r"expected the columns of the table before.*k: int64.*got.*k: double"):
        JoinMap.build(store, iter([{"k": [1]}, {"k": [1.5]}]), "k")
    with pytest.raises(ValueError, match="no table was given"):
        JoinMap.build(store, iter([]), "k")
    assert store.describe().empty
    made = JoinMap.build(store, table, "k", name="numbers")
    with pytest.raises(FileExistsError, match="'numbers' exists"):
        JoinMap.build(store, table, "k", name="numbers")
    assert len(store.describe()) == 1
    # A set that is no map.
    store.create_set("join:plain").append(table)
    with pytest.raises(ValueError, match="is not a join map"):
        JoinMap.open(store, "plain")
    assert found(made, table) == [(0, 0), (1, 1)]


def test_errors_while_probing(store: Store) -> None:
    made = JoinMap.build(store, {"k": [1, 2], "t": ["a", "b"], "v": [3, 4]}, ["k", "t"])
    with pytest.raises(KeyError, match="no column is named"):
        made.probe({"k": [1]})
    with pytest.raises(ValueError, match="the map has 2 key columns"):
        made.probe({"k": [1], "t": ["a"]}, on="k")
    with pytest.raises(TypeError, match='column "t" of the kind "text"'):
        made.probe({"k": [1], "t": [1]})
    with pytest.raises(TypeError, match="cannot be a key"):
        made.probe({"k": [[1]], "t": ["a"]})
    with pytest.raises(TypeError, match="expected a table"):
        made.probe([1])
    table = {"k": [2, 3], "t": ["b", "c"], "v": [0, 0]}
    with pytest.raises(ValueError, match="how must be one of"):
        made.join(table, "outer")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"both sides have columns named \['v'\]"):
        made.join(table)
    assert made.join(table, suffix="_map").to_pydict() == {"k": [2], "t": ["b"], "v": [0], "v_map": [4]}
    with pytest.raises(ValueError, match="both sides"):
        made.join({**table, "v_map": [0, 0]}, suffix="_map")
    # Null columns match nulls only.
    assert found(made, {"k": [2, None], "t": pa.nulls(2)}) == []
    nulls = JoinMap.build(store, {"k": pa.nulls(2)}, "k")
    assert found(nulls, {"k": [1, None]}) == [(1, 0), (1, 1)]


def test_tables_that_are_changed_after_a_probe(store: Store) -> None:
    keys, values = np.array([1, 2, 3]), np.array([10, 20, 30])
    made = JoinMap.build(store, {"k": keys, "v": values}, "k")
    keys[:], values[:] = 7, 7
    asked, others = np.array([3, 1]), np.array([0, 1])
    ours, theirs = made.probe({"k": asked, "w": others})
    joined = made.join({"k": asked, "w": others})
    asked[:], others[:] = 9, 9
    assert (ours.tolist(), theirs.tolist()) == ([0, 1], [2, 0])
    assert joined.to_pydict() == {"k": [3, 1], "w": [0, 1], "v": [30, 10]}


def test_maps_of_a_closed_store(tmp_path: Path) -> None:
    with Store.open(LIMIT, directory=tmp_path) as store:
        made = JoinMap.build(store, {"k": [1]}, "k")
        view = made.table()
    assert view["k"].to_pylist() == [1]
    with pytest.raises(ValueError, match="closed"):
        made.probe({"k": [1]})
