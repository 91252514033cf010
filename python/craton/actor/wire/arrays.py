"""NumPy's plain arrays in messages, written without the general encoder: it costs more than a small array does.

Plain are arrays of numbers, truth values, times and fixed-width text in C's or Fortran's order; everything else is left
to `craton.serialize`. Like there, arrays are read-only where they arrive. Imported when the first array is met.
"""

from __future__ import annotations

import copyreg
import pickle
from collections import ChainMap
from typing import Any

import numpy as np

__all__ = ["ArrayPickler", "is_plain_array", "is_scalar"]

# Up to this many bytes, an array travels in the envelope.
_IN_ENVELOPE = 1 << 15
_OBJECT, _VOID = 17, 20
_BUILTIN = 24

_BYTES = np.dtype(np.uint8)


def is_plain_array(array: Any) -> bool:
    """Whether `ArrayPickler` writes it; given an object of exactly the class ``numpy.ndarray``."""
    dtype, flags = array.dtype, array.flags
    kind = dtype.num
    if kind >= _BUILTIN or kind in (_OBJECT, _VOID) or dtype.metadata is not None:
        return False
    return flags.c_contiguous or flags.f_contiguous


def is_scalar(kind: type) -> bool:
    """Whether pickle writes the values of a type of NumPy's well by itself: numbers, truth values, times, text."""
    return issubclass(kind, np.number | np.bool_ | np.datetime64 | np.character)


def _reduced(array: Any) -> tuple[Any, ...]:
    in_c = array.flags.c_contiguous
    size = array.nbytes
    if size <= _IN_ENVELOPE:
        memory: Any = array.tobytes("C" if in_c else "F")
    else:
        # As bytes: the buffer protocol has no word for times.
        memory = pickle.PickleBuffer((array if in_c else array.T).reshape(-1).view(_BYTES))
    dtype = array.dtype
    if in_c:
        return _array, (memory, dtype.str, array.shape[0] if array.ndim == 1 else array.shape)
    return _array, (memory, dtype.str, array.shape, "F")


def _array(memory: Any, dtype: str, shape: Any, order: Any = "C") -> Any:
    made: Any = np.ndarray(shape, dtype, memory, 0, None, order)
    made.flags.writeable = False
    return made


class ArrayPickler(pickle.Pickler):
    """A pickler that knows plain arrays, and must not meet others."""

    dispatch_table: Any = ChainMap({np.ndarray: _reduced}, copyreg.dispatch_table)  # noqa: RUF012
