"""Encodes pandas objects, so that decoded frames over read-only memory can be changed.

Under copy-on-write, pandas copies a block before changing it if another block refers to the same values. Decoded blocks
are registered as shared with a block that is never freed, so the first change copies the values and later ones do not.
"""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
import pandas
import pyarrow as pa
from pandas._libs import internals
from pandas.core.internals import SingleBlockManager

from craton.serialize.encoding import Encoder, Handler

__all__ = ["find", "guard"]

_SHARED_BLOCK = pandas.Series([0])._mgr.blocks[0]
"""The block with which all decoded blocks are registered as shared."""


def find(kind: type) -> Handler | None:
    """Return the handler of a type, or None."""
    if kind is SingleBlockManager:
        return _single
    if issubclass(kind, internals.Block):
        return _block
    if issubclass(kind, pandas.arrays.ArrowExtensionArray):
        return _arrow
    return None


def _single(encoder: Encoder, manager: Any) -> Any:
    return type(manager), (manager.blocks[0], manager.axes[0])


def _block(encoder: Encoder, block: Any) -> Any:
    make, arguments = block.__reduce__()
    return _guarded, (make, *arguments)


def _guarded(make: Any, values: Any, places: Any, dimensions: int) -> Any:
    block = make(values, places, dimensions)
    guard(block)
    return block


def guard(block: Any) -> None:
    """Make pandas copy a block before the first write to it, if its memory is read-only."""
    if not _writable(block.values):
        block.refs.referenced_blocks.append(weakref.ref(_SHARED_BLOCK))


def _writable(values: Any) -> bool:
    """Whether a block's values are a writable NumPy array, or a pandas array around one."""
    for name in ("_ndarray", "_data"):
        values = getattr(values, name, values)
    return isinstance(values, np.ndarray) and values.flags.writeable


def _arrow(encoder: Encoder, array: Any) -> Any:
    # pandas' own pickling combines the chunks, which copies even a single one.
    state = {**array.__dict__, "_pa_array": None}
    if "_cache" in state:
        state["_cache"] = {}
    chunked: pa.ChunkedArray = array._pa_array
    return _arrow_array, (type(array), chunked, state)


def _arrow_array(kind: Any, chunked: Any, state: dict[str, Any]) -> Any:
    array = kind.__new__(kind)
    array.__setstate__({**state, "_pa_array": chunked})
    return array
