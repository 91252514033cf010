"""Statistics of frames: along the columns, between columns, and with an argument for each column or row."""

from __future__ import annotations

from tests.fuzz.building import Builder, operation
from tests.fuzz.operations.masks import frame_mask
from tests.fuzz.parameters import FLAG, NUMBER, maybe, method, numeric, of

ALONG = of("1", '"columns"')

for _name, _usual in {
    "sum": "skipna numeric_only min_count",
    "prod": "skipna numeric_only min_count",
    "mean": "skipna numeric_only",
    "median": "skipna numeric_only",
    "min": "skipna numeric_only",
    "max": "skipna numeric_only",
    "std": "skipna numeric_only ddof",
    "var": "skipna numeric_only ddof",
    "sem": "skipna numeric_only ddof",
    "skew": "skipna numeric_only",
    "kurt": "skipna numeric_only",
    "count": "numeric_only",
    "nunique": "dropna",
    "any": "skipna",
    "all": "skipna",
    "idxmax": "skipna numeric_only",
    "idxmin": "skipna numeric_only",
    "ffill": "",
    "bfill": "",
}.items():
    method(f"DataFrame.{_name}", "frame", _usual, weight=0.3, through=numeric, axis_=ALONG)
for _name, _usual in {
    "cumsum": "skipna",
    "cummax": "skipna",
    "cumprod": "",
    "diff": "periods",
    "shift": "periods",
    "rank": "method ascending pct na_option",
}.items():
    method(f"DataFrame.{_name}", "frame", _usual, weight=0.2, through=numeric, axis_=ALONG)
for _name in ("count", "nunique"):
    method(f"DataFrame.{_name}", "frame", "", weight=0.2, axis_=ALONG)
for _name in ("any", "all", "max", "min"):
    method(f"DataFrame.{_name}", "frame", "", weight=0.1, through=numeric, axis_=of("None"))
method(
    "DataFrame.transform",
    "frame",
    "",
    weight=0.3,
    through=numeric,
    func_=of('"abs"', '"cumsum"', '"diff"', "np.sign", "np.floor"),
)
method("DataFrame.apply", "frame", "axis", weight=0.3, through=numeric, func_=of('"sum"', '"max"', '"nunique"'))
method("DataFrame.apply", "frame", "", weight=0.2, through=numeric, func_=of("np.floor", "np.sign"))
method("DataFrame.skew", "frame", "skipna numeric_only", weight=0.3, through=numeric)
method("DataFrame.kurtosis", "frame", "skipna numeric_only", weight=0.3, through=numeric)
for _name in ("corr", "cov"):
    method(
        f"DataFrame.{_name}", "frame", "numeric_only", weight=0.5, through=numeric, min_periods=maybe(of("1", "3"), 0.3)
    )
method("DataFrame.corr", "frame", "", weight=0.3, through=numeric, method_=of('"spearman"', '"kendall"'))
method(
    "DataFrame.corrwith",
    "frame",
    "",
    weight=0.6,
    through=numeric,
    other_=lambda g, v: g.aligned_series(v, "number") if g.chance(0.6) else v,
    method=maybe(of('"spearman"'), 0.3),
    drop=maybe(FLAG, 0.2),
)
method("DataFrame.mode", "frame", "dropna numeric_only", weight=0.5)
method("DataFrame.dropna", "frame", "", weight=0.5, axis_=ALONG, how=maybe(of('"any"', '"all"'), 0.5))
method("DataFrame.dropna", "frame", "", weight=0.3, axis_=ALONG, thresh_=of("0", "1", "3"))
method(
    "DataFrame.round",
    "frame",
    "",
    weight=0.6,
    decimals_=lambda g, v: (
        g.pick([f"{{{g.column(v)}: 1}}", f"{{{g.column(v)}: -1, 'none': 2}}", "1"]) if g.columns(v) else None
    ),
)
method(
    "DataFrame.interpolate",
    "frame",
    "",
    weight=0.6,
    through=numeric,
    method=maybe(of('"linear"', '"index"', '"values"'), 0.4),
    limit=maybe(of("1", "2"), 0.4),
    limit_direction=maybe(of('"forward"', '"backward"', '"both"'), 0.5),
    limit_area=maybe(of('"inside"', '"outside"'), 0.3),
)
method(
    "DataFrame.agg",
    "frame",
    "",
    weight=0.4,
    through=numeric,
    func_=lambda g, v: g.pick(
        ['["skew", "kurt"]', '["count", "nunique", "size"]', '["idxmin", "idxmax"]', '["sum", "skew"]']
    ),
)
method("DataFrame.agg", "frame", "", weight=0.3, through=numeric, func_=of('"sum"', '"max"', '"mean"'), axis_=of("1"))

for _name, _usual in {"skew": "skipna", "kurt": "skipna", "kurtosis": "skipna numeric_only"}.items():
    method(f"Series.{_name}", "series", _usual, weight=0.4, wants=lambda s: s.dtype.kind in "iuf")
method(
    "Series.autocorr",
    "series",
    "",
    weight=0.3,
    wants=lambda s: s.dtype.kind in "iuf",
    lag=maybe(of("0", "2", "-1"), 0.5),
)
for _name in ("corr", "cov", "dot"):
    method(
        f"Series.{_name}",
        "series",
        "",
        weight=0.4,
        wants=lambda s: s.dtype.kind in "iuf",
        other_=lambda g, v: g.aligned_series(v, "number"),
    )
