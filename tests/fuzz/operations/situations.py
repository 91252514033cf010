"""Situations that often reveal errors: early evaluation, branches that join again, changed operands, copies, pickles, threads."""

from __future__ import annotations

from tests.fuzz.building import Builder, Statement, operation
from tests.fuzz.operations.expressions import ENDINGS, KEYED, WINDOWS, expression
from tests.fuzz.operations.masks import frame_mask, series_mask
from tests.fuzz.parameters import near


def _data(g: Builder) -> str | None:
    return g.variable("frame") if g.chance(0.6) or g.variable("series") is None else g.variable("series")


@operation("evaluate", "situation", 3)
def _(g: Builder, v: str) -> str | None:
    found = _data(g)
    if found is None:
        return None
    return g.pick(
        [
            f"len({found})",
            f"repr({found})",
            f"{found}.shape",
            f"{found}.count()",
            f"{found}.head(2).to_dict()",
            f"str({found}.dtypes)",
            f"{found}.index",
            f"{found}.isna().sum()",
            f"{found}.memory_usage(index=False) is None",
            f"{found}.empty",
        ]
    )


@operation("copy", "situation", 1.5)
def _(g: Builder, v: str) -> str | None:
    found = _data(g)
    return (
        g.pick(
            [
                f"pickle.loads(pickle.dumps({found}))",
                f"copy.deepcopy({found})",
                f"copy.copy({found})",
                f"{found}.copy()",
                f"{found}.copy(deep=False)",
                f"{found}[:]",
            ]
        )
        if found
        else None
    )


@operation("pickled group-by", "situation", 0.3)
def _(g: Builder, v: str) -> str | None:
    found = g.variable("frame_groups")
    return f"pickle.loads(pickle.dumps({found})).sum(numeric_only=True)" if found else None


@operation("threads", "situation", 1)
def _(g: Builder, v: str) -> str | None:
    found = _data(g)
    if found is None:
        return None
    evaluation = g.pick(
        [
            "repr(f)",
            "f.count()",
            "len(f)",
            "f.sum(numeric_only=True)" if g.kind(found) == "frame" else "f.max()",
            "f.copy()",
        ]
    )
    return f"list(ThreadPoolExecutor(2).map(lambda f: {evaluation}, [{found}, {found}]))"


@operation("filter by its own value", "situation", 2)
def _(g: Builder, v: str) -> str | None:
    v = g.variable("frame") or ""
    if not v:
        return None
    key, column = g.key(v), g.column(v, "number")
    if key is None or column is None:
        return None
    how = g.pick(["sum()", "mean()", "max()", "count()", "std()", "first()", "var()", "cumsum()"])
    test = g.pick(["r == r.max()", "r == r.min()", "r >= r.max()", "r != r.shift()", "r > r.mean()", "r == r"])
    body = test if how != "cumsum()" else "r == r.groupby(level=0).max()"
    return f"(lambda r: r[{body}])({v}.groupby({key})[{column}].{how})"


@operation("branches that meet", "situation", 3)
def _(g: Builder, v: str) -> str | None:
    v = g.variable("frame") or ""
    one = g.column_of(v, "number") if v else None
    if one is None:
        return None
    other = g.column_of(v, "number")
    mask = frame_mask(g, v)
    order = g.column(v)
    return g.pick(
        [
            f"{one} + {other}.{g.pick(WINDOWS)}",
            f"{one}[{mask}] + {other}",
            f'{one}.sort_values(kind="stable") - {other}',
            f'{v}.sort_values({order}, kind="stable"){one.removeprefix(v)}.where({other} > 0).{g.pick(["ffill()", "sum()", "count()"])}',
            f'{v}.assign(w={v}.groupby({g.key(v)}){one.removeprefix(v)}.transform("sum"))[lambda f: f["w"] == f["w"].max()]',
            f'{v}[{one} > {v}.sort_values({order}, kind="stable"){one.removeprefix(v)}.shift()]',
            f"pd.concat([{one}.cumsum(), {other}.head(3)], axis=1)",
            f'{v}[{mask}].join({v}.groupby({g.key(v)}){one.removeprefix(v)}.sum().rename("total"), on={g.key(v)})',
            f"{v}.loc[{one}.drop_duplicates().index]",
            f'{v}.set_index({order}){one.removeprefix(v)}.sort_index(kind="stable").cumsum().{g.pick(ENDINGS)}',
        ]
    )


