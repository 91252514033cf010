"""A fast path for plain NumPy arrays in messages, because the general encoder's overhead dominates for small arrays.

Plain arrays hold numbers, booleans, times or fixed-width text, contiguous in C or Fortran order; `craton.serialize`
encodes all others. As there, received arrays are read-only. The module is imported when the first array is sent, so
that programs without arrays need not import NumPy.
"""

from __future__ import annotations

import copyreg
import pickle
from collections import ChainMap
from typing import Any

import numpy as np

__all__ = ["ArrayPickler", "is_plain_array", "is_scalar"]

# Arrays of up to this many bytes are copied into the envelope.
_IN_ENVELOPE = 1 << 15
_OBJECT, _VOID = 17, 20
_BUILTIN = 24

_BYTES = np.dtype(np.uint8)


def is_plain_array(array: Any) -> bool:
    """Whether `ArrayPickler` can write an array; its class must be exactly ``numpy.ndarray``."""
    dtype, flags = array.dtype, array.flags
    kind = dtype.num
    if kind >= _BUILTIN or kind in (_OBJECT, _VOID) or dtype.metadata is not None:
        return False
    return flags.c_contiguous or flags.f_contiguous


def is_scalar(kind: type) -> bool:
    """Whether plain pickle is good enough for a NumPy type: scalars that are numbers, booleans, times or text."""
    return issubclass(kind, np.number | np.bool_ | np.datetime64 | np.character)


def _reduced(array: Any) -> tuple[Any, ...]:
    in_c = array.flags.c_contiguous
    size = array.nbytes
    if size <= _IN_ENVELOPE:
        memory: Any = array.tobytes("C" if in_c else "F")
    else:
        # Viewed as bytes, because the buffer protocol has no format for times.
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
    """A pickler for messages whose arrays are all plain."""

    dispatch_table: Any = ChainMap({np.ndarray: _reduced}, copyreg.dispatch_table)  # noqa: RUF012
