"""From parts to objects."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

from craton._native import Buffers, check_pickle

__all__ = ["MOST_DEPTH", "decode", "loaded", "unpickled"]

MOST_DEPTH = 10_000
"""How deep tuples, containers and the arguments of constructors may lie in each other."""


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
        ``meta`` is none, or of a later version, or does not fit the buffers; or the object nests deeper than `MOST_DEPTH`.
    pickle.UnpicklingError, EOFError, …
        What unpickling meets.
    """
    return loaded(Buffers(meta, buffers, copy))


def loaded(buffers: Buffers) -> Any:
    """Make the object that these buffers are part of."""
    return unpickled(buffers.stream, buffers.rest())


def unpickled(stream: Any, buffers: Sequence[Any] | None = None) -> Any:
    """Make the object of a pickle.

    Raises
    ------
    ValueError
        It nests deeper than `MOST_DEPTH`, or is no pickle.
    EOFError, ImportError, …
        What unpickling meets.
    """
    check_pickle(stream, MOST_DEPTH)
    return pickle.loads(stream, buffers=buffers)
