"""Virtual environments for steps that need other packages than the program has.

An environment is made once for each list of requirements and interpreter, below ``$XDG_CACHE_HOME/craton/environments``. Its packages come
first; all others are those of this process, Craton among them. uv installs them if it is there, else pip.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

__all__ = ["InstallationFailed", "folder", "python_with"]

#: Packages whose versions should be those of this process, unless the requirements name them: they share memory with it.
_SHARED = ("numpy", "pandas", "polars", "pyarrow")
#: The last characters of an installer's output that an error shows.
_SHOWN = 4000


class InstallationFailed(Exception):
    """An environment could not be made; the text has the last lines of what the installer wrote."""


def folder() -> Path:
    """Return the folder that has the environments."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "craton" / "environments"


def python_with(packages: Sequence[str]) -> str:
    """Return the interpreter of an environment that has these packages, which is made if there is none.

    Parameters
    ----------
    packages
        Requirements, as for ``pip install``.

    Raises
    ------
    InstallationFailed
        If they cannot be installed.
    """
    constraints = _constraints(packages)
    identity = "\n".join([sys.executable, sys.version, *sorted(packages), *constraints])
    place = folder() / hashlib.sha256(identity.encode()).hexdigest()[:32]
    python = place / "bin" / "python"
    done = place / "complete"
    if done.exists():
        return str(python)
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with open(place.with_suffix(".lock"), "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # another process may be making it
            if not done.exists():
                shutil.rmtree(place, ignore_errors=True)
                _make(place, python, packages, constraints)
                done.touch()
    except OSError as error:
        raise InstallationFailed(f"the environment cannot be made in {place.parent}: {error}") from error
    return str(python)


def _constraints(packages: Sequence[str]) -> list[str]:
    named = {re.split(r"[^A-Za-z0-9._-]", one.strip(), maxsplit=1)[0].lower() for one in packages}
    found = []
    for name in _SHARED:
        with suppress(importlib.metadata.PackageNotFoundError):
            if name not in named:
                found.append(f"{name}=={importlib.metadata.version(name)}")
    return found


def _make(place: Path, python: Path, packages: Sequence[str], constraints: Sequence[str]) -> None:
    uv = shutil.which("uv")
    if uv:
        _run([uv, "venv", "--quiet", "--no-project", "--python", sys.executable, str(place)], packages)
        install = [uv, "pip", "install", "--python", str(python)]
    else:
        _run([sys.executable, "-m", "venv", "--without-pip", str(place)], packages)
        install = [sys.executable, "-m", "pip", "--python", str(python), "install", "--disable-pip-version-check"]
    file = place / "constraints.txt"
    file.write_text("".join(f"{one}\n" for one in constraints))
    _run([*install, "--constraint", str(file), "--", *packages], packages)


def _run(command: Sequence[str], packages: Sequence[str]) -> None:
    ended = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    if ended.returncode != 0:
        text = ended.stdout.strip()
        shown = text if len(text) <= _SHOWN else "…" + text[-_SHOWN:]
        raise InstallationFailed(f"its packages ({', '.join(packages)}) do not install:\n{shown}")
