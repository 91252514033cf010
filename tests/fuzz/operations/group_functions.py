"""Methods of groups that call a function or return several rows for each group: what functions compute is planned where it can be."""

from __future__ import annotations

from tests.fuzz.building import Builder, operation
from tests.fuzz.operations.expressions import ENDINGS
from tests.fuzz.operations.groups import PARAMETERS
from tests.fuzz.parameters import FLAG, arguments

_REDUCTIONS = [
    "max()",
    "min()",
    "mean()",
    "sum()",
    "median()",
    "count()",
    "nunique()",
    "iloc[0]",
    "iloc[-1]",
    "isna().sum()",
    "abs().max()",
    "std()",
    "var()",
    "size",
    "var(ddof=0)",
]
_NAMES = ("mean", "sum", "min", "max", "count", "nunique", "first", "std")
_OPERATORS = ("+", "-", "*", "/")
_COMPARISONS = (">", "<", ">=", "<=", "==", "!=")


def _rows(g: Builder, columns: list[str]) -> str:
    """A column of the group, or simple arithmetic on columns."""
    one = g.pick(columns)
    if g.chance(0.7):
        return one
    if g.chance(0.4):
        return f"({one} {g.pick(_COMPARISONS)} {g.constant('number')})"
    if g.chance(0.3):
        return one + g.pick([".shift()", ".shift(-2)", ".diff()", ".fillna(0)", f".fillna({one}.mean())", ".isna()"])
    if g.chance(0.3):
        return f"({one} - {one}.{g.pick(['mean()', 'min()'])}).abs()"
    return f"({one} {g.pick(_OPERATORS[:3])} {g.pick([*columns, '2', '0.5'])})"


def _number(g: Builder, columns: list[str], group: str) -> str:
    """A number for a group."""
    if g.chance(0.15):
        return f"len({group})"
    rows = _rows(g, columns)
    if "=" in rows or ">" in rows or "<" in rows or "isna" in rows:
        return f"{rows}.{g.pick(['sum()', 'mean()', 'any()', 'all()'])}"
    if rows == columns[0] and g.chance(0.1):
        return f"{rows}.quantile({g.pick(['0.5', '0.9', '0.37', '0', '1'])})"
    return f"{rows}.{g.pick(_REDUCTIONS)}"


def _numbers(g: Builder, columns: list[str], group: str) -> str:
    """Arithmetic on numbers for a group."""
    one = _number(g, columns, group)
    if g.chance(0.4):
        return one
    return f"{one} {g.pick(_OPERATORS)} {_number(g, columns, group) if g.chance(0.7) else g.constant('number')}"


def _transformed(g: Builder) -> str:
    one = f"(s {g.pick(['-', '-', '+', '/', '*'])} {_number(g, ['s'], 's')})"
    if g.chance(0.3):
        one += f" {g.pick(_OPERATORS)} {_numbers(g, ['s'], 's') if g.chance(0.3) else _number(g, ['s'], 's')}"
    more = [
        "s.shift()",
        "s.diff(2)",
        "s.fillna(s.mean())",
        "s.fillna(s.min())",
        "np.sqrt(s.abs())",
        "s.fillna(0) - s.mean()",
    ]
    if g.chance(0.25):
        return g.pick(more)
    return g.pick([one, one, f"{one}.abs()", f"{one} {g.pick(_COMPARISONS)} 0", "s.isna()", _numbers(g, ["s"], "s")])


def _groups(g: Builder, v: str, *, most: int = 2) -> str | None:
    keys = g.keys(v, most)
    if keys is None:
        return None
    given = arguments(g, "DataFrame.groupby", v, PARAMETERS)
    g.note_parameter("DataFrame.groupby", "by")
    return f"{v}.groupby({keys}{', ' + given if given else ''})"


def _of_columns(g: Builder, v: str, one: float) -> str | None:
    """A group-by of one column, with the given probability, or of several."""
    text = _groups(g, v)
    if text is None:
        return None
    chosen = g.column(v, "number") if g.chance(one) else g.column_list(v, "number")
    return None if chosen is None else f"{text}[{chosen}]"


def _then(g: Builder, text: str) -> str:
    return f"{text}.{g.pick(ENDINGS)}" if g.chance(0.2) else text


