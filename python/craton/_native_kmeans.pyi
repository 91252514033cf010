"""Types of the passes of k-means in ``craton._native``.

Points are given as a sequence of columns: arrays of one dimension of 64-bit or 32-bit floats, of equal lengths, with any strides.
Centres are given as rows. Each function uses all threads and releases the interpreter lock; its arrays must not be written to until it
returns. Results depend neither on the number of threads nor on the processor.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

def kmeans_assign(
    columns: Sequence[NDArray[Any]],
    weights: NDArray[np.float64] | None,
    centers: NDArray[np.float64],
    labels: NDArray[np.int32],
    distances: NDArray[np.float64] | None,
    update: bool,
    /,
) -> tuple[bytes, bytes, float, int]:
    """Label each point by its nearest centre; of centres at equal distance, by the first one.

    Parameters
    ----------
    columns
        The points.
    weights
        The weight of each point; 1 by default.
    centers
        The centres, one row each.
    labels
        The labels of an earlier pass, or negative numbers; receives the new ones.
    distances
        Receives the squared distance of each point from its nearest centre.
    update
        Whether the sums and weights of clusters are computed.

    Returns
    -------
    sums, weights : bytes
        64-bit floats: the weighted sum of the points of each cluster, and the weight of each cluster; empty without `update`.
    inertia : float
        The weighted sum of the squared distances.
    changed : int
        How many labels changed.

    Raises
    ------
    ValueError
        If there are no points or centres, or the lengths do not fit together.
    """

def kmeans_distances(
    columns: Sequence[NDArray[Any]], centers: NDArray[np.float64], out: NDArray[np.float64], /
) -> None:
    """Write the squared distance of each point from each centre: one row for each point.

    Raises
    ------
    ValueError
        As for :func:`kmeans_assign`.
    """

def kmeans_potentials(
    columns: Sequence[NDArray[Any]],
    weights: NDArray[np.float64] | None,
    chosen: NDArray[np.float64],
    candidates: NDArray[np.float64],
    closest: NDArray[np.float64],
    /,
) -> list[float]:
    """Do a step of k-means++: take the centre chosen last into account, and try candidates for the next one.

    Parameters
    ----------
    columns, weights
        As for :func:`kmeans_assign`.
    chosen
        The centre that was chosen last.
    candidates
        The candidates for the next centre, one row each; there may be none.
    closest
        The squared distance of each point from the nearest of the centres before `chosen`; is lowered to the distance from `chosen`.

    Returns
    -------
    list of float
        The weighted sum of `closest`; then, for each candidate, what it would be with the candidate.

    Raises
    ------
    ValueError
        As for :func:`kmeans_assign`.
    """

def kmeans_summary(columns: Sequence[NDArray[Any]], /) -> tuple[list[float], list[float]]:
    """The sum of each column, and the sum of the squared deviations from its mean.

    Raises
    ------
    ValueError
        As for :func:`kmeans_assign`.
    """
