"""Notices that a machine is gone: within three seconds, whatever its processes are doing.

What counts is whether the other *system* answers, not whether the process does, which may compute for minutes. A
connection on which nothing happens is probed by the system itself (keep-alive). While bytes are on their way it is not,
so what the system knows of the connection is looked at: how long ago anything came. ``TCP_USER_TIMEOUT`` would be
simpler, and wrong: it also ends connections to processes that are too busy to read.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import struct
import sys
import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from craton.actor.wire.link import Link

SILENCE = 2.4
"""Seconds without a sign of life after which a machine is taken to be gone; also those for connecting."""
# Seconds between two looks, and between two of the system's probes of a quiet connection.
_LOOK, _BEAT = 0.4, 1
# Probes of a full receiver that have to be without an answer: their distance grows.
_PROBES = 2

# Of Linux's `struct tcp_info`: probes without an answer, packets on their way, milliseconds since data and since an
# acknowledgement came.
_INFO = struct.Struct("=3xB20xI24xII")

_felt: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, weakref.WeakKeyDictionary[Link, socket.socket]]
_felt = weakref.WeakKeyDictionary()


def notice_silence(sock: socket.socket) -> None:
    """Have the system probe a TCP connection while nothing is sent."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", _BEAT), ("TCP_KEEPINTVL", _BEAT), ("TCP_KEEPCNT", 2)):
        if hasattr(socket, name):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def feel(link: Link, sock: socket.socket, loop: asyncio.AbstractEventLoop) -> None:
    """Look at a TCP connection from now on; its link fails with `TimeoutError` when the machine there is gone."""
    if sys.platform != "linux":
        return
    links = _felt.get(loop)
    if links is None:
        links = _felt[loop] = weakref.WeakKeyDictionary()
    if not links:
        loop.call_later(_LOOK, _look, weakref.ref(loop))
    links[link] = sock


def _look(where: weakref.ref[asyncio.AbstractEventLoop]) -> None:
    loop = where()
    links = None if loop is None else _felt.get(loop)
    if loop is None or links is None:
        return
    for link, sock in list(links.items()):
        if link.closed:
            del links[link]
        elif is_silent(sock):
            link.fail(TimeoutError(errno.ETIMEDOUT, f"its machine has been silent for {SILENCE:g} s"))
    if links:
        loop.call_later(_LOOK, _look, where)


def is_silent(sock: socket.socket) -> bool:
    """Whether nothing has come for so long that the machine there is gone."""
    try:
        known = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO.size)
    except OSError:
        return False
    if len(known) < _INFO.size:
        return False
    probes, on_their_way, since_data, since_answer = _INFO.unpack(known)
    if min(since_data, since_answer) < 1000 * SILENCE:
        return False
    # A quiet connection is probed every second. A full receiver answers probes, which come ever more rarely.
    return on_their_way > 0 or probes >= _PROBES
