"""A store of locality sets, in this process or in another one behind a socket."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from craton import _native
from craton.store.sets import LocalitySet

if TYPE_CHECKING:
    import pandas as pd

Durability = Literal["write-back", "write-through", "discard"]
Policy = Literal["data-aware", "lru", "mru", "dbmin-1", "dbmin-1000", "dbmin-adaptive"]


class Store:
    """Locality sets whose pages are in shared memory, and on disk when memory is full.

    Made by :meth:`open` or :meth:`connect`; closed by :meth:`close`, at the end of a ``with`` block, or when it is collected.

    Examples
    --------
    >>> from craton.store import Store
    >>> with Store.open(memory_limit=1 << 26) as store:
    ...     numbers = store.create_set("numbers")
    ...     info = numbers.append({"n": [1, 2, 3]})
    ...     numbers.to_arrow()["n"].to_pylist()
    [1, 2, 3]
    """

    def __init__(self, native: _native.Store) -> None:
        from craton.store import forked  # processes without a store need no fork handlers

        forked.register()
        self._native = native
        self._users: list[Callable[[], None]] = []

    @classmethod
    def open(
        cls,
        memory_limit: int,
        *,
        directory: str | os.PathLike[str] | None = None,
        policy: Policy = "data-aware",
        compression: Literal["none", "lz4"] = "none",
        direct_io: bool = True,
        io_threads: int = 2,
    ) -> Store:
        """Open a new store in this process.

        Parameters
        ----------
        memory_limit
            Bytes that sealed pages, unsealed pages and reservations may have together.
        directory
            Parent of the folder that the store spills to, which is created when the first page is written; by default the system's
            folder for temporary files.
        policy
            Which pages are evicted: Pangea's data-aware paging, or one of the policies that it is compared with.
        compression
            Compression of pages on disk.
        direct_io
            Whether to bypass the system's page cache when pages are written and read, if the file system supports it.
        io_threads
            Number of threads that write and read pages.

        Raises
        ------
        OSError
            If the folder cannot be written to.
        """
        parent = None if directory is None else os.fspath(directory)
        return cls(_native.Store.open(memory_limit, parent, policy, compression, direct_io, io_threads))

    @classmethod
    def connect(cls, address: str) -> Store:
        """Connect to the store that another process serves at `address`.

        Parameters
        ----------
        address
            What :meth:`serve` returned, or the path that ``craton store serve`` printed.

        Raises
        ------
        ConnectionError
            If no store is served there, or the server is a process of another user.
        """
        return cls(_native.Store.connect(address))

    @property
    def address(self) -> str | None:
        """The address at which other processes can connect to this store; None while it is not served."""
        return self._native.address

    @property
    def connected(self) -> bool:
        """Whether the store is in another process."""
        return self._native.connected

    @property
    def limit(self) -> int:
        """Bytes that sealed pages, unsealed pages and reservations may have together."""
        return self._native.counters()["limit"]

    def serve(self, address: str | None = None, *, quota: int | None = None) -> str:
        """Let other processes of this user connect, and return the address.

        Parameters
        ----------
        address
            Path of the socket; by default an abstract socket, which has no path in the file system.
        quota
            Most bytes of pinned and unsealed pages that one client may have; by default unlimited.
        """
        return self._native.serve(address, quota)

    def close(self) -> None:
        """Close the store, or the connection to it. Later calls fail; views that were read stay valid. A second call does nothing.

        A store in this process drops every set and frees its memory and disk space; later calls raise `ValueError`. A connection to
        another process's store closes once the last view of its memory is gone; later calls raise `ConnectionError`.
        """
        while self._users:
            self._users.pop()()
        self._native.close()

    def before_close(self, end: Callable[[], None]) -> None:
        """Call a function at the beginning of :meth:`close`, such as one that ends processes that use the store."""
        self._users.append(end)

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    # ---- sets ----

    def create_set(
        self,
        name: str | None = None,
        *,
        durability: Durability = "write-back",
        lifetime: Literal["alive", "ended"] = "alive",
        writing: Literal["sequential", "concurrent", "random"] = "sequential",
        reading: Literal["sequential", "random"] = "sequential",
        pinned: bool = False,
        tag: bytes = b"",
    ) -> LocalitySet:
        """Create a locality set.

        Parameters
        ----------
        name
            Unique in the store. A named set lives until it is dropped or the store is closed; a set without a name lives until the last
            reference to it goes.
        durability
            When pages are written to disk: ``"write-back"`` when they are evicted, ``"write-through"`` when they are appended,
            ``"discard"`` never, for pages that can be made again.
        lifetime
            ``"ended"``: evict its pages first, and never write them.
        writing, reading
            The expected access pattern, which paging uses; a shuffle's or a reader's own pattern replaces it.
        pinned
            Keep every page in memory.
        tag
            Identifies what the set is a copy of, so that a process that finds it by name can tell whether it is current.

        Raises
        ------
        FileExistsError
            If there is a set of that name.
        """
        native = self._native
        number = native.create_set(
            name, tag=tag, durability=durability, writing=writing, reading=reading, pinned=pinned
        )
        made = LocalitySet(self, number, name)
        if lifetime == "ended":
            made.end_lifetime()
        return made

    def get_set(self, name: str) -> LocalitySet:
        """The set of that name.

        Raises
        ------
        KeyError
            If there is no set of that name.
        """
        number = self._native.find_set(name)
        if number is None:
            raise KeyError(f"no set named {name!r}")
        self._native.retain_set(number)
        return LocalitySet(self, number, name)

    def __contains__(self, name: str) -> bool:
        return self._native.find_set(name) is not None

    def describe(self) -> pd.DataFrame:
        """One row for each set: attributes, pages, rows, bytes in memory and on disk, pins, hits and misses."""
        import pandas as pd

        return pd.DataFrame(self._native.describe(), columns=_DESCRIBED).set_index("set")

    def adopt(self, locality_set: LocalitySet, memfds: Any, pages: Any) -> list[_native.PageInfo]:
        """Append pages in memory that another process handed over, without a copy. Only a store in this process can.

        Parameters
        ----------
        locality_set
            The set that the pages are appended to.
        memfds, pages
            As in :class:`craton.pipeline.handover.Handover`, with descriptors of this process. Nobody may write to the memfds any more: the
            process that wrote to them should have ended.

        Raises
        ------
        ValueError
            If the store is in another process, or the memory is not as described. No page is appended then.
        MemoryError
            If the pages do not fit into the memory that pinned pages leave.
        """
        return self._native.adopt(locality_set.number, memfds, pages)

    def counters(self) -> pd.Series:
        """The store's counters and gauges, in bytes or as counts; the guide explains each."""
        import pandas as pd

        return pd.Series(self._native.counters(), name="value")

    def prometheus(self) -> str:
        """The counters in Prometheus' text format."""
        return self._native.prometheus()

    def reserve(self, nbytes: int, *, at_least: int | None = None) -> Any:
        """Reserve memory for other work: pages do not use it until the result is released or its ``with`` block ends.

        Parameters
        ----------
        nbytes
            Bytes to reserve.
        at_least
            Fewest bytes that are accepted if `nbytes` are not available; by default `nbytes`.

        Raises
        ------
        MemoryError
            If fewer than `at_least` bytes are available.
        """
        return self._native.reserve(nbytes if at_least is None else at_least, nbytes)

    def __repr__(self) -> str:
        return f"<Store at {self.address}>" if self.address else "<Store in this process>"


_DESCRIBED = [
    "set", "name", "durability", "writing", "reading", "operation", "pinned", "ended", "pages", "rows", "nbytes",
    "memory", "disk", "pins", "users", "recency", "hits", "misses",
]  # fmt: skip
