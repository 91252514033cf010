"""Durable sets by name: the folders below ``craton.options.data``, and their versions.

A set has a name, and is in a database: ``"lines"`` is the set ``lines`` of the database ``default``, ``"shop.orders"`` the set ``orders``
of ``shop``. Its folder is ``DATA/DATABASE/NAME``; ``crates/store/src/durable`` says what is in it, and
:mod:`craton.store.object_folder` what is in it in an object store.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from craton import _native
from craton.config import options
from craton.store.downloads import RemoteFiles
from craton.store.durable_files import SetPartitioning, WrittenFile, put_in_place, sync
from craton.store.object_folder import SAFETY_AGE, ObjectFolder
from craton.store.object_store import ObjectStore
from craton.store.places import (
    MovedFolders,
    Places,
    below,
    forget_manifests,
    kept_manifests,
    link_targets,
    move_links,
    placed_files,
    remove_linked,
)

__all__ = ["DurableSet", "NextPath", "Version", "every_set", "remove_dropped", "restore"]

#: Returns the path of the next file; its argument is the number of the place of the file, or None for the set's own folder.
NextPath = Callable[[int | None], str]

_T = TypeVar("_T")

_NAME = re.compile(r"(?:([A-Za-z_][A-Za-z0-9_-]*)\.)?([A-Za-z_][A-Za-z0-9_-]*)")
_DATABASE = "default"
_MOST_NAME = 200
#: The folders of sets that are being dropped, and of those that are being restored, begin with these.
_DROPPED, _RESTORED = ".dropped-", ".restored-"


@dataclass(frozen=True)
class Version:
    """One version of a set.

    Parameters
    ----------
    number
        Its number, from 1.
    time
        When it was made, in milliseconds since 1970.
    files
        The files, in the order of their rows: ``name``, ``rows``, ``bytes``, ``checksum``, and ``about`` with their pages.
    about
        What the writer knew of it: ``columns``, with their dtypes, ``default_index``, ``range_index`` (whether the row labels were a
        RangeIndex), ``schemas``, ``format``, ``organisations``, ``places``.
    """

    number: int
    time: int
    files: tuple[dict[str, Any], ...]
    about: dict[str, Any]

    @classmethod
    def of(cls, manifest: str) -> Version:
        """The version that a manifest describes."""
        found = json.loads(manifest)
        return cls(found["version"], found["time"], tuple(found["files"]), found.get("about", {}))

    @property
    def organisations(self) -> tuple[SetPartitioning, ...]:
        """How the rows are distributed over files, once for each replica; empty if they are in order, in one or more files."""
        return tuple(map(SetPartitioning.of, self.about.get("organisations", ())))

    @property
    def places(self) -> Places | None:
        """The places of the files, as the manifest says; None if they are in the set's own folder."""
        return Places.of(self.about)

    def files_of(self, number: int) -> tuple[dict[str, Any], ...]:
        """The files of one organisation, which have all rows; or those of colliding rows (:data:`craton.store.places.COLLIDING`)."""
        return tuple(file for file in self.files if file["about"].get("of", 0) == number)

    @property
    def rows(self) -> int:
        """The number of rows."""
        return sum(file["rows"] for file in self.files_of(0))

    @property
    def nbytes(self) -> int:
        """The bytes of its files."""
        return sum(file["bytes"] for file in self.files)


