"""The projected memory of tasks covers their measured memory: joins and aggregates of many sizes, in a worker."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import craton
import craton.pandas as pd
from craton.cluster.sessions import ClusterSession
from craton.engine.tiled import TiledEngine, using
from craton.lower.tiled import Settings
from craton.memory import clear_memory
from craton.schedule.memory_accounting import SMALL_NEED, projected_memory
from craton.schedule.tasks import Band, Output, Runner, RunProgress, Task, Traffic

SIZES = [30_000, 300_000, pytest.param(3_000_000, marks=pytest.mark.slow)]


class Recorder:
    """A runner that records the projected and the measured memory of each task."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._outputs: dict[int, Output] = {}
        self.found: list[tuple[str, int, int]] = []

    @property
    def bands(self) -> tuple[Band, ...]:
        return self._runner.bands

    async def run(self, tasks: Sequence[Task]) -> list[Output]:
        outputs = await self._runner.run(tasks)
        self._outputs |= {output.key: output for output in outputs}
        for task, output in zip(tasks, outputs, strict=True):
            reads = sum(
                self._outputs[key].parts[part].nbytes
                for read in task.inputs
                for key in read.tasks
                for part in read.parts
            )
            need = projected_memory(task.memory, reads, task.nbytes)
            if need:
                self.found.append((task.stage, need, output.memory))
        return outputs

    async def put(self, data: Any) -> Output:
        output = await self._runner.put(data)
        self._outputs[output.key] = output
        return output

    async def fetch(self, key: int, part: int = 0) -> pa.Table:
        return await self._runner.fetch(key, part)

    def release(self, keys: Any) -> None:
        self._runner.release(keys)

    def progress(self) -> list[RunProgress]:
        return self._runner.progress()

    async def traffic(self) -> Traffic:
        return await self._runner.traffic()


@pytest.fixture(scope="module")
def session() -> Iterator[ClusterSession]:
    craton.shutdown()
    with pytest.MonkeyPatch.context() as patch:
        # The allocator must not retain memory of earlier tasks, because a task that reuses it would appear to need less.
        patch.setenv("_RJEM_MALLOC_CONF", "dirty_decay_ms:0,muzzy_decay_ms:0")
        begun = craton.init("local", workers=1, threads=1)
    assert isinstance(begun, ClusterSession)
    yield begun
    craton.shutdown()


def frames(rows: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(rows)
    left = {"key": rng.integers(0, rows, rows), "group": rng.integers(0, 100, rows), "value": rng.random(rows)}
    right = {"key": rng.permutation(rows), "other": rng.random(rows), "name": [f"name {n % 1000}" for n in range(rows)]}
    return pd.DataFrame(left), pd.DataFrame(right)


PROGRAMS = {
    "join": lambda left, right: left.merge(right, on="key"),
    "join of few": lambda left, right: left.merge(right[right["other"] < 0.05], on="key"),
    "few groups": lambda left, right: left.groupby("group").agg({"value": ["sum", "mean", "max"]}),
    "many groups": lambda left, right: left.groupby("key").agg({"value": ["sum", "mean", "max"]}),
    "join and groups": lambda left, right: left.merge(right, on="key").groupby("name")["value"].sum(),
}


@pytest.mark.parametrize("rows", SIZES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_projected_memory_covers_measured_memory(session: ClusterSession, name: str, rows: int) -> None:
    clear_memory()
    recorder = Recorder(session.runner)
    settings = Settings(tiles=3, broadcast_bytes=1, collapse_bytes=0)
    engine = TiledEngine(recorder, session.call, settings=settings, least_bytes=0)
    with craton.option_context(small_rows=0), using(engine):
        result = PROGRAMS[name](*frames(rows))
        assert len(result) > 0
    clear_memory()
    assert recorder.found
    for stage, need, memory in recorder.found:
        print(f"{name}, {rows:,} rows, {stage}: expected {need / 1e6:.1f} MB, measured {memory / 1e6:.1f} MB")
        # The tolerance is SMALL_NEED: tasks that need less run without a reservation, and allocators retain about as much.
        assert memory <= need + SMALL_NEED, stage
