"""Generates ``docs/native.md``: the pandas methods that Craton plans, and the parameters with which it plans them.

A method is native if Craton's class implements it. To find its native parameters, each call of
:mod:`tools.docs.probes` runs on a small frame with the small-data path off, and counts as native if nothing fell back.
Calls that pandas itself refuses are left out.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import inspect
import io
import sys
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np
import pandas
import pyarrow as pa

import craton
import craton.pandas
from craton import fallbacks
from craton.pandas.core.native import REGISTRY, getattr_static
from craton.pandas.groupby import groupby
from craton.pandas.values.text import strings
from craton.pandas.values.times import dates
from tools.docs import probes
from tools.docs.probes import Call

PAGE = Path(__file__).resolve().parents[2] / "docs" / "native.md"


@dataclass(frozen=True, slots=True, eq=False)
class Family:
    """One table of the page: a pandas class, Craton's classes, and the calls that try its methods."""

    title: str
    theirs: Any
    ours: tuple[Any, ...]
    receiver: str
    calls: dict[str, Call]

    def members(self) -> list[str]:
        """The public methods and properties that the table lists."""
        names = (name for name in dir(self.theirs) if not name.startswith("_"))
        if self.theirs is pandas:
            names = (name for name in names if isinstance(getattr(pandas, name), FunctionType))
        return sorted(names)


FAMILIES = (
    Family("DataFrame", pandas.DataFrame, (craton.pandas.DataFrame,), "df", probes.FRAME),
    Family("Series", pandas.Series, (craton.pandas.Series,), "y", probes.SERIES),
    Family("Series.str", pandas.Series.str, (strings.StringMethods,), "w.str", probes.STRINGS),
    Family("Series.dt", pandas.Series.dt, (dates.DatetimeMembers, dates.TimedeltaMembers), "t.dt", probes.DATES),
    Family(
        "DataFrame.groupby",
        groupby.PandasFrameGroupBy,
        (groupby.DataFrameGroupBy,),
        "df[['k', 'x', 'y']].groupby('k')",
        probes.GROUPED,
    ),
    Family(
        "Series.groupby", groupby.PandasSeriesGroupBy, (groupby.SeriesGroupBy,), "x.groupby(df['k'])", probes.GROUPED
    ),
    Family("pandas", pandas, (craton.pandas,), "pd", probes.FUNCTIONS),
)


# -- members that the registry of native calls lists ------------------------------------------------------------------


@functools.cache
def is_native(family: Family, name: str) -> bool:
    """Whether Craton has its own implementation of a member."""
    if not any(_own(family.theirs, ours, name) for ours in family.ours):
        return False
    # Properties that pandas computes are wrapped, too, so that their uses are counted. They are not native.
    return not _is_property(family, name) or all(tried(text) != "pandas" for _, text in expressions(family, name))


def _own(theirs: Any, ours: Any, name: str) -> bool:
    if theirs is pandas:
        return _planned(getattr(craton.pandas, name, None))
    member = getattr_static(ours, name) if _has(ours, name) else None
    return _planned(getattr(member, "fget", None) or getattr(member, "__func__", member))


def _planned(function: Any) -> bool:
    """Whether the registry of native calls has a native implementation of a function."""
    entry = getattr(function, "__craton_native__", None)
    return entry is not None and entry.planned and REGISTRY[entry.label].planned


def _has(owner: Any, name: str) -> bool:
    return any(name in cls.__dict__ for cls in owner.__mro__)


def static_table() -> dict[str, bool]:
    """Map the full name of each member to whether it is native."""
    return {f"{family.title}.{name}": is_native(family, name) for family in FAMILIES for name in family.members()}


# -- parameters, by calling each method -------------------------------------------------------------------------------


def tried(expression: str) -> str | None:
    """Evaluate an expression of the probes under pandas and under Craton.

    Returns
    -------
    str or None
        "native" or "pandas", depending on where Craton ran it; None if pandas itself refuses it.
    """
    try:
        evaluated(expression, pandas)
    except Exception:
        return None
    with craton.option_context(small_rows=0, fallback="silent"):
        fallbacks.reset()
        evaluated(expression, craton.pandas)
        return "native" if fallbacks.explain_fallbacks().empty else "pandas"


def evaluated(expression: str, module: Any) -> Any:
    """Evaluate an expression of the probes, including the plans of its result, and return the result."""
    names: dict[str, Any] = {"pd": module, "np": np, "pa": pa, "folder": Path(_files().name)}
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):  # info() prints
        warnings.simplefilter("ignore")
        exec(probes.SETUP, names)
        fallbacks.reset()
        value = eval(expression, names)
        if isinstance(value, (pandas.DataFrame, pandas.Series)):
            _ = value._mgr  # type: ignore[union-attr]
    return value


@functools.cache
def _files() -> tempfile.TemporaryDirectory[str]:
    """Create a folder with a file in each format, all with the same rows. The folder is removed when the program ends."""
    folder = tempfile.TemporaryDirectory()
    frame = pandas.DataFrame(
        {"k": ["b", "a"], "x": [1.5, 2.5], "y": [1, 3], "t": pandas.to_datetime(["2024-01-31", "2024-02-29"])}
    )
    frame.to_csv(f"{folder.name}/data.csv", index=False)
    frame.to_json(f"{folder.name}/data.json", orient="records", lines=True, date_format="iso")
    frame.to_parquet(f"{folder.name}/data.parquet")
    frame.to_feather(f"{folder.name}/data.feather")
    frame.to_orc(f"{folder.name}/data.orc")
    return folder


