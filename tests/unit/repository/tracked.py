"""Lists the files of the repository."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
BUILT = {
    ".git",
    ".venv",
    "build",
    "target",
    "dist",
    "__pycache__",
    ".mypy_cache",
    ".ruff_cache",
    ".pytest_cache",
    ".hypothesis",
}


@cache
def files() -> tuple[Path, ...]:
    """All files that are tracked by git, or are new and not ignored."""
    try:
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT,
            capture_output=True,
            check=True,
        ).stdout.decode()
        found = [ROOT / name for name in listed.split("\0") if name]
    except (OSError, subprocess.CalledProcessError):  # this is a source archive, or git is not installed
        found = [path for path in ROOT.rglob("*") if not BUILT.intersection(path.relative_to(ROOT).parts)]
    return tuple(sorted(path for path in found if path.is_file()))


def texts(*suffixes: str) -> list[tuple[str, str]]:
    """The name and content of each text file, optionally only of files with these suffixes."""
    found = []
    for path in files():
        if suffixes and path.suffix not in suffixes:
            continue
        data = path.read_bytes()
        if b"\0" not in data:
            found.append((str(path.relative_to(ROOT)), data.decode("utf-8")))
    return found
