"""Element-wise methods of DataFrame and Series: fillna, where, clip, isin, astype, replace, map and others."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
from pandas._libs.lib import no_default
from pandas.api.types import is_list_like, is_scalar
from pandas.core.dtypes.astype import astype_is_view

from craton.errors import Unsupported
from craton.pandas.core import stand_ins
from craton.pandas.core.align import aligned
from craton.pandas.core.axes import planned_labels
from craton.pandas.core.deprecations import pop_inplace
from craton.pandas.core.dtypes import family, kind_of, same_dtype
from craton.pandas.core.execute import resolved, resolved_keys
from craton.pandas.core.lazy import consolidated, finished, lazy, replace_state, share_memory_of, view
from craton.pandas.core.native import native
from craton.pandas.core.routing import is_lazy, stays_in_pandas
from craton.pandas.core.view import IndexSpec, Value, View
from craton.pandas.values.categories import CategoryAccessor
from craton.pandas.values.gathering import with_rows_of
from craton.pandas.values.operands import is_axis
from craton.pandas.values.text.strings import StringAccessor
from craton.pandas.values.times.dates import DatetimeAccessor
from craton.plan.expr import Call, Expr, Literal
from craton.refusals import Refusal

_INT = (int, np.integer)


def _map_columns(obj: Any, function: Any) -> Any:
    held = view(obj)
    return lazy(type(obj), held.with_values([function(value) for value in held.values]), obj)


def _updated(obj: Any, new: View, inplace: Any) -> Any:
    """The result of a method that has an ``inplace`` parameter; if it is true, the changed object itself, as in pandas."""
    if inplace is False:
        return lazy(type(obj), new, obj)
    if inplace is not True:
        raise Unsupported(Refusal.PARAMETER, "inplace")
    replace_state(obj, new)
    return obj


def _where(obj: Any, cond: Any, other: Any, inplace: Any, axis: Any, level: Any, negate: bool) -> Any:
    from craton.pandas.values.filling import choose, condition_over_rows

    other = _replacement(obj, other, axis)
    cond = condition_over_rows(obj, cond, level)
    if isinstance(cond, pd.DataFrame) and isinstance(obj, pd.Series):
        raise Unsupported(Refusal.CONDITION_FRAME)
    if other is no_default:
        other = np.nan
    if not is_scalar(other) and type(other) is not type(obj):
        raise Unsupported(Refusal.REPLACEMENT_TYPE)
    held, mask = aligned(view(obj), view(cond))
    right: View | None = None
    if not is_scalar(other):
        held, right = aligned(held, view(other))
        held, mask = aligned(held, view(cond))
        held, right = aligned(held, right)
    if isinstance(obj, pd.DataFrame):
        for one in (right, mask if isinstance(cond, pd.DataFrame) else None):
            if one is not None and not (held.labels.is_unique and held.labels.identical(one.labels)):
                raise Unsupported(Refusal.COLUMNS_DIFFER)
        if right is not None:
            _demand_same_dtypes(held.values, right.values)
    selectors = list(mask.values) if isinstance(cond, type(obj)) else [mask.values[0]] * len(held.values)
    values = []
    for position, value in enumerate(held.values):
        selector = selectors[position]
        if kind_of(selector.dtype) != "b":
            raise Unsupported(Refusal.CONDITION_NOT_BOOLEAN)
        filler = other if right is None else right.values[position]
        # pandas replaces a value whose condition is missing, in ``where`` and ``mask`` alike, but keeps it with inplace=True.
        condition = _inverted_condition(selector) if negate else selector
        values.append(choose(held, condition, value, filler, missing=inplace is True))
    return _updated(obj, held.with_values(values), inplace)


def _replacement(obj: Any, other: Any, axis: Any) -> Any:
    """The parameter ``other`` of ``where``, for a frame with a Series along an axis as a frame."""
    if axis is None:
        return other
    if isinstance(obj, pd.Series) or not is_axis(axis):
        raise Unsupported(Refusal.CONDITION_TYPE)
    if isinstance(other, pd.Series):
        from craton.pandas.values.by_label import replacements

        return lazy(type(obj), replacements(obj, other, axis), obj)
    if not is_scalar(other):
        raise Unsupported(Refusal.CONDITION_TYPE)
    return other


def _demand_same_dtypes(values: Sequence[Value], replacements: Sequence[Value]) -> None:
    """Refuse replacements from a frame if pandas converts them to another dtype before it inserts them.

    pandas takes the replacements for each block as one NumPy array. So columns of several dtypes are converted to a common one, and
    nullable integers with missing values become floats, which cannot represent all 64-bit integers.
    """
    for value, new in zip(values, replacements, strict=True):
        if value.definite and new.definite and same_dtype(value.dtype, new.dtype):
            integers = family(new.dtype) != "numpy" and kind_of(new.dtype) in "iu"
            if integers and new.nulls and new.dtype.itemsize == 8:
                raise Unsupported(Refusal.REPLACEMENT_DTYPES)
        elif len(values) > 1 or not family(value.dtype) == family(new.dtype) == "numpy":
            raise Unsupported(Refusal.REPLACEMENT_DTYPES)


def _in_blocks(name: str) -> Callable[..., Any]:
    """Pandas' own ``where`` or ``mask``, on a frame that is consolidated as in pandas.

    pandas applies replacements of several columns block by block, so the result depends on the blocks. A materialised frame has one
    block per column.
    """
    theirs = getattr(pd.DataFrame, name)

    def called(obj: Any, cond: Any, other: Any = no_default, **kwargs: Any) -> Any:
        if is_list_like(other):
            obj = consolidated(obj, kwargs.get("inplace") is True)
        return theirs(obj, cond, other, **kwargs)

    return called


def _astype_in_pandas(obj: Any, *args: Any, **kwargs: Any) -> Any:
    """Pandas' own ``astype``; records that the result shares the memory of its source, by which a group-by recognises its keys."""
    made = pd.Series.astype(obj, *args, **kwargs)
    shared = obj.__dict__.get("_shared_from")
    if shared is not None and made.dtype == obj.dtype:
        made.__dict__["_shared_from"] = shared  # verified by memory wherever it is used
        return made
    known = is_lazy(obj) or shared is not None or not {"_origin", "_scan"}.isdisjoint(obj.__dict__)
    if known and astype_is_view(obj.dtype, made.dtype):
        share_memory_of(made, obj)
    return made


