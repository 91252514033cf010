"""Runs narwhals' own tests with pandas and with Craton in pandas' place, and compares them: what passes with pandas must pass with Craton.

The tests come from the source archive of the installed version of narwhals, which pip downloads into ``build/narwhals-tests``.
They run for the frames that pandas makes, with `craton.accelerate.pytest_plugin` and with every frame planned.

::

    python tools/narwhals_tests/run.py                          # all, compared with known.toml
    python tools/narwhals_tests/run.py tests/frame -k collect   # a part of them; pytest's arguments

The exit status is 1 if a test passes with pandas but not with Craton and is not in ``known.toml``, or if one in it passes.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
from importlib.metadata import version
from pathlib import Path
from xml.etree import ElementTree

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
FOLDER = ROOT / "build" / "narwhals-tests"
KNOWN = HERE / "known.toml"
CONSTRUCTORS = "pandas,pandas[nullable],pandas[pyarrow]"
PLUGIN = "craton.accelerate.pytest_plugin"
#: Settings of the configuration of narwhals' tests; the others need plugins, or put narwhals' sources before the installed package.
SETTINGS = ("filterwarnings", "markers", "xfail_strict")
#: As in that configuration.
ENVIRONMENT = {"TZ": "UTC", "PYARROW_IGNORE_TIMEZONE": "1"}


def main() -> int:
    """Run the tests that the command line selects, twice; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=2, help="processes that run tests (default 2)")
    arguments, chosen = parser.parse_known_args()
    tree = make_tree(version("narwhals"))
    chosen = chosen or ["tests"]
    expected = run(tree, "pandas", arguments.jobs, chosen)
    got = run(tree, "craton", arguments.jobs, ["-p", PLUGIN, *chosen])
    return compare(expected, got, tomllib.loads(KNOWN.read_text(encoding="utf-8")))


def make_tree(narwhals: str) -> Path:
    """Download and extract narwhals' tests, with their configuration and without its sources; return their folder."""
    tree = FOLDER / f"narwhals-{narwhals}"
    if (tree / "pytest.ini").is_file():
        return tree
    shutil.rmtree(FOLDER, ignore_errors=True)
    download = ["download", "--quiet", "--no-deps", "--no-binary", "narwhals", "--dest", str(FOLDER)]
    subprocess.run([sys.executable, "-m", "pip", *download, f"narwhals=={narwhals}"], check=True)
    with tarfile.open(FOLDER / f"narwhals-{narwhals}.tar.gz") as tar:
        tar.extractall(FOLDER, filter="data")
    shutil.rmtree(tree / "src")
    project = tree / "pyproject.toml"
    settings = tomllib.loads(project.read_text(encoding="utf-8"))["tool"]["pytest"]["ini_options"]
    project.unlink()  # pytest would warn of its other settings
    lines = ["[pytest]"]
    for name in SETTINGS:
        value = settings[name]
        lines.append(
            f"{name} =" + "".join(f"\n    {line}" for line in value) if isinstance(value, list) else f"{name} = {value}"
        )
    (tree / "pytest.ini").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return tree


def run(tree: Path, name: str, jobs: int, arguments: list[str]) -> dict[str, str]:
    """Run tests; return the outcome of each: "passed", "failed" or "skipped"."""
    report = FOLDER / f"{name}.xml"
    report.unlink(missing_ok=True)
    command = [
        sys.executable, "-m", "pytest", "-q", "--tb=short", "-p", "no:cacheprovider", "-n", str(jobs), "--constructors", CONSTRUCTORS,
        f"--junitxml={report}", "-o", "junit_family=xunit1", *arguments,
    ]  # fmt: skip
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("CRATON_", "PYTEST"))}
    environment |= ENVIRONMENT | {"PYTHONPATH": str(ROOT / "python"), "CRATON_SMALL_ROWS": "0"}
    print(f"with {name}:", flush=True)
    subprocess.run(command, cwd=tree, env=environment, check=False)
    if not report.is_file():
        raise SystemExit(f"pytest wrote no report of the tests with {name}")
    outcomes = {}
    for case in ElementTree.parse(report).iter("testcase"):
        kinds = {child.tag for child in case}
        outcome = "failed" if kinds & {"failure", "error"} else "skipped" if "skipped" in kinds else "passed"
        outcomes[f"{case.get('classname')}::{case.get('name')}"] = outcome
    return outcomes


def compare(expected: dict[str, str], got: dict[str, str], known: dict[str, str]) -> int:
    """Print the tests whose outcomes differ unexpectedly; return 1 if there are any."""
    passed = [name for name, outcome in expected.items() if outcome == "passed"]
    worse = {name for name in passed if got.get(name) != "passed"}
    unknown = sorted(worse - known.keys())
    better = sorted(name for name in known if name in expected and name not in worse)
    known_now = len(worse & known.keys())
    print(
        f"{len(passed)} tests pass with pandas, {len(passed) - len(worse)} of them with Craton; {known_now} are in {KNOWN.name}"
    )
    for name in unknown:
        print(f"passes with pandas, but not with Craton: {name} ({got.get(name, 'is gone')})")
    for name in better:
        print(f"in {KNOWN.name}, and passes with Craton, or not with pandas: {name}")
    return 1 if unknown or better else 0


if __name__ == "__main__":
    sys.exit(main())
