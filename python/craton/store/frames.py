"""Polars frames kept as pages: in memory while somebody looks, evicted like everything else when nobody does."""

from __future__ import annotations

import contextlib
import os
import weakref

import polars as pl
import pyarrow as pa

from craton.store.sets import LocalitySet
from craton.store.store import Store

#: Rows of a chunk from which on chunks stay apart.
_LARGE_CHUNK = 1 << 16


def frame_of(table: pa.Table) -> pl.DataFrame:
    """A table as a frame: over the same memory, but many small chunks are copied into one."""
    chunks = max((column.num_chunks for column in table.columns), default=1)
    frame = pl.DataFrame(pl.from_arrow(table, rechunk=chunks > 1 and table.num_rows < chunks * _LARGE_CHUNK))
    frame.columns = table.column_names  # the kernel names a column without a name itself
    return frame


class StoredFrame:
    """A frame in a store.

    Made by :meth:`keep`. It is dropped with this object, or by :meth:`drop`; frames that were read stay valid.

    Attributes
    ----------
    schema : dict of str to DataType
        Names and types of the columns.
    height : int
        Rows.
    """

    def __init__(self, pages: LocalitySet, frame: pl.DataFrame) -> None:
        self._pages = pages
        self._seen: weakref.ref[pl.DataFrame] | None = None
        self._process = os.getpid()
        self.schema, self.height = dict(frame.schema), frame.height

    @classmethod
    def keep(cls, store: Store, frame: pl.DataFrame) -> StoredFrame | None:
        """Keep a frame; None if its types do not come back from Arrow as they are.

        Raises
        ------
        MemoryError
            If it does not fit beside what is pinned.
        """
        if not frame.width or any(isinstance(dtype, pl.Object) for dtype in frame.dtypes):
            return None
        pages = store.create_set(reading="random")
        kept = cls(pages, frame)
        pages.append(frame.to_arrow(compat_level=pl.CompatLevel.newest()))
        return kept if dict(kept.read().schema) == kept.schema else None

    @property
    def readable(self) -> bool:
        """Whether it can be read: not in a fork of the process that kept it, nor when the store has gone."""
        if self._process != os.getpid():
            return False
        try:
            return len(self._pages) > 0
        except (KeyError, OSError, ValueError):
            return False

    def read(self) -> pl.DataFrame:
        """The frame, over the store's memory; its pages stay in memory as long as it lives.

        Raises
        ------
        KeyError
            If it was dropped.
        """
        seen = None if self._seen is None else self._seen()
        if seen is None:
            table: pa.Table = self._pages.to_arrow()
            seen = frame_of(table)
            self._seen = weakref.ref(seen)
        return seen

    def drop(self) -> None:
        """Drop it now, if it is there."""
        with contextlib.suppress(KeyError, OSError, ValueError):
            self._pages.drop()
