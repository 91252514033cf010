"""Runs Xoscar's own tests with `craton.actor` in Xoscar's place.

The tests come from a clone of Xoscar's repository, which is not part of this one. The package ``xoscar`` in the folder
`shim` maps Xoscar's names to Craton's. The tests run in a separate environment under ``build/xoscar-tests``, which is
created when it is first needed.

::

    git clone https://github.com/xorbitsai/xoscar ../xoscar
    python tools/xoscar_tests/run.py ../xoscar                 # all, compared with known.toml
    python tools/xoscar_tests/run.py ../xoscar --write         # and rewrite docs/xoscar-tests.md
    python tools/xoscar_tests/run.py ../xoscar test_batch -v   # some files, with pytest's output for failures

The exit status is 1 if a test fails that is not in ``known.toml``, or a test passes that is.
"""

from __future__ import annotations

import argparse
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT))

from bench.environments import Environment, make  # noqa: E402

FOLDER = ROOT / "build" / "xoscar-tests"
PAGE = ROOT / "docs" / "xoscar-tests.md"
KNOWN = HERE / "known.toml"
ENVIRONMENT = Environment(
    (
        "pytest==9.2.0", "pytest-asyncio==1.5.0", "pytest-timeout==2.4.0", "psutil==7.2.2", "pandas==3.1.1",
        "numpy==2.4.6", "cloudpickle==3.1.2",
    )
)  # fmt: skip
# As in the configuration of Xoscar's own tests.
CONFIGURATION = """[pytest]
asyncio_mode = auto
asyncio_default_fixture_loop_scope = function
markers =
    cuda
    ucx
    unix
    linux
"""
# Seconds for one test, and for one file.
TEST, FILE = 60, 600


@dataclass
class Known:
    """The contents of `known.toml`: reasons, by file and by ``file::test``."""

    files: dict[str, str]
    tests: dict[str, str]

    @classmethod
    def read(cls) -> Known:
        found = tomllib.loads(KNOWN.read_text(encoding="utf-8"))
        tests = found["tests"].items()
        return cls(found["files"], {f"{file}::{name}": why for file, names in tests for name, why in names.items()})


@dataclass
class Result:
    """The outcomes of one file's tests: lists of names."""

    file: str
    passed: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    said: str = ""


def main() -> int:
    """Run the tests that the command line selects; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("repository", type=Path, help="a clone of Xoscar's repository, bare or not")
    parser.add_argument("files", nargs="*", help="parts of the names of test files; default: all")
    parser.add_argument("--commit", default="HEAD", help="the commit of the repository to test (default HEAD)")
    parser.add_argument(
        "--write", action="store_true", help="write docs/xoscar-tests.md; needs the results of all files"
    )
    parser.add_argument("--verbose", "-v", action="store_true", help="show pytest's output for failures")
    parser.add_argument("-k", dest="tests", help="run only tests that match this expression (pytest's -k)")
    arguments = parser.parse_args()
    if arguments.write and (arguments.files or arguments.tests):
        parser.error("--write needs the results of all files")
    python = make("environment", ENVIRONMENT, folder=FOLDER, progress=print)
    tree, files = make_tree(arguments.repository, arguments.commit)
    known = Known.read()
    gone = [file for file in known.files if file not in files]
    chosen = [file for file in files if file not in known.files]
    if arguments.files:
        chosen = [file for file in files if any(part in file for part in arguments.files)]
    results = []
    for file in chosen:
        result = run(python, tree, file, arguments.tests)
        results.append(result)
        counts = [len(names) for names in (result.passed, result.failed, result.skipped)]
        print("{}: {} passed, {} failed, {} skipped".format(file, *counts), flush=True)
        if arguments.verbose and result.failed:
            print(result.said)
    status = compare(results, known, gone, whole=not arguments.tests)
    if arguments.write and not status:
        PAGE.write_text(page(results, known, commit_of(arguments.repository, arguments.commit)), encoding="utf-8")
        print(f"{PAGE.relative_to(ROOT)} is written")
    return status


def make_tree(repository: Path, commit: str) -> tuple[Path, list[str]]:
    """Copy Xoscar's tests, and nothing else of it, into a copy of the package in `shim`; return its folder and the test files."""
    tree = FOLDER / "tree"
    shutil.rmtree(tree, ignore_errors=True)
    shutil.copytree(HERE / "shim", tree, ignore=shutil.ignore_patterns("__pycache__"))
    (tree / "xoscar" / "incidental.py").rename(tree / "xoscar" / "utils.py")
    (tree / "xoscar" / "collective" / "reductions.py").rename(tree / "xoscar" / "collective" / "common.py")
    archive = subprocess.run(
        ["git", "-C", str(repository), "archive", commit, "python/xoscar"], check=True, capture_output=True
    ).stdout
    files = []
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        for member in tar.getmembers():
            path = Path(member.name).relative_to("python") if member.name.startswith("python/xoscar/") else None
            if path is None or not member.isfile() or "tests" not in path.parent.parts:
                continue
            target = tree / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(tar.extractfile(member).read())  # type: ignore[union-attr]
            if path.name.startswith("test_") and path.suffix == ".py":
                files.append(path.relative_to("xoscar").as_posix())
    for folder in (tree / "xoscar").rglob("tests"):
        for package in folder.relative_to(tree / "xoscar").parents:
            (tree / "xoscar" / package / "__init__.py").touch()
    (tree / "pytest.ini").write_text(CONFIGURATION, encoding="utf-8")
    return tree, sorted(files)


