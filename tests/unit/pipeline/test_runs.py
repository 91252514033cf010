"""Runs of pipelines: order, failures, retries, partial runs, checks, and how many steps run at once."""

from __future__ import annotations

import gc
import os
import random
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from sandboxed import descendants, wait_for
from stores import NUMBERS, Counting, run, states

import craton
import craton.pandas
from craton.pipeline import ExpectationWarning, Pipeline, PipelineFailed, RunSettings
from craton.pipeline.manager import Manager, StoreMemory
from craton.pipeline.runs.in_process import InProcess
from craton.pipeline.tasks import Outcome, StepTask
from craton.store import Store


def test_a_program_of_several_forms(store: Store) -> None:
    @craton.step
    def doubled(numbers: pa.Table, *, factor: int = 2) -> pa.Table:
        return numbers.append_column("m", pc.multiply(numbers["n"], factor))

    @craton.step
    def grouped(doubled: pd.DataFrame) -> pd.DataFrame:
        doubled.loc[0, "m"] = 100  # a change of the input is not seen by others
        return doubled.groupby("g", dropna=False)["m"].sum().rename_axis("key").to_frame()

    @craton.step
    def sorted_by(grouped: pl.DataFrame, doubled: pl.DataFrame) -> pl.DataFrame:
        assert doubled["m"].to_list()[0] != 100
        return grouped.sort("m", descending=True)

    @craton.step
    def array(doubled: np.ndarray) -> np.ndarray:  # type: ignore[type-arg]
        return np.arange(len(doubled)) / 2

    @craton.step
    def lazy(grouped: craton.pandas.DataFrame) -> craton.pandas.DataFrame:
        return grouped[grouped["m"] > 5]

    @craton.step
    def batches(doubled: pa.Table) -> Any:
        yield from doubled.select(["m"]).to_batches(max_chunksize=2)

    result = run([doubled, grouped, sorted_by, array, lazy, batches], store)
    expected = pd.DataFrame({"m": [106, 4, 8]}, index=pd.Index(["a", "b", None], dtype="str", name="key"))
    pd.testing.assert_frame_equal(result["grouped"], expected)
    assert result["sorted_by"]["m"].to_list() == [106, 8, 4]
    np.testing.assert_array_equal(result["array"], np.arange(4) / 2)
    assert isinstance(result["lazy"], craton.pandas.DataFrame)
    pd.testing.assert_frame_equal(pd.DataFrame(result["lazy"]), expected[expected["m"] > 5])
    assert result["batches"]["m"].to_pylist() == [2, 4, 6, 8]
    assert result.table("doubled", "pandas")["m"].tolist() == [2, 4, 6, 8]
    assert list(result) == ["doubled", "grouped", "sorted_by", "array", "lazy", "batches"]
    assert result.steps.loc["grouped", "rows"] == 3
    changed = run([doubled, grouped, sorted_by, array, lazy, batches], store, parameters={"factor": 10})
    assert changed["doubled"]["m"].to_pylist() == [10, 20, 30, 40]
    assert result["doubled"]["m"].to_pylist() == [2, 4, 6, 8]
    with pytest.raises(KeyError, match="no step 'grouper'; did you mean 'grouped'"):
        result["grouper"]
    with pytest.raises(KeyError, match="is a source"):
        result["numbers"]


@pytest.mark.parametrize("seed", range(8))
def test_random_graphs_give_what_plain_calls_give(seed: int, store: Store) -> None:
    chance = random.Random(seed)
    names = [f"s{number}" for number in range(12)]
    inputs = {
        name: chance.sample(["numbers", *names[:place]], min(place + 1, chance.randint(1, 3)))
        for place, name in enumerate(names)
    }
    failing = set(chance.sample(names, chance.choice([0, 1, 2])))
    functions = []
    for name in names:
        taken = ", ".join(inputs[name])
        text = f"def {name}({taken}):\n    "
        summed = f"return pa.table({{'n': [1 + sum(t['n'][0].as_py() for t in ({taken},))]}})"
        text += "raise ValueError('bad')" if name in failing else summed
        scope: dict[str, Any] = {"pa": pa}
        exec(text, scope)
        functions.append(scope[name])
    expected: dict[str, int | None] = {"numbers": 1}
    for name in names:
        values = [expected[one] for one in inputs[name]]
        expected[name] = (
            None if name in failing or None in values else 1 + sum(value for value in values if value is not None)
        )
    chance.shuffle(functions)
    result = run(functions, store, settings=RunSettings(check=False))
    good = {name for name, value in expected.items() if value is not None}
    for name in names:
        if expected[name] is None:
            assert states(result)[name] == ("failed" if set(inputs[name]) <= good else "skipped")
            with pytest.raises(KeyError, match=name):
                result[name]
        else:
            assert result[name]["n"].to_pylist() == [expected[name]]
    assert set(result.errors) == {name for name, state in states(result).items() if state == "failed"}
    again = run(functions, store, settings=RunSettings(check=False))
    assert {name for name, state in states(again).items() if state == "cached"} == {
        name for name in names if expected[name] is not None
    }


