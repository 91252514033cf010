"""Window functions over groups: ``transform``, and the methods that return one row per input row or a selection of the rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
from pandas.api.extensions import no_default
from pandas.api.types import is_integer, is_list_like

from craton.engine import collect_rows
from craton.errors import Unsupported
from craton.pandas.core.dtypes import (
    FLOAT64,
    INT64,
    OBJECT,
    DtypeObj,
    distinguishes_signed_zeros,
    family,
    kind_of,
    physical,
    with_missing,
)
from craton.pandas.core.execute import count_rows, has_rows
from craton.pandas.core.view import ObjectColumn, Value, View
from craton.pandas.groupby.aggregates import Probe, refuse_nan, refuse_signed_zeros, rows_in_groups
from craton.pandas.groupby.functions import NAMES, UndecidedDtype, plan_aggregate, without_nan
from craton.pandas.groupby.keys import Grouped
from craton.pandas.values.arithmetic import arithmetic
from craton.pandas.values.operands import is_na, literal
from craton.plan import build
from craton.plan.expr import Call, Expr, Literal, Options, WindowCall, conjunction, dtype_of, options
from craton.plan.operators import AggregateCall
from craton.plan.registry import FUNCTIONS
from craton.refusals import Refusal

ViewAndTemplate = tuple[View, pd.DataFrame | pd.Series]


def partition(state: Grouped) -> tuple[Expr, ...]:
    """The keys, as the partition of a window."""
    return tuple(key.value.clean.expr for key in state.keys)


def _in_a_group(state: Grouped) -> Expr | None:
    """A predicate that is true in rows without a missing key; ``None`` if all rows belong to a group."""
    if not state.options.dropna:
        return None
    present = [
        Call("not", (Call("is_null", (key.value.clean.expr,), pl.Boolean()),), pl.Boolean())
        for key in state.keys
        if key.value.clean.nulls
    ]
    return conjunction(present) if present else None  # type: ignore[arg-type]


def window_over_groups(
    state: Grouped,
    function: str,
    args: Sequence[Expr],
    dtype: DtypeObj,
    choice: Options = (),
    *,
    nulls: bool = False,
    nans: bool = False,
    otherwise: Expr | None = None,
) -> Value:
    """A window function over the rows of each group. Rows in no group get ``otherwise``; by default a missing value."""
    kind = physical(dtype)
    expr: Expr = WindowCall(function, tuple(args), kind, partition(state), choice)
    return where_in_group(state, Value(expr, dtype, nulls, nans), otherwise)


def where_in_group(state: Grouped, value: Value, otherwise: Expr | None = None) -> Value:
    """A value for each row, with ``otherwise`` in the rows that are in no group; by default a missing value."""
    expr, nulls, kind = value.expr, value.nulls, value.physical
    keyed = _in_a_group(state)
    if keyed is not None:
        expr = Call("when", (keyed, expr, Literal(None, kind) if otherwise is None else otherwise), kind)
        nulls = nulls or otherwise is None
    return Value(expr, value.dtype, nulls, value.nans, _source(state, expr, value.dtype, nulls))


def _source(state: Grouped, expr: Expr, dtype: DtypeObj, nulls: bool) -> Any:
    if not nulls or with_missing(dtype) == dtype:
        return None
    return build.project(state.held.base, (("value", expr),)), "value"


def row_aligned_view(state: Grouped, values: Sequence[Value], template: pd.DataFrame | pd.Series) -> View:
    """The result of a method that returns one row per input row, with the row labels of the grouped object."""
    if isinstance(template, pd.DataFrame):
        labels = template.columns
    else:
        labels = pd.Index([template.name], dtype=object, tupleize_cols=False)
    if len(labels) != len(values):
        raise Unsupported(Refusal.RESULT_SHAPE)
    return View(state.held.base, tuple(values), labels, state.held.index, state.held.rows)


def _dtypes(template: pd.DataFrame | pd.Series) -> list[DtypeObj]:
    return list(template.dtypes) if isinstance(template, pd.DataFrame) else [template.dtype]


def _window_argument(value: Value, kinds: str = "biufmMT") -> Value:
    """A column as the argument of a window function: of a definite dtype, with nulls for missing values."""
    _require_definite_dtype(value)
    if kind_of(value.dtype) not in kinds or family(value.dtype) in ("category", "object"):
        raise Unsupported(Refusal.OPERATION, f"a window function of {value.dtype}")
    return value.clean


def _require_definite_dtype(value: Value) -> None:
    if not value.definite:
        raise UndecidedDtype(Refusal.DTYPE_OF_DATA)


def _nan_as_na(value: Value) -> Value:
    """The result of a function of groups; NaN becomes NA if the dtype has NA."""
    return value if family(value.dtype) == "numpy" else value.clean


def _each_column(state: Grouped, template: Any, build: Callable[[Value, DtypeObj], Value]) -> ViewAndTemplate:
    values = [build(value, dtype) for value, dtype in zip(state.values, _dtypes(template), strict=True)]
    return row_aligned_view(state, values, template), template


def broadcast(state: Grouped, probe: Probe, name: str, parameters: dict[str, Any]) -> ViewAndTemplate:
    """``transform`` by a named aggregation: each row gets the aggregate of its group."""
    template = probe("transform", name, **parameters)
    if name == "size":
        return row_aligned_view(state, [window_over_groups(state, "len", (), _dtypes(template)[0])], template), template

    def build(value: Value, dtype: DtypeObj) -> Value:
        _require_definite_dtype(value)
        refuse_nan(state, name, value)
        refuse_signed_zeros(state, name, value)
        out = plan_aggregate(name, value, dtype, parameters)
        if out.narrow is not None:
            raise Unsupported(Refusal.GROUP_TOTALS_SMALL)
        if not FUNCTIONS[out.function].result.allows(physical(dtype), tuple(dtype_of(arg) for arg in out.args)):
            raise Unsupported(Refusal.GROUP_TRANSFORM)  # pandas has no group, and the dtype is that of missing values
        result = _nan_as_na(
            window_over_groups(state, out.function, out.args, dtype, out.options, nulls=out.nulls, nans=out.nans)
        )
        return _added_to_zero(result) if name == "sum" else result

    if parameters.get("numeric_only", False) or (name in ("skew", "kurt") and not state.held.rows):
        raise Unsupported(Refusal.GROUP_TRANSFORM)
    return _each_column(state, template, build)


def broadcast_several(state: Grouped, probe: Probe, names: dict[Any, Any] | list[Any]) -> ViewAndTemplate:
    """``transform`` by the names of aggregations in a dict by column, or in a list, of which each column gets all."""
    given = names if isinstance(names, list) else list(names.values())
    if not all(isinstance(name, str) and name in NAMES and name != "size" for name in given):
        raise Unsupported(Refusal.FUNCTION_TRANSFORM)
    if isinstance(names, list):
        pairs = [(i, name) for i in state.positions for name in names]
    elif state.single or any(len(state.held.positions(label)) != 1 for label in names):
        raise Unsupported(Refusal.FUNCTION_TRANSFORM)
    else:
        pairs = [(state.held.position(label), name) for label, name in names.items()]
    template = probe("transform", names)
    if not isinstance(template, pd.DataFrame) or template.shape[1] != len(pairs):
        raise Unsupported(Refusal.RESULT_SHAPE)
    values: list[Value] = []
    for number, (position, name) in enumerate(pairs):
        part = template.iloc[:, [number]]
        values += broadcast(state.selecting([position], False), lambda *_, part=part: part, name, {})[0].values
    return row_aligned_view(state, values, template), template


def _added_to_zero(total: Value) -> Value:
    """A sum of nullable or Arrow floats. pandas starts from 0.0, so the sum is 0.0 even if all values are -0.0."""
    if family(total.dtype) == "numpy" or not total.physical.is_float():
        return total
    return replace(total, expr=Call("add", (total.expr, Literal(0.0, total.physical)), total.physical))


def cumulative(state: Grouped, probe: Probe, name: str, args: Any, parameters: dict[str, Any]) -> ViewAndTemplate:
    """``cumsum``, ``cumprod``, ``cummin``, ``cummax``."""
    if args or parameters:
        raise Unsupported(Refusal.PARAMETERS, "axis, numeric_only and skipna")
    template = probe(name)
    without_key = cache(partial(_rows_without_key, state))
    function = {"cumsum": "cum_sum", "cumprod": "cum_prod", "cummin": "cum_min", "cummax": "cum_max"}[name]

    def build(value: Value, dtype: DtypeObj) -> Value:
        sums = name in ("cumsum", "cumprod")
        clean = _window_argument(value, "biuf" if sums else "iufmM")
        if clean.physical == pl.Boolean():
            clean = replace(clean, expr=Call("cast", (clean.expr,), pl.Int64()))
        if not sums and distinguishes_signed_zeros(value.dtype):
            raise Unsupported(Refusal.ARROW_FLOATS_EXTREME)
        _refuse_times(name, value, clean, without_key)
        if sums and clean.physical not in (pl.Int64(), pl.UInt64(), pl.Float32(), pl.Float64()):
            raise Unsupported(Refusal.GROUP_TOTALS_SMALL)
        if name == "cumprod" and clean.physical == pl.Float32():
            raise Unsupported(Refusal.SINGLE_PRODUCTS)
        if sums and kind_of(value.dtype) in "biu" and family(value.dtype) == "numpy" and without_key():
            # Rows in no group get NaN, so pandas converts the column to floats before it adds.
            clean, dtype = replace(clean, expr=Call("cast", (clean.expr,), pl.Float64())), FLOAT64
        if not sums:
            clean = without_nan(clean, -np.inf if name == "cummax" else np.inf)
        # pandas uses compensated (Kahan) summation, which returns NaN for the rows after an infinity.
        floats = kind_of(dtype) == "f"
        choice = options(compensated=True) if name == "cumsum" and floats else ()
        return _nan_as_na(
            window_over_groups(state, function, (clean.expr,), dtype, choice, nulls=clean.nulls, nans=floats)
        )

    return _each_column(state, template, build)


def _refuse_times(name: str, value: Value, clean: Value, without_key: Callable[[], bool]) -> None:
    """Refuse times and durations if values or keys are missing, because pandas then converts the column before it compares."""
    if kind_of(value.dtype) not in "mM":
        return
    if clean.nulls:  # pandas treats NaT as the smallest value
        raise Unsupported(Refusal.OPERATION, f"{name} of {value.dtype} with missing values")
    if without_key():  # pandas converts the column to floats, which rounds counts of units with more than 53 bits
        raise Unsupported(Refusal.OPERATION, f"{name} of {value.dtype} with missing keys")


def _rows_without_key(state: Grouped) -> bool:
    """Whether any row has a missing key and so is in no group; runs a query if keys can be missing."""
    keyed = _in_a_group(state)
    if keyed is None:
        return False
    call = AggregateCall("any", (Call("not", (keyed,), pl.Boolean()),), pl.Boolean())
    return bool(collect_rows([build.aggregate(state.held.base, (), (("missing", call),))])[0].item())


def cumcount(state: Grouped, probe: Probe, ascending: bool = True) -> ViewAndTemplate:
    """The number of each row in its group."""
    template = probe("cumcount", ascending=ascending)
    number: Expr = WindowCall("row_number", (), pl.Int64(), partition(state))
    if not ascending:
        last = Call("sub", (WindowCall("len", (), pl.Int64(), partition(state)), Literal(1, pl.Int64())), pl.Int64())
        number = Call("sub", (last, number), pl.Int64())
    return row_aligned_view(state, [_numbers_in_groups(state, number)], template), template


def _numbers_in_groups(state: Grouped, expr: Expr) -> Value:
    keyed = _in_a_group(state)
    if keyed is None:
        return Value(expr, INT64, nulls=False)
    expr = Call("when", (keyed, expr, Literal(None, pl.Int64())), pl.Int64())
    return Value(expr, INT64, True, False, _source(state, expr, INT64, True))


def shift(
    state: Grouped, probe: Probe, periods: Any = 1, freq: Any = None, fill_value: Any = no_default
) -> ViewAndTemplate:
    """The value of an earlier or later row of the group."""
    if not is_integer(periods) or not periods or freq is not None:
        raise Unsupported(Refusal.GROUP_SHIFT)
    given = {} if fill_value is no_default or fill_value is None else {"fill_value": fill_value}

    def build(value: Value, _: DtypeObj) -> Value:
        _require_definite_dtype(value)
        choice = options(periods=int(periods))
        if isinstance(value.expr, ObjectColumn):
            return _shifted_objects(state, value, value.expr, choice, bool(given))
        if not given:
            return window_over_groups(state, "shift", (value.expr,), value.dtype, choice, nulls=True, nans=value.nans)
        filler = literal(fill_value, value)
        if kind_of(filler.dtype) != kind_of(value.dtype) or family(value.dtype) not in ("numpy", "str"):
            raise Unsupported(Refusal.GROUP_SHIFT_FILL)
        fill = Literal(filler.expr.value, value.physical)  # type: ignore[attr-defined]
        return window_over_groups(
            state, "shift", (value.expr, fill), value.dtype, choice, nulls=value.nulls, nans=value.nans, otherwise=fill
        )

    # The stand-in has only two rows, so the result's dtype may differ. The call on it only checks the arguments.
    template = probe("shift", periods, **given)
    return _each_column(state, template, build)


def _shifted_objects(state: Grouped, value: Value, objects: ObjectColumn, choice: Options, filled: bool) -> Value:
    """Python objects of an earlier or later row, by their positions in memory, or by their texts; NaN if there is no such row."""
    missing_is_nan = (objects.objects is not None or objects.nan) and objects.text is None and objects.source is None
    if filled or value.dtype != OBJECT or not missing_is_nan:
        raise Unsupported(Refusal.GROUP_SHIFT_FILL)
    moved: Expr = WindowCall("shift", (objects.column,), objects.dtype, partition(state), choice)
    if (keyed := _in_a_group(state)) is not None:
        moved = Call("when", (keyed, moved, Literal(None, objects.dtype)), objects.dtype)
    return Value(objects.over(moved), OBJECT, nulls=True)


def diff(state: Grouped, probe: Probe, periods: Any = 1) -> ViewAndTemplate:
    """The difference to an earlier or later row of the group."""
    if not is_integer(periods) or periods == 0:
        raise Unsupported(Refusal.GROUP_DIFF)
    template = probe("diff", periods)
    choice = options(periods=int(periods))

    def build(value: Value, dtype: DtypeObj) -> Value:
        clean = _window_argument(value, "iufmM")
        if family(value.dtype) != "numpy":
            raise Unsupported(Refusal.GROUP_DIFF_DTYPE)
        if kind_of(value.dtype) in "mM":
            earlier = window_over_groups(state, "shift", (clean.expr,), value.dtype, choice, nulls=True)
            return arithmetic("sub", clean, earlier, dtype, state.held)
        if kind_of(value.dtype) == "f":
            return window_over_groups(state, "diff", (clean.expr,), dtype, choice, nulls=True, nans=True)
        if with_missing(value.dtype) != dtype:
            raise Unsupported(Refusal.GROUP_DIFF_SMALL)
        # The first row of each group has no difference, so the result is a column of floats. Without rows, it keeps the integers.
        floats = Call("cast", (clean.expr,), physical(dtype))
        found = window_over_groups(state, "diff", (floats,), dtype, choice, nulls=True)
        if has_rows(state.held):
            return found
        return Value(Call("cast", (found.expr,), value.physical), value.dtype, nulls=False)

    return _each_column(state, template, build)


def pct_change(state: Grouped, probe: Probe, periods: Any = 1) -> ViewAndTemplate:
    """The relative difference to an earlier or later row of the group."""
    if not is_integer(periods) or not periods:
        raise Unsupported(Refusal.GROUP_CHANGE)
    template = probe("pct_change", periods)

    def build(value: Value, dtype: DtypeObj) -> Value:
        clean = _window_argument(value, "if")
        if family(value.dtype) != "numpy" or dtype not in (FLOAT64, value.dtype):
            raise Unsupported(Refusal.GROUP_CHANGE_DTYPE)
        if kind_of(value.dtype) == "i":
            clean = replace(clean, expr=Call("cast", (clean.expr,), pl.Float64()))
        shifted = window_over_groups(state, "shift", (clean.expr,), dtype, options(periods=int(periods)), nulls=True)
        ratio = Call("truediv", (clean.expr, shifted.expr), clean.physical)
        expr = Call("sub", (ratio, Literal(1.0, clean.physical)), clean.physical)
        return Value(expr, dtype, nulls=True, nans=True)

    return _each_column(state, template, build)


def fill(state: Grouped, probe: Probe, name: str, limit: Any = None) -> ViewAndTemplate:
    """``ffill`` and ``bfill``."""
    if limit is not None and (not is_integer(limit) or limit < 1):
        raise Unsupported(Refusal.PARAMETER, "limit")
    template = probe(name, limit=limit)
    function = "forward_fill" if name == "ffill" else "backward_fill"
    choice = options(limit=None if limit is None else int(limit))

    def build(value: Value, dtype: DtypeObj) -> Value:
        clean = _window_argument(value)
        return window_over_groups(state, function, (clean.expr,), value.dtype, choice, nulls=clean.nulls)

    return _each_column(state, template, build)


def rank(
    state: Grouped,
    probe: Probe,
    method: str = "average",
    ascending: Any = True,
    na_option: str = "keep",
    pct: Any = False,
) -> ViewAndTemplate:
    """The rank of each value in its group."""
    if na_option != "keep" or not isinstance(pct, bool) or not isinstance(ascending, bool):
        raise Unsupported(Refusal.PARAMETERS, "na_option, pct and ascending")
    names = {"average": "rank_average", "min": "rank_min", "max": "rank_max", "dense": "rank_dense"}
    names["first"] = "rank_ordinal"
    if method not in names:
        raise Unsupported(Refusal.PARAMETER, f"method={method!r}")
    template = probe("rank", method=method, ascending=ascending, pct=pct)
    without_key = cache(partial(_rows_without_key, state))

    def build(value: Value, dtype: DtypeObj) -> Value:
        clean = _window_argument(value, "iufmMb")
        if family(value.dtype) == "arrow":
            raise Unsupported(Refusal.OPERATION, f"rank of {value.dtype} with missing values")
        _refuse_times("rank", value, clean, without_key)
        wide = clean.physical in (pl.Int64(), pl.UInt64()) and family(value.dtype) == "numpy"
        if wide and without_key():
            # pandas converts the column to floats first, so different large integers may have the same rank.
            clean = replace(clean, expr=Call("cast", (clean.expr,), pl.Float64()))
        rank = window_over_groups(
            state, names[method], (clean.expr,), dtype, options(descending=not ascending), nulls=clean.nulls
        )
        if not pct:
            return rank
        function, arg = ("max", (rank.expr,)) if method == "dense" else ("count", (clean.expr,))
        count = WindowCall(function, arg, physical(dtype), partition(state))
        return replace(rank, expr=Call("truediv", (rank.expr, count), physical(dtype)))

    return _each_column(state, template, build)


def ngroup(state: Grouped, probe: Probe, ascending: Any = True) -> ViewAndTemplate:
    """The number of each row's group."""
    if not isinstance(ascending, bool) or not state.options.sort or len(state.keys) > 1:
        raise Unsupported(Refusal.GROUP_NUMBER_KEYS)
    template = probe("ngroup", ascending=ascending)
    key = state.keys[0].value.clean
    if key.nulls and not state.options.dropna:
        raise Unsupported(Refusal.GROUP_NUMBER_MISSING)
    choice = options(descending=not ascending)
    number = Call(
        "sub", (WindowCall("rank_dense", (key.expr,), pl.Int64(), (), choice), Literal(1, pl.Int64())), pl.Int64()
    )
    return row_aligned_view(state, [_numbers_in_groups(state, number)], template), template


