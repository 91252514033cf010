"""Guarantees that a plan reads its files as they were when the plan was built.

pandas reads a file when it is called; a plan reads it when the result is evaluated. In between a program may delete its
temporary folder or publish a new file under the same name. Where the system allows it, an open descriptor keeps the old rows
readable. A file that was overwritten in place, and a remote object that was replaced, cannot be recovered: the run then fails
with SourceChanged instead of mixing two versions. Versions are checked before and after each run.
"""

from __future__ import annotations

import contextlib
import os
import time
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

from craton.errors import SourceChanged

#: Sources of more files are not held open, so that the process does not run out of descriptors.
MOST_FILES = 64
_DESCRIPTORS = "/proc/self/fd"
#: CLOCK_REALTIME_COARSE of Linux, from which files get their times.
_FILE_CLOCK = 5
#: How often to read the status of a file that was changed in the current tick of that clock, one millisecond apart.
_LOOKS = 20
#: The number of remote objects whose states are requested concurrently.
_ASKED = 16
#: The largest file, in bytes, that is copied before this program writes it in place.
MAX_COPIED = 1 << 30
#: The open files of living plans of this process, by `id`.
_living: weakref.WeakValueDictionary[int, HeldFiles] = weakref.WeakValueDictionary()

#: Device, inode, size, and the times of change of content and of status, in ns.
Version = tuple[int, int, int, int, int]


class Held(Protocol):
    """Files or objects as they were when a plan was built.

    Attributes
    ----------
    versions : tuple
        One for each file; it differs if the file has changed.
    """

    versions: tuple[Any, ...]

    def current(self) -> list[str]:
        """A path for each file where the rows are now, by its own name if possible; raises SourceChanged if a file has changed."""

    def readable(self, numbers: Collection[int] | None = None) -> list[str]:
        """Paths for this process, which stay valid if the files are renamed or removed; raises as :meth:`current`.

        Parameters
        ----------
        numbers
            The numbers of the files that will be read, by default all. Files need not be at the paths of others.
        """

    def in_place(self) -> bool:
        """Whether other processes can read the rows by the files' names; always true for remote objects."""

    def check(self) -> None:
        """Raise SourceChanged if a file has changed; called after the files were read."""

    def elsewhere(self, numbers: Sequence[int]) -> Held | None:
        """What another process needs to read the files with some numbers; None if it reads them by their names."""


def version_of(status: os.stat_result) -> Version:
    """The version of a file, given its status."""
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def settled_version(file: str | int) -> Version:
    """The version of a file, given its path or descriptor, such that any later change gives another version.

    Two writes in one tick of the system's clock give the same times. So if a file was changed in the current tick, its status
    is read again in the next.
    """
    status = os.stat(file)
    for _ in range(_LOOKS):
        if status.st_ctime_ns < _file_clock():
            break
        time.sleep(0.001)
        status = os.stat(file)
    return version_of(status)


def _file_clock() -> int:
    try:
        return time.clock_gettime_ns(_FILE_CLOCK)
    except (OSError, AttributeError):  # not Linux
        return time.time_ns() - 10_000_000


def check_files(paths: Sequence[str], versions: Sequence[Any]) -> None:
    """Raise SourceChanged if a local file has changed.

    Parameters
    ----------
    paths
        Paths; URLs are skipped.
    versions
        The expected version of each.
    """
    for path, version in zip(paths, versions, strict=False):
        if isinstance(version, tuple) and len(version) == 5 and "://" not in path and _state(path) != version:
            raise _changed(path, not os.path.exists(path))


def check_held(sources: Iterable[Any], *, remote: bool = False) -> None:
    """Raise SourceChanged if a file of a source has changed; called before and after a run.

    Parameters
    ----------
    sources
        The sources of the plans.
    remote
        Check remote objects only: before a run, since local files are checked when they are opened.
    """
    for held in dict.fromkeys(held for source in sources if (held := getattr(source, "held", None)) is not None):
        if not remote or isinstance(held, HeldObjects):
            held.check()


