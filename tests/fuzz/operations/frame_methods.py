"""Methods of DataFrame."""

from __future__ import annotations

from tests.fuzz.building import Builder, operation
from tests.fuzz.operations.masks import frame_mask
from tests.fuzz.parameters import (
    FLAG,
    NUMBER,
    attribute,
    ints,
    label_list,
    labels,
    maybe,
    method,
    numeric,
    of,
    with_levels,
)

REDUCE = "skipna numeric_only"

for _name, _usual in {
    "sum": f"{REDUCE} min_count",
    "prod": f"{REDUCE} min_count",
    "mean": REDUCE,
    "median": REDUCE,
    "min": REDUCE,
    "max": REDUCE,
    "std": f"{REDUCE} ddof",
    "var": f"{REDUCE} ddof",
    "sem": f"{REDUCE} ddof",
    "count": "numeric_only axis",
    "nunique": "dropna axis",
    "any": "skipna axis",
    "all": "skipna axis",
    "cumsum": REDUCE,
    "cumprod": REDUCE,
    "cummin": REDUCE,
    "cummax": REDUCE,
    "abs": "",
    "diff": "periods axis",
    "pct_change": "periods",
    "rank": "method ascending pct numeric_only na_option",
    "ffill": "limit",
    "bfill": "limit",
    "skew": "numeric_only",
    "kurt": "numeric_only",
    "idxmax": "skipna numeric_only",
    "idxmin": "skipna numeric_only",
    "mode": "dropna numeric_only",
    "corr": "numeric_only",
    "isna": "",
    "isnull": "",
    "notna": "",
    "notnull": "",
    "describe": "",
}.items():
    method(f"DataFrame.{_name}", "frame", _usual, through=numeric if "na" not in _name[:3] else None)

