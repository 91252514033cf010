"""k-means against scikit-learn, and the same bits from memory, from a store, and on any number of threads."""

from __future__ import annotations

import copy
import gc
import os
import pickle
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import polars as pl
import pyarrow as pa
import pytest

import craton
import craton.pandas as pd
from craton.ml import KMeans, MiniBatchKMeans
from craton.ml import points as points_module
from craton.store import Store

sklearn = pytest.importorskip("sklearn", reason="the peer of these tests is scikit-learn")
from sklearn import cluster as peer  # noqa: E402
from sklearn.base import clone  # noqa: E402
from sklearn.exceptions import ConvergenceWarning, NotFittedError  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.preprocessing import StandardScaler  # noqa: E402
from sklearn.utils.estimator_checks import check_estimator  # noqa: E402


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(64 << 20, directory=tmp_path) as opened:
        yield opened


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of 16 KiB or 1,024 rows, so that small data has many."""
    monkeypatch.setattr(points_module, "_BLOCK_BYTES", 1 << 14)


def blobs(seed: int, rows: int, dimensions: int, clusters: int) -> np.ndarray:
    random = np.random.default_rng(seed)
    middles = random.normal(0, 4, (clusters, dimensions))
    return middles[random.integers(0, clusters, rows)] + random.normal(0, 1.5, (rows, dimensions))


def stream(data: Any, rows: int = 777) -> pa.RecordBatchReader:
    """An input that is not in memory: it can be read once."""
    array = np.asarray(data)
    table = pa.table({f"c{column}": array[:, column] for column in range(array.shape[1])})
    return pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=rows))


def same(ours: Any, theirs: Any, relative: float = 1e-9) -> None:
    scale = max(1.0, float(np.abs(theirs.cluster_centers_).max()))
    np.testing.assert_allclose(ours.cluster_centers_, theirs.cluster_centers_, rtol=relative, atol=relative * scale)
    assert ours.inertia_ == pytest.approx(theirs.inertia_, rel=max(relative, 1e-9), abs=1e-7)


def equal(one: Any, other: Any) -> None:
    """The same bits."""
    assert one.cluster_centers_.tobytes() == other.cluster_centers_.tobytes()
    assert one.labels_.tobytes() == other.labels_.tobytes()
    assert (one.inertia_, one.n_iter_) == (other.inertia_, other.n_iter_)


@pytest.mark.parametrize("seed", range(40))
def test_random_programs(seed: int) -> None:
    random = np.random.default_rng(seed)
    rows, dimensions = int(random.integers(1, 3000)), int(random.integers(1, 12))
    clusters = min(int(random.integers(1, 12)), rows)
    data = blobs(seed, rows, dimensions, clusters) * random.choice([1e-3, 1.0, 1e4]) + random.choice([0.0, 100.0])
    data = data[:, ::-1] if random.random() < 0.3 else data
    data = np.asfortranarray(data) if random.random() < 0.3 else data
    weights = random.random(rows) if random.random() < 0.4 else None
    options = {
        "init": [data[:clusters].copy(), "k-means++", "random"][random.integers(3)],
        "n_init": 1,
        "max_iter": int(random.choice([1, 3, 300])),
        "tol": float(random.choice([0.0, 1e-4, 1e-2])),
        "random_state": seed,
    }
    ours = KMeans(clusters, **options).fit(data, sample_weight=weights)
    theirs = peer.KMeans(clusters, **options).fit(data, sample_weight=weights)
    same(ours, theirs)
    assert ours.n_iter_ == theirs.n_iter_
    assert ours.labels_.dtype == theirs.labels_.dtype
    np.testing.assert_array_equal(ours.labels_, theirs.labels_)
    other = blobs(seed + 1, 50, dimensions, 3)
    np.testing.assert_array_equal(ours.predict(other), theirs.predict(other))
    np.testing.assert_allclose(ours.transform(other), theirs.transform(other), rtol=1e-7, atol=1e-7)
    assert ours.score(other) == pytest.approx(theirs.score(other))


@pytest.mark.parametrize("kind", ["float32", "int64", "int8", "bool", "uint16", "float16", "object"])
def test_dtypes(kind: str) -> None:
    numbers = blobs(3, 800, 3, 4)
    data = numbers > 0 if kind == "bool" else (numbers * 4).clip(-100, 100).__abs__().astype(kind)
    init = data[[0, 100, 300, 700]].astype("float64") + np.array([[0.0], [0.1], [0.2], [0.3]])
    options = {"init": init, "n_init": 1, "max_iter": 5, "tol": 0.0}
    ours, theirs = KMeans(4, **options).fit(data), peer.KMeans(4, **options).fit(data)
    same(ours, theirs, 1e-4 if kind == "float32" else 1e-9)
    assert ours.cluster_centers_.dtype == theirs.cluster_centers_.dtype
    assert ours.transform(data).dtype == theirs.transform(data).dtype
    np.testing.assert_array_equal(ours.predict(data), ours.labels_)


def test_many_columns() -> None:
    data = blobs(6, 2500, 300, 3)
    options = {"init": data[:3], "n_init": 1, "tol": 0.0}
    ours = KMeans(3, **options).fit(data)
    same(ours, peer.KMeans(3, **options).fit(data))
    equal(ours, KMeans(3, **options).fit(stream(data)))


def test_random_starts_keep_the_best() -> None:
    data = blobs(5, 500, 2, 6)
    for n_init in ("auto", 4):
        options = {"init": "random", "n_init": n_init, "random_state": 2}
        same(KMeans(6, **options).fit(data), peer.KMeans(6, **options).fit(data))


def test_clusters_without_points_move_to_the_farthest_point() -> None:
    data = blobs(1, 300, 2, 3)
    init = np.vstack([data[:3], [[1e3, 1e3]]])
    options = {"init": init, "n_init": 1, "tol": 0.0}
    same(KMeans(4, **options).fit(data), peer.KMeans(4, **options).fit(data))


def test_several_clusters_without_points() -> None:
    data = blobs(1, 300, 2, 3)
    init = np.vstack([data[:2], [[1e3, 1e3], [2e3, 2e3], [1e4, 0]]])
    ours = KMeans(5, init=init, tol=0.0).fit(data)
    assert len(np.unique(ours.labels_)) == 5
    np.testing.assert_array_equal(ours.predict(data), ours.labels_)
    streamed = KMeans(5, init=init, tol=0.0).fit(stream(data))
    equal(ours, streamed)


def test_as_many_clusters_as_points() -> None:
    data = blobs(2, 9, 3, 2)
    ours = KMeans(9, random_state=1).fit(data)
    assert ours.inertia_ == 0
    assert sorted(ours.labels_) == list(range(9))


def test_duplicate_points_give_fewer_clusters() -> None:
    data = np.repeat([[1.0, 2.0], [3.0, 4.0]], 20, axis=0)
    with pytest.warns(ConvergenceWarning, match="distinct clusters .2. found smaller than n_clusters .4."):
        ours = KMeans(4, random_state=0).fit(data)
    assert ours.inertia_ == 0
    assert set(map(tuple, ours.cluster_centers_)) == {(1.0, 2.0), (3.0, 4.0)}


def test_constant_data_and_one_feature() -> None:
    with pytest.warns(ConvergenceWarning):
        assert KMeans(2).fit(np.full((50, 3), 7.5)).inertia_ == 0
    data = blobs(4, 400, 1, 3)
    options = {"init": data[:3], "n_init": 1}
    same(KMeans(3, **options).fit(data), peer.KMeans(3, **options).fit(data))


def test_weights_of_zero_are_no_points() -> None:
    data, weights = blobs(7, 400, 3, 3), np.ones(400)
    weights[200:] = 0
    options = {"init": data[:3], "tol": 0.0}
    some, all_ = KMeans(3, **options).fit(data[:200]), KMeans(3, **options).fit(data, sample_weight=weights)
    np.testing.assert_allclose(some.cluster_centers_, all_.cluster_centers_, rtol=1e-12)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("init", ["k-means++", "random", "array"])
@pytest.mark.parametrize("kind", ["float64", "float32"])
def test_streaming_gives_the_same_bits(store: Store, kind: str, init: str, weighted: bool) -> None:
    data = blobs(8, 20_003, 3, 5).astype(kind)
    weights = np.random.default_rng(1).random(len(data)) if weighted else None
    options = {"init": data[:5] if init == "array" else init, "n_init": 2 if init == "random" else 1, "random_state": 5}
    memory = KMeans(5, **options).fit(data, sample_weight=weights)
    equal(memory, KMeans(5, **options).fit(stream(data), sample_weight=weights, store=store))
    equal(memory, KMeans(5, **options).fit(np.asfortranarray(data), sample_weight=weights))
    assert store.describe().empty


@pytest.mark.usefixtures("small_blocks")
def test_points_three_times_the_memory_of_the_store(tmp_path: Path) -> None:
    data = blobs(9, 60_000, 5, 4)
    with Store.open(data.nbytes // 3, directory=tmp_path) as small:
        streamed = KMeans(4, random_state=0, max_iter=10).fit(stream(data), store=small)
        counters = small.counters()
        assert counters["evicted_written"] > 0
        assert counters["read"] > 0
        assert small.describe().empty
    equal(KMeans(4, random_state=0, max_iter=10).fit(data), streamed)


def test_threads_change_nothing() -> None:
    program = """
