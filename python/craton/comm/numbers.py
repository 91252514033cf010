"""Reductions of Python's numbers and of NumPy's arrays: what they mean, and what is computed natively."""

from __future__ import annotations

import operator
import struct
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np

from craton.comm.base import Reduction
from craton.comm.errors import CollectiveMismatch

__all__ = [
    "UFUNCS",
    "checked_array",
    "combine_arrays",
    "combine_scalars",
    "is_scalar",
    "native_type",
    "packed",
    "part_bounds",
    "shape_hash",
    "unpacked",
    "validate",
]

UFUNCS: dict[Reduction, Any] = {
    "sum": np.add,
    "prod": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
}

_SCALARS = (bool, int, float, complex)


def _native_types() -> dict[tuple[str, str], str]:
    """The native names of dtypes, by their character and the reduction."""
    found = {}
    for char in "?bhilqBHILQfdFD":
        dtype = np.dtype(char)
        for op in UFUNCS:
            if dtype.kind in "fc" and op in ("and", "or"):
                continue
            if dtype.kind != "c" or op not in ("min", "max"):
                found[char, str(op)] = dtype.str[1:]
    return found


_NATIVE = _native_types()
_INT, _FLOAT, _COMPLEX = struct.Struct("<cq"), struct.Struct("<cd"), struct.Struct("<cdd")


def validate(op: str) -> None:
    """Raise a ValueError unless there is such a reduction."""
    if op not in UFUNCS:
        raise ValueError(f"op must be one of {', '.join(UFUNCS)}, got {op!r}")


def checked_array(value: Any, op: Reduction) -> Any:
    """Return the contiguous array of a value.

    Raises
    ------
    TypeError
        It is no array of numbers, or NumPy does not define the reduction for its dtype.
    """
    if type(value) is np.ndarray and value.flags.carray and (value.dtype.char, op) in _NATIVE:
        return value
    if not isinstance(value, np.ndarray | np.generic):
        raise TypeError(f"{op} reduces numbers and NumPy arrays, got {type(value).__name__}")
    if value.dtype.hasobject:
        raise TypeError(f"{op} reduces arrays of numbers, got one of dtype {value.dtype}")
    if native_type(value.dtype, op) is None:
        nothing = np.empty(0, value.dtype)
        UFUNCS[op](nothing, nothing)
    return np.require(np.asarray(value, order="C"), requirements=["C", "A"])


def is_scalar(value: Any) -> bool:
    """Whether a value is one of Python's own numbers, which are reduced exactly, as Python does it."""
    return type(value) in _SCALARS


def packed(value: Any, op: Reduction) -> list[Any]:
    """Return a number in a few bytes, with its type and the reduction; an integer of more than 64 bits as text.

    Raises
    ------
    TypeError
        Python does not define the operation for the type.
    """
    if type(value) in (float, complex):
        _FUNCTIONS[op](value, value)
    name = op.encode().ljust(4)
    if type(value) is float:
        return [name + _FLOAT.pack(b"f", value)]
    if type(value) is complex:
        return [name + _COMPLEX.pack(b"c", value.real, value.imag)]
    kind = b"b" if type(value) is bool else b"i"
    if -(1 << 63) <= value < 1 << 63:
        return [name + _INT.pack(kind, value)]
    return [name + b"I" + format(value, "x").encode()]


def unpacked(memory: Any) -> tuple[str, Any]:
    """Return the reduction and the number of `packed`; None for bytes that are no number."""
    data = bytes(memory)
    op, kind, body = data[:4].strip().decode("latin-1"), data[4:5], data[5:]
    if op not in UFUNCS:
        return op, None
    if kind in b"bi":
        number = int.from_bytes(body, "little", signed=True)
        return op, bool(number) if kind == b"b" else number
    if kind == b"f":
        return op, struct.unpack("<d", body)[0]
    if kind == b"c":
        return op, complex(*struct.unpack("<dd", body))
    return op, int(body.decode(), 16) if kind == b"I" else None


def _least(left: Any, right: Any) -> Any:
    return left if left != left or left <= right else right


def _greatest(left: Any, right: Any) -> Any:
    return left if left != left or left >= right else right


_FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "sum": operator.add,
    "prod": operator.mul,
    "min": _least,
    "max": _greatest,
    "and": operator.and_,
    "or": operator.or_,
}


def combine_scalars(values: Sequence[Any], op: Reduction) -> Any:
    """Reduce the numbers of all ranks in their order; integers have any size, and the least of NaN and a number is NaN.

    Raises
    ------
    CollectiveMismatch
        The numbers have different types.
    TypeError
        Python does not define the operation for the type.
    """
    kinds = {type(value) for value in values}
    if len(kinds) > 1:
        names = ", ".join(sorted(kind.__name__ for kind in kinds))
        raise CollectiveMismatch(f"the ranks reduced numbers of different types: {names}; convert them to one type")
    return reduce(_FUNCTIONS[op], values)


def native_type(dtype: Any, op: Reduction) -> str | None:
    """Return the native name of a dtype whose reduction is computed natively, otherwise None."""
    name = _NATIVE.get((dtype.char, op))
    return name if name is not None and dtype.isnative else None


def shape_hash(shape: tuple[int, ...]) -> int:
    """Return a number that is equal for equal shapes, in every process."""
    return hash(shape) & 0xFFFF_FFFF_FFFF_FFFF


def part_bounds(length: int, size: int) -> list[int]:
    """Return where `numpy.array_split` cuts a length into parts: 0, the end of each part."""
    quotient, more = divmod(length, size)
    return [part * quotient + min(part, more) for part in range(size + 1)]


def combine_arrays(values: Sequence[Any], op: Reduction) -> Any:
    """Reduce arrays that no native code reduces, in the order of the ranks.

    Raises
    ------
    CollectiveMismatch
        The arrays have different shapes or dtypes.
    TypeError
        NumPy does not define the operation for the dtype.
    """
    kinds = {(value.dtype, value.shape) for value in values}
    if len(kinds) > 1:
        names = "; ".join(sorted(f"{dtype} of shape {shape}" for dtype, shape in kinds))
        raise CollectiveMismatch(f"the ranks reduced arrays that do not agree: {names}")
    result = values[0].copy()
    for value in values[1:]:
        result = UFUNCS[op](result, value)
    return result
