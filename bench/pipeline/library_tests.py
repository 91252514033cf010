"""Tests of NumPy, pandas and pyarrow, which their packages contain, with the allocator of the steps' processes and with glibc's.

    python -m bench.pipeline.library_tests

A test that passes with glibc's allocator and fails with the other one, or a process that crashes, is a failure. Each file of tests
is run in a process of its own.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

__all__ = ["main"]

FILES = {
    "numpy": [
        *(
            f"_core/tests/test_{name}.py"
            for name in ("multiarray", "numeric", "scalarmath", "shape_base", "indexing", "mem_overlap")
        ),
        *(f"lib/tests/test_{name}.py" for name in ("function_base", "io", "arraysetops", "index_tricks")),
    ],
    "pandas": [
        "tests/frame/test_arithmetic.py",
        "tests/frame/methods",
        "tests/series/test_constructors.py",
        "tests/reshape/merge/test_merge.py",
        "tests/groupby/test_groupby.py",
        "tests/io/parser/common",
    ],
    "pyarrow": [
        f"tests/test_{name}.py"
        for name in ("array", "table", "compute", "pandas", "ipc", "io", "memory", "convert_builtin")
    ],
}
"""Files and folders of tests, within each package."""


def _outcomes(path: Path, variables: dict[str, str], timeout: float) -> tuple[dict[str, bool], str]:
    """Run tests: whether each passed or was skipped; and how the process ended, if it crashed."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=no", f"--junitxml={report}"]
        if "numpy" in path.parts:  # its folders of tests are no packages
            command += ["--import-mode=append", "-W", "ignore::pytest.PytestRemovedIn10Warning"]
        found = {**{k: v for k, v in os.environ.items() if k not in variables and k != "PYTHONPATH"}, **variables}
        try:
            ended = subprocess.run(
                [*command, str(path)], cwd=folder, env=found, capture_output=True, timeout=timeout, check=False
            )
        except subprocess.TimeoutExpired:
            return {}, "did not end"
        if ended.returncode not in (0, 1) or not report.exists():
            return {}, f"exit status {ended.returncode}"
        cases = ElementTree.parse(report).getroot().iter("testcase")
        return {
            f"{one.get('classname')}::{one.get('name')}": not any(e.tag in ("failure", "error") for e in one)
            for one in cases
        }, ""


def _compared(library: str, timeout: float) -> Iterator[bool]:
    from craton.pipeline import preload

    spec = importlib.util.find_spec(library)
    assert spec is not None
    assert spec.origin is not None
    for name in FILES[library]:
        path = Path(spec.origin).parent / name
        theirs, failed = _outcomes(path, {}, timeout)
        ours, crashed = _outcomes(path, preload.environment({}), timeout)
        worse = [one for one, passed in theirs.items() if passed and not ours.get(one, False)]
        right = bool(theirs) and not worse and not crashed
        print(
            f"{library:8} {name:42} {len(theirs):6} tests, {sum(theirs.values()):6} pass with glibc's {failed}, "
            f"{sum(ours.values()):6} with the allocator {crashed}",
            flush=True,
        )
        for one in worse[:10]:
            print(f"    {one}", flush=True)
        yield right


def main(argv: list[str] | None = None) -> int:
    """Run from the command line; the exit status is 1 if a test fails with the allocator only."""
    parser = argparse.ArgumentParser(prog="python -m bench.pipeline.library_tests", description=__doc__.splitlines()[0])
    parser.add_argument("--libraries", default=",".join(FILES), help="(default: %(default)s)")
    parser.add_argument("--timeout", type=float, default=900, help="seconds for a file (default: %(default)s)")
    given = parser.parse_args(argv)
    right = [one for library in given.libraries.split(",") for one in _compared(library, given.timeout)]
    return 0 if all(right) else 1


if __name__ == "__main__":
    sys.exit(main())
