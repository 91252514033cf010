"""Decisions that tiled plans base on measurements change no result: partial aggregates, skew, selection, ranks."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas
import pytest
from support import check

from craton.engine.tiled import TiledEngine, using
from craton.lower.tiled import Settings
from craton.memory import clear_memory
from craton.plan.operators import Operator
from craton.schedule.inline import InlineRunner
from craton.schedule.tasks import Output, Task

ROWS = 1_500


class _Noting(TiledEngine):
    """An engine that records its decisions."""

    def collect(self, plans: list[Operator], *args: Any, **kwargs: Any) -> Any:
        frames = super().collect(plans, *args, **kwargs)
        noted.extend(what for tiling in self.last for _, what in tiling.decisions)
        return frames


noted: list[str] = []


def tiled(
    program: Callable[..., Any], *data: Any, tiles: int | None = 5, tile_bytes: int = 1 << 26, **options: Any
) -> str:
    """Compare a program's results with pandas', and return the engine's decisions."""
    noted.clear()
    clear_memory()
    settings = Settings(tiles=tiles, tile_bytes=tile_bytes, broadcast_bytes=1, collapse_bytes=0)
    with using(_Noting(InlineRunner(), settings=settings, least_bytes=0)):
        check(program, *data, **{"native": None, "rtol": 1e-9, **options})
    return "\n".join(noted)


def skewed(seed: int, rows: int = ROWS, share: float = 1 / 3) -> pandas.DataFrame:
    """Rows of which by default a third have the same key."""
    generator = np.random.default_rng(seed)
    key = np.where(generator.random(rows) < share, 7, generator.integers(0, 200, rows))
    value = np.where(generator.random(rows) < 0.1, np.nan, generator.integers(-50, 50, rows) / 4)
    text = np.array(["a", "b", "", "long enough for no view"])[generator.integers(0, 4, rows)]
    return pandas.DataFrame({"key": key, "value": value, "text": text, "row": np.arange(rows)})


