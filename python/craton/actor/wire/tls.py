"""TLS for connections between machines: TLS 1.3, combined with the shared-key handshake of `auth`.

The server's opening record of 38 bytes is sent unencrypted, as on every connection (see `auth`), and states whether it
uses TLS, so that a mismatch is detected immediately. Then TLS 1.3 is negotiated, and the rest of the shared-key handshake
is sent encrypted. Its HMAC covers the hash of the server's certificate as each side sees it, so a man in the middle with
another certificate is detected even if no certificate authority is configured.

Unix sockets do not use TLS: they do not leave the machine, and connect processes of one user only. Sending over TLS
copies the data, to encrypt it; received data is decrypted directly into its final memory.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import socket
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

from craton.actor.errors import NotAuthenticated
from craton.actor.wire import keepalive
from craton.actor.wire.addresses import binding
from craton.actor.wire.auth import OPENING, SECURED, Handshake
from craton.actor.wire.link import Link, Receiver
from craton.actor.wire.reader import Reader

__all__ = ["TLS", "LoadedTLS", "activate", "current", "deactivate", "link", "variables"]

VARIABLE = "CRATON_ACTOR_TLS_"
"""The prefix of the environment variables, which is followed by ``CERT``, ``KEY`` or ``CA``."""
# The most bytes to encrypt or decrypt in one step.
_MAX_STEP = 1 << 18
# The errors of writing to a connection that the peer has closed.
_GONE = (ConnectionResetError, BrokenPipeError, ssl.SSLEOFError)
_BEGIN, _END = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"


@dataclass(frozen=True)
class TLS:
    """The TLS settings: files in the PEM format, whose paths are made absolute.

    Parameters
    ----------
    cert : path, optional
        The certificate of this process, followed by its chain of intermediate certificates; pools need one.
    key : path, optional
        The private key of `cert`, not encrypted; by default, it is read from the file of `cert`.
    ca : path, optional
        Certificates of authorities. If given, both sides must have a certificate that one of these has signed. If not,
        certificates are not verified, and peers are authenticated by the shared key only.

    Raises
    ------
    ValueError
        Neither `cert` nor `ca` is given, or `key` without `cert`.
    """

    cert: str | os.PathLike[str] | None = None
    key: str | os.PathLike[str] | None = None
    ca: str | os.PathLike[str] | None = None

    def __post_init__(self) -> None:
        if not self.cert and not self.ca:
            raise ValueError(f"TLS needs a certificate (cert, or {VARIABLE}CERT) or authorities (ca, or {VARIABLE}CA)")
        if self.key and not self.cert:
            raise ValueError(
                f"TLS was given a key, {os.fspath(self.key)}, without the certificate (cert, {VARIABLE}CERT)"
            )
        for each in fields(self):
            path = getattr(self, each.name)
            object.__setattr__(self, each.name, os.path.abspath(path) if path else None)


def variables(tls: TLS | None) -> dict[str, str]:
    """Return the environment variables that give a process these settings."""
    return {VARIABLE + each.name.upper(): str(getattr(tls, each.name, None) or "") for each in fields(TLS)}


def _from_environment() -> TLS | None:
    given = {each.name: os.environ.get(VARIABLE + each.name.upper()) or None for each in fields(TLS)}
    return TLS(**given) if any(given.values()) else None


class LoadedTLS:
    """TLS settings with their files loaded.

    Parameters
    ----------
    tls : TLS
        The settings.

    Attributes
    ----------
    client, server : ssl.SSLContext
        The contexts for outgoing and incoming connections; ``server`` is None without a certificate.
    binding : bytes
        The channel binding of connections in which this process is the server.

    Raises
    ------
    OSError
        A file cannot be read.
    ValueError
        A file's contents cannot be used.
    """

    def __init__(self, tls: TLS) -> None:
        self.tls = tls
        self.client = _context(tls, ssl.PROTOCOL_TLS_CLIENT)
        self.server = _context(tls, ssl.PROTOCOL_TLS_SERVER) if tls.cert else None
        self.binding = _binding(_first_certificate(str(tls.cert))) if tls.cert else b""


def _context(tls: TLS, protocol: Any) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    # Addresses are often IP addresses, and a cluster may share one certificate, so host names are not checked: the shared
    # key authenticates the peer.
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED if tls.ca else ssl.CERT_NONE
    if protocol == ssl.PROTOCOL_TLS_SERVER:
        context.num_tickets = 0  # sessions are never resumed
    if tls.cert:
        cert, key = str(tls.cert), None if tls.key is None else str(tls.key)
        _read(f"the certificate {cert}{f' with the key {key}' if key else ', which has its key with it,'}", cert, key)(
            lambda: context.load_cert_chain(cert, key, _no_password)
        )
    if tls.ca:
        ca = str(tls.ca)
        _read(f"the authorities in {ca}", ca)(lambda: context.load_verify_locations(ca))
    return context


def _read(what: str, *paths: str | None) -> Callable[[Callable[[], Any]], None]:
    def read(load: Callable[[], Any]) -> None:
        for path in filter(None, paths):
            with open(path, "rb"):  # OpenSSL does not say which file it cannot read
                pass
        try:
            load()
        except ssl.SSLError as error:
            raise ValueError(f"{what} cannot be used: {error}") from error

    return read


def _no_password() -> str:
    raise ValueError(
        "the private key for TLS is encrypted, and there is no prompt for a password: use an unencrypted key"
    )


def _first_certificate(path: str) -> bytes:
    with open(path, encoding="latin-1") as file:
        _, begin, rest = file.read().partition(_BEGIN)
    body, end, _ = rest.partition(_END)
    if not end:
        raise ValueError(f"{path} has no certificate in the PEM format: expected a line {_BEGIN!r}")
    return ssl.PEM_cert_to_DER_cert(begin + body + end)


def _binding(certificate: bytes) -> bytes:
    # As "tls-server-end-point" of RFC 5929, always with SHA-256.
    return b"tls-server-end-point:" + hashlib.sha256(certificate).digest()


# ---- the settings of this process ----

# Settings given to pools of this process, which override the environment's; the last one is in effect.
_activated: list[LoadedTLS | None] = []
# The environment's settings when they were last read, and the same with their files loaded.
_found: tuple[TLS | None, LoadedTLS | None] = (None, None)


def activate(tls: TLS | Literal[False]) -> LoadedTLS | None:
    """Load settings and put them into effect in this process, until `deactivate`; False disables TLS.

    Raises
    ------
    OSError, ValueError
        The files cannot be used.
    """
    if not isinstance(tls, TLS) and tls is not False:
        raise TypeError(f"`tls` must be a craton.actor.TLS or False, not {tls!r}")
    secured = LoadedTLS(tls) if tls else None
    _activated.append(secured)
    return secured


def deactivate(secured: LoadedTLS | None) -> None:
    """Undo `activate`."""
    for number, each in enumerate(_activated):
        if each is secured:
            del _activated[number]
            break


def current() -> LoadedTLS | None:
    """Return the settings in effect: the last that were chosen, or else the environment's; None without TLS.

    Files that the environment names are read again only if its variables change.

    Raises
    ------
    OSError, ValueError
        The files cannot be used.
    """
    global _found
    if _activated:
        return _activated[-1]
    tls = _from_environment()
    if tls != _found[0]:
        _found = tls, None if tls is None else LoadedTLS(tls)
    return _found[1]


# ---- links ----


def link(
    loop: asyncio.AbstractEventLoop,
    sock: socket.socket,
    receiver: Receiver,
    key: bytes,
    server: bool,
    peer: str,
    secured: LoadedTLS | None,
) -> Link:
    """Return a link over a connected socket; it uses TLS if there are settings and the socket is not a Unix socket."""
    if secured is None or sock.family == socket.AF_UNIX:
        handshake = Handshake(key, server)
        handshake.binding = binding(sock, server)
        return Link(loop, sock, receiver, handshake, peer)
    return TlsLink(loop, sock, receiver, Handshake(key, server, SECURED), peer, secured)


class _Channel:
    """Adapts an `ssl.SSLSocket` to the interface that `Link` uses; raises `BlockingIOError` when it would block."""

    def __init__(self, sock: ssl.SSLSocket) -> None:
        self._sock = sock
        # Bytes of a send that would have blocked. OpenSSL may have encrypted a part of them, and requires the same bytes again.
        self._held: Any = None

    def send(self, piece: Any) -> int:
        return self.sendmsg([piece])

    def sendmsg(self, pieces: Sequence[Any]) -> int:
        """Send some of the first bytes; after `BlockingIOError`, the next call must begin with the same bytes."""
        if self._held is None:
            self._held = _beginning(pieces)
        try:
            sent = self._sock.send(self._held)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            self._held = bytes(self._held)  # it may change meanwhile, and must not
            raise BlockingIOError from None
        self._held = None
        return sent

    def recv_into(self, buffer: memoryview) -> int:
        """Receive as many bytes as are available; each `ssl.SSLSocket.recv_into` returns at most one record of 16 KiB."""
        count, room = 0, min(len(buffer), _MAX_STEP)
        while count < room:
            try:
                got = self._sock.recv_into(buffer[count:room])
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                if not count:
                    raise BlockingIOError from None
                break
            if not got:
                break
            count += got
        return count

    def pending(self) -> int:
        """Return the number of decrypted bytes that have not been read yet."""
        return self._sock.pending()

    def close(self) -> None:
        self._sock.close()


def _beginning(pieces: Sequence[Any]) -> Any:
    if len(pieces) == 1 or len(pieces[0]) >= _MAX_STEP:
        return pieces[0][:_MAX_STEP]
    taken: list[Any] = []
    size = 0
    for piece in pieces:
        size += len(piece)
        if taken and size > _MAX_STEP:
            break
        taken.append(piece)
    return b"".join(taken)


class TlsLink(Link):
    """A connection with TLS."""

    encrypted = True

    _sock: Any

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        sock: socket.socket,
        receiver: Receiver,
        handshake: Handshake,
        peer: str,
        secured: LoadedTLS,
    ) -> None:
        self._prepare(loop, receiver, peer)
        self._sock, self._handshake, self._secured = sock, handshake, secured
        sock.setblocking(False)
        self._fd, self.pid = sock.fileno(), None
        self._reader = Reader(
            self._on_message, self._shake, handshake.expects, self._fetch
        )  # replaced after the TLS negotiation
        self._opening = b""
        if secured.server is None or not handshake.server:
            loop.add_reader(self._fd, self._read_opening)
            return
        handshake.binding = secured.binding
        try:
            sock.send(handshake.opening())  # a new connection has room for it
        except OSError as error:
            self._end(error)
        else:
            self._secure(secured.server)

    def _read_opening(self) -> None:
        # Read exactly the server's opening record: the bytes after it belong to TLS.
        try:
            received = self._sock.recv(OPENING - len(self._opening))
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._end(error)
            return
        self._opening += received
        if not received:
            self._end(None)
        elif not SECURED.startswith(self._opening[: len(SECURED)]):
            self._handshake.answer(self._opening)
            self._end(NotAuthenticated(f"{self.peer} {self._handshake.refusal}"))
        elif len(self._opening) == OPENING:
            self._secure(self._secured.client)

    def _secure(self, context: ssl.SSLContext) -> None:
        try:
            server = self._handshake.server
            self._sock = context.wrap_socket(self._sock, server_side=server, do_handshake_on_connect=False)
        except OSError as error:
            self._end(error)
            return
        keepalive.watch(self, self._sock, self._loop)
        self._loop.add_reader(self._fd, self._negotiate)
        self._negotiate()

    def _negotiate(self) -> None:
        self._loop.remove_writer(self._fd)
        try:
            self._sock.do_handshake()
        except ssl.SSLWantReadError:
            return
        except ssl.SSLWantWriteError:
            self._loop.add_writer(self._fd, self._negotiate)
            return
        except OSError as error:
            self._end(error)
            return
        try:
            self._negotiated()
        except Exception as error:
            self._end(error)
            return
        self._readable()  # data may have arrived together with the last message of the negotiation

    def _negotiated(self) -> None:
        handshake = self._handshake
        sock, self._sock = self._sock, _Channel(self._sock)
        self._loop.add_reader(self._fd, self._readable)
        if not handshake.server:
            handshake.binding = _binding(sock.getpeercert(binary_form=True))
            self._shake(self._opening)
        self._reader = Reader(self._on_message, self._shake, handshake.expects, self._fetch)

    def _readable(self) -> None:
        if self._closed or self._reading_paused:
            return
        super()._readable()
        if self._has_more():
            # These bytes are already decrypted, so the event loop's selector will not report them.
            self._loop.call_soon(self._readable)

    def _has_more(self) -> bool:
        return not self._closed and not self._reading_paused and self._sock.pending() > 0

    def _resume_reading(self) -> None:
        super()._resume_reading()
        self._loop.call_soon(self._readable)  # the selector does not report bytes that are already decrypted

    # ---- the end ----

    def _end(self, error: BaseException | None) -> None:
        if not self._closed and not self.ready.done():
            error = self._failure(error)
        super()._end(error)

    def _failure(self, error: BaseException | None) -> BaseException | None:
        # Find the reason of a failure before authentication. If a write failed, the peer's TLS alert may still be unread.
        if isinstance(error, _GONE) and isinstance(self._sock, _Channel):
            try:
                self._sock.recv_into(memoryview(bytearray(1)))
            except ssl.SSLError as alert:
                error = alert
            except OSError:
                pass
        if isinstance(error, (ssl.SSLEOFError, ssl.SSLZeroReturnError)):
            return None  # the peer has closed the connection
        if not isinstance(error, ssl.SSLError):
            return error
        refused = NotAuthenticated(self._reason(error))
        refused.__cause__ = error
        return refused

    def _reason(self, error: ssl.SSLError) -> str:
        if isinstance(error, ssl.SSLCertVerificationError):
            ca = self._secured.tls.ca
            return f"the certificate of {self.peer} cannot be verified with the authorities in {ca}: {error.verify_message}"
        reason = error.reason or str(error)
        if reason.endswith("CERTIFICATE_REQUIRED"):
            return f"{self.peer} requires a certificate, and this process has none: set {VARIABLE}CERT"
        if reason == "PEER_DID_NOT_RETURN_A_CERTIFICATE":
            return f"{self.peer} has no certificate, and this process requires one: set {VARIABLE}CERT there"
        if "_ALERT_" in reason:
            return f"{self.peer} does not accept the certificate of this process: {reason.lower().replace('_', ' ')}"
        if self._handshake.server:
            return f"the TLS negotiation with {self.peer} failed: {reason.lower().replace('_', ' ')}"
        return f"TLS with {self.peer} failed: {error}"

    def _close_socket(self, error: BaseException | None) -> None:
        self._loop.remove_writer(self._fd)
        super()._close_socket(error)
