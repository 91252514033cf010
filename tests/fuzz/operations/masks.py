"""Random conditions over the rows of a frame or series, as text."""

from __future__ import annotations

import re

from tests.fuzz.building import Builder, family_of

COMPARE = ("<", "<=", ">", ">=", "==", "!=")


def frame_mask(g: Builder, v: str, depth: int = 0) -> str | None:
    """A boolean series over a frame's rows."""
    drawn = g.rng.random()
    if depth < 2 and drawn < 0.18:
        one, other = frame_mask(g, v, depth + 1), frame_mask(g, v, depth + 1)
        return None if one is None or other is None else f"({one}) {g.pick(['&', '|', '&', '^'])} ({other})"
    if depth < 2 and drawn < 0.24:
        one = frame_mask(g, v, depth + 1)
        return None if one is None else f"~({one})"
    if drawn < 0.29:
        names = g.columns(v, "bool")
        if names:
            return f"{v}[{g.pick(names)}]"
    if drawn < 0.33:
        return f"{v}.duplicated({g.column_list(v) or ''})"
    if drawn < 0.37:
        found = g.aligned_series(v, "bool")
        if found is not None:
            return found
    label = g.column(v)
    if label is None:
        return None
    return series_mask(g, f"{v}[{label}]", v)


def of_columns(v: str, text: str) -> str:
    """Rewrite an expression over columns of a frame with ``pd.col``."""
    return re.sub(rf"""\b{v}\[("[^"]*"|'[^']*'|-?[0-9.]+|None)\]""", r"pd.col(\1)", text)


def series_mask(g: Builder, s: str, frame: str = "") -> str | None:
    """A boolean series over the rows of a series, which may be a column of a frame."""
    value = g.value(s)
    if getattr(value, "ndim", 0) != 1 or not hasattr(value, "dtype"):
        return None
    family = family_of(value.dtype)
    drawn = g.rng.random()
    if drawn < 0.3:
        return f"{s} {g.pick(COMPARE)} {g.similar_value(value)}"
    if drawn < 0.38:
        return f"{s}.isin([{', '.join(g.similar_value(value) for _ in range(g.rng.randint(0, 3)))}])"
    if drawn < 0.46:
        return f"{s}.{g.pick(['isna', 'notna', 'notna', 'duplicated'])}()"
    if drawn < 0.50:
        return f"{s}.between({g.similar_value(value)}, {g.similar_value(value)})"
    if drawn < 0.64:
        value_of = g.pick(["max()", "min()", "mean()", "median()", "sum()", "iloc[0]", "shift()", "max()"])
        return f"{s} {g.pick(['==', '>=', '<', '!='])} {s}.{value_of}"
    if drawn < 0.72 and family in ("number", "bool"):
        window = g.pick(["cumsum()", "diff()", "rank()", "shift()", "cummax()", "abs()", "fillna(0)"])
        return f"{s}.{window} {g.pick(COMPARE)} {g.constant('number')}"
    if drawn < 0.80 and frame:
        key = g.key(frame)
        how = g.pick(['"max"', '"min"', '"count"', '"first"', '"size"', '"nunique"', '"sum"'])
        return f"{s} {g.pick(['==', '>=', '<'])} {frame}.groupby({key})[{s.partition('[')[2][:-1]}].transform({how})"
    if drawn < 0.88 and family in ("text", "object"):
        text = g.pick(['"a"', '"b"', '""', '" "', '"1"'])
        return f"{s}.str.{g.pick(['startswith', 'endswith', 'contains'])}({text}{g.pick(['', ', na=False'])})"
    if family == "time" and drawn < 0.9:
        return f"{s}.dt.{g.pick(['year', 'month', 'day', 'hour', 'dayofweek'])} {g.pick(COMPARE)} {g.pick(['2000', '12', '1', '2020'])}"
    found = g.aligned_series(s, family)
    return f"{s} {g.pick(COMPARE)} {found}" if found else f"{s}.notna()"
