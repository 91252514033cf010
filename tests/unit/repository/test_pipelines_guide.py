"""Every example of docs/pipelines.md runs, in order, and prints what the page says; its picture is the one that is drawn."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

import guides

from craton.demo import data

PICTURE = guides.ROOT / "docs" / "pictures" / "pipeline.svg"


@pytest.mark.skipif(
    shutil.which("tpchgen-cli", path=str(Path(sys.executable).parent)) is None,
    reason="the generator of TPC-H is not installed",
)
def test_the_guide(tmp_path: Path) -> None:
    assert data.find_generator()
    guides.check("pipelines.md", guides.environment(tmp_path, COLUMNS="200"), tmp_path)
    assert (tmp_path / "pipeline.svg").read_text() == PICTURE.read_text()