def _inverted_condition(selector: Value) -> Value:
    from craton.pandas.values.comparison import invert

    if not selector.definite:
        raise Unsupported(Refusal.CONDITION_DTYPE_OF_DATA)
    return invert(selector)


def _fillna(obj: Any, value: Any, axis: Any, inplace: Any, limit: Any) -> Any:
    from craton.pandas.values.by_label import fillers
    from craton.pandas.values.filling import filled, filled_with

    if axis not in (None, 0, "index", "rows") or limit is not None:
        raise Unsupported(Refusal.PARAMETERS, "axis and limit")
    if isinstance(obj, pd.DataFrame) and isinstance(value, pd.DataFrame):
        return _where(obj, obj.notna(), value, inplace, None, None, negate=False)
    held = view(obj)
    if isinstance(obj, pd.DataFrame) and isinstance(value, pd.Series):
        value = fillers(held, value)
    if is_scalar(value):
        new = [filled(column, value) for column in held.values]
    elif isinstance(obj, pd.DataFrame) and isinstance(value, dict):
        if not held.labels.is_unique or isinstance(held.labels, pd.MultiIndex):
            raise Unsupported(Refusal.DUPLICATE_LABELS)
        new = list(held.values)
        for label, scalar in value.items():
            if not is_scalar(scalar) or isinstance(label, tuple):
                raise Unsupported(Refusal.FILLING_VALUE)
            for position in held.positions(label):
                new[position] = filled(new[position], scalar)
    elif isinstance(obj, pd.Series) and isinstance(value, pd.Series):
        held, other = with_rows_of(held, view(value))
        new = [filled_with(held.values[0], other.values[0])]
    else:
        raise Unsupported(Refusal.FILLING_BY_SERIES)
    return _updated(obj, held.with_values(new), inplace)


def _isin(value: Value, values: Any, held: View) -> Value:
    from craton.pandas.values.lists.text_objects import as_strings, holds_text
    from craton.pandas.values.membership import is_in_values, is_in_view

    if holds_text(value) and type(values) in (list, set, tuple) and all(type(one) is str for one in values):
        value = as_strings(value)
    if isinstance(values, pd.Series) and not stays_in_pandas(values):
        return is_in_view(value, view(values))
    planned = planned_labels(values)
    if planned is not None:
        return is_in_view(value, planned)
    return is_in_values(value, values, held)


