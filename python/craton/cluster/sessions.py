"""Sessions: what a program's tasks run on, from ``craton.init`` to ``craton.shutdown``.

The supervisor of a cluster has an event loop in a thread of its own. The program's threads have coroutines run there by
:meth:`Session.call`, where Ctrl-C reaches them.
"""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import contextlib
import os
import secrets
import threading
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from craton import forks
from craton.cluster.environment import VARIABLE
from craton.config import parse_bytes

if TYPE_CHECKING:
    import pandas as pd

    from craton.cluster.hosts.base import Host, Spec
    from craton.cluster.supervisor import Supervisor
    from craton.schedule.tasks import Runner

_T = TypeVar("_T")

HostName = Literal["embedded", "local", "ray", "dask"]
HOSTS = ("embedded", "local", "ray", "dask")
#: How what goes from machine to machine is compressed.
Compression = Literal["none", "lz4"]
COMPRESSIONS = ("none", "lz4")

# Seconds that a call has to end that was interrupted, and a session that is shut down.
_INTERRUPTED, _SHUTDOWN = 0.9, 10.0


class Session:
    """A session; made by :func:`init`, and ended by :func:`shutdown` or at the end of a ``with`` block.

    Attributes
    ----------
    host : str
        ``"embedded"``, ``"local"``, ``"ray"`` or ``"dask"``.
    runner : Runner
        Runs tasks; its methods are to be called within :meth:`call`.
    """

    def __init__(self, host: str, given: dict[str, Any]) -> None:
        self.host, self._given = host, given
        self.runner: Runner
        self._closed = False
        self._pid = os.getpid()

    def call(self, coroutine: Coroutine[Any, Any, _T]) -> _T:
        """Run a coroutine to its end, from any thread, and return its result. Ctrl-C cancels it."""
        raise NotImplementedError

    def info(self) -> pd.DataFrame:
        """The workers, a row each: worker, node, address, pid, threads, memory limit and use in bytes, tasks done and running."""
        import pandas as pd

        return pd.DataFrame(self._facts(), columns=_COLUMNS).set_index("worker")

    def _facts(self) -> list[dict[str, Any]]:
        raise NotImplementedError

    def shutdown(self) -> None:
        """End the session: what runs is cancelled, workers end, outputs are dropped. Ending it twice is no error."""
        raise NotImplementedError

    @property
    def closed(self) -> bool:
        """Whether it has ended."""
        return self._closed or self._pid != os.getpid()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_error: object) -> None:
        if current() is self:
            shutdown()
        else:
            self.shutdown()

    def __repr__(self) -> str:
        if self.closed:
            return f"<Session on {self.host}, ended>"
        return f"<Session on {self.host}: {self._size()}>"

    def _size(self) -> str:
        bands = self.runner.bands
        nodes = len({band.node for band in bands})
        machines = f" on {nodes} machines" if nodes > 1 else ""
        return f"{_counted(len(bands), 'worker')}, {_counted(sum(b.threads for b in bands), 'thread')}{machines}"

    @property
    def where(self) -> str:
        """What tasks run on, in some words."""
        return f"{self.host}: {self._size()}"

    def _repr_html_(self) -> str:
        from html import escape

        title = f"<p><b>Craton</b> {escape(repr(self).strip('<>'))}</p>"
        return title if self.closed else title + self.info().to_html()


_COLUMNS = [
    "worker", "node", "address", "pid", "threads", "memory_limit", "memory_used", "done", "running", "alive",
]  # fmt: skip


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"


def run_here(coroutine: Coroutine[Any, Any, _T]) -> _T:
    """Run a coroutine in this thread, also where an event loop runs in it already, as in a notebook."""
    outer = asyncio._get_running_loop()
    asyncio._set_running_loop(None)
    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(coroutine)
    finally:
        try:
            _cancel_all(loop)
            loop.run_until_complete(loop.shutdown_default_executor())
        finally:
            loop.close()
            asyncio._set_running_loop(outer)


def _cancel_all(loop: asyncio.AbstractEventLoop, timeout: float | None = None) -> None:
    left = asyncio.all_tasks(loop)
    for task in left:
        task.cancel()
    if left:
        loop.run_until_complete(asyncio.wait(left, timeout=timeout))


class EmbeddedSession(Session):
    """A session that needs no other process: tasks run in the thread that asks for them."""

    def __init__(self, given: dict[str, Any]) -> None:
        from craton.schedule.inline import InlineRunner

        super().__init__("embedded", given)
        self.runner = InlineRunner(threads=given["threads"] or 1)

    def call(self, coroutine: Coroutine[Any, Any, _T]) -> _T:
        """Run a coroutine in this thread."""
        return run_here(coroutine)

    def _facts(self) -> list[dict[str, Any]]:
        from craton.config import options
        from craton.schedule.memory_accounting import own_memory

        (band,) = self.runner.bands
        return [
            {
                "worker": 0,
                "node": os.uname().nodename,
                "address": "",
                "pid": os.getpid(),
                "threads": band.threads,
                "memory_limit": options.memory_limit,
                "memory_used": own_memory(),
                "done": 0,
                "running": 0,
                "alive": True,
            }
        ]

    def shutdown(self) -> None:
        """End the session."""
        self._closed = True


