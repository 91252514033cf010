"""Distinct values and positions: ``value_counts``, ``unique``, ``mode``, ``idxmax``, ``is_unique``, ``is_monotonic_increasing``."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
from pandas.api.types import is_hashable, is_list_like
from pandas.core.dtypes.cast import maybe_unbox_numpy_scalar

from craton.engine import collect_scalars
from craton.errors import Unsupported
from craton.pandas.core import stand_ins
from craton.pandas.core.counterparts import series_class
from craton.pandas.core.data_checks import has_odd_floats
from craton.pandas.core.dtypes import DtypeObj, distinguishes_signed_zeros, family
from craton.pandas.core.execute import materialise, resolved, scalar
from craton.pandas.core.lazy import lazy, view
from craton.pandas.core.native import native, native_property
from craton.pandas.core.routing import plain_pandas
from craton.pandas.core.view import IndexSpec, LevelSource, Value, View, name_index
from craton.pandas.reductions.reductions import arguments
from craton.plan import build
from craton.plan.expr import Call, Expr, WindowCall
from craton.plan.operators import AggregateCall, Distinct, Operator, SortKey
from craton.refusals import Refusal


def _countable(value: Value) -> Value:
    """A column that can be a group-by key, with missing values as null."""
    from craton.pandas.reductions.statistics import normalised

    if isinstance(value.dtype, pd.CategoricalDtype) or family(value.dtype) == "object":
        raise Unsupported(Refusal.OPERATION, f"counts of {value.dtype}")
    if distinguishes_signed_zeros(value.dtype):
        raise Unsupported(Refusal.ARROW_FLOATS_DISTINCT)
    return normalised(value)


def _counted(held: View, values: list[Value], names: list[str], dropna: bool) -> Operator:
    """The distinct combinations of values, in order of first appearance, with the number of rows of each."""
    columns = tuple((name, value.expr) for name, value in zip(names, values, strict=True))
    base: Operator = build.project(held.base, columns)
    if dropna:
        for name, value in zip(names, values, strict=True):
            if value.nulls:
                present = Call("not", (Call("is_null", (base.column(name),), pl.Boolean()),), pl.Boolean())
                base = build.filter(base, present)
    keys = tuple((name, base.column(name)) for name in names)
    return build.aggregate(base, keys, (("count", build.row_count()),), sort=False)


def _by_count(counts: Operator, held: View, index: IndexSpec, dtype: DtypeObj, named: dict[str, Any]) -> View:
    if named.get("sort", True):
        counts = build.sort(counts, (SortKey(counts.column("count"), descending=not named.get("ascending", False)),))
    number = counts.column("count")
    value = Value(number, dtype, nulls=False)
    name = "count"
    if named.get("normalize", False):
        total = WindowCall("sum", (number,), pl.Int64())
        value = Value(Call("truediv", (number, total), pl.Float64()), np.dtype("float64"), nulls=False)
        name = "proportion"
    return View(counts, (value,), name_index(name), index)


def _require_bools(named: dict[str, Any]) -> None:
    for key in ("normalize", "sort", "ascending", "dropna"):
        if not isinstance(named.get(key, True), bool):
            raise Unsupported(Refusal.PARAMETER, f"{key}={named[key]!r}")


class FrameCounting:
    """Methods of DataFrame."""

    @native(pd.DataFrame)
    def value_counts(self: Any, *args: Any, **kwargs: Any) -> Any:
        named = arguments(pd.DataFrame, "value_counts", args, kwargs)
        _require_bools(named)
        held = view(self)
        subset = named.pop("subset", None)
        labels = held.labels.tolist() if subset is None else subset if is_list_like(subset) else [subset]
        odd = subset is not None and type(subset) is not list and (is_list_like(subset) or not is_hashable(subset))
        if isinstance(held.labels, pd.MultiIndex) or odd or not len(labels):
            raise Unsupported(Refusal.COUNTED_COLUMNS)
        held = resolved(held)
        for label in labels:
            if label is not None and label in held.index.names:
                raise Unsupported(Refusal.GROUP_KEY_AMBIGUOUS, repr(label))
        positions = [held.position(label) if label in held.labels else _unknown() for label in labels]
        if any(
            isinstance(held.values[i].dtype, pd.CategoricalDtype) for i in positions
        ):  # pandas counts combinations without rows
            from craton.pandas.reductions.needed_columns import pandas_statistic

            return pandas_statistic(
                lazy(type(self), held.take(positions), self), "value_counts", {**named, "subset": subset}
            )
        values = [_countable(held.values[i]) for i in positions]
        if named.get("normalize") and not named.get("sort", True):
            raise Unsupported(Refusal.SHARES_UNSORTED)
        names = [f"key{i}" for i in range(len(values))]
        counts = _counted(held, values, names, named.get("dropna", True))
        levels = tuple(value.at(name) for value, name in zip(values, names, strict=True))
        dropna = named.get("dropna", True)
        sources = tuple(
            LevelSource(held.base, value.clean.expr, False, False)
            if dropna
            else LevelSource(counts, counts.column(name), False, True)
            for value, name in zip(values, names, strict=True)
        )
        if len(values) == 1:  # pandas makes a MultiIndex of the one column's labels
            sources = (LevelSource(counts, counts.column(names[0]), True, False),)
        kind: Any = "multi" if len(levels) > 1 or (subset is None or is_list_like(subset)) else "labels"

        return lazy(
            series_class(),
            _by_count(
                counts,
                held,
                IndexSpec(kind, levels, tuple(held.labels[i] for i in positions), sources=sources),
                np.dtype("int64"),
                named,
            ),
        )


def _unknown() -> int:
    raise Unsupported(Refusal.COLUMN_UNKNOWN)


def _counts_of_objects(series: Any, named: dict[str, Any]) -> Any:
    """The counts of strings as objects, by labels of dtype object."""
    from craton.pandas.values.lists.text_objects import strings_of

    counts = strings_of(series).value_counts(**named)
    arrays, index = materialise(view(counts))
    return type(series)(pd.Series(arrays[0], index=index.astype(object), name=counts.name, copy=True))


class SeriesCounting:
    """Methods of Series."""

    @native(pd.Series)
    def value_counts(self: Any, *args: Any, **kwargs: Any) -> Any:
        named = arguments(pd.Series, "value_counts", args, kwargs)
        _require_bools(named)
        held = resolved(view(self))
        if family(held.values[0].dtype) == "object":
            return _counts_of_objects(self, named)
        # pandas counts the codes of categories, and the intervals of numbers.
        if named.get("bins") is not None or isinstance(held.values[0].dtype, pd.CategoricalDtype):
            from craton.pandas.reductions.needed_columns import pandas_statistic

            return pandas_statistic(self, "value_counts", named)
        value = _countable(held.values[0])
        dropna = named.get("dropna", True)
        if family(value.dtype) in ("masked", "arrow") and (named.get("normalize") or (not dropna and value.nulls)):
            raise Unsupported(Refusal.SHARES_NULLABLE)
        dtype = stand_ins.probe(stand_ins.column(value.dtype, 1).value_counts).dtype
        counts = _counted(held, [value], ["value"], dropna)
        index = IndexSpec("labels", (value.at("value"),), (self.name,))
        return lazy(type(self), _by_count(counts, held, index, dtype, named))

    @native(pd.Series)
    def unique(self: Any) -> Any:
        from craton.pandas.values.lists.text_objects import holds_text, strings_of

        if holds_text(view(self).values[0]):
            return distinct(strings_of(self)).to_numpy(dtype=object)
        few = distinct(self)
        with plain_pandas():
            return pd.Series.unique(few)

    @native(pd.Series)
    def mode(self: Any, dropna: Any = True) -> Any:
        if not isinstance(dropna, bool):
            raise Unsupported(Refusal.PARAMETER, f"dropna={dropna!r}")
        held = resolved(view(self))
        if isinstance(held.values[0].dtype, pd.CategoricalDtype) or (not dropna and held.values[0].clean.nulls):
            from craton.pandas.reductions.needed_columns import pandas_statistic

            return pandas_statistic(self, "mode", {"dropna": dropna})
        value = _countable(held.values[0])
        counts = _counted(held, [value], ["value"], dropna)
        most = WindowCall("max", (counts.column("count"),), pl.Int64())
        flagged = build.project(
            counts,
            (
                ("value", counts.column("value")),
                ("most", Call("eq", (counts.column("count"), most), pl.Boolean())),
            ),
        )
        commonest = build.filter(flagged, flagged.column("most"))
        base = build.sort(commonest, (SortKey(commonest.column("value")),))
        return lazy(type(self), View(base, (value.at("value"),), held.labels), self)

    @native(pd.Series)
    def argmin(self: Any, *args: Any, **kwargs: Any) -> Any:
        return _position(self, "argmin", args, kwargs)

    @native(pd.Series)
    def argmax(self: Any, *args: Any, **kwargs: Any) -> Any:
        return _position(self, "argmax", args, kwargs)

    @native(pd.Series)
    def idxmin(self: Any, *args: Any, **kwargs: Any) -> Any:
        return _label(self, _position(self, "idxmin", args, kwargs))

    @native(pd.Series)
    def idxmax(self: Any, *args: Any, **kwargs: Any) -> Any:
        return _label(self, _position(self, "idxmax", args, kwargs))

    @native(pd.Series)
    def first_valid_index(self: Any) -> Any:
        return _label_of_valid(self, "arg_first")

    @native(pd.Series)
    def last_valid_index(self: Any) -> Any:
        return _label_of_valid(self, "arg_last")

    @native_property(pd.Series)
    def is_unique(self: Any) -> Any:
        from craton.pandas.reductions.statistics import compute

        held = view(self)
        if not held.values[0].definite:
            held = resolved(held)
        distinct_values, rows = compute(
            held, [("nunique", held.values[0], {"dropna": False}), ("size", held.values[0], {})]
        )
        return distinct_values == rows

    @native_property(pd.Series)
    def hasnans(self: Any) -> Any:
        from craton.pandas.reductions.statistics import compute

        value = resolved(view(self)).values[0]
        present, rows = compute(view(self), [("count", value, {}), ("size", value, {})])
        if family(value.dtype) != "numpy":
            raise Unsupported(Refusal.DTYPE, value.dtype)
        return bool(present < rows)

    @native_property(pd.Series)
    def is_monotonic_increasing(self: Any) -> Any:
        return _monotonic(self, "ge")

    @native_property(pd.Series)
    def is_monotonic_decreasing(self: Any) -> Any:
        return _monotonic(self, "le")


def distinct(obj: Any) -> Any:
    """A Series of the distinct values, in order of first appearance."""
    from craton.pandas.reductions.statistics import normalised

    held = resolved(view(obj))
    value = held.values[0]
    if family(value.dtype) == "object":
        raise Unsupported(Refusal.OBJECTS)
    if has_odd_floats(held, value):
        raise Unsupported(Refusal.ARROW_FLOATS_DISTINCT)
    value = normalised(value)
    base = Distinct(build.project(held.base, (("value", value.expr),)), ("value",), "first")
    few = lazy(type(obj), View(base, (value.at("value"),), held.labels), obj)
    _ = few._mgr
    return few


def _label_of_valid(self: Any, function: str) -> Any:
    """The label of the first or last row with a value that is not missing; ``None`` if there is none."""
    held = resolved(view(self))
    place = scalar(held, AggregateCall(function, (held.values[0].clean.expr,), pl.Int64()))
    return None if place is None else self.index[int(place)]


def positions(held: View, name: str, skipna: bool) -> list[int]:
    """The position of the extreme value of each column, by the name of the method: ``idxmin``, ``argmax``.

    Raises
    ------
    Unsupported
        If a column has no value, or, unless `skipna`, a missing one; or if its values are neither numbers nor times.
    """
    from craton.pandas.reductions.statistics import normalised

    held = resolved(held)
    calls: list[tuple[str, AggregateCall]] = []
    for number, value in enumerate(map(normalised, held.values)):
        if family(value.dtype) not in ("numpy", "masked") or not (
            value.physical.is_numeric() or value.physical.is_temporal()
        ):
            raise Unsupported(Refusal.OPERATION, f"{name} of {value.dtype}")
        calls.append((f"position{number}", AggregateCall(f"arg_{name[-3:]}", (value.expr,), pl.Int64())))
        calls.append((f"nulls{number}", AggregateCall("null_count", (value.expr,), pl.Int64())))
    row = collect_scalars([build.aggregate(held.base, (), tuple(calls))], ordered=True)[0]
    found = [row[f"position{number}"].item() for number in range(len(held.values))]
    nulls = [row[f"nulls{number}"].item() for number in range(len(held.values))]
    if None in found or (any(nulls) and not skipna):
        raise Unsupported(Refusal.NO_VALUE)
    return [int(position) for position in found]


def _position(self: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    named = arguments(pd.Series, name, args, kwargs)
    # pandas checks the axis of idxmin and idxmax as that of a Series, and that of argmin and argmax as NumPy does.
    axes = (0, "index" if name.startswith("idx") else None)
    if named.pop("axis", 0) not in axes or not isinstance(named.pop("skipna", True), bool) or named:
        raise Unsupported(Refusal.PARAMETERS, "axis and skipna")
    skipna = arguments(pd.Series, name, args, kwargs).get("skipna", True)
    (found,) = positions(view(self), name, skipna)
    return maybe_unbox_numpy_scalar(np.int64(found))


def _label(self: Any, position: int) -> Any:
    from craton.pandas.reductions.statistics import compute

    few = self.iloc[position : position + 1]
    _ = few._mgr
    label = few.index[0]
    held = view(self)
    if held.index.kind != "range" or type(label) is not int:
        return label
    # pandas makes evenly spaced labels a RangeIndex, whose labels are Python integers; one row is always a RangeIndex.
    (value,) = held.index.values
    least, most, rows = compute(held, [("min", value, {}), ("max", value, {}), ("size", value, {})])
    if rows > 1 and (most - least) % (rows - 1):
        return maybe_unbox_numpy_scalar(np.int64(label))
    return self.index[position]


def _monotonic(self: Any, name: str) -> bool:
    from craton.pandas.reductions.statistics import normalised

    held = resolved(view(self))
    value = normalised(held.values[0])
    if family(value.dtype) not in ("numpy", "str") or isinstance(value.dtype, pd.CategoricalDtype):
        raise Unsupported(Refusal.DTYPE, value.dtype)
    before = WindowCall("shift", (value.expr,), value.physical)
    rising: Expr = Call(name, (value.expr, before), pl.Boolean())
    base = build.project(held.base, (("rising", rising), ("missing", Call("is_null", (value.expr,), pl.Boolean()))))
    calls = (
        ("rising", AggregateCall("all", (base.column("rising"),), pl.Boolean())),
        ("missing", AggregateCall("any", (base.column("missing"),), pl.Boolean())),
        ("rows", build.row_count()),
    )
    row = collect_scalars([build.aggregate(base, (), calls)])[0]
    if row["missing"].item() and row["rows"].item() < 2:
        raise Unsupported(Refusal.MISSING_ALONE)
    return bool(row["rising"].item()) and not bool(row["missing"].item())
