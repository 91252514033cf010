"""The calls that are made to generate the table of native methods give pandas' results or pandas' errors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas
import pytest
from pandas.core.resample import Resampler
from pandas.core.window.rolling import BaseWindow

import craton
import craton.pandas
from tests.parity.support import same
from tools.docs import native_table, probes

#: Members whose results are not data, or are random or depend on more than the call.
_NO_DATA = {"loc", "iloc", "sample", "nth", "groups", "indices", "groupby", "ngroup", "str", "dt"}


def outcome(expression: str, module: Any) -> tuple[Any, BaseException | None]:
    try:
        result = native_table.evaluated(expression, module)
        return list(result) if isinstance(result, Iterator) else result, None
    except Exception as error:
        return None, error


def counted(windows: Any) -> Any:
    """A statistic of moving windows or intervals, or the class of pandas' error for columns without numbers."""
    try:
        return windows.count() if hasattr(windows, "count") else windows.mean()
    except Exception as error:
        return type(error)


def difference(expression: str) -> str | None:
    expected, expected_error = outcome(expression, pandas)
    with craton.option_context(small_rows=0):
        got, got_error = outcome(expression, craton.pandas)
    if expected_error is not None or got_error is not None:
        if type(expected_error) is type(got_error) and str(expected_error) == str(got_error):
            return None
        if "missing" in str(expected_error) and "required positional" in str(expected_error):
            return None  # the call has no example yet: the table says "not tried"
        return f"{expression}: {expected_error!r} in pandas, {got_error!r} here"
    if isinstance(expected, (BaseWindow, Resampler)):  # the table tries the call that makes it
        if type(got).__name__ != type(expected).__name__:
            return f"{expression}: {type(got)}"
        got, expected = counted(got), counted(expected)
    try:
        same(got, expected)
    except AssertionError as error:
        return f"{expression}: {error}"
    return None


@pytest.mark.parametrize("family", native_table.FAMILIES, ids=lambda family: family.title)
def test_calls_equal_pandas(family: native_table.Family) -> None:
    names = [name for name in family.members() if native_table.is_native(family, name) and name not in _NO_DATA]
    calls = [expression for name in names for _, expression in native_table.expressions(family, name)]
    assert len(calls) > 5
    assert [found for found in map(difference, calls) if found] == []


def test_forms_of_indexing_equal_pandas() -> None:
    assert [found for found in map(difference, probes.FORMS) if found] == []
