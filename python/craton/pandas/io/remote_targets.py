"""Remote objects that a program writes while its own frames read them.

A local file stays readable through an open descriptor; the rows of a remote object are lost once it is replaced. pandas has them in
memory by then. So the frames that read it are evaluated first.
"""

from __future__ import annotations

from craton.engine.live_objects import live_objects
from craton.plan.operators import Operator, Scan
from craton.plan.rules.unnest import nested_plans
from craton.plan.sources import FileSource
from craton.plan.visit import topological


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
    found: set[str] = set()
    for op in topological(plan):
        if isinstance(op, Scan) and isinstance(op.source, FileSource):
            if op.source.filesystem is not None or any("://" in path for path in op.source.paths):
                found.update(map(_place, op.source.paths))
        else:
            found.update(*map(_remote_names, nested_plans(op)))
    return found


def _place(url: str) -> str:
    """A URL, or a path in its file system, without the scheme, in which the two may differ."""
    return url.rpartition("://")[2].strip("/")
