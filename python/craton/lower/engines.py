"""The engine that runs plans as tiles, if there is one, without importing what tiles need where there is none."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from craton import cluster

if TYPE_CHECKING:
    from craton.lower.tiled.running import TiledEngine


def present_engine() -> TiledEngine | None:
    """The engine that was set, or the session's; None where plans run as a whole in this process."""
    if "craton.lower.tiled.running" not in sys.modules and not cluster.wanted():
        return None
    from craton.lower.tiled.running import current_engine

    return current_engine()
