"""Modules import only from lower layers.

docs/architecture.md describes the layers. Imports inside functions and under `TYPE_CHECKING` count as well, because a
postponed upward import also creates a cycle.
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PACKAGE = ROOT / "python" / "craton"

# From top to bottom. A unit is a package or module directly under `craton`; "" is craton/__init__.py, the public
# interface. Units of one layer do not import each other.
LAYERS: list[set[str]] = [
    {"__main__"},
    {""},
    {"demo"},
    {"accelerate"},
    {"profiling"},
    {"ml"},
    {"spmd"},
    {"pipeline"},
    {"pandas"},
    {"memory"},
    {"engine"},
    {"lower"},
    {"remote"},
    {"cluster"},
    {"schedule"},
    {"kernel"},
    {"actor"},
    {"comm"},
    {"store"},
    {"serialize"},
    {"plan"},
    {"fallbacks", "tracebacks"},
    {"config"},
    {"command"},
    {"advice", "errors", "events", "callers", "imported", "locks", "warning_filters", "_native"},
    {
        *{"forks", "refusals", "_native_comm", "_native_sums", "_native_kmeans", "_native_interrupts", "_native_hash"},
        "_native_shuffle",
    },
    {"records", "fork_server", "_native_store", "_native_durable"},
]

# Downward imports that are forbidden, too.
FORBIDDEN = {
    ("kernel", "plan"): "the kernel is given a LazyFrame; it must not know what it was lowered from",
}

DEPTH = {unit: depth for depth, layer in enumerate(LAYERS) for unit in layer}


def unit_of(path: Path, package: Path) -> str:
    parts = path.relative_to(package).with_suffix("").parts
    return "" if parts == ("__init__",) else parts[0]


def units_in(package: Path) -> set[str]:
    found = {path.stem for path in package.glob("*.py*") if path.suffix in {".py", ".pyi"}} - {"__init__"}
    return found | {""} | {path.name for path in package.iterdir() if path.is_dir() and any(path.rglob("*.py"))}


def module_of(path: Path, package: Path) -> list[str]:
    """The parts of the dotted name of a file's *package*, to which its relative imports refer."""
    return ["craton", *path.relative_to(package).parent.parts]


def imports(source: str, inside: list[str], units: set[str]) -> Iterator[tuple[int, str]]:
    """The line and the imported unit of each import from craton."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                head, *rest = alias.name.split(".")
                if head == "craton":
                    yield node.lineno, rest[0] if rest else ""
        elif isinstance(node, ast.ImportFrom):
            base = inside[: len(inside) - node.level + 1] if node.level else []
            head, *rest = [*base, *(node.module.split(".") if node.module else [])]
            if head != "craton":
                continue
            if rest:
                yield node.lineno, rest[0]
            else:  # `from craton import x`: a unit, or a name that craton/__init__.py defines
                for alias in node.names:
                    yield node.lineno, alias.name if alias.name in units else ""


def violations(package: Path) -> list[str]:
    """Each import from a higher layer, from another unit of the same layer, or that is forbidden."""
    units, found = units_in(package), []
    for path in sorted([*package.rglob("*.py"), *package.rglob("*.pyi")]):
        importer = unit_of(path, package)
        for line, imported in imports(path.read_text(encoding="utf-8"), module_of(path, package), units):
            where = f"{path.relative_to(package.parent)}:{line}"
            if imported == importer:
                continue
            if (importer, imported) in FORBIDDEN:
                found.append(f"{where}: {FORBIDDEN[importer, imported]}")
            elif DEPTH.get(imported, -1) <= DEPTH.get(importer, len(LAYERS)):
                found.append(f"{where}: {importer or '__init__'} may not import {imported or '__init__'}")
    return found


def test_every_unit_has_a_layer() -> None:
    unknown = units_in(PACKAGE) - set(DEPTH)
    assert not unknown, f"give {sorted(unknown)} a place in LAYERS here, and a word in docs/architecture.md"


def test_imports_point_down() -> None:
    assert violations(PACKAGE) == []


@pytest.mark.parametrize(
    ("unit", "source", "count"),
    [
        ("plan", "import craton.lower", 1),
        ("plan", "from craton.lower.expr import f", 1),
        ("plan", "from craton import lower", 1),
        ("plan", "from ..pandas import DataFrame", 1),
        ("plan", "from .. import pandas", 1),
        ("plan", "import craton", 1),
        ("plan", "def f():\n    import craton.pandas", 1),
        ("plan", "from . import expr\nfrom .expr import a\nfrom craton.plan import b", 0),
        ("plan", "from craton.errors import PlanError\nimport pandas\nfrom craton import _native", 0),
        ("kernel", "from craton.plan import Scan", 1),
        ("kernel", "import craton.pandas, craton.config", 1),
        ("lower", "from craton.plan import Scan\nfrom craton import kernel", 0),
        ("pandas", "from craton import lower, kernel, plan, config", 0),
        ("pandas", "from craton import accelerate, DataFrame", 2),
        ("errors", "from craton import _native", 1),
    ],
)
def test_the_test_sees(unit: str, source: str, count: int, tmp_path: Path) -> None:
    package = tmp_path / "craton"
    for layer in LAYERS:
        for name in layer - {"", "__main__", "_native"}:
            (package / name).mkdir(parents=True)
            (package / name / "__init__.py").touch()
    (package / "_native.pyi").touch()
    (package / "__init__.py").touch()
    (package / unit / "it.py").write_text(source)
    assert len(violations(package)) == count


def test_one_crate_knows_python() -> None:
    knowing = []
    for manifest in sorted((ROOT / "crates").glob("*/Cargo.toml")):
        tables = tomllib.loads(manifest.read_text(encoding="utf-8"))
        named = {
            name for key in ("dependencies", "dev-dependencies", "build-dependencies") for name in tables.get(key, {})
        }
        if any(name.startswith("pyo3") for name in named):
            knowing.append(manifest.parent.name)
    assert knowing == ["py"]


def test_every_crate_takes_the_workspaces_lints() -> None:
    manifests = sorted((ROOT / "crates").glob("*/Cargo.toml"))
    assert manifests
    for manifest in manifests:
        assert tomllib.loads(manifest.read_text(encoding="utf-8")).get("lints") == {"workspace": True}, manifest


def test_what_comes_back_to_a_program_comes_by_one_door() -> None:
    """Rows that are computed twice may differ in their last bits, so only the module that keeps results may run plans."""
    doors = {"persisting.py"}
    runs = {"execute", "sink"}
    for path in sorted((PACKAGE / "pandas").rglob("*.py")):
        imported = {
            alias.name
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.ImportFrom) and node.module == "craton.engine.run"
            for alias in node.names
        }
        assert path.name in doors or not imported & runs, (
            f"{path.name}: craton.engine's collect_rows, collect_scalars and run_into_sink keep what they hand out"
        )
