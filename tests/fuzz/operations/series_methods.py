"""Methods of Series."""

from __future__ import annotations

from tests.fuzz.building import Builder, Statement, family_of, operation
from tests.fuzz.operations.expressions import ENDINGS, WINDOWS
from tests.fuzz.operations.masks import COMPARE, series_mask
from tests.fuzz.parameters import (
    FLAG,
    NUMBER,
    attribute,
    ints,
    mapping,
    maybe,
    method,
    near,
    near_list,
    of,
    one_with_levels,
    series_or_number,
    series_or_value,
)

R = "skipna"
for _name, _usual in {
    "sum": f"{R} min_count",
    "prod": f"{R} min_count",
    "mean": R,
    "median": R,
    "std": f"{R} ddof",
    "var": f"{R} ddof",
    "sem": f"{R} ddof",
    "cumsum": R,
    "cumprod": R,
    "diff": "periods",
    "pct_change": "periods",
    "abs": "",
    "skew": "",
    "kurt": "",
    "autocorr": "",
}.items():
    method(f"Series.{_name}", "number_series", _usual, weight=1)
    method(f"Series.{_name}", "series", _usual, weight=0.3)
for _name, _usual in {
    "min": R,
    "max": R,
    "count": "",
    "nunique": "dropna",
    "any": R,
    "all": R,
    "idxmax": R,
    "idxmin": R,
    "argmax": R,
    "argmin": R,
    "cummin": R,
    "cummax": R,
    "isna": "",
    "isnull": "",
    "notna": "",
    "notnull": "",
    "unique": "",
    "describe": "",
    "mode": "dropna",
    "ffill": "limit",
    "bfill": "limit",
    "keys": "",
    "first_valid_index": "",
    "last_valid_index": "",
    "drop_duplicates": "keep ignore_index",
    "duplicated": "keep",
    "dropna": "ignore_index",
    "value_counts": "normalize sort ascending dropna",
    "rank": "method ascending pct na_option",
    "to_list": "",
    "to_numpy": "",
    "argsort": "",
    "convert_dtypes": "",
    "infer_objects": "",
}.items():
    method(f"Series.{_name}", "series", _usual, weight=0.2 if _name in ("keys", "to_numpy", "convert_dtypes") else 1)

