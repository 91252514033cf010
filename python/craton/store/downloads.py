"""Local copies of the data files of sets in object stores.

A data file never changes, so its copy is kept, in ``craton.options.data_cache``, and used by all programs of this user. The whole file
is compared with the checksum of the manifest before the copy gets its name.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
import time
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from craton import _native
from craton.config import options
from craton.errors import SourceChanged
from craton.locks import KeyedLocks
from craton.records import dataclass
from craton.store.object_store import ObjectStore, for_each

__all__ = ["RemoteFile", "RemoteFiles"]

#: Copies that were used in so many seconds stay, whatever the limit: a program may be about to open them.
_IN_USE = 3600.0
#: By path: one thread downloads a file, and others wait for it.
_downloads = KeyedLocks()


@dataclass(frozen=True, slots=True, eq=False)
class RemoteFile:
    """A data file in an object store.

    Parameters
    ----------
    store, key
        Where it is.
    nbytes, checksum
        Its length and CRC-32C, as the manifest says.
    """

    store: ObjectStore
    key: str
    nbytes: int
    checksum: int

    @property
    def url(self) -> str:
        """Its URL."""
        return self.store.url_of(self.key)

    def local_copy(self) -> str:
        """The path of a local copy, which is downloaded if there is none.

        Raises
        ------
        FileNotFoundError
            If the object is not there.
        CorruptSet
            If it is not what was written.
        OSError
            If the store does not answer, or the copy cannot be written.
        """
        name = f"{hashlib.blake2b(self.url.encode(), digest_size=12).hexdigest()}-{self.checksum:08x}"
        path = os.path.join(options.data_cache, name + os.path.splitext(self.key)[1])
        with _downloads.hold(path):
            if not self._is_at(path):
                self._download(path)
        return path

    def _is_at(self, path: str) -> bool:
        try:
            os.utime(path)
            return os.stat(path).st_size == self.nbytes
        except OSError:
            return False

    def _download(self, path: str) -> None:
        folder = os.path.dirname(path)
        os.makedirs(folder, mode=0o700, exist_ok=True)
        descriptor, partial = tempfile.mkstemp(prefix=".partial-", dir=folder)
        os.close(descriptor)
        try:
            self.store.download(self.key, partial)
            if (why := self.fault_of(partial)) is not None:
                raise _native.CorruptSet(
                    f"{self.url}: {why}; python -m craton store repair rebuilds it, if the set has replicas"
                )
            os.replace(partial, path)
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(partial)

    def fault_of(self, path: str) -> str | None:
        """How a local file differs from what was written; None if it does not."""
        nbytes, checksum = _native.file_checksum(path)
        if nbytes != self.nbytes:
            return f"it has {nbytes} bytes, and should have {self.nbytes}"
        return None if checksum == self.checksum else "its checksum differs"


@dataclass(frozen=True, slots=True, eq=False)
class RemoteFiles:
    """The files of a plan that are in an object store. They never change; they are downloaded when they are read.

    Parameters
    ----------
    files
        The files.
    """

    files: tuple[RemoteFile, ...]

    @property
    def versions(self) -> tuple[Any, ...]:
        """One for each file, with which plans tell files apart."""
        return tuple((file.nbytes, file.checksum) for file in self.files)

    def current(self) -> list[str]:
        """The paths of local copies."""
        return self.readable()

    def readable(self, numbers: Collection[int] | None = None) -> list[str]:
        """A path for each file: that of a local copy if its number is among the given ones, else its URL.

        Raises
        ------
        SourceChanged
            If an object is not there any more.
        OSError
            As :meth:`RemoteFile.local_copy`.
        """
        chosen = range(len(self.files)) if numbers is None else sorted(numbers)
        paths = [file.url for file in self.files]
        for number, path in zip(chosen, for_each(self._copy, chosen), strict=True):
            paths[number] = path
        trim(options.data_cache, options.data_cache_limit)
        return paths

    def _copy(self, number: int) -> str:
        try:
            return self.files[number].local_copy()
        except FileNotFoundError as error:
            raise SourceChanged(
                f"{error}; its version of the set may have been dropped after it was read into a lazy frame. Read the set again."
            ) from error

    def in_place(self) -> bool:
        """Whether other processes can read the files."""
        return all(file.store.is_shared for file in self.files)

    def check(self) -> None:
        """Does nothing: the files never change."""

    def elsewhere(self, numbers: Sequence[int]) -> RemoteFiles:
        """Some of the files, for another process."""
        return RemoteFiles(tuple(self.files[number] for number in numbers))


def trim(folder: str, limit: int) -> None:
    """Remove the copies that were not used for longest, until those that are left have at most so many bytes."""
    found = sorted(_copies(folder))
    total = sum(nbytes for _, nbytes, _ in found)
    for used, nbytes, path in found:
        if total <= limit or used > time.time() - _IN_USE:
            return
        with contextlib.suppress(OSError):
            os.unlink(path)
        total -= nbytes


def _copies(folder: str) -> Iterator[tuple[float, int, str]]:
    """When each copy was last used, its length, and its path."""
    with contextlib.suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):
                status = entry.stat(follow_symlinks=False)
                yield status.st_mtime, status.st_size, entry.path
