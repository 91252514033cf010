"""Chooses between a single-node run of the kernel in this process and a tiled run.

The modules of tiled runs are imported only if one is possible, to keep start-up short.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from craton.cluster.environment import may_have_session
from craton.engine.bounded import bounded_engine
from craton.plan.operators import Operator

if TYPE_CHECKING:
    from craton.engine.tiled import TiledEngine


def present_engine() -> TiledEngine | None:
    """The engine that was set, or the session's; None if plans run on a single node in this process."""
    if "craton.engine.tiled" not in sys.modules and not may_have_session():
        return None
    from craton.engine.tiled import current_engine

    return current_engine()


def chosen_engine(plans: list[Operator], ordered: bool = True) -> TiledEngine | None:
    """The engine that runs plans as tiles, on workers or because memory is short; None for a single-node run."""
    engine, refusal = expected_engine(plans, ordered)
    return engine if refusal is None else None


def expected_engine(plans: list[Operator], ordered: bool = True) -> tuple[TiledEngine | None, str | None]:
    """The engine that could run plans as tiles, and its reason for refusing them, if it does; None if there is no engine."""
    engine = present_engine() or bounded_engine(plans, ordered)
    return engine, None if engine is None else engine.refusal(plans)
