"""The points of k-means: columns in memory, or pages of a locality set, both in blocks of the same rows.

Sums over points are added block after block. Blocks have the same rows wherever the points are, so that results have the same bits.
Distances are sums of squared differences, so norms of points are not kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from craton import _native
from craton.ml.inputs import Columns, Features
from craton.store.process import default_store
from craton.store.sets import LocalitySet, table_of
from craton.store.store import Store

__all__ = ["Block", "Moments", "Points", "ResidentPoints", "StoredPoints", "block_rows", "open_points"]

_BLOCK_BYTES = 16 << 20
_MOST_ROWS = 1 << 18
_FEWEST_ROWS = 1 << 10


@dataclass(frozen=True, slots=True)
class Block:
    """Consecutive points.

    Parameters
    ----------
    start
        The number of points before them.
    columns
        Their columns.
    """

    start: int
    columns: Columns

    @property
    def span(self) -> slice:
        """Where their items are in an array with an item for each point."""
        return slice(self.start, self.start + len(self.columns[0]))

    def of(self, weights: NDArray[np.float64] | None) -> NDArray[np.float64] | None:
        """Their weights."""
        return None if weights is None else weights[self.span]

    def point(self, row: int) -> NDArray[np.float64]:
        """A point of the block."""
        return np.array([column[row] for column in self.columns], np.float64)


@dataclass(slots=True)
class Moments:
    """The number of points, the sum of each column, and the sum of its squared deviations from its mean."""

    rows: int = 0
    sums: NDArray[np.float64] | None = None
    squares: NDArray[np.float64] | None = None

    def add(self, columns: Columns, who: str) -> None:
        """Add a block of points.

        Raises
        ------
        ValueError
            If a number is infinite or NaN.
        """
        found = _native.kmeans_summary(columns)
        sums, squares, rows = np.array(found[0]), np.array(found[1]), len(columns[0])
        if not np.isfinite(sums).all():
            check_finite(columns, who)
        if self.sums is None or self.squares is None:
            self.rows, self.sums, self.squares = rows, sums, squares
            return
        apart = sums / rows - self.sums / self.rows
        self.squares = self.squares + (squares + apart * apart * (self.rows * rows / (self.rows + rows)))
        self.sums = self.sums + sums
        self.rows += rows

    def variance(self) -> float:
        """The mean of the columns' variances."""
        return 0.0 if self.squares is None else float(np.mean(self.squares / self.rows))


def check_finite(columns: Columns, who: str) -> None:
    """Raise ValueError if a number is infinite or NaN, in scikit-learn's words."""
    for column in columns:
        if np.isfinite(column).all():
            continue
        if np.isnan(column).any():
            raise ValueError(
                f"Input X contains NaN.\n{who} does not accept missing values encoded as NaN; fill or drop them first."
            )
        raise ValueError(f"Input X contains infinity or a value too large for dtype({str(column.dtype)!r}).")


class Points(Protocol):
    """Points that can be read any number of times, in blocks."""

    rows: int
    dimensions: int
    single: bool
    moments: Moments

    def blocks(self) -> Iterator[Block]:
        """The blocks, in the order of their rows."""

    def block(self, number: int) -> Block:
        """One of the blocks."""

    def reserved(self, nbytes: int) -> AbstractContextManager[Any]:
        """Keep memory free of points for arrays with that many bytes for each point."""

    def close(self) -> None:
        """Give up what the points take."""


def block_rows(dimensions: int) -> int:
    """The number of rows of every block but the last."""
    rows = _MOST_ROWS
    while rows > _FEWEST_ROWS and rows * dimensions * 8 > _BLOCK_BYTES:
        rows //= 2
    return rows


