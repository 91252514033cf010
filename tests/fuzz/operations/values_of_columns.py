"""Dates and numbers from text, functions of each value, sorts by a function, and replacements by columns and patterns."""

from __future__ import annotations

from tests.fuzz.building import Builder, Statement, operation

FORMATS = [
    "%Y-%m-%d",
    "%Y/%m/%d",
    "%d/%m/%Y",
    "%m/%d/%Y",
    "%Y%m%d",
    "%d-%b-%Y",
    "%Y-%m-%d %H:%M",
    "%Y-%m-%d %H:%M:%S",
    "%Y-%m-%dT%H:%M:%S",
    "%Y-%m-%dT%H:%M:%S.%f",
]


@operation("to_datetime", "time", 1.0)
def _(g: Builder, v: str) -> str | None:
    format = g.pick(FORMATS)
    texts = f'{v}.dt.strftime("{format}")'
    if g.chance(0.3):
        texts = f'{texts}.fillna("{g.pick(["", "NaT", "2020-02-30", "x", "2020-1-2"])}")'
    named = g.pick(["", f', format="{format}"', ", dayfirst=True", f', format="{g.pick(FORMATS)}"'])
    more = g.pick(["", "", ', errors="coerce"', ", utc=True"])
    if g.chance(0.2):
        return f'{texts}.astype("datetime64[{g.pick(["us", "ns", "s"])}]")'
    return f"pd.to_datetime({texts}{named}{more})"


@operation("to_datetime", "time", 0.3)
def _(g: Builder, v: str) -> str | None:
    parts = ", ".join(f'"{part}": {v}.dt.{part}' for part in g.some(["day", "month", "year"], 3) or ["day"])
    return f"pd.to_datetime(pd.DataFrame({{{parts}}}).dropna())"


@operation("Series.cat", "frame", 0.5)
def _(g: Builder, v: str) -> str | None:
    column = g.column_of(v, "category") or f"{g.column_of(v)}.astype('category')"
    member = g.pick(
        [
            "codes",
            "as_ordered()",
            "as_unordered()",
            'add_categories(["new"])',
            "remove_unused_categories()",
            'rename_categories({"a": "A"})',
            'set_categories(["a", "b"])',
            "categories",
        ]
    )
    return f"{column}.cat.{member}"


@operation("Series.dt.components", "span", 0.5)
def _(g: Builder, v: str) -> str | None:
    return f"{v}.dt.components"


@operation("pandas.to_timedelta", "number_series", 0.4)
def _(g: Builder, v: str) -> str | None:
    return f'pd.to_timedelta({v}, unit="{g.pick(["s", "D", "ms"])}", errors="{g.pick(["raise", "coerce"])}")'


@operation("pandas.to_timedelta", "span", 0.3)
def _(g: Builder, v: str) -> str | None:
    return f"pd.to_timedelta({v}.astype(str))"


@operation("Series.update", "series", 0.5)
def _(g: Builder, v: str) -> str | None:
    other = g.aligned_series(v)
    return None if other is None else Statement(f"{v}.update({other})")


@operation("Series.factorize", "series", 0.4)
def _(g: Builder, v: str) -> str | None:
    return f"{v}.factorize({g.pick(['', 'sort=True', 'use_na_sentinel=False'])})"


@operation("to_datetime", "text", 0.3)
def _(g: Builder, v: str) -> str | None:
    return f'pd.to_datetime({v}, errors="coerce"{g.pick(["", ", utc=True", ", dayfirst=True"])})'


@operation("to_datetime", "number_series", 0.2)
def _(g: Builder, v: str) -> str | None:
    return f'pd.to_datetime({v}, unit="{g.pick(["s", "ms", "D"])}", errors="coerce")'


@operation("to_numeric", "text", 0.4)
def _(g: Builder, v: str) -> str | None:
    return f'pd.to_numeric({v}, errors="{g.pick(["raise", "coerce", "coerce"])}")'


@operation("to_numeric", "number_series", 0.3)
def _(g: Builder, v: str) -> str | None:
    return f"pd.to_numeric({v}.astype(str))"


@operation("Series.map of a known function", "text", 0.8)
def _(g: Builder, v: str) -> str | None:
    function = g.pick(
        ["len", "str.upper", "str.title", "str.strip", "str", '{"a": 1, "b": 2}.get', '"<{}>".format', "repr", "float"]
    )
    if g.chance(0.4):
        return f"{v}.apply({function})"
    action = g.pick(["", ', na_action="ignore"'])
    return f"{v}.map({function}{action})"


@operation("Series.map of a known function", "number_series", 0.8)
def _(g: Builder, v: str) -> str | None:
    function = g.pick(["abs", "int", "float", "bool", "str", "np.sqrt", "np.floor", "np.isnan", '"{:.2f}".format'])
    return f"{v}.{g.pick(['map', 'apply'])}({function})"


@operation("Series.apply of a function of NumPy", "number_series", 0.4)
def _(g: Builder, v: str) -> str | None:
    return f"{v}.apply({g.pick(['np.log1p', 'np.exp', 'np.sqrt', 'np.abs', 'np.sign'])})"


@operation("DataFrame.sort_values by a function", "frame", 0.6)
def _(g: Builder, v: str) -> str | None:
    labels = g.columns(v, "text") or g.columns(v, "number")
    if not labels:
        return None
    text = bool(g.columns(v, "text"))
    functions = (
        ["lambda s: s.str.lower()", "lambda s: s.str.len()", 'lambda s: s.map({"a": 2, "b": 1})']
        if text
        else ["abs", "lambda s: -s", "np.sqrt", "lambda s: s.isna()", "lambda s: s.rank()"]
    )
    by = g.pick([g.pick(labels), f"[{', '.join(g.some(labels, 2))}]"])
    named = g.pick(["", ", ascending=False", ', na_position="first"', ", ignore_index=True"])
    return f'{v}.sort_values({by}, key={g.pick(functions)}, kind="stable"{named})'


@operation("Series.sort_values by a function", "text", 0.4)
def _(g: Builder, v: str) -> str | None:
    return f'{v}.sort_values(key=lambda s: s.str.{g.pick(["lower", "len", "upper"])}(), kind="stable")'


@operation("Series.sort_values by a function", "number_series", 0.3)
def _(g: Builder, v: str) -> str | None:
    return f'{v}.sort_values(key={g.pick(["abs", "lambda s: -s", "lambda s: s % 3"])}, kind="stable")'


@operation("Series.clip by a column", "number_series", 0.6)
def _(g: Builder, v: str) -> str | None:
    bound = g.aligned_series(v, "number")
    if bound is None:
        return None
    return g.pick(
        [f"{v}.clip(lower={bound})", f"{v}.clip(upper={bound})", f"{v}.clip({bound}, {v})", f"{v}.clip(0, {bound})"]
    )


PATTERNS = ['"a", "z"', '["a", "^b"], "z"', '{"a": "b", "b+": "c"}', '"[ab]$", "<\\\\g<0>>"', '".", ""']


@operation("replace by patterns", "text", 0.5)
def _(g: Builder, v: str) -> str | None:
    return f"{v}.replace({g.pick(PATTERNS)}, regex=True)"


@operation("replace by patterns", "frame", 0.2)
def _(g: Builder, v: str) -> str | None:
    return f"{v}.replace({g.pick(PATTERNS)}, regex=True)"


@operation("Series.astype", "frame", 0.3)
def _(g: Builder, v: str) -> str | None:
    column = g.column_of(v, "category")
    dtype = g.pick(["str", '"string"', '"float64"', '"Int64"'])
    return None if column is None else f"{column}.astype({dtype})"
