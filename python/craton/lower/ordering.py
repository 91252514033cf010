"""Stable sorts and order-preserving joins of frames, by row numbers that the native module computes.

The kernel's joins return rows in any order, and restoring the order takes a sort. For a numeric key, probing a hash table in
order takes half the time of both. A radix sort of keys that are packed into 64 bits takes half the time of the kernel's sort
(5 million rows, two cores). Keys that need more bits take several passes, from the least significant word to the most
significant. A text is replaced by its rank among the distinct texts, if these are few. Other keys are left to the kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import polars as pl

from craton import _native
from craton.plan.functions.ranks import has_many_texts, text_ranks
from craton.plan.names import hidden_name

Keys = np.ndarray[Any, np.dtype[np.int64]]
Rows = np.ndarray[Any, np.dtype[np.uint32]]
Integers = np.ndarray[Any, np.dtype[Any]]

#: The row number that means "no match" in a left join.
NO_ROW = 2**32 - 1

#: The kernel sorts fewer rows than this, since the set-up of the radix sort would take longer.
FEWEST_ROWS = 4096

_WORD = 63
_UNPACKED = (pl.UInt64, pl.Int128, pl.UInt128)


def is_whole_number(dtype: pl.DataType) -> bool:
    """Whether values of a dtype are stored as integers that fit into a signed 64-bit integer."""
    return (dtype.is_integer() and dtype not in _UNPACKED) or dtype.is_temporal() or dtype == pl.Boolean


def can_sort(dtype: pl.DataType) -> bool:
    """Whether a :class:`RowSort` can radix-sort a column of this dtype: numbers, and texts that it ranks."""
    return is_whole_number(dtype) or dtype in (pl.Float64, pl.UInt64, pl.String)


@dataclass(frozen=True)
class RowSort:
    """A stable sort. Use :func:`row_sort`: it returns one object for equal sorts, which the kernel recognises and runs once.

    Parameters
    ----------
    names, descending, nulls_last
        The columns to sort by.
    kept
        The columns of the result.
    numbered
        The name of a column to add: the rows' numbers before the sort.
    """

    names: tuple[str, ...]
    descending: tuple[bool, ...]
    nulls_last: tuple[bool, ...]
    kept: tuple[str, ...]
    numbered: str | None = None

    def lowered(self, frame: pl.LazyFrame) -> pl.LazyFrame:
        """The sort of a LazyFrame."""
        schema = frame.collect_schema()
        return frame.map_batches(self, schema={name: schema.get(name, pl.UInt32()) for name in self.kept})

    def __call__(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Sort a frame."""
        if not _is_fast(frame, self.names):
            numbered = frame if self.numbered is None else frame.with_row_index(self.numbered)
            return numbered.sort(
                self.names,
                descending=list(self.descending),
                nulls_last=list(self.nulls_last),
                maintain_order=True,
            ).select(self.kept)
        frame = frame.rechunk()
        words = _words(frame, self)
        if len(words) == 1 and bool((words[0][1:] >= words[0][:-1]).all()):  # in order already
            return (frame if self.numbered is None else frame.with_row_index(self.numbered)).select(self.kept)
        rows = np.empty(frame.height, dtype=np.uint32)
        made: dict[str, Any] = {} if self.numbered is None else {self.numbered: rows}
        key = self.names[0]
        if key in self.kept and self._is_sorted_by_values_of(frame.get_column(key)):
            ordered = np.empty(frame.height, dtype=np.int64)
            _native.argsort(words[0], False, rows, ordered)
            made[key] = ordered
        else:
            _argsort(words, rows)
        gathered = gather_rows(frame, tuple(name for name in self.kept if name not in made), rows)
        columns = [pl.Series(name, values).cast(frame.schema.get(name, pl.UInt32)) for name, values in made.items()]
        # Columns are passed by name, since the kernel would rename a column called "".
        return pl.DataFrame({column.name: column for column in (*gathered.iter_columns(), *columns)}).select(self.kept)

    def _is_sorted_by_values_of(self, key: pl.Series) -> bool:
        """Whether the single word of :func:`_words` is the key column itself, so that the sort also returns its values."""
        plain = is_whole_number(key.dtype) and key.null_count() == 0
        return plain and len(self.names) == 1 and not self.descending[0]


