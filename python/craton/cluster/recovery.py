"""Recovery from failures: reassigns the tasks of workers that end, recomputes lost outputs, and resumes stalled runs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

from craton.cluster.lineage import Lineage, reads_of
from craton.cluster.membership import Membership
from craton.cluster.placing import OutputLocation, PolicyName, place
from craton.cluster.runs import Run
from craton.schedule.pages import StoredOutput
from craton.schedule.tasks import Task, TaskLost

__all__ = ["Recovery", "ignore_result"]

# Seconds between checks for stalled runs, and the timeout of the workers' answers about them.
_STALL_CHECK, _ANSWER = 4.0, 2.0


class Recovery:
    """Assigns tasks to available bands, when a run begins and after failures.

    Parameters
    ----------
    membership
        The workers.
    lineage
        The outputs and the tasks that made them.
    policy
        The assignment policy.

    Attributes
    ----------
    runs : dict
        The current runs, by number.
    running : dict
        For each band, the keys of the tasks that it last reported as running.
    """

    def __init__(self, membership: Membership, lineage: Lineage, policy: PolicyName) -> None:
        self._members, self._lineage, self._policy = membership, lineage, policy
        self.runs: dict[int, Run] = {}
        self.running: dict[int, list[int]] = {}

    # ---- assignment ----

    def begin(self, run: Run, tasks: Sequence[Task]) -> None:
        """Assign the tasks of a new run to bands, together with the tasks that recompute lost inputs."""
        run.assign(tasks, *self._place(tasks, self._members.alive_bands()))
        if any(self.where(key) is None for task in tasks for key in reads_of(task) if key not in run.tasks):
            self.reassign(run, list(run.tasks))
        else:
            run.send(tasks, self.where, self._send, later=False)

    def reassign(self, run: Run, keys: Sequence[int]) -> None:
        """Assign tasks of a run to available bands again, together with the tasks that recompute lost inputs."""
        if not keys or run.ended.done():
            return
        wanted = set(keys)
        lost = {
            source
            for key in keys
            for source in reads_of(run.tasks[key])
            if source not in run.bands and self.where(source) is None
        }
        try:
            sources = [task for task in self._lineage.tasks_to_recompute(lost) if task.key not in run.bands]
        except KeyError as error:
            run.fail(TaskLost(str(error.args[0])))
            return
        tasks = [*sources, *[run.tasks[key] for key in run.tasks if key in wanted]]
        for task in sources:
            run.tasks.setdefault(task.key, task)
        living = self._members.alive_bands()
        if not living:
            run.assign(tasks, [-1] * len(tasks), range(len(tasks)))
            return
        bands, orders = self._place(tasks, living)
        run.assign(tasks, bands, orders)
        run.send(tasks, self.where, self._send, later=True)

    def _place(self, tasks: Sequence[Task], living: Sequence[int]) -> tuple[list[int], list[int]]:
        bands = self._members.bands
        return place(
            tasks, [bands[number] for number in living], self._policy, self._location, self._members.folders.machines_of
        )

    def _location(self, key: int) -> OutputLocation | None:
        made = self._lineage.get(key)
        if made is None or made.stored is None:
            return None
        return OutputLocation(made.output.band, made.stored.node, made.output.parts)

    def where(self, key: int) -> Any:
        """Return the location of a task's output, as a tuple; None if it is lost or does not exist."""
        made = self._lineage._made.get(key)
        return None if made is None or made.stored is None else tuple(made.stored)

    def _send(self, band: int, *message: Any) -> None:
        self._members.tell(self._members.ref(band).start.tell(*message))

    # ---- failures ----

    def recover_worker(self, band: int, why: str) -> None:
        """Recover from the end of a worker: assign its tasks to other bands, and forward its last outputs."""
        said, self.running[band] = self.running.get(band, []), []
        for run in list(self.runs.values()):
            keys = run.of_band(band)
            if not keys:
                continue
            running = [key for key in said if key in run.bands]
            run.count_death(running or self._probably_running(run, keys, band), why)
            self.reassign(run, keys)
        for run in list(
            self.runs.values()
        ):  # it may have reported outputs here, but not yet to the bands that read them
            for other, made in run.made_by(band).items():
                self._send_locations(run, other, made)

    def reassign_waiting(self) -> None:
        """Assign the tasks that waited for an available band."""
        for run in list(self.runs.values()):
            self.reassign(run, run.of_band(-1))

    def reassign_bands(self, bands: Iterable[int]) -> None:
        """Assign the tasks of bands that were ended on purpose to others; this does not count as a failure of the tasks."""
        for band in bands:
            self.running[band] = []
            for run in list(self.runs.values()):
                self.reassign(run, run.of_band(band))

    def lose_outputs(self, keys: Sequence[int]) -> None:
        """Record that the pages of outputs are gone, and recompute those that belong to a current run."""
        self._lineage.lose(keys)
        for run in list(self.runs.values()):
            self.reassign(run, [key for key in keys if key in run.tasks and key not in run.bands])

    def _send_locations(self, run: Run, band: int, keys: Iterable[int]) -> None:
        """Send the locations of outputs to a band."""
        made = [(run.number, key, StoredOutput(*stored)) for key in keys if (stored := self.where(key)) is not None]
        if made and band >= 0:
            self._members.tell(self._members.ref(band).made.tell(made))

    def _probably_running(self, run: Run, keys: list[int], band: int) -> list[int]:
        """Guess which tasks a band was running when it died without a report: the first tasks that were ready."""
        ready = [key for key in keys if not any(source in run.bands for source in reads_of(run.tasks[key]))]
        ready.sort(key=lambda key: run.orders[key])
        return ready[: self._members.bands[band].threads]

    # ---- stalled runs ----

    async def watch_runs(self) -> None:
        """Check periodically for stalled runs, and resume them. A run stalls if a message is lost when its sender or receiver dies."""
        seen: dict[int, int] = {}
        while True:
            await asyncio.sleep(_STALL_CHECK)
            for run in list(self.runs.values()):
                if seen.get(run.number) == run.changes and not run.ended.done():
                    await self._resume(run)
                else:
                    run.missing_before.clear()
            seen = {run.number: run.changes for run in self.runs.values()}

    async def _resume(self, run: Run) -> None:
        """Query the workers for their tasks of a run; reassign tasks that no worker has, and recompute inputs that are lost."""
        before = run.changes
        loop, living = asyncio.get_running_loop(), self._members.alive_bands()
        asked = [loop.create_task(self._members.ref(band).held_tasks(run.number)) for band in living]
        if not asked:
            return
        await asyncio.wait(asked, timeout=_ANSWER)
        held: dict[int, set[int]] = {
            band: set() for band, member in enumerate(self._members.members) if not member.alive
        }
        missing: dict[int, list[int]] = {}
        for band, one in zip(living, asked, strict=True):
            if not one.done():
                one.add_done_callback(ignore_result)
            elif one.exception() is None:
                keys, missing[band] = one.result()
                held[band] = set(keys)
        if run.changes != before or run.ended.done():
            return
        again = run.missing_tasks(held)
        for band, keys in missing.items():
            there = [key for key in keys if key not in run.bands]
            self._send_locations(run, band, there)
            gone = {key for key in there if self.where(key) is None}
            again += [key for key in held[band] if key in run.bands and not gone.isdisjoint(reads_of(run.tasks[key]))]
        if again:
            self.reassign(run, list(dict.fromkeys(again)))


def ignore_result(task: asyncio.Task[Any]) -> None:
    """Retrieve the exception of a task that is no longer awaited, so that asyncio does not log it as never retrieved."""
    if not task.cancelled():
        task.exception()
