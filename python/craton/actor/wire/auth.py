"""The shared key of processes, and the handshake that proves to each side that the other has it.

Each side sends a nonce of 32 random bytes and proves that it has the key with an HMAC of both nonces, so a recorded
handshake cannot be replayed, and both client and server are authenticated. Before that, only the handshake's fixed
number of bytes is read.

The HMAC also covers a channel binding, so that it fails if a third party relays the handshake: with TLS, the hash of the
server's certificate (see `tls`); for a Unix socket, its name; for TCP without TLS, nothing. For a Unix socket, each side
also checks the user of the other side's process before the handshake (see `owners`). Without TLS, a third party that
relays a TCP connection can read and change everything after the handshake, so use it only on trusted networks.

The key comes from ``CRATON_ACTOR_KEY``, or from the file that ``CRATON_ACTOR_KEY_FILE`` names, or else from a file in
this user's state directory, which is created on first use.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import secrets
from pathlib import Path

MAGIC, SECURED = b"CrAc\x00\x02", b"CrAc\x01\x02"
"""The first bytes that each side sends, without and with TLS; they end with the protocol version."""
_FAMILY = MAGIC[:4]
NONCE, MAC = 32, 32
REFUSED = bytes(MAC)
"""Sent by the server instead of its HMAC to a client without the key, so that the client can tell a refusal from a crash."""
OPENING = len(MAGIC) + NONCE
"""Bytes of the server's first record, which is not encrypted, even with TLS."""
VARIABLE, FILE_VARIABLE = "CRATON_ACTOR_KEY", "CRATON_ACTOR_KEY_FILE"
_MIN_KEY_BYTES = 16


def key() -> bytes:
    """Return this process's key.

    Raises
    ------
    ValueError
        The key is too short, or other users can read its file.
    OSError
        The file cannot be read.
    """
    given = os.environ.get(VARIABLE)
    if given is not None:
        return _checked(given.encode(), f"the environment's {VARIABLE}")
    path = os.environ.get(FILE_VARIABLE)
    return _read(Path(path)) if path is not None else _own()


def _checked(found: bytes, where: str) -> bytes:
    if len(found) < _MIN_KEY_BYTES:
        raise ValueError(f"{where} has {len(found)} bytes; a key needs at least {_MIN_KEY_BYTES}")
    return found


def _read(path: Path) -> bytes:
    if path.stat().st_mode & 0o077:
        raise ValueError(f"other users can read the key in {path}; run: chmod 600 {path}")
    return _checked(path.read_bytes().strip(), str(path))


def _own() -> bytes:
    folder = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "craton"
    path = folder / "actor.key"
    with contextlib.suppress(FileNotFoundError):
        return _read(path)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    # Written to a temporary file and then linked, which is atomic: processes that create the key concurrently all end up
    # with the same one.
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
    """One side of the handshake: a state machine that is fed records of fixed length.

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
        Size of the next record in bytes; 0 when the handshake is complete.
    binding : bytes
        The channel binding; set before the first call of `answer`.
    refusal : str
        Why the handshake failed, phrased to follow the name of the peer.
    """

    def __init__(self, key: bytes, server: bool, magic: bytes = MAGIC) -> None:
        self._key, self.server, self._magic = key, server, magic
        self._nonce = secrets.token_bytes(NONCE)
        self.expects = OPENING + MAC if server else OPENING
        self.binding = b""
        self.refusal = "does not have this process's key, or is not an actor pool"
        self._other = b""

    def opening(self) -> bytes:
        """Return the bytes to send before anything is read; empty for a client."""
        return self._magic + self._nonce if self.server else b""

    def answer(self, record: bytes) -> bytes | None:
        """Process a record; return the bytes to send, or None if the handshake failed, see `refusal`."""
        if self.server:
            self.expects = 0
            nonce, mac = record[len(MAGIC) : -MAC], record[-MAC:]
            if not self._check_magic(record) or not hmac.compare_digest(mac, self._mac(b"client", self._nonce, nonce)):
                return None
            return self._mac(b"server", nonce, self._nonce)
        if not self._other:
            if not self._check_magic(record):
                return None
            self._other = record[len(MAGIC) :]
            self.expects = MAC
            return self._magic + self._nonce + self._mac(b"client", self._other, self._nonce)
        self.expects = 0
        if record == REFUSED:
            self.refusal = "refuses this process, because their keys differ"
        return b"" if hmac.compare_digest(record, self._mac(b"server", self._nonce, self._other)) else None

    def _check_magic(self, record: bytes) -> bool:
        if record.startswith(self._magic):
            return True
        if record.startswith(SECURED):
            self.refusal = "requires TLS, and this process has none: set CRATON_ACTOR_TLS_CERT or CRATON_ACTOR_TLS_CA"
        elif record.startswith(MAGIC):
            self.refusal = "does not use TLS, and this process requires it: configure TLS there"
        elif record.startswith(_FAMILY):
            self.refusal = "runs another version of Craton, with an incompatible handshake: install the same version"
        return False

    def _mac(self, role: bytes, first: bytes, second: bytes) -> bytes:
        return hmac.digest(self._key, self._magic + role + first + second + self.binding, hashlib.sha256)
