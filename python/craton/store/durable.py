"""Durable sets by name: the folders below ``craton.options.data``, and their versions.

A set has a name, and is in a database: ``"lines"`` is the set ``lines`` of the database ``default``, ``"shop.orders"`` the set ``orders``
of ``shop``. Its folder is ``DATA/DATABASE/NAME``; ``crates/store/src/durable`` says what is in it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from craton import _native
from craton.config import options
from craton.store.durable_files import SetPartitioning, WrittenFile, sync

__all__ = ["DurableSet", "Version", "every_set", "remove_dropped"]

_T = TypeVar("_T")

_NAME = re.compile(r"(?:([A-Za-z_][A-Za-z0-9_-]*)\.)?([A-Za-z_][A-Za-z0-9_-]*)")
_DATABASE = "default"
_MOST_NAME = 200
#: The folders of sets that are being dropped begin with this.
_DROPPED = ".dropped-"


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
        What the writer knew of it: ``columns``, with their dtypes, ``default_index``, ``schemas``, ``format``, ``organisations``.
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

    def files_of(self, number: int) -> tuple[dict[str, Any], ...]:
        """The files of one organisation, which have all rows."""
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

    def path(self, file: dict[str, Any]) -> str:
        """The path of a data file."""
        return str(self._folder.data(file["name"]))

    def has(self, file: dict[str, Any]) -> bool:
        """Whether a data file is there and has its length; :meth:`verify` reads it."""
        try:
            return os.stat(self.path(file)).st_size == file["bytes"]
        except OSError:
            return False

    def publish(
        self,
        write: Callable[[Callable[[], str]], Iterable[WrittenFile]],
        about: dict[str, Any],
        base: Version | None,
        kept: tuple[dict[str, Any], ...] = (),
        extension: str = "arrow",
    ) -> Version:
        """Write files, and publish a version of them and other files.

        Parameters
        ----------
        write
            Writes the files one by one; its argument returns the path of the next one.
        about
            What is known of the version.
        base
            The version that the new one is made from; None if there is none.
        kept
            The files before the new ones.
        extension
            The extension of the new files.

        Raises
        ------
        SetConflict
            If another writer has published a version after ``base``.
        """
        writer = self._folder.writer()
        try:
            written = write(lambda: str(writer.next_file(extension)[1]))
            files = [*kept, *(file.as_json() for file in written)]
            number = 0 if base is None else base.number
            return Version.of(writer.publish(number, json.dumps(files), json.dumps(about)))
        finally:
            writer.close()

    def with_file(self, extension: str, use: Callable[[str], _T]) -> _T:
        """Call a function with the path of a new file, which is removed afterwards if it is still there."""
        writer = self._folder.writer()
        try:
            return use(str(writer.next_file(extension)[1]))
        finally:
            writer.close()

    def drop(self) -> bool:
        """Drop the set with all of its versions; returns whether there was one. Programs that have opened its files can still read them."""
        folder = Path(self._folder.path)
        dropped = folder.with_name(f"{_DROPPED}{folder.name}-{os.urandom(8).hex()}")
        try:
            folder.rename(dropped)
        except FileNotFoundError:
            return False
        sync(folder.parent)
        shutil.rmtree(dropped, ignore_errors=True)  # what stays is removed by `remove_dropped`
        return True

    def expire(self, numbers: list[int]) -> list[int]:
        """Drop versions, but never the newest; returns those that were dropped."""
        return self._folder.expire(numbers)

    def repair(self) -> list[str]:
        """Remove what writers that are gone have left, and data of dropped versions; returns the removed files."""
        return list(map(str, self._folder.repair()))

    def verify(self, number: int) -> dict[str, str]:
        """The data files of a version that are not what was written, with the reason."""
        return dict(self._folder.verify(number))


def every_set() -> Iterator[DurableSet]:
    """All sets below ``craton.options.data``, by name."""
    root = Path(options.data)
    for database in sorted(root.iterdir()) if root.is_dir() else ():
        for folder in sorted(database.iterdir()) if database.is_dir() else ():
            name = f"{database.name}.{folder.name}"
            if _NAME.fullmatch(name) and (folder / "versions").is_dir() and (durable := DurableSet(name)).versions():
                yield durable


def remove_dropped() -> list[str]:
    """Remove the folders of sets whose dropping was interrupted; returns them."""
    found = [str(path) for path in Path(options.data).glob(f"*/{_DROPPED}*")]
    for path in found:
        shutil.rmtree(path)
    return found