@operation("a constant column", "situation", 3)
def _(g: Builder, v: str) -> str | None:
    v = g.variable("frame") or ""
    if not v:
        return None
    key = g.key(v)
    made = f"{v}.assign(w={g.pick([g.constant(), '2', '2', f'{v}[{key}].max()'])})"
    return g.pick(
        [
            f'{made}["w"].{g.pick(ENDINGS)}',
            f'{made}["w"].{g.pick(WINDOWS)}',
            f'{made}["w"].{g.pick(WINDOWS)}.{g.pick(ENDINGS)}',
            f'{made}.groupby("w").{g.pick(["size()", "sum(numeric_only=True)", "count()", "cumcount()", "ngroup()"])}',
            f'{made}.groupby({key})["w"].{g.pick(KEYED)}',
            f'{made}.groupby({key})["w"].{g.pick(["sum()", "mean()", "count()", "size()", "nunique()", "first()"])}',
            f'{made}.drop_duplicates("w")',
            f'{made}.sort_values("w", kind="stable").head(3)',
            f'{made}["w"].value_counts()',
        ]
    )


@operation("a table put together", "situation", 2)
def _(g: Builder, v: str) -> str | None:
    v = g.variable("frame") or ""
    one, other = (g.column_of(v, "number"), g.column_of(v)) if v else (None, None)
    if one is None or other is None:
        return None
    size = g.pick([1, 2, 3])
    made = g.pick(
        [
            f'pd.DataFrame({{"a": {one}, "b": {other}}})',
            f'pd.DataFrame({{"a": {one}.{g.pick(WINDOWS)}, "b": {other}, "c": {one} * 2}})',
            f'pd.DataFrame({{"a": {one}, "b": {other}[{frame_mask(g, v)}]}})',
            f"pd.concat([{v}.iloc[i * {size} : (i + 1) * {size}] for i in range(4)])",
            f"pd.concat([{v}.iloc[i * {size} : (i + 1) * {size}].assign(part={one}) for i in range(4)], ignore_index=True)",
            f"pd.concat([{v}.iloc[:{size}], {v}.iloc[{size}:], {v}.iloc[-{size}:]])",
        ]
    )
    return made + g.pick(["", "", ".count()", ".head(4)", ".sum(numeric_only=True)", "[::2]"])


#: Functions of a column, or of a group's column.
_FUNCTIONS = [
    "lambda s: s.max() - s.min()",
    "lambda s: s.fillna(s.mean())",
    "lambda s: (s - s.mean()) / s.std()",
    "lambda s: s.describe()",
    "lambda s: s[s > s.median()].count()",
    "lambda s: s.cumsum()",
    "lambda s: s.value_counts().head(2)",
    "lambda s: s.dropna().tolist()",
    "lambda s: s.iloc[0] if len(s) else None",
    "lambda s: s.name",
]


@operation("functions of columns", "situation", 1.5)
def _(g: Builder, v: str) -> str | None:
    v = g.variable("frame") or ""
    key, column = (g.key(v), g.column(v, "number")) if v else (None, None)
    if column is None:
        return None
    function = g.pick(_FUNCTIONS)
    return g.pick(
        [
            f'{v}.select_dtypes("number").apply({function})',
            f'{v}.select_dtypes("number").apply({function}).{g.pick(["count()", "head(2)"])}',
            f"{v}.groupby({key})[{column}].apply({function})",
            f"{v}.groupby({key})[{column}].agg(lambda s: s.max() - s.min())",
            f'{v}.groupby({key}).agg(most=({column}, lambda s: s.max()), n=({column}, "count"))',
        ]
    )


@operation("a window, then groups", "situation", 2.5)
def _(g: Builder, v: str) -> str | None:
    v = g.variable("frame") or ""
    if not v:
        return None
    found, key = expression(g, v), g.keys(v)
    return (
        None
        if found is None
        else f'{v}.assign(w={found}).groupby({key})["w"].{g.pick([*KEYED, "sum()", "first()", "mean()"])}'
    )


@operation("an order, then a number", "situation", 3)
def _(g: Builder, v: str) -> str | None:
    v = g.variable("frame") or ""
    one, order = (g.column_of(v, "number"), g.column(v)) if v else (None, None)
    if one is None:
        return None
    some = f'{v}.sort_values({order}, kind="stable"{g.pick(["", ", ascending=False"])})'
    if g.chance(0.3):
        some = g.pick(
            [
                f"pd.concat([{v}, {v}])",
                f"{v}[::-1]",
                f'{v}.sort_index(kind="stable", ascending=False)',
                f'{v}.drop_duplicates({order}, keep="last")',
                f"{v}.nlargest(5, {one.removeprefix(v)[1:-1]})",
                f"{v}.sample(frac=1, random_state=3)",
            ]
        )
    tail = g.pick(
        [
            f".{g.pick(WINDOWS)}.{g.pick(ENDINGS)}",
            f".{g.pick(WINDOWS)}",
            f".head(3).{g.pick(ENDINGS)}",
            f".iloc[1:].{g.pick(ENDINGS)}",
            ".index",
            f".reset_index(drop=True).{g.pick(WINDOWS)}",
        ]
    )
    return f"{some}{one.removeprefix(v)}{tail}"