method(
    "Series.quantile", "number_series", "interpolation", q=maybe(of("0.5", "0.25", "[0.25, 0.75]", "0", "1", "[]"), 0.8)
)
method("Series.shift", "series", "periods", weight=2, fill_value=maybe(near, 0.2))
method("Series.round", "number_series", "", decimals=maybe(of("0", "1", "-1"), 0.6))
method("Series.clip", "number_series", "", lower=maybe(NUMBER, 0.6), upper=maybe(NUMBER, 0.6))
method("Series.clip", "series", "", weight=0.3, upper_=near)
method("Series.between", "series", "inclusive", left_=near, right_=series_or_value)
method(
    "Series.isin",
    "series",
    "",
    weight=1.5,
    values_=lambda g, v: g.pick(
        [
            near_list(g, v),
            f"np.array({near_list(g, v)})",
            f"pd.Series({near_list(g, v)})",
            f"set({near_list(g, v)})",
            g.aligned_series(v) or "[]",
            f"pd.Index({near_list(g, v)})",
        ]
    ),
)
method("Series.fillna", "series", "limit", value_=series_or_value)
method(
    "Series.map",
    "series",
    "",
    func_=lambda g, v: g.pick([mapping(g, v), f"pd.Series({mapping(g, v)})", "lambda x: x", "str", "lambda x: x == 1"]),
    na_action=maybe('"ignore"', 0.3),
)
method("Series.replace", "series", "", to_replace_=lambda g, v: g.pick([near(g, v), near_list(g, v)]), value_=near)
method("Series.replace", "series", "", weight=0.6, to_replace_=mapping)
method("Series.where", "series", "", cond_=lambda g, v: series_mask(g, v), other=maybe(series_or_value, 0.6))
method("Series.mask", "series", "", cond_=lambda g, v: series_mask(g, v), other=maybe(series_or_value, 0.6))
method(
    "Series.astype",
    "series",
    "",
    weight=2,
    dtype_=lambda g, v: g.pick(
        [
            '"float64"',
            '"str"',
            '"int64"',
            '"float32"',
            '"object"',
            '"Int64"',
            '"category"',
            '"bool"',
            '"string"',
            '"int8"',
            "float",
            "str",
            '"Float64"',
            '"boolean"',
            '"datetime64[ns]"',
            '"int64[pyarrow]"',
            '"uint8"',
            '"datetime64[us]"',
            '"timedelta64[ns]"',
            '"double[pyarrow]"',
        ]
    ),
)
method(
    "Series.sort_index",
    "series",
    "ascending ignore_index",
    kind=maybe('"stable"', 0.4),
    na_position=maybe(of('"first"', '"last"'), 0.3),
    level=maybe("0", 0.1),
)
method(
    "Series.sort_values",
    "series",
    "ascending ignore_index",
    weight=4,
    kind=maybe(of('"stable"', '"mergesort"'), 0.4),
    na_position=maybe(of('"first"', '"last"'), 0.3),
)
method("Series.argsort", "series", kind=maybe(of('"stable"', '"quicksort"'), 0.5))
method("Series.infer_objects", "series", "", weight=0.2)
method("Series.squeeze", "series", "", weight=0.2)
method("Series.nlargest", "number_series", "keep", n=maybe(ints(0, 6), 0.7))
method("Series.nsmallest", "number_series", "keep", n=maybe(ints(0, 6), 0.7))
method("Series.head", "series", "", n=maybe(ints(-2, 8), 0.8))
method("Series.tail", "series", "", n=maybe(ints(-2, 8), 0.8))
method("Series.take", "series", "", weight=0.4, indices_=of("[0]", "[1, 0]", "[-1, 0, 0]", "[]"))
method("Series.truncate", "series", "", weight=0.3, before=maybe(ints(0, 3), 0.7), after=maybe(ints(2, 8), 0.7))
method("Series.sample", "series", "ignore_index", weight=0.4, n_=of("1", "2", "0"), random_state_=ints(0, 9))
method("Series.sample", "series", "", weight=0.3, frac_=of("0.5", "1"), random_state_=ints(0, 9))
method("Series.rename", "series", "", _index_=of('"renamed"', "None", '"k"', "0"))
method("Series.rename", "series", "", weight=0.2, _index_=of("{0: 10}", "str"))
method("Series.rename_axis", "series", "", weight=0.3, _mapper_=of('"rows"', "None"))
method("Series.reset_index", "series", "", drop_=of("True"))
method("Series.reset_index", "series", "", name=maybe('"val"', 0.6), drop=maybe("False", 0.2), level=maybe("0", 0.1))
method("Series.to_frame", "series", "", name=maybe('"f"', 0.4))
method("Series.set_axis", "series", "", weight=0.3, labels_=lambda g, v: f"range(len({v}))")
method("Series.combine_first", "series", "", weight=0.5, other_=lambda g, v: g.aligned_series(v))
method("Series.copy", "series", "", weight=0.4, deep=maybe(FLAG, 0.3))
method("Series.droplevel", "frame", "", weight=0.4, through=one_with_levels, level_=of("0", "1", "-1"))
method("Series.reorder_levels", "frame", "", weight=0.3, through=one_with_levels, order_=of("[1, 0]"))
method("Series.swaplevel", "frame", "", weight=0.4, through=one_with_levels)
method(
    "Series.unstack",
    "series",
    "",
    weight=0.6,
    wants=lambda s: s.index.nlevels > 1,
    fill_value=maybe("0", 0.3),
    level=maybe(of("0", "-1"), 0.3),
)
method("Series.agg", "number_series", "", func_=of('"sum"', '["sum", "max"]', '["min", "count"]', '"mean"'))
method("Series.aggregate", "number_series", "", weight=0.3, func_=of('"sum"', '["mean", "std"]'))
method("Series.transform", "number_series", "", weight=0.3, func_=of('"abs"', '"cumsum"', "lambda s: s + 1"))
method(
    "Series.apply",
    "series",
    "",
    weight=0.5,
    func_=of("str", "lambda x: x", "lambda x: x * 2", "type", "lambda x: None"),
)
method(
    "Series.to_csv", "series", "", weight=0.3, index=maybe(FLAG, 0.5), header=maybe(FLAG, 0.2), sep=maybe('";"', 0.1)
)
method("Series.memory_usage", "number_series", "", weight=0.1, index_=of("False"))
method("Series.equals", "series", "", weight=0.3, other_=lambda g, v: g.aligned_series(v))
method("Series.corr", "number_series", "", weight=0.3, other_=lambda g, v: g.aligned_series(v, "number"))
for _name in [
    "dtype",
    "dtypes",
    "name",
    "size",
    "shape",
    "empty",
    "index",
    "axes",
    "ndim",
    "hasnans",
    "is_unique",
    "is_monotonic_increasing",
    "is_monotonic_decreasing",
]:
    attribute(f"Series.{_name}", "series", 0.3)


