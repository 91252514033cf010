"""Functions that run in processes of their own: what they take, what they return, and where its memory is."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pandas.testing import assert_frame_equal, assert_series_equal
from sandboxed import Steps, needs_linux, wait_for

import craton.pandas as cpd
from craton.pipeline.sandboxes import Sandboxes
from craton.pipeline.tasks import Limits, Setting, StepRunner, StepTask
from craton.store import Store

pytestmark = needs_linux


def numbers(n: int) -> pa.Table:
    return pa.table({"a": np.arange(n), "b": np.arange(n) * 0.5})


def test_a_chain_writes_only_what_is_new(steps: Steps) -> None:
    runner: StepRunner = steps.sandboxes

    def source(n: int) -> pa.Table:
        return pa.table({"a": np.arange(n), "b": np.arange(n) * 0.5})

    def add(table: pa.Table, factor: float) -> pa.Table:
        return table.append_column("c", pc.multiply(pc.add(table["a"], table["b"]), factor))

    def project(table: pa.Table) -> pa.Table:
        return table.select(["c", "a"]).slice(100_000, 500_000)

    def keep(table: pa.Table) -> pa.Table:
        return table.filter(pc.greater(table["a"], 599_990))

    first = steps.run(source, n=1_000_000)
    assert (first.new, first.copied, first.shared) == (16_000_000, 0, 0)
    second = runner.run(steps.task(add, {"table": (first.outputs[None], "arrow")}, factor=2.0))
    assert (second.new, second.copied, second.shared) == (8_000_000, 0, 16_000_000)
    used = steps.store.counters()["slab_used"]
    assert used < 25_000_000
    third = steps.run(project, {"table": (second.outputs[None], "arrow")})
    assert (third.new, third.copied) == (0, 0)
    assert steps.store.counters()["slab_used"] == used
    last = steps.run(keep, {"table": (third.outputs[None], "arrow")})
    assert last.outputs[None].rows == 9
    del first, second  # the projection keeps the memory that it refers to
    table = third.outputs[None].pages.to_arrow()
    assert table.column_names == ["c", "a"]
    assert table["c"][0].as_py() == 2.0 * (100_000 + 50_000)
    assert last.outputs[None].pages.to_arrow()["a"].to_pylist() == list(range(599_991, 600_000))
    assert last.seconds > 0
    assert last.cpu_seconds > 0


def test_pandas_gets_what_pandas_returned(steps: Steps) -> None:
    index = pd.MultiIndex.from_arrays([["x", "y", "x", None], [1, 2, 3, 4]], names=["k", None])
    expected = pd.DataFrame(
        {
            "f": [1.5, np.nan, -0.0, np.inf],
            "i": [1, 2, 3, 4],
            "t": ["a", None, "b", "a"],
            "c": pd.Categorical(["lo", "hi", None, "lo"], categories=["lo", "hi"], ordered=True),
            "d": pd.to_datetime(["2020-01-01", None, "2021-06-01", "2022-01-01"]).tz_localize("Europe/Berlin"),
            "o": pd.Series([1, "two", None, 3.5], dtype=object),
            7: pd.array([True, None, False, True], dtype="boolean"),
        }
    ).set_index(index)
    expected.attrs = {"source": "a test", "numbers": [1, 2]}

    def make() -> pd.DataFrame:
        return expected

    def change(frame: pd.DataFrame) -> pd.DataFrame:
        before = frame.copy()
        frame.loc[frame["i"] > 2, "f"] = 9.0  # its memory is the store's: pandas copies the column first
        frame["i"] += 1
        assert before["f"].iloc[2] == 0
        return frame

    made = steps.one(make)
    assert made.form == "pandas"
    changed = steps.one(change, {"frame": (made, "pandas")})

    def look(one: pd.DataFrame, two: pd.DataFrame) -> dict[str, Any]:
        import pickle

        return {"seen": np.frombuffer(pickle.dumps((one, two)), np.uint8)}

    import pickle

    seen = steps.one(look, {"one": (made, "pandas"), "two": (changed, "pandas")})
    one, two = pickle.loads(seen.pages.to_arrow()["values"].combine_chunks().to_numpy().tobytes())
    assert_frame_equal(one, expected)
    assert one.attrs == expected.attrs
    wanted = expected.copy()
    wanted.loc[wanted["i"] > 2, "f"] = 9.0
    wanted["i"] += 1
    assert_frame_equal(two, wanted)


def test_pandas_reads_and_returns_the_stores_memory(steps: Steps) -> None:
    def make(n: int) -> pd.DataFrame:
        return pd.DataFrame(
            {"x": np.where(np.arange(n) % 5 == 0, np.nan, np.arange(n)), "y": np.arange(n), "s": "text"}
        )

    def derive(frame: pd.DataFrame) -> pd.DataFrame:
        assert not frame["x"].to_numpy().flags.writeable
        assert not frame["y"].to_numpy().flags.writeable
        frame["z"] = frame["x"].fillna(0) + frame["y"]
        return frame[["x", "y", "z"]]

    n = 400_000
    made = steps.run(make, n=n)
    derived = steps.run(derive, {"frame": (made.outputs[None], "pandas")})
    assert derived.shared >= 16 * n
    assert derived.new == 8 * n
    assert derived.copied == n / 8  # a bitmap, too small for the allocator's shared memory
    table = derived.outputs[None].pages.to_arrow()
    assert table["x"].null_count == n // 5
    assert pc.sum(table["z"]).as_py() == sum(i * 2 if i % 5 else i for i in range(n))


def test_each_form_is_given_and_taken(steps: Steps) -> None:
    table = pa.table({"k": [1, 2, 3], "t": ["a", None, "c"]})

    def make() -> pa.Table:
        return table

    def kinds(one: Any, two: Any, three: Any, four: Any) -> pa.Table:
        return pa.table({"kind": [type(value).__name__ for value in (one, two, three, four)]})

    def polars(frame: Any) -> Any:
        return frame.lazy().with_columns(double=pl.col("k") * 2, t=pl.col("t").fill_null("b"))

    def craton(frame: Any) -> Any:
        return frame[frame["double"] > 2].groupby("t", as_index=False)["double"].sum()

    def series(frame: Any) -> Any:
        return frame["double"].rename(("a", "tuple"))

    def back(values: Any) -> Any:
        assert values.name == ("a", "tuple")
        return values.to_numpy().reshape(1, 2)

    def array(values: np.ndarray) -> np.ndarray:
        return np.asfortranarray(np.vstack([values, values * 2]))

    made = steps.one(make)
    forms = steps.one(
        kinds, {"one": (made, "arrow"), "two": (made, "pandas"), "three": (made, "polars"), "four": (made, "craton")}
    )
    assert forms.pages.to_arrow()["kind"].to_pylist() == ["Table", "DataFrame", "DataFrame", "DataFrame"]
    of_polars = steps.one(polars, {"frame": (made, "polars")})
    assert (of_polars.form, of_polars.pages.to_arrow()["t"].to_pylist()) == ("polars", ["a", "b", "c"])
    of_craton = steps.one(craton, {"frame": (of_polars, "craton")})
    assert (of_craton.form, of_craton.rows) == ("craton", 2)
    of_series = steps.one(series, {"frame": (of_craton, "pandas")})
    of_numpy = steps.one(back, {"values": (of_series, "pandas")})
    final = steps.one(array, {"values": (of_numpy, "numpy")})
    assert (final.form, final.rows) == ("numpy", 2)

    def check(values: np.ndarray) -> np.ndarray:
        assert values.flags.f_contiguous
        assert not values.flags.writeable
        return values.sum(axis=0)

    total = steps.one(check, {"values": (final, "numpy")})
    assert total.pages.to_arrow()["values"].to_pylist() == [12, 18]


def test_several_outputs_share_memory(steps: Steps) -> None:
    def split(n: int) -> dict[str, Any]:
        whole = pa.table({"a": np.arange(n), "b": np.arange(n) * 2})
        return {"head": whole.slice(0, n // 2), "all": whole, "frame": pd.DataFrame({"x": [1.0]}, index=["label"])}

    outcome = steps.run(split, n=500_000)
    assert list(outcome.outputs) == ["head", "all", "frame"]
    assert [one.rows for one in outcome.outputs.values()] == [250_000, 500_000, 1]
    assert outcome.outputs["frame"].form == "pandas"
    assert steps.store.counters()["slab_used"] < 8_100_000
    head = outcome.outputs["head"].pages.to_arrow()
    del outcome
    assert head["b"][-1].as_py() == 499_998


def test_iterators_of_batches(steps: Steps) -> None:
    def batches(count: int) -> Iterator[pa.RecordBatch]:
        for number in range(count):
            yield pa.record_batch({"n": np.full(50_000, number)})

    def frames() -> Iterator[pd.DataFrame]:
        yield pd.DataFrame({"x": [1, 2]})
        yield pd.DataFrame({"x": [3]})

    def reader(table: pa.Table) -> Any:
        return table.to_reader(10_000)

    def length(frame: pd.DataFrame) -> pd.DataFrame:
        return frame.tail(1)

    made = steps.run(batches, count=8)
    assert made.outputs[None].rows == 400_000
    assert len(made.outputs[None].pages) == 8
    read = steps.run(reader, {"table": (made.outputs[None], "arrow")})
    assert read.new == read.copied == 0
    last = steps.one(length, {"frame": (steps.one(frames), "pandas")})
    assert last.pages.to_arrow().column_names == ["x"]
    assert last.pages.to_arrow()["x"].to_pylist() == [3]

    def labels(frame: pd.DataFrame) -> pd.DataFrame:
        return frame.reset_index()

    assert steps.one(labels, {"frame": (last, "pandas")}).pages.to_arrow()["index"].to_pylist() == [2]


def test_what_is_printed_is_kept(steps: Steps) -> None:
    def talk(lines: int) -> pa.Table:
        import ctypes
        import subprocess
        import sys

        print("from Python")
        sys.stderr.write("an error\n")
        ctypes.CDLL(None).puts(b"from C")
        subprocess.run(["echo", "from a program"], check=True)
        for number in range(lines):
            print(number, "x" * 1000)
        print("the end", end="")
        return pa.table({"n": [1]})

    printed = steps.run(talk, lines=0).printed
    assert {"from Python", "an error", "from C", "from a program", "the end"} == set(printed.splitlines())
    long = steps.run(talk, lines=3_000).printed
    assert "from Python" in long
    assert long.endswith("the end")
    assert len(long) < 500_000


def test_limits_settings_and_descriptors(steps: Steps) -> None:
    def see() -> pa.Table:
        import os
        import random
        import resource

        return pa.table(
            {
                "cpus": [len(os.sched_getaffinity(0))],
                "threads": [pa.cpu_count()],
                "variable": [os.environ.get("STEP_VARIABLE")],
                "path": [os.environ["PATH"]],
                "preload": [os.environ.get("LD_PRELOAD")],
                "open": [sorted(map(int, os.listdir("/proc/self/fd")))],
                "folder": [os.getcwd()],
                "core": [resource.getrlimit(resource.RLIMIT_CORE)[0]],
                "random": [random.random() + np.random.rand()],
                "parent": [os.getppid()],
                "leads": [os.getpgid(0) == os.getpid() == os.getsid(0)],
            }
        )

    one = steps.one(see, limits=Limits(cpus=1)).pages.to_arrow().to_pylist()[0]
    assert (one["cpus"], one["threads"], one["variable"], one["preload"], one["core"]) == (1, 1, None, None, 0)
    assert one["folder"] == os.getcwd()
    assert one["path"] == os.environ["PATH"]
    assert one["leads"]
    assert set(one["open"]) & set(range(20)) <= {0, 1, 2, 3}  # 3 lists the others
    with Sandboxes(steps.store) as others:
        two = others.run(steps.task(see, setting=Setting(variables=(("STEP_VARIABLE", "set"),))))
        (output,) = two.outputs.values()
        two_seen = output.pages.to_arrow().to_pylist()[0]
        assert two_seen["variable"] == "set"
        assert two_seen["random"] != one["random"]
        assert two_seen["parent"] != one["parent"]


def test_two_callers_at_once(steps: Steps) -> None:
    results: dict[int, int] = {}

    def work(number: int) -> pa.Table:
        return pa.table({"n": np.arange(50_000) + number})

    def call(number: int) -> None:
        for turn in range(4):
            table = steps.one(work, number=number * 10 + turn).pages.to_arrow()
            results[number * 10 + turn] = table["n"][0].as_py()

    threads = [threading.Thread(target=call, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {number: number for number in results}
    assert len(results) == 12


def test_a_store_in_another_process_gets_a_copy(steps: Steps) -> None:
    def add(frame: pd.DataFrame) -> pd.DataFrame:
        frame["y"] = frame["x"] * 2
        return frame

    frame = pd.DataFrame({"x": np.arange(100_000)}, index=pd.Index(np.arange(100_000) * 3, name="label"))

    def make() -> dict[str, Any]:
        return {"one": frame, "two": pa.table({"n": [1]})}

    far = Store.connect(steps.store.serve())
    with Sandboxes(far, size=1) as sandboxes:
        made = sandboxes.run(steps.task(make))
        assert made.new == 0
        assert made.copied > 1_600_000
        outcome = sandboxes.run(steps.task(add, {"frame": (made.outputs["one"], "pandas")}))
        assert outcome.shared >= 1_600_000
        assert outcome.copied < 1_000_000
        table = outcome.outputs[None].pages.to_arrow()
        assert table["y"][-1].as_py() == 199_998
        assert table["label"][-1].as_py() == 299_997
        del made, outcome, table
    far.close()


def test_what_is_larger_than_the_store_is_refused(tmp_path: Any, steps: Steps) -> None:
    def make(n: int) -> pa.Table:
        return pa.table({"n": np.arange(n)})

    with Store.open(4 << 20, directory=tmp_path) as small, Sandboxes(small) as sandboxes:
        here = Steps(small, sandboxes)
        kept = here.one(make, n=400_000)
        error = here.failing(make, n=4_000_000)
        assert error.cause == "memory"
        assert "no room" in str(error)
        for _ in range(4):  # older pages are written to disk, and read for the next step
            here.one(make, n=300_000)

        def last(table: pa.Table) -> pa.Table:
            return table.slice(table.num_rows - 1)

        assert here.one(last, {"table": (kept, "arrow")}).pages.to_arrow()["n"].to_pylist() == [399_999]
        assert small.counters()["written"] > 0


def test_close_ends_what_runs(steps: Steps) -> None:
    from craton.pipeline.tasks import StepError

    def sleep() -> None:
        import time

        time.sleep(1000)

    sandboxes = Sandboxes(steps.store, size=2)
    errors: list[StepError] = []

    def call() -> None:
        try:
            sandboxes.run(steps.task(sleep))
        except StepError as error:
            errors.append(error)

    threads = [threading.Thread(target=call) for _ in range(3)]
    for thread in threads:
        thread.start()
    assert wait_for(lambda: "2 running" in repr(sandboxes))
    sandboxes.close()
    for thread in threads:
        thread.join()
    assert [error.cause for error in errors] == ["ended"] * 3
    sandboxes.close()
    with pytest.raises(StepError, match="closed"):
        sandboxes.run(StepTask("sleep", b"", {}, {}))


def test_series_of_all_kinds(steps: Steps) -> None:
    values = {
        "periods": pd.Series(pd.period_range("2020", periods=3, freq="M")),
        "text": pd.Series(["a", None, "b"], index=pd.date_range("2020", periods=3, freq="D"), dtype=object),
        "lists": pd.Series([[1], None, [2, 3]]),
        "complex": pd.Series([1 + 2j, 3, np.nan]),
    }

    def make() -> dict[str, Any]:
        return values

    def same(**given: Any) -> dict[str, Any]:
        return given

    made = steps.run(make).outputs
    again = steps.run(same, {str(name): (stored, "pandas") for name, stored in made.items()}).outputs
    from craton.pipeline.conversion import given

    for name, expected in values.items():
        assert_series_equal(given(again[name].pages.to_arrow(), "pandas", "pandas"), expected)
    assert isinstance(given(again["lists"].pages.to_arrow(), "pandas", "craton"), cpd.Series)


def test_files_are_decoded_once_and_dictionaries_are_shared(steps: Steps, tmp_path: Path) -> None:
    path = str(tmp_path / "file.parquet")
    n = 300_000
    words = pa.array([f"word {number % 5_000}" for number in range(n)])
    pq.write_table(pa.table({"k": np.arange(n) % 10, "x": np.arange(n) * 0.5, "w": words}), path)

    def total(path: str) -> Any:
        import craton.pandas as pd

        return pd.read_parquet(path).groupby("k", as_index=False)["x"].sum()

    def encode(table: pa.Table) -> pa.Table:
        return table.append_column("d", pc.dictionary_encode(table["w"]))

    def slice_of(table: pa.Table) -> pa.Table:
        return table.select(["d"]).slice(1000, 250_000)

    first, second = steps.run(total, path=path), steps.run(total, path=path)
    assert second.outputs[None].pages.to_arrow().equals(first.outputs[None].pages.to_arrow())
    decoded = steps.store.describe().set_index("name").loc[f"decoded:{path}"]
    assert decoded["misses"] == 0
    assert decoded["hits"] == 2 * decoded["pages"]

    def read(path: str) -> pa.Table:
        import pyarrow.parquet

        return pyarrow.parquet.read_table(path, columns=["w"])

    encoded = steps.one(encode, {"table": (steps.one(read, path=path), "arrow")})
    part = steps.run(slice_of, {"table": (encoded, "arrow")})
    assert (part.new, part.copied) == (0, 0)
    table = part.outputs[None].pages.to_arrow()
    assert pa.types.is_dictionary(table["d"].type)
    assert table["d"].cast(pa.string()).to_pylist() == words.to_pylist()[1000:251_000]
    steps.store.get_set(f"decoded:{path}").drop()


def test_an_interpreter_that_does_not_start(steps: Steps) -> None:
    def never() -> pa.Table:
        return pa.table({"n": [1]})

    setting = Setting(variables=(("PYTHONHOME", "/no/such/folder"),))
    error = steps.failing(never, setting=setting)
    assert error.cause == "environment"
    assert "PYTHONHOME" in error.message
    steps.sandboxes.forget(setting)
