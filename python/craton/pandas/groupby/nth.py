"""``nth`` of groups, a property whose value can be called and indexed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl
from pandas.api.types import is_integer
from pandas.core.groupby.generic import DataFrameGroupBy as PandasFrameGroupBy
from pandas.core.groupby.indexing import GroupByNthSelector

from craton.errors import Unsupported
from craton.pandas.core.native import Native, named_as
from craton.pandas.core.routing import inside_pandas
from craton.pandas.groupby.completion import refuse_unless_completed
from craton.pandas.groupby.keys import Grouped
from craton.pandas.groupby.windows import in_groups_only, partition
from craton.plan.expr import Call, Expr, Literal, WindowCall, conjunction
from craton.refusals import Reason, Refusal

_INT, _BOOL = pl.Int64(), pl.Boolean()


def nth(state: Grouped, n: Any) -> Expr:
    """A predicate for the rows of each group at some positions, counted from the end if these are negative.

    Parameters
    ----------
    state
        The group-by.
    n
        An integer, a list of integers, or a slice.
    """
    number: Expr = WindowCall("row_number", (), _INT, partition(state))
    size: Expr = WindowCall("len", (), _INT, partition(state))

    def place(position: int) -> Expr:
        return Literal(position, _INT) if position >= 0 else Call("add", (size, Literal(position, _INT)), _INT)

    if isinstance(n, slice):
        return in_groups_only(state, _between(number, n, place))
    positions = [n] if is_integer(n) else n
    if type(positions) is not list or not positions or not all(map(is_integer, positions)):
        raise Unsupported(Refusal.PARAMETER, "n")
    found: Expr | None = None
    for position in dict.fromkeys(map(int, positions)):
        here = Call("eq", (number, place(position)), _BOOL)
        found = here if found is None else Call("or", (found, here), _BOOL)
    assert found is not None
    return in_groups_only(state, found)


def _between(number: Expr, rows: slice, place: Callable[[int], Expr]) -> Expr:
    if rows.step not in (None, 1) or not all(end is None or is_integer(end) for end in (rows.start, rows.stop)):
        raise Unsupported(Refusal.PARAMETER, "n")
    ends = [Literal(True, _BOOL)] if rows.start is None and rows.stop is None else []
    if rows.start is not None:
        ends.append(Call("ge", (number, place(int(rows.start))), _BOOL))  # type: ignore[arg-type]
    if rows.stop is not None:
        ends.append(Call("lt", (number, place(int(rows.stop))), _BOOL))  # type: ignore[arg-type]
    return conjunction(ends)  # type: ignore[arg-type]


def _nth(self: Any, n: Any, dropna: Any = None) -> Any:
    if dropna:
        raise Unsupported(Refusal.GROUP_NTH_DROPNA)
    refuse_unless_completed(self.__dict__["_plan"], "nth")
    rows = self._rows(nth(self._current(), n))
    self._record_use("nth")
    return rows


def _nth_in_pandas(self: Any, n: Any, dropna: Any = None) -> Any:
    self._restore_used_columns()
    return type(self)._nth(self, n, dropna)


def _nth_item_in_pandas(self: Any, n: Any) -> Any:
    self._restore_used_columns()
    return GroupByNthSelector(self)[n]


def _nth_label(self: Any, *_: Any) -> str:
    return f"{type(self).__name__}.nth"


_NTH = Native("nth of groups", PandasFrameGroupBy._nth, _nth, _nth_in_pandas, named=_nth_label)
#: Never planned, because pandas warns that this form is deprecated.
_NTH_ITEM = Native("nth[...] of groups", PandasFrameGroupBy._nth, None, _nth_item_in_pandas, named=_nth_label)


class NthSelector(GroupByNthSelector):
    """``nth``, to be called or indexed."""

    def __call__(self, n: Any, dropna: Any = None) -> Any:
        gb: Any = self.groupby_object
        return gb._nth(n, dropna) if inside_pandas() else _NTH.run(gb, (n, dropna), {})

    def __getitem__(self, n: Any) -> Any:
        return _NTH_ITEM.run_in_pandas(Reason(Refusal.GROUP_NTH_BRACKETS), self.groupby_object, (n,), {})


named_as(GroupByNthSelector.__call__, NthSelector.__call__)
