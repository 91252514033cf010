"""The part of ``craton store`` that is about durable sets: describe, repair, watch, vacuum; what ``ls`` and ``verify`` print of sets."""

from __future__ import annotations

import argparse
import datetime
import time
from collections.abc import Callable, Iterable, Sequence

from craton._native import CorruptSet
from craton.command import format_bytes, table_lines
from craton.config import options
from craton.store.durable import DurableSet, Version, every_set, remove_dropped, restore
from craton.store.object_folder import SAFETY_AGE
from craton.store.recovery import RebuiltFile
from craton.store.statistics import distinct_values
from craton.store.watching import PlaceCheck, PlaceWatcher, emit_check, rebuild_version, repair_places

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
    watch = command("watch", "check again and again whether the places of durable sets answer")
    watch.add_argument("names", nargs="*", metavar="NAME", help="default: all sets")
    watch.add_argument("--every", type=float, default=10.0, metavar="SECONDS", help="default: %(default)s")
    watch.add_argument(
        "--timeout",
        type=float,
        default=10.0,
        metavar="SECONDS",
        help="a place that does not answer for so long is lost",
    )
    watch.add_argument("--once", action="store_true", help="check once; the exit status is 1 if files are lost")
    watch.add_argument("--repair", action="store_true", help="rebuild what lost places had")
    watch.add_argument(
        "--to", action="append", default=[], metavar="FOLDER", help="a place that takes over the files of a lost one"
    )
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
    rows = [["column", "dtype", "missing", "least", "greatest", "distinct"]]
    for name, dtype in version.about["columns"]:
        rows.append([name, dtype, *_statistics(version, name)])
    print("\n".join(table_lines(rows, left=(0, 1), gap="  ")))
    return 0


def _statistics(version: Version, name: str) -> list[str]:
    """The missing values of a column, its bounds as they are stored (dates and durations are numbers), and about how many values it has."""
    files = version.files_of(0)
    count = distinct_values([file["about"] for file in files], name)
    distinct = "-" if count is None else f"~{round(count):,}"
    missing = sum(sum(file["about"]["nulls"].get(name, ())) for file in files)
    pairs = [pair for file in files for pair in file["about"]["bounds"].get(name, ())]
    known = [pair for pair in pairs if pair is not None]
    if not known:
        return [f"{missing:,}", "-", "-", distinct]
    return [f"{missing:,}", str(min(low for low, _ in known)), str(max(high for _, high in known)), distinct]


def repair(parsed: argparse.Namespace) -> int:
    """Rebuild damaged files from other replicas, and remove leftovers. What is done is printed when it is done."""
    failed: list[Exception] = []
    said, age = 0, _age(parsed)

    def say(lines: Iterable[str]) -> None:
        nonlocal said
        for line in lines:
            print(line, flush=True)
            said += 1

    say(f"removed {path}" for path in ([] if parsed.names else remove_dropped(age)))
    for durable in _chosen(parsed.names):
        for old, new in parsed.move:
            if moved := durable.move_place(old, new):
                say([f"moved {moved:,} files of {_name(durable)} to {new}"])
        say(f"removed {path}" for path in durable.repair(age))
        for number in durable.versions():
            if damaged := durable.verify(number):
                say([f"{_name(durable)}: {len(damaged):,} files of version {number} are rebuilt"])
                try:
                    rebuild_version(durable, number, damaged, lambda file: say([_rebuilt(file)]))
                except (CorruptSet, OSError) as error:  # what can be rebuilt of others is rebuilt all the same
                    failed.append(error)
    if failed:
        raise failed[0]
    if not said:
        print("nothing to repair", flush=True)
    return 0


def _rebuilt(file: RebuiltFile) -> str:
    return f"rebuilt {file.path}: {file.rows:,} rows, {file.seconds:.2f} s, {file.number:,} of {file.total:,}"


def watch(parsed: argparse.Namespace) -> int:
    """Check places, and print what has changed; repair them if asked to."""
    if parsed.every <= 0 or parsed.timeout <= 0:
        raise ValueError("--every and --timeout are more than 0 seconds")
    if parsed.to and not parsed.repair:
        raise ValueError("--to needs --repair")
    _chosen(parsed.names)
    watcher = PlaceWatcher(parsed.timeout)
    for place in parsed.to:
        watcher.check_new(place)
    known: dict[str, PlaceCheck] = {}
    while True:
        sets = list(_existing(parsed.names))
        checks = watcher.check(sets)
        _print_changes(known, checks)
        error: Exception | None = None
        if parsed.repair and any(check.has_lost_files for check in checks):
            error = _repair_lost(sets, checks, parsed.to)
            if parsed.once:
                checks = watcher.check(sets)
        lost = sum(check.has_lost_files for check in checks)
        if parsed.once:
            print(f"{len(checks) - lost:,} of {len(checks):,} places of {len(sets):,} sets have all files", flush=True)
            if error is not None:
                raise error
            return 1 if lost else 0
        if error is not None:
            print(f"not all files were rebuilt: {error}", flush=True)
        time.sleep(parsed.every)


def _print_changes(known: dict[str, PlaceCheck], checks: Iterable[PlaceCheck]) -> None:
    """Print the checks that differ from those before, which are known by the folders, and replace them."""
    before = dict(known)
    known.clear()
    for check in checks:
        known[check.folder] = check
        old = before.get(check.folder)
        if check.problem == (old.problem if old is not None else ""):
            continue
        if check.problem:
            print(
                f"{check.name}: {check.folder} ({check.files:,} files): {check.condition}: {check.problem}", flush=True
            )
        else:
            print(f"{check.name}: {check.folder} ({check.files:,} files): answers again", flush=True)
        emit_check(check)


def _repair_lost(sets: Iterable[DurableSet], checks: Sequence[PlaceCheck], new: Sequence[str]) -> Exception | None:
    """Rebuild the lost files of sets; returns the first error."""
    errors: list[Exception] = []
    for durable in sets:
        ours = [check for check in checks if check.name == _name(durable)]
        if any(check.has_lost_files for check in ours):
            try:
                repair_places(durable, ours, new, lambda file: print(_rebuilt(file), flush=True))
            except (CorruptSet, OSError) as error:
                errors.append(error)
    return errors[0] if errors else None


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


def _existing(names: Iterable[str]) -> Iterable[DurableSet]:
    """The chosen sets that have not been dropped meanwhile."""
    return [one for one in map(DurableSet, names) if one.versions()] if names else every_set()


def _name(durable: DurableSet) -> str:
    return f"{durable.database}.{durable.name}"


def _time(version: Version) -> str:
    moment = datetime.datetime.fromtimestamp(version.time / 1000, datetime.UTC)
    return moment.isoformat(sep=" ", timespec="seconds")
