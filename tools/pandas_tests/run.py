"""Runs pandas' own test suite, with pandas itself or with Craton in its place.

Modes: ``baseline`` is pandas; ``default`` is Craton with default options; ``planned`` is Craton with the
small-data path switched off, so that every frame of a test goes through a plan. The score of a mode is
the share of the baseline's passing tests that pass in it, too.

::

    python tools/pandas_tests/run.py                                 # all modes, and write docs/pandas-tests.md
    python tools/pandas_tests/run.py --mode planned frame series     # one mode, some groups
    python tools/pandas_tests/run.py --mode planned --failures frame # and list the failures, grouped by message
    python tools/pandas_tests/run.py --sample 4 io window            # at most four tests of each test function
    python tools/pandas_tests/run.py --fast                          # the selection that continuous integration runs

The results of each test file are stored (see `results`), and a file is skipped while its result is up to date.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import report
from batch import Limits, run_batch
from known import Known
from results import (
    FAILURES,
    GROUPS,
    MODES,
    FileResult,
    files_of,
    group_of,
    key_of,
    load,
    pandas_directory,
    save,
    store_sample,
)

HERE = Path(__file__).parent
FAST_FILES = HERE / "fast.txt"


def main() -> int:
    """Parse the command line, run test files without an up-to-date result, and report; non-zero if --fast finds new failures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("groups", nargs="*", help="folders or files below pandas/tests; default: all of them")
    parser.add_argument(
        "--mode",
        choices=(*MODES, "all"),
        default="all",
        help="all: one mode after another, and write the page (default)",
    )
    parser.add_argument("--jobs", "-n", type=int, default=2, help="number of processes (default 2)")
    parser.add_argument("--fresh", action="store_true", help="run also files whose result is up to date")
    parser.add_argument("--failed", action="store_true", help="run only files with failures")
    parser.add_argument("--failures", action="store_true", help="list the failures that the baseline does not have")
    parser.add_argument("--timeout", type=float, default=60.0, help="seconds for one test")
    parser.add_argument("--memory", type=float, default=3.0, help="GiB for one process")
    parser.add_argument("--sample", type=int, default=0, metavar="N", help="run at most N tests of each test function")
    parser.add_argument(
        "--fast",
        action="store_true",
        help="run the selection in fast.txt, planned, and compare with the known failures",
    )
    parser.add_argument("--update-known", action="store_true", help="with --fast: rewrite the lists of known results")
    arguments = parser.parse_args()

    if arguments.fast:
        results = run("planned", _lines(FAST_FILES), arguments)
        return compare_with_known(results, update=arguments.update_known)
    if arguments.sample:
        store_sample(arguments.sample)
    files = [file for group in arguments.groups or GROUPS for file in files_of(group)]
    for mode in MODES if arguments.mode == "all" else (arguments.mode,):
        results = run(mode, files, arguments)
        summarise(mode, results)
        if arguments.failures:
            list_failures(results)
    if arguments.mode == "all" and not arguments.sample:
        report.write()
    return 0


def run(mode: str, files: list[str], arguments: argparse.Namespace) -> list[FileResult]:
    """The results of `files`; files without an up-to-date result are run."""
    kept = {file: load(mode, file) for file in files}
    stale = [file for file in files if arguments.fresh or _is_stale(kept[file], mode, only_failed=arguments.failed)]
    limits = Limits(arguments.timeout, int(arguments.memory * (1 << 30)), arguments.sample)
    batches = _batches(stale, arguments.jobs, kept)
    print(f"{mode}: {len(files)} files, {len(files) - len(stale)} kept, {len(stale)} to run in {len(batches)} batches")
    started = time.perf_counter()
    with ThreadPoolExecutor(arguments.jobs) as pool:
        pending = [pool.submit(run_batch, mode, batch, limits) for batch in batches]
        try:
            for number, future in enumerate(as_completed(pending), 1):
                for result in future.result():
                    save(mode, result)
                    kept[result.file] = result
                _progress(number, len(batches), future.result(), time.perf_counter() - started)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return [result for file in files if (result := kept[file]) is not None]


def _is_stale(result: FileResult | None, mode: str, *, only_failed: bool) -> bool:
    if result is None or result.key != key_of(mode):
        return not only_failed or result is None or _has_failures(result)
    return only_failed and _has_failures(result)


def _has_failures(result: FileResult) -> bool:
    return any(test.outcome in FAILURES for test in result.tests.values())