row_sort = lru_cache(maxsize=256)(RowSort)


def _is_fast(frame: pl.DataFrame, names: tuple[str, ...]) -> bool:
    """Whether a radix sort by some columns takes less time than the kernel's."""
    if not FEWEST_ROWS <= frame.height < 2**32 - 1:
        return False
    keys = [frame.get_column(name) for name in names]
    return all(can_sort(key.dtype) and not has_many_texts(key) for key in keys)


@dataclass(frozen=True)
class RowDistinct:
    """The first or the last row of each key, in the order of the rows.

    The kernel's hash table, which also keeps the order, takes three times as long as a radix sort of the keys (1 million rows in memory).
    Use :func:`row_distinct`: it returns one object for equal steps, which the kernel recognises and runs once.

    Parameters
    ----------
    names
        The key columns.
    last
        Whether the last row of a key is kept, and not the first.
    kept
        The columns of the result.
    """

    names: tuple[str, ...]
    last: bool
    kept: tuple[str, ...]

    def lowered(self, frame: pl.LazyFrame) -> pl.LazyFrame:
        """The step for a LazyFrame."""
        schema = frame.collect_schema()
        return frame.map_batches(self, schema={name: schema[name] for name in self.kept})

    def __call__(self, frame: pl.DataFrame) -> pl.DataFrame:
        """The rows of a frame."""
        keys = frame.select(self.names)
        if not _is_fast(keys, self.names):
            keep = "last" if self.last else "first"
            return frame.unique(self.names, keep=keep, maintain_order=True).select(self.kept)  # type: ignore[arg-type]
        rows, begins = rows_in_order(keys.rechunk(), self.names)
        ends = np.ones(len(rows), dtype=bool)
        ends[:-1] = begins[1:]
        chosen = ends if self.last else begins
        found = np.zeros(len(rows), dtype=bool)
        found[rows[chosen]] = True
        return frame.select(self.kept).filter(pl.Series(found))


row_distinct = lru_cache(maxsize=256)(RowDistinct)


def _words(frame: pl.DataFrame, order: RowSort) -> list[Keys]:
    """The sort columns as integers, several packed into one where they fit, most significant first."""
    words: list[Keys] = []
    room = 0
    for name, descending, nulls_last in zip(order.names, order.descending, order.nulls_last, strict=True):
        column = frame.get_column(name)
        if column.dtype == pl.String:
            column = text_ranks(column)
        numbers = _numbers(column)
        missing = column.is_null().to_numpy() if column.null_count() else None
        if len(order.names) == 1 and not descending and missing is None:
            return [numbers]
        least, most = (int(numbers.min()), int(numbers.max())) if len(numbers) else (0, 0)
        width = (most - least + 1).bit_length()
        if width <= _WORD:
            # With nulls first, numbers count from 1 and null is 0; with nulls last, null is the greatest number.
            digits = (most - numbers if descending else numbers - least) + (0 if nulls_last else 1)
            if missing is not None:
                digits[missing] = most - least + 1 if nulls_last else 0
            room = _append(words, digits, width, room)
            continue
        if missing is not None:
            _append(words, (missing if nulls_last else ~missing).astype(np.int64), 1, room)
        words.append(~numbers if descending else numbers)
        room = 0
    return words


def _append(words: list[Keys], digits: Keys, width: int, room: int) -> int:
    """Append digits of a bit width to the last word if they fit, else as a new word; return the bits that remain."""
    if width > room:
        words.append(digits)
        return _WORD - width
    words[-1] = (words[-1] << width) | digits
    return room - width


def _argsort(words: list[Keys], rows: Rows) -> None:
    """Write the row numbers of the rows sorted by several words: stable sorts by each word, the least significant first."""
    _native.argsort(words[-1], False, rows)
    for word in reversed(words[:-1]):
        keys, places = np.empty_like(word), np.empty_like(rows)
        _native.gather(word.view(np.uint64), rows, keys.view(np.uint64))
        _native.argsort(keys, False, places)
        before = rows.copy()
        _native.gather(before, places, rows)


