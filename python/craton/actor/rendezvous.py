"""How processes that share a key find each other: rank 0 listens at an address that all know, and tells each the addresses of all.

Nothing that others say is read before they have proved that they have the key.
"""

from __future__ import annotations

import json
import queue
import secrets
import socket
import struct
import threading
import time
from typing import Any

from craton.actor.wire.auth import Handshake

__all__ = ["met"]

#: Seconds that ranks wait for each other, that a process may take to prove that it has the key, and between two attempts to connect.
PATIENCE, _PROOF, _PAUSE = 60.0, 5.0, 0.05
#: The most bytes of a message, and the most processes at a time that have not proved it.
_LONGEST, _STRANGERS = 1 << 20, 64

_Arrival = tuple[int, int, bytes, socket.socket]


def met(rank: int, world: int, address: bytes, master: tuple[str, int], key: bytes) -> tuple[bytes, list[bytes]]:
    """Meet all ranks, which call this at the same time.

    Parameters
    ----------
    rank, world
        The number of this rank, and how many there are.
    address
        What the other ranks are to know of this one.
    master
        The host and the port at which rank 0 listens.
    key
        What all ranks share, and nobody else knows.

    Returns
    -------
    tuple of (bytes, list of bytes)
        Random bytes, the same for all ranks, and the addresses of all ranks. They are not secret.

    Raises
    ------
    ValueError
        If two processes have one number, or do not agree on how many ranks there are.
    ConnectionError
        If rank 0 has another key.
    TimeoutError
        If not all ranks come within 60 s.
    """
    until = time.monotonic() + PATIENCE
    if rank == 0:
        return _gathered(world, address, master, key, until)
    while True:
        try:
            connection = socket.create_connection(master, timeout=_PROOF)
            break
        except (ConnectionRefusedError, TimeoutError):  # rank 0 does not listen yet
            if time.monotonic() > until:
                raise TimeoutError(f"rank 0 does not listen at {master[0]}:{master[1]}") from None
            time.sleep(_PAUSE)
    with connection:
        if not _proved(connection, Handshake(key, server=False)):
            raise ConnectionError(
                f"the process at {master[0]}:{master[1]} is not rank 0 of these ranks: it has another key"
            )
        _send(connection, [rank, world, address.hex()])
        connection.settimeout(max(until - time.monotonic(), 0.001))
        try:
            salt, addresses, problem = _receive(connection)
        except TimeoutError:
            raise TimeoutError(f"not all of {world} ranks have come within {PATIENCE:g} s") from None
    if problem:
        raise ValueError(problem)
    return bytes.fromhex(salt), [bytes.fromhex(each) for each in addresses]


def _gathered(
    world: int, address: bytes, master: tuple[str, int], key: bytes, until: float
) -> tuple[bytes, list[bytes]]:
    salt, found = secrets.token_bytes(16), {0: address}
    connections: list[socket.socket] = []
    arrivals: queue.Queue[_Arrival] = queue.Queue()
    problem = ""
    with socket.create_server(master, backlog=world + _STRANGERS) as listener:
        stopping = threading.Event()
        accepting = threading.Thread(target=_accept, args=(listener, key, arrivals, stopping), daemon=True)
        accepting.start()
        try:
            while len(found) < world and not problem:
                try:
                    other, size, theirs, connection = arrivals.get(timeout=max(until - time.monotonic(), 0.001))
                except queue.Empty:
                    raise TimeoutError(f"only {len(found)} of {world} ranks have come within {PATIENCE:g} s") from None
                connections.append(connection)
                if size != world or not 0 < other < world or other in found:
                    problem = (
                        f"a process says that it is rank {other} of {size}, but there are {world} ranks, each once"
                    )
                found[other] = theirs
            addresses = [] if problem else [found[number] for number in range(world)]
            for connection in connections:
                _send(connection, [salt.hex(), [each.hex() for each in addresses], problem])
        finally:
            stopping.set()
            for connection in connections:
                connection.close()
            accepting.join()
    if problem:
        raise ValueError(problem)
    return salt, addresses


def _accept(listener: socket.socket, key: bytes, arrivals: queue.Queue[_Arrival], stopping: threading.Event) -> None:
    listener.settimeout(_PAUSE)
    places = threading.Semaphore(_STRANGERS)
    while not stopping.is_set():
        try:
            connection, _ = listener.accept()
        except OSError:
            continue
        if not places.acquire(blocking=False):
            connection.close()
            continue
        threading.Thread(target=_answer, args=(connection, key, arrivals, places), daemon=True).start()


def _answer(
    connection: socket.socket, key: bytes, arrivals: queue.Queue[_Arrival], places: threading.Semaphore
) -> None:
    """Take what a process says of itself, if it proves that it has the key in time."""
    try:
        connection.settimeout(_PROOF)
        if _proved(connection, Handshake(key, server=True)):
            rank, world, address = _receive(connection)
            arrivals.put((int(rank), int(world), bytes.fromhex(address), connection))
            return
    except (OSError, ValueError, TypeError):
        pass
    finally:
        places.release()
    connection.close()


def _proved(connection: socket.socket, handshake: Handshake) -> bool:
    connection.sendall(handshake.opening())
    while handshake.expects:
        answer = handshake.answer(_exactly(connection, handshake.expects))
        if answer is None:
            return False
        connection.sendall(answer)
    return True


def _send(connection: socket.socket, what: Any) -> None:
    text = json.dumps(what).encode()
    connection.sendall(struct.pack("<I", len(text)) + text)


def _receive(connection: socket.socket) -> Any:
    (length,) = struct.unpack("<I", _exactly(connection, 4))
    if length > _LONGEST:
        raise ValueError(f"a message of {length} bytes")
    return json.loads(_exactly(connection, length))


def _exactly(connection: socket.socket, count: int) -> bytes:
    parts = bytearray()
    while len(parts) < count:
        part = connection.recv(count - len(parts))
        if not part:
            raise ConnectionError("the other process has closed the connection")
        parts += part
    return bytes(parts)
