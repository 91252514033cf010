"""Joins, concatenations, reshaping, files, and functions of pandas."""

from __future__ import annotations

import importlib.util

from tests.fuzz.building import Builder, operation
from tests.fuzz.operations.groups import CALLABLES
from tests.fuzz.parameters import FLAG, Draw, arguments, maybe, method, of

HOW = of('"inner"', '"left"', '"right"', '"outer"')


def _small(g: Builder, one: str, other: str) -> bool:
    left, right = g.value(one), g.value(other)
    return left is not None and right is not None and len(left) * max(len(right), 1) < 40_000


@operation("DataFrame.merge", "frame", 5)
def _(g: Builder, v: str) -> str | None:
    other = g.variable("frame", 0.2)
    if other is None or not _small(g, v, other):
        return None
    common = [text for text in g.columns(v) if text in g.columns(other)]
    more: dict[str, Draw] = {
        "how": maybe(HOW, 0.7),
        "suffixes": maybe(of('("_l", "_r")', '("", "_2")'), 0.2),
        "sort": maybe(FLAG, 0.2),
        "indicator": maybe(FLAG, 0.1),
        "validate": maybe(of('"m:1"', '"1:m"', '"m:m"'), 0.06),
    }
    drawn = g.rng.random()
    if drawn < 0.6 and common:
        on = g.pick(common) if g.chance(0.7) else f"[{', '.join(g.some(common, 2))}]"
        keys, names = f"on={on}", ["on"]
    elif drawn < 0.8:
        keys, names = f"left_on={g.column(v)}, right_on={g.column(other)}", ["left_on", "right_on"]
    elif drawn < 0.9:
        keys, names = "left_index=True, right_index=True", ["left_index", "right_index"]
    elif drawn < 0.95:
        keys, names = f"left_on={g.column(v)}, right_index=True", ["left_on", "right_index"]
    else:
        keys, names = f"left_index=True, right_on={g.column(other)}", ["left_index", "right_on"]
    if g.chance(0.03):
        keys, names = 'how="cross"', ["how"]
        del more["how"]
    for name in names:
        g.note_parameter("DataFrame.merge", name)
    given = arguments(g, "DataFrame.merge", v, more)
    tail = f"{keys}{', ' + given if given else ''}"
    g.note_parameter("DataFrame.merge", "right")
    return f"{v}.merge({other}, {tail})"


@operation("merge with its aggregate", "frame", 2)
def _(g: Builder, v: str) -> str | None:
    key, column = g.key(v), g.column(v, "number")
    if key is None or column is None or key == column:
        return None
    how = g.pick(["sum", "max", "count", "mean", "first", "size"])
    total = (
        f"{v}.groupby({key}, as_index=False)[{column}].{how}()"
        if how != "size"
        else f'{v}.groupby({key}).size().rename("n").reset_index()'
    )
    return f'{v}.merge({total}, on={key}, how={HOW(g, v)}, suffixes=("", "_of"))'


@operation("DataFrame.join", "frame", 1.5)
def _(g: Builder, v: str) -> str | None:
    other = g.variable("frame", 0.2)
    if other is None or not _small(g, v, other):
        return None
    text = other
    if g.chance(0.5) and g.key(other):
        text = f"{other}.set_index({g.key(other)})"
    more: dict[str, Draw] = {
        "how": maybe(HOW, 0.5),
        "lsuffix": of('"_l"'),
        "rsuffix": maybe('"_r"', 0.5),
        "sort": maybe(FLAG, 0.1),
    }
    if "set_index" in text:
        more["on"] = maybe(lambda g, v: g.key(v), 0.7)
    g.note_parameter("DataFrame.join", "other")
    return f"{v}.join({text}, {arguments(g, 'DataFrame.join', v, more)})"


@operation("pandas.concat", "frame", 4)
def _(g: Builder, v: str) -> str | None:
    other = g.variable("frame", 0.2) or v
    column = g.column(v)
    parts = g.pick(
        [
            f"[{v}, {other}]",
            f"[{v}, {v}]",
            f"[{v}, {v}.head(2)]",
            f'[{v}, {v}.sort_values({column}, kind="stable")]',
            f"[{v}.tail(3), {other}, {v}]",
            f"{{'p': {v}, 'q': {other}}}",
        ]
    )
    g.note_parameter("pandas.concat", "objs")
    given = arguments(
        g,
        "pandas.concat",
        v,
        {
            "ignore_index": maybe(FLAG, 0.4),
            "join": maybe(of('"inner"', '"outer"'), 0.25),
            "axis": maybe("1", 0.2),
            "keys": maybe('["one", "two"]', 0.08),
            "names": maybe('["part"]', 0.05),
            "sort": maybe(FLAG, 0.15),
        },
    )
    return f"pd.concat({parts}{', ' + given if given else ''})"


