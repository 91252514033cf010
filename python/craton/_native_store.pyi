"""Types of the store in ``craton._native``: pages, sets of pages, and Arrow data that is written to them."""

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any, Literal, Protocol

class ArrowStream(Protocol):
    """A table of any library that exports one: pyarrow, pandas, Polars, DuckDB."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

class ArrowArray(Protocol):
    """A record batch of any library that exports one."""

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]: ...

class Memory:
    """Read-only memory with the buffer protocol; keeps the memory that it is a part of alive."""

    def __len__(self) -> int:
        """Return the number of bytes."""
    def __buffer__(self, flags: int, /) -> memoryview: ...

class ArrowBatches:
    """Record batches of one schema; pyarrow, Polars and pandas import them through the PyCapsule interface without copying."""

    @property
    def num_rows(self) -> int:
        """Total rows of all batches."""

    def __len__(self) -> int:
        """Return the number of batches."""
    def __arrow_c_stream__(self, requested_schema: object = None) -> object: ...
    def __arrow_c_schema__(self) -> object: ...

class EncodedBatch:
    """A record batch in the format of pages. Keeps the memory of the batch alive."""

    @property
    def header(self) -> bytes: ...
    @property
    def rows(self) -> int: ...
    def buffers(self) -> list[tuple[int, int, tuple[int, int] | None]]:
        """Return the address and the bytes of each buffer, and its segment and offset if it lies in memory of a store."""

def encode_batches(data: ArrowStream | ArrowArray, /) -> list[EncodedBatch]:
    """Encode Arrow data in the format of pages, one for each batch, and at least one.

    No buffer is copied, except bitmaps that do not begin at the start of a byte.

    Raises
    ------
    TypeError
        If it is not Arrow data.
    ValueError
        If it has a type that pages do not support.
    """

class CorruptPage(OSError):
    """The image of a page on disk is damaged: it is not what was written."""

class PageInfo:
    """A snapshot of a page's metadata."""

    @property
    def set(self) -> int:
        """The number of its set."""
    @property
    def number(self) -> int:
        """Its number in the set."""
    @property
    def key(self) -> bytes | None:
        """Its key in the set, by which `Store.find_pages` finds it; None for a page without a key."""
    @property
    def rows(self) -> int: ...
    @property
    def nbytes(self) -> int:
        """Total bytes of its buffers."""
    @property
    def location(self) -> Literal["memory", "disk", "both"]:
        """Where its bytes are."""
    @property
    def statistics(self) -> bytes:
        """Bytes that its writer stored to describe its contents; not interpreted."""

class Page:
    """A pinned page: it stays in memory as long as this object, or anything that was read from it, lives."""

    @property
    def info(self) -> PageInfo: ...
    @property
    def statistics(self) -> bytes:
        """Bytes that its writer stored to describe its contents; not interpreted."""

    def batch(self, columns: Sequence[int] | None = None) -> ArrowBatches:
        """Return the page as one record batch over the store's memory.

        Parameters
        ----------
        columns : sequence of int, optional
            Positions of the columns to return, in this order; by default all.

        Raises
        ------
        ValueError
            If there is no column at a position.
        """

    def meta(self) -> Memory:
        """Return the metadata that `Store.write_object` was given, joined.

        Raises
        ------
        ValueError
            If the page does not hold an object.
        """

    def addresses(self) -> list[tuple[int, int]]:
        """Return the address and the length in bytes of each of its buffers."""

class HeldPages:
    """Keeps in memory all pages that this process had pinned when `hold_pages` was called, until `release`."""

    def __len__(self) -> int: ...
    def release(self) -> None: ...

def hold_pages() -> HeldPages:
    """Hold all pages that are pinned in this process."""

def forget_held_pages() -> None:
    """Clear the record of held pages without releasing them: for a forked child, since the pages are held by its parent."""

class Reader:
    """An iterator over the pages of a set that threads may share: each page is returned once, to one thread."""

    def next(self) -> Page | None:
        """Return the next page, None at the end.

        Raises
        ------
        KeyError
            If the set was dropped meanwhile.
        CorruptPage
            If the image of a page on disk is damaged.
        """

    def close(self) -> None:
        """Stop reading ahead; later calls of `next` return None."""

