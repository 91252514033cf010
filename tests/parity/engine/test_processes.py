"""Programs with several processes: forks after a plan has run, pools of every kind, and objects pickled between processes."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any, ClassVar

import cloudpickle
import numpy as np
import pandas as pd
import pytest

import craton
import craton.pandas as cpd

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the system does not fork")

ROWS = 5_000

#: The beginning of programs: a file, frames over it and in memory, and a plan that has run, so that the kernel has threads.
BEGIN = """
import multiprocessing, os, pickle, signal, sys
from concurrent.futures import ProcessPoolExecutor
import numpy as np
import pandas
import craton, craton.pandas as pd
from craton import forks
PATH = sys.argv[1]
craton.options.small_rows = 0
lazy = pd.read_parquet(PATH)
memory = pd.DataFrame(pandas.read_parquet(PATH))
plain = pandas.read_parquet(PATH)
assert lazy["v"].sum() == plain["v"].sum()
chosen = lazy[lazy["v"] > 10]

def same(ours, theirs):
    if isinstance(theirs, pandas.DataFrame):
        pandas.testing.assert_frame_equal(pandas.DataFrame(ours), pandas.DataFrame(theirs))
    else:
        pandas.testing.assert_series_equal(pandas.Series(ours), pandas.Series(theirs))
"""


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("processes") / "rows.parquet"
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(
        {
            "k": rng.integers(0, 7, ROWS),
            "v": rng.normal(20, 30, ROWS),
            "s": rng.choice(["a", "b", None], ROWS),
            "t": pd.date_range("2024-01-01", periods=ROWS, freq="h"),
        }
    )
    frame.to_parquet(path)
    return path


def run(program: str, *arguments: Any) -> str:
    """Run a program that must succeed, and return what it printed."""
    command = [sys.executable, "-c", program, *map(str, arguments)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


# -- forks ------------------------------------------------------------------------------------------------------------

#: Steps that a child runs on frames that it inherited from its parent; the results are compared with pandas.
STEPS = """
STEPS = [
    lambda f: f.groupby("k")["v"].sum(),
    lambda f: f[f["v"] > 10].sort_values("v").head(20),
    lambda f: f.sort_values("t")["v"].cumsum(),
    lambda f: f.assign(w=f["v"] * 2).groupby("s")["w"].mean(),
    lambda f: f.merge(f.groupby("k", as_index=False)["v"].max(), on=["k", "v"]),
    lambda f: f["s"].str.upper().value_counts(),
    lambda f: f["t"].dt.month.rename("month"),
    lambda f: f["k"].isin([1, 2, 3]),
    lambda f: f.iloc[5:50:3],
    lambda f: f.loc[f["k"] == 2, ["v", "s"]],
    lambda f: f.describe(),
    lambda f: f["v"].map(lambda v: v + 1),
    lambda f: f.groupby("k").apply(lambda g: g["v"].max()),
    lambda f: f.set_index("t")["v"].resample("D").mean(),
    lambda f: f["v"].rolling(3).mean(),
    lambda f: f.pivot_table(index="k", columns="s", values="v"),
    lambda f: pd.Series([len(f), f.shape[1]]),
]

def step(number):
    of_lazy = STEPS[number](lazy)
    of_memory = STEPS[number](memory)
    return of_lazy, of_memory
"""


@pytest.mark.parametrize("pool", ["multiprocessing.get_context('fork').Pool(2)", "EXECUTOR"])
def test_forked_pools_after_a_plan(file: Path, pool: str) -> None:
    made = "ProcessPoolExecutor(2, mp_context=multiprocessing.get_context('fork'))" if pool == "EXECUTOR" else pool
    program = (
        BEGIN
        + STEPS
        + f"""
with {made} as pool:
    for number, found in enumerate(pool.map(step, range(len(STEPS)))):
        for ours in found:
            same(ours, STEPS[number](plain))
            assert type(ours) in (pd.DataFrame, pd.Series)
"""
    )
    run(program, file)


def test_frames_that_are_sent_to_forked_processes(file: Path) -> None:
    program = (
        BEGIN
        + """
def top(frame):
    return frame.groupby("k")["v"].sum().sort_values().head(3)