def keep_rows(path: str) -> None:
    """Copy a file that this program is about to write in place, for the plans that read it.

    A file larger than ``MAX_COPIED``, or for which the disk has no room, is not copied: the plans then raise ``SourceChanged``.

    Parameters
    ----------
    path
        A local path. Nothing happens if no file is there.
    """
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return
    if status.st_size <= MAX_COPIED:
        for reference in _living.valuerefs():  # a copy, as other threads build plans
            if (held := reference()) is not None:
                held.keep(status)


def in_place(sources: Iterable[Any]) -> bool:
    """Whether other processes can read the files of all sources by their names."""
    return all(held.in_place() for source in sources if (held := getattr(source, "held", None)) is not None)


def _changed(name: str, gone: bool) -> SourceChanged:
    return SourceChanged(
        f"{name!r} was {'removed' if gone else 'changed'} after it was read into a lazy frame, and its "
        f"rows are needed only now. Compute what you need before the file changes, or read the file again."
    )


class HeldFiles:
    """Local files as they were when a plan was built on them.

    Parameters
    ----------
    paths
        Paths of local files.

    Attributes
    ----------
    versions : tuple of Version
        One for each file.
    """

    __slots__ = ("__weakref__", "_copied", "_descriptors", "_paths", "_process", "_read_at", "versions")

    def __init__(self, paths: Sequence[str]) -> None:
        self._paths = tuple(paths)
        self._descriptors: list[int] = []
        self._copied: set[int] = set()
        self._read_at: list[str] = []
        self._process = os.getpid()
        if len(self._paths) > MOST_FILES or not os.path.isdir(_DESCRIPTORS):
            self.versions = tuple(settled_version(path) for path in self._paths)
            return
        with contextlib.suppress(OSError):
            for path in self._paths:
                self._descriptors.append(os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0)))
        if len(self._descriptors) == len(self._paths):
            self.versions = tuple(settled_version(descriptor) for descriptor in self._descriptors)
            _living[id(self)] = self
        else:  # no descriptors left
            self._close()
            self.versions = tuple(settled_version(path) for path in self._paths)

    def current(self) -> list[str]:
        """A path for each file where the rows are now: its name, or its open descriptor if the name is gone or reused.

        Raises
        ------
        SourceChanged
            If a file has changed and its old rows cannot be read any more.
        """
        self._read_at = [self._found(i) for i in range(len(self._paths))]
        return self._read_at

    def readable(self, numbers: Collection[int] | None = None) -> list[str]:
        """Paths for this process: open descriptors, if there are any, so that the names can be reused meanwhile.

        Raises
        ------
        SourceChanged
            If a file has changed and its old rows cannot be read any more.
        """
        found = self.current()
        if self._is_open:
            self._read_at = [f"{_DESCRIPTORS}/{descriptor}" for descriptor in self._descriptors]
        return self._read_at if self._is_open else found

    def keep(self, status: os.stat_result) -> None:
        """Copy the file with this device and inode, if it is one of these, so that its rows stay readable when it changes.

        Parameters
        ----------
        status
            The status of the file that is about to change.
        """
        if not self._is_open:
            return
        for i, descriptor in enumerate(self._descriptors):
            now = os.fstat(descriptor)
            if (now.st_dev, now.st_ino) != (status.st_dev, status.st_ino):
                continue
            with contextlib.suppress(OSError):  # SourceChanged is an OSError: the old rows are lost already
                self._found(i)
                with _copy_of(descriptor) as copy:
                    self._found(i)
                    os.dup2(copy, descriptor, inheritable=False)
                    self._copied.add(i)

    def in_place(self) -> bool:
        """Whether the files are unchanged under their names; otherwise at most this process can read the rows."""
        return all(_state(path) == version for path, version in zip(self._paths, self.versions, strict=True))

    def check(self) -> None:
        """Check the files that were read at the paths of :meth:`current` or :meth:`readable`.

        Raises
        ------
        SourceChanged
            If a file was changed while it was read.
        """
        read_at = self._read_at
        for i, path in enumerate(self._paths):
            if self._found(i) != path and read_at and read_at[i] == path:
                raise _changed(path, not os.path.exists(path))

    def elsewhere(self, numbers: Sequence[int]) -> None:
        """None: other processes read the files by their names."""

    @property
    def _is_open(self) -> bool:
        return bool(self._descriptors) and os.getpid() == self._process

    def _found(self, i: int) -> str:
        path, version = self._paths[i], self.versions[i]
        now = _state(path)
        if now == version:
            return path
        if i in self._copied and self._is_open:
            return f"{_DESCRIPTORS}/{self._descriptors[i]}"
        # A file that was unlinked or replaced keeps its content and gets another status time. If a file with this inode still
        # has its name and has another status time, it may have been overwritten and its modification time set back.
        if not self._is_open or (now is not None and now[:2] == version[:2]):
            raise _changed(path, now is None)
        if version_of(os.fstat(self._descriptors[i]))[:4] != version[:4]:
            raise _changed(path, now is None)
        return f"{_DESCRIPTORS}/{self._descriptors[i]}"

    def _close(self) -> None:
        while self._descriptors:
            os.close(self._descriptors.pop())

    def __del__(self) -> None:
        try:
            if getattr(self, "_process", None) == os.getpid():
                self._close()
        except AttributeError:  # modules are being unloaded at interpreter exit
            return


