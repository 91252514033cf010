"""Encodes Arrow arrays and tensors; a buffer that several arrays share is encoded once."""

from __future__ import annotations

import contextlib
from pickle import PickleBuffer
from typing import Any

import numpy as np
import pyarrow as pa

from craton import _native
from craton.serialize.encoding import Encoder, Handler

__all__ = ["find"]

_SMALL = 4096


def find(kind: type) -> Handler | None:
    """Return the handler of a type, or None; Arrow's other types, such as tables, pickle as arrays."""
    if kind is pa.Buffer or issubclass(kind, pa.Buffer):
        return _buffer
    if issubclass(kind, pa.Array):
        return _array
    if kind is pa.Tensor:
        return _tensor
    return None


def _buffer(encoder: Encoder, buffer: Any) -> Any:
    if not buffer.is_cpu:
        return NotImplemented
    key = ("arrow", buffer.address, buffer.size)
    first = encoder.shared.setdefault(key, buffer)
    if first is not buffer:  # another object for the same memory, such as the dictionary of every chunk
        return _native.array, (first,)
    return pa.py_buffer, (PickleBuffer(buffer),)


def _array(encoder: Encoder, array: Any) -> Any:
    # A slice refers to the buffers of the whole array; if it is much smaller, its part is copied out.
    whole = array.get_total_buffer_size()
    if whole > _SMALL and whole > 1.25 * array.nbytes:
        with contextlib.suppress(pa.ArrowNotImplementedError):
            cut = pa.concat_arrays([array])
            if cut.get_total_buffer_size() < whole:
                array = cut
    return array.__reduce__()


def _tensor(encoder: Encoder, tensor: Any) -> Any:
    return _tensor_of, (tensor.to_numpy(), tensor.dim_names)


def _tensor_of(items: np.ndarray[Any, Any], names: Any) -> Any:
    return pa.Tensor.from_numpy(items, dim_names=names or None)
