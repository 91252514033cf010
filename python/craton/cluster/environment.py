"""What the environment says of sessions, for those who do not import what sessions need."""

from __future__ import annotations

import os
import sys

#: In the environment: the host to use unless the program says another, as :func:`craton.cluster.sessions.parse` reads it.
VARIABLE = "CRATON_CLUSTER"


def wanted() -> bool:
    """Whether this process may have a session: one was begun, or the environment asks for one."""
    return "craton.cluster.sessions" in sys.modules or bool(os.environ.get(VARIABLE))
