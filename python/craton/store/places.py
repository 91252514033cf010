"""Places of durable sets: folders on other disks or machines, over which the files of a set are spread.

The set's own folder has links to the files. Each place has a copy of the manifests, from which the set's folder can be made again.
Pangea's section on replicas calls rows *colliding* whose copies are all in one place; they are stored once more, in another one.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from craton import _native
from craton.config import options
from craton.records import dataclass
from craton.store.durable_files import (
    IN_ORDER,
    POSITION,
    Format,
    SetPartitioning,
    WrittenFile,
    numbered,
    sync,
    without_rows,
    write_partition,
)
from craton.store.shuffle import shuffle
from craton.store.store import Store

__all__ = [
    "COLLIDING",
    "PROBE",
    "Colliding",
    "MovedFolders",
    "Places",
    "below",
    "forget_manifests",
    "kept_manifests",
    "link_targets",
    "move_links",
    "part_numbers",
    "placed_files",
    "remove_linked",
]

#: The number of the organisation that colliding rows are in.
COLLIDING = -1
#: The names of files by which folders in places are probed begin with this; those that stay of a killed watcher count as nothing.
PROBE = ".probe-"

_File = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Places:
    """The places of a version.

    Parameters
    ----------
    folders
        The folder of the set in each place.
    losses
        How many places may be lost at the same time.
    """

    folders: tuple[str, ...]
    losses: int

    @classmethod
    def new(cls, database: str, name: str, losses: int) -> Places:
        """New folders in the places of ``craton.options.data_places``; they are made when they get a file.

        Raises
        ------
        ValueError
            If there are not more places than may be lost, or if the sets are in an object store.
        """
        if "://" in options.data:
            raise ValueError(
                f"losses= spreads files over folders, and sets are in an object store, {options.data}, which keeps copies by itself; "
                "use losses=0"
            )
        roots = [os.path.abspath(root) for root in options.data_places]
        if len({os.path.realpath(root) for root in roots}) != len(roots):
            raise ValueError(f"the option data_places names a folder twice: {roots}")
        if type(losses) is not int or losses < 1:
            raise ValueError(f"losses is a number of places, 0 or more, not {losses!r}")
        if len(roots) <= losses:
            raise ValueError(
                f"a set that survives the loss of {losses} places needs {losses + 1} or more, and the option "
                f"data_places has {len(roots)}"
            )
        folder = f"{name}-{secrets.token_hex(8)}"
        return cls(tuple(os.path.join(root, database, folder) for root in roots), losses)

    @classmethod
    def of(cls, about: Mapping[str, Any]) -> Places | None:
        """The places that a manifest names; None if the files are in the set's own folder."""
        found = about.get("places")
        return None if found is None else cls(tuple(found["folders"]), found["losses"])

    def as_json(self) -> dict[str, Any]:
        """What the manifest says."""
        return {"folders": list(self.folders), "losses": self.losses}

    def moved(self, folders: Mapping[str, str]) -> Places:
        """The same places, of which some are in other folders now."""
        return Places(tuple(folders.get(folder, folder) for folder in self.folders), self.losses)

    def place(self, organisation: int, part: int, organisations: int) -> int:
        """The place of a partition of an organisation. Organisations begin in different places."""
        count = len(self.folders)
        return (part + organisation * max(count // max(organisations, 1), 1)) % count

    def link(self, place: int, path: str) -> None:
        """Make a path in the set's folder a link to a file of this name in a place, where it can be written now."""
        try:
            os.makedirs(self.folders[place], exist_ok=True)
        except OSError as error:
            hint = "another place takes over its files with: python -m craton store repair NAME --move OLD NEW"
            raise type(error)(error.errno, f"{error.strerror}; {hint}", error.filename) from None
        os.symlink(os.path.join(self.folders[place], os.path.basename(path)), path)

    def sync(self) -> None:
        """Make the names of files and folders durable."""
        for folder in filter(os.path.isdir, self.folders):
            path = Path(folder)
            for each in (path, path.parent, path.parent.parent):
                with contextlib.suppress(PermissionError):
                    sync(each)

    def keep_manifest(self, path: str) -> None:
        """Store a copy of a manifest in each place that can be written to."""
        for folder in filter(os.path.isdir, self.folders):
            with contextlib.suppress(OSError):  # the place was lost meanwhile: the others have the copy
                target = os.path.join(folder, "versions", os.path.basename(path))
                os.makedirs(os.path.dirname(target), exist_ok=True)
                shutil.copyfile(path, f"{target}.new")
                sync(f"{target}.new")
                os.replace(f"{target}.new", target)
                sync(os.path.dirname(target))


class Colliding:
    """Finds the rows of which fewer copies in different places exist than may be lost, and the places for further copies.

    Parameters
    ----------
    places
        The places.
    organisations
        The organisations of the set.
    files
        Their files, as the manifest has them; they say which rows partitions of rows in order have.
    """

    def __init__(self, places: Places, organisations: Sequence[SetPartitioning], files: Sequence[_File]) -> None:
        self._places, self._organisations, self._files = places, organisations, files
        self._in_order: dict[int, tuple[Any, Any]] = {}
        for number, how in enumerate(organisations):
            if how.kind == "rows":
                starts = sorted(
                    (min(pair[0] for pair in pairs), file["about"]["part"])
                    for file in files
                    if file["about"].get("of", 0) == number
                    and (pairs := [pair for pair in file["about"]["bounds"].get(POSITION, ()) if pair is not None])
                )
                self._in_order[number] = (
                    np.array([start for start, _ in starts], np.int64),
                    np.array([part for _, part in starts], np.int64),
                )

    @property
    def count(self) -> int:
        """The number of places."""
        return len(self._places.folders)

    def of(self, table: pa.Table) -> Iterator[tuple[int, pa.Array]]:
        """The places for further copies, each with the numbers of the rows of a table that are to be stored there."""
        count = self.count
        copies = np.stack([self._place_of(number, table) for number in range(len(self._organisations))], axis=1)
        ordered = np.sort(copies, axis=1)
        distinct = 1 + (ordered[:, 1:] != ordered[:, :-1]).sum(axis=1)
        rows = np.flatnonzero(distinct <= self._places.losses)
        copies, needed = copies[rows], self._places.losses + 1 - distinct[rows]
        for step in range(1, count):
            place = (copies[:, 0] + step) % count
            chosen = (needed > 0) & (copies != place[:, None]).all(axis=1)
            needed = needed - chosen
            for target in np.unique(place[chosen]):
                yield int(target), pa.array(rows[chosen & (place == target)])

    def further_places(self) -> list[int]:
        """The places for further copies of a set without rows."""
        taken = [file["about"]["place"] for file in self._files if "place" in file["about"]]
        count = self._places.losses + 1 - len(set(taken))
        return [place for place in range(self.count) if place not in taken][: max(count, 0)]

    def _place_of(self, number: int, table: pa.Table) -> Any:
        """The place of each row in an organisation."""
        how = self._organisations[number]
        if how.kind == "rows":
            starts, parts = self._in_order[number]
            positions = table[POSITION].to_numpy()
            found = parts[np.searchsorted(starts, positions, "right") - 1] if len(starts) else np.zeros(len(table), int)
        else:
            found = part_numbers(table, how)
        places = np.array([self._places.place(number, part, len(self._organisations)) for part in range(how.parts)])
        return places[found]


def part_numbers(table: pa.Table, how: SetPartitioning) -> np.ndarray[Any, Any] | None:
    """The number of the partition of each row; None if the partitions are of rows in order."""
    if how.kind == "rows":
        return None
    by = list(how.by)
    if how.kind == "hash":
        hashes = pa.array(_native.hash_rows(table.select(by), by)).to_numpy(zero_copy_only=False)
        # The hash times the number of partitions, divided by 2**64: in halves of the hash, so that no product overflows.
        parts, half = np.uint64(how.parts), np.uint64(32)
        low = (hashes & np.uint64(0xFFFFFFFF)) * parts >> half
        return (((hashes >> half) * parts + low) >> half).astype(np.int64)
    assert how.keys is not None
    keys = table.select(by).append_column("row", pa.array(np.arange(len(table), dtype=np.uint32)))
    found = np.zeros(len(table), np.int64)
    for part, rows in enumerate(_native.partition_by_ranges(keys, by, how.keys.combine_chunks())):
        found[pa.table(rows)["row"].to_numpy()] = part
    return found


def write_colliding(
    store: Store,
    batches: Iterable[pa.RecordBatch],
    schema: pa.Schema,
    colliding: Colliding,
    next_path: Callable[[int], str],
    first: int,
    form: Format,
) -> Iterator[WrittenFile]:
    """Write the colliding rows once more, as one file for each place that gets some; the parameters are those of `write_partitions`."""
    target = POSITION + "place"
    while target in schema.names:
        target += "_"
    count = colliding.count

    nothing: list[pa.Table] = []

    def chosen() -> Iterator[pa.Table]:
        for batch in numbered(batches, schema, first):
            table = pa.Table.from_batches([batch])
            nothing[:] = [] if batch.num_rows else [without_rows(batch)]
            for place, rows in colliding.of(table):
                yield table.take(rows).append_column(target, pa.array(np.full(len(rows), place)))

    rows = chosen()
    beginning = next(rows, None)
    if beginning is None:
        if first == 0 and nothing:  # the set has columns, and no rows
            for place in colliding.further_places():
                yield write_partition(nothing[0], schema, IN_ORDER, place, next_path(place), form, "pages")
        return
    bounds = pa.table({target: pa.array(range(1, count))})
    sets = shuffle(store, itertools.chain([beginning], rows), [target], count, kind="range", boundaries=bounds)
    for place, part in enumerate(sets):
        if len(part):
            table = part.to_arrow().select(schema.names).cast(schema)
            yield write_partition(table, schema, IN_ORDER, place, next_path(place), form, "pages")


# ---- links ----


def link_targets(folder: str | os.PathLike[str]) -> dict[str, str]:
    """The links in a folder, by their paths, and the files that they name."""
    found: dict[str, str] = {}
    with contextlib.suppress(FileNotFoundError), os.scandir(folder) as entries:
        found = {entry.path: os.readlink(entry.path) for entry in entries if entry.is_symlink()}
    return found


def remove_linked(targets: Iterable[str], whole: bool = False) -> None:
    """Remove files that links named, or the whole folders of the set that they are in; what cannot be reached stays."""
    targets = list(targets)
    folders = {os.path.dirname(target) for target in targets}
    if not whole:
        for target in targets:
            with contextlib.suppress(OSError):
                os.unlink(target)
    for folder in folders:
        if whole or not any(name != "versions" and not name.startswith(PROBE) for name in _names(folder)):
            shutil.rmtree(folder, ignore_errors=True)


def _names(folder: str) -> list[str]:
    with contextlib.suppress(OSError):
        return os.listdir(folder)
    return []


def below(path: str, old: str, new: str) -> str | None:
    """A path below one folder as one below another folder; None if it is not below it."""
    before = os.path.join(os.path.abspath(old), "")
    return os.path.join(os.path.abspath(new), path[len(before) :]) if path.startswith(before) else None


def move_links(folder: str | os.PathLike[str], old: str, new: str) -> int:
    """Let the links to files below one place name files below another one; returns how many there were."""
    moved = 0
    for path, target in link_targets(folder).items():
        if (now := below(target, old, new)) is not None:
            fresh = f"{path}.moved"
            with contextlib.suppress(FileNotFoundError):
                os.unlink(fresh)
            os.symlink(now, fresh)
            os.replace(fresh, path)
            moved += 1
    if moved:
        sync(folder)
    return moved


class MovedFolders:
    """The folders of a set that are in other places now: a file in the set's folder.

    Parameters
    ----------
    folder
        The set's folder.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._path = os.path.join(folder, "places.json")

    def read(self) -> dict[str, str]:
        """The new folders by the old ones."""
        try:
            with open(self._path, encoding="utf-8") as file:
                return dict(json.load(file))
        except FileNotFoundError:
            return {}

    def add(self, more: Mapping[str, str]) -> None:
        """Add folders; what was moved to one of them before is in the new one, too."""
        known = {old: more.get(new, new) for old, new in self.read().items()} | dict(more)
        fresh = f"{self._path}.new"
        with open(fresh, "w", encoding="utf-8") as file:
            json.dump(known, file)
        sync(fresh)
        os.replace(fresh, self._path)
        sync(os.path.dirname(self._path))


def kept_manifests(roots: Iterable[str]) -> dict[tuple[str, str], tuple[str, list[str]]]:
    """The sets of which places have manifests: for each database and name, the folder of the newest, and the names of its manifests."""
    found: dict[tuple[str, str], tuple[int, str, list[str]]] = {}
    for folder in sorted(path for root in roots for path in Path(root).glob("*/*-*/versions")):
        names = sorted(name for name in _names(str(folder)) if not name.endswith(".new"))
        key = folder.parent.parent.name, folder.parent.name.rpartition("-")[0]
        times = [(folder / name).stat().st_mtime_ns for name in names]
        if names and max(times) > found.get(key, (0,))[0]:
            found[key] = max(times), str(folder), names
    return {key: (folder, names) for key, (_, folder, names) in found.items()}


def forget_manifests(targets: Iterable[str], names: Sequence[str]) -> None:
    """Remove the manifests of dropped versions from the folders of files; those after the last of some names are new."""
    for folder in {os.path.join(os.path.dirname(target), "versions") for target in targets}:
        for name in _names(folder):
            if names and name < names[-1] and name not in names:
                with contextlib.suppress(OSError):
                    os.unlink(os.path.join(folder, name))


def placed_files(text: str, roots: Iterable[str]) -> list[tuple[str, str]]:
    """The names of the files of a manifest, each with its path in one of some places, or else where the manifest says."""
    version = json.loads(text)
    folders = version["about"]["places"]["folders"]
    database, name = (os.path.basename(part) for part in (os.path.dirname(folders[0]), folders[0]))
    now = [os.path.join(root, database, name) for root in roots]
    return [
        (
            file["name"],
            next(
                filter(os.path.exists, (os.path.join(folder, file["name"]) for folder in now)),
                os.path.join(folders[file["about"]["place"]], file["name"]),
            ),
        )
        for file in version["files"]
        if "place" in file["about"]
    ]
