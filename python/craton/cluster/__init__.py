"""Sessions and clusters: the processes that run a program's tasks.

``craton.init("local", workers=4)`` begins a session, ``craton.shutdown()`` ends it. Without a session everything runs in this
process, and the modules that implement sessions are not imported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from craton.cluster.sessions import Session, begin, current, info, init, shutdown


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'craton.cluster' has no attribute {name!r}")
    from craton.cluster import sessions

    return getattr(sessions, name)


__all__ = ["Session", "begin", "current", "info", "init", "shutdown"]