@operation("Series.groupby.agg", "frame", 2)
def _(g: Builder, v: str) -> str | None:
    text = _of_columns(g, v, 0.6)
    if text is None:
        return None
    function = f"lambda s: {_numbers(g, ['s'], 's')}"
    other = g.pick(['"mean"', '"max"', f"lambda s: {_number(g, ['s'], 's')}"])
    return _then(g, f"{text}.agg({function if g.chance(0.7) else f'[{function}, {other}]'})")


@operation("DataFrame.groupby.agg", "frame", 1)
def _(g: Builder, v: str) -> str | None:
    text, columns = _groups(g, v), g.columns(v, "number")
    if text is None or not columns:
        return None
    if g.chance(0.5):
        named = ", ".join(f"{name}=({g.pick(columns)}, lambda s: {_numbers(g, ['s'], 's')})" for name in ("one", "two"))
        return f"{text}.agg({named})"
    return f"{text}.agg({{{g.pick(columns)}: lambda s: {_numbers(g, ['s'], 's')}}})"


@operation("Series.groupby.transform", "frame", 2)
def _(g: Builder, v: str) -> str | None:
    text = _of_columns(g, v, 0.7)
    return None if text is None else _then(g, f"{text}.transform(lambda s: {_transformed(g)})")


@operation("DataFrame.groupby.filter", "frame", 1.5)
def _(g: Builder, v: str) -> str | None:
    compared = f"{g.pick(_COMPARISONS)} {g.constant('number')}"
    if g.chance(0.3):
        text = _of_columns(g, v, 1.0)
        return None if text is None else _then(g, f"{text}.filter(lambda s: {_number(g, ['s'], 's')} {compared})")
    text, columns = _groups(g, v), g.columns(v, "number")
    if text is None or not columns:
        return None
    given = ", dropna=False" if g.chance(0.05) else ""
    texts = g.columns(v, "text")
    if texts and g.chance(0.2):
        of_text = g.pick([f" == {g.constant('text')}).sum()", ").nunique()", ").count()", ").isna().sum()"])
        return _then(g, f"{text}.filter(lambda f: (f[{g.pick(texts)}]{of_text} {compared})")
    number = _number(g, [f"f[{label}]" for label in columns], "f")
    return _then(g, f"{text}.filter(lambda f: {number} {compared}{given})")


@operation("DataFrame.groupby.apply", "frame", 1.5)
def _(g: Builder, v: str) -> str | None:
    text, labels = _groups(g, v), g.columns(v, "number")
    if text is None or not labels:
        return None
    columns = [f"f[{label}]" for label in labels]
    given = ", include_groups=False" if g.chance(0.5) else ""
    if g.chance(0.4):
        made = ", ".join(f'"{name}": {_numbers(g, columns, "f")}' for name in ("one", "two"))
        return _then(g, f"{text}.apply(lambda f: pd.Series({{{made}}}){given})")
    if g.chance(0.25):
        number = f"{g.pick(columns)}.{g.pick(['corr', 'cov'])}({g.pick(columns)})"
        return f"{text}.apply(lambda f: {number}{given})"
    return f"{text}.apply(lambda f: {_numbers(g, columns, 'f')}{given})"


@operation("DataFrame.groupby.corr", "frame", 1)
def _(g: Builder, v: str) -> str | None:
    text = _of_columns(g, v, 0.0)
    if text is None:
        return None
    g.note_parameter("DataFrame.groupby.corr", "numeric_only")
    given = f"numeric_only={FLAG(g, v)}" if g.chance(0.2) else ""
    return _then(g, f"{text}.{g.pick(['corr', 'cov'])}({given})")


@operation("Series.groupby.corr", "frame", 0.6)
def _(g: Builder, v: str) -> str | None:
    text, other = _of_columns(g, v, 1.0), g.aligned_series(v, "number")
    return None if text is None or other is None else f"{text}.{g.pick(['corr', 'cov'])}({other})"


@operation("DataFrame.groupby.quantile", "frame", 1)
def _(g: Builder, v: str) -> str | None:
    text = _of_columns(g, v, 0.5)
    if text is None:
        return None
    shares = g.pick(["[0.1, 0.9]", "[0.5]", "(0.25, 0.75, 0.25)", "np.array([0.0, 1.0])", "[]"])
    given = f", interpolation={g.quoted('lower', 'higher', 'midpoint', 'linear', 'nearest')}" if g.chance(0.3) else ""
    return _then(g, f"{text}.quantile({shares}{given})")


def _sample(g: Builder, text: str | None) -> str | None:
    """Rows of the groups, drawn with a seed."""
    if text is None:
        return None
    size = g.pick(["1", "2, replace=True", "frac=0.5", "frac=1", "0"])
    return _then(g, f"{text}.sample({size}, random_state={g.pick(['0', '7', 'np.random.RandomState(3)'])})")


