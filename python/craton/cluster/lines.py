"""Lines: communicators of two processes, by which workers read rows of other machines' outputs instead of the actors' connections.

A worker asks the node actor of a machine for rows; the answer comes by a line. A line has one answer at a time, so a worker has as many
lines to a machine as it has requests there at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import secrets
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

import craton.comm
from craton.comm import Communicator, CommunicatorClosed

if TYPE_CHECKING:
    from craton.cluster.sessions import Compression
    from craton.cluster.transfer import ReadRequest, SentRows

__all__ = ["Lines", "NodeLines"]

#: Seconds in which the two processes connect.
_CONNECTS = 30.0
_T = TypeVar("_T")


class _Threads:
    """Threads for calls of communicators, which wait for another process."""

    def __init__(self) -> None:
        # As many as there are calls: a call that waited for a thread could be the one that another process waits for.
        self._pool = ThreadPoolExecutor(1024, "craton-line")

    def run(self, call: Callable[..., _T], *arguments: Any) -> Awaitable[_T]:
        return asyncio.get_running_loop().run_in_executor(self._pool, call, *arguments)


class NodeLines:
    """A machine's ends of lines; the methods are those of its node actor."""

    def __init__(self, host: str) -> None:
        self._host = host
        self._threads = _Threads()
        self._numbers = itertools.count()
        self._endpoints: dict[int, tuple[str, Any]] = {}
        self._lines: dict[int, asyncio.Future[Communicator]] = {}

    async def bind(self, name: str) -> tuple[int, bytes]:
        """Make an end of a line; return its number and address."""
        endpoint = await self._threads.run(lambda: craton.comm.bind(name, host=self._host))
        number, loop = next(self._numbers), asyncio.get_running_loop()
        self._endpoints[number] = name, endpoint
        self._lines[number] = loop.create_future()
        loop.call_later(2 * _CONNECTS, self._forget, number)
        return number, endpoint.address

    def _forget(self, number: int) -> None:
        """Close an endpoint to which its worker has not connected."""
        if number in self._endpoints:
            _, endpoint = self._endpoints.pop(number)
            endpoint.close()
            self._lines.pop(number).cancel()

    async def hold(self, number: int, address: bytes, key: bytes) -> None:
        """Connect with a worker, which calls this, and keep the line until the call is cancelled or the worker ends."""
        name, endpoint = self._endpoints.pop(number)
        line: Communicator | None = None
        try:
            line = await self._threads.run(lambda: _connect(name, endpoint, 0, [endpoint.address, address], key))
            self._lines[number].set_result(line)
            await asyncio.Event().wait()
        finally:
            self._lines.pop(number).cancel()
            if line is None:
                endpoint.close()
            else:
                line.abort("the line is not used any more")
                line.close()

    async def send(self, number: int, lost: list[int], sent: list[SentRows]) -> None:
        """Send an answer by a line."""
        line = await self._lines[number]

        def send() -> None:
            line.send((lost, [pieces for pieces, _ in sent]), 1)
            for _, data in sent:
                line.send(data, 1)

        await self._threads.run(send)


class _Line:
    """A worker's end of a line: its number at the machine, and the call that keeps it."""

    def __init__(self, number: int, communicator: Communicator, held: asyncio.Task[None]) -> None:
        self.number, self.communicator, self.held = number, communicator, held

    def receive(self) -> tuple[list[int], list[SentRows]]:
        """Receive an answer."""
        lost, pieces = self.communicator.receive(0)
        return lost, [(one, self.communicator.receive(0)) for one in pieces]

    def end(self) -> None:
        self.communicator.abort("the other end did not answer")
        self.communicator.close()
        self.held.cancel()


class Lines:
    """The lines of a process to the machines whose rows it reads.

    Parameters
    ----------
    name
        The name of the communicator: see :mod:`craton.comm`.
    host
        The name or address by which other machines reach this one.
    ref
        Returns a reference to the node actor of a machine.
    """

    def __init__(self, name: str, host: str, ref: Callable[[int], Any]) -> None:
        self._name, self._host, self._ref = name, host, ref
        self._threads = _Threads()
        self._free: dict[int, list[_Line]] = {}

    def reader(self, node: int) -> LineReader:
        """Return what stands for the node actor of a machine in requests for rows."""
        return LineReader(self, node)

    async def read(
        self, node: int, requests: Sequence[ReadRequest], compression: Compression
    ) -> tuple[list[int], list[SentRows]]:
        """See :meth:`craton.cluster.transfer.NodeActor.read`.

        Raises
        ------
        ConnectionError
            If the machine is gone, or the line is broken.
        """
        free = self._free.setdefault(node, [])
        line = free.pop() if free else await self._open(node)
        asked = asyncio.ensure_future(self._ref(node).read_by_line(line.number, requests, compression))
        received = asyncio.ensure_future(self._threads.run(line.receive))
        try:
            await asyncio.wait({asked, received}, return_when=asyncio.FIRST_EXCEPTION)
            if not received.done():
                asked.result()  # raises: else both have ended
            answer = await received
            await asked
        except BaseException as error:
            line.end()
            asked.cancel()
            with contextlib.suppress(BaseException):
                await received
            if isinstance(error, CommunicatorClosed):
                raise ConnectionError(f"the line to machine {node} is broken: {error}") from error
            raise
        free.append(line)
        return answer

    async def _open(self, node: int) -> _Line:
        ref, key = self._ref(node), secrets.token_bytes(32)
        number, address = await ref.bind_line(self._name)
        endpoint = await self._threads.run(lambda: craton.comm.bind(self._name, host=self._host))
        held = asyncio.ensure_future(ref.hold_line(number, endpoint.address, key))
        # It breaks with the machine, as all else.
        held.add_done_callback(lambda task: task.cancelled() or task.exception())
        connecting = asyncio.ensure_future(
            self._threads.run(lambda: _connect(self._name, endpoint, 1, [address, endpoint.address], key))
        )
        try:
            await asyncio.wait({held, connecting}, return_when=asyncio.FIRST_COMPLETED)
            if held.done():
                held.result()
            return _Line(number, await connecting, held)
        except BaseException:
            held.cancel()
            endpoint.close()
            connecting.add_done_callback(_end_late)
            raise


class LineReader:
    """Stands for the node actor of a machine in requests for rows."""

    __slots__ = ("_lines", "_node")

    def __init__(self, lines: Lines, node: int) -> None:
        self._lines, self._node = lines, node

    async def read(
        self, requests: Sequence[ReadRequest], compression: Compression = "none"
    ) -> tuple[list[int], list[SentRows]]:
        """See :meth:`Lines.read`."""
        return await self._lines.read(self._node, requests, compression)


def _end_late(connecting: asyncio.Future[Communicator]) -> None:
    """Close a communicator that nobody waits for any more."""
    if not connecting.cancelled() and connecting.exception() is None:
        connecting.result().close()


def _connect(name: str, endpoint: Any, rank: int, addresses: Sequence[bytes], key: bytes) -> Communicator:
    return craton.comm.connect(name, endpoint, rank, addresses, key, timeout=_CONNECTS)
