"""Functions that wait for the import of a module are called once, right after it."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path

import pytest

from craton.imported import when_imported


def test_a_function_waits_for_a_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a_module_that_is_awaited.py").write_text("value = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    seen: list[int] = []
    when_imported("a_module_that_is_awaited", lambda module: seen.append(module.value))
    assert importlib.util.find_spec("a_module_that_is_awaited") is not None
    assert seen == []
    module = importlib.import_module("a_module_that_is_awaited")
    assert seen == [1]
    monkeypatch.delitem(sys.modules, "a_module_that_is_awaited")
    importlib.import_module("a_module_that_is_awaited")
    assert seen == [1]
    when_imported("a_module_that_is_awaited", lambda module: seen.append(module.value + 1))
    assert seen == [1, 2]
    assert module.value == 1


def test_a_module_that_is_not_installed() -> None:
    when_imported("a_module_that_nobody_has", lambda module: pytest.fail("called"))
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("a_module_that_nobody_has")
