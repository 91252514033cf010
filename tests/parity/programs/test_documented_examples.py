"""The examples of pandas' docstrings, with every frame planned, as a whole and in tiles."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import craton
from craton.engine.tiled import TiledEngine, using
from craton.lower.tiled import Settings
from craton.schedule.inline import InlineRunner
from tests.parity.programs.documented import differences, docstrings, statements_of_docstring

DOCSTRINGS = docstrings()


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some examples write files."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("name", DOCSTRINGS)
def test_planned(name: str) -> None:
    with craton.option_context(small_rows=0):
        assert differences(statements_of_docstring(DOCSTRINGS[name])) == []


@pytest.mark.parametrize("name", DOCSTRINGS)
def test_in_tiles(name: str) -> None:
    engine = TiledEngine(InlineRunner(), settings=Settings(tiles=3, broadcast_bytes=1, collapse_bytes=0), least_bytes=0)
    with craton.option_context(small_rows=0), using(engine):
        assert differences(statements_of_docstring(DOCSTRINGS[name])) == []


def test_there_are_examples() -> None:
    assert len(DOCSTRINGS) > 500
    assert os.getcwd() != str(Path(__file__).parents[3])
