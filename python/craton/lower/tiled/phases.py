"""Aggregates in two phases: what each tile computes, and how its results become one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import polars as pl

from craton.plan.expr import Call, Column, Expr, Literal, WindowCall, dtype_of, substitute
from craton.plan.names import hidden_name
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
    keys
        What else rows are grouped by in each tile.
    """

    partial: tuple[NamedCall, ...]
    combine: tuple[NamedCall, ...]
    final: Expr
    before: Callable[[Sequence[Expr]], list[Named]] | None = None
    in_order: bool = False
    keys: tuple[Named, ...] = ()


def phases_of(call: AggregateCall) -> Phases | None:
    """The phases of an aggregate; None if it needs all rows of a group at once."""
    rule = _RULES.get(call.function)
    return None if rule is None else rule(call)


def without_twins(phases: Sequence[Phases]) -> list[Phases]:
    """The same phases, where what several of them compute of each tile's rows is computed once."""
    known: dict[AggregateCall, Column] = {}
    found = []
    for phase in phases:
        same: dict[str, Expr] = {}
        partial = []
        for name, call in phase.partial:
            if phase.before is None and call in known:
                same[name] = known[call]
            else:
                known.setdefault(call, Column(name, call.dtype))
                partial.append((name, call))
        combine = tuple(
            (name, replace(call, args=tuple(substitute(arg, same) for arg in call.args)))
            for name, call in phase.combine
        )
        found.append(replace(phase, partial=tuple(partial), combine=combine))
    return found


def of_one_row(call: AggregateCall) -> Expr:
    """What the aggregate of a tile comes to for one row: a row is the partial result of itself."""
    match call.function:
        case "len":
            return Literal(1, call.dtype)
        case "count":
            return Call("cast", (Call("not", (Call("is_null", call.args, BOOL),), BOOL),), call.dtype)
        case "null_count":
            return Call("cast", (Call("is_null", call.args, BOOL),), call.dtype)
        case "var":  # 0; an infinite number has none
            return Call("sub", (call.args[0], call.args[0]), call.dtype)
        case "label_of_min" | "label_of_max":
            label, value = call.args
            return Call("when", (Call("is_null", (value,), BOOL), Literal(None, call.dtype), label), call.dtype)
        case "arg_min" | "arg_max":
            missing = Call("is_null", call.args, BOOL)
            return Call("when", (missing, Literal(None, call.dtype), Literal(0, call.dtype)), call.dtype)
        case "sum" | "product" | "mean" | "min" | "max" | "any" | "all" | "first" | "last":
            (arg,) = call.args
            return arg if dtype_of(arg) == call.dtype else Call("cast", (arg,), call.dtype)
        case _:
            raise NotImplementedError(f"no partial result of one row for {call.function}")


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
    total = _same(AggregateCall("sum", (_as_float(arg),), FLOAT))
    counted, count = _counted(arg)
    mean = Call("truediv", (total.final, Call("cast", (count.final,), FLOAT)), FLOAT)
    some = Call("gt", (count.final, Literal(0, INT)), BOOL)
    final: Expr = Call("when", (some, mean, Literal(None, FLOAT)), FLOAT)
    if call.dtype != FLOAT:
        final = Call("cast", (final,), call.dtype)
    return Phases((*total.partial, *counted), (*total.combine, *count.combine), final)


def _as_float(arg: Expr) -> Expr:
    return arg if dtype_of(arg) == FLOAT else Call("cast", (arg,), FLOAT)


def _moments(call: AggregateCall) -> Phases | None:
    """Variance and what is made of it: squares of deviations of each tile's mean from the group's are added (Chan)."""
    (arg,) = call.args
    if not (dtype_of(arg).is_numeric() or dtype_of(arg) == BOOL) or isinstance(dtype_of(arg), pl.Decimal):
        return None
    value = _as_float(arg)
    n, mean, var, squares = (hidden_name() for _ in range(4))
    count_, mean_, var_ = Column(n, INT), Column(mean, FLOAT), Column(var, FLOAT)
    rows = Call("cast", (count_,), FLOAT)
    sums = Call("mul", (mean_, rows), FLOAT)

    def before(keys: Sequence[Expr]) -> list[Named]:
        of_all = Call(
            "truediv",
            (WindowCall("sum", (sums,), FLOAT, tuple(keys)), WindowCall("sum", (rows,), FLOAT, tuple(keys))),
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


def _distinct(call: AggregateCall) -> Phases:
    """Of the values in each tile one each is left; a group's are counted."""
    (arg,) = call.args
    value, found = hidden_name(), hidden_name()
    again = replace(call, args=(Column(value, dtype_of(arg)),))
    return Phases((), ((found, again),), Column(found, call.dtype), keys=((value, arg),))


def _position(call: AggregateCall) -> Phases:
    """The position among all rows is that in the tile, after the rows of the tiles before."""
    (arg,) = call.args
    function = "min" if call.function == "arg_min" else "max"
    rows, best, part, place, found = (hidden_name() for _ in range(5))
    rows_, part_ = Column(rows, INT), Column(part, call.dtype)

    def before(keys: Sequence[Expr]) -> list[Named]:
        until = Call("sub", (WindowCall("cum_sum", (rows_,), INT, tuple(keys)), rows_), INT)
        return [(place, Call("add", (part_, Call("cast", (until,), call.dtype)), call.dtype))]

    partial = (
        (rows, AggregateCall("len", (), INT)),
        (best, AggregateCall(function, (arg,), dtype_of(arg))),
        (part, call),
    )
    again = AggregateCall(f"label_of_{function}", (Column(place, call.dtype), Column(best, dtype_of(arg))), call.dtype)
    return Phases(partial, ((found, again),), Column(found, call.dtype), before, in_order=True)


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
    "n_unique": _distinct,
    "arg_min": _position,
    "arg_max": _position,
}