with multiprocessing.get_context("fork").Pool(2) as pool:
    for ours, theirs in zip(pool.map(top, [lazy, memory, chosen]), [plain, plain, plain[plain["v"] > 10]]):
        same(ours, top(theirs))
    for ours in pool.map(pd.read_parquet, [PATH, PATH]):
        same(ours, plain)
"""
    )
    run(program, file)


def test_a_child_reads_files(file: Path, tmp_path: Path) -> None:
    frame = pd.read_parquet(file)
    frame.to_csv(tmp_path / "rows.csv", index=False)
    frame.to_feather(tmp_path / "rows.feather")
    program = (
        BEGIN
        + """
folder = sys.argv[2]
NAMES = ["parquet", "pattern", "csv", "feather"]

def read(name):
    if name == "pattern":
        made = pd.read_parquet(PATH.replace("rows", "row?"))
    elif name.endswith("parquet"):
        made = pd.read_parquet(PATH, columns=["k", "v"])
    elif name.endswith("csv"):
        made = pd.read_csv(f"{folder}/rows.csv")
    else:
        made = pd.read_feather(f"{folder}/rows.feather")
    made.groupby("k")["v"].sum().to_frame().to_parquet(f"{folder}/{name}.parquet")
    return made.groupby("k")["v"].sum()

with multiprocessing.get_context("fork").Pool(2) as pool:
    for ours, name in zip(pool.map(read, NAMES), NAMES):
        same(ours, plain.groupby("k")["v"].sum())
        same(pd.read_parquet(f"{folder}/{name}.parquet"), ours.to_frame())
"""
    )
    run(program, file, tmp_path)


def test_a_child_raises_what_the_program_would(file: Path, tmp_path: Path) -> None:
    removed = tmp_path / "removed.parquet"
    removed.write_bytes(file.read_bytes())
    program = (
        BEGIN
        + """
gone = pd.read_parquet(sys.argv[2])
gone = gone[gone["v"] > 0]
os.remove(sys.argv[2])

def fails(number):
    try:
        [lambda: lazy["nothing"], lambda: gone.sum(), lambda: lazy["s"].astype(float)][number]()
    except Exception as error:
        return type(error).__name__, str(error)

with multiprocessing.get_context("fork").Pool(1) as pool:
    first, second, third = pool.map(fails, range(3))
assert first == ("KeyError", "'nothing'"), first
assert second[0] == "SourceChanged" and "removed" in second[1], second
try:
    plain["s"].astype(float)
except Exception as error:
    assert third == (type(error).__name__, str(error)), third
"""
    )
    run(program, file, removed)


def test_children_of_children_and_threads_in_them(file: Path) -> None:
    program = (
        BEGIN
        + """
import threading

def grandchild():
    same(chosen.sort_values("v")["v"], plain[plain["v"] > 10].sort_values("v")["v"])
    os._exit(0)

pid = os.fork()
if pid == 0:
    assert forks.kernel_lost()
    found = []
    def look(n):
        own = pd.read_parquet(PATH)
        found.append(float(own[own["k"] == n]["v"].sum()))
    threads = [threading.Thread(target=look, args=(n,)) for n in range(4)]
    for each in threads: each.start()
    for each in threads: each.join()
    assert sorted(found) == sorted(float(plain[plain["k"] == n]["v"].sum()) for n in range(4)), found
    inner = os.fork()
    if inner == 0:
        grandchild()
    assert os.waitpid(inner, 0)[1] == 0
    sys.exit(0)
assert os.waitpid(pid, 0)[1] == 0
"""
    )
    run(program, file)


def test_a_child_of_a_program_that_used_no_kernel_has_its_own(file: Path) -> None:
    program = """
import os, sys
import craton.pandas as pd
from craton import forks
memory = pd.DataFrame({"a": [1, 2]})
assert memory["a"].sum() == 3
for _ in range(2):
    pid = os.fork()
    if pid == 0:
        assert not forks.kernel_lost()
        lazy = pd.read_parquet(sys.argv[1])
        assert lazy.groupby("k")["v"].sum().shape == (7,)
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
"""
    run(program, file)


@pytest.mark.parametrize("how", ["normally", "by a kill"])
def test_the_process_that_runs_the_plans_ends_with_the_child(file: Path, how: str) -> None:
    program = (
        BEGIN
        + """
