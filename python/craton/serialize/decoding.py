"""From parts to objects."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

from craton._native import Buffers

__all__ = ["decode", "loaded"]


def decode(meta: Any, buffers: Sequence[Any], *, copy: bool = False) -> Any:
    """Make the object that was encoded.

    Parameters
    ----------
    meta : bytes-like
        `Parts.meta`.
    buffers : sequence of bytes-like
        The contents of `Parts.buffers`, in their order; contiguous. They must not change any more: the object looks
        into them, and keeps them.
    copy : bool
        Give the object memory of its own, which may be written.

    Raises
    ------
    ValueError
        ``meta`` is none, or of a later version, or does not fit the buffers.
    pickle.UnpicklingError, EOFError, …
        What unpickling meets.
    """
    return loaded(Buffers(meta, buffers, copy))


def loaded(buffers: Buffers) -> Any:
    """Make the object that these buffers are part of."""
    return pickle.loads(buffers.stream, buffers=buffers.rest())
