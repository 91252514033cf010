"""Sessions and clusters: which processes run a program's tasks.

``craton.init("local", workers=4)`` begins a session, ``craton.shutdown()`` ends it; without one, everything runs in this
process, and what sessions need is not even imported.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from craton.cluster.sessions import Session, begin, current, info, init, shutdown

#: In the environment: the host to use unless the program says another, as :func:`craton.cluster.sessions.parse` reads it.
VARIABLE = "CRATON_CLUSTER"


def wanted() -> bool:
    """Whether this process may have a session: one was begun, or the environment asks for one."""
    return "craton.cluster.sessions" in sys.modules or bool(os.environ.get(VARIABLE))


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'craton.cluster' has no attribute {name!r}")
    from craton.cluster import sessions

    return getattr(sessions, name)


__all__ = ["Session", "begin", "current", "info", "init", "shutdown"]
