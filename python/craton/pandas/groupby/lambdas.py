"""``transform``, ``filter`` and ``apply`` of groups by a function, planned from what the function computes.

:mod:`~craton.pandas.groupby.symbols` finds that by calling it with symbols. Functions that do anything else are called for each group.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pandas as pd

from craton.errors import Unsupported
from craton.pandas.core.data_checks import any_row
from craton.pandas.core.dtypes import BOOL, FLOAT64, DtypeObj, family, kind_of
from craton.pandas.core.view import Value, View
from craton.pandas.groupby.aggregates import Probe, has_groups, plan_aggregations
from craton.pandas.groupby.functions import UndecidedDtype, is_infinite
from craton.pandas.groupby.keys import Grouped
from craton.pandas.groupby.pairs import refuse_constant, refuse_degenerate
from craton.pandas.groupby.symbols import DTYPES, Group, Record, Rows, Symbol, Table, column, trace
from craton.pandas.groupby.traced import (
    TRACED,
    AtRows,
    checked,
    deviations,
    parts,
    refuse_infinities,
    refuse_missing_times,
)
from craton.pandas.groupby.windows import ViewAndTemplate, in_groups_only, row_aligned_view, where_in_group
from craton.plan.expr import Expr
from craton.refusals import Refusal

__all__ = ["applied", "filtered", "refuse_unstable", "transformed"]


def _require_python_groups(state: Grouped, func: Any, args: Any, kwargs: Any, observed: bool = False) -> None:
    """Refuse arguments for the function, and groups without rows, for which pandas may call it.

    With ``observed``, categories are keys if all groups have rows.
    """
    if args or kwargs:
        raise Unsupported(Refusal.ARGUMENTS_OF_FUNCTION)
    if not callable(func):
        raise Unsupported(Refusal.NOT_A_FUNCTION)
    if state.completes or (not observed and any(family(key.value.dtype) == "category" for key in state.keys)):
        raise Unsupported(Refusal.AGGREGATION_FUNCTION)


def _require_groups(state: Grouped) -> None:
    if not has_groups(state):
        raise Unsupported(Refusal.GROUP_NONE)


def _symbol(state: Grouped, position: int) -> Rows:
    value = state.held.values[position]
    if value.dtype in DTYPES and not value.definite:
        raise UndecidedDtype(Refusal.DTYPE_OF_DATA)
    return column(position, value.dtype)


def _table(state: Grouped, positions: Any) -> Table:
    """The symbol of a frame's group. Columns that are not of 64-bit numbers are only counted."""
    values, labels = state.held.values, state.held.labels
    numbers = {labels[i]: Rows("column", (), values[i].dtype, position=i) for i in positions if is_number(values[i])}
    columns = {labels[i]: _symbol(state, i) if values[i].dtype in DTYPES else None for i in positions}
    return Table(columns, numbers if len(numbers) == len(columns) else None)


def is_number(value: Value) -> bool:
    """Whether a column has integers or floats of NumPy."""
    return family(value.dtype) == "numpy" and kind_of(value.dtype) in "iuf"


def refuse_unstable(state: Grouped, symbols: Iterable[Symbol]) -> None:
    """Refuse functions whose results depend on the rounding errors of pandas' sums, on infinities or on missing times.

    Queries find these.

    Raises
    ------
    Unsupported
        If the data are such.
    """
    for symbol in symbols:
        refuse_infinities(state, symbol)
        refuse_missing_times(state, symbol)
        for rows in {id(one): one for one in deviations(symbol)}.values():
            refuse_constant(state, AtRows(state).value(rows))
        for pair in parts(symbol, "pair"):
            one, other = map(AtRows(state).value, pair.operands)
            if "of_frame" in pair.details:
                if any(kind_of(each.dtype) == "f" and any_row(state.held, is_infinite(each)) for each in (one, other)):
                    raise Unsupported(Refusal.GROUP_DESCRIBE_INFINITE)
                continue
            refuse_degenerate(state, pair.details["how"], one, other)


# -- transform --------------------------------------------------------------------------------------------------------