@operation("pandas.concat", "series", 1.5)
def _(g: Builder, v: str) -> str | None:
    other = g.aligned_series(v) or v
    tail = g.pick(["", "", ", ignore_index=True", ", axis=1", ", axis=1", ", keys=[1, 2]"])
    return f"pd.concat([{v}, {other}]{tail})"


method(
    "DataFrame.melt",
    "frame",
    "",
    weight=1.5,
    id_vars=maybe(lambda g, v: g.column(v) if g.chance(0.7) else g.column_list(v), 0.8),
    value_vars=maybe(lambda g, v: g.column_list(v), 0.5),
    var_name=maybe('"var"', 0.2),
    value_name=maybe('"val"', 0.2),
    ignore_index=maybe(FLAG, 0.2),
)
method("DataFrame.stack", "frame", "", weight=0.5)
method("DataFrame.transpose", "frame", "", weight=0.3, wants=lambda f: len(f) < 40)
method("DataFrame.explode", "frame", "", weight=0.2, column_=lambda g, v: g.column(v))
method("DataFrame.unstack", "frame", "", weight=1, wants=lambda f: f.index.nlevels > 1, level=maybe(of("0", "-1"), 0.3))


@operation("pandas.melt", "frame", 0.4)
def _(g: Builder, v: str) -> str | None:
    given = arguments(
        g,
        "pandas.melt",
        v,
        {
            "id_vars": maybe(lambda g, v: g.column(v), 0.8),
            "value_vars": maybe(lambda g, v: g.column_list(v), 0.5),
            "var_name": maybe('"var"', 0.2),
            "value_name": maybe('"val"', 0.2),
            "ignore_index": maybe(FLAG, 0.2),
        },
    )
    g.note_parameter("pandas.melt", "frame")
    return f"pd.melt({v}{', ' + given if given else ''})"


@operation("DataFrame.pivot_table", "frame", 2)
def _(g: Builder, v: str) -> str | None:
    given = arguments(
        g,
        "DataFrame.pivot_table",
        v,
        {
            "values": maybe(lambda g, v: g.column(v, "number") if g.chance(0.7) else g.column_list(v, "number"), 0.9),
            "index": lambda g, v: g.keys(v),
            "columns": maybe(lambda g, v: g.key(v), 0.7),
            "aggfunc": maybe(of('"sum"', '"mean"', '"count"', '"first"', '["sum", "max"]', '"max"', *CALLABLES), 0.7),
            "fill_value": maybe("0", 0.2),
            "dropna": maybe(FLAG, 0.15),
            "observed": maybe(FLAG, 0.2),
            "margins": maybe("True", 0.05),
            "sort": maybe(FLAG, 0.08),
        },
    )
    return f"{v}.pivot_table({given})"


@operation("unstack of groups", "frame", 1.5)
def _(g: Builder, v: str) -> str | None:
    one, other, number = g.key(v), g.column(v), g.column(v, "number")
    if one == other or number is None:
        return None
    aggregate = g.pick(["sum()", "size()", "max()", "mean()", "first()"])
    return f"{v}.groupby([{one}, {other}])[{number}].{aggregate}.unstack({g.pick(['', '0', 'fill_value=0'])})"


@operation("pandas.crosstab", "frame", 0.8)
def _(g: Builder, v: str) -> str | None:
    one, other = g.key(v), g.column(v)
    return (
        None
        if one is None or other is None
        else f"pd.crosstab({v}[{one}], {v}[{other}]{g.pick(['', '', ', normalize=True', ', margins=True'])})"
    )


@operation("DataFrame.pivot", "frame", 0.5)
def _(g: Builder, v: str) -> str | None:
    found = g.some(g.columns(v) or ['"x"'], 3)
    return f"{v}.pivot(index={found[0]}, columns={found[-1]})" if len(found) > 1 else None


@operation("pd functions", "series", 1)
def _(g: Builder, v: str) -> str | None:
    return g.pick(
        [
            f"pd.isna({v})",
            f"pd.unique({v})",
            f"pd.factorize({v})",
            f"pd.get_dummies({v})",
            f"pd.cut({v}, 2)",
            f'pd.qcut({v}, 2, duplicates="drop")',
            f"pd.Series({v})",
            f"pd.DataFrame({{'one': {v}}})",
            f"pd.Index({v})",
            f"len({v})",
            f"list({v})",
            f"{v}.rolling(2).sum()",
            f"{v}.expanding().max()",
            f"{v}.interpolate()",
            f"{v}.compare({v})",
        ]
    )


def _files(g: Builder, v: str) -> bool:
    frame = g.value(v)
    return frame.columns.is_unique and all(isinstance(label, str) and label for label in frame.columns)