def _clip(obj: Any, lower: Any, upper: Any, axis: Any, inplace: Any, kwargs: dict[str, Any]) -> Any:
    from craton.pandas.values.clipping import clipped_view

    found = clipped_view(obj, lower, upper, axis, inplace, kwargs)
    return obj if found is None else _updated(obj, found, inplace)


def _pairs(to_replace: Any, value: Any) -> list[tuple[Any, Any]]:
    """Pairs of old and new values from the arguments of ``replace``."""
    if isinstance(to_replace, dict) and value is no_default:
        pairs = list(to_replace.items())
    elif isinstance(to_replace, list) and is_scalar(value):
        pairs = [(old, value) for old in to_replace]
    elif isinstance(to_replace, list) and isinstance(value, list) and len(to_replace) == len(value):
        pairs = list(zip(to_replace, value, strict=True))
    elif is_scalar(to_replace) and value is not no_default:
        pairs = [(to_replace, value)]
    else:
        raise Unsupported(Refusal.REPLACED_PAIRS)
    if not pairs or any(not is_scalar(item) or item is None for pair in pairs for item in pair):
        raise Unsupported(Refusal.REPLACED_PAIRS)
    return pairs


def _replace(obj: Any, to_replace: Any, value: Any, inplace: Any, regex: Any) -> Any:
    from craton.pandas.values.mapping import replaced, replaced_by_patterns

    if type(regex) is str and to_replace is None:
        to_replace, regex = regex, True
    if not isinstance(regex, bool) or value is None:
        raise Unsupported(Refusal.REPLACEMENT_PATTERNS)
    replace_in = replaced_by_patterns if regex else replaced
    held = resolved(view(obj))
    if isinstance(to_replace, dict) and any(isinstance(item, dict) for item in to_replace.values()):
        if isinstance(obj, pd.Series) or value is not no_default or not held.labels.is_unique:
            raise Unsupported(Refusal.REPLACED_PAIRS)
        values = list(held.values)
        for label, mapping in to_replace.items():
            for position in held.positions(label):
                values[position] = replace_in(values[position], _pairs(mapping, no_default))
        return _updated(obj, held.with_values(values), inplace)
    pairs = _pairs(to_replace, value)
    if isinstance(obj, pd.DataFrame) and isinstance(to_replace, dict) and set(to_replace) & set(held.labels):
        raise Unsupported(Refusal.REPLACEMENT_NAMES_COLUMNS)
    return _updated(obj, held.with_values([replace_in(column, pairs) for column in held.values]), inplace)


def _columns_of(held: View, subset: Any) -> list[Value]:
    """The columns that the parameter ``subset`` of ``dropna`` lists."""
    if getattr(subset, "ndim", 1) > 1:
        raise Unsupported(Refusal.PARAMETER, "subset, which must list columns")
    if isinstance(held.labels, pd.MultiIndex):
        raise Unsupported(Refusal.LABELS_OF_SEVERAL_LEVELS)
    labels = subset if is_list_like(subset) else [subset]
    positions = [held.positions(label) for label in labels]
    if any(not found for found in positions):
        raise Unsupported(Refusal.COLUMN_UNKNOWN)
    return [held.values[i] for found in positions for i in found]