def test_a_failed_step_stops_only_those_that_need_it(store: Store) -> None:
    @craton.step
    def good(numbers: pa.Table) -> pa.Table:
        return numbers

    @craton.step
    def bad(good: pa.Table) -> pa.Table:
        raise ValueError("no such price")

    @craton.step
    def after(bad: pa.Table) -> pa.Table:
        return bad

    @craton.step
    def beside(good: pa.Table) -> pa.Table:
        return good.slice(1)

    with pytest.raises(PipelineFailed) as caught:
        run([good, bad, after, beside], store)
    text = str(caught.value)
    assert "step 'bad': ValueError: no such price" in text
    assert 'raise ValueError("no such price")' in text
    assert "test_runs.py" in text
    assert "did not run, since they need what failed: after" in text
    assert states(caught.value.result) == {"good": "ran", "bad": "failed", "after": "skipped", "beside": "ran"}
    assert caught.value.result["beside"]["n"].to_pylist() == [2, 3, 4]
    with pytest.raises(KeyError, match="'after' made no such table; it did not run: bad failed"):
        caught.value.result["after"]


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (lambda numbers: None, "returned None"),
        (lambda numbers: 3, "returned an object of type int"),
        (lambda numbers: {}, "empty dict"),
        (lambda numbers: {"a": 1}, "for 'a'"),
        (lambda numbers: iter([]), "no batches"),
    ],
)
def test_rubbish_is_refused(function: Any, text: str, store: Store) -> None:
    with pytest.raises(PipelineFailed, match=f"(?s)step 'rubbish'.*{text}"):
        run([craton.step(name="rubbish")(function)], store)


def test_retries(store: Store) -> None:
    @craton.step(retries=2)
    def flaky(numbers: pa.Table) -> pa.Table:
        return numbers

    pipeline = Pipeline([flaky], sources={"numbers": NUMBERS})
    runner = Counting(store, {"flaky": 2})
    result = pipeline.run(store=store, runner=runner)
    assert (runner.calls, result.steps.loc["flaky", "attempts"]) == (["flaky"] * 3, 3)
    runner = Counting(store, {"flaky": 3})
    with pytest.raises(PipelineFailed, match="its process was killed"):
        pipeline.run(store=store, runner=runner, start="flaky")
    assert len(runner.calls) == 3


def test_partial_runs(store: Store) -> None:
    @craton.step
    def a(numbers: pa.Table) -> pa.Table:
        return numbers

    @craton.step
    def b(a: pa.Table) -> pa.Table:
        return a.slice(1)

    @craton.step
    def c(b: pa.Table) -> pa.Table:
        return b.slice(1)

    @craton.step
    def d(a: pa.Table) -> pa.Table:
        return a

    @craton.expect
    def of_b(b: pa.Table) -> bool:
        return b.num_rows == 3

    @craton.expect
    def of_c(c: pa.Table) -> bool:
        return c.num_rows == 2

    pipeline = Pipeline([a, b, c, d, of_b, of_c], sources={"numbers": NUMBERS})

    def calls(**options: Any) -> list[str]:
        runner = Counting(store)
        pipeline.run(store=store, runner=runner, **options)
        return sorted(runner.calls)

    assert calls(only="b") == ["a", "b", "of_b"]
    assert calls(only="c") == ["c", "of_b", "of_c"]
    assert calls() == ["d", "of_b", "of_c"]
    assert calls(start="b") == ["b", "c", "of_b", "of_c"]
    assert calls(start=["c"]) == ["c", "of_b", "of_c"]
    assert calls(only=["d"]) == []
    assert calls(settings=RunSettings(cache=False)) == ["a", "b", "c", "d", "of_b", "of_c"]
    plan = pipeline.plan(store=store)
    assert plan["state"].to_dict() == {
        "a": "cached",
        "b": "cached",
        "of_b": "run",
        "c": "cached",
        "of_c": "run",
        "d": "cached",
    }
    assert set(pipeline.plan(store=store, start="c").query("state == 'run'").index) == {"c", "of_b", "of_c"}


