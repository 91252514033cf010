"""Types of hash aggregation and of join maps in ``craton._native``."""

from collections.abc import Sequence

from craton._native_store import ArrowArray, ArrowBatches, ArrowStream, Store

class HashTable:
    """Groups the rows of tables by key, within a part of the memory of a store.

    Any number of threads may use a table at once; the interpreter lock is released. The first table that is added determines the types.

    Parameters
    ----------
    store : Store
    keys : sequence of str
        Names of the key columns.
    aggregates : sequence of (str, str or None, str)
        For each aggregate its name, its column, and ``"count"``, ``"sum"``, ``"min"``, ``"max"`` or ``"last"``. A count without a column
        counts rows.
    memory : int, optional
        Most bytes of pages that are not sealed; by default half of the store's limit.
    page_bytes : int, optional
        Bytes of a page of full size.
    """

    def __init__(
        self,
        store: Store,
        keys: Sequence[str],
        aggregates: Sequence[tuple[str, str | None, str]],
        /,
        *,
        memory: int | None = None,
        page_bytes: int | None = None,
    ) -> None: ...
    def add(self, data: ArrowStream | ArrowArray) -> None:
        """Add the rows of a table.

        Raises
        ------
        KeyError
            If a column is missing.
        TypeError
            If a column's type cannot be a key, or does not have the aggregate.
        ValueError
            If a key is too long, or types differ from those of the table before; nothing is added then.
        OverflowError
            If a sum of integers overflows 64 bits.
        MemoryError
            If pinned pages and reservations leave too little memory.
        """
    def schema(self) -> ArrowBatches | None:
        """The columns of the results, as a table without rows; None before the first table."""
    def count(self) -> int:
        """The number of groups."""
    @property
    def sealed_pages(self) -> int:
        """How many pages were sealed with partial results because the memory was full."""
    def find(self, data: ArrowStream | ArrowArray) -> ArrowBatches | None:
        """The results of keys, and a last column that says whether there is a group; None before the first table."""
    def remove(self, data: ArrowStream | ArrowArray) -> int:
        """Remove the groups of keys, and return how many there were."""
    def groups(self, take: bool) -> TableGroups | None:
        """The groups: taken out of the table, which takes no rows any more, or copied. None before the first table."""
    def clear(self) -> None:
        """Remove all groups; the next table determines the types."""

class TableGroups:
    """The groups of a hash table."""

    def next(self) -> ArrowBatches | None:
        """Some groups; None at the end."""

def key_columns(data: ArrowStream | ArrowArray, names: Sequence[str], /) -> list[tuple[int, str]]:
    """The position of each key column of a table, and the kind of its values: only values of one kind match.

    Raises
    ------
    KeyError
        If a column is missing, or several have its name.
    TypeError
        If the values of a column cannot be keys.
    """

def build_join_index(
    store: Store,
    set: int,
    pages: Sequence[tuple[int, int, int]],
    columns: Sequence[int],
    page_bytes: int | None = None,
    /,
) -> list[tuple[int, int]]:
    """Append the index pages of a join map to a set that has the pages of its table.

    Parameters
    ----------
    store : Store
    set : int
        The number of the set.
    pages : sequence of (int, int, int)
        For each page of the table its number, its rows, and the most categories of a key column.
    columns : sequence of int
        The positions of the key columns.
    page_bytes : int, optional
        Bytes of an index page; by default a sixteenth of the store's limit, from 64 KiB to 32 MiB.

    Returns
    -------
    list of (int, int)
        The number and the bytes of each index page.

    Raises
    ------
    ValueError
        If there are 2**32 - 1 rows or more, or the entries of one key do not fit in 1 GiB.
    MemoryError, OSError
        If a page does not fit into the memory that pinned pages leave, or the disk is full.
    """

class JoinTable:
    """Probes the index of a join map. Any number of threads may do so at once; the interpreter lock is released.

    Parameters
    ----------
    store : Store
    set : int
        The number of the set.
    pages : sequence of int
        The numbers of the index pages, as :func:`build_join_index` returned them.
    rows : int
        The rows of the map.
    nbytes : int
        The bytes of all index pages.
    kinds : sequence of str
        The kind of each key column.
    """

    def __init__(
        self, store: Store, set: int, pages: Sequence[int], rows: int, nbytes: int, kinds: Sequence[str], /
    ) -> None: ...
    def probe(self, keys: ArrowStream | ArrowArray, keep: bool, /) -> ArrowBatches:
        """The pairs of matching rows, as one batch with the columns ``ours`` and ``theirs`` of row numbers (uint32).

        They are ordered by the row that probes, then by the row of the map.

        Parameters
        ----------
        keys
            A table of the key columns.
        keep : bool
            Whether a row without a match is kept, paired with 2**32 - 1.

        Raises
        ------
        TypeError
            If a key column has values of another kind than the map's.
        KeyError
            If the map was dropped.
        CorruptPage
            If an index page is damaged.
        ValueError
            If there are 2**32 - 1 rows or pairs or more.
        MemoryError
            If an index page does not fit into the memory that pinned pages leave.
        """
