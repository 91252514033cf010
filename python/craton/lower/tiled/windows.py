"""Rules of windows: values on a row that depend on other rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from craton.lower.tiled.tiles import Tiles

if TYPE_CHECKING:
    from craton.lower.tiled.planner import Tiling
    from craton.plan.operators import Project


async def project_windows(tiling: Tiling, op: Project, tiles: Tiles) -> Tiles:
    """A projection with windows."""
    raise NotImplementedError
