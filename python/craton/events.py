"""What the engine tells about itself while it works: a tiny publish and subscribe.

The front end and the executor emit an event for each call and each plan that runs; the profiler, the
progress bar and the test-suite recorder listen. It is one module-level flag and one tuple, so that an
emitter pays a single attribute load while nobody listens::

    from craton import events

    if events.active:
        events.emit("call", name="DataFrame.merge", native=True, reason=None, seconds=0.01, rows=None)

Kinds of event, and their fields:

``call``
    ``name`` ("DataFrame.merge"), ``native`` (bool), ``reason`` (why not native, or None), ``seconds``,
    ``rows`` (of the result, or None where that is not known without computing it), ``started`` (what
    ``time.perf_counter()`` was then; optional: it tells an observer exactly which calls were made within it).
``run``
    A plan was executed: ``seconds``, ``rows``, ``operators`` (how many the plan had).
``tasks``
    Tasks that were given to a runner together have ended: ``tasks``, pairs of stage and :class:`craton.schedule.tasks.Output`.
``memory``
    Memory over time: ``worker`` (its number, -1 for this process), ``node`` (that of its machine) and ``samples``
    (:class:`craton.schedule.telemetry.Sample`).

The last two are emitted in threads of the engine's.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from craton import forks

__all__ = ["Subscriber", "active", "emit", "subscribe", "unsubscribe"]

Subscriber = Callable[[str, dict[str, Any]], None]

active: bool = False
"""True while somebody listens. Read it as ``events.active``: a name imported from here goes stale."""

_subscribers: tuple[Subscriber, ...] = ()
_lock = forks.lock()


def emit(kind: str, /, **fields: Any) -> None:
    """Tell every subscriber that something happened.

    A subscriber that raises is a bug of the observer, never of the program observed: it is
    unsubscribed with a warning and the program goes on.

    Parameters
    ----------
    kind
        The kind of event; see the module's description.
    **fields
        What there is to say about it. Each subscriber gets the same dictionary and must not change it.
    """
    for subscriber in _subscribers:
        try:
            subscriber(kind, fields)
        except Exception as error:
            unsubscribe(subscriber)
            warnings.warn(
                f"the event subscriber {subscriber!r} was removed: it raised {error!r} on a {kind!r} event",
                RuntimeWarning,
                stacklevel=2,
            )


def subscribe(subscriber: Subscriber) -> None:
    """Call ``subscriber(kind, fields)`` for every event from now on, in the thread that emits it.

    Subscribing the same function twice has no further effect.
    """
    global _subscribers, active
    with _lock:
        if subscriber not in _subscribers:
            _subscribers = (*_subscribers, subscriber)
        active = True


def unsubscribe(subscriber: Subscriber) -> None:
    """Stop calling `subscriber`; unknown subscribers are ignored."""
    global _subscribers, active
    with _lock:
        _subscribers = tuple(known for known in _subscribers if known != subscriber)
        active = bool(_subscribers)