def ordered_rows(frame: pl.DataFrame, order: Sequence[tuple[str, bool, bool]]) -> Rows:
    """The numbers of a frame's rows in the order of some columns, each with whether it is descending and whether nulls come last.

    Rows that are equal in all of them keep their order.
    """
    names, descending, nulls_last = zip(*order, strict=True)
    number = hidden_name("order")
    sort = RowSort(names, descending, nulls_last, (number,), number)
    return sort(frame.select(names)).get_column(number).to_numpy()


def rows_in_order(frame: pl.DataFrame, names: tuple[str, ...]) -> tuple[Rows, np.ndarray[Any, np.dtype[np.bool_]]]:
    """Sort the rows of a frame by some columns.

    Parameters
    ----------
    frame
        The rows: fewer than 2**32 - 1, in columns of one chunk.
    names
        Columns for which :func:`can_sort` is true.

    Returns
    -------
    tuple of arrays
        The row numbers in order, those of equal keys as before; and whether the keys are others than those of the row before.
    """
    upwards = (False,) * len(names)
    words = _words(frame, RowSort(names, upwards, upwards, ()))
    rows = np.empty(frame.height, dtype=np.uint32)
    _argsort(words, rows)
    begins = np.zeros(frame.height, dtype=bool)
    begins[:1] = True
    for word in words:
        keys = np.empty_like(word)
        _native.gather(word.view(np.uint64), rows, keys.view(np.uint64))
        begins[1:] |= keys[1:] != keys[:-1]
    return rows, begins


def _numbers(column: pl.Series) -> Keys:
    """A column's values as integers in the same order; nulls become an arbitrary value of the column's range."""
    if column.dtype == pl.Float64:
        return _float_numbers(column)
    if column.dtype == pl.UInt64:
        return column.fill_null(0).to_numpy().view(np.int64) ^ np.int64(-(2**63))
    whole = column.to_physical().cast(pl.Int64)
    if whole.null_count():
        least: Any = whole.min()
        whole = whole.fill_null(least or 0)
    return whole.to_numpy()


def _float_numbers(column: pl.Series) -> Keys:
    values = column.fill_null(0.0).to_numpy() + 0.0  # -0.0 becomes 0.0
    bits = values.view(np.int64)
    bits[np.isnan(values)] = np.float64(np.nan).view(np.int64)  # all NaNs get the same bits, above all numbers
    return bits ^ ((bits >> 63) & np.int64(2**63 - 1))


@dataclass(frozen=True)
class OrderedJoin:
    """A join that preserves the order of the left rows, and among matches that of the right rows.

    Use :func:`ordered_join`: it returns one object for equal joins, which the kernel recognises and runs once.

    Parameters
    ----------
    left, right
        The columns of each side in the result.
    left_keys, right_keys
        The key columns. A pair has one dtype, stored as whole numbers.
    keep
        Whether left rows without a match are kept.
    nulls_equal
        Whether null keys match null keys.
    """

    left: tuple[str, ...]
    right: tuple[str, ...]
    left_keys: tuple[str, ...]
    right_keys: tuple[str, ...]
    keep: bool
    nulls_equal: bool

    def lowered(self, left: pl.LazyFrame, right: pl.LazyFrame) -> pl.LazyFrame:
        """The join of two LazyFrames, which are passed to one batch function as a row of lists."""
        sides = [
            left.select(*dict.fromkeys((*self.left, *self.left_keys))),
            right.select(*dict.fromkeys((*self.right, *self.right_keys))),
        ]
        schemas = [side.collect_schema() for side in sides]
        schema = {
            name: kinds[name] for kinds, names in zip(schemas, (self.left, self.right), strict=True) for name in names
        }
        beside = pl.concat([side.select(pl.all().implode()) for side in sides], how="horizontal")
        return beside.map_batches(self, schema=schema)

    def __call__(self, beside: pl.DataFrame) -> pl.DataFrame:
        """Join two frames, given as one row of lists."""
        left = pl.DataFrame({name: beside.get_column(name)[0] for name in (*self.left, *self.left_keys)})
        right = pl.DataFrame({name: beside.get_column(name)[0] for name in (*self.right, *self.right_keys)})
        pairs = [
            (left.get_column(ours), right.get_column(theirs))
            for ours, theirs in zip(self.left_keys, self.right_keys, strict=True)
        ]
        found = matching_rows(pairs, self.keep)
        if found is None:
            joined = left.join(
                right,
                left_on=self.left_keys,
                right_on=self.right_keys,
                how="left" if self.keep else "inner",
                nulls_equal=self.nulls_equal,
                coalesce=False,
                maintain_order="left_right",
            )
            return joined.select(*self.left, *self.right)
        left_rows, right_rows = found
        ours = left.select(self.left) if left_rows is None else gather_rows(left, self.left, left_rows)
        theirs = gather_rows(right, self.right, right_rows, missing=self.keep)
        return pl.DataFrame({column.name: column for column in (*ours.iter_columns(), *theirs.iter_columns())})