class Reservation:
    """Reserved memory, which pages do not use until it is released or its ``with`` block ends."""

    @property
    def nbytes(self) -> int:
        """Reserved bytes; 0 after `release`."""

    def release(self) -> None:
        """Make the memory available to pages again. A second call does nothing."""
    def __enter__(self) -> Reservation: ...
    def __exit__(self, *_error: object) -> None: ...

class SetUse:
    """One use of a set, which ends when this object is collected. The store drops a set without a name when its last use ends."""

    @property
    def number(self) -> int:
        """The set's number."""

class Store:
    """A store in this process or a connection to one in another process. All methods are thread-safe.

    Methods that take the number of a set raise `KeyError` if there is no such set. All methods raise `ConnectionError` if the store's
    process has ended, and `ValueError` if the store was closed.
    """

    @staticmethod
    def open(
        limit: int, directory: str | None, policy: str, compression: str, direct_io: bool, io_threads: int
    ) -> Store:
        """Open a store in this process; the parameters are those of `craton.store.Store.open`."""
    @staticmethod
    def connect(address: str) -> Store:
        """Connect to the store that another process serves.

        Raises
        ------
        ConnectionError
            If no store is served there, or the server is a process of another user.
        """

    def serve(self, address: str | None = None, quota: int | None = None) -> str:
        """Let other processes of this user connect, and return the address.

        Raises
        ------
        ValueError
            If the store is in another process, or is already served at another address.
        """

    @property
    def address(self) -> str | None:
        """The address at which other processes can connect; None while the store is not served."""
    @property
    def connected(self) -> bool:
        """Whether the store is in another process."""

    def close(self) -> None:
        """Close the store: drop every set of a store in this process, or close the connection to another process's store."""
    def create_set(
        self,
        name: str | None = None,
        *,
        tag: bytes = b"",
        durability: str = "write-back",
        writing: str = "sequential",
        reading: str = "sequential",
        pinned: bool = False,
    ) -> int:
        """Create a set with one use, which the caller owns; return its number. Parameters: as for `craton.store.Store.create_set`.

        Raises
        ------
        FileExistsError
            If there is a set of that name.
        """

    def find_set(self, name: str) -> int | None:
        """Return the number of the set of that name, without adding a use of it."""
    def retain_set(self, set: int) -> None:
        """Add a use of the set."""
    def name_set(self, set: int, name: str) -> None:
        """Give a set without a name this name, in one step."""
    def release_set(self, set: int) -> None:
        """End a use of the set; a set without a name is dropped with its last use. No error if the set was dropped."""
    def hold(self, set: int, /) -> SetUse:
        """Wrap a use of the set that the caller owns in an object that ends the use when it is collected."""
    def drop_set(self, set: int) -> None:
        """Drop the set and its pages. Views that were read stay valid."""
    def set_attributes(
        self,
        set: int,
        *,
        writing: str | None = None,
        reading: str | None = None,
        operation: str | None = None,
        pinned: bool | None = None,
        ended: bool | None = None,
    ) -> None:
        """Change those attributes of the set that are given."""
    def write(
        self, set: int, data: Any, *, key: bytes | None = None, statistics: bytes = b"", rebuild: int = 0
    ) -> list[PageInfo]:
        """Write a page for each record batch of Arrow data. Buffers that are in the store's memory are referenced, others are copied.

        Parameters
        ----------
        set : int
            The set's number.
        data : object
            Has ``__arrow_c_array__`` or ``__arrow_c_stream__``.
        key : bytes, optional
            Identifies the page in the set. If the set has a page with this key, that page is returned and nothing is written.
        statistics : bytes
            Any bytes that describe the contents; stored and not interpreted.
        rebuild : int
            Nanoseconds that making the page again would take; 0 if unknown.

        Raises
        ------
        ValueError
            If a key is given for several batches.
        MemoryError
            If the page does not fit into the memory that pinned pages leave.
        """

    def adopt(
        self,
        set: int,
        memfds: Sequence[tuple[int, int, Sequence[tuple[int, int]]]],
        pages: Sequence[tuple[bytes, int, Sequence[tuple[int, int, int]]]],
        /,
    ) -> list[PageInfo]:
        """Append pages whose buffers lie in memory that another process hands over, without copying them.

        Parameters
        ----------
        set : int
            The set's number.
        memfds : sequence of tuples
            For each memfd a descriptor, which is duplicated, its length in bytes, and the offset and bytes of each block: of what the pages
            refer to. All other memory of the memfd is returned to the system. No process may write to it any more.
        pages : sequence of tuples
            For each page its header, its rows, and for each of its buffers (segment, offset, bytes). The number of a memfd in ``memfds``
            stands for its segment; other segments are those of pages of the store.

        Raises
        ------
        ValueError
            If the store is in another process, or the descriptors, blocks or buffers are not what they should be. No page is appended then.
        MemoryError
            If the blocks do not fit into the memory that pinned pages leave.
        """

    def write_object(
        self, set: int, meta: Sequence[Any], buffers: Sequence[Any], *, statistics: bytes = b""
    ) -> PageInfo:
        """Write an encoded object as a page. The interpreter lock is released; the memory must not be written to until the call returns.

        Parameters
        ----------
        set : int
            The set's number.
        meta, buffers : sequence of bytes-like
            `craton.serialize.Parts.chunks` and `craton.serialize.Parts.buffers`.
        statistics : bytes
            Any bytes that describe the contents; stored and not interpreted.

        Raises
        ------
        BufferError
            If a part or a buffer is not contiguous.
        MemoryError
            If the page does not fit into the memory that pinned pages leave.
        """

    def put(self, meta: Sequence[Any], buffers: Sequence[Any], /) -> SetUse:
        """Create a set with an encoded object as its only page; parameters and errors are those of `write_object`."""
    def pin(self, set: int, number: int) -> Page:
        """Pin a page and return it, after loading it from disk if necessary.

        Raises
        ------
        KeyError
            If there is no such page.
        CorruptPage
            If its image on disk is damaged.
        MemoryError
            If it does not fit into the memory that pinned pages leave.
        """

    def read(
        self, set: int, groups: Sequence[tuple[Sequence[int], Sequence[int] | None]], /
    ) -> list[list[ArrowBatches]]:
        """Pin several pages and return them as Arrow data over the store's memory, with a single request to a store in another process.

        Parameters
        ----------
        set : int
            The set's number.
        groups : sequence of (pages, columns)
            Page numbers, and the positions of the columns to read from these pages; None for all.

        Returns
        -------
        list of list of ArrowBatches
            For each group its pages as record batches; consecutive pages of equal schema are in one `ArrowBatches`.

        Raises
        ------
        KeyError
            If there is no such page; then no page stays pinned.
        CorruptPage
            If the image of a page on disk is damaged.
        MemoryError
            If the pages do not fit together into the memory that other pinned pages leave.
        ValueError
            If there is no column at a position.
        """

    def read_all(self, set: int, columns: Sequence[int] | None = None) -> list[ArrowBatches] | None:
        """Return all pages of a set as `read` does; None, without reading any, if some of them are not in memory."""
    def prefetch(self, pages: Sequence[tuple[int, int]]) -> None:
        """Load pages, given as (set, number), in the background, as far as memory is free."""
    def pages(self, set: int) -> list[PageInfo]:
        """Return the `PageInfo` of each page, by page number."""
    def find_pages(self, set: int, keys: Sequence[bytes]) -> list[PageInfo | None]:
        """Return the `PageInfo` of the page with each key, None for a key without a page."""
    def drop_page(self, set: int, number: int) -> None:
        """Drop a page. Views that were read from it stay valid."""
    def reader(self, set: int, workers: int) -> Reader:
        """Return a reader of all pages; ``workers`` is the number of threads that will share it."""
    def reserve(self, least: int, most: int) -> Reservation:
        """Reserve up to ``most`` bytes, as many as are available but at least ``least``.

        Raises
        ------
        MemoryError
            If fewer than ``least`` bytes are available.
        """

    def describe(self) -> list[dict[str, Any]]:
        """Return the attributes and statistics of each set."""
    def counters(self) -> dict[str, int]:
        """Return the store's counters and gauges, in bytes or as counts."""
    def prometheus(self) -> str:
        """Return the counters in Prometheus' text format."""

def verify_page_file(path: str | PathLike[str]) -> str | None:
    """Check a page's file; return what is wrong with it, or None if it is sound."""

def remove_dead_stores(directory: str | PathLike[str] | None = None) -> list[Path]:
    """Remove the folders that stores of dead processes left in a directory, by default the system's folder for temporary files.

    Returns
    -------
    list of Path
        The removed folders.
    """
