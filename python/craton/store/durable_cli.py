"""The part of ``craton store`` that is about durable sets: describe, repair and vacuum, and what ``ls`` and ``verify`` print of them."""

from __future__ import annotations

import argparse
import datetime
import time
from collections.abc import Callable, Iterable

from craton._native import CorruptSet
from craton.command import format_bytes, table_lines
from craton.config import options
from craton.store.durable import DurableSet, Version, every_set, remove_dropped, restore
from craton.store.object_folder import SAFETY_AGE
from craton.store.recovery import rebuild

_DAY = 86_400_000  # milliseconds


def add_commands(command: Callable[[str, str], argparse.ArgumentParser]) -> None:
    """Add the commands to a parser."""
    describe = command("describe", "print the versions, columns and files of a durable set")
    describe.add_argument("name", metavar="NAME")
    describe.add_argument("--version", type=int, metavar="N", help="default: the newest")
    repair = command("repair", "rebuild damaged files of durable sets, and remove what killed writers have left")
    repair.add_argument("names", nargs="*", metavar="NAME", help="default: all sets")
    repair.add_argument(
        "--move",
        nargs=2,
        action="append",
        default=[],
        metavar=("OLD", "NEW"),
        help="a place, and the one that replaces it",
    )
    _add_age(repair)
    again = command("restore", "make the folders of durable sets again, from the places of their files")
    again.add_argument("places", nargs="*", metavar="FOLDER", help="default: the option data_places")
    vacuum = command("vacuum", "drop old versions of durable sets, and their files")
    vacuum.add_argument("names", nargs="*", metavar="NAME", help="default: all sets")
    vacuum.add_argument("--keep", type=int, default=1, metavar="N", help="versions to keep (default: %(default)s)")
    vacuum.add_argument("--days", type=float, default=0.0, metavar="N", help="keep younger versions, too")
    _add_age(vacuum)


def _add_age(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--age",
        type=float,
        default=SAFETY_AGE / 3600,
        metavar="HOURS",
        help="in object stores, keep younger files, which a writer may be about to publish (default: %(default)g)",
    )


def _age(parsed: argparse.Namespace) -> float:
    """The least age of files that no version names, in seconds."""
    if not parsed.age >= 0:
        raise ValueError(f"--age must be 0 or more, got {parsed.age}")
    return float(parsed.age) * 3600


def list_sets() -> list[str]:
    """A table of the durable sets; no lines if there are none."""
    rows = [["name", "version", "rows", "size", "files", "partitioned by"]]
    for durable in every_set():
        version = durable.version()
        how = [str(one) for one in version.organisations]
        cells = [f"{version.number:,}", f"{version.rows:,}", format_bytes(version.nbytes), f"{len(version.files):,}"]
        rows.append([_name(durable), *cells, "; ".join(how) or "-"])
    return table_lines(rows, left=(0, 5), gap="  ") if len(rows) > 1 else []


def describe(parsed: argparse.Namespace) -> int:
    """Print a durable set."""
    durable = DurableSet(parsed.name)
    version = durable.version(parsed.version)
    facts = {
        "name": _name(durable),
        "version": f"{version.number} of {', '.join(map(str, durable.versions()))}",
        "made": _time(version),
        "rows": f"{version.rows:,}",
        "size": f"{format_bytes(version.nbytes)} in {len(version.files):,} {version.about['format']} files",
        "partitioned by": "; ".join(map(str, version.organisations)) or "-",
    }
    print("\n".join(f"{name:<14}  {value}" for name, value in facts.items()))
    print()
    rows = [["column", "dtype", "missing", "least", "greatest"]]
    for name, dtype in version.about["columns"]:
        rows.append([name, dtype, *_statistics(version, name)])
    print("\n".join(table_lines(rows, left=(0, 1), gap="  ")))
    return 0


def _statistics(version: Version, name: str) -> list[str]:
    """The missing values of a column, and its bounds as they are stored: dates and durations are numbers."""
    files = version.files_of(0)
    missing = sum(sum(file["about"]["nulls"].get(name, ())) for file in files)
    pairs = [pair for file in files for pair in file["about"]["bounds"].get(name, ())]
    known = [pair for pair in pairs if pair is not None]
    if not known:
        return [f"{missing:,}", "-", "-"]
    return [f"{missing:,}", str(min(low for low, _ in known)), str(max(high for _, high in known))]


def repair(parsed: argparse.Namespace) -> int:
    """Rebuild damaged files from other replicas, and remove leftovers."""
    failed: list[Exception] = []
    age = _age(parsed)
    done = [f"removed {path}" for path in ([] if parsed.names else remove_dropped(age))]
    for durable in _chosen(parsed.names):
        for old, new in parsed.move:
            if moved := durable.move_place(old, new):
                done.append(f"moved {moved:,} files of {_name(durable)} to {new}")
        done += [f"removed {path}" for path in durable.repair(age)]
        for number in durable.versions():
            if damaged := durable.verify(number):
                print(f"{_name(durable)}: {len(damaged):,} files of version {number} are rebuilt", flush=True)
                try:
                    done += [f"rebuilt {path}" for path in rebuild(durable, durable.version(number), damaged)]
                except (CorruptSet, OSError) as error:  # what can be rebuilt of others is rebuilt all the same
                    failed.append(error)
    print("\n".join(done) if done or failed else "nothing to repair", flush=True)
    if failed:
        raise failed[0]
    return 0


def restored(parsed: argparse.Namespace) -> int:
    """Make the folders of sets again."""
    made = restore(parsed.places or options.data_places)
    print("\n".join(f"restored {name}" for name in made) if made else "nothing to restore")
    return 0


def vacuum(parsed: argparse.Namespace) -> int:
    """Drop versions and their files."""
    if parsed.keep < 1:
        raise ValueError(f"--keep must be at least 1, got {parsed.keep}")
    before, age = time.time() * 1000 - parsed.days * _DAY, _age(parsed)
    for durable in _chosen(parsed.names):
        old = [number for number in durable.versions()[: -parsed.keep] if durable.version(number).time <= before]
        dropped = durable.expire(old)
        removed = durable.repair(age)
        print(f"{_name(durable)}: {len(dropped):,} versions dropped, {len(removed):,} files removed")
    return 0


def verify(durable: DurableSet) -> bool:
    """Check the files of all versions of a set; print the result, and return whether they are sound."""
    checked: set[str] = set()
    damaged: dict[str, str] = {}
    for number in durable.versions():
        version = durable.version(number)
        if not {file["name"] for file in version.files} <= checked:
            damaged |= durable.verify(number)
            checked |= {file["name"] for file in version.files}
    for name, why in damaged.items():
        print(f"{_name(durable)}: {name}: {why}")
    if not damaged:
        print(f"{_name(durable)}: {len(checked):,} files sound", flush=True)
    return not damaged


def known(name: str) -> DurableSet | None:
    """The durable set of a name; None if there is none."""
    try:
        durable = DurableSet(name)
    except ValueError:
        return None
    return durable if durable.versions() else None


def _chosen(names: Iterable[str]) -> Iterable[DurableSet]:
    if not names:
        return every_set()
    chosen = [DurableSet(name) for name in names]
    for durable in chosen:
        durable.version()  # raises an error if there is none
    return chosen


def _name(durable: DurableSet) -> str:
    return f"{durable.database}.{durable.name}"


def _time(version: Version) -> str:
    moment = datetime.datetime.fromtimestamp(version.time / 1000, datetime.UTC)
    return moment.isoformat(sep=" ", timespec="seconds")
