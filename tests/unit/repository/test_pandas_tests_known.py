"""The check of pandas' own tests: each test that passed in the recorded run must exist and pass."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

TOOLS = Path(__file__).resolve().parents[3] / "tools" / "pandas_tests"


@pytest.fixture
def known(monkeypatch):
    monkeypatch.syspath_prepend(str(TOOLS))
    import known

    yield known
    for name in ("known", "results"):
        sys.modules.pop(name, None)


NAMES = ["test_a.py::T::test_one[x]", "test_a.py::T::test_one[y]", "test_a.py::test_two", "test_a.py::test_three"]


def results(known, **changed):
    """The results of one test file, with the given changes; the outcome None removes a test."""
    tests = dict.fromkeys(NAMES, "passed") | {"test_a.py::test_skip": "skipped", "test_a.py::test_bad": "failed"}
    tests |= changed.pop("tests", {})
    made = {name: known.TestResult(outcome, message="why") for name, outcome in tests.items() if outcome is not None}
    return [known.FileResult("test_a.py", "key", made)]


def test_the_same_run_is_good(known, tmp_path):
    known.Known.of(results(known)).write(tmp_path)
    kept = known.Known.read(tmp_path)
    found = kept.compared(results(known))
    assert found.good
    assert found.lines() == []
    assert kept == known.Known.of(results(known))


@pytest.mark.parametrize("outcome", ["failed", "error", "crashed"])
def test_a_failure_that_is_not_known(known, outcome):
    kept = known.Known.of(results(known))
    found = kept.compared(results(known, tests={NAMES[0]: outcome}))
    assert not found.good
    assert found.failing == {NAMES[0]: "why"}
    assert "NEW FAILURE" in found.lines()[0]


@pytest.mark.parametrize("outcome", ["skipped", "xfailed", "xpassed"])
@pytest.mark.parametrize("name", [NAMES[1], "test_a.py::test_bad"])
def test_a_test_that_is_no_longer_run(known, name, outcome):
    found = known.Known.of(results(known)).compared(results(known, tests={name: outcome}))
    assert not found.good
    assert found.skipped == {name: outcome}


def test_a_test_that_is_gone(known):
    found = known.Known.of(results(known)).compared(results(known, tests={NAMES[0]: None}))
    assert not found.good
    assert found.gone == {"test_a.py::T::test_one": "2 tests before, 1 now"}


def test_a_test_that_is_gone_where_another_came(known):
    found = known.Known.of(results(known)).compared(
        results(known, tests={NAMES[0]: None, "test_a.py::T::test_one[z]": "passed"})
    )
    assert not found.good
    assert found.gone == {"test_a.py::T::test_one": "2 tests, but not the same ones"}


def test_a_function_or_a_file_that_is_gone(known):
    kept = known.Known.of(results(known))
    found = kept.compared(results(known, tests={NAMES[2]: None}))
    assert found.gone == {NAMES[2]: "1 tests before, 0 now"}
    found = kept.compared([known.FileResult("test_a.py", "key", {})])
    assert not found.good
    assert len(found.gone) == len(kept.functions)


def test_a_file_that_cannot_be_collected(known):
    kept = known.Known.of(results(known))
    error = {"test_a.py": known.TestResult("error", message="ImportError")}
    found = kept.compared([known.FileResult("test_a.py", "key", error)])
    assert found.failing == {"test_a.py": "ImportError"}


def test_tests_that_nobody_knows_yet(known):
    found = known.Known.of(results(known)).compared(results(known, tests={"test_a.py::test_new": "passed"}))
    assert found.gone == {"test_a.py::test_new": "0 tests before, 1 now"}


def test_what_passes_now_is_told_and_no_failure(known):
    found = known.Known.of(results(known)).compared(
        results(known, tests={"test_a.py::test_bad": "passed", "test_a.py::test_skip": "passed"})
    )
    assert found.good
    assert found.passing == ["test_a.py::test_bad", "test_a.py::test_skip"]


def test_names_are_known_without_addresses_and_order(known):
    assert known.digest_of(["a[<f at 0x7f01>]", "b"]) == known.digest_of(["b", "a[<f at 0x9e>]"])


def test_the_lists_of_the_repository_agree(known):
    kept = known.Known.read()
    functions = {known.function_of(name) for name in kept.failures | kept.skips}
    assert functions <= kept.functions.keys()
    assert not kept.failures & kept.skips
    files = {line for line in (TOOLS / "fast.txt").read_text().splitlines() if line.startswith("tests/")}
    assert {name.partition("::")[0] for name in kept.functions} == files
    assert sum((TOOLS / name).stat().st_size for name in ("known_tests.txt", "known_skips.txt")) < 1 << 20
