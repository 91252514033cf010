"""Detects within three seconds that a machine is unreachable, however busy its processes are.

The criterion is whether the other machine's *kernel* answers: its processes may compute for minutes without reading. The
kernel probes an idle connection itself (TCP keepalive), but not one with unacknowledged data, so for these this module
polls ``TCP_INFO``: how long ago anything was received. ``TCP_USER_TIMEOUT`` would be simpler but wrong, because it also
ends connections to processes that are too busy to read.
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
"""Seconds without an answer after which a machine counts as unreachable; also the timeout for connecting."""
# Seconds between two polls of ``TCP_INFO``, and between two keepalive probes of an idle connection.
_POLL_INTERVAL, _PROBE_INTERVAL = 0.4, 1
# Unanswered window probes of a full receiver after which it counts as unreachable; their interval grows (backoff).
_PROBES = 2

# The state of a connection that neither side has closed.
_ESTABLISHED = 1
# Fields of Linux's `struct tcp_info`: unanswered probes, unacknowledged packets, milliseconds since data and since an
# acknowledgement was received.
_INFO = struct.Struct("=3xB20xI24xII")

_watched: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, weakref.WeakKeyDictionary[Link, socket.socket]]
_watched = weakref.WeakKeyDictionary()


def enable_keepalive(sock: socket.socket) -> None:
    """Enable TCP keepalive, with which the kernel probes the connection while it is idle."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", _PROBE_INTERVAL), ("TCP_KEEPINTVL", _PROBE_INTERVAL), ("TCP_KEEPCNT", 2)):
        if hasattr(socket, name):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def watch(link: Link, sock: socket.socket, loop: asyncio.AbstractEventLoop) -> None:
    """Poll a TCP connection until its link is closed; the link fails with `TimeoutError` if the machine is unreachable."""
    if sys.platform != "linux":
        return
    links = _watched.get(loop)
    if links is None:
        links = _watched[loop] = weakref.WeakKeyDictionary()
    if not links:
        loop.call_later(_POLL_INTERVAL, _poll, weakref.ref(loop))
    links[link] = sock


def _poll(where: weakref.ref[asyncio.AbstractEventLoop]) -> None:
    loop = where()
    links = None if loop is None else _watched.get(loop)
    if loop is None or links is None:
        return
    for link, sock in list(links.items()):
        if link.closed:
            del links[link]
        elif is_silent(sock):
            link.fail(TimeoutError(errno.ETIMEDOUT, f"its machine has been silent for {SILENCE:g} s"))
        elif link.waits and has_closed(sock):
            link.count_closed()
    if links:
        loop.call_later(_POLL_INTERVAL, _poll, where)


def has_closed(sock: socket.socket) -> bool:
    """Whether the peer has closed the connection, although there may still be something to read."""
    try:
        state = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0]
    except OSError:
        return True
    return state != _ESTABLISHED


def is_silent(sock: socket.socket) -> bool:
    """Whether nothing has been received for so long that the peer's machine counts as unreachable."""
    try:
        known = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO.size)
    except OSError:
        return False
    if len(known) < _INFO.size:
        return False
    probes, on_their_way, since_data, since_answer = _INFO.unpack(known)
    if min(since_data, since_answer) < 1000 * SILENCE:
        return False
    # With data in flight, silence is conclusive. A full receiver still answers window probes, but these get rarer, so a
    # single unanswered one is not conclusive. An idle connection is left to keepalive.
    return on_their_way > 0 or probes >= _PROBES
