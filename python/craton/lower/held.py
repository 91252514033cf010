"""Files that a plan was built on: held open, and looked at again before and after each run.

pandas reads when it is told to; a plan reads when somebody looks. Between the two a program may delete its temporary
folder or publish a new file under the same name. An open descriptor keeps the old rows where the system allows it. A
file that was written over in place can't be had back, nor can an object of a remote store: then the run fails, and says so,
instead of mixing two states.
"""

from __future__ import annotations

import contextlib
import os
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

from craton.errors import SourceChanged

#: Sources of more files are not held open, so that descriptors do not run out.
MOST_FILES = 64
_DESCRIPTORS = "/proc/self/fd"
#: The number by which Linux knows the clock that files are stamped with.
_FILE_CLOCK = 5
#: Looks at a file that was changed in this very tick of that clock, a millisecond apart.
_LOOKS = 20
#: Objects that are asked for their state at a time.
_ASKED = 16
#: Larger files are not copied before they are written in place.
MOST_COPIED = 1 << 30
#: Files that plans of this process were built on, by the identity of the object.
_living: weakref.WeakValueDictionary[int, HeldFiles] = weakref.WeakValueDictionary()

#: Device, inode, size, and the times of change of content and of status, in ns.
Version = tuple[int, int, int, int, int]


class Held(Protocol):
    """Files or objects as they were when a plan was built.

    Attributes
    ----------
    versions : tuple
        What tells that one changed, one a file.
    """

    versions: tuple[Any, ...]

    def current(self) -> list[str]:
        """Where the rows are now, a path a file, by its name if it can be; raises SourceChanged if a file is not what it was."""

    def readable(self) -> list[str]:
        """Where this process reads the rows now, whatever becomes of the files' names meanwhile; raises as :meth:`current`."""

    def in_place(self) -> bool:
        """Whether other processes find the rows by the files' names; says nothing on objects of remote stores."""

    def check(self) -> None:
        """After they were read: raise SourceChanged if a file is not what it was."""


