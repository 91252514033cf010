"""The key that processes must share, and how they show that they have it.

Both sides send 32 random bytes and answer the other's with an HMAC of both, so that nothing that was heard can be used
again, and the one who connects knows whom it speaks to. Nothing else is read before that, and no more than the
handshake's fixed number of bytes.

The HMAC is also of the connection itself, so that it fails where somebody in between hands on what the two sides say:
of the server's certificate where there is TLS (see `tls`), of the socket's name where it is a Unix socket, and of
neither where it is TCP without TLS. Of a Unix socket both sides know besides whose process is at its other
end (see `owners`), before the handshake begins. Over TCP without TLS, one through whose hands all bytes go can do with
them what he wants once the handshake is done: that needs a network, and machines, that are trusted.

The key comes from ``CRATON_ACTOR_KEY``, or from the file that ``CRATON_ACTOR_KEY_FILE`` names, or else from a file of
this user's that is made when it is first needed.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import secrets
from pathlib import Path

MAGIC, SECURED = b"CrAc\x00\x02", b"CrAc\x01\x02"
"""What both sides begin with, without and with TLS; ends with the version."""
_FAMILY = MAGIC[:4]
NONCE, MAC = 32, 32
REFUSED = bytes(MAC)
"""What a server sends instead of its HMAC to who does not have the key: who hears nothing speaks to one that has died."""
OPENING = len(MAGIC) + NONCE
"""Bytes of the server's first record, which is sent in the clear in any case."""
VARIABLE, FILE_VARIABLE = "CRATON_ACTOR_KEY", "CRATON_ACTOR_KEY_FILE"
_LEAST = 16


def key() -> bytes:
    """Return this process's key.

    Raises
    ------
    ValueError
        A key is too short to be one, or its file can be read by others.
    OSError
        The file cannot be read.
    """
    given = os.environ.get(VARIABLE)
    if given is not None:
        return _checked(given.encode(), f"the environment's {VARIABLE}")
    path = os.environ.get(FILE_VARIABLE)
    return _read(Path(path)) if path is not None else _own()


def _checked(found: bytes, where: str) -> bytes:
    if len(found) < _LEAST:
        raise ValueError(f"{where} has {len(found)} bytes; a key has at least {_LEAST}")
    return found


def _read(path: Path) -> bytes:
    if path.stat().st_mode & 0o077:
        raise ValueError(f"the key in {path} can be read by others; take their rights away: chmod 600")
    return _checked(path.read_bytes().strip(), str(path))


def _own() -> bytes:
    folder = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "craton"
    path = folder / "actor.key"
    with contextlib.suppress(FileNotFoundError):
        return _read(path)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    # Made whole under another name and linked: two processes that make it at once end with the same one.
    draft = folder / f".{os.getpid()}-{secrets.token_hex(4)}"
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(secrets.token_hex(32))
    try:
        with contextlib.suppress(FileExistsError):
            os.link(draft, path)
    finally:
        draft.unlink()
    return _read(path)


class Handshake:
    """One side of it, fed with records of a fixed length.

    Parameters
    ----------
    key : bytes
        The key.
    server : bool
        Whether this side is the one that listens.
    magic : bytes
        `MAGIC`, or `SECURED` where the connection has TLS.

    Attributes
    ----------
    expects : int
        Bytes of the record that comes next; 0 when the other side is known.
    binding : bytes
        What both sides must know of the connection itself; set before the first answer.
    refusal : str
        Why the other side is not to be spoken with, as what is said of it.
    """

    def __init__(self, key: bytes, server: bool, magic: bytes = MAGIC) -> None:
        self._key, self.server, self._magic = key, server, magic
        self._nonce = secrets.token_bytes(NONCE)
        self.expects = OPENING + MAC if server else OPENING
        self.binding = b""
        self.refusal = "does not have this process's key, or is no pool of actors"
        self._other = b""

    def opening(self) -> bytes:
        """Return what is sent before anything was read."""
        return self._magic + self._nonce if self.server else b""

    def answer(self, record: bytes) -> bytes | None:
        """Take a record; return what to send, or None if the other side is not to be spoken with: see `refusal`."""
        if self.server:
            self.expects = 0
            nonce, mac = record[len(MAGIC) : -MAC], record[-MAC:]
            if not self._known(record) or not hmac.compare_digest(mac, self._mac(b"client", self._nonce, nonce)):
                return None
            return self._mac(b"server", nonce, self._nonce)
        if not self._other:
            if not self._known(record):
                return None
            self._other = record[len(MAGIC) :]
            self.expects = MAC
            return self._magic + self._nonce + self._mac(b"client", self._other, self._nonce)
        self.expects = 0
        if record == REFUSED:
            self.refusal = "refuses this process, which does not have its key"
        return b"" if hmac.compare_digest(record, self._mac(b"server", self._nonce, self._other)) else None

    def _known(self, record: bytes) -> bool:
        if record.startswith(self._magic):
            return True
        if record.startswith(SECURED):
            self.refusal = "wants TLS, and this process has none: set CRATON_ACTOR_TLS_CERT or CRATON_ACTOR_TLS_CA"
        elif record.startswith(MAGIC):
            self.refusal = "speaks without TLS, and this process with it only"
        elif record.startswith(_FAMILY):
            self.refusal = "is of another version of Craton, whose handshake differs"
        return False

    def _mac(self, who: bytes, first: bytes, second: bytes) -> bytes:
        return hmac.digest(self._key, self._magic + who + first + second + self.binding, hashlib.sha256)
