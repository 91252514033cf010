"""Several group keys packed into one integer, so that the kernel groups and sorts by one number.

The kernel encodes several keys of a row as one text of bytes. Integers of small ranges and few distinct texts fit into 62 bits
together, and many groups of that number take half the time; few groups take longer. The ranges are those of the columns in memory
that the keys come from, so they are known before the run; rows that are filtered on the way only leave some numbers unused.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from dataclasses import dataclass

import polars as pl

from craton.lower.ordering import is_whole_number
from craton.plan.expr import Column, Expr
from craton.plan.functions.ranks import FEW_TEXTS, distinct_texts
from craton.plan.operators import Aggregate, JoinHow
from craton.plan.origin import origin
from craton.plan.sources import MemorySource

#: Keys are packed if their columns have at least this many rows: the ranges of fewer are not worth finding.
FEWEST_ROWS = 20_000
#: Keys are packed if there may be more groups than this; packing the keys of fewer takes longer than it saves.
MOST_GROUPS = 1 << 16
#: Texts are packed if at most this many are distinct.
MOST_TEXTS = 1 << 16

#: The number of texts that are sampled to see whether too many are distinct, and the greatest share that may be.
_SAMPLED, _MOST_OF_SAMPLE = 10_000, 0.93

_BITS = 62
_MOST_KNOWN = 64
#: How the columns that were used last are written as numbers, by the source's token and the column's name.
_known: OrderedDict[tuple[int, str], Digits | None] = OrderedDict()
_KEEPING_VALUES: tuple[JoinHow, ...] = ("inner", "left", "semi", "anti")


@dataclass(frozen=True)
class Digits:
    """How one key is written as a number from 0 to ``count``; ``count`` itself stands for null, which therefore sorts last.

    Parameters
    ----------
    dtype
        The dtype of the key.
    count
        The number of its possible values.
    least
        The smallest value of an integer key.
    texts
        The distinct values of a text key, sorted.
    nulls
        Whether a key may be null.
    """

    dtype: pl.DataType
    count: int
    least: int = 0
    texts: pl.Series | None = None
    nulls: bool = True

    @property
    def bits(self) -> int:
        """The number of bits of the greatest number."""
        return self.count.bit_length()

    def pack(self, key: pl.Expr) -> pl.Expr:
        """The number of a key."""
        if self.texts is not None:
            number = key.cast(pl.Enum(self.texts)).to_physical().cast(pl.Int64)
        else:
            number = key.to_physical().cast(pl.Int64)
            number = number - self.least if self.least else number
        return number.fill_null(self.count) if self.nulls else number

    def unpack(self, number: pl.Expr) -> pl.Expr:
        """The key of a number."""
        if self.texts is not None:
            numbers = pl.Series(range(self.count), dtype=pl.Int64)
            return number.replace_strict(numbers, self.texts, default=None, return_dtype=self.dtype)
        value = number + self.least if self.least else number
        value = pl.when(number != self.count).then(value) if self.nulls else value
        return (
            value.cast(pl.Boolean) if self.dtype == pl.Boolean else value.cast(_physical(self.dtype)).cast(self.dtype)
        )


@dataclass(frozen=True)
class PackedKeys:
    """The keys of a group-by as one integer; the first key has the highest bits, so that numbers sort as the keys do."""

    digits: tuple[Digits, ...]

    def pack(self, keys: list[pl.Expr]) -> pl.Expr:
        """The packed key of a row."""
        packed, *others = (digits.pack(key) for digits, key in zip(self.digits, keys, strict=True))
        for digits, number in zip(self.digits[1:], others, strict=True):
            packed = packed * (1 << digits.bits) + number
        return packed

    def unpack(self, packed: pl.Expr) -> list[pl.Expr]:
        """The keys of a packed key."""
        keys = []
        for digits in reversed(self.digits):
            keys.append(digits.unpack(packed % (1 << digits.bits)))
            packed = packed // (1 << digits.bits)
        return keys[::-1]


def packed_keys(op: Aggregate) -> PackedKeys | None:
    """How to pack the keys of a group-by.

    None if there is one key only, if a key's range is unknown or too large, or if there can only be few groups.
    """
    if len(op.keys) < 2:
        return None
    digits = []
    room = _BITS
    for _, key in op.keys:
        found = _digits(op, key)
        if found is None or found.bits > room:
            return None
        room -= found.bits
        digits.append(found)
    most = math.prod(found.count + found.nulls for found in digits)
    return PackedKeys(tuple(digits)) if most > MOST_GROUPS else None


def _digits(op: Aggregate, key: Expr) -> Digits | None:
    if not isinstance(key, Column) or not (is_whole_number(key.dtype) or key.dtype == pl.String):
        return None
    place = origin(op.input, key.name, joins=_KEEPING_VALUES)
    if place is None or not isinstance(place[0].source, MemorySource) or place[0].row_number == place[1]:
        return None
    source, name = place[0].source, place[1]
    if source.rows < FEWEST_ROWS:
        return None
    if (source.token, name) in _known:
        return _known[source.token, name]
    found = _known[source.token, name] = _digits_of(source.get_column(name))
    if len(_known) > _MOST_KNOWN:
        _known.popitem(last=False)
    return found


def _digits_of(column: pl.Series) -> Digits | None:
    """How the values of a column are written as numbers."""
    if column.dtype == pl.String:
        sample = column.gather_every(max(1, len(column) // _SAMPLED))
        if len(sample) >= _SAMPLED and sample.n_unique() > _MOST_OF_SAMPLE * len(sample):
            return None  # so probably too many of all rows are distinct
        texts = distinct_texts(column)
        if len(texts) > min(FEW_TEXTS * len(column), MOST_TEXTS):
            return None
        return Digits(column.dtype, len(texts), texts=texts, nulls=column.null_count() > 0)
    whole = column.to_physical()
    least, most = whole.min(), whole.max()
    if least is None:
        return Digits(column.dtype, 0)
    count = int(most) - int(least) + 1  # type: ignore[arg-type]
    return Digits(column.dtype, count, int(least), nulls=column.null_count() > 0)  # type: ignore[arg-type]


def _physical(dtype: pl.DataType) -> pl.DataType:
    return pl.Series([], dtype=dtype).to_physical().dtype