@operation("Series.values", "series", 0.3)
def _(g: Builder, v: str) -> str:
    return f"{v}.values.copy()"  # without a copy, later writes into the column would change pandas' array


for _name in [
    "add",
    "sub",
    "mul",
    "div",
    "truediv",
    "floordiv",
    "mod",
    "pow",
    "radd",
    "rsub",
    "rmul",
    "rtruediv",
    "rfloordiv",
    "rmod",
    "rpow",
    "multiply",
    "subtract",
    "divide",
    "rdiv",
]:
    method(f"Series.{_name}", "number_series", "", weight=0.2, other_=series_or_number, fill_value=maybe("0", 0.25))
for _name in ["eq", "ne", "lt", "le", "gt", "ge"]:
    method(f"Series.{_name}", "series", "", weight=0.2, other_=series_or_value, fill_value=maybe("0", 0.05))


@operation("operators of series", "series", 4)
def _(g: Builder, v: str) -> str | None:
    value = g.value(v)
    if getattr(value, "ndim", 0) != 1:
        return None
    family = family_of(value.dtype)
    if family == "number":
        return g.pick(
            [
                f"{v} {g.pick(['+', '-', '*', '/', '//', '%', '**'])} {series_or_number(g, v)}",
                f"{NUMBER(g, v)} {g.pick(['-', '+', '*', '/'])} {v}",
                f"-{v}",
                f"abs({v})",
                f"np.sqrt({v})",
                f"np.log1p(abs({v}))",
                f"np.sign({v})",
                f"np.exp({v} * 0)",
                f"np.maximum({v}, 1)",
                f"np.floor({v})",
                f"np.isnan({v})",
                f"+{v}",
                f"np.{g.pick(['negative', 'positive', 'absolute', 'rint', 'square', 'isfinite', 'signbit', 'logical_not'])}({v})",
                f"np.{g.pick(['bitwise_and', 'bitwise_or', 'bitwise_xor', 'fmax', 'hypot'])}({v}, {series_or_number(g, v)})",
            ]
        )
    if family == "bool":
        return g.pick(
            [
                f"~{v}",
                f"{v} & {g.aligned_series(v, 'bool') or 'True'}",
                f"{v} | {g.aligned_series(v, 'bool') or 'False'}",
                f"{v} ^ True",
                f"{g.pick('-+')}{v}",
                f"np.{g.pick(['negative', 'positive', 'absolute', 'invert', 'logical_not', 'sign', 'square'])}({v})",
                f"np.bitwise_{g.pick(['and', 'or', 'xor'])}({v}, {g.aligned_series(v, 'bool') or 'True'})",
                f"{v} + 1",
                f"{v}.astype(int)",
            ]
        )
    if family in ("time", "span"):
        return g.pick(
            [
                f"{v} - {near(g, v)}",
                f'{v} + pd.Timedelta("1D")',
                f"{v} - {g.aligned_series(v, family) or v}",
                f"{v} {g.pick(COMPARE)} {near(g, v)}",
                f"{v} - {v}.min()",
                f"{v}.diff()",
            ]
        )
    if family in ("text", "object"):
        return g.pick(
            [
                f'{v} + "z"',
                f'"z" + {v}',
                f"{v} + {v}",
                f"{v} * 2",
                f"{v} == {g.aligned_series(v, family) or near(g, v)}",
            ]
        )
    return f"{v} {g.pick(COMPARE)} {g.aligned_series(v, family) if g.chance(0.3) else near(g, v)}"


@operation("Series.__getitem__", "series", 2.5)
def _(g: Builder, v: str) -> str | None:
    mask = series_mask(g, v)
    return None if mask is None else f"{v}[{mask}]"


@operation("Series.loc", "series", 0.8)
def _(g: Builder, v: str) -> str | None:
    index = g.value(f"{v}.index")
    if index is None:
        return None
    one, other = g.similar_value(index.to_series()), g.similar_value(index.to_series())
    return f"{v}.loc[{g.pick([f'{one}:{other}', f'[{one}, {other}]', one, f'{series_mask(g, v)}'])}]"


