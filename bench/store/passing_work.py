"""The processes of one turn of `bench.store.passing`: a sender and a receiver.

The sender starts the receiver, which connects and waits. A pass begins when the sender begins to send, and ends when the
receiver has read one value of every column of the table; both processes read the same monotonic clock. Afterwards, untimed, the
receiver sums all columns and reports how much of the table is in shared memory. The sender compares the sums with its own.
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

ROOT = Path(__file__).resolve().parents[2]
LENGTH = struct.Struct("<Q")
SMALL = 30_000
"""Rows of the table of the warm-up. It is large enough for a store to treat it like the large table."""
SOCKET_BUFFER = 4 << 20
SO_SNDBUFFORCE, SO_RCVBUFFORCE = 32, 33


def table_of(rows: int) -> pa.Table:
    """Return a table with random data in one chunk: four columns of integers, four of doubles and one of strings."""
    random = np.random.default_rng(3)
    columns: dict[str, Any] = {f"i{n}": random.integers(0, 2**62, rows) for n in range(4)}
    columns |= {f"f{n}": random.random(rows) for n in range(4)}
    columns["s"] = pc.cast(pa.array(columns["i0"][::-1]), pa.string())
    return pa.table(columns)


def sums_of(table: pa.Table) -> list[int]:
    """Return a checksum of every column: its 64-bit values, or the lengths of its strings and the numbers in them."""
    sums = []
    for column in table.columns:
        total = 0
        for chunk in column.chunks:
            if pa.types.is_primitive(chunk.type):
                total += int(chunk.to_numpy().view(np.uint64).sum())
            else:
                strings = pc.cast(chunk, pa.string())
                total += int(pc.sum(pc.binary_length(strings)).as_py() or 0)
                total += int(pc.cast(strings, pa.int64()).to_numpy().view(np.uint64).sum())
        sums.append(total % 2**64)
    return sums


def use(table: Any) -> list[Any]:
    """Read the value in the middle of every column."""
    if isinstance(table, pa.Table):
        return [column[len(column) // 2].as_py() for column in table.columns]
    return [column[len(column) // 2] for column in table.get_columns()]


def private_memory() -> int:
    """Return the bytes of this process's resident private memory."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise OSError("no RssAnon in /proc/self/status")


def shared_part(table: Any) -> tuple[int, int]:
    """Return the bytes of a table's buffers in shared memory, and of all its buffers."""
    # Columns are handled one by one, because the columns of a frame may have different chunks. Such a frame cannot be
    # converted to a table without copying.
    columns = table.columns if isinstance(table, pa.Table) else [pa.chunked_array(c) for c in table.get_columns()]
    shared = []
    for line in Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace").splitlines():
        if "memfd:" in line or "/dev/shm/" in line:
            start, _, end = line.split()[0].partition("-")
            shared.append((int(start, 16), int(end, 16)))
    buffers = {
        (buffer.address, buffer.size)
        for column in columns
        for chunk in column.chunks
        for buffer in chunk.buffers()
        if buffer is not None
    }
    inside = sum(
        size for address, size in buffers if any(start <= address and address + size <= end for start, end in shared)
    )
    return inside, sum(size for _, size in buffers)


# ---- messages ----


def send(channel: socket.socket, message: Any) -> None:
    """Send the length of an object's pickle, and the pickle."""
    data = pickle.dumps(message)
    channel.sendall(LENGTH.pack(len(data)) + data)


def receive(channel: socket.socket) -> Any:
    """Receive an object that `send` sent."""
    return pickle.loads(_exactly(channel, LENGTH.unpack(_exactly(channel, LENGTH.size))[0]))


def _exactly(channel: socket.socket, size: int) -> bytearray:
    data = bytearray(size)
    _fill(channel, memoryview(data))
    return data


def _fill(channel: socket.socket, room: memoryview) -> None:
    while room:
        read = channel.recv_into(room, len(room), socket.MSG_WAITALL)
        if not read:
            raise ConnectionError("the other process closed the connection")
        room = room[read:]


class SocketSink:
    """A file object for Arrow that writes to a socket, unbuffered."""

    closed = False

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel

    def write(self, data: Any) -> int:
        """Send all data."""
        self._channel.sendall(data)
        return len(data)

    def flush(self) -> None:
        """Do nothing, because no data is buffered."""


