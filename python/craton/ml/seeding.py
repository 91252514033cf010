"""Initial centres of k-means: k-means++ and random points.

Random numbers are drawn in the order in which scikit-learn draws them, so the same seed chooses the same points there, up to rounding.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from craton import _native
from craton.ml.points import Block, Points, block_rows

__all__ = ["plus_plus", "random_points", "take"]


def plus_plus(
    points: Points, weights: NDArray[np.float64] | None, clusters: int, random: np.random.RandomState
) -> NDArray[np.float64]:
    """Choose centres by k-means++: the next one is the best of a few candidates, which are drawn by their squared distances.

    The points are read once for each centre. The distances from the nearest centre take 8 bytes for each point.

    References
    ----------
    Arthur and Vassilvitskii: k-means++, the advantages of careful seeding. SODA 2007.
    """
    seeding = _Seeding(points, weights)
    tries = 2 + int(math.log(clusters))
    centers = np.empty((clusters, points.dimensions))
    if weights is None:
        first = min(int(random.random_sample() * points.rows), points.rows - 1)
    else:
        first = int(random.choice(points.rows, p=weights / weights.sum()))
    centers[0] = take(points, [first])[0]
    potentials = seeding.scan(centers[0], np.empty((0, points.dimensions)))[:, 0]
    for number in range(1, clusters):
        last = centers[number - 1]
        drawn = random.uniform(size=tries) * potentials.sum()
        candidates = take(points, [seeding.draw(value, potentials, last) for value in drawn])
        lowered = seeding.scan(last, candidates)[:, 1:]
        best = int(np.argmin(lowered.sum(axis=0)))
        centers[number], potentials = candidates[best], lowered[:, best]
    return centers


class _Seeding:
    """The squared distance of each point from the nearest centre but the last one, which the next scan takes into account."""

    def __init__(self, points: Points, weights: NDArray[np.float64] | None) -> None:
        self._points, self._weights = points, weights
        self._closest = np.full(points.rows, np.inf)

    def _potentials(self, block: Block, last: NDArray[np.float64], candidates: NDArray[np.float64]) -> list[float]:
        closest = self._closest[block.span]
        return _native.kmeans_potentials(block.columns, block.of(self._weights), last, candidates, closest)

    def scan(self, last: NDArray[np.float64], candidates: NDArray[np.float64]) -> NDArray[np.float64]:
        """The potential of each block, with the last centre and then with each candidate beside it."""
        return np.array([self._potentials(block, last, candidates) for block in self._points.blocks()])

    def draw(self, value: float, potentials: NDArray[np.float64], last: NDArray[np.float64]) -> int:
        """The first point up to which the squared distances sum up to a value."""
        ends = potentials.cumsum()
        number = min(int(np.searchsorted(ends, value)), len(ends) - 1)
        block = self._points.block(number)
        self._potentials(block, last, np.empty((0, self._points.dimensions)))
        closest, weights = self._closest[block.span], block.of(self._weights)
        sums = np.cumsum(closest if weights is None else closest * weights)
        place = int(np.searchsorted(sums, value - (ends[number - 1] if number else 0.0)))
        return block.start + min(place, len(sums) - 1)


def random_points(
    points: Points, weights: NDArray[np.float64] | None, clusters: int, random: np.random.RandomState
) -> NDArray[np.float64]:
    """Choose different points at random, by their weights."""
    if weights is not None:
        return take(points, random.choice(points.rows, clusters, replace=False, p=weights / weights.sum()).tolist())
    found: list[int] = []
    while len(found) < clusters:
        taken = sorted(found)  # rows that can no longer be drawn in this round
        for value in random.random_sample(clusters - len(found)):
            row = min(int(value * (points.rows - len(taken))), points.rows - len(taken) - 1)
            for other in taken:
                row += other <= row
            if row not in found:
                found.append(row)
    return take(points, found)


def take(points: Points, rows: Sequence[int]) -> NDArray[np.float64]:
    """Points by their numbers. Each block that has one of them is read once."""
    found = np.empty((len(rows), points.dimensions))
    size = block_rows(points.dimensions)
    for number in sorted({row // size for row in rows}):
        block = points.block(number)
        for place, row in enumerate(rows):
            if row // size == number:
                found[place] = block.point(row - block.start)
    return found