def distinct(rows: int = ROWS) -> pandas.DataFrame:
    frame = skewed(3, rows)
    return frame.assign(key=np.random.default_rng(4).permutation(rows) // 2)


AGGREGATES = ["sum", "prod", "mean", "count", "min", "max", "first", "last", "var", "std", "sem", "size", "nunique"]


# ---- partial aggregates ----


@pytest.mark.parametrize("sort", [True, False])
@pytest.mark.parametrize("name", AGGREGATES)
def test_rows_are_exchanged_where_partial_aggregates_hardly_make_them_fewer(name: str, sort: bool) -> None:
    said = tiled(lambda pd, df: getattr(df.groupby("key", sort=sort)["value"], name)(), distinct())
    # The product of some rows may overflow although that of all rows does not.
    expected = "product needs all values in one task" if name == "prod" else "the others are not pre-aggregated"
    assert expected in said


@pytest.mark.parametrize("name", ["sum", "mean", "first", "std"])
def test_partial_aggregates_are_exchanged_where_they_are_few(name: str) -> None:
    frame = skewed(5).assign(key=lambda df: df["key"] % 4)
    said = tiled(lambda pd, df: getattr(df.groupby("key")["value"], name)(), frame)
    assert "pre-aggregated too" in said


def test_a_skewed_key_is_aggregated_before_the_exchange() -> None:
    frame = distinct(4_000)
    frame.loc[frame["row"] % 5 == 0, "key"] = 7
    said = tiled(lambda pd, df: df.groupby("key")["value"].sum(), frame, tiles=40)
    assert "pre-aggregated too" in said


def test_more_rows_than_were_expected_go_into_more_parts() -> None:
    def program(pd: Any, df: Any) -> Any:
        return df.groupby("key", sort=False)[["value", "row"]].sum()

    frame = distinct(40_000).assign(key=lambda df: df["row"])
    said = tiled(program, frame, tiles=None, tile_bytes=40_000)
    parts, before = map(int, re.findall(r"(\d+) parts instead of (\d+): more rows are exchanged", said)[0])
    assert parts >= 2 * before


def test_aggregates_of_several_kinds_and_computed_keys() -> None:
    def program(pd: Any, df: Any) -> Any:
        return df.groupby(df["key"] * 3)[["value", "row", "text"]].agg(
            {"value": ["sum", "mean", "var"], "row": ["min", "nunique"], "text": ["max", "count", "nunique"]}
        )

    assert "not pre-aggregated" in tiled(program, distinct())
    assert "pre-aggregated too" in tiled(program, skewed(6).assign(key=lambda df: df["key"] % 3, row=1, text="a"))


@pytest.mark.parametrize("keep", ["first", "last", False])
@pytest.mark.parametrize("few", [True, False])
def test_distinct_rows(keep: Any, few: bool) -> None:
    frame = skewed(8).assign(key=lambda df: df["key"] % 5) if few else distinct()
    tiled(lambda pd, df: df.drop_duplicates("key", keep=keep), frame)
    tiled(lambda pd, df: df.sort_values("value", kind="stable").drop_duplicates("key", keep=keep), frame)
    tiled(lambda pd, df: df[["key", "text"]].drop_duplicates(keep=keep).groupby("text")["key"].sum(), frame)


# ---- skewed keys ----


@pytest.mark.parametrize("how", ["inner", "left", "right", "outer"])
@pytest.mark.parametrize("sides", ["left", "right", "both"])
def test_joins_of_skewed_sides(how: Any, sides: str) -> None:
    few = pandas.DataFrame({"key": np.arange(100, 300), "other": np.arange(200) / 7})
    few.loc[3, "key"] = 7
    many = skewed(9)
    if sides == "left":
        frames = (many, few)
    elif sides == "right":
        frames = (few, many)
    else:
        other = skewed(10, 500).rename(columns={"value": "other", "text": "word", "row": "place"})
        frames = (many[many["key"] != 20], other[other["key"] % 3 != 0])
    said = tiled(lambda pd, a, b: a.merge(b, on="key", how=how), *frames, tiles=24, tile_bytes=2_000)
    assert "skewed ones were cut" in said
    tiled(
        lambda pd, a, b: a.merge(b, on="key", how=how).groupby("key")["other"].agg(["sum", "count"]),
        *frames,
        tiles=24,
        tile_bytes=2_000,
    )


def test_rows_with_a_match_of_a_skewed_side() -> None:
    def program(pd: Any, a: Any, b: Any) -> Any:
        return a[a["key"].isin(b["key"])], a[~a["key"].isin(b["key"])]

    tiled(program, skewed(11), skewed(12, 900).query("key % 2 == 1"), tiles=24, tile_bytes=2_000)


@pytest.mark.parametrize("name", ["sum", "mean", "count", "min", "max", "std"])
def test_aggregates_beside_the_rows_of_a_skewed_key(name: str) -> None:
    def program(pd: Any, df: Any) -> Any:
        return df.assign(of_all=df.groupby("key")["value"].transform(name))

    said = tiled(program, skewed(13), tiles=24, tile_bytes=2_000)
    if name in ("var", "std", "sem"):  # these are computed exactly, which partial results do not allow
        assert "a window needs all rows of its partition" in said
    else:
        assert "rows, of large partitions, were cut into" in said


@pytest.mark.parametrize("name", ["cumsum", "cummin", "cummax", "cumcount", "ffill", "bfill"])
def test_running_functions_of_a_skewed_key(name: str) -> None:
    said = tiled(lambda pd, df: getattr(df.groupby("key")["value"], name)(), skewed(13), tiles=24, tile_bytes=2_000)
    assert "rows, of large partitions, were cut into" in said


def test_windows_of_both_kinds_over_a_skewed_key() -> None:
    def program(pd: Any, df: Any) -> Any:
        groups = df.groupby(["text", "key"])["value"]
        return df.assign(a=groups.cumsum(), b=groups.transform("mean"), c=groups.cumcount())

    frame = skewed(17)
    frame.loc[frame["key"] == 7, "text"] = np.where(frame["row"] % 2, "a", "b")[frame["key"] == 7]
    tiled(program, frame, tiles=24, tile_bytes=2_000)
    tiled(
        lambda pd, df: program(pd, df[df["row"] % 7 != 0]).groupby("text")["c"].max(), frame, tiles=24, tile_bytes=2_000
    )


@pytest.mark.parametrize("name", ["rank", "shift", "cumprod"])
def test_windows_of_a_skewed_key_say_that_one_task_has_its_rows(name: str) -> None:
    said = tiled(lambda pd, df: getattr(df.groupby("key")["value"], name)(), skewed(14), tiles=24, tile_bytes=2_000)
    assert "a window needs all rows of its partition" in said


@pytest.mark.parametrize("name", ["median", "skew"])
def test_values_of_a_skewed_key_that_are_needed_at_once(name: str) -> None:
    said = tiled(lambda pd, df: getattr(df.groupby("key")["value"], name)(), skewed(15), tiles=24, tile_bytes=2_000)
    assert "all values of a group are needed in one task" in said


def test_distinct_values_of_a_skewed_key() -> None:
    said = tiled(lambda pd, df: df.groupby("key")["text"].nunique(), skewed(16), tiles=24, tile_bytes=2_000)
    assert "are in one task" not in said


# ---- all rows ----

COLUMNS = {
    "floats": lambda g, n: np.where(g.random(n) < 0.2, np.nan, g.integers(-9, 9, n) / 3),
    "integers": lambda g, n: g.integers(-(10**6), 10**6, n),
    "small": lambda g, n: g.integers(0, 3, n).astype("int8"),
    "single": lambda g, n: g.random(n).astype("float32"),
    "same": lambda g, n: np.full(n, 4),
    "days": lambda g, n: np.datetime64("2020-01-01", "us") + g.integers(0, 10**12, n).astype("timedelta64[us]"),
    "words": lambda g, n: np.array(["x", "y", None, "zz"], dtype=object)[g.integers(0, 4, n)],
}


def column(name: str, rows: int = 700) -> pandas.Series:
    return pandas.Series(COLUMNS[name](np.random.default_rng(21), rows), name=name)


@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize("rows", [700, 11, 1])
def test_distinct_values_of_all_rows(name: str, rows: int) -> None:
    said = tiled(lambda pd, s: (s.nunique(), s.nunique(dropna=False)), column(name, rows))
    assert "one task" not in said


@pytest.mark.parametrize("name", ["floats", "integers", "small", "single", "same"])
@pytest.mark.parametrize("rows", [700, 701, 12, 2, 1])
def test_medians_and_quantiles(name: str, rows: int) -> None:
    shares = [0.5, 0.0, 0.1, 0.25, 1 / 3, 0.999, 1.0]

    def program(pd: Any, s: Any) -> list[Any]:
        hows = ("linear", "lower", "higher", "midpoint", "nearest")
        return [s.median(), s.quantile(0.3), *(s.quantile(shares, interpolation=how) for how in hows), s.describe()]

    said = tiled(program, column(name, rows), rtol=1e-6 if name == "single" else 1e-9)  # the mean of single precision
    assert "all rows go to one task" not in said
    if rows > 12 and name != "same":
        assert "only the ranges with the selected positions are sorted" in said


def test_quantiles_of_days_and_of_what_has_no_values() -> None:
    tiled(lambda pd, s: s.quantile([0.1, 0.5, 0.77]), column("days"))
    tiled(lambda pd, s: (s[s > 100].median(), s[s > 100].quantile([0.5])), column("floats"))
    tiled(lambda pd, s: (s[s.isna()].median(), s[s.isna()].nunique()), column("floats"))


def test_reductions_of_a_frame() -> None:
    frame = pandas.concat([column(name) for name in ("floats", "integers", "small", "single")], axis=1)

    def program(pd: Any, df: Any) -> list[Any]:
        return [df.median(), df.nunique(), df.quantile([0.2, 0.9]), df.describe(), df.sum(), df.agg(["median", "sum"])]

    tiled(program, frame, rtol=1e-6)  # sums of single precision
    tiled(
        lambda pd, df: (df["floats"].argmin(), df["floats"].idxmax(), df.sort_values("small", kind="stable").idxmin()),
        frame,
    )
    tiled(lambda pd, df: df[df["small"] > 1].nunique(), frame)


@pytest.mark.parametrize("how", ["average", "min", "max", "first", "dense"])
@pytest.mark.parametrize("ascending", [True, False])
def test_ranks_of_all_rows(how: Any, ascending: bool) -> None:
    for name in ("floats", "integers", "same", "days", "words"):
        said = tiled(lambda pd, s: s.rank(method=how, ascending=ascending), column(name), native=None)
        assert "by one task" not in said, name
    tiled(lambda pd, s: s.rank(method=how, ascending=ascending, pct=True), column("floats"))
    tiled(
        lambda pd, df: df.sort_values("key", kind="stable")["value"].rank(method=how, ascending=ascending), skewed(31)
    )
    tiled(
        lambda pd, df: df.assign(r=df["value"].rank(method=how, ascending=ascending)).groupby("key")["r"].max(),
        skewed(32),
    )


def test_ranks_in_several_columns_and_those_that_rows_are_chosen_by() -> None:
    tiled(lambda pd, df: df[["key", "value", "row"]].rank(), skewed(33))
    tiled(lambda pd, df: df.nlargest(9, "key", keep="all"), skewed(34))
    tiled(lambda pd, df: df[df["value"].rank(method="dense") < 5].reset_index(drop=True), skewed(35))
    tiled(lambda pd, df: df.groupby("key").ngroup(), skewed(36))


def test_the_first_rows_by_a_column_are_those_of_the_first_rows_of_each_tile() -> None:
    said = tiled(lambda pd, df: df.sort_values("value", kind="stable").head(7), skewed(37))
    assert "from the first rows of each tile" in said
    tiled(lambda pd, df: df.sort_values(["text", "value"], ascending=[False, True], kind="stable")[5:13], skewed(38))
    tiled(lambda pd, df: df.sort_values("key", kind="stable").tail(4), skewed(39))


def test_rows_that_are_only_numbered() -> None:
    index = pandas.MultiIndex([["foo", "bar", "baz"], [1, 0]], [[0, 1, 1, 2], [0, 0, 1, 0]], names=[1, 0])
    tiled(lambda pd, df: df.loc["baz"].loc[1], pandas.DataFrame({"v": range(4)}, index=index))


# ---- dropping outputs ----


class _Watching(InlineRunner):
    """A runner that counts, at each run, the existing outputs that no task of the run reads."""

    def __init__(self) -> None:
        super().__init__()
        self.idle: list[int] = []

    async def run(self, tasks: Sequence[Task]) -> list[Output]:
        read = {key for task in tasks for one in task.inputs for key in one.tasks}
        self.idle.append(len(set(self._where) - read))
        return await super().run(tasks)


def test_rows_that_neighbours_read_are_dropped_when_they_have() -> None:
    runner = _Watching()
    clear_memory()
    settings = Settings(tiles=4, collapse_bytes=0)
    with using(TiledEngine(runner, settings=settings, least_bytes=0)):
        check(
            lambda pd, df: df.assign(last=df["value"].shift(3)).groupby("key")["last"].sum(),
            skewed(41),
            native=None,
            rtol=1e-9,
        )
    assert len(runner.idle) > 2
    assert runner.idle[-1] == 0
    assert not runner._where