class DurableSet:
    """A durable set, whether or not it exists yet.

    Parameters
    ----------
    name
        Its name, or ``database.name``.

    Raises
    ------
    ValueError
        If the name has other characters than letters, digits, ``_`` and ``-``.
    """

    def __init__(self, name: str) -> None:
        given: object = name
        found = _NAME.fullmatch(given) if isinstance(given, str) and len(given) <= _MOST_NAME else None
        if found is None:
            raise ValueError(f"a set is named by letters, digits, _ and -, as in 'lines' or 'shop.lines', not {name!r}")
        self.database, self.name = found[1] or _DATABASE, found[2]
        self._folder: _native.SetFolder | ObjectFolder
        if _is_remote():
            self._folder = ObjectFolder(_object_store(), f"{self.database}/{self.name}")
        else:
            self._folder = _native.SetFolder(os.path.join(options.data, self.database, self.name))

    def __repr__(self) -> str:
        return f"<DurableSet {self.database}.{self.name}>"

    def version(self, number: int | None = None) -> Version:
        """A version, by default the newest.

        Raises
        ------
        FileNotFoundError
            If there is no such set or version.
        """
        manifest = self._folder.read(number)
        if manifest is None:
            raise FileNotFoundError(f"no set {self.database}.{self.name} in {options.data}")
        return Version.of(manifest)

    def current(self) -> Version | None:
        """The newest version; None if there is no set."""
        manifest = self._folder.read()
        return None if manifest is None else Version.of(manifest)

    def versions(self) -> list[int]:
        """The numbers of the versions, ascending."""
        return self._folder.versions()

    def path(self, file: Mapping[str, Any]) -> str:
        """The path of a data file, or its URL."""
        return str(self._folder.data(file["name"]))

    def local_path(self, file: Mapping[str, Any]) -> str:
        """The path of a data file on this machine, or of a copy of it, which is downloaded if there is none.

        Raises
        ------
        OSError
            If it cannot be downloaded.
        """
        return self._folder.remote(file).local_copy() if isinstance(self._folder, ObjectFolder) else self.path(file)

    def remote(self, files: Iterable[Mapping[str, Any]]) -> RemoteFiles | None:
        """Data files in an object store; None if the set is in a local folder."""
        return RemoteFiles(tuple(map(self._folder.remote, files))) if isinstance(self._folder, ObjectFolder) else None

    def lost(self, files: Iterable[Mapping[str, Any]]) -> set[str]:
        """The names of data files that are missing or have another length; :meth:`verify` reads them."""
        if isinstance(self._folder, ObjectFolder):
            there = self._folder.lengths()
            return {file["name"] for file in files if there.get(file["name"]) != file["bytes"]}
        return {file["name"] for file in files if _length(self.path(file)) != file["bytes"]}

    def has(self, file: Mapping[str, Any]) -> bool:
        """Whether a data file is there and has its length."""
        return not self.lost([file])

    def replace(self, file: Mapping[str, Any], path: str) -> None:
        """Write a data file again, from a local file that is moved if possible."""
        if isinstance(self._folder, ObjectFolder):
            self._folder.upload(path, file["name"])
        else:
            put_in_place(path, self.path(file))

    def places(self, version: Version) -> Places | None:
        """The places of a version's files, as they are now; None in an object store."""
        places = None if isinstance(self._folder, ObjectFolder) else version.places
        return None if places is None else places.moved(MovedFolders(self._folder.path).read())

    @property
    def _data(self) -> Path:
        """The folder of the data files."""
        return Path(self._folder.data("any")).parent

    def publish(
        self,
        write: Callable[[NextPath], Iterable[WrittenFile]],
        about: dict[str, Any],
        base: Version | None,
        kept: tuple[dict[str, Any], ...] = (),
        extension: str = "arrow",
        places: Places | None = None,
    ) -> Version:
        """Write files, and publish a version of them and other files.

        Parameters
        ----------
        write
            Writes the files one by one; its argument returns the path of the next one, in a place.
        about
            What is known of the version.
        base
            The version that the new one is made from; None if there is none.
        kept
            The files before the new ones.
        extension
            The extension of the new files.
        places
            Where files with the number of a place are.

        Raises
        ------
        SetConflict
            If another writer has published a version after ``base``.
        OSError
            If the files cannot be written. If an object store does not say whether it has published the version,
            :class:`craton.store.UnknownOutcome`.
        """
        writer = self._folder.writer()
        linked: list[str] = []

        def next_path(place: int | None) -> str:
            path = str(writer.next_file(extension)[1])
            if places is not None and place is not None:
                places.link(place, path)
                linked.append(path)
            return path

        try:
            files = [*kept, *(file.as_json() for file in write(next_path))]
            if places is not None:
                places.sync()
            number = 0 if base is None else base.number
            version = Version.of(writer.publish(number, json.dumps(files), json.dumps(about)))
            if places is not None:
                places.keep_manifest(self._manifest(version.number))
            return version
        finally:
            targets = [os.readlink(path) for path in linked]
            writer.close()
            remove_linked(target for path, target in zip(linked, targets, strict=True) if not os.path.islink(path))

    def _manifest(self, number: int) -> str:
        """The path of a manifest."""
        return os.path.join(self._folder.path, "versions", f"{number:020}")

    def with_file(self, extension: str, use: Callable[[str], _T]) -> _T:
        """Call a function with the path of a new file, which is removed afterwards if it is still there."""
        writer = self._folder.writer()
        try:
            return use(str(writer.next_file(extension)[1]))
        finally:
            writer.close()

    def drop(self) -> bool:
        """Drop the set with all of its versions; returns whether there was one. Programs that have opened its files can still read them."""
        if isinstance(self._folder, ObjectFolder):
            return self._folder.drop()
        folder = Path(self._folder.path)
        dropped = folder.with_name(f"{_DROPPED}{folder.name}-{os.urandom(8).hex()}")
        try:
            folder.rename(dropped)
        except FileNotFoundError:
            return False
        sync(folder.parent)
        with contextlib.suppress(OSError):  # what stays is removed by `remove_dropped`
            _remove_folder(dropped)
        return True

    def expire(self, numbers: list[int]) -> list[int]:
        """Drop versions, but never the newest; returns those that were dropped."""
        return self._folder.expire(numbers)

    def repair(self, age: float = SAFETY_AGE) -> list[str]:
        """Remove what writers that are gone have left, and data of dropped versions; returns the removed files.

        Parameters
        ----------
        age
            In object stores, files that were written in the last `age` seconds stay: there is no lock that shows that a writer is gone.
        """
        if isinstance(self._folder, ObjectFolder):
            return self._folder.repair(age)
        links = link_targets(self._data)
        removed = list(map(str, self._folder.repair()))
        remove_linked(links[path] for path in removed if path in links)
        forget_manifests(links.values(), [f"{number:020}" for number in self.versions()])
        return removed

    def move_place(self, old: str, new: str) -> int:
        """Let all files of a place be in another one, where they have been moved, or are rebuilt; returns their number.

        Raises
        ------
        ValueError
            If the set is in an object store.
        """
        if isinstance(self._folder, ObjectFolder):
            raise ValueError(f"{self!r} is in an object store, and has no places")
        folders = {
            folder: now
            for number in self.versions()
            if (places := self.places(self.version(number))) is not None
            for folder in places.folders
            if (now := below(folder, old, new)) is not None
        }
        if folders:
            MovedFolders(self._folder.path).add(folders)
        return move_links(self._data, old, new)

    def files_in_places(self) -> dict[str, dict[str, int]]:
        """The folders in places that have files of the set's versions, each with the names and the lengths of its files.

        The places are not touched. There are none in an object store.
        """
        if isinstance(self._folder, ObjectFolder):
            return {}
        links = link_targets(self._data)
        found: dict[str, dict[str, int]] = {}
        for number in self.versions():
            for file in self.version(number).files:
                if (target := links.get(self.path(file))) is not None:
                    folder, name = os.path.split(target)
                    found.setdefault(folder, {})[name] = file["bytes"]
        return found

    def verify(self, number: int) -> dict[str, str]:
        """The data files of a version that are not what was written, with the reason."""
        return dict(self._folder.verify(number))


