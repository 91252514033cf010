"""k-means with the interface of scikit-learn, over data that may be larger than memory."""

from __future__ import annotations

import numbers
import sys
import warnings
from contextlib import ExitStack
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from craton import _native
from craton.ml.estimator import Estimator, check_random_state, check_weights
from craton.ml.inputs import Columns, open_features
from craton.ml.lloyd import Clustering, assign, lloyd, same_clustering
from craton.ml.points import Points, block_rows, check_finite, open_points
from craton.ml.seeding import plus_plus, random_points
from craton.store.store import Store

__all__ = ["Clusterer", "KMeans", "at_least"]


class Clusterer(Estimator):
    """What estimators of the family of k-means do with their centres: they label, measure and score samples."""

    n_clusters: int
    init: Any
    n_init: Any
    max_iter: int
    tol: float
    random_state: Any
    verbose: int
    cluster_centers_: NDArray[Any]
    labels_: NDArray[np.int32]
    inertia_: float
    n_iter_: int

    _estimator_type = "clusterer"
    _random_tries = 10

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, *, store: Store | None = None) -> Self:
        """Find the centres; each estimator does it in its own way."""
        raise NotImplementedError

    def fit_predict(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        store: Store | None = None,
    ) -> NDArray[np.int32]:
        """Fit, and return the label of each sample."""
        return self.fit(X, sample_weight=sample_weight, store=store).labels_

    def fit_transform(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        store: Store | None = None,
    ) -> Any:
        """Fit, and return the distance of each sample from each centre."""
        return self.fit(X, sample_weight=sample_weight, store=store).transform(X)

    def predict(self, X: Any) -> NDArray[np.int32]:
        """The number of the nearest centre of each sample.

        Parameters
        ----------
        X
            Anything that :meth:`fit` takes. Data that is not in memory is read once, in batches.
        """
        centers = self._float_centers()
        parts = []
        for columns in self._parts(X):
            labels = np.full(len(columns[0]), -1, np.int32)
            _native.kmeans_assign(columns, None, centers, labels, None, False)
            parts.append(labels)
        return _joined(parts)

    def transform(self, X: Any) -> Any:
        """The distance of each sample from each centre: an array with a row for each sample, or what :meth:`set_output` says."""
        centers = self._float_centers()
        parts = []
        for columns in self._parts(X):
            out = np.empty((len(columns[0]), len(centers)))
            _native.kmeans_distances(columns, centers, out)
            np.sqrt(out, out=out)
            parts.append(out.astype(np.float32) if all(column.dtype == np.float32 for column in columns) else out)
        return self._output(_joined(parts), X, self.get_feature_names_out())

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """The negative inertia of the samples, which is greater the better the centres fit."""
        centers = self._float_centers()
        total, start = 0.0, 0
        if sample_weight is not None and not np.isscalar(sample_weight):
            sample_weight = check_weights(sample_weight, len(sample_weight))
        for columns in self._parts(X):
            rows = len(columns[0])
            weights = sample_weight
            if weights is not None:
                weights = check_weights(weights if np.isscalar(weights) else weights[start : start + rows], rows)
            labels = np.full(rows, -1, np.int32)
            total += _native.kmeans_assign(columns, weights, centers, labels, None, False)[2]
            start += rows
        return -total

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """The names of the columns that :meth:`transform` returns."""
        self._check_fitted()
        prefix = type(self).__name__.lower()
        return np.array([f"{prefix}{number}" for number in range(len(self.cluster_centers_))], dtype=object)

    def _float_centers(self) -> NDArray[np.float64]:
        self._check_fitted()
        return np.ascontiguousarray(self.cluster_centers_, dtype=np.float64)

    def _parts(self, data: Any) -> Any:
        """The samples in parts of at most a block's rows, checked."""
        name = type(self).__name__
        for part in self._open_like_fitted(data).parts():
            rows = block_rows(len(part))
            for start in range(0, len(part[0]), rows):
                columns: Columns = [column[start : start + rows] for column in part]
                check_finite(columns, name)
                yield columns

    # ---- fitting ----

    def _check_parameters(self) -> None:
        """Check the parameters, before the input is read."""
        at_least(self.n_clusters, 1, "n_clusters", type(self).__name__)
        at_least(self.max_iter, 1, "max_iter", type(self).__name__)
        tol: Any = self.tol
        if not isinstance(tol, numbers.Real) or not float(tol) >= 0:
            raise ValueError(f"The 'tol' parameter of {type(self).__name__} must be at least 0. Got {tol!r} instead.")
        if self.n_init != "auto":
            at_least(self.n_init, 1, "n_init", type(self).__name__)
        if isinstance(self.init, str) and self.init not in ("k-means++", "random"):
            raise ValueError(
                f"The 'init' parameter of {type(self).__name__} must be 'k-means++', 'random', a callable or an array. "
                f"Got {self.init!r} instead."
            )
        check_random_state(self.random_state)

    def _check_rows(self, points: Points) -> None:
        if points.rows < self.n_clusters:
            raise ValueError(f"n_samples={points.rows} should be >= n_clusters={self.n_clusters}.")

    def _given_centers(self, points: Points) -> NDArray[np.float64] | None:
        """The initial centres, if they are given as an array."""
        if isinstance(self.init, str) or callable(self.init):
            return None
        centers = np.array(self.init, dtype=np.float64, order="C")
        shape = (self.n_clusters, points.dimensions)
        if centers.ndim != 2 or len(centers) != self.n_clusters:
            raise ValueError(
                f"The shape of the initial centers {centers.shape} does not match the number of clusters {self.n_clusters}."
            )
        if centers.shape != shape:
            raise ValueError(
                f"The shape of the initial centers {centers.shape} does not match the number of features of the data "
                f"{points.dimensions}."
            )
        if not np.isfinite(centers).all():
            raise ValueError("Input init contains NaN or infinity.")
        return centers

    def _tries(self, given: NDArray[np.float64] | None) -> int:
        """How many runs with other initial centres there are."""
        if self.n_init == "auto":
            random = callable(self.init) or (isinstance(self.init, str) and self.init == "random")
            return self._random_tries if random else 1
        if given is not None and self.n_init != 1:
            warnings.warn(
                f"Explicit initial center position passed: performing only one init in {type(self).__name__} instead of "
                f"n_init={self.n_init}.",
                RuntimeWarning,
                stacklevel=4,
            )
            return 1
        return int(self.n_init)

    def _initial_centers(
        self, data: Any, points: Points, weights: NDArray[np.float64] | None, random: np.random.RandomState
    ) -> NDArray[np.float64]:
        if callable(self.init):
            centers = np.array(self.init(data, self.n_clusters, random_state=random), dtype=np.float64, order="C")
            if centers.shape != (self.n_clusters, points.dimensions):
                raise ValueError(
                    f"The shape of the initial centers {centers.shape} is not {(self.n_clusters, points.dimensions)}."
                )
            return centers
        choose = plus_plus if self.init == "k-means++" else random_points
        return choose(points, weights, self.n_clusters, random)

    def _keep(self, best: Clustering, points: Points, weights: NDArray[np.float64] | None) -> None:
        """Set the attributes of a fitted estimator."""
        if points.single:  # centres are rounded to the precision of the data, and labels belong to the rounded centres
            self.cluster_centers_ = best.centers.astype(np.float32)
            centers = np.ascontiguousarray(self.cluster_centers_, dtype=np.float64)
            inertia = assign(points, weights, centers, best.labels).inertia
        else:
            self.cluster_centers_, inertia = best.centers, best.inertia
        self.labels_, self.inertia_, self.n_iter_ = best.labels, inertia, best.iterations
        distinct = len(np.unique(best.labels))
        if distinct < self.n_clusters:
            loaded = sys.modules.get("sklearn.exceptions")
            warnings.warn(
                f"Number of distinct clusters ({distinct}) found smaller than n_clusters ({self.n_clusters}). Possibly due to "
                "duplicate points in X.",
                UserWarning if loaded is None else loaded.ConvergenceWarning,
                stacklevel=3,
            )

    @property
    def _n_features_out(self) -> int:
        return len(self.cluster_centers_)


