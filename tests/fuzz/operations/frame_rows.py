"""Operations on rows and columns of frames: selection, assignment, queries, and changes in place."""

from __future__ import annotations

from tests.fuzz.building import Builder, Statement, operation
from tests.fuzz.operations.expressions import expression
from tests.fuzz.operations.masks import frame_mask, of_columns
from tests.fuzz.parameters import label, numeric


@operation("DataFrame.assign", "frame", 5)
def _(g: Builder, v: str) -> str | None:
    found = expression(g, v)
    name = g.pick(["w", "x", "k", "new", "w"])
    return None if found is None else f"{v}.assign({name}={found})"


@operation("DataFrame.assign", "frame", 1.5)
def _(g: Builder, v: str) -> str | None:
    other = g.pick(
        [
            f'lambda f: f["w"] {g.pick(["+", "*"])} 2',
            'lambda f: f["w"].shift()',
            'lambda f: f["w"].sum()',
            'lambda f: f["w"].cumsum()',
            'lambda f: f["w"].isna()',
        ]
    )
    found = expression(g, v)
    return None if found is None else f"{v}.assign(w={found}, z={other})"


@operation("DataFrame.assign", "frame", 1)
def _(g: Builder, v: str) -> str | None:
    found, name = expression(g, v), g.pick(["w", "x", "new"])
    more = g.pick(["", f', z=pd.col("{name}").shift()', f', z=pd.col("{name}") == pd.col("{name}").max()'])
    return None if found is None else f"{v}.assign({name}={of_columns(v, found)}{more})"


@operation("DataFrame.__getitem__", "frame", 1)
def _(g: Builder, v: str) -> str | None:
    mask = frame_mask(g, v)
    return None if mask is None else g.pick([f"{v}[{of_columns(v, mask)}]", f"{v}.loc[{of_columns(v, mask)}]"])


@operation("DataFrame.__getitem__", "frame", 4)
def _(g: Builder, v: str) -> str | None:
    mask = frame_mask(g, v)
    return None if mask is None else f"{v}[{mask}]"


@operation("DataFrame.__getitem__", "frame", 2)
def _(g: Builder, v: str) -> str | None:
    drawn = g.rng.random()
    if drawn < 0.35:
        return g.column_of(v)
    if drawn < 0.85:
        found = g.column_list(v, most=4)
        return None if found is None else f"{v}[{found}]"
    return f"{v}[{g.pick(['1:3', ':2', '::2', '-3:', '5:2', '::-1'])}]"


@operation("DataFrame.loc", "frame", 2)
def _(g: Builder, v: str) -> str | None:
    mask = frame_mask(g, v)
    columns = g.pick([g.column(v), g.column_list(v), ":"])
    if mask is None or columns is None:
        return None
    return f"{v}.loc[{mask}, {columns}]" if g.chance(0.7) else f"{v}.loc[{mask}]"


@operation("DataFrame.loc", "frame", 1.5)
def _(g: Builder, v: str) -> str | None:
    index = g.value(f"{v}.index")
    if index is None:
        return None
    one, other = g.similar_value(index.to_series()), g.similar_value(index.to_series())
    form = g.pick(
        [
            f"[{one}]",
            f"[{one}, {other}]",
            f"{one}:{other}",
            one,
            f":{one}",
            f"{one}:",
            f"lambda f: f[{g.column(v)}].notna()",
        ]
    )
    if g.chance(0.2):  # single cells, some of them again
        keys = g.pick([f"({one}, {other}, {one})", f"({one},)", f"{v}.index[:4]"])
        return f"[{v}.loc[k, {g.column(v)}] for k in {keys}]"
    return f"{v}.loc[{form}]"


@operation("DataFrame.iloc", "frame", 2)
def _(g: Builder, v: str) -> str | None:
    rows = g.pick(["1:4", "::2", "::-1", "[0, 2]", "[1, 0, 1]", "2", "-1", ":3", "-4:-1", "0:0", ":", "3:"])
    columns = g.pick(["", "", ", 0", ", 1", ", [0, 1]", ", :2", ", ::-1", ", -1"])
    if g.chance(0.2):
        return f"[{v}.iloc[r, {g.pick(['0', '1', '-1'])}] for r in (0, 2, -1, 2)]"
    return f"{v}.iloc[{rows}{columns}]"


@operation("DataFrame.query", "frame", 2)
def _(g: Builder, v: str) -> str | None:
    found = query(g, v)
    g.note_parameter("DataFrame.query", "expr")
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
    near = g.similar_value(value)
    if "pd." in near or "np." in near or near == "None":
        return g.pick([f"{label}.notna()", f"{label}.isna()", f"{label} == {label}.max()"])
    near = near.replace("'", "")
    return g.pick(
        [
            f"{label} {g.pick(['<', '>=', '==', '!='])} {near}",
            f"{label} in [{near}]",
            f"{label} not in [{near}, {near}]",
            f"{label} == [{near}]",
            f"{label}.isin([{near}])",
            f"{label} < {g.pick(names)[1:-1]}",
            f"{near} <= {label} < {near}",
        ]
    )


