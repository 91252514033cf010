"""Sorting and joining whole frames in the order of their rows, by row numbers of the native module.

The kernel's joins give their rows in any order, and restoring it takes a second sort. Where the key is a number, a join
map that is probed in order takes half the time of both together, and a radix sort of keys packed into 64 bits half of the
kernel's sort (5 million rows, two cores). What needs more bits is sorted by one number after another, the last first; what
is no number is left to the kernel.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import polars as pl

from craton import _native

Keys = np.ndarray[Any, np.dtype[np.int64]]
Rows = np.ndarray[Any, np.dtype[np.uint32]]

#: Stands for no row in a left join's row numbers.
NO_ROW = 2**32 - 1

#: Fewer rows than this are left to the kernel: starting takes longer than sorting them.
FEWEST_ROWS = 4096

_WORD = 63
_UNPACKED = (pl.UInt64, pl.Int128, pl.UInt128)


def is_whole_number(dtype: pl.DataType) -> bool:
    """Whether values of a type are held as whole numbers of at most 64 bits, of which each is one value."""
    return (dtype.is_integer() and dtype not in _UNPACKED) or dtype.is_temporal() or dtype == pl.Boolean


def is_number(dtype: pl.DataType) -> bool:
    """Whether a :class:`RowSort` may have a faster way for a column of this type."""
    return is_whole_number(dtype) or dtype in (pl.Float64, pl.UInt64)


@dataclass(frozen=True)
class RowSort:
    """A stable sort. :func:`row_sort` makes it, so that equal sorts are one object, which the kernel runs once.

    Parameters
    ----------
    names, descending, nulls_last
        The columns to sort by.
    kept
        The columns that are wanted.
    numbered
        A column to be made of the rows' numbers before the sort.
    """

    names: tuple[str, ...]
    descending: tuple[bool, ...]
    nulls_last: tuple[bool, ...]
    kept: tuple[str, ...]
    numbered: str | None = None

    def lowered(self, frame: pl.LazyFrame) -> pl.LazyFrame:
        """The sorted rows of a frame."""
        schema = frame.collect_schema()
        return frame.map_batches(self, schema={name: schema.get(name, pl.UInt32()) for name in self.kept})

    def __call__(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Sort a frame."""
        frame = frame.rechunk()
        words = _words(frame, self) if FEWEST_ROWS <= frame.height < 2**32 - 1 else None
        if words is None:
            numbered = frame if self.numbered is None else frame.with_row_index(self.numbered)
            return numbered.sort(
                self.names,
                descending=list(self.descending),
                nulls_last=list(self.nulls_last),
                maintain_order=True,
            ).select(self.kept)
        rows = np.empty(frame.height, dtype=np.uint32)
        made: dict[str, Any] = {} if self.numbered is None else {self.numbered: rows}
        key = self.names[0]
        if key in self.kept and self._is_sorted_by_values_of(frame.get_column(key)):
            ordered = np.empty(frame.height, dtype=np.int64)
            _native.argsort(words[0], False, rows, ordered)
            made[key] = ordered
        else:
            _argsort(words, rows)
        gathered = _gather(frame, tuple(name for name in self.kept if name not in made), rows)
        columns = [pl.Series(name, values).cast(frame.schema.get(name, pl.UInt32)) for name, values in made.items()]
        # By name, as a column may be called "", which the kernel would rename; and of the others there may be none.
        return pl.DataFrame({column.name: column for column in (*gathered.iter_columns(), *columns)}).select(self.kept)

    def _is_sorted_by_values_of(self, key: pl.Series) -> bool:
        """Whether what is sorted are the values of one column, as :func:`_words` hands them on."""
        plain = is_whole_number(key.dtype) and key.null_count() == 0
        return plain and len(self.names) == 1 and not self.descending[0]


row_sort = lru_cache(maxsize=256)(RowSort)


def _words(frame: pl.DataFrame, order: RowSort) -> list[Keys] | None:
    """The columns to sort by as whole numbers, the most significant first, some of them together in one; if they are numbers."""
    words: list[Keys] = []
    room = 0
    for name, descending, nulls_last in zip(order.names, order.descending, order.nulls_last, strict=True):
        column = frame.get_column(name)
        if not is_number(column.dtype):
            return None
        numbers = _numbers(column)
        missing = column.is_null().to_numpy() if column.null_count() else None
        if len(order.names) == 1 and not descending and missing is None:
            return [numbers]
        least, most = (int(numbers.min()), int(numbers.max())) if len(numbers) else (0, 0)
        width = (most - least + 1).bit_length()
        if width <= _WORD:
            # Counted from 1, so that 0 or the greatest number is left for missing values.
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
    """Put digits of some width into the last word if it has room for them, else into a new one; return the room there is then."""
    if width > room:
        words.append(digits)
        return _WORD - width
    words[-1] = (words[-1] << width) | digits
    return room - width