class KMeans(Clusterer):
    """k-means by Lloyd's algorithm.

    Input that is in memory (arrays, frames, tables of Arrow and Polars) is read where it is. Lazy frames, durable sets and streams are read
    once into a locality set of a store, whose pages paging writes to disk if memory is short. Each iteration reads the points once.
    Results are the same bits in both cases, for any number of threads.

    Parameters
    ----------
    n_clusters
        The number of clusters.
    init
        The initial centres: ``"k-means++"``, ``"random"`` points, an array with a row for each centre, or a function of the input,
        the number of clusters and ``random_state=``. The same seed draws the same centres as in scikit-learn.
    n_init
        How many times the algorithm runs with other initial centres; the run with the least inertia is kept. ``"auto"`` is 10 for random
        points and functions, and 1 otherwise.
    max_iter
        The largest number of iterations of a run.
    tol
        A run ends when the sum of the squared distances that the centres move by is at most `tol` times the mean variance of the columns,
        or when no label changes.
    random_state
        A seed, a ``numpy.random.RandomState``, or None for NumPy's global generator.
    algorithm
        ``"lloyd"``.
    verbose
        Whether iterations are printed.

    Attributes
    ----------
    cluster_centers_ : array of shape (n_clusters, n_features)
        The centres; 32-bit floats if all columns are.
    labels_ : array of shape (n_samples,)
        The number of the nearest centre of each sample.
    inertia_ : float
        The weighted sum of the squared distances of the samples from their nearest centres.
    n_iter_ : int
        The number of iterations.
    n_features_in_ : int
        The number of features.
    feature_names_in_ : array of str
        The names of the features, if all have one.

    Examples
    --------
    >>> import numpy as np
    >>> from craton.ml import KMeans
    >>> points = np.array([[1.0, 2.0], [1.0, 4.0], [1.0, 0.0], [10.0, 2.0], [10.0, 4.0], [10.0, 0.0]])
    >>> model = KMeans(n_clusters=2, random_state=0).fit(points)
    >>> sorted(model.cluster_centers_.tolist())
    [[1.0, 2.0], [10.0, 2.0]]
    >>> int(model.predict([[0.0, 0.0]])[0]) == int(model.labels_[0])
    True
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        init: Any = "k-means++",
        n_init: Any = "auto",
        max_iter: int = 300,
        tol: float = 1e-4,
        random_state: Any = None,
        algorithm: str = "lloyd",
        verbose: int = 0,
    ) -> None:
        self.n_clusters = n_clusters
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.algorithm = algorithm
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, *, store: Store | None = None) -> Self:
        """Find the centres.

        Parameters
        ----------
        X
            The samples: an array with a row for each; a frame of pandas, Polars or Craton; a table of Arrow; the name of a durable set;
            or a locality set.
        y
            Ignored.
        sample_weight
            The weight of each sample; 1 by default.
        store
            The store that input which is not in memory is streamed into; by default the one that it is in, or that of the process.

        Raises
        ------
        ValueError
            If a parameter is not valid, a value is missing or infinite, a column has no numbers, or there are fewer samples than clusters.
        """
        if self.algorithm != "lloyd":
            raise ValueError(f"The 'algorithm' parameter of KMeans must be 'lloyd'. Got {self.algorithm!r} instead.")
        self._check_parameters()
        features = open_features(X)
        with ExitStack() as stack:
            points = open_points(features, store, "KMeans")
            stack.callback(points.close)
            self._check_rows(points)
            weights = check_weights(sample_weight, points.rows)
            given = self._given_centers(points)
            # labels; before, the distances of k-means++
            stack.enter_context(points.reserved(4 if given is not None else 8))
            self._learn_features(features)
            self._keep(self._best_run(X, points, weights, given), points, weights)
        return self

    def _best_run(
        self, data: Any, points: Points, weights: NDArray[np.float64] | None, given: NDArray[np.float64] | None
    ) -> Clustering:
        random = check_random_state(self.random_state)
        best: Clustering | None = None
        for _ in range(self._tries(given)):
            centers = self._initial_centers(data, points, weights, random) if given is None else given
            if self.verbose:
                print("Initialization complete")
            tol = float(self.tol) * points.moments.variance() if self.tol else 0.0
            found = lloyd(points, weights, centers, max_iter=int(self.max_iter), tol=tol, verbose=bool(self.verbose))
            if best is None or (
                found.inertia < best.inertia and not same_clustering(found.labels, best.labels, self.n_clusters)
            ):
                best = found
        assert best is not None
        return best


def _joined(parts: list[NDArray[Any]]) -> NDArray[Any]:
    if not parts:
        raise ValueError("Found array with 0 sample(s) while a minimum of 1 is required.")
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def at_least(value: Any, least: int, name: str, who: str) -> None:
    """Raise ValueError if a parameter is not an integer of at least a number."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < least:
        raise ValueError(f"The {name!r} parameter of {who} must be an int of at least {least}. Got {value!r} instead.")