@operation("DataFrame.eval", "frame", 0.8)
def _(g: Builder, v: str) -> str | None:
    names = [text[1:-1] for text in g.columns(v, "number") if text[1:-1].isidentifier() and text.startswith('"')]
    if not names:
        return None
    one, other = g.pick(names), g.pick(names)
    g.note_parameter("DataFrame.eval", "expr")
    forms = (
        f"{one} + {other}",
        f"w = {one} * 2",
        f"w = {one} - {other}",
        f"{one} > {other}",
        f"w = {one}.sum()",
        f"-{one}",
    )
    return f"{v}.eval({g.pick(forms)!r})"


@operation("DataFrame.__setitem__", "frame", 4)
def _(g: Builder, v: str) -> str | None:
    found = expression(g, v)
    name = g.pick(['"w"', '"new"', g.column(v) or '"w"', '"x"'])
    return None if found is None else Statement(f"{v}[{name}] = {found}")


@operation("DataFrame.__setitem__", "frame", 0.5)
def _(g: Builder, v: str) -> str | None:
    names = g.some(g.columns(v, "number") or ['"x"'], 2)
    some = f"{v}[[{', '.join(names)}]]"
    return Statement(f"{some} = {g.pick([f'{some} * 2', '0', f'{some}.shift()'])}")


@operation("DataFrame.__setitem__", "frame", 0.5)
def _(g: Builder, v: str) -> str | None:
    """Rows set by a mask, of any dtype that holds booleans."""
    mask = frame_mask(g, v)
    if mask is None:
        return None
    kinds = ("", "", ".to_numpy()", ".tolist()", ".astype(object)", '.astype("category")', '.astype("boolean")')
    return Statement(f"{v}[({mask}){g.pick(kinds)}] = {g.constant()}")


@operation("DataFrame.loc.__setitem__", "frame", 2)
def _(g: Builder, v: str) -> str | None:
    mask, column = frame_mask(g, v), g.pick([g.column(v), '"w"', g.column_list(v, "number")])
    if mask is None or column is None:
        return None
    value = (
        g.similar_value(g.value(f"{v}[{column}]"))
        if column.startswith('"')
        and column in g.columns(v)
        and g.chance(0.7)
        and getattr(g.value(f"{v}[{column}]"), "ndim", 0) == 1
        else g.constant()
    )
    if column.startswith('"') and g.chance(0.25):
        value = g.column_of(v) or value
    if column in g.columns(v, "number") and g.chance(0.3):
        rows = f"{v}.loc[{mask}, {column}]"
        value = g.pick(
            [f"{rows} * 2", f"{rows}.fillna(1)", f"{v}[{column}].shift()", f"{v}[{column}] + 1", f"{rows}.diff()"]
        )
    return Statement(f"{v}.loc[{mask}, {column}] = {value}")


@operation("DataFrame.loc.__setitem__", "frame", 0.7)
def _(g: Builder, v: str) -> str | None:
    index = g.value(f"{v}.index")
    column = g.column(v)
    if index is None or column is None or not len(index):
        return None
    value = g.value(f"{v}[{column}]")
    return Statement(
        f"{v}.loc[{g.similar_value(index.to_series())}, {column}] = {g.similar_value(value) if getattr(value, 'ndim', 0) == 1 else 0}"
    )


@operation("DataFrame.iloc.__setitem__", "frame", 1)
def _(g: Builder, v: str) -> str | None:
    rows, columns = g.pick(["0", "1:3", ":", "-1", "[0, 2]", "::2"]), g.pick(["0", "1", "-1", "[0, 1]", ":2"])
    return Statement(f"{v}.iloc[{rows}, {columns}] = {g.constant() if g.chance(0.7) else 'np.nan'}")


@operation("DataFrame.__delitem__", "frame", 0.3)
def _(g: Builder, v: str) -> str | None:
    name = g.column(v)
    return None if name is None else Statement(f"del {v}[{name}]")


@operation("DataFrame.pop", "frame", 0.3)
def _(g: Builder, v: str) -> str | None:
    g.note_parameter("DataFrame.pop", "item")
    name = g.column(v)
    return None if name is None else f"{v}.pop({name})"


@operation("DataFrame.insert", "frame", 0.5)
def _(g: Builder, v: str) -> str | None:
    for parameter in ("loc", "column", "value"):
        g.note_parameter("DataFrame.insert", parameter)
    column = '"ins"'
    if g.chance(0.1):
        column = f"{g.column(v)}, allow_duplicates=True, value"
        g.note_parameter("DataFrame.insert", "allow_duplicates")
        return Statement(f"{v}.insert({g.pick(['0', '1'])}, {column}={expression(g, v) or '1'})")
    return Statement(f"{v}.insert({g.pick(['0', '1'])}, {column}, {expression(g, v) or '1'})")


