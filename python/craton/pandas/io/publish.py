"""Writing files so that nobody ever sees half of one: into a hidden folder beside the target, then renamed into place.

On any failure (an error, a full disk, Ctrl-C) what was written goes and what was there before stays as it was. Within the
hidden folder the file keeps its name, because archives and compressed files carry it, and because the name tells the
compression. A writer that is killed leaves the hidden folder; the next write beside it removes it (:mod:`craton.pandas.io.hidden`).
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from collections.abc import Iterator
from typing import Any

from craton.pandas.io.hidden import hidden_folder, is_full
from craton.pandas.io.locations import is_url


@contextlib.contextmanager
def published(path: Any) -> Iterator[Any]:
    """Where to write a file that is to stand at a path.

    Parameters
    ----------
    path
        What the user gave. Anything but the path of a regular file, or of none yet, in a folder that can be written, is
        handed through: it is written in place, and errors are those of writing there.

    Yields
    ------
    str
        The path to write to.
    """
    target = _target(path)
    if target is None:
        yield path
        return
    folder, name = os.path.split(target)
    with contextlib.ExitStack() as stack:
        try:
            hidden = stack.enter_context(hidden_folder(folder))
        except OSError as error:
            if is_full(error):
                raise
            yield path
            return
        written = os.path.join(hidden, name)
        yield written
        if os.path.exists(written):
            if os.path.exists(target):
                _resemble(written, target)
            _flush(written)
            os.replace(written, target)
            _flush(folder)


@contextlib.contextmanager
def published_folder(path: Any) -> Iterator[Any]:
    """Where to write the files that are to stand in a folder, which may hold others already.

    Parameters
    ----------
    path
        What the user gave. Anything but the path of a folder, or of nothing yet, is handed through.

    Yields
    ------
    str
        The folder to write to. Its files are moved into place together, after the last was written.
    """
    target = _target_folder(path)
    if target is None:
        yield path
        return
    parent = os.path.dirname(target)
    os.makedirs(parent, exist_ok=True)
    with hidden_folder(parent) as hidden:
        yield hidden
        files = [os.path.join(folder, name) for folder, _, names in os.walk(hidden) for name in names]
        for name in files:
            _flush(name)
        if os.path.exists(target):
            _move(hidden, files, target)
        elif files:
            os.replace(hidden, target)
        _flush(parent)


def _target_folder(path: Any) -> str | None:
    if not isinstance(path, (str, os.PathLike)):
        return None
    name = os.fspath(path)
    if not isinstance(name, str) or is_url(name):
        return None
    name = os.path.expanduser(name)
    try:
        os.lstat(name)
    except FileNotFoundError:
        return os.path.realpath(name)
    except (OSError, ValueError):  # writing there fails
        return None
    return os.path.realpath(name) if os.path.isdir(name) else None


def _move(hidden: str, files: list[str], target: str) -> None:
    moved: list[str] = []
    try:
        for name in files:
            place = os.path.join(target, os.path.relpath(name, hidden))
            os.makedirs(os.path.dirname(place), exist_ok=True)
            os.replace(name, place)
            moved.append(place)
    except BaseException:
        for place in moved:
            with contextlib.suppress(OSError):
                os.unlink(place)
        raise


def _target(path: Any) -> str | None:
    """The regular file that is written, or ``None`` for what is written in place.

    That is also a file of several names, all of which are to lead to the new rows, and one of another user, who is to
    keep it.
    """
    if not isinstance(path, (str, os.PathLike)):
        return None
    name = os.fspath(path)
    if not isinstance(name, str) or not name or is_url(name):
        return None
    try:
        target = os.path.realpath(os.path.expanduser(name))
        kind = os.stat(target)
    except FileNotFoundError:
        pass
    except (OSError, ValueError):  # a name that is too long, links in a circle: writing there fails
        return None
    else:
        owned = kind.st_uid == os.geteuid() if hasattr(os, "geteuid") else True
        if not (stat.S_ISREG(kind.st_mode) and kind.st_nlink == 1 and owned and os.access(target, os.W_OK)):
            return None
    folder = os.path.dirname(target)
    return target if os.path.isdir(folder) and os.access(folder, os.W_OK) and os.path.basename(name) else None


def _resemble(written: str, target: str) -> None:
    """Give a file the mode, and where it may be the group, of the one that it replaces."""
    shutil.copymode(target, written)
    group = os.stat(target).st_gid
    if group != os.stat(written).st_gid:
        with contextlib.suppress(OSError):
            os.chown(written, -1, group)


def _flush(path: str) -> None:
    """Have the system write a file, or the entries of a folder, to the disk."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
