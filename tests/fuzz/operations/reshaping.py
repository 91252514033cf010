"""Bins, cross-tabulations, pivot tables with margins, and rows that become columns."""

from __future__ import annotations

from tests.fuzz.building import Builder, operation
from tests.fuzz.parameters import FLAG, arguments, maybe, of

BINS = of(
    "2",
    "3",
    "5",
    "[-1, 0, 2]",
    "[0, 1, 1, 3]",
    "np.array([-2.5, 0.5, 9])",
    "pandas.IntervalIndex.from_breaks([-1, 0, 2, 5])",
)
AGGREGATE = of('"sum"', '"mean"', '"count"', '"max"', '"first"', '"nunique"', "len", '["min", "sum"]')


def _numbers(g: Builder, v: str) -> str | None:
    return g.column_of(v, "number") if g.chance(0.8) else g.column_of(v)


@operation("pandas.cut", "frame", 2)
def _(g: Builder, v: str) -> str | None:
    column = _numbers(g, v)
    if column is None:
        return None
    given = arguments(
        g,
        "pandas.cut",
        v,
        {
            "right": maybe(FLAG, 0.3),
            "labels": maybe(of("False", "False", '["p", "q"]', '["p", "q", "r"]', "[2, 1]"), 0.4),
            "precision": maybe(of("1", "5"), 0.2),
            "include_lowest": maybe(FLAG, 0.3),
            "duplicates": maybe('"drop"', 0.3),
            "retbins": maybe("True", 0.15),
        },
    )
    text = f"pd.cut({column}, {BINS(g, v)}{', ' + given if given else ''})"
    return f"{text}[{g.pick(['0', '1'])}]" if "retbins" in text else text


@operation("pandas.qcut", "frame", 1.5)
def _(g: Builder, v: str) -> str | None:
    column = _numbers(g, v)
    if column is None:
        return None
    given = arguments(
        g,
        "pandas.qcut",
        v,
        {
            "labels": maybe(of("False", "False", '["p", "q"]'), 0.4),
            "precision": maybe(of("1", "5"), 0.2),
            "duplicates": maybe('"drop"', 0.6),
            "retbins": maybe("True", 0.15),
        },
    )
    text = f"pd.qcut({column}, {g.pick(['2', '3', '4', '[0, 0.3, 1]', '[0.2, 0.8]'])}{', ' + given if given else ''})"
    return f"{text}[{g.pick(['0', '1'])}]" if "retbins" in text else text


@operation("groups of bins", "frame", 1.5)
def _(g: Builder, v: str) -> str | None:
    column, number = g.column(v, "number"), g.column(v, "number")
    if column is None or number is None:
        return None
    bins = g.pick(
        [f"pd.cut({v}[{column}], {BINS(g, v)}, duplicates='drop')", f"pd.qcut({v}[{column}], 3, duplicates='drop')"]
    )
    return g.pick(
        [
            f"{v}.assign(w={bins}).groupby('w', observed=True)[{number}].{g.pick(['sum', 'mean', 'size', 'count'])}()",
            f"{bins}.value_counts()",
            f"{v}[{bins}.notna()]",
            f"{v}.assign(w={bins}).sort_values('w', kind='stable')",
            f"{v}.assign(w={bins}.cat.codes)",
            f"pd.crosstab({bins}, {v}[{g.key(v)}])",
        ]
    )


@operation("crosstab with parameters", "frame", 2)
def _(g: Builder, v: str) -> str | None:
    one, other, number = g.key(v), g.column(v), g.column(v, "number")
    if one is None or other is None:
        return None
    rows = f"[{v}[{one}], {v}[{g.column(v)}]]" if g.chance(0.25) else f"{v}[{one}]"
    across = f"[{v}[{other}], {v}[{g.key(v)}]]" if g.chance(0.15) else f"{v}[{other}]"
    given = arguments(
        g,
        "pandas.crosstab",
        v,
        {
            "margins": maybe("True", 0.35),
            "margins_name": maybe('"T"', 0.1),
            "dropna": maybe(FLAG, 0.2),
            "normalize": maybe(of("True", '"index"', '"columns"', '"all"'), 0.35),
            "rownames": maybe('["r"]', 0.1),
            "colnames": maybe('["c"]', 0.1),
        },
    )
    values = f", values={v}[{number}], aggfunc={AGGREGATE(g, v)}" if number is not None and g.chance(0.35) else ""
    return f"pd.crosstab({rows}, {across}{values}{', ' + given if given else ''})"


