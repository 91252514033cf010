"""Group-bys by categories, arrays, functions and intervals of time, and resampling."""

from __future__ import annotations

import pandas

from tests.fuzz.building import Builder, operation
from tests.fuzz.operations.groups import PARAMETERS
from tests.fuzz.parameters import arguments

_RULES = ("D", "h", "2D", "36h", "W", "W-WED", "ME", "MS", "QE", "YE", "B", "15min", "100D")
_NAMES = (
    "sum",
    "mean",
    "min",
    "max",
    "count",
    "nunique",
    "first",
    "last",
    "std",
    "size",
    "median",
    "var",
    "any",
    "prod",
    "all",
    "sem",
)
_DIVIDED = (
    "sum",
    "mean",
    "min",
    "max",
    "count",
    "nunique",
    "first",
    "last",
    "std",
    "size",
    "median",
    "var",
    "prod",
    "ohlc",
)

_BY_ROWS = ('transform("sum")', "cumsum()", "shift()", "rank()", "head(2)", "ngroup()", "ffill()")


def _aggregated(g: Builder, v: str, names: tuple[str, ...], resampled: bool = False) -> str | None:
    """The text of an aggregation, to follow that of a group-by or a resampler."""
    column = g.column(v, "number") if g.chance(0.7) else g.column(v)
    if column is None:
        return None
    drawn = g.rng.random()
    if drawn < 0.45:
        return f"[{column}].{g.pick(names)}()"
    if drawn < 0.55 and (listed := g.column_list(v, "number", "bool")):
        return f"[{listed}].{g.pick(names)}()"
    if drawn < 0.65:
        return f".{g.pick(names)}({'numeric_only=True' if g.chance(0.4) else ''})"
    if drawn < 0.8:
        return f"[{column}].agg([{', '.join(dict.fromkeys(g.quoted(*_NAMES) for _ in range(2)))}])"
    if drawn < 0.9:
        return f".agg(one=({column}, {g.quoted(*_NAMES)}), two=({column}, {g.quoted(*_NAMES)}))"
    if resampled:
        return f".agg({{{column}: {g.quoted(*_NAMES)}}})"
    return f"[{column}].{g.pick(_BY_ROWS)}"


def _rows(g: Builder, v: str) -> int:
    value = g.value(v)
    return len(value) if isinstance(value, (pandas.DataFrame, pandas.Series)) else 0


def _row_values(g: Builder, v: str) -> str | None:
    """A key with a value for each row, as text."""
    rows = _rows(g, v)
    drawn = g.rng.random()
    if drawn < 0.3:
        column = g.column_of(v)
        return None if column is None else f"{column}.to_numpy()"
    if drawn < 0.45:
        return f"np.arange({rows}) % {g.rng.randint(1, 4)}"
    if drawn < 0.6:
        return f"[{', '.join(g.pick(['1', '2', '0']) for _ in range(rows))}]" if rows > 1 else None
    if drawn < 0.7:
        texts = ", ".join(g.pick(('"a"', '"b"', "None")) for _ in range(rows))
        return f"np.array([{texts}], dtype=object)"
    if drawn < 0.8:
        name = g.pick(('"own"', "None"))
        return f"pd.Index(np.arange({rows}) // 2, name={name})"
    if drawn < 0.9:
        return g.pick(["lambda label: str(label)[:1]", "lambda label: label == label", "str"])
    return g.pick(['{0: "a", 1: "b", 2: "a"}', "pd.Series([1, 2, 1], index=[0, 1, 2])"])


def _options(g: Builder, v: str) -> str:
    given = arguments(g, "DataFrame.groupby", v, PARAMETERS)
    return f", {given}" if given else ""


@operation("groupby of categories", "frame", 2)
def _(g: Builder, v: str) -> str | None:
    key = g.column(v)
    if key is None:
        return None
    made = f'{v}[{key}].astype("category")'
    if number := (g.column_of(v, "number") if g.chance(0.3) else None):
        made = f"pd.cut({number}, {g.pick(['3', '[-100, 0, 1, 100]', '[0, 2, 5]'])})"
    elif g.chance(0.3):
        made = f"{made}.cat.as_ordered()"
    if g.chance(0.4):
        made = f"{made}[:-1].cat.remove_unused_categories().reindex({v}.index)" if g.chance(0.1) else made
        more = g.column(v)
        made = f"[{made}, {more}]" if g.chance(0.5) else f"[{more}, {made}]"
    text = _aggregated(g, v, _NAMES)
    given = _options(g, v).replace(", observed=True", "").replace(", observed=False", "")
    return None if text is None else f"{v}.groupby({made}, observed=False{given}){text}"


@operation("groupby of row values", "frame", 2)
def _(g: Builder, v: str) -> str | None:
    key = _row_values(g, v)
    if key is None:
        return None
    if g.chance(0.3) and (more := g.column(v)):
        key = f"[{key}, {more}]" if g.chance(0.5) else f"[{more}, {key}]"
    text = _aggregated(g, v, _NAMES)
    return None if text is None else f"{v}.groupby({key}{_options(g, v)}){text}"


@operation("Series.groupby of row values", "series", 1)
def _(g: Builder, v: str) -> str | None:
    rows = _rows(g, v)
    key = g.pick(
        [
            f"np.arange({rows}) % 2",
            "lambda label: str(label)[:1]",
            f'pd.Categorical(["a"] * {rows}, categories=["b", "a"])',
        ]
    )
    return f"{v}.groupby({key}, observed=False).{g.pick(_NAMES)}()"