@operation("an operand that changes", "situation", 2)
def _(g: Builder, v: str) -> str | None:
    v = g.variable("frame") or ""
    one = g.column_of(v) if v else None
    if one is None:
        return None
    value = g.value(one)
    if getattr(value, "ndim", 0) != 1:
        return None
    number = g.rng.randrange(100)
    operand, result = f"o{number}", f"r{number}"
    if operand in g.env:
        return None
    values = f"[{near(g, one)}, {near(g, one)}]"
    rows = len(value)
    made, call, change = g.pick(
        [
            (values, f"{one}.isin({operand})", f"{operand}[:] = [7, 7]"),
            (f"np.array({values})", f"{one}.isin({operand})", f"{operand}[:] = {operand}[::-1].copy()[0]"),
            (f"pd.Series({values})", f"{one}.isin({operand})", f"{operand}.iloc[:] = {near(g, one)}"),
            (f"{{{near(g, one)}: {near(g, one)}}}", f"{one}.map({operand})", f"{operand}.clear()"),
            (f"{{{near(g, one)}: {near(g, one)}}}", f"{one}.replace({operand})", f"{operand}.clear()"),
            (f"np.arange({rows})", f"{v}.assign(w={operand})", f"{operand}[:] = -1"),
            (f"np.arange({rows}) % 2 == 0", f"{v}[{operand}]", f"{operand}[:] = True"),
            (f"np.arange({rows}) % 2 == 0", f"{one}.where({operand})", f"{operand}[:] = True"),
            (f"np.arange({rows}) % 3", f"{v}.groupby({operand}).size()", f"{operand}[:] = 0"),
            (f"list(range({rows}))", f"{v}.assign(w={operand})", f"{operand}[:] = [0] * {rows}"),
            (f"{one}.copy()", f"{v}.assign(w={operand})", f"{operand}.iloc[:1] = {near(g, one)}"),
            (f"{one}.copy()", f"{v}[{operand} == {near(g, one)}]", f"{operand}.iloc[:] = {near(g, one)}"),
            (values, f'{v}.query("{one[len(v) + 2 : -2]} in @{operand}")', f"{operand}.clear()"),
            (f"[{one[len(v) + 1 : -1]}]", f"{v}.groupby({operand}).size()", f'{operand}.append("nope")'),
            (f"[{one[len(v) + 1 : -1]}]", f'{v}.sort_values({operand}, kind="stable")', f"{operand}.clear()"),
        ]
    )
    if "query" in call and not one[len(v) + 1 :].startswith('["'):
        return None
    return Statement(f"{operand} = {made}\n{result} = {call}\n{change}")


@operation("a source that changes", "situation", 2)
def _(g: Builder, v: str) -> str | None:
    v = g.variable("frame") or ""
    one, key = (g.column_of(v, "number"), g.key(v)) if v else (None, None)
    if one is None or key is None:
        return None
    label = one.removeprefix(v)
    number = g.rng.randrange(100)
    held, result = f"h{number}", f"r{number}"
    if held in g.env or result in g.env:
        return None
    derive, use = g.pick(
        [
            (f"{v}.groupby({key}){label}", f"{held}.{g.pick(['sum()', 'cumsum()', 'first()', 'cummax()', 'size()'])}"),
            (f"{v}.groupby({key})", f"{held}{label}.{g.pick(['sum()', 'cumsum()', 'count()'])}"),
            (one, f"{held}.{g.pick(['sum()', 'cumsum()', 'head(3)'])}"),
            (f"{v}[{series_mask(g, one)}]", f"{held}{label}.{g.pick(['sum()', 'shift()'])}"),
            (f"{v}.loc", f"{held}[{frame_mask(g, v)}]"),
            (f"{v}.copy(deep=False)", f"{held}{label}.sum()"),
        ]
    )
    change = g.pick(
        [
            f"{v}{label} = 0",
            f"{v}.loc[{v}.index[:1], {label[1:-1]}] = 5",
            f'{v}.sort_values({label[1:-1]}, kind="stable", inplace=True)',
            f"{v}[{key}] = 1",
            f"{v}.iloc[0, 0] = {v}.iloc[-1, 0]",
            f"del {v}[{key}]",
            f"{v}.drop(columns={key}, inplace=True)",
        ]
    )
    return Statement(f"{held} = {derive}\n{change}\n{result} = {use}")


