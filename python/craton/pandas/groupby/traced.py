"""What :mod:`~craton.pandas.groupby.symbols` found in a user's function, as expressions of a plan.

At the rows of the grouped object, a reduction is a window: each row gets the value of its group. Outside of columns, reductions
are aggregates, and the operators between them are expressions over the aggregates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import polars as pl

from craton.errors import PlanError, Unsupported
from craton.pandas.core.data_checks import any_row
from craton.pandas.core.dtypes import FLOAT64, INT64, DtypeObj, physical
from craton.pandas.core.view import Value
from craton.pandas.groupby.functions import PlannedAggregate, UndecidedDtype, is_infinite, of_two, plan_aggregate
from craton.pandas.groupby.keys import Grouped
from craton.pandas.groupby.symbols import UFUNCS, Group, Symbol
from craton.pandas.values.arithmetic import absolute, arithmetic, inverted, negative
from craton.pandas.values.batches import COLUMN, batched
from craton.pandas.values.comparison import compared, is_missing, not_missing
from craton.pandas.values.operands import ARITHMETIC, COMPARISON
from craton.pandas.window.moving import moved
from craton.plan.expr import Call, Expr, Literal, WindowCall, dtype_of, options
from craton.refusals import Refusal

#: The name of an aggregation by a function whose symbol is among the parameters.
TRACED = "a traced function"

_FLOAT = pl.Float64()
_ONE = Literal(1.0, _FLOAT)

_UNARY: dict[str, Callable[[Value], Value]] = {
    "abs": absolute,
    "neg": negative,
    "invert": inverted,
    "isna": is_missing,
    "notna": not_missing,
}


def _fill(value: Value, filler: Any) -> Value:
    """``fillna`` of floats."""
    number = filler.clean if isinstance(filler, Value) else Value(Literal(float(filler), _FLOAT), FLOAT64, nulls=False)
    expr = Call("fill_null", (value.clean.expr, _as_float(number.expr)), _FLOAT)
    return Value(expr, FLOAT64, nulls=number.nulls)


def _as_float(expr: Expr) -> Expr:
    return expr if dtype_of(expr) == _FLOAT else Call("cast", (expr,), _FLOAT)


def _between(low: Value, high: Value, place: Value) -> Value:
    """The linear interpolation between two values as in NumPy, which starts from the nearer one."""
    before = Call("cast", (Call("cast", (place.expr,), pl.Int64()),), _FLOAT)
    share = Call("sub", (place.expr, before), _FLOAT)
    one, other = low.clean.expr, high.clean.expr
    step = _as_float(Call("sub", (other, one), dtype_of(one)))
    up = Call("add", (_as_float(one), Call("mul", (step, share), _FLOAT)), _FLOAT)
    rest = Call("mul", (step, Call("sub", (_ONE, share), _FLOAT)), _FLOAT)
    down = Call("sub", (_as_float(other), rest), _FLOAT)
    near = Call("ge", (share, Literal(0.5, _FLOAT)), pl.Boolean())
    return Value(Call("when", (near, down, up), _FLOAT), FLOAT64, nulls=True, nans=True)


#: The first and the last microsecond of the years in which differences of times do not overflow.
_FIRST_TIME, _LAST_TIME = (int(np.datetime64(f"{year:04}-01-01", "us").astype(np.int64)) for year in (1, 9999))
_MICROSECONDS_OF_DAY = 86_400_000_000


def _days(left: Any, right: Any) -> Value:
    """The whole days between two times of each group, of which none is missing (:func:`refuse_missing_times`)."""
    one, other = (
        Call("cast", (item.clean.expr,), pl.Int64()) if isinstance(item, Value) else _microseconds(item)
        for item in (left, right)
    )
    between = Call("sub", (one, other), pl.Int64())
    return Value(Call("floordiv", (between, Literal(_MICROSECONDS_OF_DAY, pl.Int64())), pl.Int64()), INT64, nulls=False)


def _microseconds(time: pd.Timestamp) -> Expr:
    return Literal(int(time.asm8.astype("datetime64[us]").astype(np.int64)), pl.Int64())


def _operation(symbol: Symbol, operands: Sequence[Any]) -> Value:
    """The result of an operator; each operand is a value, a number or a time."""
    name = symbol.operation
    if name == "days":
        return _days(*operands)
    if name == "fillna":
        return _fill(operands[0], operands[1])
    if name == "between":
        return _between(*operands)
    if name in UFUNCS:
        return batched("ufunc", name, [operands[0]], FLOAT64, (COLUMN,))
    if name in _UNARY:
        return _UNARY[name](operands[0])
    if name in ARITHMETIC:
        return arithmetic(name, operands[0], operands[1], symbol.dtype, None)
    return compared(name, operands[0], operands[1], symbol.dtype)


def _is_reduction(symbol: Symbol) -> bool:
    return symbol.operation in ("reduce", "end", "pair")


class AtRows:
    """Symbols as values over the rows of the grouped object."""

    def __init__(self, state: Grouped) -> None:
        self._state = state
        self._partition = tuple(key.value.clean.expr for key in state.keys)
        self._found: dict[int, tuple[Symbol, Value]] = {}

    def value(self, symbol: Symbol) -> Value:
        """The value of a symbol, made once."""
        known = self._found.get(id(symbol))
        if known is None:
            try:
                known = self._found[id(symbol)] = (symbol, self._value(symbol))
            except PlanError as error:
                raise Unsupported(Refusal.AGGREGATION_FUNCTION) from error
        return known[1]

    def _value(self, symbol: Symbol) -> Value:
        if symbol.operation == "column":
            value = self._state.held.values[symbol.details["position"]]
            if not value.definite:
                raise UndecidedDtype(Refusal.DTYPE_OF_DATA)
            return value
        if _is_reduction(symbol):
            out = self.reduction(symbol)
            expr = WindowCall(out.function, out.args, out.physical, self._partition, out.options)
            return Value(expr, out.dtype, nulls=out.nulls, nans=out.nans)
        if symbol.operation == "shift":
            shifted = _as_float(self.value(symbol.operands[0]).clean.expr)
            choice = options(periods=symbol.details["periods"])
            return Value(WindowCall("shift", (shifted,), _FLOAT, self._partition, choice), FLOAT64, nulls=True)
        if symbol.operation == "moving":
            kind, window, how = (symbol.details[name] for name in ("kind", "window", "how"))
            roles = {f"key{i}": key for i, key in enumerate(self._partition)}
            return moved(kind, window, how, {}, self.value(symbol.operands[0]), roles)
        return _operation(symbol, [self.value(one) if isinstance(one, Symbol) else one for one in symbol.operands])

    def reduction(self, symbol: Symbol) -> PlannedAggregate:
        """The aggregate that computes a reduction."""
        how: str = symbol.details["how"]
        if how == "size":
            return PlannedAggregate("len", (), INT64)
        rows = self.value(symbol.operands[0])
        if symbol.operation == "pair":
            return of_two(how, rows, self.value(symbol.operands[1]))
        if symbol.operation == "end":
            choice = options(skip_nulls=False)
            return PlannedAggregate(how, (rows.clean.expr,), symbol.dtype, choice, nulls=rows.clean.nulls)
        out = plan_aggregate(how, rows, symbol.dtype, symbol.details["parameters"])
        if out.narrow is not None or out.dtype != symbol.dtype:
            raise Unsupported(Refusal.GROUP_TOTALS_SMALL)
        return out


def parts(symbol: Symbol, operation: str) -> Iterator[Symbol]:
    """All parts of a symbol with an operation."""
    for one in symbol.operands:
        if isinstance(one, Symbol):
            yield from parts(one, operation)
    if symbol.operation == operation:
        yield symbol


def deviations(symbol: Symbol) -> Iterator[Symbol]:
    """The columns of floats whose standard deviation or variance is a divisor, or is compared.

    If all values are equal, pandas' deviation is a rounding error.
    """
    for one in symbol.operands:
        if isinstance(one, Symbol):
            yield from deviations(one)
    if symbol.operation not in {"truediv", *COMPARISON}:
        return
    for one in symbol.operands[1:] if symbol.operation == "truediv" else symbol.operands:
        if isinstance(one, Symbol):
            for spread in parts(one, "reduce"):
                if spread.details["how"] in ("std", "var") and spread.operands[0].dtype == FLOAT64:
                    yield spread.operands[0]


def refuse_infinities(state: Grouped, symbol: Symbol) -> None:
    """Refuse quantiles of a column with infinities, between which NumPy interpolates to NaN, or with integers that no float equals."""
    for one in parts(symbol, "between"):
        value = AtRows(state).value(one.operands[0].operands[0])
        if value.dtype == FLOAT64 and any_row(state.held, is_infinite(value)):
            raise Unsupported(Refusal.GROUP_DESCRIBE_INFINITE)
        if value.physical in (pl.Int64(), pl.UInt64()) and any_row(state.held, _is_beyond_floats(value)):
            raise Unsupported(Refusal.GROUP_QUANTILE_INTEGERS)


def _is_beyond_floats(value: Value) -> Expr:
    """A predicate: whether the magnitude of an integer is greater than 2**53."""
    expr, kind = value.clean.expr, value.physical
    large = Call("gt", (expr, Literal(2**53, kind)), pl.Boolean())
    if kind == pl.UInt64():
        return large
    return Call("or", (large, Call("lt", (expr, Literal(-(2**53), kind)), pl.Boolean())), pl.Boolean())


def refuse_missing_times(state: Grouped, symbol: Symbol) -> None:
    """Refuse days between times if some are missing, since pandas' results are then floats, or are outside the years 1 to 9998."""
    used = {id(one): one for days in parts(symbol, "days") for one in parts(days, "column")}
    for one in used.values():
        time = AtRows(state).value(one).clean.expr
        number = Call("cast", (time,), pl.Int64())
        outside = [
            Call(name, (number, Literal(bound, pl.Int64())), pl.Boolean())
            for name, bound in (("lt", _FIRST_TIME), ("ge", _LAST_TIME))
        ]
        refused = Call(
            "or", (Call("is_null", (time,), pl.Boolean()), Call("or", tuple(outside), pl.Boolean())), pl.Boolean()
        )
        if any_row(state.held, refused):
            raise Unsupported(Refusal.FUNCTION_DTYPE)


def reductions(symbol: Symbol) -> Iterator[Symbol]:
    """The outermost reductions of a number for each group."""
    if not isinstance(symbol, Group):
        raise Unsupported(Refusal.AGGREGATION_FUNCTION)
    if _is_reduction(symbol):
        yield symbol
        return
    for one in symbol.operands:
        if isinstance(one, Symbol):
            yield from reductions(one)


def combine(symbol: Symbol, found: Mapping[int, Value]) -> Value:
    """A number for each group, from the values of its reductions by their ``id``."""
    if _is_reduction(symbol):
        return found[id(symbol)]
    return _operation(symbol, [combine(one, found) if isinstance(one, Symbol) else one for one in symbol.operands])


def checked(value: Value, dtype: DtypeObj) -> Value:
    """A value that must have a dtype."""
    if value.dtype != dtype or value.physical != physical(dtype):
        raise Unsupported(Refusal.FUNCTION_DTYPE)
    return value
