"""Polars frames stored as pages, which are pinned while a frame that was read from them lives and can be evicted otherwise."""

from __future__ import annotations

import contextlib
import os
import weakref

import polars as pl
import pyarrow as pa

from craton.store.sets import LocalitySet
from craton.store.store import Store

#: Average rows per chunk from which `frame_of` keeps the chunks as they are.
_LARGE_CHUNK_ROWS = 1 << 16
#: The same for a frame that was stored, whose pages are the chunks: a copy would double its memory.
_LARGE_PAGE_ROWS = 1 << 14


def frame_of(table: pa.Table, large: int = _LARGE_CHUNK_ROWS) -> pl.DataFrame:
    """A table as a frame over the same memory; only a table of many small chunks is copied, into one chunk."""
    chunks = max((column.num_chunks for column in table.columns), default=1)
    frame = pl.DataFrame(pl.from_arrow(table, rechunk=chunks > 1 and table.num_rows < chunks * large))
    frame.columns = table.column_names  # Polars renames columns whose name is empty
    return frame


class StoredFrame:
    """A frame in a store.

    Made by :meth:`keep`. The store drops the pages when this object is collected, or by :meth:`drop`; frames that were read stay valid.

    Attributes
    ----------
    schema : dict of str to DataType
        Names and types of the columns.
    height : int
        Number of rows.
    """

    def __init__(self, pages: LocalitySet, frame: pl.DataFrame) -> None:
        self._pages = pages
        self._last_read: weakref.ref[pl.DataFrame] | None = None
        self._process = os.getpid()
        self.schema, self.height = dict(frame.schema), frame.height

    @classmethod
    def keep(cls, store: Store, frame: pl.DataFrame) -> StoredFrame | None:
        """Store a frame; None if its types do not survive the conversion to Arrow and back.

        Raises
        ------
        MemoryError
            If it does not fit into the memory that pinned pages leave.
        """
        if not frame.width or any(isinstance(dtype, pl.Object) for dtype in frame.dtypes):
            return None
        pages = store.create_set(reading="random")
        kept = cls(pages, frame)
        pages.append(frame.to_arrow(compat_level=pl.CompatLevel.newest()))
        return kept if dict(kept.read().schema) == kept.schema else None

    @property
    def readable(self) -> bool:
        """Whether it can be read: False in a forked child of the process that stored it, and after the store was closed."""
        if self._process != os.getpid():
            return False
        try:
            return len(self._pages) > 0
        except (KeyError, OSError, ValueError):
            return False

    def read(self) -> pl.DataFrame:
        """The frame over the store's memory; its pages are pinned as long as the frame lives.

        Raises
        ------
        KeyError
            If it was dropped.
        """
        frame = None if self._last_read is None else self._last_read()
        if frame is None:
            table: pa.Table = self._pages.to_arrow()
            frame = frame_of(table, _LARGE_PAGE_ROWS)
            self._last_read = weakref.ref(frame)
        return frame

    def drop(self) -> None:
        """Drop the pages now; no error if they are gone already."""
        with contextlib.suppress(KeyError, OSError, ValueError):
            self._pages.drop()
