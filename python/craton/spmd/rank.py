"""The process of a rank: it receives calls, makes them one after another, and keeps their results.

The main thread makes the calls. A second thread receives messages: calls, which it queues, and what cannot wait for the end of a call,
such as a cancellation or a request for a result.
"""

from __future__ import annotations

import contextlib
import inspect
import os
import queue
import random
import signal
import socket
import sys
import threading
import time
import types
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from craton.comm.errors import CommunicatorClosed, RankFailed
from craton.config import options
from craton.fork_server.processes import high
from craton.remote.side_output import pack_exception
from craton.serialize.snapshots import taken_from
from craton.spmd.connecting import Connector
from craton.spmd.environment import Environment
from craton.spmd.messages import Channel, Message, answer_challenge, decoded, encoded
from craton.spmd.placeholders import Failure, kept_results
from craton.spmd.streams import flush, open_streams, send_mark

__all__ = ["main"]

#: Bytes up to which a result is sent with the answer, and from which it goes through the store.
INLINE, BY_STORE = 1 << 15, 1 << 20
#: Seconds after which a call that is cancelled is interrupted again.
_AGAIN = 0.05


def main(arguments: tuple[Any, ...], fds: list[int]) -> NoReturn:
    """Run a rank until its executor ends it.

    Parameters
    ----------
    arguments
        Empty, if `fds` are a connection for messages and one for output; else the host, the port and the key of the executor, and
        the number of the rank.
    fds
        See above.
    """
    os.setsid()
    if arguments:
        links = _connect(*arguments)
    else:
        links = [socket.socket(fileno=high(fd)) for fd in fds]
    open_streams(links[1].fileno())
    links[1].close()
    rank = _Rank(Channel(links[0]))
    try:
        rank.run()
    finally:
        os._exit(1)


def _connect(host: str, port: int, key: bytes, number: int) -> list[socket.socket]:
    links = []
    for purpose in range(2):
        link = socket.create_connection((host, port), 30)
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        link.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        answer_challenge(link, key, (number * 2 + purpose).to_bytes(8, "little"))
        link.settimeout(None)
        links.append(link)
    return links


