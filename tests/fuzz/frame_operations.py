"""What frames are asked to do: methods, selections, operators, changes in place."""

from __future__ import annotations

from tests.fuzz.building import Builder, Do, operation
from tests.fuzz.masks import frame_mask
from tests.fuzz.parameters import (
    FLAG,
    NUMBER,
    attribute,
    ints,
    label,
    label_list,
    labels,
    maybe,
    method,
    numeric,
    of,
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

method("DataFrame.quantile", "frame", "numeric_only interpolation", through=numeric, q=maybe(of("0.5", "0.25", "[0.25, 0.75]", "1", "0", "[]"), 0.8))
method("DataFrame.shift", "frame", "periods", fill_value=maybe(NUMBER, 0.15))
method("DataFrame.round", "frame", "", through=numeric, decimals=maybe(of("0", "1", "-1"), 0.6))
method("DataFrame.clip", "frame", "", through=numeric, lower=maybe(NUMBER, 0.6), upper=maybe(NUMBER, 0.6))
method("DataFrame.agg", "frame", "", through=numeric, func_=of('"sum"', '["sum", "max"]', '["min", "count"]', '"mean"', '"nunique"'))
method("DataFrame.aggregate", "frame", "", weight=0.3, through=numeric, func_=of('"max"', '["mean", "std"]'))
method("DataFrame.transform", "frame", "", weight=0.4, through=numeric, func_=of('"abs"', '"cumsum"', "abs", "lambda s: s + 1"))
method("DataFrame.apply", "frame", "axis", weight=0.6, through=numeric, func_=of("abs", '"sum"', "lambda s: s.max()", "np.sum", "lambda s: s - s.min()"))
method("DataFrame.map", "frame", "", weight=0.4, through=numeric, func_=of("abs", "lambda x: x * 2", "str"), na_action=maybe('"ignore"', 0.3))
method("DataFrame.astype", "frame", "", dtype_=lambda g, v: f"{{{g.column(v)}: {_dtype(g)}}}" if g.columns(v) and g.chance(0.8) else _dtype(g))
method("DataFrame.isin", "frame", "", values_=lambda g, v: g.pick(["[1, 2]", '["a", 0.5]', "[]", f"{{{g.column(v)}: [1, 'a']}}", '(1, "b")']))
method("DataFrame.fillna", "frame", "limit", value_=lambda g, v: g.pick([g.constant("number"), '"a"', f"{{{g.column(v)}: {g.constant()}}}"]))
method("DataFrame.dropna", "frame", "ignore_index", how=maybe(of('"any"', '"all"'), 0.3), subset=maybe(labels, 0.5))
method("DataFrame.dropna", "frame", "axis", weight=0.2, thresh_=of("1", "2", "3"))
method("DataFrame.drop_duplicates", "frame", "keep ignore_index", weight=2, subset=maybe(labels, 0.6))
method("DataFrame.duplicated", "frame", "keep", weight=1, subset=maybe(labels, 0.6))
method("DataFrame.drop", "frame", "", columns_=labels, errors=maybe('"ignore"', 0.1))
method("DataFrame.drop", "frame", "", weight=0.3, labels_=labels, axis_=of("1", '"columns"'))
method("DataFrame.drop", "frame", "", weight=0.2, index_=of("[0]", "[1, 2]", "[]"))
method("DataFrame.rename", "frame", "", columns_=lambda g, v: f"{{{g.column(v)}: {g.quoted('renamed', 'k', 'x')}}}" if g.columns(v) else None, errors=maybe('"raise"', 0.1))
method("DataFrame.rename", "frame", "", weight=0.3, _mapper_=of("str.upper", "str"), axis_=of("1"))
method("DataFrame.rename", "frame", "", weight=0.2, index_=of("{0: 10}", "str"))
method("DataFrame.rename_axis", "frame", "", weight=0.5, _mapper_=of('"rows"', "None", '"k"'))
method("DataFrame.rename_axis", "frame", "", weight=0.2, _mapper_=of('"cols"'), axis_=of("1"))
method("DataFrame.add_prefix", "frame", "", weight=0.4, prefix_=of('"p_"', '""'), axis=maybe("1", 0.2))
method("DataFrame.add_suffix", "frame", "", weight=0.4, suffix_=of('"_s"'), axis=maybe("1", 0.2))
method("DataFrame.set_index", "frame", "", weight=2, keys_=labels, drop=maybe(FLAG, 0.3), append=maybe(FLAG, 0.2), verify_integrity=maybe(FLAG, 0.05))
method("DataFrame.reset_index", "frame", "", weight=2, drop=maybe(FLAG, 0.5), names=maybe('"was"', 0.1), level=maybe("0", 0.1))
method("DataFrame.set_axis", "frame", "", weight=0.3, labels_=lambda g, v: f"range(len({v}))" if g.chance(0.5) else f"np.arange(len({v})) // 2", axis=maybe("0", 0.2))
method("DataFrame.set_axis", "frame", "", weight=0.2, labels_=lambda g, v: f"list(map(str, range({v}.shape[1])))", axis_=of("1"))
method("DataFrame.sort_index", "frame", "ascending ignore_index", weight=2, kind=maybe('"stable"', 0.4), na_position=maybe(of('"first"', '"last"'), 0.3), level=maybe("0", 0.1))
method("DataFrame.nlargest", "frame", "keep", n_=ints(0, 6), columns_=lambda g, v: g.column(v, "number") if g.chance(0.7) else g.listed(v, "number"))
method("DataFrame.nsmallest", "frame", "keep", n_=ints(0, 6), columns_=lambda g, v: g.column(v, "number") if g.chance(0.7) else g.listed(v, "number"))
method("DataFrame.head", "frame", "", n=maybe(ints(-2, 8), 0.8))
method("DataFrame.tail", "frame", "", n=maybe(ints(-2, 8), 0.8))
method("DataFrame.take", "frame", "", weight=0.5, indices_=of("[0]", "[1, 0]", "[-1, 0, 0]", "[]"))
method("DataFrame.truncate", "frame", "", weight=0.4, before=maybe(ints(0, 3), 0.7), after=maybe(ints(2, 8), 0.7))
method("DataFrame.sample", "frame", "ignore_index", weight=0.5, n_=of("1", "2", "0"), random_state_=ints(0, 9))
method("DataFrame.sample", "frame", "", weight=0.4, frac_=of("0.5", "1", "1.0"), random_state_=ints(0, 9))
method("DataFrame.select_dtypes", "frame", "", include_=of('"number"', '["number", "bool"]', '"object"', '"str"', '"datetime"', '"category"', '"int64"'))
method("DataFrame.select_dtypes", "frame", "", weight=0.3, exclude_=of('"number"', '"bool"', '["float64"]'))
method("DataFrame.filter", "frame", "", weight=0.3, items_=label_list)
method("DataFrame.filter", "frame", "", weight=0.2, like_=of('"x"', '"k"'))
method("DataFrame.filter", "frame", "", weight=0.2, regex_=of('"^[xy]"', '"."'))
method("DataFrame.copy", "frame", "", weight=0.5, deep=maybe(FLAG, 0.3))
method("DataFrame.droplevel", "frame", "", weight=0.3, level_=of("0", "1", "-1"), wants=lambda f: f.index.nlevels > 1)
method("DataFrame.reorder_levels", "frame", "", weight=0.3, order_=of("[1, 0]"), wants=lambda f: f.index.nlevels > 1)
method("DataFrame.swaplevel", "frame", "", weight=0.3, wants=lambda f: f.index.nlevels > 1)
method("DataFrame.value_counts", "frame", "normalize ascending dropna", subset=maybe(labels, 0.7), sort=maybe(FLAG, 0.3))
method("DataFrame.keys", "frame", "", weight=0.2)
method("DataFrame.memory_usage", "frame", "", weight=0.1, index_=of("False"), through=numeric)
method("DataFrame.equals", "frame", "", weight=0.3, other_=lambda g, v: g.named("frame", 0.2))
method("DataFrame.to_numpy", "frame", "", weight=0.2, through=numeric)
method("DataFrame.to_dict", "frame", "", weight=0.2, orient=maybe(of('"list"', '"records"'), 0.8))
method("DataFrame.where", "frame", "", cond_=lambda g, v: frame_mask(g, v), other=maybe(lambda g, v: g.pick(["0", v, "np.nan", '"a"']), 0.6))
method("DataFrame.mask", "frame", "", cond_=lambda g, v: frame_mask(g, v), other=maybe(lambda g, v: g.pick(["0", "None", "-1.5"]), 0.6))
method("DataFrame.replace", "frame", "", to_replace_=of("1", "{1: 9, 2: 8}", '["a", "b"]', "[0, 1]", "np.nan", '{"a": "z"}'), value=maybe(of("9", '"q"', "np.nan", "0.5", "pd.NA"), 0.7))
method("DataFrame.to_csv", "frame", "", weight=0.4, index=maybe(FLAG, 0.5), sep=maybe('";"', 0.1), na_rep=maybe('"NA"', 0.1), header=maybe(FLAG, 0.1))
for _name in ("shape", "size", "empty", "dtypes", "index", "columns", "ndim", "axes"):
    attribute(f"DataFrame.{_name}", "frame", 0.3)

for _name in "add sub mul div truediv floordiv mod pow radd rsub rmul rtruediv rfloordiv rmod rpow multiply subtract divide rdiv".split():
    method(f"DataFrame.{_name}", "frame", "", weight=0.12, through=numeric, other_=lambda g, v: g.pick(["2", "0.5", "3", "-1", v]), fill_value=maybe("0", 0.2))
    method(f"DataFrame.{_name}", "frame", "", weight=0.04, through=numeric, other_=lambda g, v: g.beside(v, "number"), axis_=of("0", '"index"'))
for _name in "eq ne lt le gt ge".split():
    method(f"DataFrame.{_name}", "frame", "", weight=0.12, through=numeric, other_=lambda g, v: g.pick(["2", "0.5", v]))
    method(f"DataFrame.{_name}", "frame", "", weight=0.04, through=numeric, other_=lambda g, v: g.beside(v, "number"), axis_=of("0"))


def _dtype(g: Builder) -> str:
    return g.pick(['"float64"', '"str"', '"int64"', '"float32"', '"object"', '"Int64"', '"category"', '"bool"', '"string"', '"int8"', "float", "str", '"Float64"', '"boolean"', '"datetime64[ns]"', '"int64[pyarrow]"'])  # fmt: skip


@operation("DataFrame.sort_values", "frame", 4)
def _(g: Builder, v: str) -> str | None:
    by = g.column(v) if g.chance(0.6) else g.listed(v)
    if by is None:
        return None
    parts = [f"{by}"]
    g.used("DataFrame.sort_values", "by")
    count = by.count(", ") + 1 if by.startswith("[") else 1
    if g.chance(0.5):
        g.used("DataFrame.sort_values", "ascending")
        parts.append(f"ascending={g.pick(['True', 'False']) if count == 1 else [g.chance(0.5) for _ in range(count)]}")
    if g.chance(0.25):
        g.used("DataFrame.sort_values", "na_position")
        parts.append('na_position="first"')
    if g.chance(0.2):
        g.used("DataFrame.sort_values", "ignore_index")
        parts.append("ignore_index=True")
    if count == 1 and g.chance(0.4):
        g.used("DataFrame.sort_values", "kind")
        parts.append('kind="stable"')
    return f"{v}.sort_values({', '.join(parts)})"


@operation("DataFrame.assign", "frame", 5)
def _(g: Builder, v: str) -> str | None:
    from tests.fuzz.series_operations import expression

    found = expression(g, v)
    name = g.pick(["w", "x", "k", "new", "w"])
    return None if found is None else f"{v}.assign({name}={found})"


@operation("DataFrame.assign", "frame", 1.5)
def _(g: Builder, v: str) -> str | None:
    from tests.fuzz.series_operations import expression

    other = g.pick([f'lambda f: f["w"] {g.pick(["+", "*"])} 2', 'lambda f: f["w"].shift()', 'lambda f: f["w"].sum()', 'lambda f: f["w"].cumsum()', 'lambda f: f["w"].isna()'])  # fmt: skip
    found = expression(g, v)
    return None if found is None else f"{v}.assign(w={found}, z={other})"


@operation("DataFrame.__getitem__", "frame", 4)
def _(g: Builder, v: str) -> str | None:
    mask = frame_mask(g, v)
    return None if mask is None else f"{v}[{mask}]"


@operation("DataFrame.__getitem__", "frame", 2)
def _(g: Builder, v: str) -> str | None:
    drawn = g.rng.random()
    if drawn < 0.35:
        return g.one(v)
    if drawn < 0.85:
        found = g.listed(v, most=4)
        return None if found is None else f"{v}[{found}]"
    return f"{v}[{g.pick(['1:3', ':2', '::2', '-3:', '5:2', '::-1'])}]"


@operation("DataFrame.loc", "frame", 2)
def _(g: Builder, v: str) -> str | None:
    mask = frame_mask(g, v)
    columns = g.pick([g.column(v), g.listed(v), ":"])
    if mask is None or columns is None:
        return None
    return f"{v}.loc[{mask}, {columns}]" if g.chance(0.7) else f"{v}.loc[{mask}]"


@operation("DataFrame.loc", "frame", 1.5)
def _(g: Builder, v: str) -> str | None:
    index = g.value(f"{v}.index")
    if index is None:
        return None
    one, other = g.near(index.to_series()), g.near(index.to_series())
    form = g.pick([f"[{one}]", f"[{one}, {other}]", f"{one}:{other}", one, f":{one}", f"{one}:", f"lambda f: f[{g.column(v)}].notna()"])  # fmt: skip
    return f"{v}.loc[{form}]"


@operation("DataFrame.iloc", "frame", 2)
def _(g: Builder, v: str) -> str | None:
    rows = g.pick(["1:4", "::2", "::-1", "[0, 2]", "[1, 0, 1]", "2", "-1", ":3", "-4:-1", "0:0", ":", "3:"])
    columns = g.pick(["", "", ", 0", ", 1", ", [0, 1]", ", :2", ", ::-1", ", -1"])
    return f"{v}.iloc[{rows}{columns}]"


@operation("DataFrame.query", "frame", 2)
def _(g: Builder, v: str) -> str | None:
    found = query(g, v)
    g.used("DataFrame.query", "expr")
    return None if found is None else f"{v}.query({found!r})"


def query(g: Builder, v: str, depth: int = 0) -> str | None:
    """The text of a query."""
    names = [text for text in g.columns(v) if text[1:-1].isidentifier() and text.startswith('"')]
    if not names:
        return None
    drawn = g.rng.random()
    if depth < 2 and drawn < 0.25:
        one, other = query(g, v, depth + 1), query(g, v, depth + 1)
        return f"({one}) {g.pick(['and', 'or', '&', '|'])} ({other})"
    if depth < 2 and drawn < 0.32:
        return f"not ({query(g, v, depth + 1)})"
    name = g.pick(names)
    value = g.value(f"{v}[{name}]")
    label = name[1:-1]
    if value is None or getattr(value, "ndim", 0) != 1:
        return None
    near = g.near(value)
    if "pd." in near or "np." in near or near == "None":
        return g.pick([f"{label}.notna()", f"{label}.isna()", f"{label} == {label}.max()"])
    near = near.replace("'", "")
    return g.pick([f"{label} {g.pick(['<', '>=', '==', '!='])} {near}", f"{label} in [{near}]", f"{label} not in [{near}, {near}]", f"{label} == [{near}]", f"{label}.isin([{near}])", f"{label} < {g.pick(names)[1:-1]}", f"{near} <= {label} < {near}"])  # fmt: skip


@operation("DataFrame.eval", "frame", 0.8)
def _(g: Builder, v: str) -> str | None:
    names = [text[1:-1] for text in g.columns(v, "number") if text[1:-1].isidentifier() and text.startswith('"')]
    if not names:
        return None
    one, other = g.pick(names), g.pick(names)
    g.used("DataFrame.eval", "expr")
    return f"{v}.eval({g.pick([f'{one} + {other}', f'w = {one} * 2', f'w = {one} - {other}', f'{one} > {other}', f'w = {one}.sum()', f'-{one}'])!r})"  # fmt: skip


@operation("DataFrame.__setitem__", "frame", 4)
def _(g: Builder, v: str) -> str | None:
    from tests.fuzz.series_operations import expression

    found = expression(g, v)
    name = g.pick(['"w"', '"new"', g.column(v) or '"w"', '"x"'])
    return None if found is None else Do(f"{v}[{name}] = {found}")


@operation("DataFrame.__setitem__", "frame", 0.5)
def _(g: Builder, v: str) -> str | None:
    names = g.some(g.columns(v, "number") or ['"x"'], 2)
    some = f"{v}[[{', '.join(names)}]]"
    return Do(f"{some} = {g.pick([f'{some} * 2', '0', f'{some}.shift()'])}")


@operation("DataFrame.loc.__setitem__", "frame", 2)
def _(g: Builder, v: str) -> str | None:
    mask, column = frame_mask(g, v), g.pick([g.column(v), '"w"', g.listed(v, "number")])
    if mask is None or column is None:
        return None
    value = g.near(g.value(f"{v}[{column}]")) if column.startswith('"') and column in g.columns(v) and g.chance(0.7) and getattr(g.value(f"{v}[{column}]"), "ndim", 0) == 1 else g.constant()  # fmt: skip
    if column.startswith('"') and g.chance(0.25):
        value = g.one(v) or value
    return Do(f"{v}.loc[{mask}, {column}] = {value}")


@operation("DataFrame.loc.__setitem__", "frame", 0.7)
def _(g: Builder, v: str) -> str | None:
    index = g.value(f"{v}.index")
    column = g.column(v)
    if index is None or column is None or not len(index):
        return None
    value = g.value(f"{v}[{column}]")
    return Do(f"{v}.loc[{g.near(index.to_series())}, {column}] = {g.near(value) if getattr(value, 'ndim', 0) == 1 else 0}")


@operation("DataFrame.iloc.__setitem__", "frame", 1)
def _(g: Builder, v: str) -> str | None:
    return Do(f"{v}.iloc[{g.pick(['0', '1:3', ':', '-1', '[0, 2]', '::2'])}, {g.pick(['0', '1', '-1', '[0, 1]', ':2'])}] = {g.constant() if g.chance(0.7) else 'np.nan'}")


@operation("DataFrame.__delitem__", "frame", 0.3)
def _(g: Builder, v: str) -> str | None:
    name = g.column(v)
    return None if name is None else Do(f"del {v}[{name}]")


@operation("DataFrame.pop", "frame", 0.3)
def _(g: Builder, v: str) -> str | None:
    g.used("DataFrame.pop", "item")
    name = g.column(v)
    return None if name is None else f"{v}.pop({name})"


@operation("DataFrame.insert", "frame", 0.5)
def _(g: Builder, v: str) -> str | None:
    from tests.fuzz.series_operations import expression

    for parameter in ("loc", "column", "value"):
        g.used("DataFrame.insert", parameter)
    column = '"ins"'
    if g.chance(0.1):
        column = f"{g.column(v)}, allow_duplicates=True, value"
        g.used("DataFrame.insert", "allow_duplicates")
        return Do(f"{v}.insert({g.pick(['0', '1'])}, {column}={expression(g, v) or '1'})")
    return Do(f"{v}.insert({g.pick(['0', '1'])}, {column}, {expression(g, v) or '1'})")


@operation("DataFrame.items", "frame", 0.3)
def _(g: Builder, v: str) -> str | None:
    return f"[(name, len(column)) for name, column in {v}.items()]"


@operation("DataFrame in place", "frame", 1.5)
def _(g: Builder, v: str) -> str | None:
    name = g.column(v)
    if name is None:
        return None
    call, parameter = g.pick([
        (f"sort_values({name}, kind=\"stable\", inplace=True)", "sort_values"),
        (f"drop_duplicates({name}, inplace=True)", "drop_duplicates"),
        ("reset_index(drop=True, inplace=True)", "reset_index"),
        (f"set_index({name}, inplace=True)", "set_index"),
        (f"rename(columns={{{name}: \"renamed\"}}, inplace=True)", "rename"),
        ("dropna(inplace=True)", "dropna"),
        ("fillna(0, inplace=True)", "fillna"),
        (f"drop(columns={name}, inplace=True)", "drop"),
        ("ffill(inplace=True)", "ffill"),
        ("bfill(inplace=True)", "bfill"),
        ("sort_index(kind=\"stable\", inplace=True)", "sort_index"),
        ("replace(1, 5, inplace=True)", "replace"),
        ("rename_axis(\"rows\", inplace=True)", "rename_axis"),
        (f"where({v}.notna(), 0, inplace=True)", "where"),
        (f"mask({v}.isna(), 0, inplace=True)", "mask"),
        ("clip(upper=2, inplace=True)", "clip"),
        (f"query({query(g, v)!r}, inplace=True)", "query"),
        (f"eval(\"w = {name[1:-1]}\", inplace=True)", "eval"),
    ])  # fmt: skip
    g.used(f"DataFrame.{parameter}", "")
    g.used(f"DataFrame.{parameter}", "inplace")
    return Do(f"{v}.{call}")


@operation("operators of frames", "frame", 1)
def _(g: Builder, v: str) -> str | None:
    found = numeric(g, v)
    return None if found is None else g.pick([f"-{found}", f"{found} + 1", f"{found} * {found}", f"{found} > 1", f"~({found} > 0)", f"2 - {found}", f"{found} / 2", f"abs({found})", f"np.sqrt({found})", f"np.log1p({found})"])  # fmt: skip


@operation("in", "frame", 0.2)
def _(g: Builder, v: str) -> str | None:
    return f"{label(g, v)} in {v}"