@operation("DataFrame.items", "frame", 0.3)
def _(g: Builder, v: str) -> str | None:
    return f"[(name, len(column)) for name, column in {v}.items()]"


@operation("DataFrame in place", "frame", 1.5)
def _(g: Builder, v: str) -> str | None:
    name = g.column(v)
    if name is None:
        return None
    call, parameter = g.pick(
        [
            (f'sort_values({name}, kind="stable", inplace=True)', "sort_values"),
            (f"drop_duplicates({name}, inplace=True)", "drop_duplicates"),
            ("reset_index(drop=True, inplace=True)", "reset_index"),
            (f"set_index({name}, inplace=True)", "set_index"),
            (f'rename(columns={{{name}: "renamed"}}, inplace=True)', "rename"),
            ("dropna(inplace=True)", "dropna"),
            ("fillna(0, inplace=True)", "fillna"),
            (f"drop(columns={name}, inplace=True)", "drop"),
            ("ffill(inplace=True)", "ffill"),
            ("bfill(inplace=True)", "bfill"),
            ('sort_index(kind="stable", inplace=True)', "sort_index"),
            ("replace(1, 5, inplace=True)", "replace"),
            ('rename_axis("rows", inplace=True)', "rename_axis"),
            (f"where({v}.notna(), 0, inplace=True)", "where"),
            (f"mask({v}.isna(), 0, inplace=True)", "mask"),
            ("clip(upper=2, inplace=True)", "clip"),
            (f"query({query(g, v)!r}, inplace=True)", "query"),
            (f'eval("w = {name[1:-1]}", inplace=True)', "eval"),
        ]
    )
    g.note_parameter(f"DataFrame.{parameter}", "")
    g.note_parameter(f"DataFrame.{parameter}", "inplace")
    return Statement(f"{v}.{call}")


@operation("operators of frames", "frame", 1)
def _(g: Builder, v: str) -> str | None:
    found = numeric(g, v)
    return (
        None
        if found is None
        else g.pick(
            [
                f"-{found}",
                f"{found} + 1",
                f"{found} * {found}",
                f"{found} > 1",
                f"~({found} > 0)",
                f"2 - {found}",
                f"{found} / 2",
                f"abs({found})",
                f"np.sqrt({found})",
                f"np.log1p({found})",
                f"+{found}",
                f"np.{g.pick(['negative', 'positive', 'absolute', 'square'])}({found})",
            ]
        )
    )


@operation("in", "frame", 0.2)
def _(g: Builder, v: str) -> str | None:
    return f"{label(g, v)} in {v}"


#: Calls that fall back to pandas, on frames that have a plan. ``{v}`` is the frame, ``{c}`` a column label, ``{n}`` the frame with
#: some numeric columns, ``{o}`` another frame.
INHERITED = (
    "{v}.reindex([0, 2, 99])",
    "{v}.reindex(columns=list({v}.columns[::-1]))",
    "{n}.rolling(2, min_periods=1).sum()",
    "{n}.expanding().max()",
    "{n}.interpolate()",
    "{v}.combine_first({o})",
    "{v}.align({o})[0]",
    "{v}.T",
    "{v}.squeeze()",
    "{v}.get({c})",
    "{v}.iat[0, 0]",
    "{v}.at[{v}.index[0], {c}]",
    "{v}.xs({v}.index[0])",
    "{v}.convert_dtypes()",
    "{v}.infer_objects()",
    "{v}.stack()",
    "{v}.first_valid_index()",
    "{v}.set_index({c}).xs({v}[{c}].iloc[0])",
    "{v}.to_records(index=False).tolist()",
    "{n}.corr()",
    "{n}.cov()",
    "{n}.ewm(com=1).mean()",
    "{n}.compare({n})",
    "{v}.explode({c})",
    "{v}.pipe(len)",
    "{v}.agg({{{c}: 'count'}})",
    "{v}.agg(n=({c}, 'count'))",
    "{v}.groupby({c})[{c}].rolling(2).count()",
    "pd.get_dummies({v}[[{c}]])",
    "pd.json_normalize({v}.head(2).to_dict('records'))",
    "pd.merge_ordered({v}, {v}[[{c}]].drop_duplicates(), on={c})",
)


@operation("calls that pandas answers", "frame", 2)
def _(g: Builder, v: str) -> str | None:
    text = g.pick(INHERITED)
    other, numbers, column = g.variable("frame", 0.2), g.column_list(v, "number"), g.column(v)
    if column is None or (numbers is None and "{n}" in text):
        return None
    return str(text.format(v=v, o=other, n=f"{v}[{numbers}]", c=column))
