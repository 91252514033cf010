"""Every example of docs/communicators.md runs, in order, and prints what the page says."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import guides


def test_the_guide(tmp_path: Path) -> None:
    guides.check("communicators.md", guides.environment(tmp_path, TMPDIR=str(tmp_path)), tmp_path)