@operation("Series.iloc", "series", 1)
def _(g: Builder, v: str) -> str | None:
    return f"{v}.iloc[{g.pick(['0', '-1', ':3', '::2', '::-1', '-2:', '[0, 1]', '1:1', '2:'])}]"


@operation("ending", "series", 3)
def _(g: Builder, v: str) -> str | None:
    return f"{v}.{g.pick(ENDINGS)}"


@operation("ending of a window", "number_series", 3)
def _(g: Builder, v: str) -> str | None:
    return f"{v}.{g.pick(WINDOWS)}.{g.pick(ENDINGS)}"


@operation("window of a window", "number_series", 2)
def _(g: Builder, v: str) -> str | None:
    return f"{v}.{g.pick(WINDOWS)}.{g.pick(WINDOWS)}"


@operation("np.where", "series", 0.8)
def _(g: Builder, v: str) -> str | None:
    mask = series_mask(g, v)
    return None if mask is None else f"np.where({mask}, {series_or_value(g, v)}, {near(g, v)})"


@operation("pandas.to_numeric", "text", 0.6)
def _(g: Builder, v: str) -> str | None:
    g.note_parameter("pandas.to_numeric", "arg")
    g.note_parameter("pandas.to_numeric", "errors")
    return f'pd.to_numeric({v}, errors="{g.pick(["coerce", "raise"])}")'


@operation("pandas.to_datetime", "text", 0.6)
def _(g: Builder, v: str) -> str | None:
    for parameter in ("arg", "errors", "format", "utc"):
        g.note_parameter("pandas.to_datetime", parameter)
    tail = g.pick(["", ', errors="coerce"', ', errors="coerce", format="%Y-%m-%d"', ', utc=True, errors="coerce"'])
    return f"pd.to_datetime({v}{tail})"


@operation("pandas.to_datetime", "number_series", 0.2)
def _(g: Builder, v: str) -> str | None:
    g.note_parameter("pandas.to_datetime", "unit")
    return f'pd.to_datetime({v}, unit="{g.pick(["s", "D", "ms"])}")'


@operation("Series in place", "series", 1)
def _(g: Builder, v: str) -> str | None:
    if "[" in v:
        return None
    name = g.pick(
        [
            'sort_values(kind="stable", inplace=True)',
            "fillna(0, inplace=True)",
            "ffill(inplace=True)",
            "bfill(inplace=True)",
            "drop_duplicates(inplace=True)",
            "dropna(inplace=True)",
            "replace(1, 5, inplace=True)",
            'sort_index(kind="stable", inplace=True)',
            'rename("renamed", inplace=True)',
            f"where({v}.notna(), 0, inplace=True)",
            f"mask({v}.isna(), 0, inplace=True)",
            "clip(upper=2, inplace=True)",
            'rename_axis("rows", inplace=True)',
        ]
    )
    g.note_parameter(f"Series.{name.partition('(')[0]}", "")
    g.note_parameter(f"Series.{name.partition('(')[0]}", "inplace")
    return Statement(f"{v}.{name}")


@operation("Series.__setitem__", "series", 1)
def _(g: Builder, v: str) -> str | None:
    if "[" in v:
        return None
    mask = series_mask(g, v)
    return Statement(
        g.pick(
            [
                f"{v}[{mask}] = {near(g, v)}",
                f"{v}.iloc[0] = {near(g, v)}",
                f"{v}.iloc[1:3] = {near(g, v)}",
                f"{v}.loc[{mask}] = {near(g, v)}",
                f'{v}.name = "named"',
            ]
        )
    )


#: Scalars of classes that few columns can be compared with.
_ODD = (
    'pd.Period("2020", freq="D")',
    'np.timedelta64(1, "D")',
    'np.datetime64("2020-01-01")',
    "pd.Interval(0, 1)",
    "datetime.date(2020, 1, 1)",
    'pd.Timestamp("2020", tz="UTC")',
    "pd.NA",
    "None",
    '"a"',
    "1.5",
    "1j",
    "True",
)


@operation("comparison with a scalar of any class", "series", 0.6)
def _(g: Builder, v: str) -> str | None:
    compared = f"{v} {g.pick(['==', '!='])} {g.pick(_ODD)}"
    return g.pick([compared, f"({compared}).sum()", f"{v}[{compared}]", f"{v}.where({compared})"])
