"""The generated tables in the documentation are up to date with the code."""

from __future__ import annotations

import re

import pytest

from tools.docs import native_table


def documented() -> dict[str, bool]:
    """The members on the committed page, by full name, and whether each is in a table of native members."""
    found: dict[str, bool] = {}
    text = native_table.PAGE.read_text(encoding="utf-8")
    titles = {family.title for family in native_table.FAMILIES}
    for section in text.split("\n## ")[1:]:
        title, _, body = section.partition("\n")
        if title not in titles:
            continue
        found |= {f"{title}.{name}": True for name in re.findall(r"^\| `(\w+)`", body, re.MULTILINE)}
        inherited = body[body.index("By inheritance") :]
        found |= {f"{title}.{name}": False for name in re.findall(r"`(\w+)`", inherited)}
    return found


def test_table_of_native_methods_is_current() -> None:
    page, code = documented(), native_table.static_table()
    changed = sorted(name for name in page.keys() | code.keys() if page.get(name) != code.get(name))
    assert not changed, f"run `make docs` and commit docs/native.md; it is wrong about {changed}"


def test_members_are_told_apart() -> None:
    table = native_table.static_table()
    assert len(table) > 700
    for name in (
        "DataFrame.merge",
        "Series.isin",
        "Series.str.upper",
        "Series.dt.year",
        "DataFrame.groupby.sum",
        "pandas.concat",
    ):
        assert table[name], name
    for name in (
        "DataFrame.plot",
        "DataFrame.to_latex",
        "Series.cat",
        "DataFrame.convert_dtypes",
        "DataFrame.groupby.plot",
    ):
        assert not table[name], name


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("df.merge(right=right, on='k')", "native"),
        ("df.sort_values(by='x', key=lambda c: list(-c))", "pandas"),
        ("df.no_such_method()", None),
    ],
)
def test_trying_tells_how_a_call_ran(expression: str, expected: str | None) -> None:
    assert native_table.tried(expression) == expected


def test_parameters_of_a_call_are_put_in_the_place_of_its_own() -> None:
    family = native_table.FAMILIES[0]
    tried = dict(native_table.expressions(family, "merge"))
    assert tried[None] == "df.merge(right=right, on='k')"
    assert tried["on"] == "df.merge(right=right, on=['k', 'g'])"
    assert tried["left_on"] == "df.merge(right=right, left_on='k', right_on='k')"