class ClusterSession(Session):
    """A session whose tasks run on the workers of a host."""

    runner: Supervisor

    def __init__(self, host: str, given: dict[str, Any]) -> None:
        from craton.cluster.hosts.base import Spec

        super().__init__(host, given)
        spec = Spec(given["workers"], given["threads"], given["memory_limit"])
        self._host = self._made()
        reached_at = self._host.open(spec)
        self._loop = asyncio.new_event_loop()
        self._calls: set[asyncio.Task[Any]] = set()
        self._thread = threading.Thread(target=self._run, name="craton-supervisor", daemon=True)
        self._thread.start()
        try:
            self.runner = self.call(self._start(spec, reached_at))
        except BaseException:
            self._end_loop()
            self._host.close()
            raise

    def _run(self) -> None:
        import signal

        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # it is for the program's threads
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        # What was asked for while the loop came to its end is refused: nobody waits for it for ever.
        _cancel_all(self._loop, timeout=1)

    async def _start(self, spec: Spec, reached_at: str) -> Supervisor:
        import craton.actor as xo
        from craton.cluster.supervisor import Supervisor

        pool = await xo.create_actor_pool(reached_at, n_process=0, auto_recover="actor")
        pool.use_key(secrets.token_hex(32).encode())  # workers share it, and refuse everybody else
        self._host.pool = pool
        try:
            supervisor = Supervisor(pool, self._host, self._given["policy"], self._given["compression"])
        except BaseException:
            await pool.stop()
            raise
        try:
            await supervisor.start(spec)
        except BaseException:
            await supervisor.stop()
            raise
        return supervisor

    def _made(self) -> Host:
        options = self._given["options"]
        if self.host == "local":
            from craton.cluster.hosts.local import LocalHost

            return LocalHost(**options)
        try:
            if self.host == "ray":
                from craton.cluster.hosts.ray import RayHost

                return RayHost(self._given["address"], **options)
            from craton.cluster.hosts.dask import DaskHost

            return DaskHost(self._given["address"], **options)
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                f"the host {self.host!r} needs {error.name}: pip install 'craton[{self.host}]'; 'local' and 'embedded' need "
                f"nothing",
                name=error.name,
            ) from None

    def call(self, coroutine: Coroutine[Any, Any, _T]) -> _T:
        """Run a coroutine on the supervisor's loop; see :meth:`Session.call`.

        Raises
        ------
        RuntimeError
            If the session has ended, or this is its loop's own thread.
        """
        if self.closed or threading.current_thread() is self._thread:
            coroutine.close()
            raise RuntimeError(
                "the session has ended" if self.closed else "call() waits, and the supervisor's own thread must not"
            )
        result: concurrent.futures.Future[_T] = concurrent.futures.Future()
        started: list[asyncio.Task[_T]] = []

        def start() -> None:
            task = self._loop.create_task(coroutine)
            started.append(task)
            self._calls.add(task)
            task.add_done_callback(finished)

        def finished(task: asyncio.Task[_T]) -> None:
            self._calls.discard(task)
            if task.cancelled():
                result.set_exception(concurrent.futures.CancelledError("the session has ended"))
            elif (error := task.exception()) is not None:
                result.set_exception(error)
            else:
                result.set_result(task.result())

        self._loop.call_soon_threadsafe(start)
        try:
            return result.result()
        except BaseException:
            if not result.done():  # this thread was interrupted
                self._loop.call_soon_threadsafe(lambda: [task.cancel() for task in started])
                with contextlib.suppress(BaseException):
                    result.exception(_INTERRUPTED)
            raise

    def _facts(self) -> list[dict[str, Any]]:
        return self.call(self.runner.facts())

    def shutdown(self) -> None:
        """End the session; see :meth:`Session.shutdown`."""
        if self.closed:
            self._closed = True
            return
        with contextlib.suppress(concurrent.futures.CancelledError, TimeoutError):
            asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(_SHUTDOWN)
        self._closed = True
        self._end_loop()
        self._host.close()

    async def _stop(self) -> None:
        for task in list(self._calls):
            task.cancel()
        await self.runner.stop()

    def _end_loop(self) -> None:
        self._closed = True
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(2)
        if not self._thread.is_alive():
            self._loop.close()


def arguments(**given: Any) -> dict[str, Any]:
    """What a session is made with: what is given, and what is usual; see :func:`init`."""
    usual: dict[str, Any] = {
        "workers": None, "threads": None, "memory_limit": None, "address": None, "policy": "ncs", "compression": "none",
        "options": {},
    }  # fmt: skip
    return usual | given


# ---- the session of the process ----

_lock = forks.reentrant_lock()
_current: Session | None = None