method(
    "DataFrame.quantile",
    "frame",
    "numeric_only interpolation",
    through=numeric,
    q=maybe(of("0.5", "0.25", "[0.25, 0.75]", "1", "0", "[]"), 0.8),
)
method("DataFrame.shift", "frame", "periods", fill_value=maybe(NUMBER, 0.15))
method("DataFrame.round", "frame", "", through=numeric, decimals=maybe(of("0", "1", "-1"), 0.6))
method("DataFrame.clip", "frame", "", through=numeric, lower=maybe(NUMBER, 0.6), upper=maybe(NUMBER, 0.6))
method(
    "DataFrame.agg",
    "frame",
    "",
    through=numeric,
    func_=of('"sum"', '["sum", "max"]', '["min", "count"]', '"mean"', '"nunique"'),
)
method("DataFrame.aggregate", "frame", "", weight=0.3, through=numeric, func_=of('"max"', '["mean", "std"]'))
method(
    "DataFrame.transform",
    "frame",
    "",
    weight=0.4,
    through=numeric,
    func_=of('"abs"', '"cumsum"', "abs", "lambda s: s + 1"),
)
method(
    "DataFrame.apply",
    "frame",
    "axis",
    weight=0.6,
    through=numeric,
    func_=of("abs", '"sum"', "lambda s: s.max()", "np.sum", "lambda s: s - s.min()"),
)
method(
    "DataFrame.map",
    "frame",
    "",
    weight=0.4,
    through=numeric,
    func_=of("abs", "lambda x: x * 2", "str"),
    na_action=maybe('"ignore"', 0.3),
)
method(
    "DataFrame.astype",
    "frame",
    "",
    dtype_=lambda g, v: f"{{{g.column(v)}: {_dtype(g)}}}" if g.columns(v) and g.chance(0.8) else _dtype(g),
)
method(
    "DataFrame.isin",
    "frame",
    "",
    values_=lambda g, v: g.pick(["[1, 2]", '["a", 0.5]', "[]", f"{{{g.column(v)}: [1, 'a']}}", '(1, "b")']),
)
method(
    "DataFrame.fillna",
    "frame",
    "limit",
    value_=lambda g, v: g.pick([g.constant("number"), '"a"', f"{{{g.column(v)}: {g.constant()}}}"]),
)
method("DataFrame.dropna", "frame", "ignore_index", how=maybe(of('"any"', '"all"'), 0.3), subset=maybe(labels, 0.5))
method("DataFrame.dropna", "frame", "axis", weight=0.2, thresh_=of("1", "2", "3"))
method("DataFrame.drop_duplicates", "frame", "keep ignore_index", weight=2, subset=maybe(labels, 0.6))
method("DataFrame.duplicated", "frame", "keep", weight=1, subset=maybe(labels, 0.6))
method("DataFrame.drop", "frame", "", columns_=labels, errors=maybe('"ignore"', 0.1))
method("DataFrame.drop", "frame", "", weight=0.3, labels_=labels, axis_=of("1", '"columns"'))
method("DataFrame.drop", "frame", "", weight=0.2, index_=of("[0]", "[1, 2]", "[]"))
method(
    "DataFrame.rename",
    "frame",
    "",
    columns_=lambda g, v: f"{{{g.column(v)}: {g.quoted('renamed', 'k', 'x')}}}" if g.columns(v) else None,
    errors=maybe('"raise"', 0.1),
)
method("DataFrame.rename", "frame", "", weight=0.3, _mapper_=of("str.upper", "str"), axis_=of("1"))
method("DataFrame.rename", "frame", "", weight=0.2, index_=of("{0: 10}", "str"))
method("DataFrame.rename_axis", "frame", "", weight=0.5, _mapper_=of('"rows"', "None", '"k"'))
method("DataFrame.rename_axis", "frame", "", weight=0.2, _mapper_=of('"cols"'), axis_=of("1"))
method("DataFrame.add_prefix", "frame", "", weight=0.4, prefix_=of('"p_"', '""'), axis=maybe("1", 0.2))
method("DataFrame.add_suffix", "frame", "", weight=0.4, suffix_=of('"_s"'), axis=maybe("1", 0.2))
method(
    "DataFrame.set_index",
    "frame",
    "",
    weight=2,
    keys_=labels,
    drop=maybe(FLAG, 0.3),
    append=maybe(FLAG, 0.2),
    verify_integrity=maybe(FLAG, 0.05),
)
method(
    "DataFrame.reset_index",
    "frame",
    "",
    weight=2,
    drop=maybe(FLAG, 0.5),
    names=maybe('"was"', 0.1),
    level=maybe("0", 0.1),
)
method(
    "DataFrame.set_axis",
    "frame",
    "",
    weight=0.3,
    labels_=lambda g, v: f"range(len({v}))" if g.chance(0.5) else f"np.arange(len({v})) // 2",
    axis=maybe("0", 0.2),
)
method(
    "DataFrame.set_axis",
    "frame",
    "",
    weight=0.2,
    labels_=lambda g, v: f"list(map(str, range({v}.shape[1])))",
    axis_=of("1"),
)
method(
    "DataFrame.sort_index",
    "frame",
    "ascending ignore_index",
    weight=2,
    kind=maybe('"stable"', 0.4),
    na_position=maybe(of('"first"', '"last"'), 0.3),
    level=maybe("0", 0.1),
)
method(
    "DataFrame.nlargest",
    "frame",
    "keep",
    n_=ints(0, 6),
    columns_=lambda g, v: g.column(v, "number") if g.chance(0.7) else g.column_list(v, "number"),
)
method(
    "DataFrame.nsmallest",
    "frame",
    "keep",
    n_=ints(0, 6),
    columns_=lambda g, v: g.column(v, "number") if g.chance(0.7) else g.column_list(v, "number"),
)
method("DataFrame.head", "frame", "", n=maybe(ints(-2, 8), 0.8))
method("DataFrame.tail", "frame", "", n=maybe(ints(-2, 8), 0.8))
method("DataFrame.take", "frame", "", weight=0.5, indices_=of("[0]", "[1, 0]", "[-1, 0, 0]", "[]"))
method("DataFrame.truncate", "frame", "", weight=0.4, before=maybe(ints(0, 3), 0.7), after=maybe(ints(2, 8), 0.7))
method("DataFrame.sample", "frame", "ignore_index", weight=0.5, n_=of("1", "2", "0"), random_state_=ints(0, 9))
method("DataFrame.sample", "frame", "", weight=0.4, frac_=of("0.5", "1", "1.0"), random_state_=ints(0, 9))
method(
    "DataFrame.select_dtypes",
    "frame",
    "",
    include_=of('"number"', '["number", "bool"]', '"object"', '"str"', '"datetime"', '"category"', '"int64"'),
)
method("DataFrame.select_dtypes", "frame", "", weight=0.3, exclude_=of('"number"', '"bool"', '["float64"]'))
method("DataFrame.filter", "frame", "", weight=0.3, items_=label_list)
method("DataFrame.filter", "frame", "", weight=0.2, like_=of('"x"', '"k"'))
method("DataFrame.filter", "frame", "", weight=0.2, regex_=of('"^[xy]"', '"."'))
method("DataFrame.copy", "frame", "", weight=0.5, deep=maybe(FLAG, 0.3))
method("DataFrame.droplevel", "frame", "", weight=0.6, through=with_levels, level_=of("0", "1", "-1"))
method("DataFrame.reorder_levels", "frame", "", weight=0.4, through=with_levels, order_=of("[1, 0]"))
method("DataFrame.swaplevel", "frame", "", weight=0.6, through=with_levels)
method(
    "DataFrame.value_counts", "frame", "normalize ascending dropna", subset=maybe(labels, 0.7), sort=maybe(FLAG, 0.3)
)
method("DataFrame.keys", "frame", "", weight=0.2)
method("DataFrame.infer_objects", "frame", "", weight=0.2)
method(
    "DataFrame.squeeze",
    "frame",
    "",
    weight=0.3,
    axis=maybe(of("0", "1", '"columns"'), 0.4),
    through=lambda g, v: g.pick([v, f"{v}.iloc[:, [0]]", f"{v}.head(1)", f"{v}.iloc[[0], [0]]"]),
)
method("DataFrame.memory_usage", "frame", "", weight=0.1, index_=of("False"), through=numeric)
method("DataFrame.equals", "frame", "", weight=0.3, other_=lambda g, v: g.variable("frame", 0.2))
method("DataFrame.to_numpy", "frame", "", weight=0.2, through=numeric)
method("DataFrame.to_dict", "frame", "", weight=0.2, orient=maybe(of('"list"', '"records"'), 0.8))
method(
    "DataFrame.where",
    "frame",
    "",
    cond_=lambda g, v: frame_mask(g, v),
    other=maybe(lambda g, v: g.pick(["0", v, "np.nan", '"a"']), 0.6),
)
method(
    "DataFrame.mask",
    "frame",
    "",
    cond_=lambda g, v: frame_mask(g, v),
    other=maybe(lambda g, v: g.pick(["0", "None", "-1.5"]), 0.6),
)
method(
    "DataFrame.replace",
    "frame",
    "",
    to_replace_=of("1", "{1: 9, 2: 8}", '["a", "b"]', "[0, 1]", "np.nan", '{"a": "z"}'),
    value=maybe(of("9", '"q"', "np.nan", "0.5", "pd.NA"), 0.7),
)
method(
    "DataFrame.to_csv",
    "frame",
    "",
    weight=0.4,
    index=maybe(FLAG, 0.5),
    sep=maybe('";"', 0.1),
    na_rep=maybe('"NA"', 0.1),
    header=maybe(FLAG, 0.1),
    chunksize=maybe(of("1", "2"), 0.2),
    date_format=maybe('"%d.%m.%Y %H"', 0.1),
)
for _name in ("shape", "size", "empty", "dtypes", "index", "columns", "ndim", "axes"):
    attribute(f"DataFrame.{_name}", "frame", 0.3)

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
    method(
        f"DataFrame.{_name}",
        "frame",
        "",
        weight=0.2,
        through=numeric,
        other_=lambda g, v: g.pick(["2", "0.5", "3", "-1", v]),
        fill_value=maybe("0", 0.2),
    )
    method(
        f"DataFrame.{_name}",
        "frame",
        "",
        weight=0.04,
        through=numeric,
        other_=lambda g, v: g.aligned_series(v, "number"),
        axis_=of("0", '"index"'),
    )
