"""Events of the engine, published to subscribers within the process.

The front end and the executor emit an event for each call and each plan that runs; the profiler, the
progress bar and the test-suite recorder subscribe. The state is one module-level flag and one tuple, so without
subscribers an emitter pays for a single attribute load::

    from craton import events

    if events.active:
        events.emit("call", name="DataFrame.merge", native=True, reason=None, seconds=0.01, rows=None)

Kinds of event, and their fields:

``call``
    A call of the front end: ``name`` ("DataFrame.merge"), ``native`` (bool), ``reason`` (why it is not native, or None),
    ``seconds``, ``rows`` (of the result, or None if computing the plan is needed to know it), ``started`` (the value of
    ``time.perf_counter()`` at its start; optional: with it, a subscriber can tell which calls were made within this one).
``run``
    A plan was executed: ``seconds``, ``rows``, ``operators`` (the number of operators in the plan).
``tasks``
    Tasks that a runner ran together have ended: ``tasks``, pairs of stage and :class:`craton.schedule.tasks.Output`.
``memory``
    Memory over time: ``worker`` (its number, -1 for this process), ``node`` (the number of its machine) and ``samples``
    (:class:`craton.schedule.telemetry.Sample`).

``rebuilt``
    A lost file of a durable set was rebuilt: ``set`` (its name), ``path``, ``rows``, ``seconds``, and ``number`` and ``total``: which one
    it is of how many that are rebuilt.
``place``
    A watcher of places (``craton store watch``) has found that the condition of one has changed: ``set``, ``folder`` (of the set in the
    place), ``condition``, ``problem`` (for people; empty if there is none) and ``files`` (their number), as
    :class:`craton.store.watching.PlaceCheck` describes them.

``tasks`` and ``memory`` are emitted in the engine's own threads.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from craton import forks

__all__ = ["Subscriber", "active", "emit", "subscribe", "unsubscribe"]

Subscriber = Callable[[str, dict[str, Any]], None]

active: bool = False
"""Whether there are subscribers. Read it as ``events.active``: ``from craton.events import active`` would copy its value."""

_subscribers: tuple[Subscriber, ...] = ()
_lock = forks.lock()


def emit(kind: str, /, **fields: Any) -> None:
    """Call every subscriber with an event.

    A subscriber that raises must not break the program that it observes: it is unsubscribed with a warning,
    and the program continues.

    Parameters
    ----------
    kind
        The kind of event; see the module's description.
    **fields
        The fields of the event. Each subscriber gets the same dictionary and must not change it.
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
    """Call ``subscriber(kind, fields)`` for every later event, in the thread that emits it.

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
