"""Publishes files by rename: they are written into a staging folder beside the target, so that no reader sees a partial file.

On any failure (an error, a full disk, Ctrl-C) the new file is removed and the previous one stays unchanged. The file keeps its
name in the staging folder, because archives store it and its suffix selects the compression. If a writer is killed, its
staging folder remains until the next write beside it removes it (:mod:`craton.pandas.io.staging`).
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from collections.abc import Iterator
from typing import Any

from craton.pandas.io.locations import is_url
from craton.pandas.io.staging import is_full, staging_folder


@contextlib.contextmanager
def staged_file(path: Any) -> Iterator[Any]:
    """Write a file in a staging folder, and move it to a path at the end of the block.

    Parameters
    ----------
    path
        The path or object that the user gave. It is yielded unchanged, and so written in place, unless it is the path of a
        regular file, existing or new, in a writable folder.

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
            hidden = stack.enter_context(staging_folder(folder))
        except OSError as error:
            if is_full(error):
                raise
            yield path
            return
        written = os.path.join(hidden, name)
        yield written
        if os.path.exists(written):
            if os.path.exists(target):
                _copy_permissions(written, target)
            _flush(written)
            os.replace(written, target)
            _flush(folder)


@contextlib.contextmanager
def staged_folder(path: Any) -> Iterator[Any]:
    """Write files in a staging folder, and move them into a folder, which may have other files, at the end of the block.

    Parameters
    ----------
    path
        The path or object that the user gave. It is yielded unchanged unless it is the path of a folder, existing or new.

    Yields
    ------
    str
        The folder to write to. Its files are moved after the last one has been written.
    """
    target = _target_folder(path)
    if target is None:
        yield path
        return
    parent = os.path.dirname(target)
    os.makedirs(parent, exist_ok=True)
    with staging_folder(parent) as hidden:
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
    except (OSError, ValueError):  # the write to this path then raises the error
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
    """The regular file that a path leads to; ``None`` if it must be written in place.

    Renaming a new file over the old one would separate it from its other hard links and change its owner, so files with
    several links and files of other users are written in place.
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
    except (OSError, ValueError):  # a name that is too long, or a cycle of links: the write then raises the error
        return None
    else:
        owned = kind.st_uid == os.geteuid() if hasattr(os, "geteuid") else True
        if not (stat.S_ISREG(kind.st_mode) and kind.st_nlink == 1 and owned and os.access(target, os.W_OK)):
            return None
    folder = os.path.dirname(target)
    return target if os.path.isdir(folder) and os.access(folder, os.W_OK) and os.path.basename(name) else None


def _copy_permissions(written: str, target: str) -> None:
    """Give a file the mode, and if permitted the group, of the file that it replaces."""
    shutil.copymode(target, written)
    group = os.stat(target).st_gid
    if group != os.stat(written).st_gid:
        with contextlib.suppress(OSError):
            os.chown(written, -1, group)


def _flush(path: str) -> None:
    """Flush a file, or the entries of a folder, to disk (``fsync``)."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
