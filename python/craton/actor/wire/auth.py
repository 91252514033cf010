"""The key that processes must share, and how they show that they have it.

Both sides send 32 random bytes and answer the other's with an HMAC of both, so that nothing that was heard can be used
again, and the one who connects knows whom it speaks to. Nothing else is read before that, and no more than the
handshake's fixed number of bytes.

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

MAGIC = b"CrAc\x00\x01"
"""What both sides begin with; ends with the version."""
NONCE, MAC = 32, 32
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

    Attributes
    ----------
    expects : int
        Bytes of the record that comes next; 0 when the other side is known.
    """

    def __init__(self, key: bytes, server: bool) -> None:
        self._key, self._server = key, server
        self._nonce = secrets.token_bytes(NONCE)
        self.expects = len(MAGIC) + (NONCE + MAC if server else NONCE)
        self._other = b""

    def opening(self) -> bytes:
        """Return what is sent before anything was read."""
        return MAGIC + self._nonce if self._server else b""

    def answer(self, record: bytes) -> bytes | None:
        """Take a record; return what to send, or None if the other side is not to be spoken with."""
        if self._server:
            self.expects = 0
            nonce, mac = record[len(MAGIC) : -MAC], record[-MAC:]
            if not record.startswith(MAGIC) or not hmac.compare_digest(mac, self._mac(b"client", self._nonce, nonce)):
                return None
            return self._mac(b"server", nonce, self._nonce)
        if not self._other:
            if not record.startswith(MAGIC):
                return None
            self._other = record[len(MAGIC) :]
            self.expects = MAC
            return MAGIC + self._nonce + self._mac(b"client", self._other, self._nonce)
        self.expects = 0
        return b"" if hmac.compare_digest(record, self._mac(b"server", self._nonce, self._other)) else None

    def _mac(self, who: bytes, first: bytes, second: bytes) -> bytes:
        return hmac.digest(self._key, MAGIC + who + first + second, hashlib.sha256)