def init(
    host: HostName = "embedded",
    *,
    workers: int | None = None,
    threads: int | None = None,
    memory_limit: int | str | None = None,
    address: Any = None,
    policy: str = "ncs",
    compression: Compression = "none",
    **more: Any,
) -> Session:
    """Begin a session: from now on this process's tasks run there.

    Parameters
    ----------
    host
        ``"embedded"``: in this process. ``"local"``: in processes of this machine. ``"ray"``, ``"dask"``: on a cluster.
    workers
        How many; by default as many as there is room for.
    threads
        Threads of each; by default the cores divided by the workers.
    memory_limit
        Bytes that the workers of one machine and its store may use together, as a number or as in ``"2GiB"``.
    address
        Of the Ray or Dask cluster, or Dask's client or cluster itself; ``None`` to start one on this machine.
    policy
        How tasks are assigned to workers: ``"ncs"``, or one that it is compared with, ``"bfs"``, ``"round-robin"`` or
        ``"random"``.
    compression
        Of what goes from machine to machine: ``"none"``, or ``"lz4"`` where the network is slower than the processors.
    **more
        Options of the host.

    Returns
    -------
    Session
        The one that there is already, if it was begun with the same arguments.

    Raises
    ------
    ValueError
        If there is no such host, policy or compression, or a number is less than 1.
    RuntimeError
        If there is another session.

    Examples
    --------
    >>> import craton
    >>> with craton.init() as session:
    ...     session
    <Session on embedded: 1 worker, 1 thread>
    """
    global _current
    if host not in HOSTS:
        raise ValueError(f"host is one of {', '.join(map(repr, HOSTS))}, not {host!r}")
    from craton.cluster.placing import POLICIES

    if policy not in POLICIES:
        raise ValueError(f"policy is one of {', '.join(map(repr, POLICIES))}, not {policy!r}")
    if compression not in COMPRESSIONS:
        raise ValueError(f"compression is one of {', '.join(map(repr, COMPRESSIONS))}, not {compression!r}")
    numbers: tuple[tuple[str, Any], ...] = (("workers", workers), ("threads", threads))
    for name, number in numbers:
        if number is not None and (isinstance(number, bool) or not isinstance(number, int) or number < 1):
            raise ValueError(f"{name} is a whole number, 1 or more, not {number!r}")
    limit = parse_bytes(memory_limit) if isinstance(memory_limit, str) else memory_limit
    given = arguments(
        workers=workers, threads=threads, memory_limit=limit, address=address, policy=policy, compression=compression,
        options=more,
    )  # fmt: skip
    with _lock:
        if _current is not None and not _current.closed:
            if (_current.host, _current._given) == (host, given):
                return _current
            raise RuntimeError(f"there is a session already, {_current!r}; craton.shutdown() ends it")
        _current = EmbeddedSession(given) if host == "embedded" else ClusterSession(host, given)
        # After what the session has registered to be done at the end, hence before it.
        atexit.unregister(_end)
        atexit.register(_end)
        return _current


def shutdown() -> None:
    """End the session of this process, if there is one."""
    global _current
    with _lock:
        session, _current = _current, None
    if session is not None:
        session.shutdown()


def current() -> Session | None:
    """The session of this process; the one that the environment asks for is begun now if there is none.

    Raises
    ------
    ValueError
        If the environment asks for what there is not.
    """
    session = _current
    if session is not None and not session.closed:
        return session
    wanted = os.environ.get(VARIABLE)
    if not wanted or wanted == "embedded" or (session is not None and session._pid != os.getpid()):
        return None  # also in a fork: each would begin one of its own
    with _lock:
        if _current is None or _current.closed:
            return begin(wanted)
        return _current


def begin(text: str) -> Session:
    """Begin the session that a text asks for; see :func:`parse`."""
    host, arguments = parse(text)
    return init(host, **arguments)


def parse(text: str) -> tuple[HostName, dict[str, Any]]:
    """What `text` asks for, as the environment and the command line say it.

    Parameters
    ----------
    text
        ``embedded``; ``local``, or ``local:4`` for four workers; ``ray``, ``dask``, or the address of such a cluster:
        ``ray://host:10001``, ``ray:auto``, ``dask://host:8786``, ``dask:tcp://host:8786``.

    Raises
    ------
    ValueError
        If it asks for what there is not.

    Examples
    --------
    >>> parse("local:4")
    ('local', {'workers': 4})
    >>> parse("ray://head:10001")
    ('ray', {'address': 'ray://head:10001'})
    """
    host, _, rest = text.partition(":")
    if host == "local" and (not rest or (rest.isdecimal() and int(rest))):
        return "local", {"workers": int(rest)} if rest else {}
    if host == "embedded" and not rest:
        return "embedded", {}
    if host == "ray":
        return "ray", {"address": text if rest.startswith("//") else rest or None}
    if host == "dask":
        return "dask", {"address": f"tcp:{rest}" if rest.startswith("//") else rest or None}
    raise ValueError(
        f"{text!r} names no cluster; say embedded, local, local:4, ray, ray://host:10001, dask or dask:tcp://host:8786"
    )


def info() -> pd.DataFrame:
    """The workers of this process's session; see :meth:`Session.info`.

    Raises
    ------
    RuntimeError
        If there is no session.
    """
    session = current()
    if session is None:
        raise RuntimeError("there is no session; craton.init() begins one")
    return session.info()


def _end() -> None:
    if _current is not None and _current._pid == os.getpid():
        shutdown()
