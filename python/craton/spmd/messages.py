"""Messages between an executor and its ranks.

A message is a tuple of plain values, and buffers that are sent from their own memory, uncopied. Objects of the user travel in the
buffers as encoded objects: whoever reads the message decodes them only where an error belongs to the user's call.

====================  ===========================================
u32                   number of buffers
u64 each              size of the pickled tuple, and of each buffer
bytes                 the pickled tuple, and the buffers
====================  ===========================================
"""

from __future__ import annotations

import contextlib
import hmac
import os
import pickle
import socket
import struct
import threading
from collections.abc import Iterable, Sequence
from typing import Any

from craton.remote.side_output import unpack_exception
from craton.serialize import decode, encode

__all__ = ["Channel", "Encoded", "Message", "answer_challenge", "challenge", "decoded", "encoded", "error_of"]

Message = tuple[tuple[Any, ...], list[memoryview]]
#: An encoded object as buffers of a message: its meta, and its own buffers.
Encoded = list[Any]

_COUNT = struct.Struct("<I")
_MOST_BUFFERS = 1 << 20
#: Buffers of one system call, and the size up to which parts are joined before they are sent.
_VECTOR, _SMALL = 512, 1 << 14
_CHUNK = 1 << 16
_NONCE = 32


def encoded(value: Any) -> Encoded:
    """Encode an object as the buffers of a message."""
    parts = encode(value)
    return [parts.meta, *parts.buffers]


def decoded(buffers: Sequence[Any], *, copy: bool = False) -> Any:
    """Decode the object of :func:`encoded`."""
    return decode(buffers[0], buffers[1:], copy=copy)


def error_of(buffers: Sequence[Any]) -> BaseException:
    """Return the exception in the only buffer of a message."""
    try:
        return unpack_exception(bytes(buffers[0]))
    except Exception as error:
        return RuntimeError(f"the exception of the rank cannot be read here: {error}")


class Channel:
    """A connected stream socket that carries messages. Any thread may send; one thread receives."""

    def __init__(self, link: socket.socket) -> None:
        self._link = link
        self._sending = threading.Lock()
        self._read, self._at = memoryview(b""), 0

    def fileno(self) -> int:
        """Return the socket's descriptor."""
        return self._link.fileno()

    @property
    def link(self) -> socket.socket:
        """The socket."""
        return self._link

    def shut(self) -> None:
        """End the connection: whoever sends or receives gets an error."""
        with contextlib.suppress(OSError):
            self._link.shutdown(socket.SHUT_RDWR)

    def send(self, said: tuple[Any, ...], buffers: Iterable[Any] = ()) -> None:
        """Send a message.

        Raises
        ------
        OSError
            If the other side has ended.
        """
        views = [memoryview(one).cast("B") for one in (pickle.dumps(said, 5), *buffers)]
        sizes = [len(view) for view in views]
        head = _COUNT.pack(len(views) - 1) + struct.pack(f"<{len(views)}Q", *sizes)
        with self._sending:
            if sum(sizes) <= _SMALL:
                self._link.sendall(b"".join([head, *views]))
            else:
                self._send_views([memoryview(head), *views])

    def _send_views(self, views: list[memoryview]) -> None:
        views = [view for view in views if len(view)]
        at = 0
        while at < len(views):
            sent = self._link.sendmsg(views[at : at + _VECTOR])
            while sent:
                if sent >= len(views[at]):
                    sent -= len(views[at])
                    at += 1
                else:
                    views[at], sent = views[at][sent:], 0

    def receive(self) -> Message:
        """Receive the next message.

        Raises
        ------
        EOFError
            If the other side has closed the socket.
        OSError
            If the connection is broken.
        """
        (count,) = _COUNT.unpack(self._exactly(_COUNT.size))
        if count > _MOST_BUFFERS:
            raise OSError(f"a message with {count} buffers, more than {_MOST_BUFFERS}")
        sizes = struct.unpack(f"<{count + 1}Q", self._exactly(8 * (count + 1)))
        said = pickle.loads(self._exactly(sizes[0]))
        return said, [self._exactly(size) for size in sizes[1:]]

    @property
    def has_more(self) -> bool:
        """Whether bytes of the next message have been received already."""
        return self._at < len(self._read)

    def _exactly(self, size: int) -> memoryview:
        """Take bytes that were read with earlier ones, or read them; many small messages need one system call each."""
        left = len(self._read) - self._at
        if left >= size:
            self._at += size
            return self._read[self._at - size : self._at]
        if size <= _SMALL:
            pieces = [bytes(self._read[self._at :])]
            while left < size:
                more = self._link.recv(_CHUNK)
                if not more:
                    raise EOFError("the other side has closed the connection")
                pieces.append(more)
                left += len(more)
            self._read, self._at = memoryview(b"".join(pieces)), size
            return self._read[:size]
        read = memoryview(bytearray(size))
        read[:left] = self._read[self._at :]
        self._read, self._at = memoryview(b""), 0
        while left < size:
            count = self._link.recv_into(read[left:], size - left, socket.MSG_WAITALL)
            if not count:
                raise EOFError("the other side has closed the connection")
            left += count
        return read

    def close(self) -> None:
        """Close the socket."""
        self._link.close()


# ---- both sides of a TCP connection prove that they have the executor's key, before anything is unpickled ----


def challenge(link: socket.socket, key: bytes) -> bytes:
    """Authenticate a connection that was accepted; return what the other side says of itself, 8 bytes.

    Raises
    ------
    ConnectionError
        If the other side does not have the key.
    """
    nonce = os.urandom(_NONCE)
    link.sendall(nonce)
    said = _read(link, 8 + _NONCE + 32)
    if not hmac.compare_digest(said[-32:], _proof(key, b"rank", nonce, said[:-32])):
        raise ConnectionError("the other side does not have the executor's key")
    link.sendall(_proof(key, b"executor", said[8:-32], nonce))
    return said[:8]


def answer_challenge(link: socket.socket, key: bytes, name: bytes) -> None:
    """Authenticate a connection that was made; `name` is what this side says of itself, 8 bytes.

    Raises
    ------
    ConnectionError
        If the other side does not have the key.
    """
    nonce, own = _read(link, _NONCE), os.urandom(_NONCE)
    link.sendall(name + own + _proof(key, b"rank", nonce, name + own))
    if not hmac.compare_digest(_read(link, 32), _proof(key, b"executor", own, nonce)):
        raise ConnectionError("the other side does not have the executor's key")


def _proof(key: bytes, side: bytes, *texts: bytes) -> bytes:
    return hmac.digest(key, side + b"".join(texts), "sha256")


def _read(link: socket.socket, size: int) -> bytes:
    read = b""
    while len(read) < size:
        more = link.recv(size - len(read))
        if not more:
            raise ConnectionError("the other side has closed the connection")
        read += more
    return read
