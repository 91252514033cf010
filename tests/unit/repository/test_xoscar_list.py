"""The page about Xoscar's tests gives the same reasons as the tool's list."""

from __future__ import annotations

import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def test_the_page_has_every_reason() -> None:
    known = tomllib.loads((ROOT / "tools" / "xoscar_tests" / "known.toml").read_text(encoding="utf-8"))
    rows = [f"| `{file}` | {why} |" for file, why in known["files"].items()]
    for file, tests in known["tests"].items():
        rows += [f"| `{name}` in `{file}` | {why} |" for name, why in tests.items()]
    page = (ROOT / "docs" / "xoscar-tests.md").read_text(encoding="utf-8").splitlines()
    assert [row for row in rows if row not in page] == []
    assert [line for line in page if " |" in line and line.endswith(". |") and line not in rows] == []
