"""Limits on connections that have not authenticated yet, and rate-limited warnings about bad connections."""

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

__all__ = ["RateLimitedWarnings", "Unauthenticated"]

MAX_UNAUTHENTICATED = 1024
"""The most unauthenticated connections at a time."""
TRIM_AFTER, TRIM_DELAY = 64, 0.2
"""After this many failed connections, and this many seconds, freed memory is returned to the system."""
MAX_WARNINGS, WARNING_PERIOD = 10, 10.0
"""The most warnings about bad connections in this many seconds."""

logger = logging.getLogger("craton.actor")


def max_unauthenticated() -> int:
    """Return the limit of unauthenticated connections: at most a quarter of the file descriptors, but at least 16."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MAX_UNAUTHENTICATED if soft == resource.RLIM_INFINITY else max(16, min(MAX_UNAUTHENTICATED, soft // 4))


class Unauthenticated:
    """Connections that have not authenticated yet.

    When there are too many, the oldest is dropped: a client that has the key authenticates within milliseconds.
    """

    def __init__(self) -> None:
        self._links: dict[Link, None] = {}
        self._most = max_unauthenticated()
        self._failed = 0

    def __len__(self) -> int:
        return len(self._links)

    def add(self, link: Link) -> None:
        """Track a connection until it has authenticated or ended."""
        self._links[link] = None
        link.ready.add_done_callback(lambda ready: self._finished(link, ready))
        if len(self._links) > self._most:
            self.drop_oldest()

    def _finished(self, link: Link, ready: asyncio.Future[None]) -> None:
        self._links.pop(link, None)
        self._failed += ready.cancelled() or ready.exception() is not None
        if self._failed >= TRIM_AFTER and not self._links:
            self._failed = 0
            ready.get_loop().call_later(TRIM_DELAY, _trim_memory)

    def drop_oldest(self) -> None:
        """Close the connection that has been unauthenticated for the longest time."""
        oldest = next(iter(self._links), None)
        if oldest is not None:
            del self._links[oldest]
            oldest.drop(NotAuthenticated(f"{oldest.peer} is one of too many connections that have not authenticated"))


class RateLimitedWarnings:
    """Logs a warning for each bad connection, rate-limited to `MAX_WARNINGS` in `WARNING_PERIOD` seconds."""

    def __init__(self) -> None:
        self._since, self._lines, self._suppressed = -WARNING_PERIOD, 0, 0

    def __call__(self, text: str, *values: Any) -> None:
        """Log a warning; above the limit, only count it."""
        now = time.monotonic()
        if now - self._since > WARNING_PERIOD:
            if self._suppressed:
                logger.warning("%d more bad connections were dropped", self._suppressed)
            self._since, self._lines, self._suppressed = now, 0, 0
        if self._lines >= MAX_WARNINGS:
            self._suppressed += 1
            return
        self._lines += 1
        logger.warning(text, *values)


def _trim_memory() -> None:
    # The C library retains memory that was freed in many small pieces, most of which TLS had allocated.
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def pause(loop: asyncio.AbstractEventLoop, descriptor: int, again: Any) -> None:
    """Stop accepting connections for a moment, because file descriptors have run out."""
    loop.remove_reader(descriptor)
    loop.call_later(0.05, again)
