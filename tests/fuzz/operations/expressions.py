"""Random expressions of columns, and the most frequent windows and endings."""

from __future__ import annotations

from tests.fuzz.building import Builder
from tests.fuzz.operations.masks import frame_mask
from tests.fuzz.parameters import NUMBER

WINDOWS = (
    "shift()",
    "shift(-1)",
    "shift(2)",
    "cumsum()",
    "cummax()",
    "cummin()",
    "diff()",
    "rank()",
    'rank(method="first")',
    "ffill()",
    "bfill()",
    "duplicated()",
    "pct_change()",
    "shift(1, fill_value=0)",
    "cumprod()",
    'rank(method="dense", ascending=False)',
)
KEYED = (
    'transform("sum")',
    'transform("max")',
    "cumsum()",
    "shift()",
    "rank()",
    "diff()",
    'transform("count")',
    "cumcount()",
    "ffill()",
    'transform("first")',
    'transform("mean")',
    "cummax()",
    "shift(-1)",
    'transform("nunique")',
    'transform("size")',
    "ngroup()",
    "pct_change()",
)
ENDINGS = (
    "sum()",
    "mean()",
    "max()",
    "min()",
    "count()",
    "std()",
    "nunique()",
    "any()",
    "all()",
    "median()",
    "var()",
    "idxmax()",
    "prod()",
    "isna().sum()",
    "notna().all()",
    "quantile(0.25)",
    "iloc[-1]",
    "iloc[0]",
    "is_unique",
    "is_monotonic_increasing",
    "hasnans",
    "size",
)


def expression(g: Builder, v: str) -> str | None:
    """An expression that can be assigned to a column of a frame."""
    drawn = g.rng.random()
    if drawn < 0.16:
        return g.constant()
    number = g.column_of(v, "number") or g.column_of(v)
    if number is None:
        return "2"
    if drawn < 0.30:
        return f"{number}.{g.pick(WINDOWS)}"
    if drawn < 0.44:
        return f"{v}.groupby({g.keys(v)})[{number.partition('[')[2][:-1]}].{g.pick(KEYED)}"
    if drawn < 0.50:
        return f"{number}.{g.pick(WINDOWS)}.{g.pick(WINDOWS)}"
    if drawn < 0.55:
        mask = frame_mask(g, v)
        return (
            None
            if mask is None
            else g.pick(
                [
                    mask,
                    f"np.where({mask}, {number}, {g.constant('number')})",
                    f"{number}.where({mask})",
                    f"{number}.mask({mask}, 0)",
                ]
            )
        )
    if drawn < 0.62:
        return f"{number} {g.pick(['+', '-', '*', '/', '//', '%'])} {g.pick([g.column_of(v, 'number') or '2', NUMBER(g, v)])}"
    if drawn < 0.66:
        return f"{number}.{g.pick(['sum()', 'mean()', 'max()', 'min()', 'count()', 'std()', 'iloc[0]'])}"
    if drawn < 0.71:
        return f"{number} - {number}.{g.pick(['mean()', 'min()', 'shift()', 'cummax()', 'sum()'])}"
    if drawn < 0.76:
        order = g.column(v)
        return f'{v}.sort_values({order}, kind="stable")[{number.partition("[")[2][:-1]}].{g.pick(WINDOWS)}'
    if drawn < 0.80:
        return g.aligned_series(v) or number
    if drawn < 0.85:
        text = g.column_of(v, "text", "object")
        call = g.pick(["upper()", "len()", "strip()", 'replace("a", "z")', "slice(0, 1)", 'contains("a")'])
        return None if text is None else f"{text}.str.{call}"
    if drawn < 0.89:
        time = g.column_of(v, "time")
        call = g.pick(["year", "month", 'floor("D")', "dayofweek", "day_name()"])
        return None if time is None else f"{time}.dt.{call}"
    if drawn < 0.93:
        return g.pick(
            [
                f"np.arange(len({v}))",
                f"range(len({v}))",
                f"list(range(len({v})))",
                f"np.arange(len({v})) % 3",
                f"pd.Series(range(len({v})), index={v}.index)",
            ]
        )
    return g.column_of(v)
