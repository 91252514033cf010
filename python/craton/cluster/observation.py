"""Observes the workers of a cluster: their memory over time, and the state of each."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import craton.actor as xo
from craton import events
from craton.cluster.membership import Membership
from craton.schedule.telemetry import Sample, Sampler
from craton.store import default_store

__all__ = ["Observation"]


class Observation:
    """Collects memory samples of all workers while events have a subscriber, and the workers' state on request.

    Parameters
    ----------
    membership
        The workers.
    """

    def __init__(self, membership: Membership) -> None:
        self._members = membership
        self.sampler = Sampler(asyncio.get_running_loop(), lambda samples: self.sampled(-1, samples))

    def begin(self) -> None:
        """Start sampling memory, if events have a subscriber and sampling is off."""
        if events.active and not self.sampler.on:
            self._observe(True)

    def stop(self) -> None:
        """Stop sampling in this process."""
        self.sampler.stop()

    def worker_joined(self, band: int) -> None:
        """Start sampling on a new worker, if sampling is on."""
        if self.sampler.on:
            self._observe_band(band, True)

    def _observe(self, on: bool) -> None:
        if on:
            self.sampler.start(default_store())
        else:
            self.sampler.stop()
        for band in self._members.alive_bands():
            self._observe_band(band, on)

    def _observe_band(self, band: int, on: bool) -> None:
        node = self._members.bands[band].node
        first = self._members.of_node(node)[0]
        self._members.tell(self._members.ref(band).observe.tell(on, node > 0 and band == first))

    def sampled(self, band: int, samples: list[Sample]) -> None:
        """Emit the memory samples of a band; band -1 is the driver's process."""
        if events.active:
            ahead = self._members.members[band].ahead if band >= 0 else 0.0
            corrected = [sample._replace(when=sample.when - ahead) for sample in samples] if ahead else samples
            node = self._members.bands[band].node if band >= 0 else 0
            events.emit("memory", worker=band, node=node, samples=corrected)
        elif self.sampler.on:  # the last subscriber is gone
            self._observe(False)

    async def describe_workers(self) -> list[dict[str, Any]]:
        """Return the current state of each worker, as rows of :meth:`craton.cluster.sessions.Session.info`."""
        return list(await asyncio.gather(*[self._describe_worker(band) for band in range(len(self._members.members))]))

    async def _describe_worker(self, band: int) -> dict[str, Any]:
        member = self._members.members[band]
        place = member.started.band
        known: dict[str, Any] = {
            "worker": band,
            "node": self._members.host.nodes[place.node].name,
            "address": member.started.address,
            "pid": member.pid,
            "threads": place.threads,
            "memory_limit": place.memory,
        }
        asked = {"memory_used": 0, "done": 0, "running": 0}
        with contextlib.suppress(ConnectionError, TimeoutError, xo.ActorNotExist):
            if member.alive:
                asked = await asyncio.wait_for(self._members.ref(band).status(), 1.0)
        return {**known, "alive": member.alive, **{name: asked[name] for name in ("memory_used", "done", "running")}}