def _intervals(g: Builder) -> str:
    options = [f"{g.quoted(*_RULES)}"]
    if g.chance(0.2):
        options.append(f"closed={g.quoted('left', 'right')}")
    if g.chance(0.2):
        options.append(f"label={g.quoted('left', 'right')}")
    if g.chance(0.15):
        options.append(f"origin={g.quoted('start', 'epoch', 'end', 'start_day', 'end_day')}")
    if g.chance(0.1):
        options.append('offset="5h"')
    return ", ".join(options)


def _spans_few_years(g: Builder, v: str, key: str) -> bool:
    """Whether intervals of hours between the times of a column are not too many."""
    times = g.value(f"{v}[{key}]")
    if not isinstance(times, pandas.Series) or times.dtype.kind != "M" or times.isna().all():
        return isinstance(times, pandas.Series)
    return (times.max() - times.min()).days < 10_000


@operation("groupby of intervals", "frame", 2)
def _(g: Builder, v: str) -> str | None:
    key = g.column(v, "time")
    if key is None or not _spans_few_years(g, v, key):
        return None
    grouper = f"pd.Grouper(key={key}, freq={_intervals(g)})"
    if g.chance(0.3) and (more := g.column(v)):
        grouper = f"[{more}, {grouper}]"
    text = _aggregated(g, v, _DIVIDED, True)
    given = _options(g, v) if g.chance(0.3) else ""
    return None if text is None else f"{v}.groupby({grouper}{given}){text}"


@operation("DataFrame.resample", "frame", 2)
def _(g: Builder, v: str) -> str | None:
    key = g.column(v, "time")
    if key is None or not _spans_few_years(g, v, key):
        return None
    text = _aggregated(g, v, _DIVIDED, True)
    if text is None:
        return None
    intervals = _intervals(g)
    return (
        f"{v}.resample({intervals}, on={key}){text}"
        if g.chance(0.6)
        else f"{v}.set_index({key}).resample({intervals}){text}"
    )


@operation("DataFrame.groupby.resample", "frame", 2)
def _(g: Builder, v: str) -> str | None:
    key, by, column = g.column(v, "time"), g.column(v), g.column(v, "number")
    if key is None or by is None or column is None or len({key, by, column}) < 3 or not _spans_few_years(g, v, key):
        return None
    intervals = _intervals(g) if g.chance(0.4) else g.quoted("D", "W", "ME", "MS", "QE", "YE", "h")
    name = g.pick(_DIVIDED)
    if g.chance(0.3):
        return f"{v}.groupby({by})[[{column}, {key}]].resample({intervals}, on={key}).{name}()"
    return f"{v}.set_index({key}).groupby({by})[{column}].resample({intervals}).{name}()"


@operation("Series.groupby.resample", "frame", 1)
def _(g: Builder, v: str) -> str | None:
    key, by, column = g.column(v, "time"), g.column(v), g.column(v, "number")
    if key is None or by is None or column is None or len({key, by, column}) < 3 or not _spans_few_years(g, v, key):
        return None
    rows = f"{v}.set_index({key})"
    return (
        f"{rows}[{column}].groupby({rows}[{by}]).resample({g.quoted('D', 'W', 'ME', 'QE', 'YS')}).{g.pick(_DIVIDED)}()"
    )


@operation("Series.resample", "frame", 1)
def _(g: Builder, v: str) -> str | None:
    key, column = g.column(v, "time"), g.column(v)
    if key is None or column is None or key == column or not _spans_few_years(g, v, key):
        return None
    if g.chance(0.3):
        filled = g.pick(
            ["ffill()", "bfill()", "asfreq()", "nearest()", "interpolate()", "ffill(limit=1)", 'transform("mean")']
        )
        return f"{v}.set_index({key})[{column}].resample({_intervals(g)}).{filled}"
    return f"{v}.set_index({key})[{column}].resample({_intervals(g)}).{g.pick(_DIVIDED)}()"


def _part_of_day(g: Builder, v: str, column: str, between: bool) -> str | None:
    """The text of ``at_time`` or ``between_time`` of a frame or series whose row labels are times."""
    key = g.column(v, "time")
    if key is None:
        return None
    times = ("00:00", "12:30", "18:00", "23:59:59", "06:15")
    rows = f"{v}.set_index({key}){column}"
    if not between:
        return f"{rows}.at_time({g.quoted(*times)})"
    given = f", inclusive={g.quoted('left', 'right', 'both', 'neither')}" if g.chance(0.4) else ""
    return f"{rows}.between_time({g.quoted(*times)}, {g.quoted(*times)}{given})"


@operation("DataFrame.at_time", "frame", 0.3)
def _(g: Builder, v: str) -> str | None:
    return _part_of_day(g, v, "", False)


@operation("Series.at_time", "frame", 0.3)
def _(g: Builder, v: str) -> str | None:
    return _part_of_day(g, v, f"[{g.column(v)}]", False)


@operation("DataFrame.between_time", "frame", 0.3)
def _(g: Builder, v: str) -> str | None:
    return _part_of_day(g, v, "", True)


@operation("Series.between_time", "frame", 0.3)
def _(g: Builder, v: str) -> str | None:
    return _part_of_day(g, v, f"[{g.column(v)}]", True)
