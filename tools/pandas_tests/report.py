"""Writes ``docs/pandas-tests.md``: how much of pandas' own test suite passes with Craton in pandas' place.

From the results that `run.py` keeps, whatever groups they cover. The score of a mode is the share of the
baseline's passes that pass in it; the native share is that of the calls that needed no fallback.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from results import GROUPS, ROOT, FileResult, group_of, key_of, load_all

PAGE = ROOT / "docs" / "pandas-tests.md"
SCORED = ("default", "planned")


@dataclass(slots=True)
class Score:
    """What a mode did in a group."""

    wanted: int = 0
    passed: int = 0
    native: int = 0
    calls: int = 0

    def __add__(self, other: Score) -> Score:
        return Score(
            self.wanted + other.wanted,
            self.passed + other.passed,
            self.native + other.native,
            self.calls + other.calls,
        )

    @property
    def share(self) -> str:
        """The share of the baseline's passes, rounded down, so that 100 % means all of them."""
        return "" if not self.wanted else f"{int(10_000 * self.passed / self.wanted) / 100:.2f} %"

    @property
    def native_share(self) -> str:
        return "" if not self.calls else f"{self.native / self.calls:.1%}".replace("%", " %")


def score(baseline: FileResult, result: FileResult) -> Score:
    """What a mode did in one file, against the baseline's passes in it."""
    wanted = [name for name, test in baseline.tests.items() if test.outcome == "passed"]
    tests = result.tests
    return Score(
        len(wanted),
        sum(name in tests and tests[name].outcome == "passed" for name in wanted),
        sum(test.native for test in tests.values()),
        sum(test.native + test.fallback for test in tests.values()),
    )


def page() -> str:
    """The page, from the results that are kept."""
    baseline = {result.file: result for result in load_all("baseline")}
    passes: Counter[str] = Counter()
    for result in baseline.values():
        passes[group_of(result.file)] += sum(test.outcome == "passed" for test in result.tests.values())
    scores: dict[str, dict[str, Score]] = {mode: {} for mode in SCORED}
    reasons: Counter[str] = Counter()
    stale = 0
    for mode in SCORED:
        for result in load_all(mode):
            stale += result.key != key_of(mode)
            if result.file in baseline:
                group = group_of(result.file)
                scores[mode][group] = scores[mode].get(group, Score()) + score(baseline[result.file], result)
            if mode == "planned":
                reasons.update(result.reasons)
    if stale:
        print(f"{stale} results are of another version of the code; run.py renews them", file=sys.stderr)
    groups = [*(group for group in GROUPS if group in passes), *sorted(set(passes) - set(GROUPS))]
    rows = [_row(group, passes[group], {mode: scores[mode].get(group, Score()) for mode in SCORED}) for group in groups]
    judged = [group for group in groups if group in GROUPS]
    total = {mode: sum((scores[mode].get(group, Score()) for group in judged), Score()) for mode in SCORED}
    rows.append(_row("**the nine groups of frames**", sum(passes[group] for group in judged), total))
    return TEMPLATE.format(
        pandas=metadata.version("pandas"), rows="\n".join(rows), fallbacks="\n".join(_fallback_rows(reasons))
    )


def _row(group: str, passes: int, scores: dict[str, Score]) -> str:
    cells = [f"{passes:,}", *(scores[mode].share for mode in SCORED), *(scores[mode].native_share for mode in SCORED)]
    return f"| {group} | {' | '.join(cells)} |"


def _fallback_rows(reasons: Counter[str]) -> list[str]:
    rows = []
    for text, number in reasons.most_common(40):
        method, _, reason = text.partition(": ")
        rows.append(f"| `{method}` | {reason.replace('|', chr(92) + '|')[:120]} | {number:,} |")
    return rows


TEMPLATE = """\
# pandas' own tests

<!-- Written by tools/pandas_tests/report.py; run `make pandas-tests` to renew it. -->

pandas {pandas} brings its test suite in its wheel. `make pandas-tests` runs it three times: with pandas itself (the
baseline); with Craton installed in pandas' place as a user would install it (*default*: small frames stay in pandas);
and with the small-data path switched off (*planned*), so that every frame that a test makes goes through a plan. The
tests' expectations are untouched, `match=` included.

**Pass share** is the share of the tests that pass in the baseline which pass with Craton. **Native share** is the share
of the calls made while the tests ran that were planned, of all that were planned or fell back to pandas. Tests that
pandas marks as slow, or that need a network, a database, a clipboard or a processor of their own, are left out of all
three.

| group | baseline passes | pass share, default | pass share, planned | native share, default | native share, planned |
| --- | ---: | ---: | ---: | ---: | ---: |
{rows}

## What falls back most often

In the planned mode, over all groups that were run. Much of it is what tests call, and not what programs do.

| call | why | times |
| --- | --- | ---: |
{fallbacks}
"""


def write() -> None:
    """Write the page."""
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {PAGE.relative_to(ROOT)}")


def main() -> None:
    """Write the page, or with ``--print`` show it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--print", action="store_true", help="show the page, write nothing")
    arguments = parser.parse_args()
    if arguments.print:
        print(page())
    else:
        write()


if __name__ == "__main__":
    main()