import numpy as np
from craton.ml import KMeans
data = np.random.default_rng(0).normal(size=(100_000, 4))
model = KMeans(5, random_state=1, max_iter=8).fit(data)
print(model.cluster_centers_.tobytes().hex(), hash(model.labels_.tobytes()), model.inertia_.hex())
"""
    found = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "RAYON_NUM_THREADS": threads, "PYTHONHASHSEED": "0"},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for threads in ("1", "2", "5")
    }
    assert len(found) == 1


def test_nothing_is_imported_that_is_not_used() -> None:
    program = """
import sys
import craton
assert "craton.ml" not in sys.modules
model = craton.ml.KMeans(2)
try:
    model.predict([[1.0]])
except ValueError as error:
    assert isinstance(error, AttributeError) and "not fitted" in str(error)
assert model.fit([[0.0], [1.0], [5.0]]).n_iter_ >= 1
assert not {"sklearn", "pandas", "polars", "scipy"} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-W", "error", "-c", program], check=True)


def test_inputs_are_read_as_arrays_are(store: Store, tmp_path: Path) -> None:
    data = blobs(11, 3000, 3, 4)
    frame = pandas.DataFrame(data, columns=["x", "y", "z"])
    expected = KMeans(4, random_state=0).fit(data)
    table = pa.Table.from_pandas(frame)
    pages = store.create_set()
    for batch in table.to_batches(max_chunksize=1000):
        pages.append(batch)
    parquet = tmp_path / "points.parquet"
    frame.to_parquet(parquet)
    with craton.option_context(data=str(tmp_path / "data")):
        craton.save("points", frame.set_index(pandas.Index(range(1, 3001), name="key")))
        inputs = {
            "list": data.tolist(),
            "pandas": frame,
            "craton": pd.DataFrame(frame),
            "lazy": pd.read_parquet(parquet),
            "computed": pd.read_parquet(parquet) * 2 / 2,
            "arrow": table,
            "batch": table.to_batches()[0],
            "polars": pl.DataFrame(frame),
            "plan": pl.scan_parquet(parquet),
            "set": pages,
            "name": "points",
            "read": craton.read_set("points"),
        }
        for name, given in inputs.items():
            found = KMeans(4, random_state=0).fit(given)
            equal(expected, found)
            assert name == "list" or found.feature_names_in_.tolist() == ["x", "y", "z"], name
        craton.save("parts", frame.assign(part=np.arange(3000) % 7), partition_by="part", partitions=3)
        parts = craton.read_set("parts")[["x", "y", "z"]]
        equal(expected, KMeans(4, random_state=0).fit(parts))
        assert found.predict("points").tobytes() == expected.labels_.tobytes()
        assert found.transform(pages).tobytes() == expected.transform(data).tobytes()
        assert found.score("points") == pytest.approx(-found.inertia_)
    assert len(store.describe()) == 1


