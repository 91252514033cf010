"""The contract of hosts: every host passes the same tests."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import random
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from jobs import Dies, Fills, Mixed, Pid, Raises, RaisesElsewhere, RaisesOdd, ShortOfMemory, Sleeps, Times, graph
from watching import until

from craton.actor.wire.peers import Peers
from craton.cluster.sessions import ClusterSession
from craton.memory import clear_memory
from craton.schedule.inline import InlineRunner
from craton.schedule.tasks import Output, Read, Task, TaskLost, new_key
from craton.store import Store, default_store


def run(session: ClusterSession, tasks: list[Task]) -> list[Output]:
    return session.call(session.runner.run(tasks))


def fetch(session: ClusterSession, key: int, part: int = 0) -> pa.Table:
    return session.call(session.runner.fetch(key, part))


def release(session: ClusterSession, tasks: list[Task]) -> None:
    async def go() -> None:
        session.runner.release([task.key for task in tasks])

    session.call(go())


def expected(tasks: list[Task]) -> tuple[list[Output], dict[tuple[int, int], list[Any]]]:
    """Return the outputs of a run by the inline runner, and the rows of all parts."""

    async def go() -> tuple[list[Output], dict[tuple[int, int], list[Any]]]:
        with Store.open(1 << 28) as store:
            runner = InlineRunner(store)
            outputs = await runner.run(tasks)
            rows = {
                (task.key, part): (await runner.fetch(task.key, part)).to_pylist()
                for task in tasks
                for part in range(task.parts)
            }
            return outputs, rows

    return asyncio.run(go())


def check(session: ClusterSession, tasks: list[Task], outputs: list[Output], sample: int = 10) -> None:
    """Check the outputs of a run, and release them."""
    right, rows = expected(tasks)
    for mine, its in zip(outputs, right, strict=True):
        assert (mine.key, mine.value, [part.rows for part in mine.parts]) == (
            its.key,
            its.value,
            [part.rows for part in its.parts],
        )
    for key, part in random.Random(0).sample(sorted(rows), min(sample, len(rows))):
        table = fetch(session, key, part)
        assert table.to_pylist() == rows[key, part]
        assert table.schema.names == ["n", "text"]
    release(session, tasks)


def nothing_is_left(session: ClusterSession) -> None:
    assert len(session.runner._lineage) == 0
    clear_memory()  # drop results that other tests have cached
    until(lambda: len(default_store().describe()) == 0)


def test_a_session(session: ClusterSession) -> None:
    workers = session.info()
    assert workers["alive"].all()
    assert workers["pid"].nunique() == len(workers) == len(session.runner.bands)
    assert os.getpid() not in workers["pid"].tolist()
    assert (workers["memory_limit"] > 0).all()
    assert "2 workers" in repr(session)
    assert "<table" in session._repr_html_()


def test_a_thousand_tasks_of_a_random_graph(session: ClusterSession) -> None:
    tasks = graph(1, 1000)
    outputs = run(session, tasks)
    assert {output.band for output in outputs} == {0, 1}
    check(session, tasks, outputs)
    nothing_is_left(session)


def test_concurrent_runs_and_reading_outputs_of_earlier_runs(session: ClusterSession) -> None:
    async def go(some: list[list[Task]]) -> list[list[Output]]:
        return list(await asyncio.gather(*[session.runner.run(tasks) for tasks in some]))

    some = [graph(seed, 50) for seed in range(2, 5)]
    for tasks, outputs in zip(some, session.call(go(some)), strict=True):
        (reader,) = run(session, [Task(new_key(), Mixed(1, 1), (Read((tasks[0].key,)),))])
        assert reader.value is not None
        session.runner.release([reader.key])
        check(session, tasks, outputs, 5)
    nothing_is_left(session)


def test_put_is_read_by_workers(session: ClusterSession) -> None:
    table = pa.table({"n": list(range(1000))})
    put = session.call(session.runner.put(table))
    assert (put.rows, put.parts[0].nbytes) == (1000, 8000)
    task = Task(new_key(), Mixed(5, 1), (Read((put.key,), (0,), (10, 20)),))
    (output,) = run(session, [task])
    assert output.value == (5 * 31 + sum(range(10, 30)) + 1) % 1_000_003
    assert fetch(session, put.key).equals(table)
    session.runner.release([put.key])
    release(session, [task])
    nothing_is_left(session)


def test_an_error_ends_the_run_at_once(session: ClusterSession, tmp_path: Path) -> None:
    class Local(ValueError):
        """A class that other processes cannot import."""

    slow = [Task(new_key(), Sleeps(60)) for _ in range(8)]
    for error in (ZeroDivisionError("a reason"), Local("another"), KeyError("k")):
        began = time.monotonic()
        with pytest.raises(type(error)) as found:
            run(session, [Task(new_key(), Raises(error), stage="the stage"), *slow])
        assert time.monotonic() - began < 5
        assert found.value.args == error.args
        assert "the stage" in str(found.value.__cause__)
        assert "in run" in str(found.value.__cause__)
    nothing_is_left(session)
    until(lambda: session.info()["running"].sum() == 0)


def test_errors_and_results_that_cannot_be_sent_to_the_driver(session: ClusterSession) -> None:
    with pytest.raises(RuntimeError, match=r"no such module here.*Elsewhere"):
        run(session, [Task(new_key(), RaisesElsewhere(os.getpid()))])
    with pytest.raises(RuntimeError, match="Odd: cannot be made again"):
        run(session, [Task(new_key(), RaisesOdd())])
    with pytest.raises(TypeError, match="frame"):
        run(session, [Task(new_key(), RaisesOdd(returns=True))])
    with pytest.raises(ValueError, match="which does not exist"):
        run(session, [Task(new_key(), Pid(), (Read((10**9,)),))])
    source = Task(new_key(), Mixed(1, 2), (), 2)
    with pytest.raises(IndexError, match="part 3 of the output"):
        run(session, [source, Task(new_key(), Pid(), (Read((source.key,), (3,)),))])
    with pytest.raises(KeyError, match="never made"):
        fetch(session, 10**9)
    nothing_is_left(session)


def test_an_idle_worker_steals_tasks_from_the_busy_one(session: ClusterSession) -> None:
    # All tasks read the same output, so all are assigned to one worker.
    source = Task(new_key(), Mixed(1, 1))
    readers = [Task(new_key(), Pid(0.1), (Read((source.key,)),)) for _ in range(50)]
    outputs = run(session, [source, *readers])
    release(session, [source, *readers])
    assert len({output.value for output in outputs[1:]}) == 2
    nothing_is_left(session)


@pytest.mark.parametrize("how", ["kill", "exit"])
def test_a_task_survives_its_worker(session: ClusterSession, tmp_path: Path, how: str) -> None:
    source = Task(new_key(), Mixed(3, 4), (), 4)
    dies = Task(new_key(), Dies(tmp_path, 2, how), (Read((source.key,)),))
    outputs = run(session, [source, dies])
    assert outputs[1].value == 2
    assert fetch(session, source.key, 1) is not None
    release(session, [source, dies])
    nothing_is_left(session)


def test_a_task_that_kills_every_worker_is_lost(session: ClusterSession, tmp_path: Path) -> None:
    task = Task(new_key(), Dies(tmp_path, 99), stage="the deadly stage")
    with pytest.raises(TaskLost, match=r"task \d+ \(the deadly stage\).*3 times(?s:.*)SIGKILL(?s:.*)last words"):
        run(session, [task])
    nothing_is_left(session)
    until(lambda: bool(session.info()["alive"].all()))


@pytest.mark.parametrize("times", [2, pytest.param(50, marks=pytest.mark.slow)])
def test_kills_at_random_moments(session: ClusterSession, times: int) -> None:
    rng = random.Random(7)
    for seed in range(times):
        tasks = graph(10 + seed, 100, 0.01)
        pid = rng.choice(session.info()["pid"].tolist())
        timer = threading.Timer(rng.random() * 0.4, kill, [pid])
        timer.start()
        outputs = run(session, tasks)
        timer.join()
        check(session, tasks, outputs, 10)
        until(lambda: bool(session.info()["alive"].all()))
    nothing_is_left(session)


def kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("deep", [False, True])
def test_an_interrupt_ends_the_run(session: ClusterSession, tmp_path: Path, deep: bool) -> None:
    begun = [tmp_path / str(number) for number in range(2)]
    tasks = [Task(new_key(), Sleeps(60, deep, one)) for one in begun]
    at: list[float] = []

    def interrupt() -> None:
        with contextlib.suppress(AssertionError):
            until(lambda: all(one.exists() for one in begun))
        at.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    # A test run that was started in the background ignores SIGINT.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            run(session, tasks)
    finally:
        signal.signal(signal.SIGINT, before)
    took = time.monotonic() - at[0]
    thread.join()
    assert took < 1.5
    nothing_is_left(session)
    until(lambda: bool(session.info()["alive"].all()))
    again = [Task(new_key(), Pid())]
    assert len(run(session, again)) == 1
    release(session, again)


async def pid_of(address: str) -> int:
    return (await Peers.here().get(address)).pid  # type: ignore[return-value]


def test_a_machine_that_is_lost(session: ClusterSession) -> None:
    nodes = session.runner.host.nodes
    if len(nodes) == 1:
        pytest.skip("one machine only, the driver's own")
    tasks = graph(20, 60)
    outputs = run(session, tasks)
    release(session, some := tasks[::3])
    for moment in (0.0, 0.05):
        more = graph(21, 40, 0.01)
        timer = threading.Timer(moment, kill, [session.call(pid_of(nodes[1].address))])
        timer.start()
        check(session, more, run(session, more), 5)
        timer.join()
        until(lambda: bool(session.info()["alive"].all()))
    right = expected(tasks)[1]
    for task in tasks:
        if task not in some:
            assert fetch(session, task.key).to_pylist() == right[task.key, 0]
    del outputs
    release(session, tasks)
    assert len(session.runner._lineage) == 0
    nothing_is_left(session)


def test_tasks_wait_for_memory(session: ClusterSession) -> None:
    need = min(band.memory for band in session.runner.bands) * 6 // 10
    tasks = [Task(new_key(), Times(0.05), memory=need) for _ in range(6)]
    times: dict[int, list[tuple[float, float]]] = {}
    for output in run(session, tasks):
        times.setdefault(output.band, []).append(output.value)
    for some in times.values():
        some.sort()
        assert all(one[1] <= other[0] for one, other in itertools.pairwise(some))
    release(session, tasks)
    # A task that can never fit runs nevertheless, alone.
    large = Task(new_key(), Times(0.0), memory=1 << 50)
    run(session, [large])
    release(session, [large])
    nothing_is_left(session)


def test_a_task_that_runs_out_of_memory_is_retried_once(session: ClusterSession, tmp_path: Path) -> None:
    task = Task(new_key(), ShortOfMemory(tmp_path / "once", 1))
    run(session, [task])
    release(session, [task])
    with pytest.raises(MemoryError, match="no room"):
        run(session, [Task(new_key(), ShortOfMemory(tmp_path / "always", 10))])
    assert [(tmp_path / name).stat().st_size for name in ("once", "always")] == [2, 2]
    nothing_is_left(session)


def test_memory_is_measured(session: ClusterSession) -> None:
    task = Task(new_key(), Fills(64 << 20), memory=80 << 20)
    (output,) = run(session, [task])
    assert 50 << 20 < output.memory <= 80 << 20
    release(session, [task])
