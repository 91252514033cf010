"""Methods that select or relabel rows and columns: loc, iloc, head, tail, query, drop, rename, filter and others."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from pandas.api.extensions import no_default
from pandas.api.types import is_hashable, is_list_like, is_scalar
from pandas.core import common

from craton.config import options
from craton.errors import Unsupported
from craton.pandas.core import stand_ins
from craton.pandas.core.cheap_calls import is_in_memory
from craton.pandas.core.counterparts import frame_class
from craton.pandas.core.deprecations import pop_copy, pop_inplace
from craton.pandas.core.execute import resolved
from craton.pandas.core.function_keys import resolve_key
from craton.pandas.core.lazy import finished, lazy, refuse_unique_labels_flag, replace_state, view
from craton.pandas.core.native import by_callback, by_object, native, never_refused
from craton.pandas.core.routing import inside_pandas, is_lazy, plain_pandas, stays_in_pandas
from craton.pandas.core.view import name_index
from craton.pandas.indexing.chosen_rows import FrameRows, SeriesRows, chosen_rows, dropped_rows, renamed_rows
from craton.pandas.indexing.frame_columns import chosen_columns, filter_rows
from craton.pandas.indexing.indexers import ILocIndexer, LocIndexer, count_query, materialise_operands, single_row
from craton.pandas.indexing.rows import (
    by_label,
    by_slice,
    is_mask,
    masked,
    numbered_rows,
    positions_of,
    relabelled,
    row_labels,
    sliced,
    taken,
)
from craton.pandas.indexing.shared_columns import select_item
from craton.pandas.reductions.reductions import arguments
from craton.refusals import Refusal
from craton.tracebacks import shorten

if TYPE_CHECKING:
    from craton.pandas.computation.query import Evaluator


def _head(self: Any, n: Any = 5) -> Any:
    if isinstance(n, bool) or not isinstance(n, int):
        raise Unsupported(Refusal.PARAMETER, f"n={n!r}")
    return lazy(type(self), sliced(view(self), None, n), self)


def _tail(self: Any, n: Any = 5) -> Any:
    if isinstance(n, bool) or not isinstance(n, int):
        raise Unsupported(Refusal.PARAMETER, f"n={n!r}")
    held = view(self)
    return lazy(type(self), sliced(held, -n, None) if n else sliced(held, 0, 0), self)


def _take(self: Any, indices: Any, axis: Any = 0, **kwargs: Any) -> Any:
    if kwargs or axis not in (0, "index", "rows"):
        raise Unsupported(Refusal.COLUMNS_BY_POSITION)
    held = view(self)
    if isinstance(indices, slice) or not is_list_like(indices):
        raise Unsupported(Refusal.POSITIONS_NOT_LIST)
    return lazy(type(self), taken(held, positions_of(held, indices)), self)


def _truncate(self: Any, *args: Any, **kwargs: Any) -> Any:
    named = arguments(pd.DataFrame, "truncate", args, kwargs)
    if named.pop("axis", None) not in (None, 0, "index", "rows"):
        raise Unsupported(Refusal.COLUMN_AXIS)
    pop_copy(self, named)
    held = view(self)
    labels = row_labels(held)
    kept = pd.Series(np.arange(len(labels)), index=labels).truncate(**named)
    if held.index.kind == "multi":
        return lazy(type(self), taken(held, kept.to_numpy()), self)
    return lazy(type(self), numbered_rows(held, kept, len(labels)), self)


def _with_variables(name: str) -> Any:
    """Pandas' own ``query`` or ``eval``, with the caller's variables passed as arguments.

    pandas would look for them a fixed number of stack frames up, where it now finds a frame of Craton.
    """
    theirs = getattr(pd.DataFrame, name)

    def called(obj: Any, *args: Any, **kwargs: Any) -> Any:
        from craton.pandas.computation.query import variables

        if len(args) > 1:  # pandas' error counts the arguments, which must be those of the call
            return theirs(obj, *args, **kwargs)
        named = dict(kwargs)
        known = variables(named)
        try:
            return theirs(obj, *args, **named, local_dict=known, global_dict={})
        except Exception as error:
            shorten(error)  # pandas' query calls eval, and its frame is Craton's again
            raise

    return called


def _stays(obj: Any) -> bool:
    return stays_in_pandas(obj) or inside_pandas()  # pandas' query calls eval


def _query(self: Any, *args: Any, **kwargs: Any) -> Any:
    from craton.pandas.computation.query import statements

    named = arguments(pd.DataFrame, "query", args, kwargs)
    expr = named.pop("expr")
    evaluate = _evaluator(self, expr, named)
    if len([line for line in expr.splitlines() if line.strip()]) != 1:  # pandas raises
        raise Unsupported(Refusal.EXPRESSION_LINES)
    (node,) = statements(expr.strip())
    if isinstance(node, ast.Assign):
        raise Unsupported(Refusal.EXPRESSION_ASSIGNS)
    mask = evaluate.evaluate(node)
    if not is_mask(mask):
        raise Unsupported(Refusal.EXPRESSION_NO_MASK)
    held, predicate = masked(view(self), mask)
    inplace = pop_inplace(self, named, "query")
    return finished(self, held.filtered(predicate), inplace)


def _eval(self: Any, *args: Any, **kwargs: Any) -> Any:
    from craton.pandas.computation.query import Evaluator, statements
    from craton.pandas.indexing.setting import assigned

    named = arguments(pd.DataFrame, "eval", args, kwargs)
    expr = named.pop("expr")
    evaluate = _evaluator(self, expr, named)
    result: Any = self
    for node in statements(expr):
        if not isinstance(node, ast.Assign):
            if named.get("inplace") is True:
                raise Unsupported(Refusal.EXPRESSION_NO_TARGET)
            pop_inplace(self, named, "eval")
            return evaluate.evaluate(node)
        if len(node.targets) != 1 or not isinstance(node.targets[0], ast.Name):
            raise Unsupported(Refusal.EXPRESSION_TARGET)
        value, label = evaluate.evaluate(node.value), node.targets[0].id
        held = view(result)
        # In place, pandas assigns with ``loc``, which casts values that fit to the column's dtype.
        kept = named.get("inplace") is True and label in held.labels
        if kept and not (isinstance(value, pd.Series) and value.dtype == result[label].dtype):
            raise Unsupported(Refusal.EXPRESSION_IN_PLACE)
        try:
            held = assigned(held, label, value)
        except ValueError as error:  # pandas emits the warning about inplace before it raises
            raise Unsupported(Refusal.EXPRESSION_VALUE) from error
        result = lazy(type(self), held, self)
        evaluate = Evaluator(result, evaluate.variables)
    return finished(self, view(result), pop_inplace(self, named, "eval"))


def _evaluator(self: Any, expr: Any, named: dict[str, Any]) -> Evaluator:
    from craton.pandas.computation.query import Evaluator, variables

    known = variables(named)
    parser, engine = named.pop("parser", "pandas"), named.pop("engine", None)
    if parser != "pandas" or engine not in (None, "python") or named.keys() - {"inplace"} or not isinstance(expr, str):
        raise Unsupported(Refusal.PARAMETERS, "parser, engine and inplace")
    return Evaluator(self, known)


@never_refused(pd.DataFrame, "loc", "iloc")
class FrameSelection(FrameRows):
    """Selection methods of DataFrame."""

    head = native(pd.DataFrame, "head")(_head)
    tail = native(pd.DataFrame, "tail")(_tail)

    @property
    def loc(self: Any) -> Any:
        """Access by label."""
        return pd.DataFrame.loc.fget(self) if stays_in_pandas(self) else LocIndexer("loc", self)  # type: ignore[attr-defined]

    @property
    def iloc(self: Any) -> Any:
        """Access by position."""
        return pd.DataFrame.iloc.fget(self) if stays_in_pandas(self) else ILocIndexer("iloc", self)  # type: ignore[attr-defined]

    @native(pd.DataFrame)
    def assign(self: Any, **kwargs: Any) -> Any:
        from craton.pandas.indexing.setting import assigned

        if isinstance(self.columns, pd.MultiIndex):
            raise Unsupported(Refusal.COLUMN_SET_LABEL)
        if options.small_rows and any(map(callable, kwargs.values())) and is_in_memory(self):
            result = self.copy(deep=False)
            for name, value in kwargs.items():
                result[name] = common.apply_if_callable(value, result)
            return result
        held = view(self)
        result = lazy(type(self), held, self)
        if any(map(callable, kwargs.values())):
            # A function may change or keep the frame, so each is called exactly once. Only the assignment may fall back.
            for name, value in kwargs.items():
                result[name] = common.apply_if_callable(value, result)
            return result
        for name, value in kwargs.items():
            result = lazy(type(self), assigned(view(result), name, value), self)
        return result

    @native(pd.DataFrame)
    def drop(self: Any, *args: Any, **kwargs: Any) -> Any:
        named = arguments(pd.DataFrame, "drop", args, kwargs)
        held = view(self)
        columns, index = named.pop("columns", None), named.pop("index", None)
        axis, labels = named.pop("axis", 0), named.pop("labels", None)
        if labels is not None:
            if columns is not None or index is not None or axis not in (0, "index", "rows", 1, "columns"):
                raise Unsupported(Refusal.ARGUMENTS_PANDAS_REFUSES)
            columns, index = (labels, None) if axis in (1, "columns") else (None, labels)
        elif type(axis) is not int or axis == 1:
            raise Unsupported(Refusal.ARGUMENTS_PANDAS_REFUSES)
        errors, level = named.pop("errors", "raise"), named.pop("level", None)
        if (
            named.keys() - {"inplace"}
            or (columns is None and index is None)
            or (columns is not None and level is not None)
        ):
            raise Unsupported(Refusal.DROPPING_ROWS)
        if index is not None:
            refuse_unique_labels_flag(self)
            held = dropped_rows(held, index=index, level=level, errors=errors)
        if columns is not None:
            kept = stand_ins.positions(held.labels).drop(columns=columns, errors=errors)
            held = replace(held.take(kept.iloc[0].tolist()), labels=kept.columns)
        return finished(self, held, pop_inplace(self, named, "drop"))

    @native(pd.DataFrame)
    def rename(self: Any, *args: Any, **kwargs: Any) -> Any:
        named = arguments(pd.DataFrame, "rename", args, kwargs)
        held = view(self)
        columns = named.pop("columns", None)
        by_axis = named.get("mapper") is not None or named.get("axis") is not None
        if by_axis and (columns is not None or named.get("index") is not None):
            raise Unsupported(Refusal.ARGUMENTS_PANDAS_REFUSES)
        if columns is None and named.get("axis") in (1, "columns"):
            del named["axis"]
            columns = named.pop("mapper", None)
        errors = named.pop("errors", "ignore")
        index = named.pop("index", None)
        if index is None and named.get("axis", 0) in (0, "index"):
            index = named.pop("mapper", None)
            named.pop("axis", None)
        if named.keys() - {"inplace", "copy"} or (columns is None and index is None):
            raise Unsupported(Refusal.RENAMING_ROWS)
        if index is not None:
            refuse_unique_labels_flag(self)
            held = renamed_rows(held, index, errors=errors)
        if columns is None:
            columns = {}
        inplace = pop_inplace(self, named, "rename")
        pop_copy(self, named)
        labels = stand_ins.positions(held.labels).rename(columns=columns, errors=errors).columns
        return finished(self, held.with_values(held.values, labels), inplace)

    @native(pd.DataFrame)
    def filter(self: Any, *args: Any, **kwargs: Any) -> Any:
        named = arguments(pd.DataFrame, "filter", args, kwargs)
        axis = named.pop("axis", None)
        if axis in (0, "index", "rows") and not named.keys() - {"items", "like", "regex"}:
            return lazy(type(self), chosen_rows(view(self), lambda rows: rows.filter(**named)), self)
        if axis not in (None, 1, "columns"):
            raise Unsupported(Refusal.ROWS_BY_LABEL)
        rest = {key: value for key, value in named.items() if key != "arg"}
        held = view(self)
        arg = named.get("arg")
        if "cond" in named or callable(arg) or not held.labels.is_unique:
            raise Unsupported(Refusal.FILTER_ROWS)
        return chosen_columns(self, held, lambda frame: frame.filter(*[arg] if "arg" in named else [], **rest))

    query = native(
        pd.DataFrame, "query", theirs=_with_variables("query"), like=pd.DataFrame.query, route=by_object(_stays)
    )(_query)
    eval = native(
        pd.DataFrame, "eval", theirs=_with_variables("eval"), like=pd.DataFrame.eval, route=by_object(_stays)
    )(_eval)

    @native(pd.DataFrame)
    def select_dtypes(self: Any, include: Any = None, exclude: Any = None) -> Any:
        held = resolved(view(self))
        empty = stand_ins.columns([value.dtype for value in held.values])
        return lazy(type(self), held.take(list(empty.select_dtypes(include, exclude).columns)), self)

    @native(pd.DataFrame)
    def set_axis(self: Any, labels: Any, *, axis: Any = 0, copy: Any = no_default) -> Any:
        refuse_unique_labels_flag(self)
        named = arguments(pd.DataFrame, "set_axis", (labels,), {"axis": axis, "copy": copy})
        held = view(self)
        if self._get_axis_number(axis) == 1:
            result = held.with_values(held.values, stand_ins.positions(held.labels).set_axis(labels, axis=1).columns)
        else:
            result = relabelled(held, labels)
        pop_copy(self, named)
        return lazy(type(self), result, self)

    @native(pd.DataFrame)
    def add_prefix(self: Any, prefix: Any, axis: Any = None) -> Any:
        return _affixed(self, axis, lambda frame: frame.add_prefix(prefix))

    @native(pd.DataFrame)
    def add_suffix(self: Any, suffix: Any, axis: Any = None) -> Any:
        return _affixed(self, axis, lambda frame: frame.add_suffix(suffix))

    take = native(pd.DataFrame, "take")(_take)
    truncate = native(pd.DataFrame, "truncate")(_truncate)


def _affixed(self: Any, axis: Any, change: Any) -> Any:
    if axis not in (None, 1, "columns"):
        raise Unsupported(Refusal.ROW_AXIS)
    held = view(self)
    return lazy(type(self), held.with_values(held.values, change(stand_ins.positions(held.labels)).columns), self)


@never_refused(pd.Series, "loc", "iloc")
class SeriesSelection(SeriesRows):
    """Selection methods of Series."""

    take = native(pd.Series, "take")(_take)
    truncate = native(pd.Series, "truncate")(_truncate)

    @native(pd.Series)
    def set_axis(self: Any, labels: Any, *, axis: Any = 0, copy: Any = no_default) -> Any:
        refuse_unique_labels_flag(self)
        named = arguments(pd.Series, "set_axis", (labels,), {"axis": axis, "copy": copy})
        self._get_axis_number(axis)
        result = relabelled(view(self), labels)
        pop_copy(self, named)
        return lazy(type(self), result, self)

    head = native(pd.Series, "head")(_head)
    tail = native(pd.Series, "tail")(_tail)

    @property
    def loc(self: Any) -> Any:
        """Access by label."""
        return pd.Series.loc.fget(self) if stays_in_pandas(self) else LocIndexer("loc", self)  # type: ignore[attr-defined]

    @property
    def iloc(self: Any) -> Any:
        """Access by position."""
        return pd.Series.iloc.fget(self) if stays_in_pandas(self) else ILocIndexer("iloc", self)  # type: ignore[attr-defined]

    @native(pd.Series, key=True, route=by_callback(select_item))
    def __getitem__(self: Any, key: Any) -> Any:
        if callable(key):
            return self[resolve_key(key, self)]
        held = view(self)
        if isinstance(key, slice):
            return lazy(type(self), by_slice(held, key), self)
        if held.index.kind == "multi" and (is_scalar(key) or (isinstance(key, (tuple, list)) and not is_mask(key))):
            count_query(self)
            found = by_label(held, key, self.index, lambda rows: rows[key])
            if isinstance(found, int):
                return single_row(self, found, lambda few: few.iloc[0], slice(None))
            return lazy(type(self), found, self)
        if isinstance(key, tuple) or (held.index.kind == "multi" and not is_mask(key)):
            raise Unsupported(Refusal.KEY_OF_LEVELS)
        if isinstance(key, (bool, np.bool_)):
            raise Unsupported(Refusal.KEY_BOOL)
        if getattr(key, "ndim", 1) > 1 or (isinstance(key, list) and any(isinstance(item, slice) for item in key)):
            raise Unsupported(Refusal.ARGUMENTS_PANDAS_REFUSES)
        if not is_hashable(key) and is_mask(key):
            return filter_rows(self, key)
        return LocIndexer("loc", self)[key]

    @native(pd.Series)
    def __setitem__(self: Any, key: Any, value: Any) -> None:
        from craton.pandas.indexing.setting import set_by_label, set_by_position

        if not is_lazy(self):
            with plain_pandas():
                materialise_operands(key, value)
                pd.Series.__setitem__(self, key, value)
        elif isinstance(key, slice) and all(b is None or type(b) is int for b in (key.start, key.stop, key.step)):
            replace_state(self, set_by_position(self, key, slice(None), value))
        elif not is_hashable(key) and is_mask(key):
            replace_state(self, set_by_label(self, key, slice(None), value))
        else:
            raise Unsupported(Refusal.ONE_ROW_SET)

    @native(pd.Series)
    def to_frame(self: Any, *args: Any, **kwargs: Any) -> Any:

        named = arguments(pd.Series, "to_frame", args, kwargs)
        held = view(self)
        few = stand_ins.column(np.dtype(object))
        few.name = self.name
        return lazy(frame_class(), held.with_values(held.values, few.to_frame(**named).columns), self)

    @native(pd.Series)
    def rename(self: Any, *args: Any, **kwargs: Any) -> Any:
        named = arguments(pd.Series, "rename", args, kwargs)
        index = named.pop("index", None)
        if (
            named.keys() - {"inplace", "copy"}
            or callable(index)
            or not is_hashable(index)
            or not (is_scalar(index) or isinstance(index, tuple))
        ):
            raise Unsupported(Refusal.RENAMING_ROWS)
        inplace = pop_inplace(self, named, "rename")
        pop_copy(self, named)
        held = view(self)
        result = finished(self, held.with_values(held.values, name_index(index)), inplace)
        return self if inplace else result  # given a scalar, pandas returns the Series even if inplace