class ResidentPoints:
    """Points whose columns are in memory. They are read where they are."""

    def __init__(self, columns: Columns, who: str) -> None:
        self._columns = columns
        self.rows, self.dimensions = len(columns[0]), len(columns)
        self.single = all(column.dtype == np.float32 for column in columns)
        self._block_rows = block_rows(self.dimensions)
        self.moments = Moments()
        for block in self.blocks():
            self.moments.add(block.columns, who)

    def blocks(self) -> Iterator[Block]:
        """The blocks, in the order of their rows."""
        return (self.block(number) for number in range(-(-self.rows // self._block_rows)))

    def block(self, number: int) -> Block:
        """One of the blocks."""
        start = number * self._block_rows
        return Block(start, [column[start : start + self._block_rows] for column in self._columns])

    def reserved(self, nbytes: int) -> AbstractContextManager[Any]:
        """Nothing: points in memory give no memory back."""
        return nullcontext()

    def close(self) -> None:
        """Nothing: the columns belong to the caller."""


class StoredPoints:
    """Points in the pages of a locality set without a name. A page is a block.

    Pages are written back when paging evicts them; :meth:`close` drops them.
    """

    def __init__(self, features: Features, store: Store, who: str) -> None:
        self.rows, self.dimensions = 0, features.dimensions
        self._block_rows = block_rows(self.dimensions)
        self.single = True
        self.moments = Moments()
        self._store = store
        self._pages: LocalitySet = store.create_set()
        try:
            self._write(features, who)
        except BaseException:
            self.close()
            raise
        self._numbers = [page.number for page in self._pages.pages()]

    def _write(self, features: Features, who: str) -> None:
        names = [str(number) for number in range(self.dimensions)]
        buffer: NDArray[Any] | None = None
        filled = 0

        def append(buffer: NDArray[Any], rows: int) -> None:
            columns = list(buffer[:, :rows])
            self.moments.add(columns, who)
            self._pages.append(pa.RecordBatch.from_arrays([pa.array(column) for column in columns], names))
            self.rows += rows

        with closing(features.parts()) as parts:  # an error ends the plan that computes them
            for part in parts:
                if buffer is None:
                    self.single = all(column.dtype == np.float32 for column in part)
                    buffer = np.empty((self.dimensions, self._block_rows), np.float32 if self.single else np.float64)
                start = 0
                while start < len(part[0]):
                    rows = min(self._block_rows - filled, len(part[0]) - start)
                    for place, column in enumerate(part):
                        buffer[place, filled : filled + rows] = column[start : start + rows]
                    start, filled = start + rows, filled + rows
                    if filled == self._block_rows:
                        append(buffer, filled)
                        filled = 0
        if filled and buffer is not None:
            append(buffer, filled)

    def blocks(self) -> Iterator[Block]:
        """The blocks, in the order of their rows, with read-ahead."""
        with self._pages.reader() as reader:
            for number, page in enumerate(reader):
                yield self._block(number, page)

    def block(self, number: int) -> Block:
        """One of the blocks."""
        return self._block(number, self._pages.pin(self._numbers[number]))

    def _block(self, number: int, page: _native.Page) -> Block:
        table = table_of(page.batch())
        return Block(number * self._block_rows, [column.chunk(0).to_numpy() for column in table.columns])

    def reserved(self, nbytes: int) -> AbstractContextManager[Any]:
        """Reserve memory of the store for arrays with that many bytes for each point, at most half of its limit."""
        return self._store.reserve(min(nbytes * self.rows, self._store.limit // 2), at_least=0)  # type: ignore[no-any-return]

    def close(self) -> None:
        """Drop the pages."""
        self._pages.drop()


def open_points(features: Features, store: Store | None, who: str) -> ResidentPoints | StoredPoints:
    """The points of an estimator's input: columns in memory stay where they are, everything else is streamed into a store.

    Parameters
    ----------
    features
        The input.
    store
        The store of the points; by default the one that the input is in, or that of the process.
    who
        The name of the estimator, for messages.

    Raises
    ------
    ValueError
        If there are no rows, or a number is infinite or NaN.
    """
    if features.columns is not None:
        return ResidentPoints(features.columns, who)
    points = StoredPoints(features, store or features.store or default_store(), who)
    if points.rows == 0:
        points.close()
        raise ValueError(f"Found array with 0 sample(s) while a minimum of 1 is required by {who}.")
    return points
