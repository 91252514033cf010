"""What durable sets need of an object store: listings, whole objects, and a write that fails if the object is there.

The stores are file systems of fsspec. Only those with such a conditional write are accepted, and each store is tested once before a
program publishes anything in it, since servers exist that ignore the condition.
"""

from __future__ import annotations

import base64
import contextlib
import datetime
import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import field
from pathlib import Path
from typing import Any, TypeVar

from craton import forks
from craton.records import dataclass

__all__ = ["ObjectStore", "StoredObject", "for_each"]

_T = TypeVar("_T")
_A = TypeVar("_A")

#: The number of requests that are sent at once.
_REQUESTS = 8
#: The protocols of the file systems of fsspec that have a conditional write.
_CONDITIONAL = ("s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "memory")
_MEMORY = "memory"
#: Where file systems say when an object was written, and what its CRC-32C is.
_TIMES = ("LastModified", "last_modified", "updated", "mtime", "created")
_CHECKSUM = "crc32c"
_KINDS = (FileNotFoundError, FileExistsError, PermissionError, TimeoutError, ConnectionError)

#: fsspec's file system in memory checks whether an object is there, and then writes it.
_memory_writes = forks.lock()
#: The stores that were found to refuse to replace an object, by URL.
_tested: set[str] = set()


@dataclass(frozen=True, slots=True)
class StoredObject:
    """What a store says of an object.

    Parameters
    ----------
    nbytes
        Its length.
    time
        When it was written, in seconds since 1970 by the store's clock; None if the store does not say.
    checksum
        Its CRC-32C; None if the store does not say.
    """

    nbytes: int
    time: float | None = None
    checksum: int | None = None

    @classmethod
    def of(cls, info: Mapping[str, Any]) -> StoredObject:
        """What fsspec says of an object."""
        times = (_seconds(info[name]) for name in _TIMES if info.get(name) is not None)
        text = info.get(_CHECKSUM)
        checksum = int.from_bytes(base64.b64decode(text), "big") if isinstance(text, str) else None
        return cls(int(info["size"] or 0), next(times, None), checksum)


def _seconds(moment: Any) -> float:
    if isinstance(moment, str):
        moment = datetime.datetime.fromisoformat(moment)
    return moment.timestamp() if isinstance(moment, datetime.datetime) else float(moment)


@dataclass(frozen=True, slots=True, eq=False)
class ObjectStore:
    """An object store below a URL. Keys are relative to it.

    All methods raise OSError, or a subclass, if the store does not answer or refuses; its text has the URL.

    Parameters
    ----------
    url
        The URL.
    options
        The options of fsspec's file system.

    Raises
    ------
    ImportError
        If the library of the file system is not installed; raised by all methods.
    ValueError
        If the file system is not known to have a conditional write, or the options are not valid; raised by all methods.
    """

    url: str
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def url_of(self, key: str) -> str:
        """The URL of an object."""
        return f"{self.url}/{key}"

    @property
    def is_shared(self) -> bool:
        """Whether other processes can read the objects."""
        return not self.url.startswith(f"{_MEMORY}:")

    def listed(self, folder: str) -> dict[str, StoredObject]:
        """The objects in a folder, by their names in it."""
        with self._asking("list", folder) as (files, path):
            files.invalidate_cache()
            try:
                found = files.find(path, detail=True)
            except FileNotFoundError:
                return {}
            start = len(path) + 1
            return {
                name[start:]: StoredObject.of(info)
                for name, info in found.items()
                if len(name) > start and "/" not in name[start:] and info.get("type") != "directory"
            }

    def folders(self, folder: str = "") -> list[str]:
        """The names of the folders in a folder, sorted."""
        with self._asking("list", folder) as (files, path):
            files.invalidate_cache()
            try:
                found = files.ls(path, detail=True)
            except FileNotFoundError:
                return []
            return sorted(info["name"].rstrip("/").rpartition("/")[2] for info in found if info["type"] == "directory")

    def read(self, key: str) -> bytes:
        """The contents of an object."""
        with self._asking("read", key) as (files, path):
            return bytes(files.cat_file(path))

    def create(self, key: str, content: bytes) -> None:
        """Write an object that is not there. After an error the object may be there all the same.

        Raises
        ------
        OSError
            If it is there. The class depends on the file system.
        """
        lock = contextlib.nullcontext() if self.is_shared else _memory_writes
        with lock, self._asking("write", key) as (files, path):
            files.pipe_file(path, content, mode="create")

    def write(self, key: str, content: bytes) -> None:
        """Write an object, in one step."""
        with self._asking("write", key) as (files, path):
            files.pipe_file(path, content)

    def upload(self, local: str | os.PathLike[str], key: str) -> None:
        """Write an object that has the contents of a local file."""
        with self._asking("write", key) as (files, path):
            files.put_file(os.fspath(local), path)

    def download(self, key: str, local: str) -> None:
        """Write the contents of an object to a local file."""
        with self._asking("read", key) as (files, path):
            if self.is_shared:
                files.get_file(path, local)
            else:  # open files in memory share one position
                Path(local).write_bytes(files.cat_file(path))

    def remove(self, keys: Iterable[str]) -> None:
        """Remove objects; those that are not there are no error."""
        for_each(self._remove, keys)

    def _remove(self, key: str) -> None:
        with contextlib.suppress(FileNotFoundError), self._asking("remove", key) as (files, path):
            files.rm_file(path)

    def now(self, folder: str) -> float:
        """The time of the store's clock, by an object that is written to a folder and removed: seconds since 1970."""
        key = f"{folder}/.clock-{secrets.token_hex(8)}"
        self.write(key, b"now")
        try:
            with self._asking("look at", key) as (files, path):
                found = StoredObject.of(files.info(path))
        finally:
            self._remove(key)
        if found.time is None:
            raise OSError(f"{self.url} does not say when objects were written")
        return found.time

    def test_condition(self, folder: str) -> None:
        """Test, once in this process, that an object that is there is not replaced, by one that is written to a folder and removed.

        Raises
        ------
        OSError
            If the store replaces it.
        """
        if self.url in _tested:
            return
        key = f"{folder}/.condition-{secrets.token_hex(8)}"
        try:
            self.create(key, b"first")
            try:
                self.create(key, b"second")
            except OSError as error:  # the store has refused it, if it has answered
                if not isinstance(error.__cause__, OSError) or isinstance(error, (ConnectionError, TimeoutError)):
                    raise
            if self.read(key) != b"first":
                raise OSError(
                    f"{self.url}: the store ignores the condition of a conditional write, so versions of durable sets could be lost there"
                )
        finally:
            self._remove(key)
        _tested.add(self.url)

    @contextlib.contextmanager
    def _asking(self, operation: str, key: str) -> Iterator[tuple[Any, str]]:
        """The file system, and the path of an object or folder in it; its errors become errors of the system that name the object."""
        files, root = self._opened()
        try:
            yield files, f"{root}/{key}".rstrip("/")
        except Exception as error:
            kind = next((kind for kind in _KINDS if isinstance(error, kind)), OSError)
            raise kind(f"{operation} {self.url_of(key)}: {str(error) or type(error).__name__}") from error

    def _opened(self) -> tuple[Any, str]:
        """The file system, which fsspec keeps for each process, and the path of the root in it."""
        if self.url.partition("://")[0] not in _CONDITIONAL:
            raise ValueError(
                f"craton.options.data: {self.url} has no conditional write, which durable sets need; use a folder, or one of "
                f"{', '.join(_CONDITIONAL)}"
            )
        import fsspec

        files, root = fsspec.core.url_to_fs(self.url, **{"use_listings_cache": False, **self.options})
        return files, root.rstrip("/")


def for_each(use: Callable[[_A], _T], values: Iterable[_A]) -> list[_T]:
    """Call a function with each of some values, several at once; returns the results in order."""
    values = list(values)
    if len(values) < 2:
        return [use(value) for value in values]
    with ThreadPoolExecutor(min(_REQUESTS, len(values)), "craton-objects") as pool:
        return list(pool.map(use, values))
