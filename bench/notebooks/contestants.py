"""How each contestant runs the notebooks. The module is imported in the contestant's own environment."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from pathlib import Path
from typing import Any

from bench.harness import answers
from bench.harness.worker import Contestant
from bench.notebooks.cells import Outcome, run
from bench.pandas_likes import PANDAS_LIKES, PandasLike

__all__ = ["CONTESTANTS", "Notebooks", "open_contestant"]

MODULES = {"pandas": "pandas", "craton": "craton.pandas"}
CONTESTANTS = tuple(MODULES)
"""The valid names for ``--contestants``."""


class Notebooks:
    """An engine that runs notebooks.

    Parameters
    ----------
    engine : PandasLike
        The engine.
    module : str
        The module that the notebooks import as ``pd``.
    folders : dict
        The folder of each notebook's files.
    """

    def __init__(self, engine: PandasLike, module: str, folders: dict[str, str]) -> None:
        self._module, self._folders = module, folders
        self._last: Outcome | None = None
        self.versions, self._clear_caches = engine.versions, engine.forget

    def forget(self) -> None:
        """Drop the variables of the last run, and clear the engine's caches."""
        self._last = None
        self._clear_caches()

    def run(self, case: str) -> Outcome:
        """Run a notebook, in a folder with links to its files."""
        folder = Path(tempfile.mkdtemp(prefix="bench-notebooks-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        for path in Path(self._folders[case]).iterdir():
            (folder / path.name).symlink_to(path)
        self._last = run(case, self._module, folder)
        return self._last

    def parts(self) -> dict[str, float]:
        """Return the seconds of each cell of the last run."""
        return dict(self._last.seconds) if self._last is not None else {}

    def answer(self, case: str, result: Outcome) -> Any:
        """Return the printed words and numbers of each cell."""
        return {title: [_number(word) for word in text.split()] for title, text in result.printed.items()}


def _number(word: str) -> Any:
    try:
        return answers.plain(float(word))
    except ValueError:
        return word


def open_contestant(name: str, options: dict[str, Any]) -> Contestant:
    """Return a contestant.

    Parameters
    ----------
    name : str
        One of `CONTESTANTS`.
    options : dict
        ``folders``: the folder of each notebook's files.
    """
    return Notebooks(PANDAS_LIKES[name](), MODULES[name], options["folders"])
