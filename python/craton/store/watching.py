"""Checks whether the places of durable sets answer, and rebuilds what lost ones had.

A folder of another machine that does not answer any more makes every call that touches it wait. So places are looked at in threads of their
own, and a thread that hangs is left alone: no other one touches its place until it has ended.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal

from craton import events
from craton._native import CorruptSet
from craton.records import dataclass
from craton.store.durable import DurableSet
from craton.store.places import PROBE
from craton.store.recovery import RebuiltFile, missing_files, rebuild

__all__ = ["PlaceCheck", "PlaceWatcher", "rebuild_version", "repair_places"]

#: How often a version is rebuilt if files are lost while others are rebuilt.
_ROUNDS = 5

Condition = Literal["answers", "read-only", "incomplete", "missing", "lost", "hangs"]


@dataclass(frozen=True, slots=True)
class PlaceCheck:
    """What a check of a set's folder in a place has found.

    Parameters
    ----------
    name
        The set.
    folder
        The set's folder in the place.
    files
        The number of files that it should have.
    condition
        ``answers``; ``read-only``: files can be read, and not written; ``incomplete``: some are missing or have another length;
        ``missing``: the folder is not there, but the place is; ``lost``: the place is not there, or cannot be read; ``hangs``: it has not
        answered in time.
    problem
        What is wrong, for people; empty if it answers.
    """

    name: str
    folder: str
    files: int
    condition: Condition
    problem: str

    @property
    def has_lost_files(self) -> bool:
        """Whether files are to be rebuilt."""
        return self.condition not in ("answers", "read-only")


_Found = tuple[Condition, str]
#: A folder and its files, by their names, with their lengths.
_Folder = tuple[str, Mapping[str, int]]


class PlaceWatcher:
    """Checks the places of sets, as often as it is asked to.

    Parameters
    ----------
    timeout
        After so many seconds without an answer a place counts as lost.
    """

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._hanging: dict[str, _Look] = {}

    def check(self, sets: Iterable[DurableSet]) -> list[PlaceCheck]:
        """Check the folders of sets, those of all places at the same time. Sets that are dropped meanwhile are left out."""
        folders: dict[str, tuple[str, Mapping[str, int]]] = {}
        for durable in sets:
            with contextlib.suppress(FileNotFoundError):
                folders |= {folder: (_name(durable), files) for folder, files in durable.files_in_places().items()}
        by_root: dict[str, list[_Folder]] = {}
        for folder, (_, files) in folders.items():
            by_root.setdefault(root_of(folder), []).append((folder, files))
        found = self._look_at(by_root)
        return [
            PlaceCheck(
                name, folder, len(files), *found.get(folder, ("hangs", f"it has not answered for {self._timeout:g} s"))
            )
            for folder, (name, files) in folders.items()
        ]

    def check_new(self, root: str) -> None:
        """Make sure that a folder answers that is to become a place.

        Raises
        ------
        OSError
            If it does not, or cannot be made or written to.
        """
        condition, problem = self._look_at({root: [(root, {})]}, make=True).get(root, ("hangs", "it does not answer"))
        if condition != "answers":
            raise OSError(f"{root}: {problem}")

    def _look_at(self, by_root: Mapping[str, Sequence[_Folder]], make: bool = False) -> dict[str, _Found]:
        self._hanging = {root: look for root, look in self._hanging.items() if look.is_alive()}
        looks = {root: _Look(folders, make) for root, folders in by_root.items() if root not in self._hanging}
        for look in looks.values():
            look.start()
        for root, look in looks.items():
            while look.is_alive() and (left := look.answered + self._timeout - time.monotonic()) > 0:
                look.join(left)
            if look.is_alive():
                self._hanging[root] = look
        return {folder: found for look in looks.values() for folder, found in list(look.found.items())}


class _Look(threading.Thread):
    """Looks at folders of one place, one after another. The process does not wait for it when it ends."""

    def __init__(self, folders: Sequence[_Folder], make: bool) -> None:
        super().__init__(name="craton-watch", daemon=True)
        self._folders, self._make = folders, make
        self.found: dict[str, _Found] = {}
        self.answered = time.monotonic()

    def run(self) -> None:
        for folder, files in self._folders:
            try:
                if self._make:
                    os.makedirs(folder, exist_ok=True)
                self.found[folder] = _look_at(folder, files)
            except OSError as error:
                self.found[folder] = "lost", _reason(error)
            self.answered = time.monotonic()


def _look_at(folder: str, files: Mapping[str, int]) -> _Found:
    """The condition of a folder that may hang."""
    if not os.path.isdir(root_of(folder)):
        return "lost", "the place is missing"
    try:
        os.listdir(folder)
    except FileNotFoundError:
        return "missing", "the folder is missing"
    lacking = [name for name, nbytes in files.items() if not _has(os.path.join(folder, name), nbytes)]
    if lacking:
        return "incomplete", f"{len(lacking):,} of {len(files):,} files are missing or have another length"
    try:
        _probe(folder)
    except OSError as error:
        return "read-only", f"it cannot be written to: {_reason(error)}"
    return "answers", ""


def _has(path: str, nbytes: int) -> bool:
    try:
        return os.stat(path).st_size == nbytes
    except FileNotFoundError:
        return False


def _probe(folder: str) -> None:
    """Write a small file, read it, and remove it."""
    path, content = os.path.join(folder, f"{PROBE}{secrets.token_hex(8)}"), os.urandom(64)
    try:
        with open(path, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        with open(path, "rb") as file:
            if file.read() != content:
                raise OSError("a file has other contents than were written")
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)


def _reason(error: OSError) -> str:
    return error.strerror or str(error)


def root_of(folder: str) -> str:
    """The place that a set's folder is in."""
    return os.path.dirname(os.path.dirname(folder))