def version_of(status: os.stat_result) -> Version:
    """What tells one state of a file from another."""
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def settled_version(file: str | int) -> Version:
    """The version of a file, given its path or descriptor, which every later change will change.

    Two writes in one tick of the system's clock leave the same times. So a file that was changed in this very tick is
    looked at again in the next.
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
    except (OSError, AttributeError):  # another system
        return time.time_ns() - 10_000_000


def check_files(paths: Sequence[str], versions: Sequence[Any]) -> None:
    """Raise SourceChanged if a local file is not what it was.

    Parameters
    ----------
    paths
        Paths; URLs are passed over.
    versions
        Of each.
    """
    for path, version in zip(paths, versions, strict=False):
        if isinstance(version, tuple) and len(version) == 5 and "://" not in path and _state(path) != version:
            raise _changed(path, not os.path.exists(path))


def check_held(sources: Iterable[Any], *, remote: bool = False) -> None:
    """Raise SourceChanged if a file of a source is not what it was: after plans ran, or before.

    Parameters
    ----------
    sources
        Of the plans.
    remote
        Look at objects of remote stores only: before a run, since files are looked at when they are opened.
    """
    for held in dict.fromkeys(held for source in sources if (held := getattr(source, "held", None)) is not None):
        if not remote or isinstance(held, HeldObjects):
            held.check()


def keep_rows(path: str) -> None:
    """Have plans that were built on a file keep what is in it, because it is about to be written in place by this program.

    What is larger than ``MOST_COPIED``, or finds no room on the disk, is not kept: plans then say that the file changed.

    Parameters
    ----------
    path
        Of a local file; there need be none.
    """
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return
    if status.st_size <= MOST_COPIED:
        for held in list(_living.values()):
            held.keep(status)


def in_place(sources: Iterable[Any]) -> bool:
    """Whether other processes find the files of sources by their names.

    Parameters
    ----------
    sources
        Of plans.
    """
    return all(held.in_place() for source in sources if (held := getattr(source, "held", None)) is not None)


def _changed(name: str, gone: bool) -> SourceChanged:
    return SourceChanged(
        f"{name!r} was {'removed' if gone else 'changed'} after it was read into a lazy frame, and its "
        f"rows are needed only now. Compute what is needed of it before the file changes, or read it again."
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
        One a file.
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
        else:  # no descriptors left: do without
            self._close()
            self.versions = tuple(settled_version(path) for path in self._paths)

    def current(self) -> list[str]:
        """Where the rows are now, a path a file: its name, or where it is held open if the name leads elsewhere.

        Raises
        ------
        SourceChanged
            If a file is not what it was.
        """
        self._read_at = [self._found(i) for i in range(len(self._paths))]
        return self._read_at

    def readable(self) -> list[str]:
        """Where this process reads the rows now: where the files are held open, so that their names may be given to others.

        Raises
        ------
        SourceChanged
            If a file is not what it was.
        """
        found = self.current()
        if self._is_open:
            self._read_at = [f"{_DESCRIPTORS}/{descriptor}" for descriptor in self._descriptors]
        return self._read_at if self._is_open else found

    def keep(self, status: os.stat_result) -> None:
        """Copy the file of a device and inode, if it is one of these, so that its rows are there when it has changed.

        Parameters
        ----------
        status
            Of the file.
        """
        if not self._is_open:
            return
        for i, descriptor in enumerate(self._descriptors):
            now = os.fstat(descriptor)
            if (now.st_dev, now.st_ino) != (status.st_dev, status.st_ino):
                continue
            with contextlib.suppress(OSError):  # SourceChanged is one, and says that there is nothing left to be kept
                self._found(i)
                with _copy_of(descriptor) as copy:
                    self._found(i)
                    os.dup2(copy, descriptor, inheritable=False)
                    self._copied.add(i)

    def in_place(self) -> bool:
        """Whether the files are what they were, and their names lead to them: else at most this process can read the rows."""
        return all(_state(path) == version for path, version in zip(self._paths, self.versions, strict=True))

    def check(self) -> None:
        """Look again, after the files were read where :meth:`current` or :meth:`readable` said.

        Raises
        ------
        SourceChanged
            If a file is not what it was.
        """
        read_at = self._read_at
        for i, path in enumerate(self._paths):
            if self._found(i) != path and read_at and read_at[i] == path:
                raise _changed(path, not os.path.exists(path))

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
        # A file that was removed or replaced has another time of status, and the same content. One that is still there and
        # has another time of status may have been written over, and been given its old time of change.
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
        except AttributeError:  # the interpreter is going down, and modules with it
            return


@contextlib.contextmanager
def _copy_of(descriptor: int) -> Iterator[int]:
    """A descriptor of a copy of a file, which is on the disk and has no name."""
    import tempfile  # takes long to load, and few programs come here

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
        What they are called for people, and for the kernel's scan.
    states
        Asks for the state of each that can tell it: an ETag, a version, a time. ``None`` is one that can't.

    Attributes
    ----------
    versions : tuple
        One an object; of one that can't tell its state, a version that equals no other.
    """

    __slots__ = ("_asked", "_names", "_states", "versions")

    def __init__(self, names: Sequence[str], states: Sequence[Callable[[], Any]]) -> None:
        self._names, self._asked = tuple(names), tuple(states)
        self._states = self._ask()
        self.versions = tuple(os.urandom(16).hex() if state is None else state for state in self._states)

    def current(self) -> list[str]:
        """Where the rows are.

        Raises
        ------
        SourceChanged
            If an object is not what it was.
        """
        self.check()
        return list(self._names)

    def readable(self) -> list[str]:
        """Where the rows are; that they are those of the plan is asked before and after a run."""
        return list(self._names)

    def in_place(self) -> bool:
        """Nothing else than their names leads to them; what they are is asked before and after a run."""
        return True

    def check(self) -> None:
        """Ask again, after the objects were read.

        Raises
        ------
        SourceChanged
            If one is not what it was.
        """
        for name, before, now in zip(self._names, self._states, self._ask(), strict=True):
            if before is not None and now != before:
                raise _changed(name, now is None)

    def _ask(self) -> list[Any]:
        if len(self._asked) == 1:
            return [self._asked[0]()]
        with ThreadPoolExecutor(_ASKED, "craton-states") as pool:
            return list(pool.map(lambda ask: ask(), self._asked))