def head_or_tail(state: Grouped, name: str, n: Any = 5) -> Expr:
    """``head`` and ``tail``: a predicate for the first or last rows of each group."""
    if not is_integer(n):
        raise Unsupported(Refusal.PARAMETER, "n")
    number: Expr = WindowCall("row_number", (), pl.Int64(), partition(state))
    size: Expr = WindowCall("len", (), pl.Int64(), partition(state))
    if name == "tail":
        one = Literal(1, pl.Int64())
        number = Call("sub", (Call("sub", (size, one), pl.Int64()), number), pl.Int64())
        inside = Call("lt", (number, Literal(int(n), pl.Int64())), pl.Boolean())
        if n < 0:
            raise Unsupported(Refusal.GROUP_TAIL)
    elif n < 0:
        kept = Call("add", (size, Literal(int(n), pl.Int64())), pl.Int64())
        inside = Call("lt", (number, kept), pl.Boolean())
    else:
        inside = Call("lt", (number, Literal(int(n), pl.Int64())), pl.Boolean())
    return in_groups_only(state, inside)


def in_groups_only(state: Grouped, predicate: Expr) -> Expr:
    """A predicate, restricted to the rows that are in a group."""
    keyed = _in_a_group(state)
    return predicate if keyed is None else conjunction([keyed, predicate])


