"""Aggregates in two phases: what each tile computes, and how its results become one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import polars as pl

from craton.lower.tiled.tiles import hidden_name
from craton.plan.expr import Call, Column, Expr, Literal, Window, dtype_of
from craton.plan.operators import AggregateCall

Named = tuple[str, Expr]
NamedCall = tuple[str, AggregateCall]

INT, FLOAT, BOOL = pl.Int64(), pl.Float64(), pl.Boolean()


@dataclass(frozen=True, slots=True)
class Phases:
    """One aggregate in phases.

    Parameters
    ----------
    partial
        What is computed of a group's rows in each tile.
    before
        Given the keys: columns computed of the partial results of all tiles, row by row or over the rows of one group,
        before they are combined.
    combine
        What is computed of a group's partial results.
    final
        The aggregate, of what was combined.
    in_order
        Whether partial results have to come in the order of the tiles.
    """

    partial: tuple[NamedCall, ...]
    combine: tuple[NamedCall, ...]
    final: Expr
    before: Callable[[Sequence[Expr]], list[Named]] | None = None
    in_order: bool = False


def phases_of(call: AggregateCall) -> Phases | None:
    """The phases of an aggregate; None if it needs all rows of a group at once."""
    rule = _RULES.get(call.function)
    return None if rule is None else rule(call)


def _same(call: AggregateCall, again: str | None = None, **changes: object) -> Phases:
    """A function that is combined by itself, or by another."""
    part, total = hidden_name(), hidden_name()
    combine = AggregateCall(again or call.function, (Column(part, call.dtype),), call.dtype)
    return Phases(((part, call),), ((total, combine),), Column(total, call.dtype), **changes)  # type: ignore[arg-type]


def _total(call: AggregateCall) -> Phases | None:
    """A sum or a product, null where fewer than ``min_count`` values are not missing."""
    if not (call.dtype.is_numeric() or call.dtype == pl.Duration) or isinstance(call.dtype, pl.Decimal):
        return None
    least = call.option("min_count", 0)
    plain = AggregateCall(call.function, call.args, call.dtype)
    found = _same(plain)
    if least <= 0:
        return found
    counted, count = _counted(call.args[0])
    enough = Call("ge", (count.final, Literal(least, INT)), BOOL)
    final = Call("when", (enough, found.final, Literal(None, call.dtype)), call.dtype)
    return Phases((*found.partial, *counted), (*found.combine, *count.combine), final)


def _counted(arg: Expr) -> tuple[tuple[NamedCall, ...], Phases]:
    found = _same(AggregateCall("count", (arg,), INT), "sum")
    return found.partial, found


def _count(call: AggregateCall) -> Phases:
    return _same(call, "sum")


def _mean(call: AggregateCall) -> Phases | None:
    (arg,) = call.args
    if not (dtype_of(arg).is_numeric() or dtype_of(arg) == BOOL) or isinstance(dtype_of(arg), pl.Decimal):
        return None
    total = _same(AggregateCall("sum", (Call("cast", (arg,), FLOAT),), FLOAT))
    counted, count = _counted(arg)
    mean = Call("truediv", (total.final, Call("cast", (count.final,), FLOAT)), FLOAT)
    some = Call("gt", (count.final, Literal(0, INT)), BOOL)
    final: Expr = Call("when", (some, mean, Literal(None, FLOAT)), FLOAT)
    if call.dtype != FLOAT:
        final = Call("cast", (final,), call.dtype)
    return Phases((*total.partial, *counted), (*total.combine, *count.combine), final)


def _moments(call: AggregateCall) -> Phases | None:
    """Variance and what is made of it: squares of deviations of each tile's mean from the group's are added (Chan)."""
    (arg,) = call.args
    if not (dtype_of(arg).is_numeric() or dtype_of(arg) == BOOL) or isinstance(dtype_of(arg), pl.Decimal):
        return None
    value = Call("cast", (arg,), FLOAT)
    n, mean, var, squares = (hidden_name() for _ in range(4))
    count_, mean_, var_ = Column(n, INT), Column(mean, FLOAT), Column(var, FLOAT)
    rows = Call("cast", (count_,), FLOAT)
    sums = Call("mul", (mean_, rows), FLOAT)

    def before(keys: Sequence[Expr]) -> list[Named]:
        of_all = Call(
            "truediv",
            (Window("sum", (sums,), FLOAT, tuple(keys)), Window("sum", (rows,), FLOAT, tuple(keys))),
            FLOAT,
        )
        off = Call("sub", (mean_, of_all), FLOAT)
        between = Call("mul", (Call("mul", (off, off), FLOAT), rows), FLOAT)
        within = Call("mul", (var_, rows), FLOAT)
        return [(squares, Call("add", (within, between), FLOAT))]

    total, count = hidden_name(), hidden_name()
    combine = (
        (total, AggregateCall("sum", (Column(squares, FLOAT),), FLOAT)),
        (count, AggregateCall("sum", (count_,), INT)),
    )
    ddof = call.option("ddof", 1)
    free = Call("sub", (Column(count, INT), Literal(ddof, INT)), INT)
    final: Expr = Call("truediv", (Column(total, FLOAT), Call("cast", (free,), FLOAT)), FLOAT)
    if call.function in ("std", "sem"):
        final = Call("pow", (final, Literal(0.5, FLOAT)), FLOAT)
    if call.function == "sem":
        root = Call("pow", (Call("cast", (Column(count, INT),), FLOAT), Literal(0.5, FLOAT)), FLOAT)
        final = Call("truediv", (final, root), FLOAT)
    enough = Call("gt", (free, Literal(0, INT)), BOOL)
    final = Call("when", (enough, final, Literal(None, FLOAT)), FLOAT)
    if call.dtype != FLOAT:
        final = Call("cast", (final,), call.dtype)
    partial = (
        (n, AggregateCall("count", (arg,), INT)),
        (mean, AggregateCall("mean", (value,), FLOAT)),
        (var, AggregateCall("var", (value,), FLOAT, (("ddof", 0),))),
    )
    return Phases(partial, combine, final, before)


def _first(call: AggregateCall) -> Phases:
    part, found = hidden_name(), hidden_name()
    combine = AggregateCall(call.function, (Column(part, call.dtype),), call.dtype, call.options)
    return Phases(((part, call),), ((found, combine),), Column(found, call.dtype), in_order=True)


def _label(call: AggregateCall) -> Phases:
    _, value = call.args
    extreme = "min" if call.function == "label_of_min" else "max"
    best, part, found = hidden_name(), hidden_name(), hidden_name()
    partial = ((best, AggregateCall(extreme, (value,), dtype_of(value))), (part, call))
    again = AggregateCall(call.function, (Column(part, call.dtype), Column(best, dtype_of(value))), call.dtype)
    return Phases(partial, ((found, again),), Column(found, call.dtype), in_order=True)


_RULES: dict[str, Callable[[AggregateCall], Phases | None]] = {
    "sum": _total,
    "product": _total,
    "count": _count,
    "len": _count,
    "null_count": _count,
    "min": _same,
    "max": _same,
    "any": _same,
    "all": _same,
    "mean": _mean,
    "var": _moments,
    "std": _moments,
    "sem": _moments,
    "first": _first,
    "last": _first,
    "label_of_min": _label,
    "label_of_max": _label,
}