def every_set() -> Iterator[DurableSet]:
    """All sets below ``craton.options.data``, by name."""
    if _is_remote():
        yield from (durable for durable in _named_folders() if durable.versions())
        return
    root = Path(options.data)
    for database in sorted(root.iterdir()) if root.is_dir() else ():
        for folder in sorted(database.iterdir()) if database.is_dir() else ():
            name = f"{database.name}.{folder.name}"
            if _NAME.fullmatch(name) and (folder / "versions").is_dir() and (durable := DurableSet(name)).versions():
                yield durable


def _is_remote() -> bool:
    return "://" in options.data


def _object_store() -> ObjectStore:
    """The object store below ``craton.options.data``, which is a URL."""
    return ObjectStore(options.data, options.data_options)


def _named_folders() -> Iterator[DurableSet]:
    """The folders below ``craton.options.data`` in an object store that have names of sets, which may have been dropped."""
    store = _object_store()
    for database in store.folders():
        for name in store.folders(database) if _NAME.fullmatch(database) else ():
            if _NAME.fullmatch(f"{database}.{name}"):
                yield DurableSet(f"{database}.{name}")


def _length(path: str) -> int | None:
    """The length of a file; None if it is not there."""
    try:
        return os.stat(path).st_size
    except OSError:
        return None


