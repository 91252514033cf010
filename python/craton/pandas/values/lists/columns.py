"""Columns of lists of strings, as ``Series.str.split`` and ``findall`` return them.

Such a column has dtype object in pandas, and its lists can be changed in place. A view holds it as positions among the lists of all rows
of the call (:class:`Lists`), which pandas makes when one of them is read. So all objects that are derived from the call share the lists,
as in pandas. Until then, methods that only read the lists compute them from the text, in the kernel.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pandas as pd
import polars as pl

from craton import locks
from craton.engine import collect_rows, may_keep
from craton.errors import Unsupported
from craton.pandas.core.align import attached
from craton.pandas.core.data_checks import any_row
from craton.pandas.core.dtypes import INT64, OBJECT
from craton.pandas.core.execute import has_rows, materialise
from craton.pandas.core.routing import plain_pandas
from craton.pandas.core.view import ObjectColumn, Value, View, name_index
from craton.plan import build
from craton.plan.expr import Call, Expr, Options, options
from craton.records import dataclass
from craton.refusals import Refusal

__all__ = [
    "Lists",
    "Step",
    "column_of_lists",
    "expression_of_lists",
    "holds_lists",
    "item_at",
    "joined",
    "lengths",
    "sliced",
    "with_own_lists",
]

TEXT_LISTS = pl.List(pl.String())


@dataclass(frozen=True, slots=True)
class Step:
    """A call that makes lists, of strings or of other lists.

    Parameters
    ----------
    function, arguments
        The function of plans that computes the lists, with its options.
    method, args, kwargs
        The method of ``Series.str`` that makes them.
    """

    function: str
    arguments: Options
    method: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


class Lists:
    """The lists of all rows of a call, which are made when one of them is read.

    Parameters
    ----------
    held
        The view of the column of strings.
    steps
        The calls that make the lists, one after the other.
    """

    def __init__(self, held: View, steps: tuple[Step, ...]) -> None:
        self._held: View | None = held
        self.steps = steps
        self.dtype = held.values[0].dtype
        self._objects: Any = None

    @property
    def are_made(self) -> bool:
        """Whether the lists exist, so that a user may have changed them."""
        return self._held is None

    def of(self, text: Expr) -> Expr:
        """The lists, computed from the text in a plan."""
        for step in self.steps:
            text = Call(step.function, (text,), TEXT_LISTS, step.arguments)
        return text

    def __getitem__(self, positions: Any) -> Any:
        """The lists at some positions, as an array of objects."""
        with locks.objects.hold(id(self)):
            if self._held is not None:
                (array,), _ = materialise(self._held)
                with plain_pandas():
                    made = pd.Series(array, dtype=self.dtype, copy=False)
                    for step in self.steps if made.notna().any() else ():
                        made = getattr(made.str, step.method)(*step.args, **step.kwargs)
                    self._objects = made.to_numpy(dtype=object)
                self._held = None
        return self._objects[positions]


def column_of_lists(held: View, step: Step) -> Value:
    """The lists that a call makes from a column of strings.

    Raises
    ------
    Unsupported
        If all strings are missing: pandas then returns floats.
    """
    (value,) = held.values
    if value.nulls and not _any_present(held, value.read) and has_rows(held):
        raise Unsupported(Refusal.TEXT_SPLIT_EMPTY)
    return _column(held, Value(value.read, value.dtype, nulls=value.nulls), (step,))


def _column(held: View, text: Value, steps: tuple[Step, ...]) -> Value:
    strings = text if text.dtype != OBJECT else replace(text, expr=ObjectColumn(text.expr, nan=True))
    lists = Lists(View(held.base, (strings,), name_index(None)), steps)
    return Value(ObjectColumn(build.row_number(), lists, text.expr), OBJECT, nulls=text.nulls)


def sliced(held: View, value: Value, start: Any, stop: Any) -> Value:
    """New lists with some of the items of each list, as of the slice ``[start:stop]``.

    Raises
    ------
    Unsupported
        If the bounds are no integers, or the first counts from the end and the second does not.
    """
    if any(bound is not None and type(bound) is not int for bound in (start, stop)):
        raise Unsupported(Refusal.TEXT_SLICE_STEP)
    if start is not None and start < 0 and stop is not None:
        raise Unsupported(Refusal.TEXT_SLICE_ENDS)
    expression_of_lists(value)
    column: Any = value.expr
    step = Step("list_slice", options(start=start, stop=stop), "slice", (start, stop), {})
    text = Value(column.text, column.objects.dtype, nulls=value.nulls)
    return _column(held, text, (*column.objects.steps, step))


def holds_lists(value: Value) -> bool:
    """Whether a column has lists that can be computed from the text."""
    column = value.expr
    return isinstance(column, ObjectColumn) and column.text is not None and not column.objects.are_made


def with_own_lists(held: View) -> View:
    """The same view with lists that no other object shares, and that are made for its rows only: to be printed, and then dropped."""
    values = []
    for value in held.values:
        if holds_lists(value):
            column: Any = value.expr
            text = Value(column.text, column.objects.dtype, nulls=value.nulls)
            value = _column(held, text, column.objects.steps)
        values.append(value)
    return held.with_values(values)


def expression_of_lists(value: Value) -> Expr:
    """The lists of a column, computed from the text.

    Raises
    ------
    Unsupported
        If the column has other objects, or a user may have changed the lists.
    """
    if not holds_lists(value):
        raise Unsupported(Refusal.OBJECTS)
    return value.expr.objects.of(value.expr.text)  # type: ignore[attr-defined,no-any-return]


def has_a_list(held: View, value: Value) -> bool:
    """Whether a row has a list; a query may be run."""
    assert isinstance(value.expr, ObjectColumn)
    assert value.expr.text is not None
    return _any_present(held, value.expr.text)


def _any_present(held: View, expr: Expr) -> bool:
    """Whether an expression is not null in some row."""
    return any_row(held, Call("not", (Call("is_null", (expr,), pl.Boolean()),), pl.Boolean()))


def lengths(held: View, value: Value) -> Value:
    """The number of items of each list."""
    expr = Call("list_len", (expression_of_lists(value),), pl.Int64())
    if not value.nulls:
        return Value(expr, INT64, nulls=False)
    text = value.expr.text  # type: ignore[attr-defined]
    return Value(expr, INT64, nulls=True, source=(build.project(held.base, (("text", text),)), "text"))


def item_at(held: View, value: Value, place: int) -> tuple[View, Value]:
    """The item of each list at a position, and the view over whose base it is an expression.

    Raises
    ------
    Unsupported
        If no list has the item: pandas then returns floats.
    """
    expr: Expr = Call("list_get", (expression_of_lists(value),), pl.String(), options(place=place))
    if may_keep(held.base):
        (rows,) = collect_rows([build.project(held.base, (("item", expr),))], ordered=True)
        items = rows.get_column("item")
        found = items.null_count() < len(items)
        held, (expr,) = attached(held, [items])
    else:
        found = _any_present(held, expr)
    if not found:
        raise Unsupported(Refusal.LISTS_WITHOUT_ITEMS)
    return held, Value(ObjectColumn(expr, nan=True), OBJECT)


def joined(value: Value, separator: str) -> Value:
    """The items of each list as one text."""
    expr = Call("list_join", (expression_of_lists(value),), pl.String(), options(separator=separator))
    return Value(ObjectColumn(expr, nan=True), OBJECT, nulls=value.nulls)
