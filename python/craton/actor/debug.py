"""A mode that names what is slow or stuck: calls, locks, and cycles of calls.

On with ``CRATON_ACTOR_DEBUG=1`` (or a JSON object of `DebugOptions`' fields) in the environment of every process, or
with `set_debug_options`.
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
    """What is watched; seconds after which it is said, 0 for never."""

    actor_call_timeout: float = 10
    process_message_timeout: float = 30
    actor_lock_timeout: float = 30
    log_unhandled_errors: bool = True
    log_cycle_send: bool = True

    def __post_init__(self) -> None:
        for name in ("actor_call_timeout", "process_message_timeout", "actor_lock_timeout"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
                raise ValueError(f"`{name}` is a number of seconds, 0 for never, not {value!r}")


def _from_environment() -> DebugOptions | None:
    text = os.environ.get(VARIABLE, "0")
    if text in ("", "0"):
        return None
    try:
        return DebugOptions(**({} if text == "1" else json.loads(text)))
    except (TypeError, ValueError) as error:
        fields = list(DebugOptions.__slots__)
        raise ValueError(f"{VARIABLE} is 0, 1 or a JSON object of {fields}, not {text!r}: {error}") from None


_options = _from_environment()
path: contextvars.ContextVar[tuple[tuple[str, Any, str], ...]] = contextvars.ContextVar("path", default=())
"""The calls that led to the running one, outermost first: address, uid, method."""


def get_debug_options() -> DebugOptions | None:
    """Return what is watched; None when nothing is."""
    return _options


def set_debug_options(options: DebugOptions | None) -> None:
    """Watch, or stop watching, in this process."""
    global _options
    _options = options


@contextmanager
def watched(option: str, text: str, *arguments: Any) -> Iterator[None]:
    """Say so, again and again, as long as something takes longer than it should."""
    seconds = getattr(_options, option) if _options is not None else 0
    if not seconds:
        yield
        return
    began = time.monotonic()
    said = 0

    async def say() -> None:
        nonlocal said
        while True:
            await asyncio.sleep(seconds * (said + 1))
            said += 1
            logger.warning(text + " (for %.1f s)", *arguments, time.monotonic() - began)

    task = asyncio.get_running_loop().create_task(say())
    try:
        yield
    finally:
        task.cancel()
        took = time.monotonic() - began
        if took > seconds and not said:
            # It did not let the loop say so in time.
            logger.warning(text + " (it took %.1f s, and nothing else could run meanwhile)", *arguments, took)


_holders: dict[int, str] = {}
"""The methods that hold the locks of actors, by the lock's `id`; of those that were entered while this mode was on."""


class _Holder:
    """Says who holds a lock when that is written."""

    def __init__(self, turn: Any) -> None:
        self._turn = turn

    def __str__(self) -> str:
        return _holders.get(id(self._turn), "another method")


class Entry:
    """A ticket for an actor's lock, watched: who waits for it, and who holds it."""

    def __init__(self, ticket: Any, turn: Any, method: str, uid: Any) -> None:
        self._ticket, self._turn, self._method, self._uid = ticket, turn, method, uid
        self._holding: Any = None

    async def __aenter__(self) -> None:
        text = "%r of actor %s waits for the actor's lock, which %s holds"
        with watched("actor_lock_timeout", text, self._method, self._uid, _Holder(self._turn)):
            await self._ticket.__aenter__()
        _holders[id(self._turn)] = repr(self._method)
        self._holding = watched("actor_lock_timeout", "%r of actor %s holds the actor's lock", self._method, self._uid)
        self._holding.__enter__()

    async def __aexit__(self, *error: Any) -> None:
        self._holding.__exit__(None, None, None)
        _holders.pop(id(self._turn), None)
        await self._ticket.__aexit__(*error)


@contextmanager
def called(steps: tuple[tuple[str, Any, str], ...] | None, method: str, uid: Any) -> Iterator[None]:
    """Know, as long as a method runs, which calls led to it; and say what it raises."""
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
def released() -> Iterator[None]:
    """Forget the calls that led here while the actor is free: what is awaited now keeps nobody from it."""
    token = path.set(())
    try:
        yield
    finally:
        path.reset(token)


def check_cycle(address: str, uid: Any, method: str) -> tuple[tuple[str, Any, str], ...]:
    """Return the path of a call that is about to be sent, and say so if it makes a cycle."""
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