class SocketSource:
    """A file object for Arrow that reads from a socket. Message bodies are received directly into Arrow's buffers."""

    closed = False

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel

    def read_buffer(self, size: int) -> pa.Buffer:
        """Return the next bytes as a buffer."""
        buffer = pa.allocate_buffer(size)
        _fill(self._channel, memoryview(buffer).cast("B"))
        return buffer

    def read(self, size: int) -> bytes:
        """Return the next bytes."""
        return bytes(_exactly(self._channel, size))


# ---- methods of passing ----


class Way:
    """A contestant's method of passing a table: ``keep`` may store it in shared memory, and ``hand_over`` sends it."""

    def keep(self, table: pa.Table) -> Any:
        """Store the table where the receiver can read it, if this method does so; return the argument of `hand_over`."""
        return table

    def hand_over(self, channel: socket.socket, kept: Any) -> None:
        """Send the table, or a reference to it."""
        raise NotImplementedError

    def take(self, channel: socket.socket) -> Any:
        """Receive the table, in the other process."""
        raise NotImplementedError

    def counters(self) -> dict[str, int]:
        """Return the store's counters; empty if there is no store."""
        return {}

    def address(self) -> str | None:
        """Return the address of the store, to which the receiver connects; None if there is no store."""
        return None

    def close(self) -> None:
        """Release all resources."""


class CratonWay(Way):
    """A reference to a table that ``craton.put`` stored, as an Arrow table or as a Polars frame."""

    def __init__(self, address: str | None, size: int, polars: bool = False) -> None:
        import craton
        from craton.store import Store

        self._put, self._get, self._polars = craton.put, craton.get, polars
        if address is None:
            self._store = Store.open(3 * size + (1 << 30))
            self._address = self._store.serve()
        else:
            self._store = craton.connect(address)

    def keep(self, table: pa.Table) -> Any:
        """Put the table into the store. For Polars, it is a frame, whose strings have Polars' layout."""
        if self._polars:
            import polars as pl

            table = pl.from_arrow(table)
        return self._put(table, store=self._store)

    def hand_over(self, channel: socket.socket, kept: Any) -> None:
        """Send the reference."""
        send(channel, kept)

    def take(self, channel: socket.socket) -> Any:
        """Receive the reference, and get the table."""
        return self._get(receive(channel))

    def counters(self) -> dict[str, int]:
        return self._store._native.counters()

    def address(self) -> str | None:
        return self._address

    def close(self) -> None:
        """Close the store."""
        self._store.close()


class ArrowStream(Way):
    """Arrow's IPC stream through the socket."""

    def hand_over(self, channel: socket.socket, kept: Any) -> None:
        """Write the stream."""
        with pa.ipc.new_stream(pa.PythonFile(SocketSink(channel), mode="w"), kept.schema) as writer:
            writer.write_table(kept, max_chunksize=1 << 20)

    def take(self, channel: socket.socket) -> Any:
        """Read the stream to its end."""
        return pa.ipc.open_stream(pa.PythonFile(SocketSource(channel), mode="r")).read_all()


class ArrowFile(Way):
    """Arrow's IPC file in /dev/shm: written by one process, mapped by the other."""

    def __init__(self) -> None:
        self._folder = tempfile.mkdtemp(prefix="craton-bench-", dir="/dev/shm")
        self._made = 0

    def hand_over(self, channel: socket.socket, kept: Any) -> None:
        """Write the file and send its name."""
        self._made += 1
        path = os.path.join(self._folder, f"{self._made}.arrow")
        with pa.OSFile(path, "wb") as sink, pa.ipc.new_file(sink, kept.schema) as writer:
            writer.write_table(kept)
        send(channel, path)

    def take(self, channel: socket.socket) -> Any:
        """Map the file, and remove its name."""
        path = receive(channel)
        table = pa.ipc.open_file(pa.memory_map(path)).read_all()
        os.unlink(path)
        return table

    def close(self) -> None:
        """Remove the folder."""
        os.rmdir(self._folder)


def way_of(name: str, address: str | None, size: int, receiving: bool) -> Way:
    """Return a contestant's method of passing, for the sender or the receiver."""
    if name in ("craton", "craton, Polars"):
        return CratonWay(address, size, polars=name != "craton")
    if name == "arrow file":
        return ArrowFile.__new__(ArrowFile) if receiving else ArrowFile()
    return ArrowStream()


