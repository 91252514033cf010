"""Long strings within a memory limit: sorts, groups, distinct rows, merges and writes run as tiles, each of which fits."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pandas.testing as pt
import polars as pl
import pyarrow.parquet as pq
import pytest

import craton
import craton.pandas as cp
from craton.demo.compare import materialise
from craton.engine import choice, run
from craton.lower.tiled.stage import Sampled, compact
from craton.memory import clear_memory
from craton.pandas.io.footers import local_footer, text_bytes
from craton.plan.expr import Call, Column
from craton.plan.memory import held_bytes
from craton.plan.operators import Aggregate, AggregateCall, Filter, Join, Operator, Project, Scan, Sort, SortKey
from craton.plan.size import TEXT_BYTES, column_bytes, row_bytes, scanned_bytes
from craton.plan.sources import FileSource
from craton.store import close_store

ROWS, LENGTH = 60_000, 120
#: About the size of the strings; the kernel may use half of it.
LIMIT = 8 << 20
INT, TEXT = pl.Int64(), pl.String()
S, N = Column("s", TEXT), Column("n", INT)


def texts(seed: int, count: int = ROWS) -> list[str]:
    """Distinct strings in random order."""
    data = np.random.default_rng(seed).bytes(count * LENGTH // 2).hex()
    return [data[at : at + LENGTH] for at in range(0, count * LENGTH, LENGTH)]


@pytest.fixture(scope="module")
def frames(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two files with the same strings in different orders."""
    folder = tmp_path_factory.mktemp("texts")
    one = pandas.DataFrame({"s": texts(1), "n": range(ROWS)})
    two = one.sample(frac=1, random_state=2).rename(columns={"n": "m"})
    one.to_parquet(folder / "one.parquet", row_group_size=5000)
    two.to_parquet(folder / "two.parquet", row_group_size=5000, index=False)
    return folder / "one.parquet", folder / "two.parquet"


@pytest.fixture
def within(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """The tiled engines that were chosen; the test fails if a plan that they ran falls back to a single node."""
    found: list[Any] = []
    choose = choice.bounded_engine

    def chosen(*args: Any, **kwargs: Any) -> Any:
        engine = choose(*args, **kwargs)
        found.extend([] if engine is None else [engine])
        return engine

    monkeypatch.setattr(choice, "bounded_engine", chosen)
    monkeypatch.setattr(run, "single_node_fallback", lambda _engine, _plans: contextlib.nullcontext())
    clear_memory()
    close_store()
    with craton.option_context(small_rows=0, memory_limit=LIMIT):
        yield found
    clear_memory()
    close_store()


PROGRAMS: dict[str, Callable[[Any, Any], Any]] = {
    "sort": lambda one, two: one.sort_values("s"),
    "sort descending, by two": lambda one, two: one.sort_values(["s", "n"], ascending=[False, True]),
    "labels of a sort": lambda one, two: one.sort_values("s").index.to_series().diff().sum(),
    "groups": lambda one, two: one.groupby("s")["n"].sum().sum(),
    "groups as rows": lambda one, two: one.groupby("s", as_index=False)["n"].max().sort_values("n")["n"],
    "distinct": lambda one, two: one.drop_duplicates("s")["n"].sum(),
    "counts": lambda one, two: one["s"].value_counts().max(),
    "merge": lambda one, two: one.merge(two, on="s")[["n", "m"]].sum(),
    "merge, then sort": lambda one, two: one.merge(two, on="s").sort_values("s")[["n", "m"]],
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str, frames: tuple[Path, Path], within: list[Any]) -> None:
    expected = PROGRAMS[name](*map(pandas.read_parquet, frames))
    found = PROGRAMS[name](*map(cp.read_parquet, frames))
    if isinstance(expected, pandas.DataFrame):
        pt.assert_frame_equal(materialise(found), expected)
    elif isinstance(expected, pandas.Series):
        pt.assert_frame_equal(materialise(found.to_frame()), expected.to_frame())
    else:
        assert found == expected
    assert within, "it ran as a whole"


def test_files(frames: tuple[Path, Path], within: list[Any], tmp_path: Path) -> None:
    """If rows are long and memory is scarce, row groups have fewer rows."""
    cp.read_parquet(frames[0]).sort_values("s").to_parquet(tmp_path / "sorted.parquet")
    assert within
    expected = pandas.read_parquet(frames[0]).sort_values("s")
    pt.assert_frame_equal(pandas.read_parquet(tmp_path / "sorted.parquet"), expected)
    metadata = pq.read_metadata(tmp_path / "sorted.parquet")
    assert max(metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)) < 4000


# ---- sizes ----


def test_footers_tell_how_long_text_is(tmp_path: Path) -> None:
    frame = pandas.DataFrame({"long": texts(3, 2000), "short": ["x"] * 2000, "few": ["y" * 500] * 2000, "n": 1})
    frame.to_parquet(tmp_path / "t.parquet")
    columns = {"long": TEXT, "short": TEXT, "few": TEXT, "n": INT}
    found = dict(text_bytes([local_footer(str(tmp_path / "t.parquet"))], columns))
    assert LENGTH < found["long"] < 2 * LENGTH
    assert found["short"] == found["few"] == TEXT_BYTES
    assert "n" not in found


def scan(width: int = 200) -> Scan:
    columns = (("s", TEXT), ("n", INT))
    return Scan(
        FileSource(columns, "parquet", (f"{width}.parquet",), rows=1000, text_bytes=(("s", width),)), ("s", "n")
    )


def test_text_is_as_long_as_what_it_is_made_of() -> None:
    either = Call("coalesce", (S, S), TEXT)
    some = Filter(scan(), Call("gt", (N, N), pl.Boolean()))
    made = Project(some, (("u", either), ("s", S), ("t", Call("cast", (N,), TEXT))))
    grouped = Aggregate(made, (("k", Column("u", TEXT)),), (("m", AggregateCall("max", (S,), TEXT)),), sort=False)
    other = Project(scan(500), (("r", S),))
    joined = Join(made, other, "left", (S,), (Column("r", TEXT),))
    assert scanned_bytes(scan()) == 1000 * 208
    assert (column_bytes(made, "u"), column_bytes(made, "s"), column_bytes(made, "t")) == (200, 200, 8)
    assert row_bytes(grouped) == 400
    assert (column_bytes(joined, "u"), column_bytes(joined, "r")) == (200, 500)


def test_a_sort_holds_what_it_sorts_by() -> None:
    plan: Operator = Project(Sort(scan(), (SortKey(S),)), (("n", N),))
    assert held_bytes(plan) == 2 * 1000 * 208


def test_samples_do_not_keep_what_they_were_picked_from() -> None:
    frame = pl.DataFrame({"s": texts(5), "n": range(ROWS)})
    sample = Sampled(("s",), 100, kept=False).write(frame, None)  # type: ignore[arg-type]
    assert 50 < sample.height <= 100
    assert sample.to_arrow(compat_level=pl.CompatLevel.newest()).nbytes < 100 * (LENGTH + 64)
    assert compact(frame).equals(frame)
    assert compact(frame.select("n")).equals(frame.select("n"))