@operation("loops", "situation", 0.6)
def _(g: Builder, v: str) -> str | None:
    v = g.variable("frame") or ""
    key = g.key(v) if v else None
    if key is None:
        return None
    return g.pick(
        [
            f"[(name, len(part)) for name, part in {v}.groupby({key})]",
            f"[c for c in {v}]",
            f"list({v}.items())[0][1]",
            f"[row for row in {v}.head(3).itertuples()]",
            f"{v}.pipe(lambda f: f.head(2))",
        ]
    )


#: For each plan operator, expressions of a frame ``f`` whose plans have it.
OPERATORS: dict[str, tuple[str, ...]] = {
    "Aggregate": (
        "f.groupby(f.columns[0], as_index=False).first()",
        "f.groupby(f.columns[0], as_index=False, sort=False).agg(n=(f.columns[-1], 'count'))",
    ),
    "Attach": ("f.assign(p=np.arange(len(f)))",),
    "Distinct": (
        "f.drop_duplicates(f.columns[0])",
        "f.drop_duplicates(f.columns[-1], keep=False)",
        "f.drop_duplicates()",
    ),
    "Filter": (
        "f[f[f.columns[0]].notna()]",
        "f[f[f.columns[-1]] == f[f.columns[-1]].max()]",
        "f[f[f.columns[0]].isin(f[f.columns[0]].head(3))]",
        "f.dropna()",
    ),
    "Join": (
        "f.merge(f.drop_duplicates(f.columns[0]), on=f.columns[0])",
        'f.merge(f.head(3)[[f.columns[0]]].drop_duplicates(), on=f.columns[0], how="left", indicator=True)',
    ),
    "Project": (
        "f.assign(q=f[f.columns[0]].isna())",
        "f.set_index(f.columns[0], drop=False)",
        "f.rename(columns={f.columns[0]: 'first'})",
        "f.astype({f.columns[-1]: 'str'})",
    ),
    "RowNumber": ("f.reset_index()", "f.reset_index(drop=True)"),
    "Slice": ("f.head(7)", "f.iloc[2:-1]", "f.tail(4)"),
    "Sort": (
        'f.sort_values(f.columns[0], kind="stable")',
        'f.sort_values(f.columns[-1], kind="stable", ascending=False)',
    ),
    "Union": ("pd.concat([f, f.head(2)])", "pd.concat([f, f], ignore_index=True)"),
    "Explode": (
        'f.assign(q=f[f.columns[0]].astype("str").str.split("1")).explode("q")',
        'f.assign(q=f[f.columns[-1]].astype("str").str.findall("[0-9]")).explode("q", ignore_index=True)',
    ),
    "Unpivot": (
        "f.melt(id_vars=f.columns[0])",
        "f.melt()",
        "f[f.columns[:1]].melt()",
        "f.melt(id_vars=f.columns[0], value_vars=f.columns[-1:])",
    ),
    "Window": (
        "f.assign(q=f[f.columns[-1]].shift())",
        "f.assign(q=f.groupby(f.columns[0])[f.columns[-1]].shift())",
        "f.assign(q=f.groupby(f.columns[0]).cumcount())",
    ),
}


def _operator(g: Builder) -> str:
    """An expression for a random operator; all operators are equally likely."""
    return g.pick(OPERATORS[g.pick(OPERATORS)])


@operation("one operator over another", "situation", 5)
def _(g: Builder, v: str) -> str | None:
    v = g.variable("frame") or ""
    steps = "".join(f".pipe(lambda f: {_operator(g)})" for _ in range(g.pick([2, 2, 3, 4])))
    tail = g.pick(["", "", "", ".count()", ".index", ".shape", ".iloc[:, -1].sum()", ".iloc[:, 0].value_counts()"])
    return f"{v}{steps}{tail}" if v else None


#: Steps of a loop that use the last value several times, for a series `x`.
STEPS = (
    "(x + x) / 2",
    "(x + x.shift(1)) / 2",
    "x.where(x > 0, -x / 2)",
    "x.fillna(0) - x / (x.abs() + 1)",
    "x.mask(x == x.shift(-1), x + 1)",
    "x - x.diff()",
    "(x * x).clip(-5, 9) + x",
)


@operation("a loop of equal steps", "situation", 1)
def _(g: Builder, v: str) -> str | None:
    frame = g.variable("frame")
    series = g.column_of(frame, "number") if frame else None
    return f"{series}" + f".pipe(lambda x: {g.pick(STEPS)})" * g.pick([2, 4, 7]) if series else None
