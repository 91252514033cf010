"""Columns of lists of strings, ``explode``, indicator columns, and methods of strings that return other shapes."""

from __future__ import annotations

from tests.fuzz.building import Builder, Statement, operation

SPLITS = [
    "split()",
    'split(" ")',
    'split("-")',
    'split("b", n=1)',
    'split("a|b")',
    'split("ab")',
    "rsplit()",
    'rsplit("a", n=1)',
    'findall("[ab]")',
    r'findall(r"\w")',
    'findall("a")',
]
READS = [
    ".str.len()",
    ".str[0]",
    ".str.get(-1)",
    ".str[1]",
    '.str.join("+")',
    ".explode()",
    ".explode(ignore_index=True)",
    ".explode().value_counts(sort=False)",
    ".explode().str.upper()",
    ".explode().dropna()",
    ".explode().to_frame('e')",
    ".explode().isin(['a', 'b'])",
    ".str[1:]",
    "",
]


@operation("Series.explode", "text", 1.2)
def _(g: Builder, v: str) -> str | None:
    return f"{v}.str.{g.pick(SPLITS)}{g.pick(READS)}"


@operation("DataFrame.explode", "frame", 1.5)
def _(g: Builder, v: str) -> str | None:
    column = g.column(v, "text")
    if column is None:
        return None
    other = g.pick(["", "", ", ignore_index=True"])
    return f'{v}.assign(lists={v}[{column}].str.{g.pick(SPLITS)}).explode("lists"{other})'


@operation("columns of lists", "frame", 1)
def _(g: Builder, v: str) -> str | None:
    column = g.column(v, "text")
    return None if column is None else Statement(f'{v}["lists"] = {v}[{column}].str.{g.pick(SPLITS)}')


@operation("reads of columns of lists", "frame", 1.5)
def _(g: Builder, v: str) -> str | None:
    if '"lists"' not in g.columns(v):
        return None
    return g.pick(
        [
            f'{v}["lists"]{g.pick(READS)}',
            f'{v}.explode("lists")',
            f'{v}[{v}["lists"].str.len() > 1]',
            f'{v}.assign(first={v}["lists"].str[0])',
            f'{v}.dropna(subset=["lists"])',
            f'{v}["lists"].isna()',
            f'list({v}["lists"])',
        ]
    )


@operation("changes of lists", "frame", 0.5)
def _(g: Builder, v: str) -> str | None:
    if '"lists"' not in g.columns(v):
        return None
    return Statement(f'[one.append("c") for one in {v}["lists"] if isinstance(one, list)]')


def _dummy_options(g: Builder) -> str:
    options = [
        "dummy_na=True",
        "drop_first=True",
        g.pick(["dtype=int", 'dtype="float64"', "dtype=bool"]),
        'prefix_sep="-"',
    ]
    return "".join(f", {option}" for option in options if g.chance(0.3))


@operation("pandas.get_dummies", "series", 0.6)
def _(g: Builder, v: str) -> str | None:
    if g.value(v).nunique() > 30:
        return None
    return f"pd.get_dummies({v}{_dummy_options(g)}{g.pick(['', '', ', prefix=' + repr('p')])})"


@operation("pandas.get_dummies", "frame", 0.8)
def _(g: Builder, v: str) -> str | None:
    column = g.key(v)
    if (
        column is None
        or g.value(v).select_dtypes(exclude="number").apply(lambda one: one.astype(str).nunique()).max() > 30
    ):
        return None
    columns = g.pick(["", f", columns=[{column}]"])
    return f"pd.get_dummies({v}{columns}{_dummy_options(g)})"


@operation("Series.str.get_dummies", "text", 0.5)
def _(g: Builder, v: str) -> str | None:
    if g.value(v).nunique() > 50:
        return None
    return f"{v}.str.get_dummies({g.pick(['', repr(' '), repr('-'), repr('a'), 'dtype=bool'])})"


@operation("first item of lists", "text", 1)
def _(g: Builder, v: str) -> str | None:
    item = g.pick([".str[0]", ".str[-1]", '.str.join("")', ".str[1:].str.join('')", ".str[:-1].str[0]"])
    ends = [
        ".str.upper()",
        ".value_counts()",
        ' == "a"',
        '.isin(["a", "b"])',
        '.fillna("?")',
        ".unique()",
        ".str.len()",
    ]
    more = [
        ".str.strip().str.lower()",
        ".isna()",
        ".dropna()",
        '.str.replace("a", "z")',
        ".astype('str')",
        '.map({"a": 1})',
    ]
    return f"{v}.str.{g.pick(SPLITS)}{item}{g.pick([*ends, *more])}"


@operation("first item of lists in groups", "frame", 0.8)
def _(g: Builder, v: str) -> str | None:
    column, number = g.column(v, "text"), g.column(v, "number")
    if column is None or number is None:
        return None
    call = g.pick(["sum()", "count()", "max()", "cumsum()", 'transform("max")', "head(1)"])
    options = g.pick(["", "", ", sort=False", ", dropna=False", ", as_index=False"])
    return f'{v}.assign(first={v}[{column}].str.{g.pick(SPLITS)}.str[0]).groupby("first"{options})[{number}].{call}'


@operation("Series.str.extractall", "text", 0.5)
def _(g: Builder, v: str) -> str | None:
    pattern = g.pick(["([ab])", r"(\w)", "(?P<one>[a-z]+)", "(a)(b)?", "(b|a)"])
    return f'{v}.str.extractall(r"{pattern}")'


@operation("Series.str.cat", "text", 0.3)
def _(g: Builder, v: str) -> str | None:
    return f"{v}.str.cat({g.pick(['', 'sep=repr(1)', 'sep=chr(44), na_rep=chr(63)'])})"


@operation("replace by patterns", "text", 0.5)
@operation("replace by patterns", "frame", 0.5)
def _(g: Builder, v: str) -> str | None:
    pairs = ['"a", "q"', '"[ab]+", "$1"', '{"a": "b", "b": "c"}', '["a", "^b"], "z"', '{"^a": "", "b$": "y"}']
    return f"{v}.replace({g.pick(pairs)}, regex=True)"
