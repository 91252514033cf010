"""Sessions and clusters: which processes run a program's tasks.

``craton.init("local", workers=4)`` begins a session, ``craton.shutdown()`` ends it; without one, everything runs in this
process.
"""

from __future__ import annotations

from craton.cluster.sessions import Session, begin, current, info, init, shutdown

__all__ = ["Session", "begin", "current", "info", "init", "shutdown"]