class _Rank:
    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._work: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._results = kept_results()
        self._objects: dict[int, Any] = {}
        self._lock = threading.Lock()
        self._cancelled: set[int] = set()
        self._calling = 0  # the number of the call that the main thread makes
        self._interrupted = False
        self._waiting: dict[int, queue.SimpleQueue[tuple[Any, ...]]] = {}
        self._requests = 0
        self._environment: Environment
        self._connector: Connector

    def run(self) -> NoReturn:
        signal.signal(signal.SIGINT, self._on_interrupt)
        threading.Thread(target=self._receive, name="craton-rank", daemon=True).start()
        while (work := self._work.get()) is not None:
            work()
        with contextlib.suppress(BaseException):
            self._connector.close()
        with contextlib.suppress(BaseException):
            flush()
        os._exit(0)

    # ---- the receiving thread ----

    def _receive(self) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            while True:
                self._take(*self._channel.receive())
        except BaseException:
            os._exit(1)  # the executor has ended

    def _take(self, said: tuple[Any, ...], buffers: list[memoryview]) -> None:
        kind, *given = said
        if kind in ("setup", "bind", "connect", "call", "release", "drop_object"):
            self._work.put(lambda: getattr(self, f"_{kind}")(*given, buffers))
        elif kind == "cancel":
            self._cancel(*given)
        elif kind == "fetch":
            # In a thread of its own: if this one waited until the executor reads, the executor could wait for this one.
            threading.Thread(target=self._fetch, args=given, name="craton-fetch", daemon=True).start()
        elif kind == "fetched":
            ref = self._sent.pop(given[0], None)
            if ref is not None:
                ref.drop()
        elif kind == "reply":
            waiting = self._waiting.pop(given[0], None)
            if waiting is not None:
                waiting.put((given[1], buffers))
        elif kind == "end":
            self._work.put(None)

    def _cancel(self, number: int) -> None:
        with self._lock:
            if self._calling != number:
                self._cancelled.add(number)
                return
            self._interrupted = True
        for waiting in list(self._waiting.values()):
            waiting.put((False, None))
        threading.Thread(target=self._interrupt, args=(number,), name="craton-cancel", daemon=True).start()
        self._connector.abort("the call was cancelled")

    def _interrupt(self, number: int) -> None:
        """Interrupt a call until it ends: an interrupt in a callback of the garbage collector, for example, is lost."""
        main = threading.main_thread().ident
        assert main is not None
        while self._calling == number:
            signal.pthread_kill(main, signal.SIGINT)
            time.sleep(_AGAIN)

    def _fetch(self, request: int, number: int) -> None:
        """Send a result: in the store, if it is large and the executor can read the store."""
        try:
            if number not in self._results:
                raise LookupError("the result has been released")
            value = self._results[number]
            buffers = encoded(value)
            if self._shares_store and sum(map(len, buffers)) >= BY_STORE:
                from craton.store.objects import put

                ref = put(value)
                self._sent[request] = ref
                buffers = encoded(ref)
                self._channel.send(("fetched", request, "store"), buffers)
            else:
                self._channel.send(("fetched", request, "value"), buffers)
        except OSError:
            os._exit(1)
        except BaseException as error:
            self._channel.send(("fetched", request, "error"), [pack_exception(error)])

    # ---- the main thread ----

    def _on_interrupt(self, _signal: int, _frame: Any) -> None:
        if self._calling and self._interrupted:
            raise KeyboardInterrupt

    def _setup(self, given: dict[str, Any], buffers: list[memoryview]) -> None:
        self._sent: dict[int, Any] = {}
        try:
            for name in set() if given["keeps_variables"] else set(os.environ) - set(given["variables"]):
                del os.environ[name]
            os.environ.update(given["variables"])
            sys.path += [entry for entry in given["path"] if entry not in sys.path]
            with contextlib.suppress(OSError):
                os.chdir(given["folder"])
            options.memory_limit = given["memory"]
            options.result_memory = given["memory"] // 4
            self._shares_store, self._marks = given["shares_store"], given["marks"]
            kept_results(given["executor"])
            sequence = np.random.SeedSequence(given["seed"], spawn_key=(given["rank"],))
            random.seed(int(sequence.generate_state(1, np.uint64)[0]))
            np.random.seed(sequence.generate_state(4))
            self._connector = Connector(given["communicator"], given["rank"], given["host"])
            restored = decoded(buffers) if buffers else None
            self._environment = Environment(given, self._connector, self._request, sequence, restored)
        except BaseException as error:
            self._channel.send(("unusable",), [pack_exception(error)])
            return
        self._bind([])

    def _bind(self, _buffers: list[memoryview]) -> None:
        try:
            address = self._connector.bind()
        except BaseException as error:
            self._channel.send(("unusable",), [pack_exception(error)])
            return
        self._channel.send(("bound", os.getpid()), [address])

    def _connect(self, key: bytes, buffers: list[memoryview]) -> None:
        try:
            self._connector.connect([bytes(one) for one in buffers], key)
        except BaseException as error:
            self._channel.send(("unusable",), [pack_exception(error)])
            return
        self._channel.send(("connected",))

    def _release(self, number: int, _buffers: list[memoryview]) -> None:
        self._results.pop(number, None)

    def _drop_object(self, number: int, _buffers: list[memoryview]) -> None:
        self._objects.pop(number, None)

    def _call(self, number: int, kind: str, on: int, buffers: list[memoryview]) -> None:
        with self._lock:
            cancelled = number in self._cancelled
            self._cancelled.discard(number)
            if not cancelled:
                self._calling, self._interrupted = number, False
        if cancelled:
            self._connector.abort("the call was cancelled")  # other ranks may wait for this one
            self._channel.send(("done", number, "cancelled", False))
            return
        answer: tuple[Any, ...]
        inline: list[Any] = []
        try:
            try:
                made = [self._make(kind, number, on, buffers)]
                with self._lock:
                    self._calling = 0
            except BaseException:
                with self._lock:
                    self._calling = 0
                raise
        except BaseException as error:
            answer, inline = self._failed(number, error)
            if inline:
                self._results[number] = Failure(inline[0])
        else:
            answer = ("done", number, "value")
            inline = _small(made[0])
            if not inline:
                answer = ("done", number, "kept")
            self._results[number] = taken_from(made)
            made.clear()
        flush()
        marked = self._marks
        if marked:
            try:
                send_mark(number)
            except OSError:  # the function has closed the stream
                marked = False
        self._channel.send((*answer, marked), inline)

    def _make(self, kind: str, number: int, on: int, buffers: list[memoryview]) -> Any:
        function, args, kwargs = _arguments(buffers)
        if kind == "start":
            self._objects[number] = self._called(function, args, kwargs)
            return None
        if kind == "execute":
            if on not in self._objects:
                raise LookupError("the object was not made: its constructor raised, or it has been released")
            owner = self._objects[on]
            if isinstance(function, str):
                function = getattr(owner, function)
            elif hasattr(function, "__get__") and not isinstance(function, type):
                function = function.__get__(owner)
            else:
                args = (owner, *args)
        return self._called(function, args, kwargs)

    def _called(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if "env" not in kwargs and _takes_env(function, len(args)):
            kwargs = {**kwargs, "env": self._environment}
        return function(*args, **kwargs)

    def _failed(self, number: int, error: BaseException) -> tuple[tuple[Any, ...], list[Any]]:
        """Abort the communicator, so that no rank waits for this one, and describe the error."""
        with contextlib.suppress(BaseException):
            self._connector.abort(f"rank {self._environment.rank} raised {type(error).__name__}")
        if isinstance(error, KeyboardInterrupt) and self._interrupted:
            return ("done", number, "cancelled"), []
        # An error that another rank's error has caused is not the first one, whenever it comes.
        follows = _follows(error)
        try:
            packed = pack_exception(error)
        except BaseException as other:
            packed = pack_exception(RuntimeError(f"{type(error).__name__}, which cannot be sent: {other}"))
        return ("done", number, "follows" if follows else "error"), [packed]

    def _request(self, what: tuple[Any, ...], buffers: list[Any], timeout: float | None) -> Message:
        """Send a request to the executor, and wait for its answer.

        Raises
        ------
        TimeoutError
            If there is none in time.
        """
        with self._lock:
            self._requests += 1
            number = self._requests
        waiting = self._waiting[number] = queue.SimpleQueue()
        self._channel.send(("request", number, *what), buffers)
        try:
            answer, sent = waiting.get(timeout=timeout)
        except queue.Empty:
            self._channel.send(("withdraw", number))
            raise TimeoutError(f"no answer within {timeout:g} s") from None
        finally:
            self._waiting.pop(number, None)
        if answer is False:
            raise KeyboardInterrupt
        return answer, sent


def _follows(error: BaseException | None) -> bool:
    """Whether an error was raised because of an error of the communicator."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        if isinstance(error, (CommunicatorClosed, RankFailed)):
            return True
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return False


def _arguments(buffers: list[memoryview]) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    given = decoded(buffers)
    if type(given).__name__ == "Ref":
        from craton.store.objects import get

        given = get(given)
    function, args, kwargs = given
    return function, args, kwargs


def _small(value: Any) -> list[Any]:
    """Encode a result that is small enough to be sent with the answer; empty if it is not, or cannot be pickled."""
    size = getattr(value, "nbytes", 0)
    if (isinstance(size, int) and size > INLINE) or (hasattr(value, "columns") and len(value) > 1000):
        return []
    try:
        buffers = encoded(value)
    except Exception:  # raised when the result is fetched
        return []
    return buffers if sum(map(len, buffers)) <= INLINE else []


def _takes_env(function: Any, given: int) -> bool:
    """Whether a function has a parameter `env` that the positional arguments do not fill."""
    if isinstance(function, types.BuiltinFunctionType):
        return False
    if type(function) is types.FunctionType and not function.__dict__:  # without the cost of a signature
        code = function.__code__
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        place = names.index("env") if "env" in names else -1
        return place >= code.co_posonlyargcount and not place < min(given, code.co_argcount)
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # a builtin
        return False
    for place, parameter in enumerate(parameters):
        if parameter.name == "env":
            by_place = parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
            return parameter.kind is not parameter.POSITIONAL_ONLY and not (by_place and place < given)
    return False
