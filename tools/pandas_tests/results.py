"""Stores the results of pandas' tests, with a hash of the code that produced them.

There is one JSON file for each test file and mode, under ``build/pandas-tests/<mode>/``. Its key is a hash of the tested
code. So an interrupted run can continue, and a change of Craton invalidates the results of Craton's modes
only.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib import metadata
from pathlib import Path

__all__ = [
    "FAILURES",
    "FRAME_GROUPS",
    "GROUPS",
    "MODES",
    "ROOT",
    "FileResult",
    "TestResult",
    "files_of",
    "group_of",
    "key_of",
    "load",
    "load_all",
    "pandas_directory",
    "save",
    "store_sample",
]

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "build" / "pandas-tests"
MODES = ("baseline", "default", "planned")
FAILURES = frozenset({"failed", "error", "crashed"})
FRAME_GROUPS = (
    "frame",
    "series",
    "groupby",
    "reshape",
    "indexing",
    "reductions",
    "strings",
    "arithmetic",
    "apply",
)
"""The groups of tests that concern frames most."""
GROUPS = (
    *FRAME_GROUPS,
    *("window", "resample", "tseries", "io", "plotting", "copy_view", "generic", "base", "extension", "arrays"),
    *(
        "indexes",
        "dtypes",
        "scalar",
        "computation",
        "internals",
        "interchange",
        "construction",
        "config",
        "api",
        "tools",
    ),
    *("tslibs", "libs", "util", "top"),
)
"""All groups: the folders of tests, and the files beside them."""


@dataclass(slots=True)
class TestResult:
    """The result of one test: an outcome of pytest, or "crashed" if the process died in it."""

    outcome: str
    seconds: float = 0.0
    native: int = 0
    fallback: int = 0
    message: str = ""


@dataclass(slots=True)
class FileResult:
    """The results of one test file."""

    file: str
    key: str
    tests: dict[str, TestResult] = field(default_factory=dict)
    reasons: dict[str, int] = field(default_factory=dict)
    """How often each "method: reason" fell back."""

    @property
    def seconds(self) -> float:
        return sum(test.seconds for test in self.tests.values())


@cache
def pandas_directory() -> Path:
    """Where pandas is installed, found without importing it."""
    spec = importlib.util.find_spec("pandas")
    if spec is None or spec.origin is None:
        raise SystemExit("pandas is not installed in this environment; install the project's test requirements")
    return Path(spec.origin).parent


def group_of(file: str) -> str:
    """The group of a test file: its first folder below ``tests``, or "top"."""
    parts = Path(file).parts
    return parts[1] if len(parts) > 2 else "top"


#: Folders whose ``conftest.py`` cannot be imported without a package; it would end the whole batch of files.
_NEEDED = {"tests/io/pytables/": "tables"}


def files_of(group: str) -> list[str]:
    """The test files of a group, or the one file, relative to pandas' directory."""
    base = pandas_directory()
    if group == "top":
        return sorted(str(path.relative_to(base)) for path in (base / "tests").glob("test_*.py"))
    path = base / "tests" / group
    if path.suffix == ".py" and path.is_file():
        return [str(path.relative_to(base))]
    missing = [folder for folder, package in _NEEDED.items() if importlib.util.find_spec(package) is None]
    found = sorted(str(path.relative_to(base)) for path in path.rglob("test_*.py"))
    found = [file for file in found if not file.startswith(tuple(missing))]
    if not found:
        raise SystemExit(f"no test files in {path}; give a folder or a file below pandas/tests, such as 'frame'")
    return found


@cache
def key_of(mode: str) -> str:
    """A hash of the code that the results of a mode depend on."""
    digest = hashlib.sha256()
    for package in ("pandas", "numpy", "pyarrow", "polars", "pytest", "scipy"):
        try:
            digest.update(f"{package}={metadata.version(package)}".encode())
        except metadata.PackageNotFoundError:
            digest.update(f"{package}=none".encode())
    if mode != "baseline":
        package_directory = ROOT / "python" / "craton"
        for path in sorted(package_directory.rglob("*")):
            if path.suffix in (".py", ".so") and path.is_file():
                digest.update(str(path.relative_to(package_directory)).encode())
                digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def store_sample(number: int) -> None:
    """Store results apart from those of whole runs: they are of at most `number` tests of each test function."""
    global RESULTS
    RESULTS = ROOT / "build" / f"pandas-tests-sample-{number}"


def path_of(mode: str, file: str) -> Path:
    return RESULTS / mode / Path(file).relative_to("tests").with_suffix(".json")


def save(mode: str, result: FileResult) -> None:
    """Write a file's result atomically."""
    path = path_of(mode, result.file)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(asdict(result), indent=0))
    temporary.replace(path)


def load(mode: str, file: str) -> FileResult | None:
    """The stored result of a file, whatever its key, or None."""
    try:
        data = json.loads(path_of(mode, file).read_text())
    except (OSError, ValueError):
        return None
    tests = {name: TestResult(**test) for name, test in data.pop("tests").items()}
    return FileResult(tests=tests, **data)


def load_all(mode: str) -> Iterator[FileResult]:
    """All stored results of a mode."""
    base = RESULTS / mode
    for path in sorted(base.rglob("*.json")):
        result = load(mode, str(Path("tests") / path.relative_to(base).with_suffix(".py")))
        if result is not None:
            yield result
