"""Every example of docs/actors.md runs, in order and in one event loop, and prints what the page says."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import guides


def test_the_guide(tmp_path: Path) -> None:
    guides.check("actors.md", guides.environment(tmp_path), tmp_path, seconds=60)
