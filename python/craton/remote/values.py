"""The results of a function as an array or column if all have one plain type, and back to exactly the same objects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from craton.remote.functions import from_table, to_table

__all__ = ["Values", "pack", "unpack", "values_of"]

_KINDS: tuple[tuple[frozenset[type], Any], ...] = (
    (frozenset([float, np.float64]), np.float64),
    (frozenset([int, np.int64]), np.int64),
    (frozenset([bool, np.bool_]), np.bool_),
)


@dataclass(slots=True)
class Values:
    """Results of calls: an array if all are floats, all integers or all booleans, else a list.

    Attributes
    ----------
    array
        The numbers, or None.
    scalars
        Which of the numbers are NumPy scalars instead of Python objects: all (True), none (False), or a mask.
    others
        The results if `array` is None.
    """

    array: np.ndarray[Any, Any] | None
    scalars: bool | np.ndarray[Any, Any] = False
    others: Any = None

    def __len__(self) -> int:
        return len(self.others if self.array is None else self.array)

    def to_list(self) -> list[Any]:
        """Return the results as the objects that the function returned."""
        if self.array is None:
            return self.others if type(self.others) is list else list(self.others)
        if self.scalars is True:
            return list(self.array)
        objects: list[Any] = self.array.tolist()
        if self.scalars is not False:
            for at in np.flatnonzero(self.scalars).tolist():
                objects[at] = self.array[at]
        return objects


def values_of(results: list[Any]) -> Values:
    """Return results as a :class:`Values`, with an array if possible."""
    kinds = set(map(type, results))
    if results:
        for known, dtype in _KINDS:
            if kinds <= known:
                try:
                    array = np.array(results, dtype)
                except OverflowError:
                    break
                scalar = dtype in kinds
                if scalar and len(kinds) > 1:
                    return Values(array, np.fromiter((type(one) is dtype for one in results), bool, len(results)))
                return Values(array, scalar)
    return Values(None, False, results)


def pack(results: list[Any]) -> pa.Table:
    """Serialize results to a table of one row.

    Raises
    ------
    Exception
        Any exception of pickling.
    """
    values = values_of(results)
    if values.array is None and results and set(map(type, results)) <= {str, type(None)}:
        try:
            return to_table(("text", pa.array(results, pa.large_string())))
        except (pa.ArrowInvalid, UnicodeEncodeError):  # lone surrogates
            pass
    return to_table(("values", values))


def unpack(table: pa.Table) -> Values:
    """Deserialize the results that :func:`pack` serialized."""
    kind, held = from_table(table)
    return Values(None, False, held.to_pylist()) if kind == "text" else held
