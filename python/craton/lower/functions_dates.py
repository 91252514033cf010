"""Date and time functions as Polars expressions."""

from __future__ import annotations

import polars as pl

from craton.lower.expressions import Spec, lowers


@lowers("dt_part")
def _part(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    """A number out of a date or a span of time: ``part`` names the Polars method."""
    part = getattr(args[0].dt, spec.option("part"))()
    shift = spec.option("shift", 0)
    return (part + shift if shift else part).cast(spec.dtype)


@lowers("dt_parse")
def _parse(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    """Datetimes from text that is known to have the format."""
    return args[0].str.to_datetime(spec.option("format"), time_unit=spec.dtype.time_unit, strict=True)  # type: ignore[attr-defined]
