"""Programs in strings of tests and benchmarks use only names that exist, so a renamed function cannot be overlooked there."""

from __future__ import annotations

import ast
import importlib
import textwrap
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
from tracked import texts

import craton

#: Files whose strings are examples for tests such as this one.
EXAMPLES = ("tests/unit/repository/test_layers.py", "tests/unit/repository/test_programs_in_texts.py")


def programs(source: str) -> Iterator[ast.Module]:
    """The string constants of several lines that are Python programs."""
    for node in ast.walk(ast.parse(source)):
        if not (isinstance(node, ast.Constant) and isinstance(node.value, str) and "\n" in node.value):
            continue
        try:
            yield ast.parse(textwrap.dedent(node.value))
        except (SyntaxError, ValueError):
            continue


def missing(program: ast.Module) -> list[str]:
    """The names that a program uses from Craton's modules and classes, and that do not exist."""
    names: dict[str, Any] = {"craton": craton}
    found = []
    for node in ast.walk(program):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "craton":
            for alias in node.names:
                try:
                    names[alias.asname or alias.name] = _attribute(str(node.module), alias.name)
                except (ImportError, AttributeError):
                    found.append(f"{node.module}.{alias.name}")
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.partition(".")[0] == "craton":
                    try:
                        module = importlib.import_module(alias.name)
                    except ImportError:
                        found.append(alias.name)
                    else:
                        names[alias.asname or "craton"] = module if alias.asname else craton
    assigned = {
        node.attr for node in ast.walk(program) if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
    }
    for node in ast.walk(program):
        path: list[str] = []
        inner: ast.AST = node
        while isinstance(inner, ast.Attribute):
            path.append(inner.attr)
            inner = inner.value
        if not path or not isinstance(inner, ast.Name) or inner.id not in names:
            continue
        value = names[inner.id]
        for name in reversed(path):
            if not isinstance(value, (ModuleType, type)) or name in assigned:
                break
            if not hasattr(value, name):
                found.append(f"{inner.id}.{name}")
                break
            value = getattr(value, name)
    return found


def _attribute(module: str, name: str) -> Any:
    try:
        return getattr(importlib.import_module(module), name)
    except AttributeError:
        return importlib.import_module(f"{module}.{name}")


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("from craton.engine import kernel_process\nkernel_process.nowhere(1)", ["kernel_process.nowhere"]),
        ("from craton.engine import nothing\n", ["craton.engine.nothing"]),
        ("import craton.nothing\n", ["craton.nothing"]),
        ("import craton.pandas as pd\npd.DataFrame.nothing\npd.DataFrame.sum", ["pd.nothing"]),
        ("import craton\ncraton.options.nothing\ncraton.put\npass", []),
    ],
)
def test_what_is_found(text: str, names: list[str]) -> None:
    (program,) = programs(repr(text))
    assert missing(program) == names


def test_programs_in_texts_name_what_exists() -> None:
    found = {
        name: wrong
        for name, source in texts(".py")
        if name.startswith(("tests/", "bench/")) and name not in EXAMPLES
        if (wrong := [missed for program in programs(source) for missed in missing(program)])
    }
    assert found == {}
