"""The folder of a durable set in an object store, with the interface of ``_native.SetFolder``.

::

    NAME/versions/00000000000000000001   the manifest of version 1, or a mark: the version expired, or the set was dropped
         data/WRITER-NUMBER.EXTENSION    rows, under names that are used once

An object store has neither links nor locks. A version is published by a conditional write of its manifest, which fails if there is an
object of that name. A version that expires is replaced by a mark, and a set is dropped by a mark in place of its next version, so that
a request that arrives late cannot take the name. Files that no manifest names are of a writer that is writing, or that is gone; they
are removed when they are older than a publication takes. Ages are measured by the store's clock.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from craton import _native
from craton.store.downloads import RemoteFile
from craton.store.manifests import decoded, encoded, names_of_files
from craton.store.object_store import ObjectStore, StoredObject, for_each

__all__ = ["SAFETY_AGE", "ObjectFolder", "UnknownOutcome"]

#: Files that no manifest names are removed when they are older than this, in seconds.
SAFETY_AGE = 86_400.0
#: Marks, which are told from manifests by their lengths: a manifest is longer.
_EXPIRED, _DROPPED = b"expired\n", b"dropped %s\n"
_EXPIRED_BYTES, _DROPPED_BYTES = len(_EXPIRED), len(_DROPPED) - 2 + 16
#: How often a conditional write is tried, and how often its outcome is requested.
_ATTEMPTS = 3


class ObjectFolder:
    """The folder of a set in an object store, whether or not there is one.

    Parameters
    ----------
    store
        The store.
    path
        The path of the folder in it.
    """

    def __init__(self, store: ObjectStore, path: str) -> None:
        self._store, self._path = store, path

    @property
    def path(self) -> str:
        """Its URL."""
        return self._store.url_of(self._path)

    def data(self, name: str) -> str:
        """The URL of a data file."""
        return self._store.url_of(self._data(name))

    def _data(self, name: str = "") -> str:
        return f"{self._path}/data/{name}".rstrip("/")

    def _manifest(self, number: int) -> str:
        return f"{self._path}/versions/{number:020}"

    def remote(self, file: Mapping[str, Any]) -> RemoteFile:
        """A data file, given what the manifest says of it."""
        return RemoteFile(self._store, self._data(file["name"]), file["bytes"], file["checksum"])

    def lengths(self) -> dict[str, int]:
        """The lengths of the data files that are there, by their names."""
        return {name: found.nbytes for name, found in self._store.listed(self._data()).items()}

    # ---- versions ----

    def _listed(self) -> dict[int, int]:
        """The numbers of manifests and marks, ascending, with their lengths; raises CorruptSet if the newest version is lost."""
        names = self._store.listed(f"{self._path}/versions")
        found = {int(name): names[name].nbytes for name in sorted(names) if len(name) == 20 and name.isdecimal()}
        if found and found[max(found)] == _EXPIRED_BYTES:
            raise _native.CorruptSet(
                f"{self._store.url_of(self._manifest(max(found)))}: the newest version cannot expire"
            )
        return found

    def versions(self) -> list[int]:
        """The numbers of the versions, ascending; none if there is no set, or if it was dropped."""
        return _living(self._listed())

    def read(self, version: int | None = None) -> str | None:
        """A version's manifest, by default the newest, as JSON; None if there is no set.

        Raises
        ------
        FileNotFoundError
            If there is no such version.
        CorruptSet
            If the manifest is damaged. An older version is never returned in place of a damaged one.
        ValueError
            If a newer version of Craton wrote it.
        """
        while True:
            numbers = self.versions()
            if version is None and not numbers:
                return None
            wanted = numbers[-1] if version is None else version
            with contextlib.suppress(FileNotFoundError):  # it has expired since it was listed
                if wanted in numbers:
                    return self._read(wanted)
            if version is not None:
                raise FileNotFoundError(f"{self.path} has no version {version}")

    def _read(self, number: int) -> str:
        """A manifest, as JSON; raises FileNotFoundError if there is a mark in its place."""
        url, content = self._store.url_of(self._manifest(number)), self._store.read(self._manifest(number))
        if content == _EXPIRED or _is_dropped(content):
            raise FileNotFoundError(f"{url}: the version was dropped")
        return decoded(content, number, url)

    def writer(self) -> ObjectWriter:
        """A writer of the next version."""
        return ObjectWriter(self)

    def expire(self, versions: Sequence[int]) -> list[int]:
        """Drop versions, but never the newest; returns those that were dropped."""
        dropped = [number for number in self.versions()[:-1] if number in versions]
        for_each(lambda number: self._store.write(self._manifest(number), _EXPIRED), dropped)
        return dropped

    # ---- publishing ----

    def upload(self, local: str | os.PathLike[str], name: str) -> None:
        """Write a data file from a complete local one; one of this name must be the same, or damaged."""
        self._store.upload(local, self._data(name))

    def forget(self, names: Iterable[str]) -> None:
        """Remove data files that are in no version."""
        self._store.remove(map(self._data, names))

    def publish(self, base: int, files: Sequence[Mapping[str, Any]], about: Mapping[str, Any], own: set[str]) -> str:
        """Publish a version of files that were uploaded; the parameters are those of `ObjectWriter.publish`.

        Parameters
        ----------
        own
            The names of the files that the caller has uploaded.
        """
        listed = self._listed()
        if (newest := max(_living(listed), default=0)) != base:
            did = f"published version {newest}" if newest else "dropped the set"
            raise _native.SetConflict(f"another writer has {did} meanwhile")
        self._store.test_condition(self._data())
        found = self._store.listed(self._data())
        for file in files:
            if (name := file["name"]) in own:
                there = found.get(name)
                if there is None or there.nbytes != file["bytes"] or there.checksum not in (None, file["checksum"]):
                    raise OSError(
                        f"{self.data(name)}: the object is missing, or differs from the file that was uploaded"
                    )
        number = max(listed, default=0) + 1
        manifest = {"version": number, "time": time.time_ns() // 1_000_000, "files": list(files), "about": dict(about)}
        text = json.dumps(manifest, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        self._take(number, encoded(text))
        return text

    def _take(self, number: int, content: bytes) -> None:
        """Write an object that has the number of a version, if there is none.

        Raises
        ------
        SetConflict
            If another writer was faster.
        UnknownOutcome
            If it is not known whether the object is there, or will be.
        PermissionError
            If the store refuses.
        """
        key, failed = self._manifest(number), None
        for _ in range(_ATTEMPTS):
            try:
                self._store.create(key, content)
                return
            except OSError as error:
                if isinstance(error, PermissionError) and failed is None:
                    raise
                failed = error  # it does not say whether the object was written
            try:
                there = self._after_failure(key)
            except OSError as error:
                raise UnknownOutcome(f"{failed}; it is not known whether version {number} was published") from error
            if there == content:
                return
            if there is not None:
                raise _native.SetConflict(f"another writer has published version {number} meanwhile")
        raise UnknownOutcome(
            f"{failed}; version {number} was not published, unless the request arrives later"
        ) from failed

    def _after_failure(self, key: str) -> bytes | None:
        """The contents of an object after an attempt to write it failed; None if it is not there."""
        for attempt in range(_ATTEMPTS):
            try:
                return self._store.read(key)
            except FileNotFoundError:
                return None
            except OSError:
                if attempt == _ATTEMPTS - 1:
                    raise
        raise AssertionError

    # ---- removal ----

    def drop(self) -> bool:
        """Drop the set with all of its versions; returns whether there was one. What cannot be removed now is removed by `repair`."""
        while True:
            listed = self._listed()
            if not _living(listed):
                return False
            with contextlib.suppress(_native.SetConflict):  # the version that was published meanwhile is dropped, too
                self._take(max(listed) + 1, _DROPPED % secrets.token_hex(8).encode())
                break
        with contextlib.suppress(OSError):
            self._remove_dropped()
        return True

    def _remove_dropped(self) -> list[str]:
        """Remove the files and the manifests of versions before the set was dropped; returns the removed objects' keys."""
        listed = self._listed()
        mark = _last_mark(listed)
        manifests = [number for number, nbytes in listed.items() if number < mark and _is_manifest(nbytes)]
        files: set[str] = set()
        for number in manifests:
            with contextlib.suppress(FileNotFoundError, _native.CorruptSet):  # then its files are removed by their age
                files |= names_of_files(self._read(number))
        keys = [*map(self._data, sorted(files & self.lengths().keys())), *map(self._manifest, manifests)]
        self._store.remove(keys)
        return keys

    def repair(self, age: float = SAFETY_AGE) -> list[str]:
        """Remove what writers that are gone have left, and data of dropped versions; returns the URLs of the removed objects.

        Parameters
        ----------
        age
            Objects that were written in the last `age` seconds, and that no manifest names, stay: a writer may be about to publish them.

        Raises
        ------
        CorruptSet
            If a manifest is damaged, so that it is not known which files it names. Nothing is removed then.
        """
        # In this order: a file that is listed is published by the time that the manifests are read, or is young.
        data, marks = self._store.listed(self._data()), self._store.listed(f"{self._path}/versions")
        named: set[str] = set()
        for text in for_each(self._read_if_living, self.versions()):
            named |= set() if text is None else names_of_files(text)
        removed = self._remove_dropped() if _last_mark(self._listed()) else []
        unnamed = {self._data(name): found for name, found in data.items() if name not in named and "-" in name}
        removed += self._remove_old({key: found for key, found in unnamed.items() if key not in removed}, age)
        for ended in (self._older_marks(), self._only_mark()):
            names = {f"{number:020}" for number in ended} & marks.keys()
            removed += self._remove_old({f"{self._path}/versions/{name}": marks[name] for name in sorted(names)}, age)
        return [self._store.url_of(key) for key in removed]

    def _read_if_living(self, number: int) -> str | None:
        with contextlib.suppress(FileNotFoundError):
            return self._read(number)
        return None

    def _older_marks(self) -> Iterator[int]:
        """The numbers of marks that are not the newest objects."""
        listed = self._listed()
        yield from (number for number, nbytes in listed.items() if number < max(listed) and not _is_manifest(nbytes))

    def _only_mark(self) -> Iterator[int]:
        """The number of the mark of a dropped set if nothing else is left of it."""
        listed = self._listed()
        yield from (number for number in listed if len(listed) == 1 and _last_mark(listed))

    def _remove_old(self, objects: Mapping[str, StoredObject], age: float) -> list[str]:
        """Remove objects that were written at least `age` seconds ago; returns their keys."""
        if not objects:
            return []
        now = self._store.now(self._data()) if age > 0 else float("inf")
        old = [key for key, found in objects.items() if found.time is not None and found.time + age <= now]
        self._store.remove(old)
        return old

    def verify(self, version: int) -> list[tuple[str, str]]:
        """The data files of a version that are not what was written, each with the reason; all of them are downloaded."""
        manifest = json.loads(self.read(version) or "")
        with tempfile.TemporaryDirectory(prefix="craton-verify-") as folder:

            def fault_of(file: Mapping[str, Any]) -> str | None:
                remote, path = self.remote(file), os.path.join(folder, file["name"])
                try:
                    self._store.download(remote.key, path)
                    return remote.fault_of(path)
                except FileNotFoundError:
                    return "it is missing"
                finally:
                    Path(path).unlink(missing_ok=True)

            found = for_each(fault_of, manifest["files"])
        return [(file["name"], why) for file, why in zip(manifest["files"], found, strict=True) if why is not None]


