"""A debugging mode that logs slow or stuck calls, long waits for locks, and cyclic calls (deadlocks).

It is enabled with ``CRATON_ACTOR_DEBUG=1`` (or a JSON object of `DebugOptions`' fields) in the environment of every
process, or with `set_debug_options`.
"""

from __future__ import annotations

import asyncio
import contextvars
import json
import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

VARIABLE = "CRATON_ACTOR_DEBUG"

logger = logging.getLogger("craton.actor.debug")


@dataclass(slots=True)
class DebugOptions:
    """Options of the debugging mode. The timeouts are seconds after which a warning is logged; 0 disables them."""

    actor_call_timeout: float = 10
    process_message_timeout: float = 30
    actor_lock_timeout: float = 30
    log_unhandled_errors: bool = True
    log_cycle_send: bool = True

    def __post_init__(self) -> None:
        for name in ("actor_call_timeout", "process_message_timeout", "actor_lock_timeout"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
                raise ValueError(f"`{name}` must be a number of seconds, or 0 to disable it, not {value!r}")


def _from_environment() -> DebugOptions | None:
    text = os.environ.get(VARIABLE, "0")
    if text in ("", "0"):
        return None
    try:
        return DebugOptions(**({} if text == "1" else json.loads(text)))
    except (TypeError, ValueError) as error:
        fields = list(DebugOptions.__slots__)
        raise ValueError(f"{VARIABLE} must be 0, 1 or a JSON object of {fields}, not {text!r}: {error}") from None


_options = _from_environment()
path: contextvars.ContextVar[tuple[tuple[str, Any, str], ...]] = contextvars.ContextVar("path", default=())
"""The chain of calls that led to the running one, outermost first: (address, uid, method) of each."""


def get_debug_options() -> DebugOptions | None:
    """Return the options of the debugging mode; None if it is off."""
    return _options


def set_debug_options(options: DebugOptions | None) -> None:
    """Enable the debugging mode in this process with these options, or disable it with None."""
    global _options
    _options = options


@contextmanager
def warn_if_slow(option: str, text: str, *arguments: Any) -> Iterator[None]:
    """Log a warning, repeatedly, while the body runs longer than the timeout that ``option`` names."""
    seconds = getattr(_options, option) if _options is not None else 0
    if not seconds:
        yield
        return
    began = time.monotonic()
    warnings = 0

    async def warn() -> None:
        nonlocal warnings
        while True:
            await asyncio.sleep(seconds * (warnings + 1))
            warnings += 1
            logger.warning(text + " (for %.1f s)", *arguments, time.monotonic() - began)

    task = asyncio.get_running_loop().create_task(warn())
    try:
        yield
    finally:
        task.cancel()
        took = time.monotonic() - began
        if took > seconds and not warnings:
            # The body blocked the event loop, so that `warn` could not run.
            logger.warning(text + " (it took %.1f s and blocked the event loop)", *arguments, took)


_holders: dict[int, str] = {}
"""The methods that hold actors' locks, by the lock's `id`; only those that acquired it while this mode was on."""


class _CurrentHolder:
    """Formats as the current holder of a lock; evaluated when the log record is formatted."""

    def __init__(self, turn: Any) -> None:
        self._turn = turn

    def __str__(self) -> str:
        return _holders.get(id(self._turn), "another method")


class WatchedTicket:
    """A `Ticket` that logs warnings when a method waits for the lock, or holds it, for too long."""

    def __init__(self, ticket: Any, turn: Any, method: str, uid: Any) -> None:
        self._ticket, self._turn, self._method, self._uid = ticket, turn, method, uid
        self._holding: Any = None

    async def __aenter__(self) -> None:
        text = "%r of actor %s waits for the actor's lock, which %s holds"
        with warn_if_slow("actor_lock_timeout", text, self._method, self._uid, _CurrentHolder(self._turn)):
            await self._ticket.__aenter__()
        _holders[id(self._turn)] = repr(self._method)
        self._holding = warn_if_slow(
            "actor_lock_timeout", "%r of actor %s holds the actor's lock", self._method, self._uid
        )
        self._holding.__enter__()

    async def __aexit__(self, *error: Any) -> None:
        self._holding.__exit__(None, None, None)
        _holders.pop(id(self._turn), None)
        await self._ticket.__aexit__(*error)


@contextmanager
def track_call(steps: tuple[tuple[str, Any, str], ...] | None, method: str, uid: Any) -> Iterator[None]:
    """Set `path` while a method runs, and log the exception that it raises."""
    token = path.set(tuple(steps or ()))
    try:
        yield
    except Exception:
        if _options is not None and _options.log_unhandled_errors:
            logger.exception("%r of actor %s raises", method, uid)
        raise
    finally:
        path.reset(token)


@contextmanager
def untracked() -> Iterator[None]:
    """Clear `path` while the actor's lock is released: what is awaited meanwhile cannot deadlock on it."""
    token = path.set(())
    try:
        yield
    finally:
        path.reset(token)


def check_cycle(address: str, uid: Any, method: str) -> tuple[tuple[str, Any, str], ...]:
    """Return the path of a call that is about to be sent, and log a warning if the path is a cycle."""
    before = path.get()
    if (
        _options is not None
        and _options.log_cycle_send
        and any((known, name) == (address, uid) for known, name, _ in before)
    ):
        steps = "".join(
            f"\n    {what!r} of actor {who} at {where}" for where, who, what in (*before, (address, uid, method))
        )
        logger.warning("A cycle of calls, each of which waits for the next:%s", steps)
    return (*before, (address, uid, method))
