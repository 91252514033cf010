"""Types of hash aggregation in ``craton._native``."""

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
