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


@lowers("dt_date")
def _date(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    return args[0].dt.date()


@lowers("dt_truncate")
def _truncate(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    return args[0].dt.truncate(spec.option("every"))


@lowers("dt_offset")
def _offset(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    return args[0].dt.offset_by(spec.option("by"))


@lowers("dt_zone")
def _zone(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    """``convert``: the same instants in another zone; ``drop``: their wall times; ``set``: wall times given a zone."""
    zone = spec.option("zone")
    match spec.option("how"):
        case "convert":
            return args[0].dt.convert_time_zone(zone)
        case "drop":
            return args[0].dt.replace_time_zone(None)
        case _:
            return args[0].dt.replace_time_zone(zone, ambiguous="raise", non_existent="raise")


@lowers("dt_format")
def _format(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    return args[0].dt.strftime(spec.option("format"))


@lowers("dt_parse")
def _parse(args: list[pl.Expr], spec: Spec) -> pl.Expr:
    return args[0].str.to_datetime(
        spec.option("format"), time_unit=spec.dtype.time_unit, strict=spec.option("strict", True)  # type: ignore[attr-defined]
    )