@operation("pandas.read_parquet", "frame", 2)
def _(g: Builder, v: str) -> str | None:
    if not _files(g, v):
        return None
    g.note_parameter("pandas.read_parquet", "path")
    given = arguments(
        g,
        "pandas.read_parquet",
        v,
        {
            "columns": maybe(lambda g, v: g.column_list(v), 0.25),
            "engine": maybe('"pyarrow"', 0.1),
            "dtype_backend": maybe('"numpy_nullable"', 0.08),
            "filters": maybe(
                lambda g, v: f"[({g.column(v, 'number')}, '>', 1)]" if g.column(v, "number") else None, 0.15
            ),
        },
    )
    path = f'f"{{folder}}/{v}-{g.rng.randrange(10**6)}.parquet"'
    return _written(v, f"to_parquet({path})", f"pd.read_parquet({path}{', ' + given if given else ''})")


def _written(v: str, write: str, read: str) -> str:
    return f"({v}.{write}, {read})[1]"


@operation("pandas.merge", "frame", 1.5)
def _(g: Builder, v: str) -> str | None:
    other = g.variable("frame", 0.2)
    if other is None or not _small(g, v, other):
        return None
    common = [text for text in g.columns(v) if text in g.columns(other)]
    if not common:
        return None
    given = arguments(
        g,
        "pandas.merge",
        v,
        {
            "on": lambda g, v: g.pick(common),
            "how": maybe(HOW, 0.7),
            "suffixes": maybe(of('("_l", "_r")'), 0.2),
            "sort": maybe(FLAG, 0.2),
            "indicator": maybe(FLAG, 0.15),
            "validate": maybe(of('"m:1"', '"m:m"'), 0.1),
        },
    )
    g.note_parameter("pandas.merge", "left")
    g.note_parameter("pandas.merge", "right")
    return f"pd.merge({v}, {other}, {given})"


@operation("DataFrame.to_parquet", "frame", 0.7)
def _(g: Builder, v: str) -> str | None:
    """pandas reads the file that Craton wrote."""
    if not _files(g, v):
        return None
    path = f'f"{{folder}}/{v}-{g.rng.randrange(10**6)}.parquet"'
    given = arguments(g, "DataFrame.to_parquet", v, {"index": maybe(FLAG, 0.3), "compression": maybe('"zstd"', 0.1)})
    return f"({v}.to_parquet({path}{', ' + given if given else ''}), pandas.read_parquet({path}{_backend(g)}))[1]"


@operation("DataFrame.to_feather", "frame", 0.3)
def _(g: Builder, v: str) -> str | None:
    path = f'f"{{folder}}/{v}-{g.rng.randrange(10**6)}.feather"'
    write = f"{v}.reset_index(drop=True).to_feather({path})"
    return f"({write}, pandas.read_feather({path}{_backend(g)}))[1]" if _files(g, v) else None


def _backend(g: Builder) -> str:
    """Sometimes Arrow's dtypes, which show whether a value of the file is NaN or missing."""
    return ', dtype_backend="pyarrow"' if g.chance(0.3) else ""


method("DataFrame.to_json", "frame", "", weight=0.2, orient_=of('"records"', '"columns"', '"split"'))


@operation("pandas.read_feather", "frame", 0.5)
def _(g: Builder, v: str) -> str | None:
    if not _files(g, v):
        return None
    g.note_parameter("pandas.read_feather", "path")
    given = arguments(
        g,
        "pandas.read_feather",
        v,
        {"columns": maybe(lambda g, v: g.column_list(v), 0.25), "dtype_backend": maybe('"pyarrow"', 0.1)},
    )
    path = f'f"{{folder}}/{v}-{g.rng.randrange(10**6)}.feather"'
    return _written(
        v, f"reset_index(drop=True).to_feather({path})", f"pd.read_feather({path}{', ' + given if given else ''})"
    )


@operation("pandas.read_orc", "frame", 0.5)
def _(g: Builder, v: str) -> str | None:
    if not _files(g, v):
        return None
    g.note_parameter("pandas.read_orc", "path")
    given = arguments(
        g,
        "pandas.read_orc",
        v,
        {"columns": maybe(lambda g, v: g.column_list(v), 0.25), "dtype_backend": maybe('"pyarrow"', 0.1)},
    )
    path = f'f"{{folder}}/{v}-{g.rng.randrange(10**6)}.orc"'
    return _written(v, f"reset_index(drop=True).to_orc({path})", f"pd.read_orc({path}{', ' + given if given else ''})")


