"""Decodes parts into objects."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

from craton._native import Buffers, check_pickle

__all__ = ["MAX_DEPTH", "decode", "decode_buffers", "unpickle"]

MAX_DEPTH = 10_000
"""The deepest nesting of tuples, containers and constructor arguments that is accepted in a pickle."""


def decode(meta: Any, buffers: Sequence[Any], *, copy: bool = False) -> Any:
    """Make the object that was encoded.

    Parameters
    ----------
    meta : bytes-like
        `Parts.meta`.
    buffers : sequence of bytes-like
        The contents of `Parts.buffers`, in their order; contiguous. They must not change afterwards: the object refers
        to them and keeps them alive.
    copy : bool
        Copy the data, so that the object owns its memory and arrays are writable.

    Raises
    ------
    ValueError
        ``meta`` is malformed, has a later version, or does not fit the buffers; or the object nests deeper than
        `MAX_DEPTH`.
    pickle.UnpicklingError, EOFError, …
        Errors of unpickling.
    """
    return decode_buffers(Buffers(meta, buffers, copy))


def decode_buffers(buffers: Buffers) -> Any:
    """Make the object of buffers whose meta has been parsed."""
    return unpickle(buffers.stream, buffers.rest())


def unpickle(stream: Any, buffers: Sequence[Any] | None = None) -> Any:
    """Unpickle an object, after checking its depth: deep nesting would overflow the C stack and crash the process.

    Raises
    ------
    ValueError
        It nests deeper than `MAX_DEPTH`, or is not a pickle.
    EOFError, ImportError, …
        Errors of unpickling.
    """
    check_pickle(stream, MAX_DEPTH)
    return pickle.loads(stream, buffers=buffers)