class UnknownOutcome(OSError):
    """A store did not say whether it has published a version."""


class ObjectWriter:
    """A writer of one version, with the interface of ``_native.SetWriter``.

    Files are written to a local folder, and uploaded by :meth:`publish`.
    """

    def __init__(self, folder: ObjectFolder) -> None:
        self._folder = folder
        self._name = f"{time.time_ns():016x}{secrets.token_hex(8)}"
        self._local = Path(tempfile.mkdtemp(prefix="craton-set-"))
        self._files: list[str] = []
        self._uploaded: list[str] = []

    def next_file(self, extension: str = "arrow") -> tuple[str, Path]:
        """The name of the next data file, and the local path to write it to."""
        self._files.append(f"{self._name}-{len(self._files)}.{extension}")
        return self._files[-1], self._local / self._files[-1]

    def publish(self, base: int, files: str, about: str) -> str:
        """Publish a version with these files, made from version ``base`` (0: none); returns its manifest.

        Raises
        ------
        SetConflict
            If there is a version after ``base``.
        UnknownOutcome
            If the connection failed so that it is not known whether the version is there.
        OSError
            If the store refuses the objects, or does not answer.
        """
        described = json.loads(files)
        own = {file["name"] for file in described} & set(self._files)
        for_each(self._upload, sorted(own))
        try:
            text = self._folder.publish(base, described, json.loads(about), own)
        except BaseException as error:
            if isinstance(error, UnknownOutcome) or not isinstance(error, Exception):
                self._uploaded = []  # the version may be there, and its files must stay
            raise
        self._uploaded = []
        return text

    def _upload(self, name: str) -> None:
        self._uploaded.append(name)
        self._folder.upload(self._local / name, name)
        (self._local / name).unlink()

    def close(self) -> None:
        """Give up: remove the local files, and the objects that were not published."""
        shutil.rmtree(self._local, ignore_errors=True)
        with contextlib.suppress(OSError):  # `repair` removes them
            self._folder.forget(self._uploaded)
        self._uploaded = []


def _living(listed: Mapping[int, int]) -> list[int]:
    """The numbers of versions, ascending, given the lengths of manifests and marks; none if the set was dropped."""
    mark = _last_mark(listed)
    return sorted(number for number, nbytes in listed.items() if number > mark and nbytes != _EXPIRED_BYTES)


def _last_mark(listed: Mapping[int, int]) -> int:
    """The number of the last mark of a dropped set; 0 if there is none."""
    return max((number for number, nbytes in listed.items() if nbytes == _DROPPED_BYTES), default=0)


def _is_manifest(nbytes: int) -> bool:
    return nbytes not in (_EXPIRED_BYTES, _DROPPED_BYTES)


def _is_dropped(content: bytes) -> bool:
    return len(content) == _DROPPED_BYTES and content.startswith(_DROPPED[:8])
