"""The hidden folders that files are written into before they are moved into place, and those that dead writers left.

A writer locks a file in its folder, and the system frees the lock when the process ends, however it ends. So the folders
whose locks are free are nobody's, and the next write beside them removes them. File systems of several machines may not
tell one machine of another's locks: what was written by another machine, or before this one started, has to be untouched
for a day, too.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import functools
import hashlib
import os
import re
import shutil
import socket
import stat
import time
import uuid
from collections.abc import Iterator
from typing import Any

__all__ = ["hidden_folder"]

PREFIX = ".craton-"
LOCK, FILES = "lock", "files"
"""What is in such a folder: the file that is locked, and the folder of what is written."""
UNTOUCHED = 86_400.0
"""Seconds after which what another machine left is taken to be nobody's."""
# A folder is looked through again after this many times what the last look took.
_SELDOM = 20
_NAME = re.compile(re.escape(PREFIX) + "[0-9a-f]{32}(-[0-9a-f]{12})?")
_FULL = (errno.ENOSPC, errno.EDQUOT)

# When which folder may be looked through again.
_looked: dict[str, float] = {}


@contextlib.contextmanager
def hidden_folder(parent: str) -> Iterator[str]:
    """A new folder within a hidden one, which goes at the end with what is still in it.

    Parameters
    ----------
    parent
        The folder that the hidden one is made in. What dead writers left there is removed.

    Yields
    ------
    str
        The path of the inner folder; it can be moved away.

    Raises
    ------
    OSError
        The folder cannot be made.
    """
    remove_leftovers(parent)
    path, lock = _made(parent)
    try:
        files = os.path.join(path, FILES)
        os.mkdir(files)
        yield files
    finally:
        _remove(path)
        os.close(lock)


def is_full(error: OSError) -> bool:
    """Whether a disk had no room."""
    return error.errno in _FULL


def _made(parent: str) -> tuple[str, int]:
    # Somebody who looks between two of these steps takes the folder for a dead writer's, and removes it: then once more.
    while True:
        path = os.path.join(parent, f"{PREFIX}{uuid.uuid4().hex}-{_machine()}")
        os.mkdir(path)
        try:
            return path, _locked(path)
        except FileNotFoundError:
            continue
        except BaseException:
            _remove(path)
            raise


def _locked(path: str) -> int:
    """Make and lock the file of a new folder, if it can be locked there; return its descriptor.

    Raises
    ------
    FileNotFoundError
        The folder is gone.
    """
    name = os.path.join(path, LOCK)
    lock = os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not os.path.samestat(os.stat(name), os.fstat(lock)):
            raise FileNotFoundError(name)
    except BaseException:
        os.close(lock)
        raise
    return lock


def remove_leftovers(parent: str) -> None:
    """Remove the hidden folders in a folder whose writers are dead; not more often than costs next to nothing."""
    began = time.monotonic()
    if began < _looked.get(parent, 0.0):
        return
    try:
        with os.scandir(parent) as entries:
            found = [entry.path for entry in entries if _NAME.fullmatch(entry.name)]
    except OSError:
        return
    for path in found:
        with contextlib.suppress(OSError):
            _remove_dead(path)
    if len(_looked) >= 1000:
        _looked.clear()
    ended = time.monotonic()
    _looked[parent] = ended + _SELDOM * (ended - began)


def _remove_dead(path: str) -> None:
    about = os.lstat(path)
    if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.geteuid():
        return
    if not path.endswith("-" + _machine()) and time.time() - _touched(path) < UNTOUCHED:
        return
    try:
        lock = os.open(os.path.join(path, LOCK), os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        # Its writer was killed at the very beginning or end; or an earlier version of Craton made it.
        if _NAME.fullmatch(os.path.basename(path)).group(1):  # type: ignore[union-attr]
            os.rmdir(path)
        else:
            shutil.rmtree(path)
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # refused: its writer lives
        _remove(path)
    finally:
        os.close(lock)


def _remove(path: str) -> None:
    """Remove a hidden folder, the locked file after what was written: who is killed here leaves what can be removed."""
    shutil.rmtree(os.path.join(path, FILES), ignore_errors=True)
    with contextlib.suppress(OSError):
        os.unlink(os.path.join(path, LOCK))
    with contextlib.suppress(OSError):
        os.rmdir(path)


def _touched(path: str) -> float:
    """Return when something in a folder was last changed."""
    latest = os.lstat(path).st_mtime
    for folder, folders, names in os.walk(path):
        for name in [*folders, *names]:
            with contextlib.suppress(OSError):
                latest = max(latest, os.lstat(os.path.join(folder, name)).st_mtime)
    return latest


@functools.cache
def _machine() -> str:
    """Return what stands for this machine since it was started: among its processes, locks are known to all."""
    parts: list[Any] = [socket.gethostname(), uuid.getnode()]
    with contextlib.suppress(OSError), open("/proc/sys/kernel/random/boot_id") as file:
        parts = [file.read().strip()]
    return hashlib.blake2b(repr(parts).encode(), digest_size=6).hexdigest()