def test_a_frame_of_integers_and_nullable_columns() -> None:
    frame = pandas.DataFrame(
        {"a": [1, 2, 30, 31], "b": pandas.array([1, 1, 5, 5], "Int64"), "c": [True, True, False, False]}
    )
    model = KMeans(2, random_state=0).fit(frame)
    assert model.inertia_ == 1.0
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    assert (KMeans(2, random_state=0).fit(pa.Table.from_pandas(frame)).labels_ == model.labels_).all()


BAD = {
    "NaN": (np.array([[1.0], [np.nan], [3.0]]), "NaN"),
    "inf": (np.array([[1.0], [np.inf], [3.0]]), "inf"),
    "null": (pa.table({"a": [1.0, None, 2.0]}), "NaN"),
    "nullable": (pandas.DataFrame({"a": pandas.array([1, None, 2], "Int64")}), "NaN"),
    "text": (pandas.DataFrame({"a": ["x", "y", "z"]}), "column 'a'"),
    "objects": (np.array([["x"], ["y"], ["z"]], dtype=object), "could not convert"),
    "dates": (pandas.DataFrame({"a": pandas.to_datetime(["2024-01-01"] * 3)}), "column 'a'"),
    "few": (np.ones((1, 2)), "n_samples=1 should be >= n_clusters=2"),
    "none": (np.ones((0, 2)), "0 sample"),
    "no features": (np.ones((3, 0)), r"0 feature\(s\) \(shape=\(3, 0\)\) while a minimum of 1 is required."),
    "1D": (np.ones(5), "Reshape your data"),
    "complex": (np.ones((3, 2), complex), "Complex data not supported"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_data_is_refused(name: str) -> None:
    data, text = BAD[name]
    for made in (KMeans(2), MiniBatchKMeans(2)):
        with pytest.raises(ValueError, match=text):
            made.fit(data)
    with pytest.raises(TypeError, match="Sparse data was passed"):
        KMeans(2).fit(pytest.importorskip("scipy.sparse", reason="sparse arrays are SciPy's").eye(4))


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"n_clusters": 0}, "n_clusters"),
        ({"n_clusters": 2.5}, "n_clusters"),
        ({"max_iter": 0}, "max_iter"),
        ({"tol": -1}, "tol"),
        ({"n_init": "all"}, "n_init"),
        ({"init": "best"}, "init"),
        ({"init": np.ones((3, 2))}, "does not match the number of clusters"),
        ({"init": np.ones((2, 3))}, "does not match the number of features"),
        ({"init": np.full((2, 2), np.nan)}, "NaN"),
        ({"algorithm": "elkan"}, "algorithm"),
        ({"random_state": "x"}, "seed"),
    ],
)
def test_bad_parameters_are_refused(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        KMeans(**{"n_clusters": 2, **options}).fit(blobs(0, 20, 2, 2))


@pytest.mark.parametrize("weights", [np.ones(3), -np.ones(20), np.zeros(20), np.full(20, np.nan), np.ones((20, 2))])
def test_bad_weights_are_refused(weights: np.ndarray) -> None:
    with pytest.raises(ValueError, match=r"[Ww]eight"):
        KMeans(2).fit(blobs(0, 20, 2, 2), sample_weight=weights)


def test_features_must_be_those_of_the_fit() -> None:
    frame = pandas.DataFrame(blobs(0, 40, 2, 2), columns=["x", "y"])
    model = KMeans(2, random_state=0)
    with pytest.raises(NotFittedError, match="not fitted yet"):
        model.predict(frame)
    model.fit(frame)
    with pytest.raises(ValueError, match="must be in the same order"):
        model.predict(frame[["y", "x"]])
    with pytest.raises(ValueError, match=r"unseen at fit time: ..z"):
        model.predict(frame.rename(columns={"y": "z"}))
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        model.predict(frame.to_numpy())
    with pytest.warns(UserWarning, match="fitted without feature names"):
        KMeans(2, random_state=0).fit(frame.to_numpy()).predict(frame)
    with pytest.raises(ValueError, match="X has 3 features, but KMeans is expecting 2"):
        KMeans(2, random_state=0).fit(frame.to_numpy()).predict(np.ones((4, 3)))


def test_parameters_copies_and_pipelines() -> None:
    data = blobs(0, 200, 2, 3)
    model = KMeans(3, random_state=0, tol=1e-3)
    assert repr(model) == "KMeans(n_clusters=3, tol=0.001, random_state=0)"
    assert model.get_params() == {**KMeans().get_params(), "n_clusters": 3, "random_state": 0, "tol": 1e-3}
    with pytest.raises(ValueError, match="Invalid parameter 'k'"):
        model.set_params(k=1)
    fitted = clone(model.set_params(tol=1e-4)).fit(data)
    assert not hasattr(model, "labels_")
    assert clone(fitted).get_params() == model.get_params()
    for other in (pickle.loads(pickle.dumps(fitted)), copy.copy(fitted), copy.deepcopy(fitted)):
        equal(fitted, other)
        assert (other.predict(data) == fitted.labels_).all()
    for kind in (pandas, pl):
        table = clone(model).set_output(transform=kind.__name__).fit_transform(data)
        assert isinstance(table, kind.DataFrame)
        assert list(table.columns) == ["kmeans0", "kmeans1", "kmeans2"]
    with pytest.raises(ValueError, match="output config"):
        model.set_output(transform="arrow")
    steps = make_pipeline(StandardScaler(), KMeans(3, random_state=0))
    assert (steps.fit_predict(data) == steps.predict(data)).all()
    assert steps.get_feature_names_out().tolist() == ["kmeans0", "kmeans1", "kmeans2"]
    assert clone(steps).set_params(kmeans__n_clusters=2).fit(data)[-1].cluster_centers_.shape == (2, 2)


@pytest.mark.parametrize("made", [KMeans, MiniBatchKMeans])
def test_the_checks_of_scikit_learn(made: Any) -> None:
    estimator = made(n_clusters=2, n_init=2, max_iter=5)
    # scikit-learn's own estimators are excepted from this check, too: repeated points draw other random numbers than weights.
    known = {"check_sample_weight_equivalence_on_dense_data": "sample_weight is not equivalent to repeating samples"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(estimator, expected_failed_checks=known, on_skip=None)
    assert sum(one["status"] == "passed" for one in results) > 45


def test_a_fit_continues_from_given_centers() -> None:
    data = blobs(3, 2000, 3, 6)
    whole = KMeans(6, init=data[:6], tol=0.0).fit(data)
    begun = KMeans(6, init=data[:6], tol=0.0, max_iter=3).fit(data)
    rest = KMeans(6, init=begun.cluster_centers_, tol=0.0).fit(data)
    assert rest.cluster_centers_.tobytes() == whole.cluster_centers_.tobytes()
    assert rest.n_iter_ + begun.n_iter_ == whole.n_iter_
    made = KMeans(6, init=lambda x, k, random_state: x[random_state.randint(0, len(x), k)], random_state=1).fit(data)
    assert made.inertia_ < 2 * whole.inertia_


def test_an_interrupted_fit_leaves_no_set_behind(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    data = blobs(3, 3000, 3, 6)

    def batches(end: bool) -> Iterator[pa.RecordBatch]:
        yield from stream(data)
        if end:
            raise KeyboardInterrupt

    schema = stream(data).schema
    with pytest.raises(pa.ArrowInvalid, match="KeyboardInterrupt"):  # Arrow's reader wraps it
        KMeans(2).fit(pa.RecordBatchReader.from_batches(schema, batches(True)), store=store)
    gc.collect()
    assert store.describe().empty
    calls = []

    def interrupted(*given: Any) -> Any:
        calls.append(given)
        raise KeyboardInterrupt

    monkeypatch.setattr("craton.ml.lloyd._means", interrupted)
    with pytest.raises(KeyboardInterrupt):
        KMeans(2).fit(stream(data), store=store)
    assert calls
    assert store.describe().empty
    assert store.counters()["slab_used"] == 0


def test_a_plan_with_missing_values_leaves_no_set_behind(store: Store, tmp_path: Path) -> None:
    frame = pandas.DataFrame(blobs(3, 200_000, 2, 2), columns=["x", "y"])
    frame.loc[100_000, "y"] = np.nan
    frame.to_parquet(tmp_path / "points.parquet")
    with pytest.raises(ValueError, match="contains NaN"):
        KMeans(2).fit(pd.read_parquet(tmp_path / "points.parquet"), store=store)
    gc.collect()
    assert store.describe().empty
    assert not [thread for thread in threading.enumerate() if thread.name == "craton-rows"]


def test_mini_batches_come_close(store: Store) -> None:
    data = blobs(12, 30_000, 4, 5)
    best = KMeans(5, random_state=0).fit(data).inertia_
    model = MiniBatchKMeans(5, random_state=0).fit(data)
    assert model.inertia_ < 1.1 * best
    assert model.n_steps_ > 1
    equal(model, MiniBatchKMeans(5, random_state=0).fit(stream(data), store=store))
    assert store.describe().empty
    assert (model.predict(data) == model.labels_).all()
    assert clone(model).get_params() == model.get_params()
    weights = np.random.default_rng(0).random(len(data))
    assert MiniBatchKMeans(5, random_state=0).fit(data, sample_weight=weights).inertia_ < 0.6 * best
    quick = MiniBatchKMeans(5, init="random", random_state=0, compute_labels=False, tol=1e-2).fit(data)
    assert not hasattr(quick, "labels_")
    assert -quick.score(data) < 1.5 * best


def test_batches_one_by_one() -> None:
    data = blobs(13, 6000, 3, 4)
    model = MiniBatchKMeans(4, random_state=0)
    for start in range(0, 6000, 500):
        model.partial_fit(data[start : start + 500])
    assert model.n_steps_ == 12
    assert -model.score(data) < 1.2 * KMeans(4, random_state=0).fit(data).inertia_