def test_checks_stop_or_warn(store: Store) -> None:
    ran = []

    @craton.step(persist=True)
    def prices(numbers: pa.Table, *, least: int = 0) -> pa.Table:
        return numbers.filter(pc.field("n") > least)

    @craton.expect
    def enough(prices: pd.DataFrame, *, rows: int = 3) -> Any:
        assert len(prices) >= rows, f"only {len(prices)} prices"

    @craton.expect(action="warn")
    def small(prices: pa.Table) -> str | bool:
        return pc.max(prices["n"]).as_py() < 4 or "a price is large"

    @craton.step
    def total(prices: pa.Table) -> pa.Table:
        return pa.table({"t": [pc.sum(prices["n"])]})

    pipeline = Pipeline([prices, enough, small, total], sources={"numbers": NUMBERS})
    with pytest.warns(ExpectationWarning, match="test_runs.py:[0-9]+: check 'small' failed: a price is large"):
        result = pipeline.run(store=store, in_process=True)
    assert result["total"]["t"].to_pylist() == [10]
    assert len(result.warnings) == 1
    assert states(result)["small"] == "warned"
    kept = store.get_set("prices").to_arrow()
    with (
        pytest.warns(ExpectationWarning),
        pytest.raises(PipelineFailed, match="check 'enough' failed: only 2 prices") as caught,
    ):
        pipeline.run(store=store, in_process=True, parameters={"least": 2})
    assert states(caught.value.result)["total"] == "skipped"
    assert store.get_set("prices").to_arrow().equals(kept)  # what failed its check is not published
    with pytest.warns(ExpectationWarning):
        assert pipeline.run(store=store, in_process=True, parameters={"least": 2, "enough.rows": 2})["total"][
            "t"
        ].to_pylist() == [7]
    assert ran == []


def test_a_check_over_a_step_and_what_is_made_of_it_does_not_wait_for_itself(store: Store) -> None:
    @craton.step
    def first(numbers: pa.Table) -> pa.Table:
        return numbers

    @craton.step
    def second(first: pa.Table) -> pa.Table:
        return first

    @craton.step
    def third(first: pa.Table) -> pa.Table:
        return first

    @craton.expect
    def same(first: pa.Table, second: pa.Table) -> bool:
        return first.num_rows == second.num_rows

    @craton.expect
    def same_too(first: pa.Table, third: pa.Table) -> bool:
        return first.num_rows == third.num_rows

    assert set(states(run([first, second, third, same, same_too], store)).values()) == {"ran"}


def test_checks_that_answer_with_something_else_fail(store: Store) -> None:
    @craton.expect
    def odd(numbers: pa.Table) -> Any:
        return 3

    with pytest.raises(PipelineFailed, match="a check returns True, False or a text"):
        run([odd], store)


