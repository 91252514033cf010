"""Sessions: a program's connection to the workers that run its tasks, from ``craton.init`` to ``craton.shutdown``.

The supervisor of a cluster runs in an event loop in a dedicated thread. The program's threads submit coroutines to that loop with
:meth:`Session.call`, which Ctrl-C interrupts.
"""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import contextlib
import os
import secrets
import threading
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from craton import forks
from craton.cluster.environment import VARIABLE
from craton.config import parse_bytes

if TYPE_CHECKING:
    import pandas as pd

    from craton.cluster.hosts.base import Host, WorkerSpec
    from craton.cluster.supervisor import Supervisor
    from craton.schedule.tasks import Runner

_T = TypeVar("_T")

HostName = Literal["embedded", "local", "ray", "dask"]
HOSTS = ("embedded", "local", "ray", "dask")
#: The compression of data that is sent between machines.
Compression = Literal["none", "lz4"]
COMPRESSIONS = ("none", "lz4")

# Seconds that an interrupted call, and a session that is shut down, may take to end.
_INTERRUPTED, _SHUTDOWN = 0.9, 10.0


class Session:
    """A session, created by :func:`init`, and ended by :func:`shutdown` or at the end of a ``with`` block.

    Attributes
    ----------
    host : str
        ``"embedded"``, ``"local"``, ``"ray"`` or ``"dask"``.
    runner : Runner
        Runs tasks. Call its methods only in coroutines that are passed to :meth:`call`.
    """

    def __init__(self, host: str, given: dict[str, Any]) -> None:
        self.host, self._arguments = host, given
        self.runner: Runner
        self._closed = False
        self._pid = os.getpid()
        self._endings: list[Callable[[], None]] = []

    def at_end(self, end: Callable[[], None]) -> None:
        """Call a function when the session is shut down, before its workers end. In a forked process it is not called."""
        self._endings.append(end)

    def _call_endings(self) -> None:
        endings, self._endings = self._endings, []
        for end in endings if self._pid == os.getpid() else ():
            end()

    def call(self, coroutine: Coroutine[Any, Any, _T]) -> _T:
        """Run a coroutine and return its result; may be called in any thread. Ctrl-C cancels the coroutine."""
        raise NotImplementedError

    def info(self) -> pd.DataFrame:
        """Return a frame with a row for each worker.

        Returns
        -------
        pandas.DataFrame
            The index ``worker``, and the columns ``node`` (the machine's name), ``address``, ``pid``, ``threads``, ``memory_limit``
            and ``memory_used`` (bytes), ``done`` and ``running`` (numbers of tasks), and ``alive``.
        """
        import pandas as pd

        return pd.DataFrame(self._describe_workers(), columns=_COLUMNS).set_index("worker")

    def _describe_workers(self) -> list[dict[str, Any]]:
        raise NotImplementedError

    def shutdown(self) -> None:
        """End the session: cancel running tasks, end the workers and drop all outputs. Further calls do nothing."""
        raise NotImplementedError

    @property
    def closed(self) -> bool:
        """Whether the session has ended; also true in a forked process."""
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
        """A short description of the host and its workers, for display."""
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
    """Run a coroutine in this thread, even if an event loop is running in it already, as in a notebook."""
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
    """A session without other processes: tasks run in the thread that calls :meth:`call`."""

    def __init__(self, given: dict[str, Any]) -> None:
        from craton.schedule.inline import InlineRunner

        super().__init__("embedded", given)
        self.runner = InlineRunner(threads=given["threads"] or 1)

    def call(self, coroutine: Coroutine[Any, Any, _T]) -> _T:
        """Run a coroutine in this thread."""
        return run_here(coroutine)

    def _describe_workers(self) -> list[dict[str, Any]]:
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
        self._call_endings()
        self._closed = True


