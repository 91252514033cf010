"""Lloyd's algorithm over points in blocks.

An iteration reads all blocks once, in the order of their rows: each point is labelled by its nearest centre, and the points of a
cluster are added up. Sums are combined in the order of rows, so that neither threads nor paging change a bit of the result.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from craton import _native
from craton.ml.points import Points
from craton.ml.seeding import take

__all__ = ["Clustering", "assign", "lloyd", "same_clustering"]


@dataclass(frozen=True, slots=True)
class Clustering:
    """The result of one run.

    Parameters
    ----------
    centers
        The centres, one row each.
    labels
        The nearest centre of each point.
    inertia
        The weighted sum of the squared distances of the points from their nearest centres.
    iterations
        The number of iterations.
    """

    centers: NDArray[np.float64]
    labels: NDArray[np.int32]
    inertia: float
    iterations: int


@dataclass(slots=True)
class Sums:
    """What a pass over all points found: the sum and weight of each cluster, the inertia, and the number of labels that changed."""

    sums: NDArray[np.float64]
    weights: NDArray[np.float64]
    inertia: float = 0.0
    changed: int = 0


def assign(
    points: Points,
    weights: NDArray[np.float64] | None,
    centers: NDArray[np.float64],
    labels: NDArray[np.int32],
    *,
    update: bool = False,
) -> Sums:
    """Label all points, and add up the points of each cluster if `update` is set."""
    found = Sums(np.zeros(centers.shape), np.zeros(len(centers)))
    for block in points.blocks():
        sums, weight, inertia, changed = _native.kmeans_assign(
            block.columns, block.of(weights), centers, labels[block.span], None, update
        )
        if update:
            found.sums += np.frombuffer(sums).reshape(centers.shape)
            found.weights += np.frombuffer(weight)
        found.inertia += inertia
        found.changed += changed
    return found


def lloyd(
    points: Points,
    weights: NDArray[np.float64] | None,
    centers: NDArray[np.float64],
    *,
    max_iter: int,
    tol: float,
    verbose: bool = False,
) -> Clustering:
    """Run Lloyd's algorithm until no label changes, or the centres move by at most a tolerance.

    Parameters
    ----------
    points, weights
        The points, and their weights if they have any.
    centers
        The initial centres.
    max_iter
        The largest number of iterations.
    tol
        The tolerance: the sum of the squared distances that the centres move by.
    verbose
        Whether the inertia of each iteration is printed.
    """
    labels = np.full(points.rows, -1, np.int32)
    strict, iteration = False, 0
    for iteration in range(max_iter):
        found = assign(points, weights, centers, labels, update=True)
        before, centers = centers, _means(points, weights, centers, labels, found)
        if verbose:
            print(f"Iteration {iteration}, inertia {found.inertia}.")
        if found.changed == 0:
            if verbose:
                print(f"Converged at iteration {iteration}: strict convergence.")
            strict = True
            break
        shift = float(((centers - before) ** 2).sum())
        if shift <= tol:
            if verbose:
                print(f"Converged at iteration {iteration}: center shift {shift} within tolerance {tol}.")
            break
    if not strict or not np.array_equal(centers, before):
        found = assign(points, weights, centers, labels)  # the labels of these centres
    return Clustering(centers, labels, found.inertia, iteration + 1)


def _means(
    points: Points,
    weights: NDArray[np.float64] | None,
    centers: NDArray[np.float64],
    labels: NDArray[np.int32],
    found: Sums,
) -> NDArray[np.float64]:
    """The means of the clusters. A cluster without points is moved to a point that is far from its centre, as scikit-learn does."""
    if not found.weights.all():
        _relocate(points, weights, centers, labels, found)
    some = found.weights > 0
    means = np.empty_like(centers)
    means[some] = found.sums[some] / found.weights[some, None]
    means[~some] = means[int(np.argmax(found.weights))]
    return means


def _relocate(
    points: Points,
    weights: NDArray[np.float64] | None,
    centers: NDArray[np.float64],
    labels: NDArray[np.int32],
    found: Sums,
) -> None:
    """Give each cluster without weight one of the points that are farthest from their centres."""
    empty = np.flatnonzero(found.weights == 0).tolist()
    far = _farthest(points, centers, labels, len(empty))
    if not far or far[0][0] == 0:  # there are fewer different points than clusters
        return
    rows = [row for _, row in far]
    for cluster, row, point in zip(empty, rows, take(points, rows), strict=False):
        weight = 1.0 if weights is None else float(weights[row])
        old = labels[row]
        found.sums[old] -= point * weight
        found.sums[cluster] = point * weight
        found.weights[cluster] = weight
        found.weights[old] -= weight


def _farthest(
    points: Points, centers: NDArray[np.float64], labels: NDArray[np.int32], count: int
) -> list[tuple[float, int]]:
    """The points that are farthest from their nearest centres: their squared distances and numbers, the farthest first."""
    found: list[tuple[float, int]] = []
    for block in points.blocks():
        apart = np.empty(len(block.columns[0]))
        _native.kmeans_assign(block.columns, None, centers, labels[block.span], apart, False)
        some = min(count, len(apart))
        rows = np.argpartition(-apart, some - 1)[:some]
        found = heapq.nsmallest(count, [*found, *((-float(apart[row]), block.start + int(row)) for row in rows)])
    return [(-apart, row) for apart, row in found]


def same_clustering(one: NDArray[np.int32], other: NDArray[np.int32], clusters: int) -> bool:
    """Whether two labellings are equal up to the numbers of the clusters."""
    numbers = np.full(clusters, -1, np.int32)
    firsts = np.unique(one, return_index=True)
    numbers[firsts[0]] = other[firsts[1]]
    return bool(np.array_equal(numbers[one], other))
