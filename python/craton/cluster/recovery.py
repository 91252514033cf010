"""What is lost is made good: tasks of workers that end, outputs whose pages are gone, runs that stand still."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

from craton.cluster.lineage import Lineage, reads_of
from craton.cluster.membership import Membership
from craton.cluster.placing import OutputLocation, PolicyName, place
from craton.cluster.runs import Run
from craton.schedule.pages import Stored
from craton.schedule.tasks import Task, TaskLost

__all__ = ["Recovery", "heard"]

# Seconds between looks whether runs stand still, and for workers to say what they have of them.
_STILL, _SAYS = 4.0, 2.0


class Recovery:
    """Gives tasks to bands that live, at first and again.

    Parameters
    ----------
    membership
        The workers.
    lineage
        What was made, and of what.
    policy
        Which band runs which task.

    Attributes
    ----------
    runs : dict
        Those that go on, by number.
    running : dict
        What each band has said last that it runs.
    """

    def __init__(self, membership: Membership, lineage: Lineage, policy: PolicyName) -> None:
        self._members, self._lineage, self._policy = membership, lineage, policy
        self.runs: dict[int, Run] = {}
        self.running: dict[int, list[int]] = {}

    # ---- giving tasks out ----

    def begin(self, run: Run, tasks: Sequence[Task]) -> None:
        """Give the tasks of a new run to bands, with what makes those of their inputs that are lost."""
        run.assign(tasks, *self._placed(tasks, self._members.living()))
        if any(self.where(key) is None for task in tasks for key in reads_of(task) if key not in run.tasks):
            self.again(run, list(run.tasks))
        else:
            run.send(tasks, self.where, self._send, later=False)

    def again(self, run: Run, keys: Sequence[int]) -> None:
        """Give tasks to bands that live, and with them what makes their inputs that are lost."""
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
            sources = [task for task in self._lineage.again(lost) if task.key not in run.bands]
        except KeyError as error:
            run.fail(TaskLost(str(error.args[0])))
            return
        tasks = [*sources, *[run.tasks[key] for key in run.tasks if key in wanted]]
        for task in sources:
            run.tasks.setdefault(task.key, task)
        living = self._members.living()
        if not living:
            run.assign(tasks, [-1] * len(tasks), range(len(tasks)))
            return
        bands, orders = self._placed(tasks, living)
        run.assign(tasks, bands, orders)
        run.send(tasks, self.where, self._send, later=True)

    def _placed(self, tasks: Sequence[Task], living: Sequence[int]) -> tuple[list[int], list[int]]:
        bands = self._members.bands
        return place(tasks, [bands[number] for number in living], self._policy, self._location)

    def _location(self, key: int) -> OutputLocation | None:
        made = self._lineage.get(key)
        if made is None or made.stored is None:
            return None
        return OutputLocation(made.output.band, made.stored.node, made.output.parts)

    def where(self, key: int) -> Any:
        """Where the output of a task is; None if it is nowhere."""
        made = self._lineage._made.get(key)
        return None if made is None or made.stored is None else tuple(made.stored)

    def _send(self, band: int, *message: Any) -> None:
        self._members.tell(self._members.ref(band).start.tell(*message))

    # ---- what is lost ----

    def lost(self, band: int, why: str) -> None:
        """Make good the end of a worker."""
        said, self.running[band] = self.running.get(band, []), []
        for run in list(self.runs.values()):
            keys = run.of_band(band)
            if not keys:
                continue
            running = [key for key in said if key in run.bands]
            run.suspect(running or self._first_ready(run, keys, band), why)
            self.again(run, keys)
        for run in list(self.runs.values()):  # it may not have told others what it has told here
            for other, made in run.made_by(band).items():
                self._tell_where(run, other, made)

    def restarted(self) -> None:
        """Give out what no band had, as one lives again."""
        for run in list(self.runs.values()):
            self.again(run, run.of_band(-1))

    def without(self, bands: Iterable[int]) -> None:
        """Give the tasks of bands to others: their workers are ended, and the tasks are not to blame."""
        for band in bands:
            self.running[band] = []
            for run in list(self.runs.values()):
                self.again(run, run.of_band(band))

    def gone(self, keys: Sequence[int]) -> None:
        """Take note of outputs whose pages are gone; those that a run wants are made again."""
        self._lineage.lose(keys)
        for run in list(self.runs.values()):
            self.again(run, [key for key in keys if key in run.tasks and key not in run.bands])

    def _tell_where(self, run: Run, band: int, keys: Iterable[int]) -> None:
        """Tell a band where outputs are."""
        made = [(run.number, key, Stored(*stored)) for key in keys if (stored := self.where(key)) is not None]
        if made and band >= 0:
            self._members.tell(self._members.ref(band).made.tell(made))

    def _first_ready(self, run: Run, keys: list[int], band: int) -> list[int]:
        """What a band ran, most likely, if it died before it could say so."""
        ready = [key for key in keys if not any(source in run.bands for source in reads_of(run.tasks[key]))]
        ready.sort(key=lambda key: run.orders[key])
        return ready[: self._members.bands[band].threads]

    # ---- what stands still ----

    async def look_after(self) -> None:
        """Have runs go on that stand still: a message may have been lost with the process that sent it, or was sent it."""
        seen: dict[int, int] = {}
        while True:
            await asyncio.sleep(_STILL)
            for run in list(self.runs.values()):
                if seen.get(run.number) == run.changes and not run.ended.done():
                    await self._look_into(run)
                else:
                    run.lost_sight.clear()
            seen = {run.number: run.changes for run in self.runs.values()}

    async def _look_into(self, run: Run) -> None:
        """Ask the workers what they have of a run; make good what nobody has, and what they wait for in vain."""
        before = run.changes
        loop, living = asyncio.get_running_loop(), self._members.living()
        asked = [loop.create_task(self._members.ref(band).holds(run.number)) for band in living]
        if not asked:
            return
        await asyncio.wait(asked, timeout=_SAYS)
        held: dict[int, set[int]] = {
            band: set() for band, member in enumerate(self._members.members) if not member.alive
        }
        missing: dict[int, list[int]] = {}
        for band, one in zip(living, asked, strict=True):
            if not one.done():
                one.add_done_callback(heard)
            elif one.exception() is None:
                keys, missing[band] = one.result()
                held[band] = set(keys)
        if run.changes != before or run.ended.done():
            return
        again = run.out_of_sight(held)
        for band, keys in missing.items():
            there = [key for key in keys if key not in run.bands]
            self._tell_where(run, band, there)
            gone = {key for key in there if self.where(key) is None}
            again += [key for key in held[band] if key in run.bands and not gone.isdisjoint(reads_of(run.tasks[key]))]
        if again:
            self.again(run, list(dict.fromkeys(again)))


def heard(task: asyncio.Task[Any]) -> None:
    """Nobody waits for an answer any more; an error would be said to have been overlooked."""
    if not task.cancelled():
        task.exception()