method(
    "Series.corr",
    "series",
    "",
    weight=0.3,
    wants=lambda s: s.dtype.kind in "iuf",
    other_=lambda g, v: g.aligned_series(v, "number"),
    method=maybe(of('"spearman"', '"kendall"'), 0.5),
    min_periods=maybe(of("2", "9"), 0.4),
)
method(
    "Series.value_counts",
    "series",
    "",
    weight=0.3,
    wants=lambda s: s.dtype.kind in "iuf",
    bins_=of("2", "3", "[-1, 0, 2]"),
)
method("Series.mode", "series", "dropna", weight=0.3)
method(
    "Series.interpolate",
    "series",
    "",
    weight=0.5,
    wants=lambda s: s.dtype.kind in "iuf",
    method=maybe(of('"linear"', '"index"', '"time"'), 0.4),
    limit=maybe(of("1", "2"), 0.4),
    limit_direction=maybe(of('"forward"', '"backward"', '"both"'), 0.5),
    limit_area=maybe(of('"inside"', '"outside"'), 0.3),
)
for _name in ("mean", "median", "std", "sum", "sem"):
    method(f"Series.{_name}", "series", "skipna", weight=0.1, wants=lambda s: s.dtype.kind in "mM")


def _row(g: Builder, v: str) -> str:
    """A value for each column of a frame of numbers."""
    return g.pick(
        [
            f"{v}.mean()",
            f"{v}.min()",
            f"{v}.sum()",
            f"{v}.median()",
            f"{v}.max().astype('float64')",
            f"[1.5] * {v}.shape[1]",
            f"np.arange({v}.shape[1])",
            f"{v}.count()",
        ]
    )


@operation("operator along the columns", "frame", 2)
def _(g: Builder, v: str) -> str | None:
    data = numeric(g, v)
    if data is None:
        return None
    row = _row(g, data)
    mark = g.pick(["+", "-", "*", "/", ">", "<=", "==", "!="])
    word = g.pick(["add", "sub", "mul", "div", "gt", "eq", "rsub", "rtruediv"])
    series = row if "(" in row and "np." not in row else f"{data}.mean()"
    return g.pick(
        [
            f"{data} {mark} {row}",
            f"{data}.{word}({row}, axis=1)" if row == series else f"{data}.{word}({row})",
            f"{series} {g.pick('+-*/')} {data}",
            f"({data} - {data}.mean()) / {data}.std()",
            f"({data} - {data}.min()) / ({data}.max() - {data}.min())",
            f"{data}.div({data}.sum(axis=1), axis=0)",
        ]
    )


@operation("an argument for each column or row", "frame", 2)
def _(g: Builder, v: str) -> str | None:
    data = numeric(g, v)
    if data is None:
        return None
    floats = f"{data}.astype('float64')" if g.chance(0.5) else data
    series = g.aligned_series(v, "number")
    choices = [
        f"{floats}.clip({floats}.quantile(0.25), {floats}.quantile(0.75), axis=1)",
        f"{floats}.clip(lower={floats}.mean(), axis=1)",
        f"{floats}.clip(upper=[{NUMBER(g, v)}] * {data}.shape[1], axis=1)",
        f"{floats}.where({floats} > 0, {floats}.mean(), axis=1)",
        f"{floats}.mask({floats} > 0, {floats}.max(), axis=1)",
        f"{floats}.fillna({floats}.mean())",
        f"{floats}.fillna({floats}.median())",
        f"{floats}.fillna(-{floats})",
    ]
    mask = frame_mask(g, v)
    if mask is not None:
        choices.append(f"{data}.where({mask}, {NUMBER(g, v)}, axis=0)")
    if series is not None:
        choices += [
            f"{floats}.clip(lower={series}, axis=0)",
            f"{floats}.clip(upper={series}.astype('float64'), axis=0)",
            f"{floats}.where({floats} > 0, {series}.astype('float64'), axis=0)",
        ]
    return g.pick(choices)


@operation("DataFrame.dot", "frame", 0.5)
def _(g: Builder, v: str) -> str | None:
    data = numeric(g, v)
    if data is None:
        return None
    data = f"{data}.astype('float64')" if g.chance(0.5) else data
    matrix = f"np.arange({data}.shape[1] * 2).reshape(-1, 2)"
    others = [_row(g, data), f"np.arange({data}.shape[1])", matrix, f"pd.DataFrame({matrix}, index={data}.columns)"]
    return f"{data}.dot({g.pick(others)})" if g.chance(0.5) else f"{data} @ {g.pick(others)}"


@operation("bounds of a series", "series", 0.8)
def _(g: Builder, v: str) -> str | None:
    value = g.value(v)
    other = g.aligned_series(v, "number")
    if other is None or value.dtype.kind not in "iuf":
        return None
    return g.pick(
        [
            f"{v}.clip(lower={other})",
            f"{v}.clip(upper={other})",
            f"{v}.clip({other}, {other} + 1)",
            f"{v}.clip({NUMBER(g, v)}, {other})",
            f"{v}.astype('float64').clip(lower={other}.astype('float64'))",
            f"{v}.clip({v}.shift(), {v}.shift(-1))",
        ]
    )
