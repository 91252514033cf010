"""Connections of whom nobody knows yet who is there, and what is said of those who turn out to be nobody's friends."""

from __future__ import annotations

import asyncio
import logging
import resource
import time
from typing import Any

from craton.actor.errors import NotAuthenticated
from craton.actor.wire.link import Link

__all__ = ["Complaints", "Strangers"]

MOST = 1024
"""Connections at a time that have not shown that they have the key."""
LINES, SECONDS = 10, 10.0
"""Lines in so many seconds that are written about bad peers."""

logger = logging.getLogger("craton.actor")


def most() -> int:
    """Return how many strangers are let in at a time: no more than a quarter of the descriptors there are."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST if soft == resource.RLIM_INFINITY else max(16, min(MOST, soft // 4))


class Strangers:
    """Connections whose other side has not shown that it has the key.

    When there are too many, the one that has been silent for longest goes: whoever has the key needs milliseconds.
    """

    def __init__(self) -> None:
        self._links: dict[Link, None] = {}
        self._most = most()

    def __len__(self) -> int:
        return len(self._links)

    def add(self, link: Link) -> None:
        """Take note of a connection."""
        self._links[link] = None
        link.ready.add_done_callback(lambda _: self._links.pop(link, None))
        if len(self._links) > self._most:
            self.drop_oldest()

    def drop_oldest(self) -> None:
        """End the connection that has been a stranger's for longest."""
        oldest = next(iter(self._links), None)
        if oldest is not None:
            del self._links[oldest]
            oldest.drop(NotAuthenticated(f"{oldest.peer} is one of too many that have not introduced themselves"))


class Complaints:
    """A line for each bad peer, but not more than a few at a time."""

    def __init__(self) -> None:
        self._since, self._lines, self._unsaid = -SECONDS, 0, 0

    def __call__(self, text: str, *values: Any) -> None:
        """Write a warning, or count it if there were many."""
        now = time.monotonic()
        if now - self._since > SECONDS:
            if self._unsaid:
                logger.warning("%d more bad connections were dropped", self._unsaid)
            self._since, self._lines, self._unsaid = now, 0, 0
        if self._lines >= LINES:
            self._unsaid += 1
            return
        self._lines += 1
        logger.warning(text, *values)


def pause(loop: asyncio.AbstractEventLoop, descriptor: int, again: Any) -> None:
    """Accept nothing for a moment: descriptors have run out."""
    loop.remove_reader(descriptor)
    loop.call_later(0.05, again)
