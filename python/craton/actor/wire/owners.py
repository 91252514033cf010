"""Peer credentials of Unix sockets: the process and the user at the other end.

Any user of the machine can bind the name of a Unix socket first. So client and server ask the kernel for the user of the
other side, and communicate only with processes of their own user.
"""

from __future__ import annotations

import os
import socket
import struct
import sys

__all__ = ["credentials", "is_same_user"]

# Linux's `struct ucred`: process, user, group.
_UCRED = struct.Struct("=iII")
# The `struct xucred` of macOS and FreeBSD: version, user, and groups, which are not read.
_XUCRED, _XUCRED_BYTES = struct.Struct("=II"), 76
_SOL_LOCAL, _LOCAL_PEERCRED = 0, 1


def credentials(sock: socket.socket) -> tuple[int | None, int | None]:
    """Return the pid and the uid of the other end of a connected Unix socket; None for what the kernel does not report.

    They date from when the other end connected or began to listen. The pid is that in this process's pid namespace.
    """
    if sock.family != socket.AF_UNIX:
        return None, None
    try:
        if hasattr(socket, "SO_PEERCRED"):
            pid, uid, _ = _UCRED.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size))
            return pid or None, uid
        if sys.platform == "darwin" or sys.platform.startswith("freebsd"):
            found = sock.getsockopt(_SOL_LOCAL, _LOCAL_PEERCRED, _XUCRED_BYTES)
            return None, _XUCRED.unpack_from(found)[1]
    except (OSError, struct.error):  # the other end has disconnected
        pass
    return None, None


def is_same_user(sock: socket.socket) -> bool:
    """Whether the other end of a connected Unix socket is known to run as this process's user."""
    return credentials(sock)[1] == os.geteuid()