def _round(obj: Any, decimals: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    from craton.pandas.values.casting import rounded

    if args or kwargs:
        raise Unsupported(Refusal.PARAMETER, "decimals, which must be an integer")
    if isinstance(obj, pd.DataFrame):
        from craton.pandas.values.by_label import rounded_columns

        return lazy(type(obj), rounded_columns(view(obj), decimals), obj)
    if type(decimals) is not int or abs(decimals) >= 2**31:
        raise Unsupported(Refusal.PARAMETER, "decimals, which must be an integer")
    return _map_columns(obj, lambda value: rounded(value, decimals))


def _dropna(obj: Any, held: View, missing: Expr | None, inplace: Any, ignore_index: Any) -> Any:
    """``dropna``: the rows where ``missing`` is false; all rows if it is ``None``."""
    if not isinstance(ignore_index, bool):
        raise Unsupported(Refusal.PARAMETER, "ignore_index, which must be a bool")
    if missing is not None:
        held = held.filtered(Call("not", (missing,), pl.Boolean()))
        held = held.keep_frequency_if_consecutive() if isinstance(obj, pd.Series) else held
    if ignore_index:
        held = replace(held, index=IndexSpec())
    return finished(obj, held, pop_inplace(obj, {"inplace": inplace}, "dropna"))


class FrameValueMethods:
    """Element-wise methods of DataFrame."""

    @native(pd.DataFrame)
    def isna(self: Any) -> Any:
        from craton.pandas.values.comparison import is_missing

        return _map_columns(self, is_missing)

    @native(pd.DataFrame)
    def isnull(self: Any) -> Any:
        from craton.pandas.values.comparison import is_missing

        return _map_columns(self, is_missing)

    @native(pd.DataFrame)
    def notna(self: Any) -> Any:
        from craton.pandas.values.comparison import not_missing

        return _map_columns(self, not_missing)

    @native(pd.DataFrame)
    def notnull(self: Any) -> Any:
        from craton.pandas.values.comparison import not_missing

        return _map_columns(self, not_missing)

    @native(pd.DataFrame)
    def abs(self: Any) -> Any:
        from craton.pandas.values.arithmetic import absolute

        return _map_columns(self, absolute)

    @native(pd.DataFrame, fallback=_in_blocks("where"))
    def where(
        self: Any, cond: Any, other: Any = no_default, *, inplace: Any = False, axis: Any = None, level: Any = None
    ) -> Any:
        return _where(self, cond, other, inplace, axis, level, negate=False)

    @native(pd.DataFrame, fallback=_in_blocks("mask"))
    def mask(
        self: Any, cond: Any, other: Any = no_default, *, inplace: Any = False, axis: Any = None, level: Any = None
    ) -> Any:
        return _where(self, cond, other, inplace, axis, level, negate=True)

    @native(pd.DataFrame)
    def isin(self: Any, values: Any) -> Any:
        if isinstance(values, dict):
            held = view(self)
            if not held.labels.is_unique:
                raise Unsupported(Refusal.DUPLICATE_LABELS)
            if any(isinstance(wanted, (pd.Series, pd.DataFrame)) for wanted in values.values()):
                raise Unsupported(Refusal.COMPARED_BY_ROW)
            columns = zip(held.labels, held.values, strict=True)
            found = [_isin(value, values.get(label, []), held) for label, value in columns]
            # pandas concatenates single columns, which infers the dtype of the column labels again.
            labels = stand_ins.probe(stand_ins.without_rows(held.labels).isin, {}).columns
            return lazy(type(self), held.with_values(found, labels), self)
        if not isinstance(values, (list, set, tuple, np.ndarray)):
            raise Unsupported(Refusal.MEMBERSHIP_VALUES)
        return _map_columns(self, lambda value: _isin(value, values, view(self)))

    @native(pd.DataFrame)
    def fillna(self: Any, value: Any, *, axis: Any = None, inplace: Any = False, limit: Any = None) -> Any:
        return _fillna(self, value, axis, inplace, limit)

    @native(pd.DataFrame)
    def replace(
        self: Any, to_replace: Any = None, value: Any = no_default, *, inplace: Any = False, regex: Any = False
    ) -> Any:
        return _replace(self, to_replace, value, inplace, regex)

    @native(pd.DataFrame)
    def dropna(
        self: Any,
        *,
        axis: Any = 0,
        how: Any = no_default,
        thresh: Any = no_default,
        subset: Any = None,
        inplace: Any = no_default,
        ignore_index: Any = False,
    ) -> Any:
        from craton.pandas.values.comparison import is_missing

        if how is not no_default and thresh is not no_default:
            raise Unsupported(Refusal.DROPPING_COLUMNS)
        if axis in (1, "columns") and axis is not True:
            if subset is not None:
                raise Unsupported(Refusal.DROPPING_COLUMNS)
            from craton.pandas.values.by_label import without_missing

            return _dropna(self, without_missing(view(self), how, thresh), None, inplace, ignore_index)
        if axis not in (0, "index"):
            raise Unsupported(Refusal.DROPPING_COLUMNS)
        held = view(self)
        chosen = list(held.values) if subset is None else _columns_of(held, subset)
        conditions = [is_missing(value) for value in chosen]
        flags = [c.expr for c in conditions if not (isinstance(c.expr, Literal) and c.expr.value is False)]
        if thresh is not no_default:
            if type(thresh) is not int:
                raise Unsupported(Refusal.PARAMETER, "thresh, which must be an integer")
            counts = [Call("cast", (flag,), pl.Int64()) for flag in flags]
            total = functools.reduce(lambda a, b: Call("add", (a, b), pl.Int64()), counts) if counts else None
            if total is None:
                missing: Expr | None = Literal(len(chosen) < thresh, pl.Boolean())
            else:
                missing = Call("gt", (total, Literal(len(chosen) - thresh, pl.Int64())), pl.Boolean())
        elif how in (no_default, "any"):
            missing = functools.reduce(lambda a, b: Call("or", (a, b), pl.Boolean()), flags) if flags else None
        elif how == "all":
            every = flags if chosen else [Literal(True, pl.Boolean())]
            every = every if len(flags) == len(chosen) else []
            missing = functools.reduce(lambda a, b: Call("and", (a, b), pl.Boolean()), every) if every else None
        else:
            raise Unsupported(Refusal.ARGUMENTS_PANDAS_REFUSES)
        return _dropna(self, held, missing, inplace, ignore_index)

    @native(pd.DataFrame)
    def clip(
        self: Any, lower: Any = None, upper: Any = None, *, axis: Any = None, inplace: Any = False, **kwargs: Any
    ) -> Any:
        return _clip(self, lower, upper, axis, inplace, kwargs)

    @native(pd.DataFrame)
    def round(self: Any, decimals: Any = 0, *args: Any, **kwargs: Any) -> Any:
        return _round(self, decimals, args, kwargs)

    @native(pd.DataFrame)
    def astype(self: Any, dtype: Any, copy: Any = no_default, errors: Any = "raise") -> Any:
        from craton.pandas.values.casting import cast, dtype_named, is_dtype_map

        if errors != "raise" or copy is not no_default:
            raise Unsupported(Refusal.PARAMETER, "errors or copy")
        held = view(self)
        values = list(held.values)
        if is_dtype_map(dtype):
            if not held.labels.is_unique:
                raise Unsupported(Refusal.DUPLICATE_LABELS)
            targets = {}
            for label, wanted in dtype.items():
                position = held.positions(label)
                if not position or isinstance(label, tuple):
                    raise Unsupported(Refusal.COLUMN_UNKNOWN)
                if wanted is None:
                    raise Unsupported(Refusal.DTYPE_UNKNOWN)
                targets[position[0]] = dtype_named(wanted)
            for i in sorted(targets):  # in pandas the first column that fails is named
                try:
                    held, values[i] = cast(held, values[i], targets[i])
                except ValueError as error:
                    error.args = (f"{error}: Error while type casting for column '{held.labels[i]}'",)
                    raise
        else:
            target = dtype_named(dtype)
            for i, value in enumerate(values):
                held, values[i] = cast(held, value, target)
        return lazy(type(self), held.with_values(values), self)

    @native(pd.DataFrame)
    def infer_objects(self: Any, copy: Any = no_default) -> Any:
        return _inferred(self, copy)


def _inferred(obj: Any, copy: Any) -> Any:
    """``infer_objects``: columns of other dtypes stay as they are."""
    from craton.pandas.values.whole_results import computed_by_pandas

    if copy is not no_default:
        raise Unsupported(Refusal.WARNING_OF_PANDAS, "copy")
    if all(family(value.dtype) != "object" for value in view(obj).values):
        return obj.copy(deep=False)
    return computed_by_pandas(obj, lambda whole: whole.infer_objects())


def planned_map(self: Any, func: Any = None, na_action: Any = None, engine: Any = None, **kwargs: Any) -> Any:
    from craton.pandas.values.mapping import mapped

    if na_action not in (None, "ignore") or engine is not None or kwargs:
        raise Unsupported(Refusal.PARAMETER, "engine")
    held = resolved(view(self))
    if type(func) is dict and all(type(key) is str for key in func):
        from craton.pandas.values.lists.text_objects import as_strings, holds_text

        if holds_text(held.values[0]):
            held = held.with_values([as_strings(held.values[0])])
    value = mapped(held, held.values[0], func, skip_missing=na_action == "ignore")
    return lazy(type(self), held.with_values([value]), self)


class SeriesValueMethods:
    """Element-wise methods of Series."""

    str = StringAccessor()
    dt = DatetimeAccessor()
    cat = CategoryAccessor()

    @native(pd.Series)
    def isna(self: Any) -> Any:
        from craton.pandas.values.comparison import is_missing

        return _map_columns(self, is_missing)

    @native(pd.Series)
    def isnull(self: Any) -> Any:
        from craton.pandas.values.comparison import is_missing

        return _map_columns(self, is_missing)

    @native(pd.Series)
    def notna(self: Any) -> Any:
        from craton.pandas.values.comparison import not_missing

        return _map_columns(self, not_missing)

    @native(pd.Series)
    def notnull(self: Any) -> Any:
        from craton.pandas.values.comparison import not_missing

        return _map_columns(self, not_missing)

    @native(pd.Series)
    def abs(self: Any) -> Any:
        from craton.pandas.values.arithmetic import absolute

        return _map_columns(self, absolute)

    @native(pd.Series)
    def isin(self: Any, values: Any) -> Any:
        return _map_columns(self, lambda value: _isin(value, values, view(self)))

    @native(pd.Series)
    def between(self: Any, left: Any, right: Any, inclusive: Any = "both") -> Any:
        from craton.pandas.values.membership import between

        if inclusive not in ("both", "left", "right", "neither") or not is_scalar(left) or not is_scalar(right):
            raise Unsupported(Refusal.PARAMETERS, "left, right and inclusive")
        held = resolved_keys(view(self))
        return lazy(type(self), held.with_values([between(held.values[0], left, right, inclusive)]), self)

    @native(pd.Series)
    def where(
        self: Any, cond: Any, other: Any = no_default, *, inplace: Any = False, axis: Any = None, level: Any = None
    ) -> Any:
        return _where(self, cond, other, inplace, axis, level, negate=False)

    @native(pd.Series)
    def mask(
        self: Any, cond: Any, other: Any = no_default, *, inplace: Any = False, axis: Any = None, level: Any = None
    ) -> Any:
        return _where(self, cond, other, inplace, axis, level, negate=True)

    @native(pd.Series)
    def fillna(self: Any, value: Any, *, axis: Any = None, inplace: Any = False, limit: Any = None) -> Any:
        return _fillna(self, value, axis, inplace, limit)

    @native(pd.Series)
    def replace(
        self: Any, to_replace: Any = None, value: Any = no_default, *, inplace: Any = False, regex: Any = False
    ) -> Any:
        return _replace(self, to_replace, value, inplace, regex)

    @native(pd.Series)
    def dropna(
        self: Any, *, axis: Any = 0, inplace: Any = no_default, how: Any = None, ignore_index: Any = False
    ) -> Any:
        from craton.pandas.values.comparison import is_missing

        if axis not in (0, "index"):
            raise Unsupported(Refusal.ARGUMENTS_PANDAS_REFUSES)
        held = view(self)
        condition = is_missing(held.values[0]).expr
        constant = isinstance(condition, Literal)
        return _dropna(self, held, None if constant else condition, inplace, ignore_index)

    @native(pd.Series)
    def clip(
        self: Any, lower: Any = None, upper: Any = None, *, axis: Any = None, inplace: Any = False, **kwargs: Any
    ) -> Any:
        return _clip(self, lower, upper, axis, inplace, kwargs)

    @native(pd.Series)
    def round(self: Any, decimals: Any = 0, *args: Any, **kwargs: Any) -> Any:
        return _round(self, decimals, args, kwargs)

    @native(pd.Series, fallback=_astype_in_pandas)
    def astype(self: Any, dtype: Any, copy: Any = no_default, errors: Any = "raise") -> Any:
        from craton.pandas.values.casting import cast, dtype_named, is_dtype_map

        if errors != "raise" or copy is not no_default or is_dtype_map(dtype):
            raise Unsupported(Refusal.PARAMETER, "errors or copy")
        held = view(self)
        target = dtype_named(dtype)
        (value,) = held.values
        held, converted = cast(held, value, target)
        made = lazy(type(self), held.with_values([converted]), self)
        if astype_is_view(value.dtype, target):  # in pandas it shares this column's memory: see _astype_in_pandas
            share_memory_of(made, self)
        return made

    @native(pd.Series)
    def infer_objects(self: Any, copy: Any = no_default) -> Any:
        return _inferred(self, copy)


__all__ = ["FrameValueMethods", "SeriesValueMethods", "is_lazy"]
