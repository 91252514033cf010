"""Connections that have not authenticated yet, and what is said of those that never do."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import logging
import resource
import time
from typing import Any

from craton.actor.errors import NotAuthenticated
from craton.actor.wire.link import Link

__all__ = ["Complaints", "Unauthenticated"]

MOST = 1024
"""Connections at a time that have not shown that they have the key."""
MANY, LATER = 64, 0.2
"""After so many that never did, and so many seconds, what they took is given back to the system."""
LINES, SECONDS = 10, 10.0
"""Lines in so many seconds that are written about bad peers."""

logger = logging.getLogger("craton.actor")


def most() -> int:
    """Return how many strangers are let in at a time: no more than a quarter of the descriptors there are."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST if soft == resource.RLIM_INFINITY else max(16, min(MOST, soft // 4))


class Unauthenticated:
    """Connections whose other side has not shown that it has the key.

    When there are too many, the one that has been silent for longest goes: whoever has the key needs milliseconds.
    """

    def __init__(self) -> None:
        self._links: dict[Link, None] = {}
        self._most = most()
        self._failed = 0

    def __len__(self) -> int:
        return len(self._links)

    def add(self, link: Link) -> None:
        """Take note of a connection."""
        self._links[link] = None
        link.ready.add_done_callback(lambda ready: self._known(link, ready))
        if len(self._links) > self._most:
            self.drop_oldest()

    def _known(self, link: Link, ready: asyncio.Future[None]) -> None:
        self._links.pop(link, None)
        self._failed += ready.cancelled() or ready.exception() is not None
        if self._failed >= MANY and not self._links:
            self._failed = 0
            ready.get_loop().call_later(LATER, _give_back)

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


def _give_back() -> None:
    # The C library keeps what many small pieces took, TLS's above all.
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def pause(loop: asyncio.AbstractEventLoop, descriptor: int, again: Any) -> None:
    """Accept nothing for a moment: descriptors have run out."""
    loop.remove_reader(descriptor)
    loop.call_later(0.05, again)
