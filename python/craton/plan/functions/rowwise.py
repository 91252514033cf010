"""Registers row-wise functions, which share most fields of their records."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from craton.plan.functions.strategies import EachRow
from craton.plan.registry import Argument, Cost, Kind, Lowering, NaNs, Nulls, Order, Result, never, register


def rowwise(
    *names: str,
    signature: tuple[Argument, ...],
    result: Result,
    nulls: Nulls,
    nans: NaNs,
    cost: Cost,
    raises: Callable[[Any], bool] = never,
) -> Callable[[Lowering], Lowering]:
    """Register row-wise functions: the order of rows does not matter, and each tile is computed independently."""
    return _registered(*names, signature=signature, result=result, nulls=nulls, nans=nans, cost=cost, raises=raises)


_registered = partial(
    register,
    kind=Kind.ROWWISE,
    order=Order.ANY,
    phases=None,
    one_row=None,
    tiling=lambda call: EachRow(),
    holds_values=False,
)
