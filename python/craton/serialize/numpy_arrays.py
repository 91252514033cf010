"""Encodes NumPy arrays of every kind.

A plain array is encoded as a buffer with a description (dtype, shape, order), from which native code rebuilds the array
when it is decoded; the pickle contains only a placeholder. Other kinds of arrays are reduced to plain arrays.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from craton import _native
from craton.serialize.encoding import PLACEHOLDER, Encoder, Handler

__all__ = ["extract_arrays", "find"]

_C, _F, _STRIDED = 1, 2, 3
_OBJECT, _VOID, _BUILTIN = 17, 20, 24

_HEADS = [struct.Struct(f"<BBH{dimensions}Q") for dimensions in range(65)]
_ATOMS = frozenset({str, int, float, bool, bytes, complex, type(None)})


def find(kind: type) -> Handler | None:
    """Return the handler of an array type, or None."""
    if kind is np.ndarray:
        return _array
    if kind is np.ma.MaskedArray:
        return _masked
    if issubclass(kind, np.ndarray) and all(
        getattr(kind, name) is getattr(np.ndarray, name) for name in ("__reduce__", "__reduce_ex__", "__setstate__")
    ):
        return _subclass
    return None


def extract_arrays(encoder: Encoder, obj: Any) -> Any:
    """Replace the arrays in nested lists, tuples and dicts by placeholders, if nothing else but text and numbers is there.

    Otherwise pickle would call back for every array and write a function call for it, while a placeholder is a single
    opcode. The replacement requires that every array and container occurs only once in the object, because shared
    references to them would be lost.

    Returns
    -------
    object
        The object to pickle: the given one, or a copy with placeholders, whose arrays have been described to the encoder.
    """
    if type(obj) not in (list, tuple, dict):
        return obj
    found: list[tuple[bytes, Any]] = []
    seen: set[int] = set()
    # Limits how many items are inspected without finding an array.
    budget = 64

    def replaced(item: Any) -> Any:
        nonlocal budget
        kind = type(item)
        if kind is np.ndarray:
            if id(item) in seen or (described := _described(encoder, item)) is None:
                raise _NotPlainError
            seen.add(id(item))
            budget += 8
            found.append(described)
            return PLACEHOLDER
        budget -= 1
        if kind in _ATOMS and budget:
            return item
        if kind not in (list, tuple, dict) or not budget or id(item) in seen:
            raise _NotPlainError
        seen.add(id(item))
        if kind is dict:
            values = {}
            for key, value in item.items():
                if type(key) not in _ATOMS:
                    raise _NotPlainError
                values[key] = replaced(value)
            return values
        return kind([replaced(value) for value in item])

    try:
        made = replaced(obj)
    except (_NotPlainError, RecursionError):
        return obj
    finally:
        replaced = None  # type: ignore[assignment]  # break the cycle of the closure, which would keep the arrays alive
    if not found:
        return obj
    for ahead, (description, memory) in enumerate(found):
        encoder.describe(description, memory, ahead)
    return made


class _NotPlainError(Exception):
    """The object contains values other than arrays, text and numbers."""


def _described(encoder: Encoder, array: np.ndarray[Any, Any]) -> tuple[bytes, Any] | None:
    """Return the description and the memory of a plain array; None for object, structured and third-party dtypes."""
    dtype = array.dtype
    kind = dtype.num
    if kind >= _BUILTIN or kind == _OBJECT or dtype.metadata is not None:
        return None
    if kind == _VOID and (dtype.fields is not None or dtype.type is not np.void):
        return None
    number = encoder.number_of(dtype)
    if number is None:
        return None
    flags, shape = array.flags, array.shape
    dimensions = len(shape)
    if flags.c_contiguous:
        return _HEADS[dimensions].pack(_C, dimensions, number, *shape), _memory_of(array)
    if flags.f_contiguous:
        return _HEADS[dimensions].pack(_F, dimensions, number, *shape), _memory_of(array.T)
    memory, strides, offset = _dense(array)
    ends = struct.pack(f"<{dimensions}qQ", *strides, offset)
    return _HEADS[dimensions].pack(_STRIDED, dimensions, number, *shape) + ends, _memory_of(memory)


def _memory_of(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return an array that exports a contiguous array's memory; as bytes if the buffer protocol has no format for its dtype."""
    if array.nbytes == 0:
        return np.empty(0, np.uint8)
    if array.dtype.num < _VOID:
        return array
    return array.reshape(-1).view(np.uint8)


