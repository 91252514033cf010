"""``craton.remote.spawn``: calls a function once, in a worker, and returns a future."""

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
from craton.remote.captured import attributes_read
from craton.remote.functions import CallerSettings, Payload, UserFunction, to_table
from craton.remote.parallel_calls import one_piece, put
from craton.remote.pieces import Piece, PieceResult
from craton.remote.session import FunctionSession
from craton.remote.side_output import replay_output, unpack_exception
from craton.remote.values import pack, unpack

__all__ = ["Future", "spawn"]

P = ParamSpec("P")
R = TypeVar("R")


class Future(concurrent.futures.Future, Generic[R]):  # type: ignore[type-arg]
    """The result of a call in a worker. It can be awaited.

    It is a :class:`concurrent.futures.Future`, so :func:`~concurrent.futures.wait` and
    :func:`~concurrent.futures.as_completed` accept it.
    """

    _inner: concurrent.futures.Future[Any] | None = None

    def cancel(self) -> bool:
        """Cancel the call, even if it is running; return whether it was cancelled."""
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
    """Call a function in a worker of the session; without a session, in a process that is started for it.

    Parameters
    ----------
    fn
        The function. It and the arguments are pickled immediately, by value if workers cannot import them. Changes that the
        function makes to them are made in the worker only.
    *args, **kwargs
        The arguments.

    Returns
    -------
    Future
        The function's result or exception. In a function that a worker runs, and if ``craton.options.parallel_functions`` is
        off, `spawn` makes the call itself before it returns.

    Raises
    ------
    Exception
        Any exception of pickling.

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
    function = UserFunction(fn, args, dict(kwargs))
    # Attributes that cannot be pickled have the value in the worker that importing their module gives them.
    held = [one for one in attributes_read(function) if _pickles(one)]
    payload, settings = Payload.of(function, held), CallerSettings.current()
    piece = Piece(_CallBody(), payload.digest, settings, watched=False)

    def begin(starting: concurrent.futures.Future[FunctionSession]) -> None:
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


async def _call(session: FunctionSession, piece: Piece, payload: Payload) -> tuple[PieceResult, pa.Table | None]:
    held = await put(session.runner, payload.table)
    try:
        return await one_piece(session.runner, piece, to_table(None), held, "craton.remote.spawn")
    finally:
        session.runner.release([held])


def _finish(future: Future[Any], inner: concurrent.futures.Future[tuple[PieceResult, pa.Table | None]]) -> None:
    if future.cancelled():
        return
    if inner.cancelled():
        _fail(future, RuntimeError("the session ended before the call was done"))
        return
    if (error := inner.exception()) is not None:
        _fail(future, error)
        return
    result, table = inner.result()
    replay_output(result.output)
    if result.failure is not None:
        _fail(future, unpack_exception(result.failure))
    elif result.refused is not None or table is None:
        _fail(future, pickle.PicklingError(f"the result of the call cannot be returned: {result.refused}"))
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
    """Makes one call, with the fixed arguments of the function only."""

    def call(self, function: UserFunction, rows: pa.Table, results: list[Any]) -> None:
        results.append(function.call(*function.args, **function.kwargs))

    def pack(self, results: list[Any]) -> pa.Table:
        return pack(results)