reading, writing = os.pipe()
pid = os.fork()
if pid == 0:
    len(chosen)
    from craton.engine import kernel_process
    helper = kernel_process._started._process.pid
    os.write(writing, str(helper).encode() + b" ")
    if sys.argv[2] == "normally":
        sys.exit(0)
    import time
    kernel_process.call_in_kernel_process(time.sleep, 1000)  # it works, and will not notice by itself
text = b""
while not text.endswith(b" "):
    text += os.read(reading, 100)
helper = int(text)
process = os.pidfd_open(helper)
if sys.argv[2] != "normally":
    os.kill(pid, signal.SIGKILL)
os.waitpid(pid, 0)
import select
assert select.select([process], [], [], 60)[0], "it goes on"
"""
    )
    run(program, file, how)


def test_many_pools_leave_nothing_behind(file: Path) -> None:
    program = (
        BEGIN
        + """
import gc
def work(n): return float(chosen[chosen["k"] == n]["v"].sum()), float(memory[memory["k"] == n]["v"].sum())
wanted = [(float(plain[(plain["v"] > 10) & (plain["k"] == n)]["v"].sum()), float(plain[plain["k"] == n]["v"].sum())) for n in range(4)]
descriptors = None
for turn in range(5):
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert np.allclose(pool.map(work, range(4)), wanted, rtol=0, atol=1e-6)
    pool.join()
    gc.collect()
    now = len(os.listdir("/proc/self/fd"))
    descriptors = now if descriptors is None else descriptors
    assert now <= descriptors, (descriptors, now)
"""
    )
    run(program, file)


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_fresh_processes(file: Path, tmp_path: Path, method: str) -> None:
    module = tmp_path / "worked.py"
    module.write_text("def top(frame):\n    return frame[frame['v'] > 10].groupby('k')['v'].sum()\n")
    script = tmp_path / "script.py"
    script.write_text(
        f"""
import multiprocessing, sys
import pandas
import craton.pandas as pd
from worked import top

if __name__ == "__main__":
    lazy, plain = pd.read_parquet(sys.argv[1]), pandas.read_parquet(sys.argv[1])
    lazy["v"].sum()
    with multiprocessing.get_context({method!r}).Pool(2) as pool:
        for ours in pool.map(top, [lazy, lazy[lazy["v"] > 0], pd.DataFrame(plain)]):
            pandas.testing.assert_series_equal(pandas.Series(ours), top(plain))
"""
    )
    ended = subprocess.run([sys.executable, str(script), str(file)], capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, ended.stderr


# -- pickles ----------------------------------------------------------------------------------------------------------


def _objects(module: Any, path: Path) -> dict[str, Any]:
    frame = module.DataFrame({"a": [1, 2, 3], "k": ["x", "y", "x"]})
    read = module.read_parquet(path)
    return {
        "frame": frame,
        "column": frame["a"],
        "read": read[read["v"] > 10].head(5),
        "group-by": frame.groupby("k"),
        "group-by of a column": frame.groupby("k")["a"],
        "group-by of what is read": read.head(50).groupby("k"),
        "window": frame.rolling(2),
        "grouped window": frame.groupby("k").rolling(2),
        "indexer": frame.loc,
        "accessor": frame["k"].str,
        "class": module.DataFrame,
        "class of columns": module.Series,
        "reader": module.read_csv,
        "function": module.concat,
        "conversion": module.to_datetime,
    }


OBJECTS = (
    "frame", "column", "read", "group-by", "group-by of a column", "group-by of what is read", "window", "grouped window",
    "indexer", "accessor", "class", "class of columns", "reader", "function", "conversion",
)  # fmt: skip


@pytest.mark.parametrize("pickler", [pickle, cloudpickle], ids=["pickle", "cloudpickle"])
@pytest.mark.parametrize("name", OBJECTS)
def test_a_pickle_is_about_as_large_as_pandas(file: Path, name: str, pickler: Any) -> None:
    ours, theirs = _objects(cpd, file)[name], _objects(pd, file)[name]
    assert len(pickler.dumps(ours)) <= len(pickler.dumps(theirs)) + 400
    again = pickler.loads(pickler.dumps(ours))
    assert type(again) is type(ours) or name.startswith("group-by") or name == "accessor"


def test_pickles_arrive_where_nothing_was_imported(file: Path) -> None:
    def used(frame: Any) -> Any:
        return frame[frame["a"] > 1].groupby("k")["a"].sum()

    with craton.option_context(small_rows=0):
        sent = {**_objects(cpd, file), "user's": used}
        parcel = cloudpickle.dumps(sent)
    program = """