def count_groups(state: Grouped) -> int:
    """The number of groups; runs a query."""
    base, keys, _ = rows_in_groups(state, ())
    named = tuple((f"key{i}", key) for i, key in enumerate(keys))
    return count_rows(View(build.aggregate(base, named, (), sort=False), (), state.held.labels[:0]))


def group_predicate(state: Grouped, name: Any, by: Any, level: Any) -> Expr:
    """``get_group``: a predicate for the rows of the group with a name. A query checks that the group exists.

    Parameters
    ----------
    name
        The name of the group: a value of the key, or a tuple with a value of each key.
    by, level
        The arguments of ``groupby``. They decide whether a name is a tuple; pandas treats a key column with one row like a
        list of one key.
    """
    names = name if isinstance(name, tuple) else (name,)
    listed = any(isinstance(one, (list, tuple)) and len(one) == 1 for one in (by, level))
    column = is_list_like(by) and not isinstance(by, (list, tuple))
    if len(names) != len(state.keys) or (len(names) == 1 and listed != isinstance(name, tuple)):
        raise Unsupported(Refusal.GROUP_NAME_LENGTH)
    found = [_equals(key.value, one) for key, one in zip(state.keys, names, strict=True)]
    predicate = conjunction(found)
    calls = (
        ("found", AggregateCall("any", (predicate,), pl.Boolean())),
        ("rows", build.row_count()),
    )
    (counted,) = collect_rows([build.aggregate(state.held.base, (), calls)])
    if not counted.item(0, "found") or (column and counted.item(0, "rows") == 1):
        raise Unsupported(Refusal.GROUP_NAME_UNKNOWN)
    return predicate


def _equals(value: Value, name: Any) -> Expr:
    if (isinstance(name, float) and kind_of(value.dtype) in "iu") or isinstance(name, bool) != (
        kind_of(value.dtype) == "b"
    ):
        raise Unsupported(Refusal.GROUP_NAME_TYPE)
    if kind_of(value.dtype) not in "iufbT" or family(value.dtype) not in ("numpy", "str") or is_na(name):
        raise Unsupported(Refusal.OPERATION, f"get_group by a key of {value.dtype}")
    return Call("eq", (value.clean.expr, literal(name, value).expr), pl.Boolean())
