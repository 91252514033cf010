"""The environment variable that selects a session. It is not in `craton.cluster.sessions`, so that reading it does not import that."""

from __future__ import annotations

import os
import sys

#: The environment variable that names the cluster for programs that do not call ``craton.init``; parsed by
#: :func:`craton.cluster.sessions.parse_cluster`.
VARIABLE = "CRATON_CLUSTER"


def may_have_session() -> bool:
    """Return whether this process may have a session: sessions are imported, or the environment names a cluster."""
    return "craton.cluster.sessions" in sys.modules or bool(os.environ.get(VARIABLE))
