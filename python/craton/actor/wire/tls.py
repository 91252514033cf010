"""TLS on the connections between machines: what is said there can be neither read nor changed on the way.

A pool with TLS says so in the clear, with the same 38 bytes that begin every connection (see `auth`), so both sides know
at once if only one of them has it. Then TLS 1.3 is negotiated, and within it goes the rest of the handshake with the
key, into which both sides mix the hash of the server's certificate as they see it: who sits in between with a
certificate of his own is found out, also where no authority vouches for certificates.

Unix sockets stay as they are: they do not leave the machine, and lead to processes of the same user only. What is sent
over TLS is copied, as it is encrypted; what is received is decrypted to where it stays.
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
from craton.actor.wire.link import Link, Reader, Receiver

__all__ = ["TLS", "Secured", "choose", "current", "link", "unchoose", "variables"]

VARIABLE = "CRATON_ACTOR_TLS_"
"""What the names of the environment's variables begin with; the rest is ``CERT``, ``KEY`` and ``CA``."""
# Bytes that are encrypted, or decrypted, at a time.
_MOST = 1 << 18
# How a connection that ended shows while something is written.
_GONE = (ConnectionResetError, BrokenPipeError, ssl.SSLEOFError)
_BEGIN, _END = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"


@dataclass(frozen=True)
class TLS:
    """The files that TLS needs, in the PEM format; made absolute.

    Parameters
    ----------
    cert : path, optional
        The certificate of this process, and after it those that lead to the authority's; pools need one.
    key : path, optional
        Its private key, not encrypted; in the file of `cert` by default.
    ca : path, optional
        Certificates of authorities. With it, both sides must have a certificate that one of these has signed. Without,
        the key that all processes share is what peers are known by.

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
    """Return the environment of processes that are to have these settings."""
    return {VARIABLE + each.name.upper(): str(getattr(tls, each.name, None) or "") for each in fields(TLS)}


def _of_environment() -> TLS | None:
    given = {each.name: os.environ.get(VARIABLE + each.name.upper()) or None for each in fields(TLS)}
    return TLS(**given) if any(given.values()) else None


class Secured:
    """Settings whose files have been read.

    Parameters
    ----------
    tls : TLS
        The settings.

    Attributes
    ----------
    client, server : ssl.SSLContext
        For connections that are made, and those that are taken; the latter is None without a certificate.
    binding : bytes
        What the handshake with the key is bound to where this process is the server.

    Raises
    ------
    OSError
        A file cannot be read.
    ValueError
        A file does not have what it should.
    """

    def __init__(self, tls: TLS) -> None:
        self.tls = tls
        self.client = _context(tls, ssl.PROTOCOL_TLS_CLIENT)
        self.server = _context(tls, ssl.PROTOCOL_TLS_SERVER) if tls.cert else None
        self.binding = _binding(_first_certificate(str(tls.cert))) if tls.cert else b""


def _context(tls: TLS, protocol: Any) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    # Addresses are numbers as often as names, and one certificate may be a whole cluster's: the key says who is there.
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED if tls.ca else ssl.CERT_NONE
    if protocol == ssl.PROTOCOL_TLS_SERVER:
        context.num_tickets = 0  # connections are not resumed
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
    raise ValueError("the private key for TLS is encrypted, and nobody can be asked: write one without a password")


def _first_certificate(path: str) -> bytes:
    with open(path, encoding="latin-1") as file:
        _, begin, rest = file.read().partition(_BEGIN)
    body, end, _ = rest.partition(_END)
    if not end:
        raise ValueError(f"{path} has no certificate in the PEM format: a line {_BEGIN!r} is expected")
    return ssl.PEM_cert_to_DER_cert(begin + body + end)


def _binding(certificate: bytes) -> bytes:
    # As "tls-server-end-point" of RFC 5929, always with SHA-256.
    return b"tls-server-end-point:" + hashlib.sha256(certificate).digest()


# ---- what this process uses ----

# What pools of this process were given, if not what the environment says; the last one counts.
_chosen: list[Secured | None] = []
# What the environment said, and what was read because of that.
_found: tuple[TLS | None, Secured | None] = (None, None)


def choose(tls: TLS | Literal[False]) -> Secured | None:
    """Use these settings, or none, in this process from now on, until they are unchosen; read their files.

    Raises
    ------
    OSError, ValueError
        The files cannot be used.
    """
    if not isinstance(tls, TLS) and tls is not False:
        raise TypeError(f"`tls` is a craton.actor.TLS or False, not {tls!r}")
    secured = Secured(tls) if tls else None
    _chosen.append(secured)
    return secured


def unchoose(secured: Secured | None) -> None:
    """Take back what was chosen."""
    for number, each in enumerate(_chosen):
        if each is secured:
            del _chosen[number]
            break


def current() -> Secured | None:
    """Return what this process uses: what was chosen last, or what the environment says; None for no TLS.

    The environment's files are read once.

    Raises
    ------
    OSError, ValueError
        The files cannot be used.
    """
    global _found
    if _chosen:
        return _chosen[-1]
    tls = _of_environment()
    if tls != _found[0]:
        _found = tls, None if tls is None else Secured(tls)
    return _found[1]


# ---- links ----


def link(
    loop: asyncio.AbstractEventLoop,
    sock: socket.socket,
    receiver: Receiver,
    key: bytes,
    server: bool,
    peer: str,
    secured: Secured | None,
) -> Link:
    """Return a link over a socket that has been connected: with TLS if there are settings and it leaves the machine."""
    if secured is None or sock.family == socket.AF_UNIX:
        handshake = Handshake(key, server)
        handshake.binding = binding(sock, server)
        return Link(loop, sock, receiver, handshake, peer)
    return TlsLink(loop, sock, receiver, Handshake(key, server, SECURED), peer, secured)


class _Channel:
    """A socket with TLS, as links use sockets: when it has to wait it says so with `BlockingIOError`."""

    def __init__(self, sock: ssl.SSLSocket) -> None:
        self._sock = sock
        # What could not be sent at once: OpenSSL has it in part, and wants to be given the same bytes again.
        self._held: Any = None

    def send(self, piece: Any) -> int:
        return self.sendmsg([piece])

    def sendmsg(self, pieces: Sequence[Any]) -> int:
        """Send the beginning of what is given; if that fails, the same bytes must be given first the next time."""
        if self._held is None:
            self._held = _beginning(pieces)
        try:
            sent = self._sock.send(self._held)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise BlockingIOError from None
        self._held = None
        return sent

    def recv_into(self, buffer: memoryview) -> int:
        """Fill a buffer as far as there is something: TLS gives 16 KiB at a time."""
        count, room = 0, min(len(buffer), _MOST)
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
        """Return how many bytes were taken from the system and not asked for yet."""
        return self._sock.pending()

    def close(self) -> None:
        self._sock.close()


def _beginning(pieces: Sequence[Any]) -> Any:
    if len(pieces) == 1 or len(pieces[0]) >= _MOST:
        return pieces[0][:_MOST]
    taken: list[Any] = []
    size = 0
    for piece in pieces:
        size += len(piece)
        if taken and size > _MOST:
            break
        taken.append(piece)
    return b"".join(taken)


class TlsLink(Link):
    """A connection between machines, encrypted."""

    _sock: Any

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        sock: socket.socket,
        receiver: Receiver,
        handshake: Handshake,
        peer: str,
        secured: Secured,
    ) -> None:
        self._prepare(loop, receiver, peer)
        self._sock, self._handshake, self._secured = sock, handshake, secured
        sock.setblocking(False)
        self._fd, self.pid = sock.fileno(), None
        self._reader = Reader(self._on_message, self._shake, handshake.expects)  # of what comes after the opening
        self._heard = b""
        if secured.server is None or not handshake.server:
            loop.add_reader(self._fd, self._hear)
            return
        handshake.binding = secured.binding
        try:
            sock.send(handshake.opening())  # a new connection has room for it
        except OSError as error:
            self._end(error)
        else:
            self._secure(secured.server)

    def _hear(self) -> None:
        # The server's opening, and not a byte more: what follows is TLS.
        try:
            heard = self._sock.recv(OPENING - len(self._heard))
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._end(error)
            return
        self._heard += heard
        if not heard:
            self._end(None)
        elif not SECURED.startswith(self._heard[: len(SECURED)]):
            self._handshake.answer(self._heard)
            self._end(NotAuthenticated(f"{self.peer} {self._handshake.refusal}"))
        elif len(self._heard) == OPENING:
            self._secure(self._secured.client)

    def _secure(self, context: ssl.SSLContext) -> None:
        try:
            server = self._handshake.server
            self._sock = context.wrap_socket(self._sock, server_side=server, do_handshake_on_connect=False)
        except OSError as error:
            self._end(error)
            return
        keepalive.feel(self, self._sock, self._loop)
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
        self._readable()  # what came with the last of the negotiation

    def _negotiated(self) -> None:
        handshake = self._handshake
        sock, self._sock = self._sock, _Channel(self._sock)
        self._loop.add_reader(self._fd, self._readable)
        if not handshake.server:
            handshake.binding = _binding(sock.getpeercert(binary_form=True))
            self._shake(self._heard)
        self._reader = Reader(self._on_message, self._shake, handshake.expects)

    def _readable(self) -> None:
        if self._closed or self._rests:
            return
        super()._readable()
        if self._has_more():
            # The system knows nothing of these bytes, and would not call again.
            self._loop.call_soon(self._readable)

    def _has_more(self) -> bool:
        return not self._closed and not self._rests and self._sock.pending() > 0

    def _resume(self) -> None:
        super()._resume()
        self._loop.call_soon(self._readable)  # of bytes that are decrypted already, the system knows nothing

    # ---- the end ----

    def _end(self, error: BaseException | None) -> None:
        if not self._closed and not self.ready.done():
            error = self._said(error)
        super()._end(error)

    def _said(self, error: BaseException | None) -> BaseException | None:
        # While peers introduce themselves. Why the other side hangs up may wait to be read while this one writes.
        if isinstance(error, _GONE) and isinstance(self._sock, _Channel):
            try:
                self._sock.recv_into(memoryview(bytearray(1)))
            except ssl.SSLError as alert:
                error = alert
            except OSError:
                pass
        if isinstance(error, (ssl.SSLEOFError, ssl.SSLZeroReturnError)):
            return None  # it has gone
        if not isinstance(error, ssl.SSLError):
            return error
        refused = NotAuthenticated(self._reason(error))
        refused.__cause__ = error
        return refused

    def _reason(self, error: ssl.SSLError) -> str:
        if isinstance(error, ssl.SSLCertVerificationError):
            return f"no authority in {self._secured.tls.ca} vouches for the certificate of {self.peer}: {error.verify_message}"
        reason = error.reason or str(error)
        if reason.endswith("CERTIFICATE_REQUIRED"):
            return f"{self.peer} wants a certificate, and this process has none: set {VARIABLE}CERT"
        if reason == "PEER_DID_NOT_RETURN_A_CERTIFICATE":
            return f"{self.peer} has no certificate"
        if "_ALERT_" in reason:
            return f"{self.peer} does not accept the certificate of this process: {reason.lower().replace('_', ' ')}"
        if self._handshake.server:
            return f"{self.peer} does not speak TLS as this pool does: {reason.lower().replace('_', ' ')}"
        return f"TLS with {self.peer} failed: {error}"

    def _hang_up(self, error: BaseException | None) -> None:
        self._loop.remove_writer(self._fd)
        super()._hang_up(error)