@dataclass(slots=True)
class Tried:
    """The results of the calls of a method: that of the plain call (`plain`), and the parameters grouped by result."""

    plain: str | None = None
    native: list[str] = field(default_factory=list)
    pandas: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)


def _is_property(family: Family, name: str) -> bool:
    return family.theirs is not pandas and not isinstance(
        getattr_static(family.theirs, name) if _has(family.theirs, name) else None,
        (FunctionType, classmethod),
    )


def parameters_of(family: Family, name: str) -> list[str]:
    """The names of pandas' parameters."""
    member = getattr(family.theirs, name, None)
    if isinstance(member, property) or not callable(member):
        return []
    try:
        found = inspect.signature(member).parameters.values()
    except (TypeError, ValueError):
        return []
    return [
        one.name for one in found if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY) and one.name != "self"
    ]


def expressions(family: Family, name: str) -> Iterator[tuple[str | None, str]]:
    """The calls for a method: the plain call (None) first, then one for each parameter."""
    call = family.calls.get(name, Call())
    receiver = call.on or family.receiver
    if _is_property(family, name):
        yield None, f"{receiver}.{name}"
        return
    yield None, f"{receiver}.{name}({call.arguments})"
    for parameter in parameters_of(family, name):
        text = call.parameters.get(parameter)
        if text is None and f"{parameter}=" not in call.arguments and parameter in probes.VALUES:
            text = f"{parameter}={probes.VALUES[parameter]}"
        if text is None and f"{parameter}=" in call.arguments:
            text = call.arguments
        if not text:
            continue
        arguments = text[1:-1] if text.startswith("(") else _merged(call.arguments, text)
        yield parameter, f"{receiver}.{name}({arguments})"


def _merged(base: str, changed: str) -> str:
    """Merge the keyword arguments of two texts; those of the second replace those of the first."""

    def keywords(text: str) -> dict[str, str]:
        tree = ast.parse(f"f({text})", mode="eval").body
        assert isinstance(tree, ast.Call)
        return {keyword.arg or "": ast.unparse(keyword.value) for keyword in tree.keywords}

    return ", ".join(f"{name}={value}" for name, value in (keywords(base) | keywords(changed)).items())


def try_method(family: Family, name: str) -> Tried:
    """Try a native method, and each of its parameters."""
    found = Tried(left=parameters_of(family, name))
    for parameter, expression in expressions(family, name):
        how = tried(expression)
        if parameter is None:
            found.plain = how
        elif how is not None:
            (found.native if how == "native" else found.pandas).append(parameter)
            found.left.remove(parameter)
    return found


# -- the page ---------------------------------------------------------------------------------------------------------

HEAD = """# Native methods

Generated by `make docs`; do not edit. A *native* call is planned and runs on the kernel. Every other call works too: pandas'
own code runs on the materialised object, and `craton.explain_fallbacks()` counts the call. To find the native parameters,
each is called with one value other than its default (`tools/docs/probes.py`), on a small frame with columns of several dtypes.
Whether another call is planned may depend on its dtypes and values; `craton.profile()` shows it for your program.
"""


def page() -> str:
    """The whole page."""
    parts = [HEAD, summary(), forms()]
    for family in FAMILIES:
        parts.append(table(family))
    return "\n".join(parts)


def summary() -> str:
    """A table with the number of native members of each class."""
    lines = ["## In numbers", "", "| | members | native |", "| --- | --: | --: |"]
    for family in FAMILIES:
        names = family.members()
        lines.append(f"| {family.title} | {len(names)} | {sum(is_native(family, name) for name in names)} |")
    return "\n".join([*lines, ""])


def forms() -> str:
    """The forms of indexing and operators."""
    lines = ["## Indexing and operators", "", "| expression | runs |", "| --- | --- |"]
    for form in probes.FORMS:
        how = tried(form)
        if how is not None:
            escaped = form.replace("|", "\\|")
            lines.append(f"| `{escaped}` | {how} |")
    return "\n".join([*lines, ""])


def table(family: Family) -> str:
    """One class's table, and the list of what it inherits."""
    lines = [
        f"## {family.title}",
        "",
        "| method | native with | in pandas with | not tried |",
        "| --- | --- | --- | --- |",
    ]
    inherited = []
    for name in family.members():
        if not is_native(family, name):
            inherited.append(name)
            continue
        found = try_method(family, name)
        note = {"native": "", "pandas": " (the call tried runs in pandas)", None: " (not tried)"}[found.plain]
        lines.append(f"| `{name}`{note} | {_names(found.native)} | {_names(found.pandas)} | {_names(found.left)} |")
    return "\n".join([*lines, "", "By inheritance, in pandas: " + (_names(inherited) or "nothing") + ".", ""])


def _names(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def main() -> int:
    """Write the page."""
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {PAGE.relative_to(Path.cwd()) if PAGE.is_relative_to(Path.cwd()) else PAGE}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