@operation("pandas.read_iceberg", "frame", 0.2)
def _(g: Builder, v: str) -> str | None:
    """A table in a catalogue of its own, if the library is installed."""
    if not _files(g, v) or importlib.util.find_spec("pyiceberg") is None:
        return None
    g.note_parameter("pandas.read_iceberg", "table_identifier")
    name = f"{v}-{g.rng.randrange(10**6)}"
    places = f'{{"type": "sql", "uri": f"sqlite:///{{folder}}/{name}.db", "warehouse": f"file://{{folder}}/{name}"}}'
    given = arguments(g, "pandas.read_iceberg", v, {"columns": maybe(lambda g, v: g.column_list(v), 0.25)})
    made = f'__import__("pyiceberg.catalog").catalog.load_catalog("c", **{places}).create_namespace_if_not_exists("n")'
    write = f'{v}.reset_index(drop=True).to_iceberg("n.t", "c", catalog_properties={places})'
    return (
        f'({made}, {write}, pd.read_iceberg("n.t", "c", catalog_properties={places}{", " + given if given else ""}))[2]'
    )


@operation("pandas.read_csv", "frame", 1.5)
def _(g: Builder, v: str) -> str | None:
    if not _files(g, v):
        return None
    g.note_parameter("pandas.read_csv", "filepath_or_buffer")
    given = arguments(
        g,
        "pandas.read_csv",
        v,
        {
            "usecols": maybe(lambda g, v: g.column_list(v), 0.2),
            "index_col": maybe(lambda g, v: g.column(v), 0.12),
            "dtype": maybe(lambda g, v: f"{{{g.column(v)}: {g.quoted('str', 'float64', 'object', 'category')}}}", 0.15),
            "na_values": maybe(of('["a"]', '["1"]', "[1]", "-1"), 0.1),
            "skiprows": maybe(of("[1]", "range(1, 3)"), 0.08),
            "comment": maybe('"#"', 0.05),
            "thousands": maybe(of('"_"', '"."'), 0.05),
            "decimal": maybe('","', 0.03),
            "true_values": maybe('["a"]', 0.05),
            "false_values": maybe('["b"]', 0.05),
            "na_filter": maybe("False", 0.05),
            "quoting": maybe(of("1", "3"), 0.05),
            "encoding": maybe(of('"latin-1"', '"utf-8-sig"'), 0.05),
            "date_format": maybe('"%Y-%m-%d"', 0.1),
            "dtype_backend": maybe(of('"pyarrow"', '"numpy_nullable"'), 0.08),
            "header": maybe("0", 0.05),
            "nrows": maybe("3", 0.05),
            "keep_default_na": maybe("False", 0.05),
            "parse_dates": maybe(lambda g, v: f"[{g.column(v, 'time')}]" if g.columns(v, "time") else None, 0.4),
            "compression": maybe("None", 0.03),
            "sep": maybe('","', 0.05),
            "names": maybe(lambda g, v: f"[{', '.join(repr(f'n{i}') for i in range(len(g.columns(v))))}]", 0.05),
        },
    )
    path = f'f"{{folder}}/{v}-{g.rng.randrange(10**6)}.csv"'
    return _written(v, f"to_csv({path}, index=False)", f"pd.read_csv({path}{', ' + given if given else ''})")


@operation("pandas.read_table", "frame", 0.2)
def _(g: Builder, v: str) -> str | None:
    path = f'f"{{folder}}/{v}-{g.rng.randrange(10**6)}.txt"'
    g.note_parameter("pandas.read_table", "filepath_or_buffer")
    return _written(v, f'to_csv({path}, index=False, sep="\\t")', f"pd.read_table({path})") if _files(g, v) else None


@operation("pandas.read_json", "frame", 0.3)
def _(g: Builder, v: str) -> str | None:
    path = f'f"{{folder}}/{v}-{g.rng.randrange(10**6)}.json"'
    g.note_parameter("pandas.read_json", "path_or_buf")
    g.note_parameter("pandas.read_json", "lines")
    return (
        _written(v, f'to_json({path}, orient="records", lines=True)', f"pd.read_json({path}, lines=True)")
        if _files(g, v)
        else None
    )


@operation("DataFrame.from_arrow", "frame", 0.2)
def _(g: Builder, v: str) -> str | None:
    g.note_parameter("DataFrame.from_arrow", "data")
    return (
        f"pd.DataFrame.from_arrow(pa.Table.from_pandas(pandas.DataFrame({v}), preserve_index=False))"
        if _files(g, v)
        else None
    )


@operation("Series.from_arrow", "series", 0.15)
def _(g: Builder, v: str) -> str | None:
    g.note_parameter("Series.from_arrow", "data")
    return f"pd.Series.from_arrow(pa.array({v}.to_numpy()))"


@operation("DataFrame.info", "frame", 0.2)
def _(g: Builder, v: str) -> str | None:
    return f'(lambda out: ({v}.info(buf=out, memory_usage=False), out.getvalue())[1].partition("\\n")[2])(__import__("io").StringIO())'
