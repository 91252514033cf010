"""Durable sets by name: the folders below ``craton.options.data``, and their versions.

A set has a name, and is in a database: ``"lines"`` is the set ``lines`` of the database ``default``, ``"shop.orders"`` the set ``orders``
of ``shop``. Its folder is ``DATA/DATABASE/NAME``; ``crates/store/src/durable`` says what is in it.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from craton import _native
from craton.config import options

__all__ = ["DurableSet", "Version", "every_set"]

_NAME = re.compile(r"(?:([A-Za-z_][A-Za-z0-9_-]*)\.)?([A-Za-z_][A-Za-z0-9_-]*)")
_DATABASE = "default"
_MOST_NAME = 200


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
        The files, in the order of their rows: ``name``, ``rows``, ``bytes``, ``checksum``.
    about
        What the writer knew of it: ``columns``, with their dtypes, and ``default_index``.
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
    def rows(self) -> int:
        """The number of rows."""
        return sum(file["rows"] for file in self.files)

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

    def publish(
        self,
        write: Callable[[str], int],
        about: dict[str, Any],
        base: Version | None,
        kept: tuple[dict[str, Any], ...] = (),
    ) -> Version:
        """Write one file, and publish a version of it and other files.

        Parameters
        ----------
        write
            Writes the file to a path; returns its number of rows.
        about
            What is known of the version.
        base
            The version that the new one is made from; None if there is none.
        kept
            The files before the new one.

        Raises
        ------
        SetConflict
            If another writer has published a version after ``base``.
        """
        writer = self._folder.writer()
        try:
            name, path = writer.next_file()
            rows = write(str(path))
            nbytes, checksum = _native.file_checksum(path)
            files = [*kept, {"name": name, "rows": rows, "bytes": nbytes, "checksum": checksum}]
            number = 0 if base is None else base.number
            return Version.of(writer.publish(number, json.dumps(files), json.dumps(about)))
        finally:
            writer.close()

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
