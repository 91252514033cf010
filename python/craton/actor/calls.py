"""Calls the same method of many actors, with one message to each process that they live in."""

from __future__ import annotations

import asyncio
import functools
import traceback
from collections import defaultdict
from collections.abc import Coroutine, Sequence
from typing import Any

from craton.actor.actors import Ticket, is_final
from craton.actor.errors import RemoteTraceback
from craton.actor.pool.base import request_handler
from craton.actor.refs import ActorRef
from craton.actor.wire.exceptions import Raised
from craton.actor.wire.peers import CALL, ask_pool

__all__ = ["call_each"]

# Plain calls that run before the event loop gets to run other tasks.
_CALLS_PER_YIELD = 64


async def call_each(
    refs: Sequence[ActorRef],
    method: str,
    pairs: Sequence[tuple[Any, Any]] | None,
    same: tuple[Any, Any] | None,
    return_exceptions: bool = False,
) -> list[Any]:
    """Call a method of each actor.

    Parameters
    ----------
    refs : sequence of ActorRef
        The actors.
    method : str
        The method's name.
    pairs : sequence of tuple, optional
        ``(args, kwargs)`` for each actor.
    same : tuple, optional
        ``(args, kwargs)`` for all actors; given instead of ``pairs``.
    return_exceptions : bool
        Return exceptions in place of the results that they prevented.

    Returns
    -------
    list
        The results, in the order of the actors.

    Raises
    ------
    Exception
        That of the first actor, in their order, whose call failed; raised after all calls have ended.
    """
    places: defaultdict[str, list[int]] = defaultdict(list)
    for index, ref in enumerate(refs):
        places[ref.address].append(index)
    requests = [
        ask_pool(
            address,
            "call each",
            (method, [refs[i].uid for i in indexes], same, None if pairs is None else [pairs[i] for i in indexes]),
        )
        for address, indexes in places.items()
    ]
    answers = await asyncio.gather(*requests, return_exceptions=True)
    results: list[Any] = [None] * len(refs)
    failed: dict[int, BaseException] = {}
    for indexes, answer in zip(places.values(), answers, strict=True):
        if isinstance(answer, BaseException):
            failed.update(dict.fromkeys(indexes, answer))
            continue
        values, errors = answer
        for index, result in zip(indexes, values, strict=True):
            results[index] = result
        for place, raised in errors.items():
            error = failed[indexes[place]] = raised.error
            error.__cause__ = error.__cause__ or RemoteTraceback(raised.text)
    if failed and not return_exceptions:
        raise failed[min(failed)]
    for index, error in failed.items():
        results[index] = error
    return results


@request_handler("call each")
async def _call_each(pool: Any, value: Any) -> tuple[list[Any], dict[int, Raised]]:
    method, uids, same, pairs = value
    results: list[Any] = [None] * len(uids)
    errors: dict[int, Raised] = {}
    waiting: dict[asyncio.Task[Any], int] = {}
    try:
        for index, uid in enumerate(uids):
            pair = pairs[index] if same is None else same
            actor = pool.actors.get(uid)
            if actor is not None and pool._is_plain(actor, method):
                try:
                    pool.counted["calls"] += 1
                    result = getattr(actor, method)(*pair[0], **pair[1])
                except (KeyboardInterrupt, SystemExit):
                    raise
                except BaseException as error:
                    errors[index] = _describe_error(error)
                    continue
                if is_final(result):
                    results[index] = result
                    if index % _CALLS_PER_YIELD == _CALLS_PER_YIELD - 1:
                        await asyncio.sleep(0)
                    continue
                ticket = actor.ticket(method) if isinstance(result, Coroutine) else None
                work = actor.finish_call(result, ticket)
            else:
                ticket = None
                work = pool.handle(CALL, uid, method, None, pair)
            task = asyncio.ensure_future(work)
            waiting[task] = index
            if ticket is not None:
                # If the task is cancelled before its first step, its coroutine never runs and cannot release the ticket.
                task.add_done_callback(functools.partial(_release, ticket))
        if waiting:
            await asyncio.wait(waiting)
    finally:
        for task in waiting:
            task.cancel()
    for task, index in waiting.items():
        try:
            results[index] = task.result()
        except BaseException as error:
            errors[index] = _describe_error(error)
    return results, errors


def _release(ticket: Ticket, _task: object) -> None:
    ticket.release()


def _describe_error(error: BaseException) -> Raised:
    return Raised(error, "".join(traceback.format_exception(error)))
