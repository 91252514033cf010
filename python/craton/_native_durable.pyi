"""Types of durable sets in ``craton._native``. Descriptions of files and of versions are JSON texts."""

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

class SetConflict(RuntimeError):
    """Another writer has changed a durable set meanwhile."""

class CorruptSet(OSError):
    """A file of a durable set is not what was written."""

class SetFolder:
    """The folder of a durable set, whether or not there is one."""

    def __init__(self, path: str | PathLike[str]) -> None: ...
    @property
    def path(self) -> Path:
        """The folder."""

    def data(self, name: str) -> Path:
        """The path of a data file."""
    def versions(self) -> list[int]:
        """The numbers of the versions, ascending; none if there is no set."""
    def read(self, version: int | None = None) -> str | None:
        """A version's manifest, by default the newest; None if there is no set.

        Raises
        ------
        FileNotFoundError
            If there is no such version.
        CorruptSet
            If the manifest is damaged.
        ValueError
            If a newer version of Craton wrote it.
        """
    def writer(self) -> SetWriter:
        """A writer of the next version. The folder, and those that it is in, are made if needed."""
    def expire(self, versions: Sequence[int]) -> list[int]:
        """Drop versions, but never the newest; returns those that were dropped."""
    def repair(self) -> list[Path]:
        """Remove what writers that are gone have left, and data of dropped versions; returns the removed files."""
    def verify(self, version: int) -> list[tuple[str, str]]:
        """The data files of a version that are not what was written, each with the reason."""

class SetWriter:
    """A writer of one version."""

    def next_file(self, extension: str = "arrow") -> tuple[str, Path]:
        """The name of the next data file, and the path to write it to."""
    def publish(self, base: int, files: str, about: str) -> str:
        """Publish a version with these files, made from version ``base`` (0: none); returns its manifest.

        Raises
        ------
        SetConflict
            If there is a version after ``base``.
        """
    def close(self) -> None:
        """Give up: remove the files that were not published."""

def checksum(data: Any, before: int = 0) -> int:
    """The CRC-32C of bytes that follow others, whose CRC-32C is ``before``. The bytes must not change meanwhile."""

def file_checksum(path: str | PathLike[str]) -> tuple[int, int]:
    """The length of a file in bytes, and the CRC-32C of its contents."""