def _dense(array: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], list[int], int]:
    """Return contiguous memory with an array's items, the array's strides in it, and the offset of its first item.

    The memory is the array's own if it has no gaps: axes may be permuted, reversed or broadcast, and may overlap as in a
    sliding window view. Otherwise it is a copy with each item once.
    """
    item = array.itemsize
    strides = list(array.strides)
    axes = [
        axis for axis, (length, stride) in enumerate(zip(array.shape, strides, strict=True)) if length > 1 and stride
    ]
    axes.sort(key=lambda axis: -abs(strides[axis]))
    # The same items in the order of their addresses: without broadcast axes, and with the largest stride first.
    index = tuple(
        slice(None, None, -1 if strides[axis] < 0 else 1) if axis in axes else 0 for axis in range(array.ndim)
    )
    turned = array[(*index, ...)].transpose([sorted(axes).index(axis) for axis in axes])
    reach = item + sum((array.shape[axis] - 1) * abs(strides[axis]) for axis in axes)
    offset = sum((array.shape[axis] - 1) * -strides[axis] for axis in axes if strides[axis] < 0)
    if turned.flags.c_contiguous:
        memory = turned
    elif reach < turned.nbytes and all(strides[axis] % item == 0 for axis in axes):
        memory = as_strided(turned, (reach // item,), (item,), writeable=False)
    else:
        memory = turned.copy("C")
        offset = 0
        for axis, stride in zip(axes, memory.strides, strict=True):
            strides[axis] = stride if strides[axis] > 0 else -stride
            offset += (array.shape[axis] - 1) * stride if strides[axis] < 0 else 0
    # The strides of broadcast axes and of axes of length 1 are 0.
    return memory, [stride if axis in axes else 0 for axis, stride in enumerate(strides)], offset


def _array(encoder: Encoder, array: np.ndarray[Any, Any]) -> Any:
    described = _described(encoder, array)
    if described is not None:
        encoder.describe(*described)
        return _native.array, (PLACEHOLDER,)
    dtype = array.dtype
    if dtype.fields is None or dtype.hasobject or dtype.itemsize == 0:
        return NotImplemented  # NumPy's own pickling handles object arrays and dtypes of other libraries
    if not (array.flags.c_contiguous or array.flags.f_contiguous):
        array = array.copy("C")
    order = "C" if array.flags.c_contiguous else "F"
    flat = (array if order == "C" else array.T).reshape(-1).view(np.uint8)
    return _record, (flat, dtype, array.shape, order)


def _record(
    flat: np.ndarray[Any, Any], dtype: np.dtype[Any], shape: tuple[int, ...], order: Any
) -> np.ndarray[Any, Any]:
    return flat.view(dtype).reshape(shape, order=order)


def _subclass(encoder: Encoder, array: np.ndarray[Any, Any]) -> Any:
    return _viewed, (array.view(np.ndarray), type(array))


def _viewed(array: np.ndarray[Any, Any], kind: type[np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
    return array.view(kind)


def _masked(encoder: Encoder, array: Any) -> Any:
    return _unmasked, (
        array.data,
        None if array._mask is np.ma.nomask else array._mask,
        array._fill_value,
        array.hardmask,
    )


def _unmasked(data: Any, mask: Any, fill_value: Any, hard: bool) -> Any:
    array: Any = np.ma.MaskedArray(data, mask=np.ma.nomask if mask is None else mask, hard_mask=hard, copy=False)
    array._fill_value = fill_value
    return array
