"""The contestants' Python environments: the project's own, and a separate one for each peer that needs other versions.

    python -m bench.environments modin dask

Environments are created once under ``build/bench-envs``, with ``venv`` and pip from pinned versions. A marker file, written
last, shows that an environment is complete and has the current versions.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

__all__ = ["PEERS", "Environment", "interpreter", "make"]

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "build" / "bench-envs"
MARKER = "bench-environment.json"


@dataclass(frozen=True)
class Environment:
    """The requirements of a peer.

    Attributes
    ----------
    packages : tuple of str
        Requirements for pip, pinned.
    python : str
        Version of the interpreter, such as ``"3.11"``.
    programs : tuple of str
        Programs that must be on the PATH.
    """

    packages: tuple[str, ...]
    python: str = "3.11"
    programs: tuple[str, ...] = field(default=())


PEERS: dict[str, Environment] = {
    "ray": Environment(("ray==2.60.0", "numpy==2.4.6", "psutil==7.2.2")),
    "xoscar": Environment(("xoscar==0.12.2", "uvloop==0.22.1", "numpy==2.4.6", "pandas==2.3.3")),
    "modin": Environment(("modin[ray]==0.37.1", "ray==2.60.0", "pandas==2.3.3")),
    "dask": Environment(("dask[dataframe,distributed]==2026.8.0", "pandas==3.1.1", "pyarrow==26.0.1")),
    "fireducks": Environment(("fireducks==1.4.4", "pandas==2.3.3")),
    "pyspark": Environment(("pyspark==4.3.0", "pandas==2.3.3", "pyarrow==25.0.1", "setuptools<81"), programs=("java",)),
    "bodo": Environment(("bodo==2026.10", "pandas>=3.0,<3.1"), python="3.12"),
    "daft": Environment(("daft==0.7.26", "pandas==3.1.1", "pyarrow==25.0.1")),
}
"""Peers with a separate environment; pandas, Polars and DuckDB are in the project's environment."""


def interpreter(
    name: str,
    *,
    folder: Path = FOLDER,
    progress: Callable[[str], None] = lambda line: None,
) -> Path:
    """Return the Python interpreter of a contestant; if it has a separate environment that does not exist yet, create it.

    Parameters
    ----------
    name : str
        The contestant.
    folder : path
        The folder of all environments.
    progress : callable
        Called with a line of text when an environment is created, which takes minutes.
    """
    if name not in PEERS:
        return Path(sys.executable)
    return make(name, PEERS[name], folder=folder, progress=progress)


def make(
    name: str,
    environment: Environment,
    *,
    folder: Path = FOLDER,
    progress: Callable[[str], None] = lambda line: None,
) -> Path:
    """Create an environment unless it exists, and return its Python interpreter.

    Raises
    ------
    RuntimeError
        A program or an interpreter is missing, or pip failed; the message ends with pip's output.
    """
    place = folder / name
    python = place / "bin" / "python"
    wanted = json.dumps(asdict(environment), indent=1)
    marker = place / MARKER
    missing = [program for program in environment.programs if shutil.which(program) is None]
    if missing:
        raise RuntimeError(f"{name} needs {' and '.join(missing)} on the PATH; install it")
    if marker.is_file() and marker.read_text(encoding="utf-8") == wanted and python.exists():
        return python
    base = find_python(environment.python)
    progress(f"{name}: creating its environment (Python {environment.python}: {', '.join(environment.packages)})")
    shutil.rmtree(place, ignore_errors=True)
    place.parent.mkdir(parents=True, exist_ok=True)
    _call(name, [str(base), "-m", "venv", str(place)])
    _call(
        name,
        [
            str(python),
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            *environment.packages,
        ],
    )
    marker.write_text(wanted, encoding="utf-8")
    return python


def find_python(version: str) -> Path:
    """Return an interpreter of a version: this one, one on the PATH, or one that pyenv installed.

    Raises
    ------
    RuntimeError
        None was found.
    """
    if version == f"{sys.version_info.major}.{sys.version_info.minor}":
        return Path(sys.executable)
    candidates = [shutil.which(f"python{version}")]
    candidates += [str(path) for path in sorted((Path.home() / ".pyenv" / "versions").glob(f"{version}.*/bin/python"))]
    for candidate in candidates:
        if candidate is not None and _is_version(candidate, version):
            return Path(candidate)
    raise RuntimeError(f"no Python {version} was found on the PATH or among pyenv's versions; install one")


def _is_version(python: str, version: str) -> bool:
    asked = "import sys; print('%d.%d' % sys.version_info[:2])"
    try:
        said = subprocess.run(
            [python, "-c", asked],
            capture_output=True,
            text=True,
            check=True,
            timeout=30,
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return said.stdout.strip() == version


def _call(name: str, command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        said = " | ".join((done.stderr.strip() or done.stdout.strip()).splitlines()[-3:])
        raise RuntimeError(f"`{' '.join(command[1:4])} …` for {name} ended with exit status {done.returncode}: {said}")


def main(argv: list[str] | None = None) -> int:
    """Create the named environments, or all; print for each whether it is ready."""
    parser = argparse.ArgumentParser(prog="python -m bench.environments", description=__doc__.splitlines()[0])
    parser.add_argument("peers", nargs="*", metavar="PEER", help=f"any of {', '.join(PEERS)} (default: all)")
    chosen: list[str] = parser.parse_args(argv).peers or list(PEERS)
    unknown = [name for name in chosen if name not in PEERS]
    if unknown:
        parser.error(f"no separate environment for {', '.join(unknown)}; choose from {', '.join(PEERS)}")
    failed = 0
    for name in chosen:
        try:
            interpreter(name, progress=print)
            print(f"{name}: ready")
        except RuntimeError as error:
            failed += 1
            print(f"{name}: {error}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