for _name in ["eq", "ne", "lt", "le", "gt", "ge"]:
    method(f"DataFrame.{_name}", "frame", "", weight=0.2, through=numeric, other_=lambda g, v: g.pick(["2", "0.5", v]))
    method(
        f"DataFrame.{_name}",
        "frame",
        "",
        weight=0.04,
        through=numeric,
        other_=lambda g, v: g.aligned_series(v, "number"),
        axis_=of("0"),
    )


def _dtype(g: Builder) -> str:
    return g.pick(
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
        ]
    )


@operation("DataFrame.sort_values", "frame", 4)
def _(g: Builder, v: str) -> str | None:
    by = g.column(v) if g.chance(0.6) else g.column_list(v)
    if by is None:
        return None
    parts = [f"{by}"]
    g.note_parameter("DataFrame.sort_values", "by")
    count = by.count(", ") + 1 if by.startswith("[") else 1
    if g.chance(0.5):
        g.note_parameter("DataFrame.sort_values", "ascending")
        parts.append(f"ascending={g.pick(['True', 'False']) if count == 1 else [g.chance(0.5) for _ in range(count)]}")
    if g.chance(0.25):
        g.note_parameter("DataFrame.sort_values", "na_position")
        parts.append('na_position="first"')
    if g.chance(0.2):
        g.note_parameter("DataFrame.sort_values", "ignore_index")
        parts.append("ignore_index=True")
    if count == 1 and g.chance(0.4):
        g.note_parameter("DataFrame.sort_values", "kind")
        parts.append('kind="stable"')
    return f"{v}.sort_values({', '.join(parts)})"
