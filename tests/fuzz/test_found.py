"""Programs in which the fuzzer once found differences do not differ any more."""

from __future__ import annotations

import pytest

from tests.fuzz import oracle
from tests.fuzz.found import FOUND, OPEN
from tests.fuzz.modes import MODES
from tests.fuzz.programs import Program

EMBEDDED = ["single-node", "default", "tiles1", "tiles3"]


@pytest.mark.parametrize("mode", EMBEDDED)
@pytest.mark.parametrize("name", FOUND)
def test_found(name: str, mode: str) -> None:
    assert oracle.check(Program.of(FOUND[name]), MODES[mode], fresh=True) == []


@pytest.mark.parametrize("name", OPEN)
@pytest.mark.xfail(strict=False, reason="found, and not fixed yet")
def test_open(name: str) -> None:
    assert oracle.check(Program.of(OPEN[name]), MODES["single-node"], fresh=True) == []
