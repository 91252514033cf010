"""A store: sets of pages, in this process or behind a socket."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Literal

from craton import _native
from craton.store.sets import LocalitySet

if TYPE_CHECKING:
    import pandas as pd

Durability = Literal["write-back", "write-through", "discard"]
Policy = Literal["data-aware", "lru", "mru", "dbmin-1", "dbmin-1000", "dbmin-adaptive"]


class Store:
    """Sets of pages in shared memory, and on disk where memory ends.

    Made by :meth:`open` or :meth:`connect`; closes itself when it is collected, at the end of a ``with`` block, or by
    :meth:`close`.

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
        from craton.store import forked  # forks have to be told of the memory that is read from now on

        forked.follow()
        self._native = native

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
        """A store of its own in this process.

        Parameters
        ----------
        memory_limit
            Bytes of pages, unsealed pages and reservations together.
        directory
            Where a folder for pages that do not fit is made when the first one is written; by default the system's
            folder for temporary files.
        policy
            Who is evicted: Pangea's data-aware paging, or one of those that it is compared with.
        compression
            Of pages on disk.
        direct_io
            Whether pages are written and read past the system's page cache, where the file system can.
        io_threads
            Threads that write and read pages.

        Raises
        ------
        OSError
            If the folder cannot be written to.
        """
        parent = None if directory is None else os.fspath(directory)
        return cls(_native.Store.open(memory_limit, parent, policy, compression, direct_io, io_threads))

    @classmethod
    def connect(cls, address: str) -> Store:
        """The store that another process serves at `address`.

        Parameters
        ----------
        address
            What :meth:`serve` returned, or the path that ``craton store serve`` printed.

        Raises
        ------
        ConnectionError
            If nobody serves there, or a process of another user.
        """
        return cls(_native.Store.connect(address))

    @property
    def address(self) -> str | None:
        """Where other processes reach this store; None while nobody serves it."""
        return self._native.address

    @property
    def connected(self) -> bool:
        """Whether the store is another process's."""
        return self._native.connected

    @property
    def limit(self) -> int:
        """Bytes of pages, unsealed pages and reservations that the store may have together."""
        return self._native.counters()["limit"]

    def serve(self, address: str | None = None, *, quota: int | None = None) -> str:
        """Let other processes of this user connect, and return the address.

        Parameters
        ----------
        address
            A path for the socket; by default one without a place in the file system.
        quota
            Bytes that one client may have pinned and unsealed; by default as many as there are.
        """
        return self._native.serve(address, quota)

    def close(self) -> None:
        """End the use of the store: every later call fails. Views that were read stay valid. Closing twice is no error.

        A store in this process drops every set and gives memory and disk back; its later calls raise `ValueError`. From one
        that was connected to, this process hangs up, as soon as the last view of its memory is gone; its later calls raise
        `ConnectionError`.
        """
        self._native.close()

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
        """Make a set of pages.

        Parameters
        ----------
        name
            Unique in the store. A named set lives as long as the store or until it is dropped; one without a name until
            nobody uses it any more.
        durability
            When pages are written to disk: when they are evicted, when they are appended, or never, because they can be
            made again.
        lifetime
            ``"ended"``: evict its pages first, and never write them.
        writing, reading
            What is known of the access; the writers and readers of a set say it themselves.
        pinned
            Keep every page in memory.
        tag
            What the set is a copy of, for whoever finds it by name.

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
            If there is none.
        """
        number = self._native.find_set(name)
        if number is None:
            raise KeyError(f"no set named {name!r}")
        self._native.retain_set(number)
        return LocalitySet(self, number, name)

    def __contains__(self, name: str) -> bool:
        return self._native.find_set(name) is not None

    def describe(self) -> pd.DataFrame:
        """All sets, a row each: attributes, pages, rows, bytes in memory and on disk, pins, hits and misses."""
        import pandas as pd

        return pd.DataFrame(self._native.describe(), columns=_DESCRIBED).set_index("set")

    def counters(self) -> pd.Series:
        """What was counted since the store was opened, in bytes or times; see the guide for each."""
        import pandas as pd

        return pd.Series(self._native.counters(), name="value")

    def prometheus(self) -> str:
        """The counters in Prometheus' text format."""
        return self._native.prometheus()

    def reserve(self, nbytes: int, *, at_least: int | None = None) -> Any:
        """Keep memory free of pages for other work, until the result is released or its ``with`` block ends.

        Parameters
        ----------
        nbytes
            Bytes wanted.
        at_least
            Bytes that will do, by default all of them.

        Raises
        ------
        MemoryError
            If not even `at_least` can be had.
        """
        return self._native.reserve(nbytes if at_least is None else at_least, nbytes)

    def __repr__(self) -> str:
        return f"<Store at {self.address}>" if self.address else "<Store in this process>"


_DESCRIBED = [
    "set", "name", "durability", "writing", "reading", "operation", "pinned", "ended", "pages", "rows", "nbytes",
    "memory", "disk", "pins", "users", "recency", "hits", "misses",
]  # fmt: skip
