"""k-means by small batches of points: less exact, and much less work for each improvement than a pass over all points."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from craton import _native
from craton.ml.estimator import check_random_state, check_weights
from craton.ml.inputs import Columns, open_features
from craton.ml.kmeans import Clusterer, at_least
from craton.ml.lloyd import Clustering, assign
from craton.ml.points import Points, ResidentPoints, open_points
from craton.ml.seeding import take
from craton.store.store import Store

__all__ = ["MiniBatchKMeans"]

Weights = NDArray[np.float64] | None


@dataclass(slots=True)
class State:
    """The centres, and the weight of the points that each is the mean of."""

    centers: NDArray[np.float64]
    counts: NDArray[np.float64]
    since_reassigned: int = 0

    def step(self, columns: Columns, weights: Weights, ratio: float, random: np.random.RandomState) -> float:
        """Move the centres by a batch, and return its inertia before that.

        Centres that have less than `ratio` times the weight of the heaviest one are now and then moved to points of the batch.

        References
        ----------
        Sculley: Web-scale k-means clustering. WWW 2010.
        """
        rows = len(columns[0])
        labels = np.full(rows, -1, np.int32)
        found = _native.kmeans_assign(columns, weights, self.centers, labels, None, True)
        sums, added = np.frombuffer(found[0]).reshape(self.centers.shape), np.frombuffer(found[1])
        some = added > 0
        moved = self.centers * self.counts[:, None] + sums
        self.counts = self.counts + added
        self.centers = np.where(some[:, None], moved / np.where(some, self.counts, 1.0)[:, None], self.centers)
        self.since_reassigned += rows
        if ratio > 0 and (not self.counts.all() or self.since_reassigned >= 10 * len(self.centers)):
            self.since_reassigned = 0
            self._reassign(columns, ratio, random)
        return found[2]

    def _reassign(self, columns: Columns, ratio: float, random: np.random.RandomState) -> None:
        rows = len(columns[0])
        light = self.counts < ratio * self.counts.max()
        if light.sum() > 0.5 * rows:
            light[np.argsort(self.counts)[int(0.5 * rows) :]] = False
        if light.any():
            chosen = random.choice(rows, replace=False, size=int(light.sum()))
            self.centers[light] = np.stack([column[chosen] for column in columns], axis=1)
            self.counts[light] = self.counts[~light].min()


@dataclass(slots=True)
class Progress:
    """Decides when batches no longer improve the centres, by a moving average of their inertia."""

    tol: float
    patience: int | None
    rows: int
    average: float | None = None
    least: float = math.inf
    steps: int = 0
    without: int = 0

    def ended(self, inertia: float, shift: float, batch: int) -> bool:
        """Whether the run ends after a batch with this inertia, which moved the centres by this sum of squares."""
        self.steps += 1
        if self.steps == 1:  # the inertia of the initial centres
            return False
        if self.average is None:
            self.average = inertia / batch
        else:
            alpha = min(batch * 2.0 / (self.rows + 1), 1.0)
            self.average = self.average * (1 - alpha) + inertia / batch * alpha
        if self.tol > 0 and shift <= self.tol:
            return True
        self.without = 0 if self.average < self.least else self.without + 1
        self.least = min(self.least, self.average)
        return self.patience is not None and self.without >= self.patience


class MiniBatchKMeans(Clusterer):
    """k-means by mini batches.

    The points of a batch are drawn from one block of the input (up to 16 MiB), and blocks are read one after another, so that input which
    is larger than memory is read sequentially. scikit-learn draws batches from all points; sort order within the input therefore matters
    more here than there.

    Parameters
    ----------
    n_clusters, init, n_init, tol, random_state, verbose
        As for :class:`KMeans`, but `tol` is 0 by default, and ``n_init="auto"`` is 3 for random points; of several initial centres, those
        are chosen that fit a sample best.
    max_iter
        The largest number of passes over the input.
    batch_size
        The number of points of a batch.
    compute_labels
        Whether labels and inertia of all points are computed after the last batch, in a pass over the input.
    max_no_improvement
        The number of batches without an improvement of the average inertia after which the run ends; None for no such limit.
    init_size
        The number of points that initial centres are chosen from; by default three times the size of a batch, or of `n_clusters` if that is
        more.
    reassignment_ratio
        Centres with less than this part of the weight of the heaviest centre are moved to points of a batch.

    Attributes
    ----------
    cluster_centers_, labels_, inertia_, n_features_in_, feature_names_in_
        As for :class:`KMeans`.
    n_iter_ : int
        The number of passes over the input, rounded up.
    n_steps_ : int
        The number of batches.

    Examples
    --------
    >>> import numpy as np
    >>> from craton.ml import MiniBatchKMeans
    >>> points = np.array([[0.0], [0.1], [9.0], [9.1]] * 50)
    >>> model = MiniBatchKMeans(n_clusters=2, batch_size=64, random_state=0).fit(points)
    >>> np.sort(model.cluster_centers_, axis=0).round(1).tolist()
    [[0.0], [9.1]]
    """

    _random_tries = 3

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        init: Any = "k-means++",
        n_init: Any = "auto",
        max_iter: int = 100,
        batch_size: int = 1024,
        tol: float = 0.0,
        random_state: Any = None,
        compute_labels: bool = True,
        max_no_improvement: int | None = 10,
        init_size: int | None = None,
        reassignment_ratio: float = 0.01,
        verbose: int = 0,
    ) -> None:
        self.n_clusters = n_clusters
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.batch_size = batch_size
        self.tol = tol
        self.random_state = random_state
        self.compute_labels = compute_labels
        self.max_no_improvement = max_no_improvement
        self.init_size = init_size
        self.reassignment_ratio = reassignment_ratio
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, *, store: Store | None = None) -> Self:
        """Find the centres; parameters and errors are those of :meth:`KMeans.fit`."""
        self._check_parameters()
        features = open_features(X)
        with ExitStack() as stack:
            points = open_points(features, store, "MiniBatchKMeans")
            stack.callback(points.close)
            self._check_rows(points)
            weights = check_weights(sample_weight, points.rows)
            random = check_random_state(self.random_state)
            state = self._start(X, points, weights, random)
            stack.enter_context(points.reserved(4))
            self._learn_features(features)
            steps, seen = self._run(state, points, weights, random)
            self._state = state
            self.n_steps_, passes = steps, max(1, math.ceil(seen / points.rows))
            if self.compute_labels:
                labels = np.full(points.rows, -1, np.int32)
                inertia = assign(points, weights, state.centers, labels).inertia
                self._keep(Clustering(state.centers.copy(), labels, inertia, passes), points, weights)
            else:
                self.n_iter_ = passes
                self.cluster_centers_ = state.centers.astype(np.float32) if points.single else state.centers.copy()
        return self

    def _check_parameters(self) -> None:
        Clusterer._check_parameters(self)
        at_least(self.batch_size, 1, "batch_size", "MiniBatchKMeans")
        if self.init_size is not None:
            at_least(self.init_size, 1, "init_size", "MiniBatchKMeans")
        if self.max_no_improvement is not None:
            at_least(self.max_no_improvement, 0, "max_no_improvement", "MiniBatchKMeans")

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Move the centres by one batch, which fits into memory. The first call chooses initial centres from it.

        Parameters
        ----------
        X, y, sample_weight
            As for :meth:`fit`.
        """
        self._check_parameters()
        first = not hasattr(self, "_state")
        features = open_features(X) if first else self._open_like_fitted(X)
        parts = list(features.parts())
        columns = parts[0] if len(parts) == 1 else [np.concatenate(column) for column in zip(*parts, strict=True)]
        points = ResidentPoints(columns, "MiniBatchKMeans")
        weights = check_weights(sample_weight, points.rows)
        if first:
            self._check_rows(points)
            self._random = check_random_state(self.random_state)
            self._learn_features(features)
            self._state = self._start(X, points, weights, self._random)
            self.n_steps_ = 0
        random = getattr(self, "_random", None) or check_random_state(self.random_state)
        self._state.step(columns, weights, self.reassignment_ratio, random)
        self.n_steps_ += 1
        self.cluster_centers_ = self._state.centers.copy()
        if self.compute_labels:
            self.labels_ = np.full(points.rows, -1, np.int32)
            self.inertia_ = assign(points, weights, self._state.centers, self.labels_).inertia
        return self

    def _start(self, data: Any, points: Points, weights: Weights, random: np.random.RandomState) -> State:
        """The initial centres: of several, those that fit a sample of the points best."""
        given = self._given_centers(points)
        tries = self._tries(given)
        counts = np.zeros(self.n_clusters)
        if given is not None:
            return State(given, counts)
        size = self.init_size or max(3 * int(self.batch_size), 3 * self.n_clusters)
        size = min(max(size, self.n_clusters), points.rows)
        rows = np.sort(random.choice(points.rows, size, replace=False) if size < points.rows else np.arange(size))
        sample = ResidentPoints(list(np.ascontiguousarray(take(points, rows.tolist()).T)), "MiniBatchKMeans")
        of_sample = None if weights is None else weights[rows]
        best, least = None, math.inf
        for _ in range(tries):
            centers = self._initial_centers(data, sample, of_sample, random)
            inertia = assign(sample, of_sample, centers, np.full(size, -1, np.int32)).inertia
            if best is None or inertia < least:
                best, least = centers, inertia
        assert best is not None
        return State(best, counts)

    def _batches(
        self, points: Points, weights: Weights, random: np.random.RandomState
    ) -> Iterator[tuple[Columns, Weights]]:
        for block in points.blocks():
            order = random.permutation(len(block.columns[0]))
            mine = block.of(weights)
            for start in range(0, len(order), int(self.batch_size)):
                rows = order[start : start + int(self.batch_size)]
                yield [column[rows] for column in block.columns], None if mine is None else mine[rows]

    def _run(self, state: State, points: Points, weights: Weights, random: np.random.RandomState) -> tuple[int, int]:
        """Take batches until the centres no longer improve; returns how many, and how many points they had."""
        tol = float(self.tol) * points.moments.variance() if self.tol else 0.0
        progress, seen = Progress(tol, self.max_no_improvement, points.rows), 0
        for _ in range(int(self.max_iter)):
            for columns, batch_weights in self._batches(points, weights, random):
                before, rows = state.centers, len(columns[0])
                inertia = state.step(columns, batch_weights, self.reassignment_ratio, random)
                seen += rows
                if self.verbose:
                    print(f"Minibatch step {progress.steps + 1}: mean batch inertia: {inertia / rows}")
                if progress.ended(inertia, float(((state.centers - before) ** 2).sum()), rows):
                    return progress.steps, seen
        return progress.steps, seen