def remove_dropped(age: float = SAFETY_AGE) -> list[str]:
    """Remove the folders of sets whose dropping was interrupted; returns them, or in an object store their files.

    Parameters
    ----------
    age
        As for :meth:`DurableSet.repair`.
    """
    if _is_remote():
        return [path for durable in _named_folders() if not durable.versions() for path in durable.repair(age)]
    found = list(Path(options.data).glob(f"*/{_DROPPED}*"))
    for path in found:
        _remove_folder(path)
    return list(map(str, found))


def _remove_folder(folder: Path) -> None:
    """Remove the folder of a set, and its files in other places."""
    remove_linked(link_targets(folder / "data").values(), whole=True)
    shutil.rmtree(folder)


def restore(roots: Iterable[str]) -> list[str]:
    """Make the folders of sets again below ``craton.options.data``, from the manifests that places have; returns the sets' names.

    Sets that are there stay as they are. Files that are in no place are rebuilt by ``craton store repair``.

    Raises
    ------
    ValueError
        If ``craton.options.data`` is a URL.
    """
    if _is_remote():
        raise ValueError(f"sets in an object store have no places, and craton.options.data is {options.data}")
    made, roots = [], list(roots)
    for (database, name), (kept, manifests) in kept_manifests(roots).items():
        folder = Path(options.data, database, name)
        if (folder / "versions").is_dir():
            continue
        for unfinished in folder.parent.glob(f"{_RESTORED}{name}-*"):
            shutil.rmtree(unfinished)  # its links; what they name stays
        fresh = folder.with_name(f"{_RESTORED}{name}-{os.urandom(8).hex()}")
        for part in ("data", "versions", "writers"):
            (fresh / part).mkdir(parents=True)
        for manifest in manifests:
            copied = shutil.copyfile(Path(kept, manifest), fresh / "versions" / manifest)
            found = _native.SetFolder(str(fresh)).read(int(manifest)) or ""
            for file, target in placed_files(found, roots):
                with contextlib.suppress(FileExistsError):  # an earlier version has it, too
                    os.symlink(target, fresh / "data" / file)
            sync(copied)
        for part in ("data", "versions", "."):
            sync(fresh / part)
        MovedFolders(fresh).add(_moved_folders(Version.of(found), fresh))
        fresh.rename(folder)
        sync(folder.parent)
        made.append(f"{database}.{name}")
    return made


def _moved_folders(version: Version, folder: Path) -> dict[str, str]:
    """The folders of a version's places in which its files are not any more, with those in which they are, as the links say."""
    places, targets = version.places, link_targets(folder / "data").values()
    if places is None:
        return {}
    now = {os.path.basename(target): os.path.dirname(target) for target in targets}
    placed = [file for file in version.files if "place" in file["about"]]
    moved = {places.folders[file["about"]["place"]]: now[file["name"]] for file in placed}
    return {old: new for old, new in moved.items() if old != new}
