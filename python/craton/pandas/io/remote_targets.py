"""Remote objects that a program writes while its own frames read them.

A local file stays readable through an open descriptor; the rows of a remote object are lost once it is replaced. pandas has them in
memory by then. So the frames that read it are evaluated first.
"""

from __future__ import annotations

from craton.engine.live_objects import live_objects
from craton.plan.operators import Operator, Scan
from craton.plan.rules.unnest import every_operator
from craton.plan.sources import FileSource


def evaluate_readers(url: str) -> None:
    """Evaluate all live objects whose plans read an object, or one in a folder, that is about to be written.

    Parameters
    ----------
    url
        The URL of the object or folder.
    """
    target = _place(url)
    for obj, view in list(live_objects()):
        if any(name == target or name.startswith(f"{target}/") for name in _remote_names(view.base)):
            _ = obj._mgr


def _remote_names(plan: Operator) -> set[str]:
    files = [op.source for op in every_operator(plan) if isinstance(op, Scan) and isinstance(op.source, FileSource)]
    remote = [file for file in files if file.filesystem is not None or any("://" in path for path in file.paths)]
    return {_place(path) for file in remote for path in file.paths}


def _place(url: str) -> str:
    """A URL, or a path in its file system, without the scheme, in which the two may differ."""
    return url.rpartition("://")[2].strip("/")