class ClusterSession(Session):
    """A session whose tasks run on the workers that a host starts."""

    runner: Supervisor

    def __init__(self, host: str, given: dict[str, Any]) -> None:
        from craton.cluster.hosts.base import WorkerSpec

        super().__init__(host, given)
        spec = WorkerSpec(given["workers"], given["threads"], given["memory_limit"])
        self._host = self._make_host()
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

        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # Ctrl-C interrupts the program's threads only
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        # Calls that came while the loop was stopping are cancelled, so that their callers do not wait for ever.
        _cancel_all(self._loop, timeout=1)

    async def _start(self, spec: WorkerSpec, reached_at: str) -> Supervisor:
        import craton.actor as xo
        from craton.cluster.supervisor import Supervisor
        from craton.cluster.transfer import Transport

        pool = await xo.create_actor_pool(reached_at, n_process=0, auto_recover="actor")
        pool.use_key(secrets.token_hex(32).encode())  # the workers get it too, and refuse connections without it
        self._host.pool = pool
        transport = Transport(self._arguments["compression"], self._arguments["communicator"])
        try:
            supervisor = Supervisor(pool, self._host, self._arguments["policy"], transport)
        except BaseException:
            await pool.stop()
            raise
        try:
            await supervisor.start(spec)
        except BaseException:
            await supervisor.stop()
            raise
        return supervisor

    @property
    def machines(self) -> Host:
        """The host, which knows the machines and their stores."""
        return self._host

    def _make_host(self) -> Host:
        options = self._arguments["options"]
        if self.host == "local":
            from craton.cluster.hosts.local import LocalHost

            return LocalHost(**options)
        try:
            if self.host == "ray":
                from craton.cluster.hosts.ray import RayHost

                return RayHost(self._arguments["address"], **options)
            from craton.cluster.hosts.dask import DaskHost

            return DaskHost(self._arguments["address"], **options)
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                f"the host {self.host!r} needs {error.name}: pip install 'craton[{self.host}]'; the hosts 'local' and 'embedded' "
                f"need no other package",
                name=error.name,
            ) from None

    def call(self, coroutine: Coroutine[Any, Any, _T]) -> _T:
        """Run a coroutine on the supervisor's loop; see :meth:`Session.call`.

        Raises
        ------
        RuntimeError
            If the session has ended, or the caller is the supervisor's thread.
        """
        if self.closed or threading.current_thread() is self._thread:
            coroutine.close()
            raise RuntimeError(
                "the session has ended"
                if self.closed
                else "call() would block the supervisor's thread; await there instead"
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

    def _describe_workers(self) -> list[dict[str, Any]]:
        return self.call(self.runner.describe_workers())

    def shutdown(self) -> None:
        """End the session; see :meth:`Session.shutdown`."""
        if self.closed:
            self._closed = True
            return
        self._call_endings()
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


def complete_arguments(**given: Any) -> dict[str, Any]:
    """Complete the arguments of a session with the defaults of :func:`init`."""
    defaults: dict[str, Any] = {
        "workers": None, "threads": None, "memory_limit": None, "address": None, "policy": "ncs", "compression": "none",
        "communicator": None, "options": {},
    }  # fmt: skip
    return defaults | given


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
    communicator: str | None = None,
    **more: Any,
) -> Session:
    """Begin a session: this process's tasks run on its workers until it ends.

    Parameters
    ----------
    host
        Where tasks run: ``"embedded"`` in this process, ``"local"`` in processes of this machine, ``"ray"`` or ``"dask"`` on a
        cluster.
    workers
        The number of workers; by default as many as the host has room for.
    threads
        Threads of each worker; by default the number of cores divided by the number of workers.
    memory_limit
        Bytes that the workers of one machine and its store may use together, as a number or as text such as ``"2GiB"``.
    address
        The address of the Ray or Dask cluster, or a Dask client or cluster object; ``None`` starts a cluster on this machine.
    policy
        How tasks are assigned to workers: ``"ncs"``, or for comparison ``"algorithm-1"``, ``"bfs"``, ``"round-robin"`` or
        ``"random"``.
    compression
        The compression of data that is sent between machines: ``"none"``, or ``"lz4"`` for networks that are slower than the
        compression.
    communicator
        How data is sent between machines: the name of a communicator of :mod:`craton.comm`, such as ``"ucx"`` for networks with RDMA;
        by default by the connections of the session's actors.
    **more
        Options of the host.

    Returns
    -------
    Session
        The new session, or the current one if it was begun with the same arguments.

    Raises
    ------
    ValueError
        If the host, policy, compression or communicator is unknown, or a number is less than 1.
    ModuleNotFoundError
        If the communicator needs a package that is not installed.
    RuntimeError
        If there is a session with other arguments, or the workers cannot be started.

    Examples
    --------
    >>> import craton
    >>> with craton.init() as session:
    ...     session
    <Session on embedded: 1 worker, 1 thread>
    """
    global _current
    if host not in HOSTS:
        raise ValueError(f"host must be one of {', '.join(map(repr, HOSTS))}, not {host!r}")
    from craton.cluster.placing import POLICIES
    from craton.comm import check_available

    if policy not in POLICIES:
        raise ValueError(f"policy must be one of {', '.join(map(repr, POLICIES))}, not {policy!r}")
    if compression not in COMPRESSIONS:
        raise ValueError(f"compression must be one of {', '.join(map(repr, COMPRESSIONS))}, not {compression!r}")
    if communicator == "mpi":
        raise ValueError("the workers of a session are not started by mpiexec: use another communicator than 'mpi'")
    if communicator is not None:
        check_available(communicator)
    numbers: tuple[tuple[str, Any], ...] = (("workers", workers), ("threads", threads))
    for name, number in numbers:
        if number is not None and (isinstance(number, bool) or not isinstance(number, int) or number < 1):
            raise ValueError(f"{name} must be an integer of at least 1, not {number!r}")
    limit = parse_bytes(memory_limit) if isinstance(memory_limit, str) else memory_limit
    given = complete_arguments(
        workers=workers, threads=threads, memory_limit=limit, address=address, policy=policy, compression=compression,
        communicator=communicator, options=more,
    )  # fmt: skip
    with _lock:
        if _current is not None and not _current.closed:
            if (_current.host, _current._arguments) == (host, given):
                return _current
            raise RuntimeError(
                f"there is a session with other arguments, {_current!r}; end it first with craton.shutdown()"
            )
        _current = EmbeddedSession(given) if host == "embedded" else ClusterSession(host, given)
        # Registered last, so that it runs before the exit handlers that the session has registered.
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
    """Return the session of this process, or None. If there is none and ``CRATON_CLUSTER`` names a cluster, begin one.

    Raises
    ------
    ValueError
        If the value of ``CRATON_CLUSTER`` is invalid.
    """
    session = _current
    if session is not None and not session.closed:
        return session
    wanted = os.environ.get(VARIABLE)
    if not wanted or wanted == "embedded" or (session is not None and session._pid != os.getpid()):
        return None  # a forked process of one that had a session does not begin another
    with _lock:
        if _current is None or _current.closed:
            return begin(wanted)
        return _current


def begin(text: str) -> Session:
    """Begin a session from the text form of its arguments; see :func:`parse_cluster`."""
    host, arguments = parse_cluster(text)
    return init(host, **arguments)


def parse_cluster(text: str) -> tuple[HostName, dict[str, Any]]:
    """Parse the text form of a session's arguments, as in ``CRATON_CLUSTER`` and on the command line.

    Parameters
    ----------
    text
        ``embedded``; ``local``, or ``local:4`` for four workers; ``ray``, ``dask``, or the address of such a cluster:
        ``ray://host:10001``, ``ray:auto``, ``dask://host:8786``, ``dask:tcp://host:8786``.

    Raises
    ------
    ValueError
        If the text has none of these forms.

    Examples
    --------
    >>> parse_cluster("local:4")
    ('local', {'workers': 4})
    >>> parse_cluster("ray://head:10001")
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
        f"{text!r} names no cluster; expected embedded, local, local:4, ray, ray://host:10001, dask or dask:tcp://host:8786"
    )


def info() -> pd.DataFrame:
    """Return a frame of the workers of this process's session; see :meth:`Session.info`.

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