def commit_of(repository: Path, commit: str) -> str:
    """Return the date and the hash of the tested commit."""
    command = ["git", "-C", str(repository), "log", "-1", "--format=%cs, %h", "--abbrev=12", commit]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def run(python: Path, tree: Path, file: str, tests: str | None) -> Result:
    """Run one file in a process of its own."""
    report = FOLDER / "report.xml"
    report.unlink(missing_ok=True)
    command = [
        str(python), str(HERE / "reaper.py"), str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--timeout={TEST}",
        f"--junitxml={report}",
        "-o", "junit_family=xunit1", *(["-k", tests] if tests else []), str(tree / "xoscar" / file),
    ]  # fmt: skip
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("CRATON_", "PYTEST"))}
    environment["PYTHONPATH"] = str(ROOT / "python")
    result = Result(file)
    try:
        done = subprocess.run(
            command, cwd=tree, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            errors="replace", timeout=FILE, check=False,
        )  # fmt: skip
        result.said = done.stdout
    except subprocess.TimeoutExpired as late:
        result.said = f"{file} takes more than {FILE} s\n{(late.stdout or b'').decode(errors='replace')}"
    if not report.is_file():
        result.failed.append("(the file)")
        return result
    for case in ElementTree.parse(report).iter("testcase"):
        kinds = {child.tag for child in case}
        where = (
            result.failed if kinds & {"failure", "error"} else result.skipped if "skipped" in kinds else result.passed
        )
        name = case.get("name") or "(the file)"
        where.append("(the file)" if case.get("classname") in ("", None) else name)
    # A test that passes, and whose fixture fails afterwards, is in the report twice.
    result.passed = [name for name in result.passed if name not in result.failed]
    return result


def _plain(name: str) -> str:
    return name.partition("[")[0]


def compare(results: list[Result], known: Known, gone: list[str], *, whole: bool) -> int:
    """Compare with the list; return 1 if a test fails that is not in the list, or one passes that is."""
    failing = {f"{result.file}::{name}" for result in results for name in result.failed}
    passing = {f"{result.file}::{name}" for result in results for name in result.passed}
    status = 0
    for name in sorted(failing):
        if name not in known.tests and _plain(name) not in known.tests:
            status = 1
            print(f"fails, but is not in {KNOWN.name}: {name}")
    ran = {result.file for result in results}
    for name in known.tests:
        if whole and name.partition("::")[0] in ran and not any(name in (test, _plain(test)) for test in failing):
            status = 1
            print(
                f"in {KNOWN.name}, and {'passes' if name in passing | set(map(_plain, passing)) else 'is gone'}: {name}"
            )
    for file in gone:
        status = 1
        print(f"in {KNOWN.name}, but not in Xoscar's repository: {file}")
    return status


def page(results: list[Result], known: Known, commit: str) -> str:
    """Return docs/xoscar-tests.md."""
    passed = sum(len(result.passed) for result in results)
    failed = sum(len(result.failed) for result in results)
    skipped = sum(len(result.skipped) for result in results)
    lines = [
        "# Xoscar's tests",
        "",
        "`craton.actor` implements the public API of Xoscar, which Xoscar's own tests define. The tests are run against Craton:",
        "every test passes that uses only the public API, without the parts that Craton does not support (proxies, collectives,",
        "metrics, and the manager of virtual environments). This page lists the tests that do not pass, with the reasons.",
        "`python tools/xoscar_tests/run.py CLONE --write` generates it, where CLONE is a clone of Xoscar's repository.",
        "",
        f"Of Xoscar at {commit}: {passed} tests pass, {failed} fail, {skipped} were skipped because they need UCX or a GPU.",
        "",
        "| file | passed | failed | skipped |",
        "| --- | ---: | ---: | ---: |",
    ]
    for result in results:
        counts = " | ".join(str(len(names)) for names in (result.passed, result.failed, result.skipped))
        lines.append(f"| `{result.file}` | {counts} |")
    lines += ["", "## Tests that do not pass", "", "| test | why |", "| --- | --- |"]
    lines += [
        f"| `{name.rpartition('::')[2]}` in `{name.partition('::')[0]}` | {why} |" for name, why in known.tests.items()
    ]
    lines += ["", "## Files that are not run", "", "| file | why |", "| --- | --- |"]
    lines += [f"| `{file}` | {why} |" for file, why in known.files.items()]
    lines += [
        "",
        "## How the tests are run",
        "",
        "A package named `xoscar` (`tools/xoscar_tests/shim`) maps Xoscar's modules to Craton's. Many tests of pools also check",
        "with Xoscar's router, which is not public, whether an address is known; the package implements this check. All other",
        "names that are not public raise an error, so a test that uses them fails and is listed above. Addresses with",
        "`test://`, for which Xoscar runs all pools in one process, create pools in child processes, as other addresses do.",
        "",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