def test_steps_of_several_pipelines_are_shared(store: Store) -> None:
    @craton.step
    def base(numbers: pa.Table) -> pa.Table:
        return numbers.slice(1)

    @craton.step
    def left(base: pa.Table) -> pa.Table:
        return base.slice(1)

    @craton.step
    def right(base: pa.Table) -> pa.Table:
        return base.slice(2)

    runner = Counting(store)
    pipelines = [Pipeline([base, one], sources={"numbers": NUMBERS}) for one in (left, right) * 4]
    results: dict[int, Any] = {}

    def go(number: int) -> None:
        results[number] = pipelines[number].run(store=store, runner=runner)

    threads = [threading.Thread(target=go, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(runner.calls) == ["base", "left", "right"]
    for number in range(8):
        assert results[number]["right" if number % 2 else "left"]["n"].to_pylist() == ([4] if number % 2 else [3, 4])


def test_as_many_steps_run_at_once_as_processors_and_memory_allow(store: Store) -> None:
    running, most = 0, 0
    others: list[str] = []
    lock = threading.Lock()
    together = threading.Barrier(2, timeout=60)

    class Observing(InProcess):
        def run(self, task: StepTask) -> Outcome:
            nonlocal running, most
            with lock:
                running += 1
                most = max(most, running)
            if task.limits.memory is None:
                together.wait()
            elif not others:  # the first of them ends when the others wait
                assert wait_for(lambda: len(heavy._waiting) == 3)
                others.append(task.step)
            try:
                return super().run(task)
            finally:
                with lock:
                    running -= 1

    def light(numbers: pa.Table) -> pa.Table:
        return numbers

    steps = [craton.step(name=f"light{number}")(lambda numbers: numbers) for number in range(4)]
    pipeline = Pipeline(steps, sources={"numbers": NUMBERS})
    pipeline.run(store=store, runner=Observing(store), manager=Manager(StoreMemory(store), 2))
    assert most == 2
    running = most = 0
    steps = [craton.step(name=f"heavy{number}", memory=150 << 20)(lambda numbers: numbers) for number in range(4)]
    heavy = Manager(StoreMemory(store), 4)
    result = Pipeline(steps, sources={"numbers": NUMBERS}).run(store=store, runner=Observing(store), manager=heavy)
    assert most == 1
    assert "running steps have reserved the memory that it needs" in set(result.decisions["reason"])
    with pytest.raises(PipelineFailed, match="step 'huge': it needs 1,073,741,824 bytes, and the limit of all is"):
        run([craton.step(name="huge", memory="1GiB")(light)], store)


def test_an_interrupted_run_starts_nothing_more(store: Store) -> None:
    calls = []

    @craton.step
    def first(numbers: pa.Table) -> pa.Table:
        return numbers

    @craton.step
    def second(first: pa.Table) -> pa.Table:
        return first

    def report(name: str, ended: Any) -> None:
        calls.append(name)
        if name == "first":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run([first, second], store, settings=RunSettings(report=report))
    assert calls[-1] == "first"


def test_processes_of_their_own(store: Store) -> None:
    @craton.step
    def doubled(numbers: pa.Table, *, factor: int = 2) -> pa.Table:
        return numbers.append_column("m", pc.multiply(numbers["n"], factor))

    @craton.step(map_over="doubled", partitions=2)
    def parts(doubled: pd.DataFrame) -> pd.DataFrame:
        print("a part")
        return doubled[["m"]]

    @craton.expect
    def enough(parts: pl.DataFrame) -> bool:
        return len(parts) == 4

    @craton.step
    def bad(doubled: pa.Table) -> pa.Table:
        raise ValueError("a bad table")

    pipeline = Pipeline([doubled, parts, enough, bad], sources={"numbers": NUMBERS})
    with pytest.raises(PipelineFailed, match="step 'bad': ValueError: a bad table") as caught:
        pipeline.run(store=store)
    result = caught.value.result
    assert result["parts"]["m"].tolist() == [2, 4, 6, 8]
    assert result.records["parts"].printed == "a part\na part\n"
    assert states(result) == {"doubled": "ran", "parts": "ran", "enough": "ran", "bad": "failed"}


def test_processes_stay_warm_until_their_store_is_closed(tmp_path: Path) -> None:
    @craton.step(cache=False)
    def parent(numbers: pa.Table) -> pa.Table:
        return pa.table({"pid": [os.getppid()]})

    before = set(descendants())
    pipeline = Pipeline([parent], sources={"numbers": NUMBERS})
    with Store.open(1 << 28, directory=tmp_path) as store:
        zygotes = set()
        for _ in range(3):
            pipeline.run(store=store)
            assert wait_for(lambda: len(set(descendants()) - before) == 1)  # keepers have ended
            zygotes |= set(descendants()) - before
        assert len(zygotes) == 1
    assert wait_for(lambda: set(descendants()) <= before)
    dropped = Store.open(1 << 28, directory=tmp_path)
    pipeline.run(store=dropped)
    assert wait_for(lambda: set(descendants()) - before)
    del dropped
    gc.collect()
    assert wait_for(lambda: set(descendants()) <= before)


def test_pipelines_that_need_several_times_the_memory(tmp_path: Path) -> None:
    """Tables of steps are evicted before the next step reads them."""

    def table(*, rows: int) -> pa.Table:
        return pa.table({"n": np.arange(rows), "m": np.arange(rows) * 0.5})

    @craton.step
    def total(table: pa.Table) -> pa.Table:
        return pa.table({"n": [pc.sum(table["n"]).as_py()], "m": [pc.sum(table["m"]).as_py()]})

    sizes = [100_000 + 30_000 * number for number in range(12)]  # 2 to 7 MB, 51 in all
    made = craton.step(source=True, name="table", memory=12 << 20)(table)
    results: list[Any] = [None] * len(sizes)

    with Store.open(16 << 20, directory=tmp_path) as store:

        def one(number: int) -> None:
            pipeline = Pipeline([made, total], parameters={"rows": sizes[number]})
            result = pipeline.run(store=store, settings=RunSettings(cache=False))
            results[number] = (result["total"].to_pylist(), result.records["table"].rows)

        threads = [threading.Thread(target=one, args=(number,)) for number in range(len(sizes))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for rows, found in zip(sizes, results, strict=True):
            assert found == ([{"n": rows * (rows - 1) // 2, "m": rows * (rows - 1) / 4}], rows)
        assert store.counters()["written"] > 0
