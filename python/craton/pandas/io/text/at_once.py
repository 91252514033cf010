"""Decides whether pandas reads a file of text at once, and gives the frames that it reads in chunks Craton's class.

A scan of text parses the file again for each run, and once before, to find the dtypes. If the whole file fits into memory well,
pandas' own reader is faster: it parses the file once, and plans then read the columns from memory.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping
from typing import Any

from pandas.io.json._json import JsonReader
from pandas.io.parsers.readers import TextFileReader

from craton.config import options
from craton.engine.choice import present_engine
from craton.lower.decoded import active
from craton.pandas.core.counterparts import as_craton, register

__all__ = ["ROW_BYTES", "reads_at_once"]

#: Assumed bytes per row, by which a file's size is compared with ``craton.options.small_rows``.
ROW_BYTES = 100
#: The most bytes in memory for a byte of text: a digit and a separator become an integer of 8 bytes.
_EXPANSION = 4
#: The most bytes of text for a byte of a compressed file that are assumed.
_COMPRESSION = 8
_COMPRESSED = (".gz", ".zst", ".bz2", ".zip", ".xz", ".tar", ".tgz", ".tbz")
#: The share of the free memory that the columns of one file may take.
_SHARE = 4


def reads_at_once(path: str, given: Mapping[str, Any]) -> bool:
    """Whether pandas reads a local file at once.

    It does if the file is small, or if it takes at most a part of the memory that is free, and no other process shares its
    columns (workers of a session, or programs that share a store).

    Parameters
    ----------
    path
        The file.
    given
        The reader's parameters.

    Raises
    ------
    OSError
        If there is no such file.
    """
    size = os.path.getsize(path)
    if not options.small_rows:
        return False
    rows = given.get("nrows")
    if isinstance(rows, int):
        size = min(size, rows * ROW_BYTES * 10)
    elif given.get("compression", "infer") is not None and path.lower().endswith(_COMPRESSED):
        size *= _COMPRESSION
    if size < options.small_rows * ROW_BYTES:
        return True
    if present_engine() is not None or active():
        return False
    import psutil

    free = options.memory_limit - psutil.Process().memory_info().rss
    return size * _EXPANSION * _SHARE <= free


def _reader_class(theirs: type) -> type:
    """A subclass of a class of pandas that reads a file in chunks. Its frames are Craton's, so that calls on them are planned."""

    def converting(name: str) -> Any:
        method = getattr(theirs, name)

        def converted(self: Any, *args: Any, **kwargs: Any) -> Any:
            return as_craton(method(self, *args, **kwargs))

        converted.__name__, converted.__doc__ = name, method.__doc__
        return converted

    members = {name: converting(name) for name in ("read", "__next__")}
    return type(theirs.__name__, (theirs,), {**members, "__module__": theirs.__module__, "__doc__": theirs.__doc__})


for _theirs in (TextFileReader, JsonReader):
    register(functools.partial(_reader_class, _theirs), _theirs)
