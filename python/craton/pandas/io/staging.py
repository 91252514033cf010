"""Hidden staging folders, into which files are written before they are moved into place, and the removal of abandoned ones.

A writer locks a file in its staging folder, and the operating system releases the lock when the process ends, for whatever
reason. A folder whose lock is free is therefore abandoned, and the next write beside it removes it. Network file systems may
not show locks of other machines, so a folder that another machine made, or this one before it was restarted, is removed only
if it has not changed for a day.
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

__all__ = ["staging_folder"]

PREFIX = ".craton-"
LOCK, FILES = "lock", "files"
"""The two entries of a staging folder: the locked file, and the folder of written files."""
ABANDONED_AFTER = 86_400.0
"""Seconds without a change after which a folder of another machine counts as abandoned."""
# The next search of a folder waits for at least this many times the duration of the last one.
_SEARCH_PAUSE = 20
_NAME = re.compile(re.escape(PREFIX) + "[0-9a-f]{32}(-[0-9a-f]{12})?")
_FULL = (errno.ENOSPC, errno.EDQUOT)

# By folder, the monotonic time from which it may be searched again.
_next_search: dict[str, float] = {}


@contextlib.contextmanager
def staging_folder(parent: str) -> Iterator[str]:
    """Make a staging folder, and remove it at the end of the block, with all that is still in it.

    Parameters
    ----------
    parent
        The folder in which it is made. Abandoned staging folders there are removed.

    Yields
    ------
    str
        The folder to write into. The caller may move it, or files in it, away.

    Raises
    ------
    OSError
        If the folder cannot be made.
    """
    remove_leftovers(parent)
    path, lock = _make_folder(parent)
    try:
        files = os.path.join(path, FILES)
        os.mkdir(files)
        yield files
    finally:
        _remove(path)
        os.close(lock)


def is_full(error: OSError) -> bool:
    """Whether an error says that a disk or a quota is full."""
    return error.errno in _FULL


def _make_folder(parent: str) -> tuple[str, int]:
    # Another process that searches between mkdir and lock takes the folder for abandoned and removes it; then try again.
    while True:
        path = os.path.join(parent, f"{PREFIX}{uuid.uuid4().hex}-{_machine()}")
        os.mkdir(path)
        try:
            return path, _create_lock(path)
        except FileNotFoundError:
            continue
        except BaseException:
            _remove(path)
            raise


def _create_lock(path: str) -> int:
    """Create the lock file of a new folder, lock it if the file system can, and return its descriptor.

    Raises
    ------
    FileNotFoundError
        If the folder has been removed.
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
    """Remove the abandoned staging folders in a folder. Searches are so rare that their cost is negligible."""
    began = time.monotonic()
    if began < _next_search.get(parent, 0.0):
        return
    try:
        with os.scandir(parent) as entries:
            found = [entry.path for entry in entries if _NAME.fullmatch(entry.name)]
    except OSError:
        return
    for path in found:
        with contextlib.suppress(OSError):
            _remove_if_abandoned(path)
    if len(_next_search) >= 1000:
        _next_search.clear()
    ended = time.monotonic()
    _next_search[parent] = ended + _SEARCH_PAUSE * (ended - began)


def _remove_if_abandoned(path: str) -> None:
    status = os.lstat(path)
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
        return
    if not path.endswith("-" + _machine()) and time.time() - _last_change(path) < ABANDONED_AFTER:
        return
    try:
        lock = os.open(os.path.join(path, LOCK), os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        # Its writer was killed while it made or removed the folder, or it comes from a version of Craton without locks.
        if _NAME.fullmatch(os.path.basename(path)).group(1):  # type: ignore[union-attr]
            os.rmdir(path)
        else:
            shutil.rmtree(path)
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # fails while the writer lives
        _remove(path)
    finally:
        os.close(lock)


def _remove(path: str) -> None:
    """Remove a staging folder, the lock file last, so that a process killed meanwhile leaves a removable folder."""
    shutil.rmtree(os.path.join(path, FILES), ignore_errors=True)
    with contextlib.suppress(OSError):
        os.unlink(os.path.join(path, LOCK))
    with contextlib.suppress(OSError):
        os.rmdir(path)


def _last_change(path: str) -> float:
    """The time of the latest change of a folder or anything in it."""
    latest = os.lstat(path).st_mtime
    for folder, folders, names in os.walk(path):
        for name in [*folders, *names]:
            with contextlib.suppress(OSError):
                latest = max(latest, os.lstat(os.path.join(folder, name)).st_mtime)
    return latest


@functools.cache
def _machine() -> str:
    """An identifier of this machine since it was booted. Processes with the same identifier see each other's locks."""
    parts: list[Any] = [socket.gethostname(), uuid.getnode()]
    with contextlib.suppress(OSError), open("/proc/sys/kernel/random/boot_id") as file:
        parts = [file.read().strip()]
    return hashlib.blake2b(repr(parts).encode(), digest_size=6).hexdigest()