def _batches(files: list[str], jobs: int, kept: dict[str, FileResult | None]) -> list[list[str]]:
    """Divide the files into batches that share a process, of about 40 seconds each by earlier times, the longest files first."""
    base = pandas_directory()

    def weight(file: str) -> float:
        result = kept[file] or load("baseline", file)
        return 0.2 + (result.seconds if result else (base / file).stat().st_size / 8000)

    target = min(40.0, sum(map(weight, files)) / max(jobs, 1) / 2)
    batches: list[tuple[float, list[str]]] = []
    for file in sorted(files, key=weight, reverse=True):
        if not batches or batches[-1][0] + weight(file) > target:
            batches.append((0.0, []))
        total, members = batches[-1]
        batches[-1] = (total + weight(file), [*members, file])
    return [sorted(members) for _, members in batches]


def _progress(number: int, of: int, results: list[FileResult], seconds: float) -> None:
    outcomes = _outcomes(results)
    failed = sum(outcomes[outcome] for outcome in FAILURES)
    print(
        f"[{number}/{of}] {seconds:6.1f} s  {outcomes['passed']} passed, {failed} failed in {len(results)} files "
        f"({group_of(results[0].file)})",
        flush=True,
    )


def _outcomes(results: Iterable[FileResult]) -> Counter[str]:
    return Counter(test.outcome for result in results for test in result.tests.values())


def summarise(mode: str, results: list[FileResult]) -> None:
    """Print one line per group: outcomes, and the share of the baseline's passes if there is a baseline."""
    groups: dict[str, list[FileResult]] = {}
    for result in results:
        groups.setdefault(group_of(result.file), []).append(result)
    for group, members in [*groups.items(), *([("total", results)] if len(groups) > 1 else [])]:
        outcomes = _outcomes(members)
        text = ", ".join(f"{number} {outcome}" for outcome, number in sorted(outcomes.items()))
        if mode != "baseline":
            shared, passed, native, calls = 0, 0, 0, 0
            for result in members:
                baseline = load("baseline", result.file)
                wanted = [n for n, t in baseline.tests.items() if t.outcome == "passed"] if baseline else []
                shared += len(wanted)
                passed += sum(n in result.tests and result.tests[n].outcome == "passed" for n in wanted)
                native += sum(test.native for test in result.tests.values())
                calls += sum(test.native + test.fallback for test in result.tests.values())
            text += f"; {passed / shared:.2%} of the baseline's {shared}" if shared else "; no baseline"
            text += f"; {native / calls:.1%} of {calls} calls native" if calls else ""
        print(f"{group:12} {text}")


def list_failures(results: list[FileResult]) -> None:
    """Print the failures that the baseline does not have, grouped by message."""
    groups: dict[str, list[str]] = {}
    for result in results:
        baseline = load("baseline", result.file)
        for name, test in result.tests.items():
            if test.outcome in FAILURES and not (
                baseline and name in baseline.tests and baseline.tests[name].outcome in FAILURES
            ):
                groups.setdefault(_pattern(test.message), []).append(name)
    for message, names in sorted(groups.items(), key=lambda item: -len(item[1])):
        print(f"\n{len(names)} × {message}")
        for name in names[:4]:
            print(f"    {name}")


def _pattern(message: str) -> str:
    """A message with numbers replaced and shortened, so that similar failures have the same text."""
    line = re.sub(r"\d+", "N", " ".join(message.split()))
    return line if len(line) <= 220 else f"{line[:150]} … {line[-60:]}"


def compare_with_known(results: list[FileResult], *, update: bool) -> int:
    """Compare with the committed lists; return 1 if a test that passed before fails, is skipped or is missing."""
    if update:
        known = Known.of(results)
        known.write()
        total = sum(number for number, _ in known.functions.values())
        print(f"{total} tests, {len(known.failures)} known failures and {len(known.skips)} that are not run written")
        return 0
    found = Known.read().compared(results)
    outcomes = _outcomes(results)
    print(", ".join(f"{number} {outcome}" for outcome, number in sorted(outcomes.items())))
    print("\n".join(found.lines()))
    return 0 if found.good else 1


def _lines(path: Path) -> list[str]:
    lines = (line.strip() for line in path.read_text(encoding="utf-8").splitlines())
    return [line for line in lines if line and not line.startswith("#")]


if __name__ == "__main__":
    sys.exit(main())
