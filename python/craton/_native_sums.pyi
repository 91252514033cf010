"""Types of the native module's exact sums, a part of ``craton._native``: sums that do not depend on the order of the numbers."""

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
    """Write an aggregate of each list of numbers that does not depend on the order of the numbers, to the last bit.

    Sums are exact, and rounded once. On all threads; the interpreter is released, and no buffer may be touched meanwhile.

    Parameters
    ----------
    name
        The aggregate. Skewness and kurtosis are corrected for bias.
    values : buffer of float64
        The numbers of all lists.
    offsets : buffer of int64
        Where each list begins, and where the last one ends.
    out : writable buffer of float64
        One for each list: 0 for the sum of none, 1 for the product, NaN where there are too few numbers.
    ddof
        What is taken from the count to get the divisor of a variance.

    Raises
    ------
    ValueError
        If there is no such aggregate, offsets do not ascend or point behind the values, or ``out`` is of another length.
    """

def exact_means(
    values: NDArray[np.float64],
    offsets: NDArray[np.int64],
    counts: NDArray[np.int64],
    out: NDArray[np.float64],
    /,
) -> None:
    """Write the means of so many numbers whose terms are there: the same bits as the means of the numbers.

    Parameters
    ----------
    values, offsets, out
        As for :func:`exact_aggregate`; lists of terms.
    counts : buffer of int64
        How many numbers the terms of each list are of.

    Raises
    ------
    ValueError
        As :func:`exact_aggregate`, and if there are not as many counts as lists.
    """

def exact_terms(values: NDArray[np.float64], offsets: NDArray[np.int64], /) -> tuple[bytes, bytes]:
    """Return, for each list of numbers, few numbers that have the same exact sum.

    Parameters
    ----------
    values, offsets
        As for :func:`exact_aggregate`.

    Returns
    -------
    tuple of bytes
        The terms as float64, and offsets as int64: where the terms of each list begin, and where the last end.

    Raises
    ------
    ValueError
        If offsets do not ascend, or point behind the values.
    """