@contextlib.contextmanager
def _copy_of(descriptor: int) -> Iterator[int]:
    """A descriptor of an unnamed copy of a file, in the folder for temporary files."""
    import tempfile  # slow to import, and rarely needed

    with tempfile.TemporaryFile() as copy:
        start, size = 0, os.fstat(descriptor).st_size
        while start < size:
            sent = os.sendfile(copy.fileno(), descriptor, start, size - start)
            if sent == 0:
                raise OSError("a file has become shorter")
            start += sent
        yield copy.fileno()


def _state(path: str) -> Version | None:
    try:
        return version_of(os.stat(path))
    except OSError:
        return None


class HeldObjects:
    """Objects of a remote store as they were when a plan was built on them.

    Parameters
    ----------
    names
        Their URLs, for the kernel's scan and for error messages.
    states
        Functions that request the state of each object: an ETag, a version or a time; ``None`` if the store has none.

    Attributes
    ----------
    versions : tuple
        One for each object; an object without a state has a version that equals no other.
    """

    __slots__ = ("_asked", "_names", "_states", "versions")

    def __init__(self, names: Sequence[str], states: Sequence[Callable[[], Any]]) -> None:
        self._names, self._asked = tuple(names), tuple(states)
        self._states = self._ask()
        self.versions = tuple(os.urandom(16).hex() if state is None else state for state in self._states)

    def current(self) -> list[str]:
        """The URLs of the objects.

        Raises
        ------
        SourceChanged
            If an object has changed.
        """
        self.check()
        return list(self._names)

    def readable(self, numbers: Collection[int] | None = None) -> list[str]:
        """The URLs of the objects; whether they have changed is checked before and after a run, not here."""
        return list(self._names)

    def in_place(self) -> bool:
        """Always true: remote objects are read by their URLs only."""
        return True

    def check(self) -> None:
        """Request the states again.

        Raises
        ------
        SourceChanged
            If an object has changed.
        """
        for name, before, now in zip(self._names, self._states, self._ask(), strict=True):
            if before is not None and now != before:
                raise _changed(name, now is None)

    def elsewhere(self, numbers: Sequence[int]) -> None:
        """None: other processes read the objects by their URLs."""

    def _ask(self) -> list[Any]:
        if len(self._asked) == 1:
            return [self._asked[0]()]
        with ThreadPoolExecutor(_ASKED, "craton-states") as pool:
            return list(pool.map(lambda ask: ask(), self._asked))