import pickle, sys
assert "pandas" not in sys.modules
with open(sys.argv[1], "rb") as file:
    got = pickle.load(file)
import pandas, craton.pandas as pd
frame = pandas.DataFrame({"a": [1, 2, 3], "k": ["x", "y", "x"]})
def same(ours, theirs): pandas.testing.assert_series_equal(pandas.Series(ours), theirs)
same(got["frame"]["a"], frame["a"])
same(got["column"] + 1, frame["a"] + 1)
assert type(got["frame"]) is pd.DataFrame is got["class"] and type(got["column"]) is pd.Series is got["class of columns"]
same(got["frame"].groupby("k")["a"].sum(), frame.groupby("k")["a"].sum())
same(got["group-by"]["a"].sum(), frame.groupby("k")["a"].sum())
same(got["group-by of a column"].max(), frame.groupby("k")["a"].max())
assert type(got["group-by"].sum(numeric_only=True)) is pd.DataFrame
same(got["window"]["a"].sum(), frame.rolling(2)["a"].sum())
same(got["grouped window"]["a"].sum(), frame.groupby("k").rolling(2)["a"].sum())
same(got["indexer"][0], frame.loc[0])
same(got["accessor"].upper(), frame["k"].str.upper())
assert got["reader"] is pd.read_csv and got["function"] is pd.concat
same(got["user's"](got["frame"]), got["user's"](frame))
got["frame"]["new"] = 1
assert list(got["frame"]) == ["a", "k", "new"]
"""
    path = file.with_suffix(".pickle")
    path.write_bytes(parcel)
    run(program, path)


class Named(cpd.DataFrame):
    """A class defined by the user."""

    _metadata: ClassVar[list[str]] = ["title"]

    @property
    def _constructor(self) -> Any:
        return Named


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda o: pickle.loads(pickle.dumps(o))])
def test_copies_and_pickles_of_subclasses(again: Any) -> None:
    made = Named({"a": [1, 2]})
    made.title = "of two"
    assert type(again(made)) is Named
    pd.testing.assert_frame_equal(again(made), made)
    assert again(made).title == "of two"


def test_what_the_classes_say_of_themselves() -> None:
    assert (repr(cpd.DataFrame), cpd.DataFrame.__module__) == (repr(pd.DataFrame), pd.DataFrame.__module__)
    assert (repr(cpd.Series), cpd.Series.__module__) == (repr(pd.Series), pd.Series.__module__)
    assert type(cpd.DataFrame).__module__ == "craton.pandas.core.counterparts"
    assert pickle.loads(pickle.dumps(type(cpd.DataFrame))) is type(cpd.DataFrame)


# -- libraries that send functions and frames to processes ------------------------------------------------------------


def test_loky() -> None:
    program = """
import joblib, pandas
import craton.pandas as pd

frame = pd.DataFrame({"a": range(100), "k": [n % 3 for n in range(100)]})

def work(part, n):
    return part[part["k"] == n].groupby("k")["a"].sum()

found = joblib.Parallel(n_jobs=2, backend="loky")(joblib.delayed(work)(frame, n) for n in range(3))
plain = pandas.DataFrame(frame)
for n, ours in enumerate(found):
    pandas.testing.assert_series_equal(pandas.Series(ours), work(plain, n))
"""
    pytest.importorskip("joblib")
    run(program)


def test_a_search_over_parameters_in_processes() -> None:
    program = """
import numpy as np
import craton.pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

rng = np.random.default_rng(1)
frame = pd.DataFrame({"x": rng.normal(size=200), "y": rng.normal(size=200)})
target = frame["x"] * 2 + frame["y"]
model = make_pipeline(FunctionTransformer(lambda f: f.assign(z=f["x"] * f["y"])), StandardScaler(), Ridge())
search = GridSearchCV(model, {"ridge__alpha": [0.01, 1.0, 100.0]}, n_jobs=2, error_score="raise").fit(frame, target)
assert search.best_params_ == {"ridge__alpha": 0.01}, search.best_params_
"""
    pytest.importorskip("sklearn")
    run(program)
