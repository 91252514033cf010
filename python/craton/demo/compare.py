"""Compares the results of two engines: floats within a tolerance, everything else exactly.

A sum of floats depends on the order of its terms, and engines that use several cores do not guarantee one. Nothing else
may differ: dtypes, the index and its type, column names and order, row order, strings, dates, integers.
"""

from __future__ import annotations

from typing import Any

import pandas
from pandas.testing import assert_frame_equal, assert_index_equal, assert_series_equal

RTOL = 1e-9
"""Relative tolerance for floats."""


def materialise(result: Any) -> pandas.DataFrame:
    """Compute `result` and return it as a plain pandas frame.

    Parameters
    ----------
    result
        A pandas DataFrame, or a lazy instance of a subclass.

    Raises
    ------
    TypeError
        `result` is not a DataFrame.
    """
    if not isinstance(result, pandas.DataFrame):
        raise TypeError(f"a query must return a DataFrame, this one returned {type(result).__name__}")
    return pandas.DataFrame(result)


def difference(expected: pandas.DataFrame, actual: pandas.DataFrame, *, rtol: float = RTOL) -> str | None:
    """Say how `actual` differs from `expected`; None when they are equal.

    Parameters
    ----------
    expected, actual
        Plain pandas frames, see `materialise`.
    rtol
        Relative tolerance for float columns. NaN equals NaN, and 0 equals only 0.

    Examples
    --------
    >>> one = pandas.DataFrame({"a": [1, 2], "b": [0.1 + 0.2, 1.0]})
    >>> difference(one, one.assign(b=[0.3, 1.0])) is None
    True
    >>> print(difference(one, one.assign(a=[1, 3])))
    column 'a': Series values are different (50.0 %): expected [1, 2], got [1, 3]
    """
    if expected.shape != actual.shape:
        return f"shape: expected {expected.shape}, got {actual.shape}"
    try:
        assert_index_equal(expected.columns, actual.columns, exact=True, check_exact=True, obj="columns")
        assert_index_equal(expected.index, actual.index, exact=True, check_exact=True, obj="index")
    except AssertionError as error:
        return _one_line(error)
    for position, name in enumerate(expected.columns):
        left, right = expected.iloc[:, position], actual.iloc[:, position]
        inexact = pandas.api.types.is_float_dtype(left.dtype)
        try:
            assert_series_equal(
                left,
                right,
                check_exact=not inexact,
                check_index=False,
                **({"rtol": rtol, "atol": 0.0} if inexact else {}),
            )
        except AssertionError as error:
            return f"column {name!r}: {_one_line(error)}"
    try:
        # For attributes that the checks above do not cover, such as flags.
        assert_frame_equal(expected, actual, check_exact=False, rtol=rtol, atol=0.0, check_freq=True)
    except AssertionError as error:
        return _one_line(error)
    return None


def _one_line(error: AssertionError) -> str:
    """Condense pandas' message to one line: the difference, then both values, shortened."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = [line for line in lines if not line.startswith(("[left]", "[right]", "[index]", "At positional"))]
    message = " ".join(text[1:] or text)  # The first line only says that something differs.
    left = next((line.removeprefix("[left]:").strip() for line in lines if line.startswith("[left]")), None)
    right = next((line.removeprefix("[right]:").strip() for line in lines if line.startswith("[right]")), None)
    if left is not None and right is not None:
        message = f"{message}: expected {left}, got {right}"
    return message if len(message) <= 300 else message[:297] + "..."
