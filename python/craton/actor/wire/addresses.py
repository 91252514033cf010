"""Addresses ``host:port``, and the Unix socket through which the same pool is reached on its own machine.

A pool also listens on a Unix socket whose name is derived from its address. A client tries that socket first; it exists
if client and pool are in the same network namespace, and so on the same machine. Another user may have taken the name;
see `owners`.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import platform
import socket
import tempfile
from collections.abc import Iterator

from craton.actor.wire.owners import is_same_user

__all__ = [
    "EVERYWHERE",
    "advertised",
    "binding",
    "join",
    "listen_tcp",
    "listen_unix",
    "local_name",
    "seen_from",
    "split",
]

EVERYWHERE = ("0.0.0.0", "::")
"""The wildcard hosts, which stand for all network interfaces of the machine."""


def split(address: str) -> tuple[str, int | None]:
    """Return the host, and the port or None, of an address. A scheme before ``://`` is ignored.

    Raises
    ------
    ValueError
        The address is malformed.
    """
    if not isinstance(address, str):
        raise ValueError(f"an address must be a str such as '127.0.0.1:7103', not {address!r}")
    rest = address.rpartition("://")[2]
    if rest.startswith("["):
        host, bracket, tail = rest[1:].partition("]")
        if not bracket or (tail and not tail.startswith(":")):
            raise ValueError(f"{address!r} is not an address: expected [host]:port")
        port = tail[1:]
    elif rest.count(":") == 1:
        host, _, port = rest.partition(":")
    elif rest.count(":") > 1:
        host, _, port = rest.rpartition(":")
    else:
        host, port = rest, ""
    if not host:
        raise ValueError(f"{address!r} is not an address: it has no host; expected host:port")
    if not port:
        return host, None
    if not port.isdecimal() or int(port) > 65535:
        raise ValueError(f"{address!r} is not an address: the port must be a number up to 65535, not {port!r}")
    return host, int(port)


def join(host: str, port: int | None) -> str:
    """Return ``host:port``, or the host alone if there is no port; IPv6 hosts are put in brackets."""
    host = f"[{host}]" if ":" in host else host
    return host if port is None else f"{host}:{port}"


def seen_from(address: str, through: str) -> str:
    """Return the address of a pool, with a wildcard host replaced by the host of ``through``.

    ``through`` is an address at which the caller has reached another pool of the same group.
    """
    host, port = split(address)
    if host not in EVERYWHERE or address == through:
        return address
    return join(split(through)[0], port)


def advertised(address: str) -> str:
    """Return the address of a pool, with a wildcard host replaced by this machine's own.

    That is the host of the interface with the default route, or loopback if there is none.
    """
    host, port = split(address)
    if host not in EVERYWHERE:
        return address
    family, elsewhere, loopback = (
        (socket.AF_INET6, "2001:db8::1", "::1") if ":" in host else (socket.AF_INET, "192.0.2.1", "127.0.0.1")
    )
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as sock:
            sock.connect((elsewhere, 9))  # sends nothing
            own = sock.getsockname()[0]
    except OSError:
        own = loopback
    return join(own, port)


def local_name(address: str) -> str:
    """Return the name of the Unix socket of the pool with that address."""
    host, port = split(address)
    text = f"craton-actor-{os.geteuid()}-{host}:{port}"
    if platform.system() == "Linux":
        return "\0" + text
    digest = hashlib.blake2b(text.encode(), digest_size=10).hexdigest()
    return os.path.join(tempfile.gettempdir(), f"craton-actor-{digest}.sock")


@contextlib.contextmanager
def _listening(sock: socket.socket) -> Iterator[socket.socket]:
    # The body binds the socket. Afterwards the socket listens, unless the body closed it; on an error it is closed.
    try:
        yield sock
        if sock.fileno() >= 0:
            sock.listen(1024)
            sock.setblocking(False)
    except BaseException:
        sock.close()
        raise


def listen_unix(address: str) -> socket.socket | None:
    """Return a listening Unix socket for the pool with that address; None if another user has taken its name.

    Raises
    ------
    OSError
        Another process of this user listens there.
    """
    name = local_name(address)
    with _listening(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as sock:
        try:
            if not name.startswith("\0") and os.path.exists(name):
                os.unlink(name)
            sock.bind(name)
        except OSError as error:
            if error.errno not in (errno.EADDRINUSE, errno.EACCES, errno.EPERM) or _is_served(name):
                raise
            sock.close()
            return None
    return sock


def _is_served(name: str) -> bool:
    """Whether a process of this user listens on a Unix socket of that name."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.setblocking(False)
        try:
            sock.connect(name)
        except OSError:
            return False
        return is_same_user(sock)


def binding(sock: socket.socket, server: bool) -> bytes:
    """Return the channel binding of a connection without TLS, which both sides include in the handshake's HMAC.

    For a Unix socket it is the socket's name; for TCP it is empty. A handshake that is relayed from one Unix socket to
    another, or between a Unix socket and TCP, therefore fails.
    """
    if sock.family != socket.AF_UNIX:
        return b""
    name = sock.getsockname() if server else sock.getpeername()
    return b"unix:" + (name if isinstance(name, bytes) else os.fsencode(name))


def listen_tcp(host: str, port: int | None) -> socket.socket:
    """Return a listening TCP socket; on a free port if ``port`` is None.

    Raises
    ------
    OSError
        The host is not this machine's, or the port is taken.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    found = socket.getaddrinfo(host, port or 0, family, socket.SOCK_STREAM)
    with _listening(socket.socket(family, socket.SOCK_STREAM)) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(found[0][4])
    return sock