@operation("DataFrame.groupby.sample", "frame", 0.5)
def _(g: Builder, v: str) -> str | None:
    return _sample(g, _groups(g, v) if g.chance(0.5) else _of_columns(g, v, 0.5))


@operation("Series.groupby.sample", "series_groups", 0.3)
def _(g: Builder, v: str) -> str | None:
    return _sample(g, v)


@operation("DataFrame.groupby.nth", "frame", 1)
def _(g: Builder, v: str) -> str | None:
    text = _groups(g, v) if g.chance(0.5) else _of_columns(g, v, 0.5)
    if text is None:
        return None
    ends = g.pick(["0, 2", "-2, None", "None, -1", "1, 1", "-3, 2", "None, None, 2", "None", "1, None, 1"])
    return _then(g, f"{text}.nth({g.pick(['[0, -1]', '[1, 1, -3]', '[7]', '-1', *3 * [f'slice({ends})']])})")


@operation("Series.groupby.unique", "frame", 1)
def _(g: Builder, v: str) -> str | None:
    text, column = _groups(g, v), g.column(v)
    if text is None or column is None:
        return None
    kind = g.pick(["list", "tuple", '"unique"', "lambda s: list(s)", "lambda s: s.mode().iloc[0]", "lambda s: s.name"])
    if g.chance(0.2):
        return _then(g, f"{text}.agg({{{column}: {g.pick([kind, f'[{kind}, {g.quoted(*_NAMES)}]'])}}})")
    calls = ["unique()", f"agg({kind})", f"agg([{kind}, {g.quoted(*_NAMES)}])", "apply(list)", f"agg(one={kind})"]
    return _then(g, f"{text}[{column}].{g.pick(calls)}")


def _largest(g: Builder, v: str, name: str) -> str | None:
    """The largest or smallest values of the groups of a column."""
    text, column = _groups(g, v), g.column(v, "number") if g.chance(0.8) else g.column(v)
    if text is None or column is None:
        return None
    given = g.pick(["", "1", "2", '3, keep="last"', '2, "all"', "0"])
    return _then(g, f"{text}[{column}].{name}({given})")


@operation("Series.groupby.nlargest", "frame", 0.6)
def _(g: Builder, v: str) -> str | None:
    return _largest(g, v, "nlargest")


@operation("Series.groupby.nsmallest", "frame", 0.6)
def _(g: Builder, v: str) -> str | None:
    return _largest(g, v, "nsmallest")


@operation("DataFrame.groupby.transform", "frame", 0.7)
def _(g: Builder, v: str) -> str | None:
    text, one, two = _groups(g, v), g.column(v, "number"), g.column(v)
    if text is None or one is None or two is None:
        return None
    names = f"[{g.quoted(*_NAMES)}, {g.quoted(*_NAMES)}]"
    if g.chance(0.3):
        return f"{text}[{one}].transform({names})"
    if g.chance(0.2):
        return f"{text}[[{one}]].transform({names})"
    return f"{text}.transform({{{one}: {g.quoted(*_NAMES)}, {two}: {g.quoted(*_NAMES)}}})"


@operation("DataFrame.groupby.describe", "frame", 0.5)
def _(g: Builder, v: str) -> str | None:
    text, column = _groups(g, v), g.column(v)
    if text is None or column is None:
        return None
    given = g.pick(["", "", "percentiles=[0.1, 0.9]", 'include="all"'])
    return _then(g, f"{text}{g.pick([f'[{column}]', f'[[{column}]]', ''])}.describe({given})")


def _members(g: Builder, v: str, series: bool) -> str | None:
    """The text of a group-by whose keys are read."""
    return _of_columns(g, v, 1.0) if series else _groups(g, v)


for _kind in ("DataFrame", "Series"):

    @operation(f"{_kind}.groupby.groups", "frame", 0.3)
    def _(g: Builder, v: str, series: bool = _kind == "Series") -> str | None:
        text = _members(g, v, series)
        return None if text is None else f"[rows.tolist() for rows in {text}.groups.values()]"

    @operation(f"{_kind}.groupby.indices", "frame", 0.3)
    def _(g: Builder, v: str, series: bool = _kind == "Series") -> str | None:
        text = _members(g, v, series)
        return None if text is None else f"[rows.tolist() for rows in {text}.indices.values()]"