def transformed(state: Grouped, probe: Probe, func: Any, args: Any, kwargs: Any) -> ViewAndTemplate:
    """``transform`` by a function."""
    _require_python_groups(state, func, args, kwargs)
    # pandas calls the function with frames too, of which NumPy computes one number.
    found = [trace(func, _symbol(state, i), numpy=state.single) for i in state.positions]
    symbols = [one for one in found if isinstance(one, Symbol)]
    if len(symbols) != len(found) or not symbols:
        raise Unsupported(Refusal.FUNCTION_TRANSFORM)
    if not state.single and any(isinstance(one, Group) and one.dtype != FLOAT64 for one in symbols):
        raise Unsupported(Refusal.FUNCTION_TRANSFORM)  # pandas converts the numbers of a group to one dtype
    _require_groups(state)
    refuse_unstable(state, symbols)
    dtypes = {value.dtype: one.dtype for value, one in zip(state.values, symbols, strict=True)}
    template = probe("transform", _like(dtypes))
    at_rows = AtRows(state)
    values = []
    for one in symbols:
        value = checked(at_rows.value(one), one.dtype)
        values.append(where_in_group(state, value))
    return row_aligned_view(state, values, template), template


def _like(dtypes: dict[DtypeObj, DtypeObj]) -> Any:
    """A function that returns rows of the right dtypes for the stand-in."""

    def of_column(rows: Any) -> Any:
        return (rows == rows).astype(dtypes[rows.dtype])

    def rows_of(group: Any) -> Any:
        return of_column(group) if isinstance(group, pd.Series) else group.apply(of_column)

    return rows_of


# -- filter -----------------------------------------------------------------------------------------------------------


def filtered(state: Grouped, selected: bool, func: Any, dropna: Any, args: Any, kwargs: Any) -> Expr:
    """``filter``: a predicate for the rows of the groups for which the function returns true.

    Parameters
    ----------
    selected
        Whether columns were selected; otherwise the function gets the keys too.
    """
    _require_python_groups(state, func, args, kwargs)
    if dropna is not True:
        raise Unsupported(Refusal.PARAMETER, "dropna")
    if not state.options.dropna and any(key.value.clean.nulls for key in state.keys):
        raise Unsupported(Refusal.GROUP_NAME_TYPE)
    positions = state.positions if selected else range(len(state.held.values))
    found = trace(func, _symbol(state, state.positions[0]) if state.single else _table(state, positions))
    if not isinstance(found, Group) or found.dtype != BOOL:
        raise Unsupported(Refusal.AGGREGATION_FUNCTION)
    refuse_unstable(state, [found])
    value = checked(AtRows(state).value(found), BOOL)
    if value.clean.nulls:
        raise Unsupported(Refusal.MISSING_BOOLEANS)
    return in_groups_only(state, value.expr)


# -- apply ------------------------------------------------------------------------------------------------------------


def applied(state: Grouped, probe: Probe, func: Any, args: Any, kwargs: Any) -> tuple[View, Any]:
    """``apply`` of a function that returns a number, or a Series of numbers by label, for each group."""
    _require_python_groups(state, func, args, kwargs, observed=True)
    found = trace(func, _symbol(state, state.positions[0]) if state.single else _table(state, state.positions))
    if isinstance(found, Group):
        if not state.options.as_index or any(family(key.value.dtype) == "category" for key in state.keys):
            raise Unsupported(Refusal.AGGREGATION_FUNCTION)
        refuse_unstable(state, [found])
        number = found.dtype.type(1)
        template = probe("apply", lambda _: number)
        return plan_aggregations(state, [(-1, TRACED, {"by_function": True, "symbol": found})], template), template
    if not isinstance(found, Record) or state.single or not has_groups(state):
        raise Unsupported(Refusal.AGGREGATION_FUNCTION)
    record = {label: one.dtype.type(1) for label, one in found.numbers.items()}
    template = probe("apply", lambda _: pd.Series(record))
    symbols = found.in_one_dtype()
    refuse_unstable(state, symbols)
    return plan_aggregations(
        state, [(-1, TRACED, {"by_function": True, "symbol": one}) for one in symbols], template
    ), template
