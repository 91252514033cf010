"""rolling, expanding and ewm against pandas: every bit must agree, so no tolerance is given."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas
import pytest
from support import check, check_sources
from test_tiles import engine

from craton.engine.tiled import using


def table(rows: int = 40, seed: int = 0) -> pandas.DataFrame:
    draw = np.random.default_rng(seed)
    frame = pandas.DataFrame(
        {
            "k": pandas.Series(draw.choice(["a", "b", "c", None], rows), dtype="str"),
            "g": draw.integers(0, 3, rows),
            "x": draw.normal(size=rows) * 10.0 ** draw.integers(-8, 9, rows),
            "y": draw.integers(-5, 9, rows),
            "z": np.where(draw.random(rows) < 0.3, np.nan, draw.normal(size=rows)),
            "b": draw.random(rows) < 0.5,
            "t": pandas.Timestamp("2020-01-01") + pandas.to_timedelta(np.sort(draw.integers(0, 200, rows)), unit="h"),
        }
    )
    if rows > 9:
        frame.loc[[3, 9], "x"] = [np.inf, -np.inf]
    frame["n"] = frame["y"].astype("Int64").where(frame["y"] != 2)
    frame["a"] = frame["z"].astype("float64[pyarrow]")
    frame["s"] = frame["z"].astype("float32")
    return frame


NUMBERS = ["x", "y", "z", "b", "n", "a", "s"]
STATISTICS = (
    "count mean sum std var min max median skew kurt sem first last nunique rank".split()  # noqa: SIM905 - names, easier to read
)
WINDOWS: dict[str, Any] = {
    "rolling": lambda f: f.rolling(4),
    "min_periods": lambda f: f.rolling(4, min_periods=1),
    "center": lambda f: f.rolling(5, center=True, min_periods=2),
    "left": lambda f: f.rolling(3, closed="left", min_periods=1),
    "both": lambda f: f.rolling(3, closed="both"),
    "neither": lambda f: f.rolling(3, closed="neither", min_periods=1),
    "no rows": lambda f: f.rolling(0),
    "expanding": lambda f: f.expanding(),
    "expanding from 3": lambda f: f.expanding(3),
}


@pytest.mark.parametrize("rows", [0, 1, 40])
@pytest.mark.parametrize("window", WINDOWS)
def test_statistics_of_frames(window: str, rows: int) -> None:
    for name in STATISTICS:
        columns = [column for column in NUMBERS if name != "sem" or column != "a"]
        check(lambda pd, f, name=name: getattr(WINDOWS[window](f), name)(), table(rows)[columns], rtol=0)


@pytest.mark.parametrize(
    "call",
    [
        lambda w: w.std(ddof=0),
        lambda w: w.var(ddof=2),
        lambda w: w.sem(ddof=0),
        lambda w: w.quantile(0.3),
        lambda w: w.quantile(0.3, interpolation="lower"),
        lambda w: w.quantile(1.0),
        lambda w: w.quantile(q=0),
        lambda w: w.rank("min", ascending=False),
        lambda w: w.rank(pct=True),
        lambda w: w.agg(["mean", "sum"]),
        lambda w: w.agg("std"),
        lambda w: w.aggregate("std", ddof=0),
        lambda w: w.mean(numeric_only=False),
    ],
)
def test_arguments(call: Any) -> None:
    for window in ("rolling", "min_periods", "expanding"):
        check(lambda pd, f, w=window: call(WINDOWS[w](f["z"])), table(), rtol=0)
        check(lambda pd, f, w=window: call(WINDOWS[w](f[["z", "y"]])), table(), rtol=0)


@pytest.mark.parametrize(
    "call",
    [
        lambda f: f.ewm(span=3),
        lambda f: f.ewm(com=0.5, min_periods=3),
        lambda f: f.ewm(halflife=2, ignore_na=True),
        lambda f: f.ewm(alpha=0.25, adjust=False),
        lambda f: f.ewm(alpha=np.float64(0.25), adjust=False, ignore_na=True),
    ],
)
def test_exponential_weights(call: Any) -> None:
    for name in ("mean", "std", "var"):
        check(lambda pd, f, name=name: getattr(call(f[NUMBERS]), name)(), table(), rtol=0)
        check(lambda pd, f, name=name: getattr(call(f["z"]), name)(), table(0), rtol=0)
    check(lambda pd, f: f["z"].ewm(span=3).sum(), table(), rtol=0)
    check(lambda pd, f: f["z"].ewm(span=3).std(bias=True), table(), rtol=0)
    check(lambda pd, f: f[["z", "x"]].ewm(span=3).agg(["mean", "std"]), table(), rtol=0)
    check(lambda pd, f: f["z"].ewm(alpha=0.5, adjust=False).sum(), table(), native=False)


@pytest.mark.parametrize(
    "call",
    [
        lambda f: f["x"].rolling(4).corr(f["y"]),
        lambda f: f["z"].rolling(4, min_periods=2).cov(f["x"], ddof=0),
        lambda f: f["z"].expanding().corr(f["z"]),
        lambda f: f["y"].ewm(span=4).corr(f["z"]),
        lambda f: f["y"].ewm(span=4).cov(f["s"], bias=True),
        lambda f: f.set_index("t")["x"].rolling("9h").cov(f.set_index("t")["y"]),
    ],
)
def test_two_columns(call: Any) -> None:
    check(lambda pd, f: call(f), table(), native=None, rtol=0)
    check(lambda pd, f: call(f), table(0), native=None, rtol=0)


@pytest.mark.parametrize("window", ["6h", "1D", pandas.Timedelta("90min"), pandas.offsets.Hour(12)])
@pytest.mark.parametrize("given", [{}, {"closed": "both"}, {"closed": "left", "min_periods": 2}, {"center": True}])
def test_windows_of_time(window: Any, given: dict[str, Any]) -> None:
    frame = table()
    check(lambda pd, f: f.set_index("t")["z"].rolling(window, **given).mean(), frame, rtol=0)
    check(lambda pd, f: f.set_index("t")[["x", "y"]].rolling(window, **given).sum(), frame, rtol=0)
    check(lambda pd, f: f.rolling(window, on="t", **given)["x"].std(), frame, rtol=0)
    check(lambda pd, f: f[["x", "t", "y"]].rolling(window, on="t", **given).max(), frame, rtol=0)
    check(lambda pd, f: f[["k", "x", "t", "y"]].rolling(window, on="t", **given).count(), frame, rtol=0)
    check(lambda pd, f: f[f["y"] > 0].rolling(window, on="t", **given)[["y", "z"]].sum(), frame, rtol=0)
    check(lambda pd, f: f[["k", "x", "t"]].rolling(window, on="t", **given).sum(numeric_only=True), frame, rtol=0)


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
def test_units_and_zones(unit: str, zone: str | None) -> None:
    frame = table()
    frame["t"] = frame["t"].dt.as_unit(unit).dt.tz_localize(zone, ambiguous="NaT", nonexistent="NaT")
    check(lambda pd, f: f.set_index("t")["z"].rolling("5h", min_periods=1).sum(), frame, rtol=0)
    check(lambda pd, f: f.set_index("t")["z"].rolling("1500ms").count(), frame, rtol=0)
    check(lambda pd, f: f.iloc[::-1].rolling("5h", on="t")["x"].sum(), frame, rtol=0)


def test_durations_and_frequencies() -> None:
    frame = table()
    frame["t"] = frame["t"] - frame["t"].iloc[0]
    check(lambda pd, f: f.rolling("5h", on="t")["x"].sum(), frame, rtol=0)
    regular = frame.set_axis(pandas.date_range("2020", periods=len(frame), freq="h"))
    got = check(lambda pd, f: f["x"].rolling("5h").sum(), regular, rtol=0)
    assert got.index.freq == "h"


def test_times_that_pandas_refuses() -> None:
    frame = table()
    frame.loc[5, "t"] = frame.loc[30, "t"]
    check(lambda pd, f: f.rolling("5h", on="t"), frame, native=None)
    frame.loc[5, "t"] = None
    check(lambda pd, f: f.rolling("5h", on="t"), frame, native=None)
    check(lambda pd, f: f["x"].rolling("5h"), frame, native=None)
    check(lambda pd, f: f.set_index("t")["x"].rolling("ME"), table(), native=None)


def test_columns_are_chosen() -> None:
    frame = table()
    check(lambda pd, f: f.rolling(3)["x"].mean(), frame, rtol=0)
    check(lambda pd, f: f.rolling(3)[["y", "x"]].mean(), frame, rtol=0)
    check(lambda pd, f: f.rolling(3).x.mean(), frame, rtol=0)
    check(lambda pd, f: f.rolling(3).mean(numeric_only=True), frame, rtol=0)
    check(lambda pd, f: f.rolling(3)["nothing"], frame, native=None)
    check(lambda pd, f: f.rolling(3)["x"]["x"], frame, native=None)
    check(lambda pd, f: f.rolling(3).nothing, frame, native=None)
    check(lambda pd, f: f.rolling(3).mean(), frame, native=None)
    check(lambda pd, f: f["k"].rolling(3).mean(), frame, native=None)
    check(lambda pd, f: f["t"].rolling(3).mean(), frame, native=None)
    check(lambda pd, f: f[["k", "t", "z"]].rolling(3, min_periods=1).count(), frame, rtol=0)


def test_window_objects_are_those_of_pandas() -> None:
    def program(pd: Any, frame: Any) -> Any:
        large = frame[frame["y"] > 0]
        windows = [large.rolling(3, min_periods=1), large["x"].expanding(2), large.ewm(span=3), large.rolling(3)["x"]]
        names = [[type(w).__name__, repr(w), w.min_periods, w.ndim] for w in windows]
        rows = [list(map(len, large["x"].rolling(3))), [piece.index.tolist() for piece in large.rolling(2)]]
        return [*names, *rows, windows[0].window, list(windows[0]._on)]

    check(program, table(), native=None)


def test_agg() -> None:
    frame = table()
    check(lambda pd, f: f[["x", "z"]].rolling(3).agg(["mean", "max"]), frame, rtol=0)
    check(lambda pd, f: f.rolling(3).agg({"z": "mean", "y": "sum"}), frame, rtol=0)
    check(lambda pd, f: f.rolling(3).agg({"z": ["mean", "std"], "y": "sum"}), frame, rtol=0)
    check(lambda pd, f: f.rolling(3).agg(m=("z", "mean"), t=("y", "sum"), u=("z", "max")), frame, rtol=0)
    check(lambda pd, f: f["x"].expanding().agg(["sum", "first"]), frame, rtol=0)
    check(lambda pd, f: f["x"].rolling(3).agg(["sum", np.mean]), frame, native=None, rtol=0)
    check(lambda pd, f: f["x"].rolling(3).agg({"w": "sum"}), frame, native=None)
    check(lambda pd, f: f.rolling(3).agg({"nothing": "sum"}), frame, native=None)
    check(lambda pd, f: f["x"].rolling(3).agg("nothing"), frame, native=None)
    check(lambda pd, f: f["x"].rolling(3).agg(["sum", "sum"]), frame, native=None)
    check(lambda pd, f: f.rename(columns={"z": "x"})[["x"]].rolling(3).agg(["mean"]), frame, native=None)


@pytest.mark.parametrize(
    "call",
    [
        lambda f: f["x"].rolling(3, step=2).sum(),
        lambda f: f["x"].rolling(3).apply(np.sum, raw=True),
        lambda f: f["x"].rolling(pandas.api.indexers.FixedForwardWindowIndexer(window_size=3)).sum(),
        lambda f: f[["x", "y"]].rolling(3).corr(),
        lambda f: f[["x", "y"]].rolling(3).cov(f["z"]),
        lambda f: f["x"].rolling(3).quantile(2.0),
        lambda f: f["x"].rolling(-1),
        lambda f: f["x"].rolling(2, min_periods=3),
        lambda f: f["x"].rolling("2h"),
        lambda f: f["x"].rolling(3, closed="middle"),
        lambda f: f["x"].rolling(),
        lambda f: f["x"].ewm(),
        lambda f: f["x"].ewm(span=2, com=3),
        lambda f: f["x"].ewm(halflife="4D", times=f["t"]).mean(),
        lambda f: f.rolling(3, on="nothing"),
        lambda f: f.rolling(3, on="y")[["x", "z"]].mean(),
        lambda f: f.rolling(3, on="t").x.mean(),
        lambda f: f["x"].rolling(3).sum(engine="cython"),
        lambda f: f["x"].rolling(3).mean(5),
    ],
)
def test_calls_that_stay_in_pandas(call: Any) -> None:
    check(lambda pd, f: call(f), table(), native=None, rtol=0)
    check(lambda pd, f: call(f[f["y"] > 0]), table(), native=None, rtol=0)


def test_changes_after_the_call() -> None:
    def program(pd: Any, frame: Any) -> Any:
        windows, column = frame.rolling(3, min_periods=1), frame.rolling(2)["y"]
        first = [windows["z"].sum(), column.sum()]
        frame["z"] = frame["y"] * 2
        frame["y"] = 0
        frame.index = frame.index * 10
        second = [windows["z"].sum(), column.sum(), windows[["y", "z"]].max()]
        first[0].iloc[0] = -1.0
        return [*first, *second, windows["z"].sum().sum()]

    check(program, table(), native=None, rtol=0)

    def of_time(pd: Any, frame: Any) -> Any:
        windows = frame.rolling("5h", on="t")
        frame["t"] = frame["t"].iloc[::-1].array
        return windows["y"].sum()

    check(of_time, table(), native=None, rtol=0)


def test_programs(tmp_path: Any) -> None:
    def program(pd: Any, frame: Any) -> Any:
        frame = frame[frame["y"] != 0].reset_index(drop=True)
        frame["m"] = frame["z"].rolling(5, min_periods=2).mean()
        frame["d"] = frame["z"] - frame["m"]
        frame["e"] = frame["d"].ewm(span=4).std()
        high = frame[frame["d"].abs() > frame["e"].fillna(0.0)]
        total = high["x"].expanding().max().sum()
        return [frame, high[["m", "e"]], total, frame.groupby("g")["e"].mean()]

    check_sources(program, table(200)[["g", "x", "y", "z"]], tmp_path, native=True)
    check_sources(lambda pd, f: program(pd, f.iloc[:0]), table()[["g", "x", "y", "z"]], tmp_path)


@pytest.mark.parametrize("tiles", [2, 3, 7])
def test_in_tiles(tiles: int) -> None:
    def program(pd: Any, frame: Any) -> Any:
        frame = frame[frame["y"] > -3]
        two = frame[["x", "z"]]
        return [
            two.rolling(4, min_periods=1).max(),
            two.rolling(4, min_periods=1).first(),
            two.rolling(30, closed="both").min(),
            two.rolling(4).sum(),
            two.rolling(3, center=True).min(),
            two.expanding().mean(),
            two.ewm(span=3).mean(),
            frame.rolling("9h", on="t")["z"].sum(),
            frame.groupby("k")["z"].rolling(3, min_periods=1).sum(),
        ]

    with using(engine(tiles, 1)):
        check(program, table(120), rtol=0)


# -- groups -----------------------------------------------------------------------------------------------------------

KEYS: dict[str, Any] = {
    "text": lambda f: f.groupby("k"),
    "unsorted": lambda f: f.groupby("k", sort=False),
    "number": lambda f: f.groupby("g"),
    "two": lambda f: f.groupby(["k", "g"]),
    "two unsorted": lambda f: f.groupby(["g", "k"], sort=False),
    "computed": lambda f: f.groupby(f["y"] % 2),
    "boolean": lambda f: f.groupby("b"),
    "float": lambda f: f.groupby(f["z"].round()),
    "category": lambda f: f.assign(k=f["k"].astype("category")).groupby("k", observed=True),
    "times": lambda f: f.set_index("t").groupby("k"),
    "labels": lambda f: f.set_index("k").groupby(level=0),
    "missing": lambda f: f.groupby("k", dropna=False),
    "not index": lambda f: f.groupby("k", as_index=False),
    "levels": lambda f: f.set_index(["g", "k"]).groupby(level="g"),
    "selected levels": lambda f: f.set_index(["g", "z"])[lambda f: f["x"] > 0].groupby("k"),
    "nullable": lambda f: f.groupby("n"),
    "text of Python": lambda f: f.assign(k=f["k"].astype("string[python]")).groupby("k"),
    "arrow": lambda f: f.assign(k=f["g"].astype("int64[pyarrow]")).groupby("k"),
    "small": lambda f: f.assign(k=f["y"].astype("int8")).groupby("k"),
    "zone": lambda f: f.assign(k=f["t"].dt.tz_localize("UTC").dt.floor("D")).groupby("k"),
    "labels with NaN": lambda f: f.set_index("z", drop=False).groupby("g"),
    "labels with NA": lambda f: f.set_index("n").groupby("g"),
    "not index reversed": lambda f: f[::-1].assign(o=1).groupby("o", as_index=False),
    "not index ordered": lambda f: f[::3].sort_values("k", kind="stable").groupby("k", as_index=False),
    "levels of memory": lambda f: f.set_axis(pandas.MultiIndex.from_product([range(len(f)), ["v"]])).groupby("k"),
    "one group": lambda f: f.assign(o=1).groupby("o"),
    "selected": lambda f: f[f["y"] > 0].groupby("k"),
}
#: The keys for which some calls fall back.
_NATIVE: dict[str, Any] = {
    "missing": None,
    "not index": None,
    "not index ordered": None,
    "not index reversed": None,
    "levels of memory": None,
}


@pytest.mark.parametrize("rows", [0, 1, 40])
@pytest.mark.parametrize("key", KEYS)
def test_windows_of_groups(key: str, rows: int) -> None:
    native = _NATIVE.get(key, True) if rows else None
    for call in (
        lambda g: g["z"].rolling(3, min_periods=1).sum(),
        lambda g: g[["x", "y"]].rolling(2).mean(),
        lambda g: g.rolling(2, min_periods=1)["x"].max(),
        lambda g: g["x"].expanding().std(),
        lambda g: g[["z", "y"]].ewm(span=3).mean(),
        lambda g: g["z"].rolling(2).agg(["sum", "count"]),
    ):
        check(lambda pd, f, call=call: call(KEYS[key](f)), table(rows), native=native, rtol=0)


@pytest.mark.parametrize("name", STATISTICS)
@pytest.mark.parametrize("window", WINDOWS)
def test_statistics_of_groups(window: str, name: str) -> None:
    check(lambda pd, f: getattr(WINDOWS[window](f.groupby("k")["z"]), name)(), table(), native=None, rtol=0)


def test_programs_of_groups() -> None:
    def program(pd: Any, frame: Any) -> Any:
        windows = frame.groupby("k")["z"].rolling(3, min_periods=1)
        means = windows.mean()
        frame["z"] = 0.0
        later = windows.max()
        flat = means.reset_index(level=0, drop=True)
        table = means.reset_index()
        groups = frame.groupby("k").rolling(2)
        return [means, later, flat.sort_index(), table, repr(groups).partition("[")[0], groups["y"].sum().sum()]

    check(program, table(), native=None, rtol=0)


@pytest.mark.parametrize("given", [{}, {"closed": "both"}, {"closed": "left", "min_periods": 2}, {"center": True}])
@pytest.mark.parametrize(("key", "sort"), [("k", True), ("g", False), (["k", "b"], True), (["k", "b"], False)])
def test_windows_of_time_in_groups(key: Any, sort: bool, given: dict[str, Any]) -> None:
    frame = table()
    check(lambda pd, f: f.groupby(key, sort=sort).rolling("9h", on="t", **given)["z"].sum(), frame, rtol=0)
    check(lambda pd, f: f.groupby(key, sort=sort).rolling("1D", on="t", **given)[["y", "x"]].max(), frame, rtol=0)
    check(lambda pd, f: f.set_index("t").groupby(key, sort=sort)["z"].rolling("9h", **given).mean(), frame, rtol=0)
    check(lambda pd, f: f[f["y"] > 0].groupby(key).rolling("9h", on="t", **given)["z"].agg(["sum"]), frame, rtol=0)
    check(lambda pd, f: f.iloc[::-1].groupby(key).rolling("9h", on="t", **given)["z"].count(), frame, rtol=0)
    check(lambda pd, f: f.groupby(key).rolling(3, on="t", min_periods=1)["z"].sum(), frame, rtol=0)
    check(lambda pd, f: f.groupby(key).rolling("9h", on="t", **given)["z"].apply(np.sum), frame, native=False)
    check(lambda pd, f: f.iloc[:0].groupby(key).rolling("9h", on="t", **given)["z"].sum(), frame, native=None)
    frame["t"] = frame["t"].dt.as_unit("s").dt.tz_localize("UTC")
    check(lambda pd, f: f.groupby(key).rolling("9h", on="t", **given)["z"].sum(), frame, rtol=0)


def test_times_in_groups_that_pandas_refuses() -> None:
    for place, moment in ((5, "2021-01-01"), (5, None), (39, "1999-01-01")):
        frame = table()
        frame.loc[place, "t"] = pandas.Timestamp(moment)
        for column in ("k", "y", "x"):
            check(lambda pd, f, column=column: f.groupby(column).rolling("9h", on="t")["g"].sum(), frame, native=None)
            check(lambda pd, f, c=column: f.set_index("t").groupby(c)["z"].rolling("9h").sum(), frame, native=None)


@pytest.mark.parametrize(
    "call",
    [
        lambda f: f.groupby("k").rolling(3).mean(),
        lambda f: f.groupby("k").rolling(3).mean(numeric_only=True),
        lambda f: f.groupby("k").rolling("9h", on="t")["x"].mean(),
        lambda f: f.groupby("k").rolling("9h", on="t")[["x", "y"]].mean(),
        lambda f: f.groupby("k").rolling("9h", on="t").count(),
        lambda f: f[["k", "x", "t"]].groupby("k").rolling("9h", on="t").sum(),
        lambda f: f.groupby("t").rolling("9h", on="t")["x"].sum(),
        lambda f: f.groupby("k")[["x", "t"]].rolling("9h", on="t").sum(),
        lambda f: f.groupby("k")["x"].rolling(3).corr(f["z"]),
        lambda f: f.groupby("k")["x"].rolling(3).apply(np.sum, raw=True),
        lambda f: f.groupby("k")["x"].rolling(-3),
        lambda f: f.groupby("k")["x"].rolling(3, step=2),
        lambda f: f.groupby("k")["k"].rolling(3).count(),
        lambda f: f.groupby("k")[["x", "z"]].rolling(3).agg({"x": "sum", "z": ["mean", "max"]}),
        lambda f: f.groupby("k")[["x", "z"]].rolling(3).agg(["sum"]),
        lambda f: f.groupby("k")[["x", "k"]].rolling(3).count(),
        lambda f: f.groupby(f["y"].rename("x"))[["x", "z"]].rolling(3).sum(),
        lambda f: f.groupby("k")["x"].ewm(span=2, times=f["t"]),
        lambda f: list(map(len, f.groupby("k")["x"].rolling(3))),
        lambda f: f["x"].groupby(f["k"]).rolling(3).mean(),
        lambda f: f.groupby("k").rolling(3)["nothing"],
    ],
)
def test_calls_of_groups(call: Any) -> None:
    check(lambda pd, f: call(f), table(), native=None, rtol=0)
    check(lambda pd, f: call(f[f["y"] > 0]), table(), native=None, rtol=0)
