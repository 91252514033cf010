"""The examples in docstrings run, and print the output that the docstrings show."""

from __future__ import annotations

import ast
import doctest
from collections.abc import Iterator
from pathlib import Path

import pytest

import craton
from craton.store import close_store

ROOT = Path(__file__).resolve().parents[3]
# This package replaces pandas in the whole process, so test_accelerate.py tests it in separate programs.
ELSEWHERE = "accelerate"
FILES = sorted(
    path
    for pattern in ("*.py", "*.pyi")
    for path in (ROOT / "python" / "craton").rglob(pattern)
    if ELSEWHERE not in path.parts and ">>> " in path.read_text(encoding="utf-8")
)


def examples(path: Path) -> Iterator[doctest.DocTest]:
    """Each docstring in the file that has examples, as a test with empty globals."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        text = ast.get_docstring(node, clean=False)
        if text is None:
            continue
        name = getattr(node, "name", path.stem)
        test = doctest.DocTestParser().get_doctest(text, {}, name, str(path), node.body[0].lineno - 1)
        if test.examples:
            yield test


def names(path: Path) -> dict[str, object]:
    """The names that a docstring may use without importing them: those of its own module."""
    if path.suffix == ".pyi":
        return {}
    import importlib

    parts = path.relative_to(ROOT / "python").with_suffix("").parts
    return dict(vars(importlib.import_module(".".join(parts).removesuffix(".__init__"))))


def test_examples_are_found() -> None:
    packages = {path.relative_to(ROOT / "python" / "craton").parts[0] for path in FILES}
    assert {"store", "serialize", "pandas", "config.py", "_native.pyi"} <= packages


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT / "python" / "craton")))
def test_examples_of(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    craton.shutdown()  # ends the session of an earlier test
    try:
        for test in examples(path):
            test.globs = names(path)
            with craton.option_context():
                runner.run(test)
        assert runner.failures == 0, capsys.readouterr().out
    finally:
        close_store()
