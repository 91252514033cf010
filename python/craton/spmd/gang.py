"""The processes of an executor's ranks, which start together and end together, and the thread that receives their messages."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from craton.actor.wire.keepalive import SILENCE, is_silent
from craton.spmd.messages import Channel, challenge
from craton.spmd.streams import OutputReader

__all__ = ["Gang", "Listener", "Place", "Starter"]

#: Seconds that a rank may take to connect, and to end by itself.
_CONNECTS, _ENDS = 30.0, 0.5
#: Seconds that the exit code and the last output of a process may take when its connection has ended.
_REPORTED = 2.0
#: Seconds between two looks at the connections to other machines.
_LOOKS = 0.4


class Starter(Protocol):
    """Starts the ranks of one machine."""

    def start(self, arguments: tuple[Any, ...], fds: list[int]) -> int:
        """Start a rank; return the number of its process."""

    def kill(self, pid: int) -> None:
        """Kill a rank."""

    def exit_code(self, pid: int, timeout: float) -> int | None:
        """Wait for the end of a rank; return its exit code, or None."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a rank runs.

    Parameters
    ----------
    machine
        The name of the machine.
    local_rank
        The number among the ranks of the machine.
    starter
        Starts it.
    host
        The host name or address at which the ranks of other machines reach this one; empty if all are on one machine.
    reach
        The address of this machine for the rank's connections; empty for ranks of this machine.
    store
        The address of the store on the machine.
    threads
        Environment variables that limit the threads of numeric libraries.
    node
        The number of the machine in the session.
    """

    machine: str
    local_rank: int
    starter: Starter
    host: str = ""
    reach: str = ""
    store: str = ""
    threads: Mapping[str, str] = field(default_factory=dict)
    node: int = 0


class Listener(Protocol):
    """Takes what comes from the ranks, in the thread that receives it."""

    def take(self, gang: Gang, rank: int, said: tuple[Any, ...], buffers: list[memoryview]) -> None:
        """Take a message."""

    def lost(self, gang: Gang, rank: int, reason: str) -> None:
        """Take note that a rank has ended."""

    def show(self, rank: int, stream: str, line: str) -> None:
        """Show a line of output."""


@dataclass(slots=True)
class _Member:
    place: Place
    pid: int = 0
    channel: Channel | None = None
    output: socket.socket | None = None
    reader: OutputReader | None = None
    shown: int = 0  # the last call whose output is complete
    held: list[tuple[int, tuple[Any, ...], list[memoryview]]] = field(default_factory=list)
    lost: bool = False
    silent: bool = False


class Gang:
    """The ranks' processes.

    Parameters
    ----------
    places
        Where the ranks run.
    listener
        Gets what comes from them.

    Raises
    ------
    craton.spmd.starting.StartFailed, OSError
        If a rank cannot be started; then none is left running.
    """

    def __init__(self, places: list[Place], listener: Callable[[], Listener | None]) -> None:
        self._members = [_Member(place) for place in places]
        self._listener = listener
        self._selector = selectors.DefaultSelector()
        self._wake, self._waker = socket.socketpair()
        self._selector.register(self._wake, selectors.EVENT_READ, None)
        self._wake.setblocking(False)
        self._waker.setblocking(False)
        self._soon: deque[tuple[Any, ...]] = deque()
        self._ending = False
        self._thread = threading.Thread(target=self._run, name="craton-spmd", daemon=True)
        try:
            self._start()
        except BaseException:
            self._kill_all()
            self._close()
            raise
        self._thread.start()
        if any(place.reach for place in places):
            threading.Thread(target=self._watch_machines, name="craton-spmd-watch", daemon=True).start()

    @property
    def pids(self) -> list[int]:
        """The numbers of the processes, by rank."""
        return [one.pid for one in self._members]

    def send(self, rank: int, said: tuple[Any, ...], buffers: Iterable[Any] = ()) -> None:
        """Send a message to a rank; does nothing if it has ended."""
        channel = self._members[rank].channel
        if channel is not None:
            with contextlib.suppress(OSError):
                channel.send(said, buffers)

    def send_soon(self, said: tuple[Any, ...]) -> None:
        """Send a message to all ranks, in the gang's thread; takes no lock."""
        self._soon.append(said)
        with contextlib.suppress(OSError):
            self._waker.send(b".")

    def end(self) -> None:
        """End the processes: they may end by themselves for a moment, and are killed then. Further calls do nothing."""
        if self._ending:
            return
        self._ending = True
        for rank, _ in enumerate(self._members):
            self.send(rank, ("end",))
        until = time.monotonic() + _ENDS
        for one in self._members:
            one.place.starter.exit_code(one.pid, max(until - time.monotonic(), 0))
        self._kill_all()
        self._join()

    def kill(self) -> None:
        """Kill the processes. Further calls do nothing."""
        if not self._ending:
            self._ending = True
            self._kill_all()
            self._join()

    def _kill_all(self) -> None:
        # Ranks of a machine that does not answer end when their connections do, at the latest with the session.
        reached = [one for one in self._members if one.pid and not one.silent]
        for one in reached:
            one.place.starter.kill(one.pid)
        for one in reached:
            one.place.starter.exit_code(one.pid, _REPORTED)

    def _join(self) -> None:
        with contextlib.suppress(OSError):
            self._waker.send(b".")
        if threading.current_thread() is not self._thread:
            self._thread.join(5)

    # ---- the start ----

    def _start(self) -> None:
        away = [one for one in self._members if one.place.reach]
        for one in self._members:
            if not one.place.reach:
                self._start_here(one)
        if away:
            self._start_away()

    def _start_here(self, one: _Member) -> None:
        pairs = [socket.socketpair(), socket.socketpair()]
        try:
            one.pid = one.place.starter.start((), [theirs.fileno() for _, theirs in pairs])
        except BaseException:
            for own, _ in pairs:
                own.close()
            raise
        finally:
            for _, theirs in pairs:
                theirs.close()
        self._connected(one, pairs[0][0], pairs[1][0])

    def _start_away(self) -> None:
        """Start ranks on other machines; each connects to this process twice."""
        key = os.urandom(32)
        links: dict[int, socket.socket] = {}
        reach = next(one.place.reach for one in self._members if one.place.reach)
        with socket.create_server((reach, 0), backlog=2 * len(self._members)) as server:
            port = server.getsockname()[1]
            for rank, one in enumerate(self._members):
                if one.place.reach:
                    one.pid = one.place.starter.start((one.place.reach, port, key, rank), [])
            wanted = {2 * rank + n for rank, one in enumerate(self._members) if one.place.reach for n in (0, 1)}
            until = time.monotonic() + _CONNECTS
            while links.keys() != wanted:
                server.settimeout(max(until - time.monotonic(), 0.001))
                link, _ = server.accept()
                try:
                    link.settimeout(5)
                    number = int.from_bytes(challenge(link, key), "little")
                except OSError:
                    link.close()  # not a rank
                    continue
                link.settimeout(None)
                link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                for option, value in _KEEPALIVE:
                    link.setsockopt(*option, value)
                links[number] = link
        for rank, one in enumerate(self._members):
            if one.place.reach:
                self._connected(one, links[2 * rank], links[2 * rank + 1])

    def _connected(self, one: _Member, channel: socket.socket, output: socket.socket) -> None:
        rank = self._members.index(one)
        one.channel, one.output = Channel(channel), output
        one.reader = OutputReader(lambda stream, line: self._show(rank, stream, line), lambda n: self._mark(one, n))
        output.setblocking(False)
        self._selector.register(channel, selectors.EVENT_READ, (rank, False))
        self._selector.register(output, selectors.EVENT_READ, (rank, True))

    # ---- the thread ----

    def _run(self) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        while not self._ending:
            for key, _ in self._selector.select():
                if key.data is None:
                    self._send_waiting()
                    continue
                rank, output = key.data
                try:
                    (self._read_output if output else self._read_messages)(rank)
                except Exception as error:
                    self._end_of(rank, error)
        for rank, one in enumerate(self._members):
            if one.output is not None:
                self._read_output(rank)
            if one.reader is not None:
                one.reader.finish()
        self._close()

    def _watch_machines(self) -> None:
        """End connections to machines that do not answer. Keepalive notices only what is idle, and a sender may wait for such a machine."""
        while not self._ending:
            time.sleep(_LOOKS)
            away = [one for one in self._members if one.place.reach and one.channel is not None and not one.lost]
            silent = {one.place.node for one in away if one.channel is not None and is_silent(one.channel.link)}
            for one in away:
                if one.place.node in silent and one.channel is not None:
                    one.silent = True
                    one.channel.shut()

    def _close(self) -> None:
        for one in self._members:
            if one.channel is not None:
                one.channel.close()
            if one.output is not None:
                one.output.close()
        self._selector.close()
        self._wake.close()
        self._waker.close()

    def _send_waiting(self) -> None:
        with contextlib.suppress(OSError):
            self._wake.recv(1 << 12)
        while self._soon and not self._ending:
            said = self._soon.popleft()
            for rank, _ in enumerate(self._members):
                self.send(rank, said)

    def _read_output(self, rank: int) -> bool:
        """Read all output that there is; return whether more may come."""
        one = self._members[rank]
        assert one.output is not None
        assert one.reader is not None
        while True:
            try:
                found = one.output.recv(1 << 16)
            except BlockingIOError:
                return True
            except OSError:
                found = b""
            if not found:
                with contextlib.suppress(KeyError, ValueError):
                    self._selector.unregister(one.output)
                return False
            one.reader.feed(found)

    def _read_messages(self, rank: int) -> None:
        one = self._members[rank]
        assert one.channel is not None
        self._read_message(rank, one, one.channel)
        while one.channel.has_more and not one.lost:
            self._read_message(rank, one, one.channel)

    def _read_message(self, rank: int, one: _Member, channel: Channel) -> None:
        try:
            said, buffers = channel.receive()
        except (OSError, EOFError) as error:
            self._end_of(rank, error)
            return
        if said[0] == "done":
            self._read_output(rank)
            if said[3] and one.shown < said[1]:  # the output of the call is on its way
                one.held.append((said[1], said, buffers))
                return
            if one.reader is not None:
                one.reader.finish()
        self._pass_on(rank, said, buffers)

    def _mark(self, one: _Member, number: int) -> None:
        one.shown = max(one.shown, number)
        rank = self._members.index(one)
        ready, one.held = [held for held in one.held if held[0] <= number], [h for h in one.held if h[0] > number]
        for _, said, buffers in ready:
            self._pass_on(rank, said, buffers)

    def _end_of(self, rank: int, error: Exception) -> None:
        one = self._members[rank]
        assert one.channel is not None
        if one.lost:
            return
        one.lost = True
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(one.channel)
        if self._ending:
            return
        if one.silent:
            code, error = None, TimeoutError(f"its machine has been silent for {SILENCE:g} s")
        else:
            code = one.place.starter.exit_code(one.pid, _REPORTED)
        self._read_output(rank)
        if one.reader is not None:
            one.reader.finish()
        listener = self._listener()
        if listener is not None:
            listener.lost(self, rank, _ended(code, error))

    def _pass_on(self, rank: int, said: tuple[Any, ...], buffers: list[memoryview]) -> None:
        listener = self._listener()
        if listener is not None:
            listener.take(self, rank, said, buffers)

    def _show(self, rank: int, stream: str, line: str) -> None:
        listener = self._listener()
        if listener is not None:
            listener.show(rank, stream, line)


#: A machine that does not answer on an idle connection for four seconds is lost.
_KEEPALIVE = (
    ((socket.SOL_SOCKET, socket.SO_KEEPALIVE), 1),
    ((socket.IPPROTO_TCP, socket.TCP_KEEPIDLE), 1),
    ((socket.IPPROTO_TCP, socket.TCP_KEEPINTVL), 1),
    ((socket.IPPROTO_TCP, socket.TCP_KEEPCNT), 3),
)


def _ended(code: int | None, error: Exception) -> str:
    if code is None:
        return f"the connection to its process has ended ({error})"
    if code == -signal.SIGSTOP:
        return "its process was stopped by a signal, and was killed some seconds later"
    if code < 0:
        try:
            return f"its process was ended by {signal.Signals(-code).name}"
        except ValueError:
            return f"its process was ended by signal {-code}"
    return f"its process has ended with exit code {code}"