def _argsort(words: list[Keys], rows: Rows) -> None:
    """Write the row numbers of rows that are sorted by words: by the last, and stably by the one before, and so on."""
    _native.argsort(words[-1], False, rows)
    for word in reversed(words[:-1]):
        keys, places = np.empty_like(word), np.empty_like(rows)
        _native.gather(word.view(np.uint64), rows, keys.view(np.uint64))
        _native.argsort(keys, False, places)
        before = rows.copy()
        _native.gather(before, places, rows)


def _numbers(column: pl.Series) -> Keys:
    """A column's values as whole numbers in the same order; where they are missing, some number among the others."""
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
    values = column.fill_null(0.0).to_numpy() + 0.0  # one zero
    bits = values.view(np.int64)
    bits[np.isnan(values)] = np.float64(np.nan).view(np.int64)  # one NaN, above all numbers
    return bits ^ ((bits >> 63) & np.int64(2**63 - 1))


@dataclass(frozen=True)
class OrderedJoin:
    """A join on one key that gives its rows in order: of the left ones, each with its matches in their order.

    :func:`ordered_join` makes it, so that equal joins are one object, which the kernel runs once.

    Parameters
    ----------
    left, right
        The columns of each side that are wanted.
    left_key, right_key
        Columns with the keys, whole numbers of one type.
    keep
        Whether left rows without a match are kept.
    nulls_equal
        Whether null keys match null keys.
    """

    left: tuple[str, ...]
    right: tuple[str, ...]
    left_key: str
    right_key: str
    keep: bool
    nulls_equal: bool

    def lowered(self, left: pl.LazyFrame, right: pl.LazyFrame) -> pl.LazyFrame:
        """The join of two frames, which are brought together as lists, a row each."""
        sides = [
            left.select(*dict.fromkeys((*self.left, self.left_key))),
            right.select(*dict.fromkeys((*self.right, self.right_key))),
        ]
        schemas = [side.collect_schema() for side in sides]
        schema = {
            name: kinds[name] for kinds, names in zip(schemas, (self.left, self.right), strict=True) for name in names
        }
        beside = pl.concat([side.select(pl.all().implode()) for side in sides], how="horizontal")
        return beside.map_batches(self, schema=schema)

    def __call__(self, beside: pl.DataFrame) -> pl.DataFrame:
        """Join two frames, given as one row of lists."""
        left = pl.DataFrame({name: beside.get_column(name)[0] for name in (*self.left, self.left_key)})
        right = pl.DataFrame({name: beside.get_column(name)[0] for name in (*self.right, self.right_key)})
        left_keys, right_keys = left.get_column(self.left_key), right.get_column(self.right_key)
        if left_keys.null_count() or right_keys.null_count() or max(left.height, right.height) >= 2**32 - 1:
            joined = left.join(
                right,
                left_on=self.left_key,
                right_on=self.right_key,
                how="left" if self.keep else "inner",
                nulls_equal=self.nulls_equal,
                coalesce=False,
                maintain_order="left_right",
            )
            return joined.select(*self.left, *self.right)
        matches = _native.JoinMap(_keys(right_keys)).probe(_keys(left_keys), self.keep)
        left_rows, right_rows = np.empty(len(matches), np.uint32), np.empty(len(matches), np.uint32)
        matches.write(left_rows, right_rows)
        ours = _gather(left, self.left, left_rows)
        theirs = _gather(right, self.right, right_rows, missing=self.keep)
        return pl.DataFrame({column.name: column for column in (*ours.iter_columns(), *theirs.iter_columns())})


ordered_join = lru_cache(maxsize=256)(OrderedJoin)


def _keys(column: pl.Series) -> Keys:
    return np.ascontiguousarray(column.to_physical().cast(pl.Int64).to_numpy())


def _gather(frame: pl.DataFrame, names: tuple[str, ...], rows: Rows, *, missing: bool = False) -> pl.DataFrame:
    """Columns by row numbers; ``missing`` if there may be row numbers that stand for none."""
    if missing and not (rows == NO_ROW).any():
        missing = False
    numbers = pl.Series(rows)
    return pl.DataFrame({name: _gathered(frame.get_column(name), rows, numbers, missing) for name in names})


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
