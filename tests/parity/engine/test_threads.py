"""Lazy objects that several threads evaluate: one thread runs the plan, the others wait, and none sees a partial result."""

import sys
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest

import craton
import craton.pandas as cp
from craton import locks, warning_filters

THREADS = 8
ROWS = 5_000


@pytest.fixture(autouse=True)
def planned():
    with craton.option_context(small_rows=0):
        craton.clear_memory()
        yield


def table():
    return pd.DataFrame({"k": [f"g{i % 7}" for i in range(ROWS)], "x": np.arange(ROWS), "y": np.arange(ROWS) * 0.5})


@pytest.fixture
def path(tmp_path):
    table().to_parquet(tmp_path / "table.parquet")
    return tmp_path / "table.parquet"


def at_once(look, count=THREADS):
    """Call a function in several threads at the same time, and return the results."""
    barrier = threading.Barrier(count)

    def run(number):
        barrier.wait(60)
        return look(number)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(run, range(count)))


def sources(path):
    return {
        "file": lambda: cp.read_parquet(path),
        "memory": lambda: cp.DataFrame(table()),
        "filtered": lambda: (frame := cp.read_parquet(path))[frame["x"] >= 0],
    }


LOOKS = {
    "values": lambda frame: frame["x"].to_numpy().sum(),
    "manager": lambda frame: frame._mgr.shape,
    "repr": lambda frame: repr(frame),
    "len": lambda frame: len(frame),
    "shape": lambda frame: frame.shape,
    "index": lambda frame: frame.index.max(),
    "columns": lambda frame: list(frame.columns),
    "dtypes": lambda frame: frame.dtypes.tolist(),
    "sum": lambda frame: frame["x"].sum(),
    "group": lambda frame: frame.groupby("k")["x"].sum().tolist(),
    "derived": lambda frame: (frame["x"] + frame["y"]).sum(),
    "unplanned": lambda frame: frame.select_dtypes("number").kurt().tolist(),
    "loc": lambda frame: frame.loc[3, "x"],
    "copy": lambda frame: frame.copy()["x"].sum(),
    "empty": lambda frame: frame.empty,
}


@pytest.mark.parametrize("source", ["file", "memory", "filtered"])
@pytest.mark.parametrize("look", LOOKS)
def test_threads_that_look_at_one_object_see_the_same(path, source, look):
    expected = LOOKS[look](table())
    for _ in range(5):
        craton.clear_memory()
        frame = sources(path)[source]()
        assert at_once(lambda _, frame=frame: LOOKS[look](frame)) == [expected] * THREADS


@pytest.mark.parametrize("source", ["file", "memory", "filtered"])
def test_different_looks_at_once(path, source):
    names = list(LOOKS)
    expected = {name: LOOKS[name](table()) for name in names}
    for _ in range(5):
        craton.clear_memory()
        frame = sources(path)[source]()
        found = at_once(lambda number, frame=frame: LOOKS[names[number]](frame), len(names))
        assert dict(zip(names, found, strict=True)) == expected


@pytest.fixture
def frequent_switches():
    """Make Python switch between threads as often as possible."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


@pytest.mark.usefixtures("frequent_switches")
def test_threads_that_build_equal_objects_again_and_again(path):
    """The plans are equal, so a thread may use the result of a plan that another thread has already dropped."""
    frame = cp.read_parquet(path)

    def look(_):
        return [int(frame[frame["x"] >= bound % 3].assign(z=1)["x"].sum()) for bound in range(60)]

    expected = [int(table()["x"][bound % 3 :].sum()) for bound in range(60)]
    assert at_once(look) == [expected] * THREADS


@pytest.mark.usefixtures("frequent_switches")
def test_threads_that_read_while_others_write(path, tmp_path):
    """A write saves the rows of plans over the file that it replaces, while other threads build plans over files."""
    other = tmp_path / "written.parquet"
    cp.read_parquet(path).to_parquet(other)

    def work(number):
        if number:
            return [len(cp.read_parquet(path)[["x"]]) for _ in range(60)]
        for _ in range(30):
            held = cp.read_parquet(other)
            cp.read_parquet(path).to_parquet(other)
            assert held["x"].sum() == table()["x"].sum()
        return [ROWS] * 60

    assert at_once(work) == [[ROWS] * 60] * THREADS


def test_a_series_that_was_taken_from_a_frame(path):
    frame = cp.read_parquet(path)
    column = frame["x"] * 2
    assert at_once(lambda number: column.tolist() if number % 2 else int(column.sum())) == [
        (table()["x"] * 2).sum(),
        (table()["x"] * 2).tolist(),
    ] * (THREADS // 2)


@pytest.fixture
def started(monkeypatch):
    """A list that gets one item for each run of the kernel."""
    from craton.engine import run

    found, real = [], run.run_all

    def counted(*args, **named):
        found.append(1)
        return real(*args, **named)

    monkeypatch.setattr(run, "run_all", counted)
    return found


def test_an_object_is_computed_once(path, started):
    frame = cp.read_parquet(path)
    late = frame[frame["x"] > 10]
    managers = at_once(lambda _: late._mgr)
    assert len(started) == 1
    assert len({id(manager) for manager in managers}) == 1


def test_a_plan_of_several_objects_runs_once(path, started):
    frames = [cp.read_parquet(path) for _ in range(THREADS)]
    sums = at_once(lambda number: frames[number].groupby("k")["x"].sum().tolist())
    assert sums == [table().groupby("k")["x"].sum().tolist()] * THREADS
    assert len(started) == 1


def test_one_that_fails_fails_for_all_and_leaves_no_lock(path):
    frame = cp.read_parquet(path)
    wanted = frame[frame["x"] > 10]
    path.write_bytes(b"nothing")

    def look(_):
        with pytest.raises(craton.errors.SourceChanged):
            wanted.sum(numeric_only=True)
        return True

    assert at_once(look) == [True] * THREADS
    assert not locks.objects._locks
    assert not locks.plans._locks


def test_names_that_are_set_while_others_look(path):
    for _ in range(20):
        frame = cp.read_parquet(path)
        frame = frame[frame["x"] >= 0]
        labels = frame.columns

        def act(number, frame=frame, labels=labels):
            if number == 0:
                labels.name = "column"
            return frame["x"].sum() if number % 2 else len(frame._mgr.axes[1])

        at_once(act)
        assert "_view" not in frame.__dict__
        assert frame.columns.tolist() == ["k", "x", "y"]


def test_frames_of_their_own_do_not_wait_for_each_other():
    frames = [cp.DataFrame(table()).assign(z=number) for number in range(THREADS)]
    found = at_once(lambda number: frames[number].groupby("k")["z"].sum().tolist())
    assert found == [table().assign(z=number).groupby("k")["z"].sum().tolist() for number in range(THREADS)]


def test_the_filters_of_warnings_are_those_of_before():
    """pandas' own code, run over batches in several threads of the kernel, leaves the warning filters unchanged."""
    with warning_filters.raising():  # installs the filters that match only within such a block
        before = list(warnings.filters)
    frame = cp.DataFrame({f"c{i}": [str(j) for j in range(50_000)] for i in range(4)})
    for width in range(6, 12):
        at_once(lambda number, width=width: frame[f"c{number}"].str.center(width).str.len().sum(), 4)
    assert list(warnings.filters) == before
