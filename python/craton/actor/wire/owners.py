"""Whose process is at the other end of a Unix socket.

The name of a Unix socket belongs to whoever binds it first, also if that is another user of the machine. So both sides
ask the system for the user of the other one, and speak with processes of their own user only.
"""

from __future__ import annotations

import os
import socket
import struct
import sys

__all__ = ["credentials", "is_own"]

# Linux's `struct ucred`: process, user, group.
_UCRED = struct.Struct("=iII")
# The `struct xucred` of macOS and FreeBSD: version, user, and groups, which are not read.
_XUCRED, _XUCRED_BYTES = struct.Struct("=II"), 76
_SOL_LOCAL, _LOCAL_PEERCRED = 0, 1


def credentials(sock: socket.socket) -> tuple[int | None, int | None]:
    """Return process and user of the other end of a connected Unix socket; None for what the system does not tell.

    They are those of the moment in which it connected, or began to listen. The process is numbered as this one sees it.
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
    except (OSError, struct.error):  # it has gone
        pass
    return None, None


def is_own(sock: socket.socket) -> bool:
    """Whether the other end of a connected Unix socket is known to be a process of this one's user."""
    return credentials(sock)[1] == os.geteuid()