ordered_join = lru_cache(maxsize=256)(OrderedJoin)


def matching_rows(pairs: list[tuple[pl.Series, pl.Series]], keep: bool) -> tuple[Rows | None, Rows] | None:
    """The row numbers of both sides of a join, in the order of the left rows, and among matches in that of the right rows.

    Parameters
    ----------
    pairs
        The key columns of both sides. A pair has one dtype, stored as whole numbers.
    keep
        Whether left rows without a match are kept, with :data:`NO_ROW` as the right row.

    Returns
    -------
    tuple of (left rows, right rows), or None
        The left rows are None if they are each row once, in order. None in place of both if the keys of a row do not fit into one number,
        or if null keys must be compared, so that the kernel must join the rows.
    """
    if max(map(len, pairs[0])) >= NO_ROW or any(theirs.null_count() for _, theirs in pairs):
        return None
    if any(ours.null_count() for ours, _ in pairs):
        return _rows_without_null_keys(pairs, keep)
    keys = (_integers(pairs[0][0]), _integers(pairs[0][1])) if len(pairs) == 1 else _keys_of_pairs(pairs)
    if keys is None:
        return None
    found = _looked_up(*keys)
    if found is not None:
        present = found != NO_ROW
        if keep or present.all():
            return None, found
        return np.flatnonzero(present).astype(np.uint32), found[present]
    left_keys, right_keys = (key if key.dtype == np.int64 else key.astype(np.int64) for key in keys)
    matches = _native.JoinMap(right_keys).probe(left_keys, keep)
    rows, right_rows = np.empty(len(matches), np.uint32), np.empty(len(matches), np.uint32)
    matches.write(rows, right_rows)
    in_order = len(rows) == len(left_keys) and (keep or _is_each_row_once(rows))
    return None if in_order else rows, right_rows


def _rows_without_null_keys(pairs: list[tuple[pl.Series, pl.Series]], keep: bool) -> tuple[Rows | None, Rows] | None:
    """:func:`matching_rows` if only left keys are null: a row with such a key has no match, whether or not nulls equal nulls."""
    present = ~np.any([ours.is_null().to_numpy() for ours, _ in pairs], axis=0)
    chosen = np.flatnonzero(present).astype(np.uint32)
    rows = pl.Series(chosen)
    found = matching_rows([(ours.gather(rows), theirs) for ours, theirs in pairs], keep)
    if found is None:
        return None
    ours, theirs = found
    if not keep:
        return chosen if ours is None else chosen[ours], theirs
    if ours is not None:
        return None  # rows have several matches, between which those without a match would have to be put
    every = np.full(len(present), NO_ROW, np.uint32)
    every[chosen] = theirs
    return None, every


#: Keys are looked up in a table of their range if that is at most this many times as large as both sides.
_SPARSE = 4
#: The keys of one step of a lookup, so that its intermediate numbers stay in the processor's cache.
_AT_ONCE = 1 << 15


