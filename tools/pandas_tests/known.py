"""The known results of the fast selection, stored in this folder, and their comparison with a run.

There are three lists. ``known_failures.txt``: tests that may fail. ``known_skips.txt``: tests that are skipped, or that pandas
itself expects to fail. ``known_tests.txt``: every test function with the number of its tests and a digest of their names. The
digest keeps the list short, and detects a test that was replaced by another. Tests in neither of the first two lists must pass.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from results import FAILURES, FileResult, TestResult

__all__ = ["Comparison", "Known"]

HERE = Path(__file__).parent
_ADDRESS = re.compile(r"0x[0-9a-f]+")
_HEADS = {
    "known_failures.txt": "Tests of the fast selection that fail in mode 'planned'.",
    "known_skips.txt": "Tests of the fast selection that pandas skips, or expects to fail.",
    "known_tests.txt": "The test functions of the fast selection: how many tests each has, and a digest of their names.",
}


@dataclass(slots=True)
class Comparison:
    """The differences between a run and the known results; all but those in ``passing`` count as failures.

    Parameters
    ----------
    failing
        Unexpected failures: name and message.
    skipped
        Tests that ran before, and are now skipped or expected to fail: name and outcome.
    gone
        Test functions whose tests have changed, are missing or are new, with a description.
    passing
        Known failures that pass now.
    """

    failing: dict[str, str] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    gone: dict[str, str] = field(default_factory=dict)
    passing: list[str] = field(default_factory=list)

    @property
    def good(self) -> bool:
        """Whether there is no new failure."""
        return not (self.failing or self.skipped or self.gone)

    def lines(self) -> list[str]:
        """The lines of text that describe the comparison."""
        return [
            *(f"NEW FAILURE  {name}\n    {message}" for name, message in self.failing.items()),
            *(f"NOT RUN  {name}: {outcome}, and it ran before" for name, outcome in self.skipped.items()),
            *(f"OTHER TESTS  {name}: {how}" for name, how in self.gone.items()),
            *(f"now passes, update the lists with --update-known: {name}" for name in self.passing),
        ]


@dataclass(frozen=True, slots=True)
class Known:
    """The three lists.

    Parameters
    ----------
    failures, skips
        Names of tests.
    functions
        For each test function the number of its tests, and the digest of their names.
    """

    failures: frozenset[str]
    skips: frozenset[str]
    functions: dict[str, tuple[int, str]]

    @classmethod
    def of(cls, results: Iterable[FileResult]) -> Known:
        """The lists for the results of a run."""
        tests = _tests(results)
        members: dict[str, list[str]] = {}
        for name in tests:
            members.setdefault(function_of(name), []).append(name)
        return cls(
            frozenset(name for name, test in tests.items() if test.outcome in FAILURES),
            frozenset(name for name, test in tests.items() if test.outcome not in {*FAILURES, "passed"}),
            {function: (len(names), digest_of(names)) for function, names in members.items()},
        )

    @classmethod
    def read(cls, folder: Path = HERE) -> Known:
        """Read the stored lists."""
        functions = {}
        for line in _lines(folder / "known_tests.txt"):
            number, digest, function = line.split(" ", 2)
            functions[function] = int(number), digest
        return cls(
            frozenset(_lines(folder / "known_failures.txt")), frozenset(_lines(folder / "known_skips.txt")), functions
        )

    def write(self, folder: Path = HERE) -> None:
        """Store the lists."""
        counted = [f"{number} {digest} {name}" for name, (number, digest) in sorted(self.functions.items())]
        for name, lines in (
            ("known_failures.txt", sorted(self.failures)),
            ("known_skips.txt", sorted(self.skips)),
            ("known_tests.txt", counted),
        ):
            head = f"# {_HEADS[name]} Written by: run.py --fast --update-known\n"
            (folder / name).write_text(head + "".join(f"{line}\n" for line in lines), encoding="utf-8")

    def compared(self, results: Iterable[FileResult]) -> Comparison:
        """Compare the results of a run with these lists."""
        results = list(results)
        tests, now = _tests(results), Known.of(results)
        found = Comparison()
        for name in sorted(now.failures - self.failures):
            found.failing[name] = tests[name].message
        for name in sorted(now.skips - self.skips):
            found.skipped[name] = tests[name].outcome
        for function in sorted(self.functions.keys() | now.functions.keys()):
            before, after = self.functions.get(function), now.functions.get(function)
            if before != after:
                numbers = [0 if one is None else one[0] for one in (before, after)]
                found.gone[function] = (
                    f"{numbers[0]} tests before, {numbers[1]} now"
                    if numbers[0] != numbers[1]
                    else f"{numbers[0]} tests, but not the same ones"
                )
        found.passing = sorted(
            name for name in self.failures | self.skips if name in tests and tests[name].outcome == "passed"
        )
        return found


def function_of(test: str) -> str:
    """The name of a test without its parameters."""
    return test.partition("[")[0]


def digest_of(tests: Iterable[str]) -> str:
    """A digest of names that does not depend on their order, or on memory addresses in them."""
    text = "\n".join(sorted(_ADDRESS.sub("0x", name) for name in tests))
    return hashlib.blake2b(text.encode(), digest_size=6).hexdigest()


def _tests(results: Iterable[FileResult]) -> dict[str, TestResult]:
    return {name: test for result in results for name, test in result.tests.items()}


def _lines(path: Path) -> list[str]:
    lines = (line.strip() for line in path.read_text(encoding="utf-8").splitlines())
    return [line for line in lines if line and not line.startswith("#")]
