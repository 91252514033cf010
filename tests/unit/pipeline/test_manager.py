"""Admission of steps: memory, processors, fairness, priorities, eviction, and what is learned."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from craton.pipeline.history import History, Run
from craton.pipeline.manager import Manager, Request, TooLarge
from craton.store import Store

MIB = 1 << 20


class Reservation:
    def __init__(self, memory: Fake, nbytes: int) -> None:
        self.memory, self.nbytes = memory, nbytes

    def release(self) -> None:
        self.memory.reserved -= self.nbytes
        self.nbytes = 0


class Fake:
    """Memory of which pages in use cannot be evicted, and others can."""

    def __init__(self, limit: int, pages: int = 0, in_use: int = 0) -> None:
        self.limit, self.pages, self.in_use, self.reserved, self.most = limit, pages, in_use, 0, 0

    def state(self) -> tuple[int, int, int]:
        return self.limit, self.pages + self.in_use, self.reserved

    def reserve(self, nbytes: int, at_least: int | None = None) -> Reservation:
        if self.in_use + self.reserved + (nbytes if at_least is None else at_least) > self.limit:
            raise MemoryError("pages are in use")
        nbytes = min(nbytes, self.limit - self.in_use - self.reserved)
        self.reserved += nbytes
        self.pages = min(self.pages, self.limit - self.reserved - self.in_use)
        self.most = max(self.most, self.reserved)
        return Reservation(self, nbytes)


class Program(threading.Thread):
    """A step that asks, runs for some seconds, and ends."""

    def __init__(self, manager: Manager, seconds: float, order: list[str], **request: Any) -> None:
        super().__init__()
        self.manager, self.seconds, self.order, self.request = manager, seconds, order, Request(**request)
        self.error: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            grant = self.manager.admit(self.request)
        except Exception as error:
            self.error = error
            return
        self.order.append(self.request.step)
        time.sleep(self.seconds)
        grant.release()
        grant.finish(grant.projected)


def finish(programs: list[Program]) -> None:
    for program in programs:
        program.join(30)
        assert not program.is_alive()


def test_memory_is_never_promised_twice_and_every_step_runs() -> None:
    memory = Fake(1_000)
    manager = Manager(memory, cpus=100)
    order: list[str] = []
    needs = np.random.default_rng(3).integers(50, 600, 40)
    programs = [
        Program(manager, 0.004, order, pipeline=f"p{i % 3}", step=str(i), key="k", memory=int(need))
        for i, need in enumerate(needs)
    ]
    finish(programs)
    assert sorted(order, key=int) == [str(i) for i in range(40)]
    assert memory.most <= 1_000
    assert memory.reserved == 0
    assert {one.step for one in manager.decisions if one.admitted} == set(order)
    assert all(one.reason for one in manager.decisions)


def test_processors() -> None:
    manager = Manager(Fake(1_000), cpus=2)
    running: list[int] = [0, 0]

    def step(i: int) -> None:
        grant = manager.admit(Request("p", str(i), "k", memory=1, cpus=1 if i % 5 else 3))
        running[0] += grant.request.cpus
        running[1] = max(running)
        time.sleep(0.003)
        running[0] -= grant.request.cpus
        grant.finish()

    threads = [threading.Thread(target=step, args=(i,)) for i in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert running[1] in (2, 3)  # a step that asks for more processors than there are runs alone


def test_what_can_never_run_is_an_error_at_once() -> None:
    memory = Fake(1_000, in_use=700)
    manager = Manager(memory, cpus=4)
    with pytest.raises(TooLarge, match="limit of all is 1,000"):
        manager.admit(Request("p", "a", "k", memory=1_001))
    with pytest.raises(TooLarge, match="pages in use"):
        manager.admit(Request("p", "b", "k", memory=400))
    manager.admit(Request("p", "c", "k", memory=300)).finish()
    assert memory.reserved == 0


def test_cancelled() -> None:
    manager = Manager(Fake(1_000), cpus=4)
    grant = manager.admit(Request("p", "a", "k", memory=900))
    with pytest.raises(InterruptedError):
        manager.admit(Request("p", "b", "k", memory=900), cancelled=lambda: True)
    grant.finish()
    manager.admit(Request("p", "c", "k", memory=900)).finish()


def test_priorities_depth_and_fairness() -> None:
    manager = Manager(Fake(1_000), cpus=1)
    first = manager.admit(Request("p", "first", "k", memory=1))
    order: list[str] = []
    programs = []
    with manager.pipeline("p"), manager.pipeline("q"), manager.pipeline("urgent"):
        for i in range(4):
            programs.append(Program(manager, 0.01, order, pipeline="p", step=f"p{i}", key="k", memory=1, depth=i))
        programs.append(Program(manager, 0.01, order, pipeline="q", step="q0", key="k", memory=1))
        programs.append(Program(manager, 0.01, order, pipeline="urgent", step="u0", key="k", memory=1, priority=1))
        time.sleep(0.1)
        first.finish()
        finish(programs)
    assert order[0] == "u0"
    assert order.index("q0") <= 2  # though all steps of p came first
    assert [step for step in order if step.startswith("p")] == ["p3", "p2", "p1", "p0"]


def test_a_large_step_is_not_overtaken_for_ever() -> None:
    manager = Manager(Fake(1_000), cpus=8)
    order: list[str] = []
    held = [manager.admit(Request("p", f"held{i}", "k", memory=100)) for i in range(2)]
    large = Program(manager, 0, order, pipeline="p", step="large", key="k", memory=1_000)
    time.sleep(0.05)
    small = [Program(manager, 0.02, order, pipeline="p", step=f"s{i}", key="k", memory=100) for i in range(60)]
    time.sleep(0.1)
    for grant in held:
        grant.finish()
    finish([large, *small])
    assert order.index("large") <= 30


@pytest.mark.parametrize(("remaining", "evicts"), [(0.001, False), (100.0, True)])
def test_eviction_or_waiting_whichever_is_cheaper(remaining: float, evicts: bool) -> None:
    history = History()
    history.add("long", Run(0, 100, 0, remaining))
    now = [0.0]
    manager = Manager(Fake(100 * MIB, pages=60 * MIB), cpus=4, history=history, clock=lambda: now[0])
    running = manager.admit(Request("p", "running", "long", memory=30 * MIB))
    order: list[str] = []
    program = Program(manager, 0, order, pipeline="p", step="next", key="k", memory=40 * MIB)
    time.sleep(0.4)
    assert order == (["next"] if evicts else [])
    running.finish()
    finish([program])
    assert order == ["next"]
    reasons = [one.reason for one in manager.decisions if one.step == "next"]
    assert any("evicting pages" in reason for reason in reasons)


def test_needs_are_learned_and_survive(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "steps.json"
    history = History(path)
    manager = Manager(Fake(1_000 * MIB), cpus=4, history=history)
    assert not history.knows("k")
    before = manager.admit(Request("p", "a", "k", input_bytes=100 * MIB))
    before.finish(peak=10 * MIB, output=5 * MIB)
    after = manager.admit(Request("q", "b", "k", input_bytes=200 * MIB))
    assert before.projected > 200 * MIB
    assert after.projected == pytest.approx(22 * MIB)
    after.finish(None)  # a failure teaches nothing
    assert history.output("k", 200 * MIB) == 10 * MIB
    history.save()
    again = History(path)
    assert again.memory("k", 50 * MIB) == history.memory("k", 50 * MIB) == int(1.1 * 10 * MIB)
    path.write_text("{damaged")
    assert not History(path).knows("k")
    assert [one.name for one in path.parent.iterdir()] == ["steps.json"]


def test_a_store_makes_room(tmp_path: Path) -> None:
    from craton.pipeline.manager import StoreMemory

    with Store.open(64 * MIB, directory=tmp_path) as store:
        held = store.create_set()
        held.append(pa.table({"a": np.arange(6 * MIB)}))
        manager = Manager(StoreMemory(store), cpus=2)
        grant = manager.admit(Request("p", "a", "k", memory=50 * MIB))
        assert store.counters()["reserved"] == grant.reserved == 50 * MIB
        assert store.counters()["page_memory"] == 0
        grant.release()
        assert held.to_arrow()["a"].to_numpy().sum() == 6 * MIB * (6 * MIB - 1) // 2
        page = held.pin(held.pages()[0])
        with pytest.raises(TooLarge):
            Manager(StoreMemory(store), cpus=2).admit(Request("p", "b", "k", memory=50 * MIB))
        del page
        grant.finish(1)


def test_inputs_are_in_memory_while_a_step_runs(tmp_path: Path) -> None:
    from craton.pipeline.manager import StoreMemory
    from craton.pipeline.runs.tables import InputPages

    def filled(start: int) -> Any:
        held = store.create_set()
        for part in range(2):  # two pages of 12 MiB
            held.append(pa.table({"a": np.arange(start, start + 1.5 * MIB) + part}))
        return held

    with Store.open(64 * MIB, directory=tmp_path) as store:
        first, second = filled(0), filled(7)
        manager = Manager(StoreMemory(store), cpus=2)
        manager.admit(Request("p", "all", "k", memory=60 * MIB)).finish(1)
        assert {info.location for one in (first, second) for info in one.pages()} == {"disk"}
        inputs = InputPages([first])
        assert inputs.absent() == sum(info.nbytes for info in first.pages())
        grant = manager.admit(Request("p", "a", "k2", input_bytes=24 * MIB, memory=30 * MIB, inputs=inputs))
        assert store.counters()["reserved"] == 30 * MIB + inputs.absent()
        grant.load()
        assert inputs.absent() == 0
        assert store.counters()["reserved"] == 30 * MIB
        # The pages of a running step are not evicted, so this one has to wait for it.
        waiting = Program(
            manager, 0.0, [], pipeline="p", step="b", key="k3", memory=20 * MIB, inputs=InputPages([second])
        )
        time.sleep(0.1)
        assert waiting.is_alive()
        assert first.to_arrow()["a"][0].as_py() == 0
        grant.finish(1)
        waiting.join(10)
        assert not waiting.is_alive()
        assert waiting.error is None
        assert store.counters()["reserved"] == 0


def test_a_guess_that_is_too_large_stops_no_step_that_is_alone(tmp_path: Path) -> None:
    from craton.pipeline.manager import StoreMemory

    with Store.open(64 * MIB, directory=tmp_path) as store:
        held = store.create_set()
        held.append(pa.table({"a": np.arange(3 * MIB)}))
        page = held.pin(held.pages()[0])
        manager = Manager(StoreMemory(store), cpus=2)
        grant = manager.admit(
            Request("p", "unknown", "k", input_bytes=1 << 20)
        )  # 2 x its input, and more for the unknown
        assert 0 < grant.reserved <= 40 * MIB
        with pytest.raises(TooLarge):
            Manager(StoreMemory(store), cpus=2).admit(Request("p", "declared", "k", memory=50 * MIB))
        grant.finish(1)
        del page


@pytest.mark.parametrize(("pages", "order"), [(0, ["large", "last"]), (600, ["last", "large"])])
def test_waiting_tables_are_taken_before_new_ones_are_made(pages: int, order: list[str]) -> None:
    """A pipeline that has run goes after one that has not, unless memory is short and its step takes a table that waits."""
    manager = Manager(Fake(1_000, pages=pages), cpus=1)
    found: list[str] = []
    with manager.pipeline("had a turn"), manager.pipeline("new"):
        first = manager.admit(Request("had a turn", "first", "k", memory=1))
        time.sleep(0.05)
        programs = [
            Program(manager, 0.02, found, pipeline="new", step="large", key="m", memory=700),
            Program(manager, 0.02, found, pipeline="had a turn", step="last", key="l", memory=10, depth=1),
        ]
        time.sleep(0.1)
        first.finish()
        finish(programs)
    assert found == order
