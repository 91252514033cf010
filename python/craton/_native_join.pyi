"""Types of join maps in ``craton._native``."""

from collections.abc import Sequence

from craton._native_store import ArrowArray, ArrowBatches, ArrowStream, Store

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
