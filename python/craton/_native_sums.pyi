"""Types of the exact sums in ``craton._native``: sums that do not depend on the order of the numbers."""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

def exact_aggregate(
    name: Literal["sum", "mean", "product", "var", "skew", "kurtosis"],
    values: NDArray[np.float64],
    offsets: NDArray[np.int64],
    out: NDArray[np.float64],
    ddof: int = 1,
    /,
) -> None:
    """Write an aggregate of each list of numbers; not even its last bit depends on the order of the numbers.

    Sums are exact, and rounded once. All threads are used and the interpreter lock is released; the buffers must not be accessed until the
    call returns.

    Parameters
    ----------
    name
        The aggregate. Skewness and excess kurtosis are corrected for bias.
    values : buffer of float64
        The numbers of all lists, one list after another.
    offsets : buffer of int64
        The start of each list in ``values``, then the end of the last one.
    out : writable buffer of float64
        Receives one value for each list. An empty list has the sum 0 and the product 1; other aggregates of too few numbers are NaN.
    ddof
        Delta degrees of freedom: the divisor of a variance is the count minus ``ddof``.

    Raises
    ------
    ValueError
        If there is no such aggregate, the offsets do not ascend or exceed the number of values, or ``out`` has another length.
    """

def exact_means(
    values: NDArray[np.float64],
    offsets: NDArray[np.int64],
    counts: NDArray[np.int64],
    out: NDArray[np.float64],
    /,
) -> None:
    """Write the mean of the numbers whose terms (see :func:`exact_terms`) each list holds, bit for bit equal to the mean of the numbers.

    Parameters
    ----------
    values, offsets, out
        As for :func:`exact_aggregate`; the values are terms.
    counts : buffer of int64
        How many numbers the terms of each list stand for.

    Raises
    ------
    ValueError
        As for :func:`exact_aggregate`, and if the number of counts is not that of the lists.
    """

def exact_terms(values: NDArray[np.float64], offsets: NDArray[np.int64], /) -> tuple[bytes, bytes]:
    """Return, for each list of numbers, a short list of terms that have the same exact sum.

    Parameters
    ----------
    values, offsets
        As for :func:`exact_aggregate`.

    Returns
    -------
    tuple of bytes
        The terms as float64, and their offsets as int64: the start of each list's terms, then the end of the last.

    Raises
    ------
    ValueError
        If the offsets do not ascend, or exceed the number of values.
    """