# ---- the two processes ----


def receiver(name: str, address: str | None, descriptor: int) -> None:
    """Receive and measure tables until the sender closes the socket."""
    channel = _socket(socket.socket(fileno=descriptor))
    way = way_of(name, address, 0, receiving=True)
    if name == "craton, Polars":
        import polars as pl

        pl.DataFrame({"a": [1]}).get_column("a")
    send(channel, "ready")
    held: Any = None
    with contextlib.suppress(ConnectionError):
        while True:
            if receive(channel) == "forget":
                held = None
                send(channel, "forgotten")
                continue
            before = private_memory()
            send(channel, "waiting")
            held = way.take(channel)
            values = use(held)
            used = time.monotonic_ns()
            grown = private_memory() - before
            shared, size = shared_part(held)
            found = {"used": used, "values": values, "private_growth": grown, "shared": shared, "size": size}
            send(channel, {**found, "sums": sums_of(pa.table(held))})


def sender(options: dict[str, Any]) -> dict[str, Any]:
    """Pass a small table as a warm-up, and then the large one in several ways."""
    name = options["contestant"]
    small, large = table_of(SMALL), table_of(options["rows"])
    wanted = {id(small): sums_of(small), id(large): sums_of(large)}
    way = way_of(name, None, large.nbytes, receiving=False)
    seconds: dict[str, float] = {}
    details: dict[str, Any] = {"bytes": large.nbytes, "passes": {}}
    with contextlib.ExitStack() as cleanup:
        cleanup.callback(way.close)
        channel = cleanup.enter_context(_receiving(name, way.address()))

        def one_pass(what: str, table: pa.Table, kept: Any = None) -> None:
            send(channel, "take")
            if receive(channel) != "waiting":
                raise ConnectionError("the receiver is not waiting")
            before = way.counters()
            began = time.monotonic_ns()
            way.hand_over(channel, way.keep(table) if kept is None else kept)
            found = receive(channel)
            after = way.counters()
            if found["sums"] != wanted[id(table)]:
                raise ValueError(f"the receiver of {what} has another table: {found['sums']}, not {wanted[id(table)]}")
            seconds[what] = (found["used"] - began) / 1e9
            copied = after["copied"] - before["copied"] if after else None
            kept_facts = {key: found[key] for key in ("private_growth", "shared", "size")}
            details["passes"][what] = {**kept_facts, "copied_into_store": copied}
            send(channel, "forget")
            receive(channel)

        one_pass("warming up", small)
        del seconds["warming up"]
        kept = way.keep(large)
        one_pass("shared table", large, kept)
        one_pass("shared table, again", large, kept)
        del kept
        one_pass("new table", large)
    return {"seconds": seconds, "details": details}


@contextlib.contextmanager
def _receiving(name: str, address: str | None) -> Iterator[socket.socket]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    program = [sys.executable, "-m", "bench.store.passing_work", "receive", name, address or "", str(theirs.fileno())]
    process = subprocess.Popen(program, cwd=ROOT, pass_fds=[theirs.fileno()], stdout=subprocess.DEVNULL)
    theirs.close()
    try:
        with _socket(ours) as channel:
            if receive(channel) != "ready":
                raise ConnectionError("the receiver did not begin")
            yield channel
        process.wait(timeout=60)
    finally:
        process.kill()
        process.wait()


def _socket(channel: socket.socket) -> socket.socket:
    for forced, asked in ((SO_SNDBUFFORCE, socket.SO_SNDBUF), (SO_RCVBUFFORCE, socket.SO_RCVBUF)):
        try:
            channel.setsockopt(socket.SOL_SOCKET, forced, SOCKET_BUFFER)
        except OSError:  # only root may exceed the system's limit
            channel.setsockopt(socket.SOL_SOCKET, asked, SOCKET_BUFFER)
    return channel


def main(arguments: list[str]) -> int:
    """Run as the sender, with options as JSON, or as the receiver."""
    if arguments[0] == "receive":
        receiver(arguments[1], arguments[2] or None, int(arguments[3]))
        return 0
    print(json.dumps(sender(json.loads(arguments[0]))))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