def _name(durable: DurableSet) -> str:
    return f"{durable.database}.{durable.name}"


# ---- repairing ----


def rebuild_version(
    durable: DurableSet,
    number: int,
    damaged: Mapping[str, str],
    report: Callable[[RebuiltFile], None] | None = None,
    gone: Iterable[str] = (),
) -> None:
    """Rebuild files of a version, and those that are lost meanwhile.

    Parameters
    ----------
    damaged, report, gone
        As for :func:`craton.store.recovery.rebuild`.

    Raises
    ------
    CorruptSet, OSError
        If not all files can be rebuilt; those that can be are.
    """
    version, gone = durable.version(number), frozenset(gone)
    error: OSError | None = None
    for _ in range(_ROUNDS):
        failed = None
        try:
            rebuild(durable, version, damaged, report=report, gone=gone)
        except OSError as raised:  # CorruptSet is one, too
            failed = error = raised
        before, damaged = damaged, missing_files(durable, version, gone)
        if not damaged or (failed is not None and damaged.keys() >= before.keys()):
            break
    if error is not None and (damaged or durable.verify(number)):
        raise error


def repair_places(
    durable: DurableSet,
    checks: Iterable[PlaceCheck],
    new: Sequence[str] = (),
    report: Callable[[RebuiltFile], None] | None = None,
) -> None:
    """Rebuild what the places of a set had that were lost, as their checks say. Programs can read the set meanwhile.

    Parameters
    ----------
    checks
        The checks of the set's folders.
    new
        Places that take over the files of lost ones, one each. A place that has files of the set already takes over no others. Files of
        lost places that none takes over are rebuilt in the set's own folder.
    report
        Called with each file that was rebuilt.

    Raises
    ------
    CorruptSet, OSError
        If not all files can be rebuilt; those that can be are.
    """
    bad = {check.folder: check for check in checks if check.has_lost_files}
    gone = [folder for folder, check in bad.items() if check.condition in ("lost", "hangs")]
    used = {os.path.abspath(root_of(folder)) for folder in durable.files_in_places()}
    free = [root for root in map(os.path.abspath, new) if root not in used]
    for folder, root in zip(gone, free, strict=False):
        durable.move_place(root_of(folder), root)
    left = gone[len(free) :]
    errors: list[OSError] = []
    for number in durable.versions():
        try:
            if damaged := missing_files(durable, durable.version(number), left):
                rebuild_version(durable, number, damaged, report, left)
        except OSError as error:  # other versions are repaired all the same
            errors.append(error)
    if errors:
        raise next((error for error in errors if isinstance(error, CorruptSet)), errors[0])


def emit_check(check: PlaceCheck) -> None:
    """Tell subscribers that the condition of a place has changed."""
    if events.active:
        events.emit(
            "place",
            set=check.name,
            folder=check.folder,
            condition=check.condition,
            problem=check.problem,
            files=check.files,
        )
