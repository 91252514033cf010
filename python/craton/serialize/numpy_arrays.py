"""NumPy: arrays of every kind.

A plain array becomes a buffer with a description, from which the native iterator makes it again: nothing of it is in
pickle's stream but its place. What else there is is led back to plain arrays, which pickle then meets.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from craton import _native
from craton.serialize.encoding import PLACE, Encoder, Handler

__all__ = ["find", "unnested"]

_C, _F, _STRIDED = 1, 2, 3
_OBJECT, _VOID, _BUILTIN = 17, 20, 24

_HEADS = [struct.Struct(f"<BBH{dimensions}Q") for dimensions in range(65)]
_ATOMS = frozenset({str, int, float, bool, bytes, complex, type(None)})


def find(kind: type) -> Handler | None:
    """Return the handler of a type of arrays."""
    if kind is np.ndarray:
        return _array
    if kind is np.ma.MaskedArray:
        return _masked
    if issubclass(kind, np.ndarray) and all(
        getattr(kind, name) is getattr(np.ndarray, name) for name in ("__reduce__", "__reduce_ex__", "__setstate__")
    ):
        return _subclass
    return None


def unnested(encoder: Encoder, obj: Any) -> Any:
    """Replace the arrays in a list, tuple or dict by places of buffers, where that is all there is.

    Pickle asks back for every array, and wraps it in a call; a place it writes as one byte, and reads as fast. The
    replacement is possible when every array and container in the object is met once, so that nothing has to refer
    back to them, and everything else is text or a number.

    Returns
    -------
    object
        What to pickle: the object, or one like it. The buffers are described to the encoder.
    """
    if type(obj) not in (list, tuple, dict):
        return obj
    found: list[tuple[bytes, Any]] = []
    seen: set[int] = set()
    # An object of other things is left early.
    budget = 64

    def replaced(item: Any) -> Any:
        nonlocal budget
        kind = type(item)
        if kind is np.ndarray:
            if id(item) in seen or (placed := _placed(encoder, item)) is None:
                raise _OthersError
            seen.add(id(item))
            budget += 8
            found.append(placed)
            return PLACE
        budget -= 1
        if kind in _ATOMS and budget:
            return item
        if kind not in (list, tuple, dict) or not budget or id(item) in seen:
            raise _OthersError
        seen.add(id(item))
        if kind is dict:
            values = {}
            for key, value in item.items():
                if type(key) not in _ATOMS:
                    raise _OthersError
                values[key] = replaced(value)
            return values
        return kind([replaced(value) for value in item])

    try:
        made = replaced(obj)
    except (_OthersError, RecursionError):
        return obj
    finally:
        replaced = None  # type: ignore[assignment]  # it refers to itself, and so would keep the arrays until the garbage collector comes
    if not found:
        return obj
    for ahead, (description, memory) in enumerate(found):
        encoder.describe(description, memory, ahead)
    return made


class _OthersError(Exception):
    """There is something else in an object than arrays."""


def _placed(encoder: Encoder, array: np.ndarray[Any, Any]) -> tuple[bytes, Any] | None:
    """Return the description and the memory of a plain array; None if its items are no plain memory."""
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
        return _HEADS[dimensions].pack(_C, dimensions, number, *shape), _exported(array)
    if flags.f_contiguous:
        return _HEADS[dimensions].pack(_F, dimensions, number, *shape), _exported(array.T)
    memory, strides, offset = _dense(array)
    ends = struct.pack(f"<{dimensions}qQ", *strides, offset)
    return _HEADS[dimensions].pack(_STRIDED, dimensions, number, *shape) + ends, _exported(memory)


def _exported(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return a contiguous array as one whose memory can be had: the buffer protocol has no word for times and some others."""
    if array.nbytes == 0:
        return np.empty(0, np.uint8)
    if array.dtype.num < _VOID:
        return array
    return array.reshape(-1).view(np.uint8)


def _dense(array: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], list[int], int]:
    """Return contiguous memory that an array fits on, the array's strides there, and where its first item is.

    The memory is the array's own if that has no gaps, be it that axes are permuted, turned round or repeated, or
    overlap as the windows of a moving average do; otherwise it is copied, each item once.
    """
    item = array.itemsize
    strides = list(array.strides)
    axes = [
        axis for axis, (length, stride) in enumerate(zip(array.shape, strides, strict=True)) if length > 1 and stride
    ]
    axes.sort(key=lambda axis: -abs(strides[axis]))
    # The same items from the least address on, without repetitions, the widest stride first.
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
    # The stride of an axis of one item, or repeated, is as good as any.
    return memory, [stride if axis in axes else 0 for axis, stride in enumerate(strides)], offset


def _array(encoder: Encoder, array: np.ndarray[Any, Any]) -> Any:
    placed = _placed(encoder, array)
    if placed is not None:
        encoder.describe(*placed)
        return _native.array, (PLACE,)
    dtype = array.dtype
    if dtype.fields is None or dtype.hasobject or dtype.itemsize == 0:
        return NotImplemented  # NumPy's own pickling: items that are objects, types of other libraries
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
