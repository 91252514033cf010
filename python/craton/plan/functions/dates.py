"""Functions of dates and times."""

from __future__ import annotations

import polars as pl

from craton.plan.functions.rowwise import rowwise
from craton.plan.functions.strategies import INT, Spec
from craton.plan.registry import BOOLEANS, NUMBERS, TEMPORALS, TEXTS, Argument, Cost, Family, NaNs, Nulls, cast_to


@rowwise(
    "dt_part",
    signature=(Argument("value", TEMPORALS),),
    result=cast_to(NUMBERS | BOOLEANS, INT),
    nulls=Nulls.PROPAGATED,
    nans=NaNs.NOT_ACCEPTED,
    cost=Cost.VALUES,
)
def _part(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    """A component of a date or a duration; the option ``part`` names the Polars method."""
    part = getattr(args[0].dt, spec.option("part"))()
    shift = spec.option("shift", 0)
    return (part + shift if shift else part).cast(spec.dtype)


@rowwise(
    "dt_parse",
    signature=(Argument("text", TEXTS),),
    result=cast_to(Family("date and time", frozenset([pl.Datetime])), pl.Datetime("us")),
    nulls=Nulls.PROPAGATED,
    nans=NaNs.NOT_ACCEPTED,
    cost=Cost.VALUES,
)
def _parse(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    """Datetimes from strings. Those without the format are an error; null if the option ``strict`` is false."""
    strict = spec.option("strict", True)
    return args[0].str.to_datetime(spec.option("format"), time_unit=spec.dtype.time_unit, strict=strict)  # type: ignore[attr-defined]
