"""Files that a plan was built on, held open: the rows stay readable when a file is deleted or replaced.

pandas reads when it is told to; a plan reads when somebody looks. Between the two a program may delete its temporary
folder or publish a new file under the same name. An open descriptor keeps the old rows where the system allows it. A
file that was written over in place can't be had back: then the run fails, and says so, instead of mixing two states.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence

from craton.errors import SourceChanged

#: Sources of more files are not held open, so that descriptors do not run out.
MOST_FILES = 64
_DESCRIPTORS = "/proc/self/fd"

Version = tuple[int, int, int]


def version_of(status: os.stat_result) -> Version:
    """What tells one state of a file from another: its size, its time of change in ns, its inode."""
    return status.st_size, status.st_mtime_ns, status.st_ino


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

    __slots__ = ("_descriptors", "_paths", "_process", "versions")

    def __init__(self, paths: Sequence[str]) -> None:
        self._paths = tuple(paths)
        self._descriptors: list[int] = []
        self._process = os.getpid()
        if len(self._paths) > MOST_FILES or not os.path.isdir(_DESCRIPTORS):
            self.versions = tuple(version_of(os.stat(path)) for path in self._paths)
            return
        with contextlib.suppress(OSError):
            for path in self._paths:
                self._descriptors.append(os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0)))
        if len(self._descriptors) == len(self._paths):
            self.versions = tuple(version_of(os.fstat(descriptor)) for descriptor in self._descriptors)
        else:  # no descriptors left: do without
            self._close()
            self.versions = tuple(version_of(os.stat(path)) for path in self._paths)

    def current(self) -> list[str]:
        """Where the rows are now, a path a file.

        Raises
        ------
        SourceChanged
            If a file is not what it was.
        """
        found = []
        for i, (path, version) in enumerate(zip(self._paths, self.versions, strict=True)):
            if _state(path) == version:
                found.append(path)
                continue
            descriptor = self._descriptors[i] if self._descriptors and os.getpid() == self._process else None
            if descriptor is None or version_of(os.fstat(descriptor)) != version:
                gone = not os.path.exists(path)
                raise SourceChanged(
                    f"{path!r} was {'removed' if gone else 'changed'} after it was read into a lazy frame, and its "
                    f"rows are needed only now. Compute what is needed of it before the file changes, or read it again."
                )
            found.append(f"{_DESCRIPTORS}/{descriptor}")
        return found

    def _close(self) -> None:
        while self._descriptors:
            os.close(self._descriptors.pop())

    def __del__(self) -> None:
        try:
            if getattr(self, "_process", None) == os.getpid():
                self._close()
        except AttributeError:  # the interpreter is going down, and modules with it
            return


def _state(path: str) -> Version | None:
    try:
        return version_of(os.stat(path))
    except OSError:
        return None