def _pivot_table(g: Builder, v: str, name: str) -> str | None:
    """The parameters of a pivot table."""
    number = g.column(v, "number")
    if number is None:
        return None
    return arguments(
        g,
        name,
        v,
        {
            "values": lambda g, v: number if g.chance(0.7) else g.column_list(v, "number"),
            "index": maybe(lambda g, v: g.keys(v), 0.85),
            "columns": maybe(lambda g, v: g.keys(v), 0.7),
            "aggfunc": maybe(AGGREGATE, 0.8),
            "margins": maybe("True", 0.8),
            "margins_name": maybe('"T"', 0.15),
            "fill_value": maybe("0", 0.2),
            "dropna": maybe(FLAG, 0.2),
            "sort": maybe(FLAG, 0.15),
        },
    )


@operation("DataFrame.pivot_table", "frame", 1.3)
def _(g: Builder, v: str) -> str | None:
    given = _pivot_table(g, v, "DataFrame.pivot_table")
    return None if given is None else f"{v}.pivot_table({given})"


@operation("pandas.pivot_table", "frame", 0.7)
def _(g: Builder, v: str) -> str | None:
    given = _pivot_table(g, v, "pandas.pivot_table")
    return None if given is None else f"pd.pivot_table({v}, {given})"


@operation("groups to columns", "frame", 2)
def _(g: Builder, v: str) -> str | None:
    keys = list(dict.fromkeys([g.key(v), g.column(v), *([g.column(v)] if g.chance(0.3) else [])]))
    number = g.column(v, "number")
    if number is None or None in keys or len(keys) < 2:
        return None
    chosen = g.pick([f"[{number}]", f"[[{number}]]", f"[{g.column_list(v, 'number')}]"])
    parameters = g.pick(
        ["", "0", "-1", "fill_value=0", "sort=False", "[0, 1]", keys[0] or "", "level=1, fill_value=-1"]
    )
    total = g.pick(["sum()", "size()", "mean()", "max()", "count()", 'agg("min")'])
    return f"{v}.groupby([{', '.join(map(str, keys))}]){chosen}.{total}.unstack({parameters})"


def _pivot(g: Builder, v: str) -> tuple[str, str] | None:
    """A frame and the parameters of its ``pivot``."""
    one, other = g.key(v), g.column(v)
    if one is None or other is None or one == other:
        return None
    rows = f"{v}.drop_duplicates([{one}, {other}])" if g.chance(0.85) else v
    values = g.pick(["", f", values={g.column(v)}", f", values={g.column_list(v)}"])
    index = "" if g.chance(0.1) else f", index={one}"
    return rows, f"columns={other}{index}{values}"


@operation("DataFrame.pivot", "frame", 1)
def _(g: Builder, v: str) -> str | None:
    found = _pivot(g, v)
    return None if found is None else f"{found[0]}.pivot({found[1]})"


@operation("pandas.pivot", "frame", 0.5)
def _(g: Builder, v: str) -> str | None:
    found = _pivot(g, v)
    return None if found is None else f"pd.pivot({found[0]}, {found[1]})"


@operation("columns to rows", "frame", 2)
def _(g: Builder, v: str) -> str | None:
    chosen = g.column_list(v, "number") if g.chance(0.7) else g.column_list(v)
    if chosen is None:
        return None
    return g.pick(
        [
            f"{v}[{chosen}].stack()",
            f"{v}[{chosen}].stack(future_stack=True)",
            f"{v}.set_index({g.column(v)})[{chosen}].stack()",
            f"{v}.groupby({g.key(v)})[{chosen}].mean().stack()",
            f"{v}.groupby({g.key(v)})[{chosen}].max().T",
            f"{v}[{chosen}].describe().T",
            f"{v}.groupby({g.key(v)})[{chosen}].agg(['min', 'max']).stack()",
            f"{v}[{chosen}].head(3).transpose()",
            f"{v}.set_index({g.column(v)}).melt(value_vars={chosen}, ignore_index={FLAG(g, v)})",
        ]
    )


@operation("pandas.wide_to_long", "frame", 0.7)
def _(g: Builder, v: str) -> str | None:
    found = g.some(g.columns(v, "number"), 2)
    if len(found) < 2:
        return None
    frame = (
        f"pd.DataFrame({{'i': range(len({v})), 'z1': {v}[{found[0]}].to_numpy(), 'z2': {v}[{found[1]}].to_numpy()}})"
    )
    return f"pd.wide_to_long({frame}, 'z', i='i', j={g.pick(['1', repr('n')])})"
