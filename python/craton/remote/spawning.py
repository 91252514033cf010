"""``craton.remote.spawn``: one call of a function, made by a worker."""

from __future__ import annotations

import asyncio
import concurrent.futures
import pickle
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, Generic, ParamSpec, TypeVar

import pyarrow as pa

from craton.config import options
from craton.remote import session as sessions
from craton.remote.captured import held_elsewhere
from craton.remote.functions import Function, Payload, Surroundings, to_table
from craton.remote.jobs import one_piece, put
from craton.remote.pieces import Piece, PieceResult
from craton.remote.session import Session
from craton.remote.surfaces import raised, say
from craton.remote.values import pack, unpack

__all__ = ["Future", "spawn"]

P = ParamSpec("P")
R = TypeVar("R")


class Future(concurrent.futures.Future, Generic[R]):  # type: ignore[type-arg]
    """The result of a call that a worker makes; also to be awaited.

    It is one of `concurrent.futures`, whose functions :func:`~concurrent.futures.wait` and
    :func:`~concurrent.futures.as_completed` take it.
    """

    _inner: concurrent.futures.Future[Any] | None = None

    def cancel(self) -> bool:
        """Stop the call, also one that runs; return whether it was stopped. The function gets no chance to object."""
        if not super().cancel():
            return False
        self.set_running_or_notify_cancel()
        if self._inner is not None:
            self._inner.cancel()
        return True

    def __await__(self) -> Generator[Any, None, R]:
        return asyncio.wrap_future(self).__await__()

    def __repr__(self) -> str:
        how = (
            "cancelled"
            if self.cancelled()
            else "running"
            if not self.done()
            else "failed"
            if self.exception()
            else "done"
        )
        return f"<craton.remote.Future: {how}>"


def spawn(fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Future[R]:
    """Have a worker of the session call a function; without a session, a process that is started for it.

    Parameters
    ----------
    fn
        The function. It and the arguments are pickled now, by value where others could not import them; what the function
        changes of them is changed in the worker only.
    *args, **kwargs
        What it is called with.

    Returns
    -------
    Future
        What the function returns or raises. Within a function that a worker runs, and where
        ``craton.options.parallel_functions`` is off, the call is made at once, in place.

    Raises
    ------
    Exception
        What pickling meets.

    Examples
    --------
    >>> import craton
    >>> craton.remote.spawn(divmod, 17, 5).result()
    (3, 2)
    """
    future: Future[R] = Future()
    if sessions.inside_worker() or not options.parallel_functions:
        try:
            future.set_result(fn(*args, **kwargs))
        except BaseException as error:
            future.set_exception(error)
        return future
    function = Function(fn, args, dict(kwargs))
    # What cannot be pickled is in the worker what its module makes of it.
    held = [one for one in held_elsewhere(function) if _pickles(one)]
    payload, surroundings = Payload.of(function, held), Surroundings.here()
    piece = Piece(_CallBody(), payload.digest, surroundings, watched=False)

    def begin(starting: concurrent.futures.Future[Session]) -> None:
        try:
            session = starting.result()
        except BaseException as error:
            _fail(future, RuntimeError(f"no workers could be started: {error}"), error)
            return
        if future.cancelled():
            return
        future._inner = session.submit(_call(session, piece, payload))
        future._inner.add_done_callback(lambda inner: _finish(future, inner))
        if future.cancelled():
            future._inner.cancel()

    sessions.start().add_done_callback(begin)
    return future


def _pickles(value: Any) -> bool:
    try:
        to_table(value)
    except Exception:
        return False
    return True


async def _call(session: Session, piece: Piece, payload: Payload) -> tuple[PieceResult, pa.Table | None]:
    held = await put(session.runner, payload.table)
    try:
        return await one_piece(session.runner, piece, to_table(None), held, "craton.remote.spawn")
    finally:
        session.runner.release([held])


def _finish(future: Future[Any], inner: concurrent.futures.Future[tuple[PieceResult, pa.Table | None]]) -> None:
    if future.cancelled():
        return
    if inner.cancelled():
        _fail(future, RuntimeError("the session ended before the call did"))
        return
    if (error := inner.exception()) is not None:
        _fail(future, error)
        return
    told, table = inner.result()
    say(told.said)
    if told.failure is not None:
        _fail(future, raised(told.failure))
    elif told.refused is not None or table is None:
        _fail(future, pickle.PicklingError(f"the result of the call: {told.refused}"))
    else:
        (value,) = unpack(table).to_list()
        if not future.cancelled():
            future.set_result(value)


def _fail(future: Future[Any], error: BaseException, cause: BaseException | None = None) -> None:
    if cause is not None:
        error.__cause__ = cause
    if not future.cancelled():
        future.set_exception(error)


@dataclass(frozen=True)
class _CallBody:
    """One call, of the function with its own arguments."""

    def call(self, function: Function, rows: pa.Table, results: list[Any]) -> None:
        results.append(function.call(*function.args, **function.kwargs))

    def pack(self, results: list[Any]) -> pa.Table:
        return pack(results)
