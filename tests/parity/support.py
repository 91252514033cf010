"""Differential testing: runs a program under pandas and under Craton, and compares everything that a user can observe."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pandas
import pandas.testing as pt

import craton
import craton.pandas
from craton import fallbacks


def to_craton(data: Any) -> Any:
    """The same data as a Craton object."""
    if isinstance(data, pandas.DataFrame):
        return craton.pandas.DataFrame(data)
    if isinstance(data, pandas.Series):
        return craton.pandas.Series(data)
    return data


def outcome(program: Callable[..., Any], module: Any, args: list[Any]) -> tuple[Any, BaseException | None]:
    """The result of a program, or the error that it raises."""
    try:
        return settle(program(module, *args)), None
    except Exception as error:
        return None, error


def settle(result: Any) -> Any:
    """Run every plan in a result, and return the result."""
    if isinstance(result, (pandas.DataFrame, pandas.Series)):
        _ = result._mgr  # type: ignore[union-attr]
    if isinstance(result, Iterator):
        result = list(result)
    if isinstance(result, (tuple, list)):
        return type(result)(settle(item) for item in result)
    return result


def check(program: Callable[..., Any], *data: Any, native: bool | None = True, rtol: float = 1e-12) -> Any:
    """Run ``program(pd, *data)`` under pandas and under Craton, with the small-data path off, and compare.

    Parameters
    ----------
    native
        ``True`` if no call may fall back to pandas, ``False`` if some call must, ``None`` if either is allowed.
    rtol
        The relative tolerance of floats, which is meant only for sums in another order of additions.
    """
    expected, expected_error = outcome(program, pandas, [_copy(item) for item in data])
    with craton.option_context(small_rows=0):
        fallbacks.reset()
        got, got_error = outcome(program, craton.pandas, [to_craton(_copy(item)) for item in data])
        used = fallbacks.explain_fallbacks()
    if expected_error is not None or got_error is not None:
        assert type(got_error) is type(expected_error), (got_error, expected_error)
        assert str(got_error) == str(expected_error)
        return got_error
    same(got, expected, rtol)
    if native is True:
        assert used.empty, f"fell back:\n{used.to_string()}"
    if native is False:
        assert not used.empty, "nothing fell back"
    return got


def check_classes_of_errors(program: Callable[..., Any], *data: Any, small_rows: Sequence[int] = (0,)) -> None:
    """Compare as :func:`check`, for each value of the option ``small_rows``; of errors, compare only the classes."""
    expected, error = outcome(program, pandas, [_copy(item) for item in data])
    for rows in small_rows:
        with craton.option_context(small_rows=rows):
            got, raised = outcome(program, craton.pandas, [to_craton(_copy(item)) for item in data])
        assert type(raised) is type(error), (raised, error)
        if error is None:
            same(got, expected)


def check_sources(program: Callable[..., Any], data: pandas.DataFrame, folder: Any, native: bool | None = None) -> None:
    """Run ``program(pd, frame)`` over a frame in memory, and over the same frame read from a Parquet file in ``folder``."""
    check(program, data, native=native)
    path = folder / "data.parquet"
    data.to_parquet(path)
    check(lambda pd: program(pd, pd.read_parquet(path)), native=native)


def _copy(item: Any) -> Any:
    return item.copy() if isinstance(item, (pandas.DataFrame, pandas.Series)) else item


def same(got: Any, expected: Any, rtol: float = 1e-12) -> None:
    """Assert that a user cannot distinguish two results: class, values, dtypes, index, order, names."""
    if isinstance(expected, pandas.DataFrame):
        assert isinstance(got, pandas.DataFrame), type(got)
        pt.assert_frame_equal(pandas.DataFrame(got), pandas.DataFrame(expected), rtol=rtol, atol=0)
    elif isinstance(expected, pandas.Series):
        assert isinstance(got, pandas.Series), type(got)
        pt.assert_series_equal(pandas.Series(got), pandas.Series(expected), rtol=rtol, atol=0)
    elif isinstance(expected, pandas.Index):
        pt.assert_index_equal(got, expected, check_freq=True)
    elif isinstance(expected, (tuple, list)):
        assert type(got) is type(expected)
        assert len(got) == len(expected)
        for one, other in zip(got, expected, strict=True):
            same(one, other, rtol)
    elif isinstance(expected, np.ndarray) and expected.dtype == object:
        assert isinstance(got, np.ndarray)
        same(got.tolist(), expected.tolist(), rtol)
    elif isinstance(expected, np.ndarray):
        np.testing.assert_array_equal(got, expected)
        assert got.dtype == expected.dtype
    elif isinstance(expected, pandas.api.extensions.ExtensionArray):
        pt.assert_extension_array_equal(got, expected)
    elif isinstance(expected, float | np.floating):
        assert type(got) is type(expected), (type(got), type(expected))
        assert got == expected or (got != got and expected != expected) or abs(got - expected) <= rtol * abs(expected)
    else:
        assert type(got) is type(expected), (type(got), type(expected))
        missing = isinstance(expected, (np.datetime64, np.timedelta64)) and np.isnat(expected) and np.isnat(got)
        assert got is expected or missing or got == expected, (got, expected)


def case_id(value: Any) -> str:
    """The name of a test case, without addresses of functions, so that it is the same in every process."""
    return re.sub(r" at 0x[0-9a-f]+", "", str(value))
