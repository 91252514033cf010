"""Which engine runs plans: the kernel in this process as a whole, or tiles; what tiles need is imported only where they are wanted."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from craton.cluster.environment import may_have_session
from craton.engine.bounded import bounded_engine
from craton.plan.operators import Operator

if TYPE_CHECKING:
    from craton.engine.tiled import TiledEngine


def present_engine() -> TiledEngine | None:
    """The engine that was set, or the session's; None where plans run as a whole in this process."""
    if "craton.engine.tiled" not in sys.modules and not may_have_session():
        return None
    from craton.engine.tiled import current_engine

    return current_engine()


def chosen_engine(plans: list[Operator], ordered: bool = True) -> TiledEngine | None:
    """What runs plans as tiles: where tasks run, or where memory is short; None if they run as a whole."""
    engine, refusal = expected_engine(plans, ordered)
    return engine if refusal is None else None


def expected_engine(plans: list[Operator], ordered: bool = True) -> tuple[TiledEngine | None, str | None]:
    """What runs plans as tiles, and why it does not take them if so; None where there is nothing but this process."""
    engine = present_engine() or bounded_engine(plans, ordered)
    return engine, None if engine is None else engine.refusal(plans)
