"""The examples of pandas' documentation as programs: run under pandas and under Craton, and every result compared.

The examples of the docstrings are those of the pandas that is installed. The pages of pandas' user guide are not installed with it; with a
source distribution that has them, unpacked, this runs them, too::

    python -m tests.parity.programs.documented pandas-2.0.0/doc/source/user_guide/groupby.rst
"""

from __future__ import annotations

import ast
import contextlib
import doctest
import inspect
import io
import re
import sys
import textwrap
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas

import craton
import craton.pandas as cpd
from tests.fuzz.compare import difference

__all__ = ["differences", "docstrings", "statements_of_docstring", "statements_of_page"]

#: Names whose examples need files, networks, other programs or plots.
_LEFT_OUT = re.compile(
    r"\b(plot|boxplot|hist|clipboard|read_clipboard|to_clipboard|ExcelFile|ExcelWriter|read_excel|to_excel|HDFStore|read_hdf|to_hdf|"
    r"read_html|read_sql\w*|to_sql|\w+_orc|\w+_feather|\w+_iceberg|read_spss|read_sas|show_versions|test|\w+_option|option_context|style)\b"
)
#: Statements that give another result in each run, or need what is not here.
_SKIPPED = re.compile(
    r"http|s3:|plt\.|plot|matplotlib|\bnow\(|now'|today\(|utcnow\(|set_option|random\.shuffle|shuffle\(|sqlite|HDF|excel|clipboard|read_html"
    r"|\bid\(|type\(|shares_memory|timeit|os\.remove|rmtree"
)


def docstrings() -> dict[str, str]:
    """Return the docstrings with examples of pandas' public objects, by name."""
    found: dict[str, str] = {}
    for name, owner in _roots():
        for member in ("", *dir(owner)) if inspect.isclass(owner) else ("",):
            if member.startswith("_") or _LEFT_OUT.search(f"{name} {member}"):
                continue
            thing = inspect.getattr_static(owner, member, None) if member else owner
            text = getattr(getattr(thing, "__func__", thing), "__doc__", None)
            if isinstance(text, str) and ">>>" in text and text not in found.values():
                found[f"{name}.{member}".rstrip(".")] = text
    return found


def _roots() -> Iterator[tuple[str, Any]]:
    from pandas.core.arrays.categorical import CategoricalAccessor
    from pandas.core.groupby import DataFrameGroupBy, SeriesGroupBy
    from pandas.core.indexes.accessors import DatetimeProperties, PeriodProperties, TimedeltaProperties
    from pandas.core.indexing import IndexingMixin
    from pandas.core.resample import Resampler
    from pandas.core.strings.accessor import StringMethods
    from pandas.core.window import Expanding, ExponentialMovingWindow, Rolling

    for name in dir(pandas):
        thing = getattr(pandas, name)
        if not name.startswith("_") and callable(thing):
            yield name, thing
    for cls in (
        *(DataFrameGroupBy, SeriesGroupBy, Rolling, Expanding, ExponentialMovingWindow, Resampler, StringMethods),
        *(DatetimeProperties, TimedeltaProperties, PeriodProperties, CategoricalAccessor, IndexingMixin),
    ):
        yield cls.__name__, cls


def statements_of_docstring(text: str) -> list[str]:
    """Return the statements of the examples of a docstring."""
    try:
        found = doctest.DocTestParser().get_examples(text)
    except ValueError:
        return []
    return [example.source for example in found]


def statements_of_page(text: str) -> Iterator[str]:
    """Return the statements of the IPython blocks of a page in reStructuredText."""
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if re.match(r"\s*\.\. ipython::", line):
            depth = len(line) - len(line.lstrip())
            block = []
            for inner in lines[number + 1 :]:
                if inner.strip() and len(inner) - len(inner.lstrip()) <= depth:
                    break
                if not re.match(r"\s*(:\w+:|@\w+|%)", inner):
                    block.append(inner)
            with contextlib.suppress(SyntaxError):
                yield from map(ast.unparse, ast.parse(textwrap.dedent("\n".join(block)).strip()).body)


def differences(statements: Iterable[str]) -> list[str]:
    """Run statements one after another under pandas and under Craton; describe where results, texts or errors differ."""
    found = []
    theirs: dict[str, Any] = {"pd": pandas, "np": np}
    ours: dict[str, Any] = {"pd": cpd, "np": np}
    for name in ("io", "datetime", "functools", "itertools"):
        theirs[name] = ours[name] = __import__(name)
    theirs["StringIO"] = ours["StringIO"] = io.StringIO
    drawn = np.random.RandomState(1).get_state()
    for statement in statements:
        if _SKIPPED.search(statement):
            continue
        np.random.set_state(drawn)
        expected = _run(statement, theirs)
        np.random.set_state(drawn)
        got = _run(statement, ours)
        drawn = np.random.get_state()
        if (what := _unlike(expected, got)) is not None:
            found.append(f"{statement.strip()}: {what}")
    return found


_DATA = (pandas.DataFrame, pandas.Series, pandas.Index, pandas.api.extensions.ExtensionArray, np.ndarray)
#: How a statement has ended, its result or its exception, and what it printed.
_Outcome = tuple[str, Any, str]


def _run(statement: str, names: dict[str, Any]) -> _Outcome:
    """Run a statement; return the value of its last expression, or its exception, and what it printed."""
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            body = ast.parse(statement).body
            last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
            exec(compile(ast.Module(body, []), "<example>", "exec"), names)
            value = None
            if isinstance(last, ast.Expr):
                value = eval(compile(ast.Expression(last.value), "<example>", "eval"), names)
            elif isinstance(body[-1] if body else None, ast.Assign):
                value = [names[one.id] for one in body[-1].targets if isinstance(one, ast.Name)]  # type: ignore[attr-defined]
    except Exception as error:
        return "raised", error, ""
    return "returned", value, printed.getvalue()


def _unlike(expected: _Outcome, got: _Outcome) -> str | None:
    if expected[0] != got[0]:
        return f"{got[0]} {got[1]!r}, not {expected[0]} {expected[1]!r}"
    if expected[0] == "raised":
        same = isinstance(got[1], type(expected[1])) and str(got[1]) == str(expected[1])
        return None if same else f"raised {got[1]!r}, not {expected[1]!r}"
    if isinstance(expected[1], list) and not all(isinstance(one, _DATA) for one in expected[1]):
        return None  # variables of other classes, such as group-bys
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return difference(expected[1], got[1]) or difference(expected[2], got[2])


def main(pages: list[str]) -> int:
    """Run docstrings, or pages; print the differences."""
    count = 0
    programs = {page: list(statements_of_page(Path(page).read_text())) for page in pages} or {
        name: statements_of_docstring(text) for name, text in docstrings().items()
    }
    with craton.option_context(small_rows=0):
        for name, statements in programs.items():
            for found in differences(statements):
                print(f"{name}: {found}")
                count += 1
    print(f"{sum(map(len, programs.values()))} statements of {len(programs)} programs, {count} differences")
    return min(count, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