def _looked_up(left: Integers, right: Integers) -> Rows | None:
    """For each left key the row of the equal right key, or :data:`NO_ROW`. None if right keys repeat, or lie far apart."""
    if not len(right):
        return np.full(len(left), NO_ROW, np.uint32)
    least = int(right.min())
    count = int(right.max()) - least + 1
    if count > min(_SPARSE * (len(left) + len(right)), NO_ROW - 2):
        return None
    rows = np.arange(len(right), dtype=np.uint32)
    places = np.subtract(right, least, dtype=np.int64) + 1
    table = np.full(count + 2, NO_ROW, np.uint32)  # the first is for lesser keys, the last for greater ones
    table[places] = rows
    if not np.array_equal(table[places], rows):
        return None
    found = np.empty(len(left), np.uint32)
    numbers = np.empty(min(len(left), _AT_ONCE), np.int64)
    for start in range(0, len(left), _AT_ONCE):
        part = found[start : start + _AT_ONCE]
        # A difference that overflows is clipped to a wrong end, but it is of no right key in either case.
        np.subtract(left[start : start + _AT_ONCE], least, out=numbers[: len(part)], dtype=np.int64)
        numbers += 1
        np.take(table, numbers[: len(part)], out=part, mode="clip")
    return found


def _is_each_row_once(rows: Rows) -> bool:
    """Whether ascending row numbers are 0, 1, 2, and so on."""
    return not len(rows) or (rows[0] == 0 and rows[-1] == len(rows) - 1 and bool((np.diff(rows) == 1).all()))


def _keys_of_pairs(pairs: list[tuple[pl.Series, pl.Series]]) -> tuple[Keys, Keys] | None:
    """One number for the keys of each row, for both sides; None if the keys of a row do not fit into one. No key is null."""
    (left, right), *others = [(_keys(ours), _keys(theirs)) for ours, theirs in pairs]
    if not len(left) or not len(right):
        return left, right
    values = 1
    numbers = [np.zeros(len(left), np.int64), np.zeros(len(right), np.int64)]
    for both in ((left, right), *others):
        least = min(int(keys.min()) for keys in both)
        count = max(int(keys.max()) for keys in both) - least + 1
        values *= count
        if values >= 2**63:
            return None
        for packed, keys in zip(numbers, both, strict=True):
            packed *= count
            packed += keys
            packed -= least
    return numbers[0], numbers[1]


def _integers(column: pl.Series) -> Integers:
    """The values of a column of whole numbers without nulls, in its own width."""
    physical = column.to_physical()
    return np.ascontiguousarray((physical if physical.dtype.is_integer() else physical.cast(pl.Int64)).to_numpy())


def _keys(column: pl.Series) -> Keys:
    return np.ascontiguousarray(column.to_physical().cast(pl.Int64).to_numpy())


def gather_rows(frame: pl.DataFrame, names: tuple[str, ...], rows: Rows, *, missing: bool = False) -> pl.DataFrame:
    """Gather columns by row numbers; with ``missing``, some may be :data:`NO_ROW`, which gives nulls."""
    if missing and not (rows == NO_ROW).any():
        missing = False
    numbers = pl.Series(rows)
    return pl.DataFrame({name: _gathered(frame.get_column(name), rows, numbers, missing) for name in names})


def gathered(column: pl.Series, rows: Rows) -> pl.Series:
    """The values of a column by row numbers, of which some may be :data:`NO_ROW`, which gives null."""
    return _gathered(column, rows, pl.Series(rows), bool((rows == NO_ROW).any()))


def _gathered(column: pl.Series, rows: Rows, numbers: pl.Series, missing: bool) -> pl.Series:
    dtype = column.dtype
    plain = dtype.is_integer() or dtype.is_float() or dtype.is_temporal()
    if missing or column.null_count() or not plain or dtype in (pl.Int128, pl.UInt128):
        return column.to_frame().select(pl.all().gather(numbers, null_on_oob=missing)).to_series()
    values = column.to_physical().to_numpy()
    out = np.empty(len(rows), dtype=values.dtype)
    words = np.dtype(f"u{values.itemsize}")
    _native.gather(values.view(words), rows, out.view(words))
    return pl.Series(column.name, out).cast(dtype)
