"""Row-wise functions of pandas or NumPy that run inside a plan, one batch of rows at a time.

If the kernel has no exact equivalent of a function, each batch becomes pandas arrays, pandas' own function runs on them, and
the result becomes a column of the kernel again. The whole column is never in memory, only the needed rows are computed, and
the result is exactly pandas'. This is slower than an expression of the kernel, so it serves the less frequent functions. A
function may run like this only if each row's result depends on that row alone and the dtype of the result is known.
"""

from __future__ import annotations

import hashlib
import operator
import pickle
from collections.abc import Callable, Sequence
from dataclasses import field, replace
from typing import Any

import numpy as np
import pandas as pd
import polars as pl

from craton import warning_filters
from craton.engine import collect_rows, may_keep
from craton.errors import PlanError, Unsupported
from craton.pandas.core.align import attached
from craton.pandas.core.array_conversion import from_array_uncopied, to_array
from craton.pandas.core.data_checks import any_row
from craton.pandas.core.dtypes import OBJECT, DtypeObj, distinguishes_nan, family, kind_of, physical
from craton.pandas.core.routing import plain_pandas
from craton.pandas.core.view import Value, View
from craton.pandas.values.batch_rows import broadcast_constants, compute_possible_rows, rows_without_nulls, scatter
from craton.pandas.values.repeated_values import SLOW, SLOW_TEXTS, days_of_format, distinct_values, once_for_each
from craton.pandas.values.times import integer_times
from craton.pandas.values.times.iso_dates import parsed_dates
from craton.plan import build
from craton.plan.expr import Call, roots
from craton.plan.node import Node, encode
from craton.records import dataclass
from craton.refusals import Refusal


@dataclass(frozen=True, slots=True, eq=False)
class Batch(Node):
    """A pandas or NumPy function by name, with its scalar arguments.

    Parameters
    ----------
    kind
        Where the function is found. ``method``, ``attribute``: a member of Series, with a dot for accessors (``str.upper``).
        ``ufunc``: a function of NumPy, called with arrays. ``operator``: a function of :mod:`operator`, called with Series.
        ``function``: a function of the pandas module, called with Series. ``frame``: a method of DataFrame, called on a frame of
        all input columns; the argument ``labels`` has its column labels.
    name
        The function's name.
    dtypes
        The pandas dtypes of the input columns.
    result
        The pandas dtype of the result.
    args
        Positional arguments. Each :data:`COLUMN` is replaced by the next input column.
    named
        Keyword arguments.
    pick
        If the function returns a DataFrame: the number of the column to return. Null if the frame has fewer columns.
    lengths
        Whether to return the lengths of the lists in the result instead of the lists.
    proven
        Whether the function was already computed on every row of the frame that the user called it on, and did not raise.
    """

    kind: str
    name: str
    dtypes: tuple[DtypeObj, ...]
    result: DtypeObj
    args: tuple[Any, ...] = ()
    named: tuple[tuple[str, Any], ...] = ()
    pick: int | None = None
    lengths: bool = False
    proven: bool = False

    def run(self, columns: list[pl.Series]) -> pl.Series:
        """The result for one batch.

        The kernel also computes rows whose results it discards. It evaluates both branches of ``when`` on all rows, with nulls
        in the rows of the other branch, and it may evaluate each of two filters on all rows. The function may not accept the
        values of such rows; their result is null.
        """
        columns = broadcast_constants(columns)
        kept = rows_without_nulls(columns, self.dtypes)
        if kept is not None:
            return scatter(self.run([column.filter(kept) for column in columns]), kept)
        if not self.proven:
            return self._compute(columns)
        try:
            return self._compute(columns)
        except Exception:
            return compute_possible_rows(columns, self._compute, self._accepted_rows, physical(self.result))

    def _accepted_rows(self, columns: list[pl.Series]) -> pl.Series | None:
        """A mask of the rows that the function accepts, from a variant of it that returns missing values instead of raising.

        ``None`` if there is no such variant. A row that the function refuses alone is refused in every batch, and does not
        change the results of other rows.
        """
        named = {name: _argument_value(arg) for name, arg in self.named}
        if self.name == "astype" and kind_of(self.dtypes[0]) == "T" and kind_of(self.result) in "iuf":
            if not isinstance(self.result, np.dtype):
                return None
            number = float if self.result.kind == "f" else int  # NumPy calls it with each string
            return pl.Series([_accepts(number, text) for text in columns[0].to_list()], dtype=pl.Boolean())
        if self.kind == "function" and named.get("errors") == "raise":
            coerced = replace(self, named=tuple((key, "coerce" if key == "errors" else arg) for key, arg in self.named))
        elif self.name == "dt.tz_localize":
            options = {"ambiguous": "NaT", "nonexistent": "NaT"}
            odd = {key: word for key, word in options.items() if named.get(key, "raise") == "raise"}
            coerced = replace(self, named=tuple(sorted({**dict(self.named), **odd}.items())))
        else:
            return None
        return coerced._compute(columns).is_not_null() | columns[0].is_null()

    def _compute(self, columns: list[pl.Series]) -> pl.Series:
        if self.kind == "ufunc":
            return self._ufunc(columns)
        if not self.named and self.pick is None and columns and columns[0].dtype.is_temporal():
            given = iter(columns)
            operands = [next(given) if isinstance(arg, _ColumnPlaceholder) else arg for arg in self.args]
            results = integer_times.computed(self.name, self.dtypes, self.result, operands)
            if results is not None:
                return results
        if len(columns) == 1 and (
            self.name in SLOW_TEXTS or (self.name in SLOW and (self.name != "astype" or self._casts_text()))
        ):
            results = self._parsed_dates(columns[0])
            if results is None:
                results = self._once_for_each(columns[0])
            if results is not None:
                return results
        return self._compute_each(columns)

    def _casts_text(self) -> bool:
        return "T" in (kind_of(self.dtypes[0]), kind_of(self.result))

    def _once_for_each(self, column: pl.Series) -> pl.Series | None:
        """The results, computed once for each distinct value; ``None`` if most are not repeated."""
        format = self.args[1] if len(self.args) == 2 else dict(self.named).get("date_format")
        days = days_of_format(column, format) if self.name == "dt.strftime" else None
        return once_for_each(
            column if days is None else days, lambda distinct: self._compute_each([distinct.cast(column.dtype)])
        )

    def _parsed_dates(self, column: pl.Series) -> pl.Series | None:
        """The dates of a column of text, if all of them have an ISO format; ``None`` if pandas must parse them."""
        families = family(self.dtypes[0]), family(self.result)
        if self.name not in ("to_datetime", "astype") or families != ("str", "numpy") or kind_of(self.result) != "M":
            return None
        format = dict(self.named)["format"] if self.name == "to_datetime" else None
        return parsed_dates(column, format, self.result)

    def _compute_each(self, columns: list[pl.Series]) -> pl.Series:
        with plain_pandas(), warning_filters.ignoring():
            out = self._called(columns)
            if dict(self.named).get("wide", False):
                # Return whether the result has a float dtype: 1.0 means yes, NaN no.
                if out.dtype.kind not in "if":
                    raise TypeError(f"numbers of {out.dtype}")
                return pl.Series(np.full(len(out), 1.0 if out.dtype.kind == "f" else np.nan))
            return self._converted(out, self.pick, len(columns[0]))

    def _called(self, columns: list[pl.Series]) -> Any:
        """What pandas' function returns for the columns."""
        arrays = [to_array(column, dtype) for column, dtype in zip(columns, self.dtypes, strict=True)]
        if self.kind == "frame":
            return self._of_frame(arrays)
        # pandas would infer strings from an array of objects.
        types = [OBJECT if dtype == OBJECT else None for dtype in self.dtypes]
        operands = iter([pd.Series(array, dtype=dtype, copy=False) for array, dtype in zip(arrays, types, strict=True)])
        args = [next(operands) if isinstance(arg, _ColumnPlaceholder) else _argument_value(arg) for arg in self.args]
        named = {name: _argument_value(arg) for name, arg in self.named if name != "wide"}
        return self._function()(*args, **named)

    def _of_frame(self, arrays: list[Any]) -> Any:
        """The result of a method of DataFrame. The frame has one block for each dtype, as most frames of pandas have."""
        frame = pd.DataFrame(dict(enumerate(arrays)))
        named = {name: _argument_value(arg) for name, arg in self.named}
        frame.columns = named.pop("labels", frame.columns)
        if not len(frame) and self.pick is None:
            return pd.Series(dtype=self.result)
        return getattr(frame, self.name)(*map(_argument_value, self.args), **named)

    def _converted(self, out: Any, pick: int | None, rows: int) -> pl.Series:
        """A result of :meth:`_called` as a column of the kernel."""
        if self.lengths:
            return pl.Series([len(item) if isinstance(item, list) else None for item in out], dtype=pl.Int64)
        if pick is not None:
            if pick >= out.shape[1]:
                return pl.Series([None], dtype=physical(self.result)).new_from_index(0, rows)
            out = out.iloc[:, pick]
        if kind_of(self.result) == "T" and getattr(out, "dtype", None) == OBJECT:
            out = out.astype(self.result)
        return self._physical(from_array_uncopied("", out.array if isinstance(out, pd.Series) else out)[0])

    def run_for_all(self, columns: list[pl.Series], picks: Sequence[int | None]) -> list[pl.Series]:
        """The results for all rows of a view at once, for each of the numbers of columns in place of ``pick``."""
        repeated = distinct_values(columns[0]) if len(columns) == 1 and self.name in SLOW_TEXTS else None
        given = columns if repeated is None else [repeated[0]]
        with plain_pandas(), warning_filters.ignoring():
            out = self._called(given)
            found = [self._converted(out, pick, len(given[0])) for pick in picks]
        return found if repeated is None else [column.gather(repeated[1]) for column in found]

    def _ufunc(self, columns: list[pl.Series]) -> pl.Series:
        operands = iter(columns)
        args = [
            next(operands).to_numpy() if isinstance(arg, _ColumnPlaceholder) else _argument_value(arg)
            for arg in self.args
        ]
        raised: dict[str, Any] = dict.fromkeys(dict(self.named).get("raised", ()), "raise")
        with np.errstate(all="ignore"), np.errstate(**raised):
            out = getattr(np, self.name)(*args)
        return self._physical(pl.Series(out))

    def _physical(self, column: pl.Series) -> pl.Series:
        target = physical(self.result)
        if column.dtype == target:
            return column
        if column.dtype.is_float() and not target.is_float():
            column = column.fill_nan(None)
        if column.null_count() == len(column):  # pandas infers no dtype from missing values
            return pl.Series([None], dtype=target).new_from_index(0, len(column))
        units = (pl.Datetime, pl.Duration)
        if isinstance(column.dtype, units) and type(target) is type(column.dtype) and _is_finer(target, column.dtype):
            return column.cast(target)  # pandas inferred a coarser unit from this batch; the cast changes no value
        if column.dtype.is_temporal() or target.is_temporal():
            raise TypeError(f"a batch returned {column.dtype}, but {target} was planned")
        return column.cast(target)

    def _function(self) -> Callable[..., Any]:
        if self.kind == "operator":
            return getattr(operator, self.name)  # type: ignore[no-any-return]
        if self.kind == "function":
            return getattr(pd, self.name)  # type: ignore[no-any-return]
        if self.kind == "attribute":
            return operator.attrgetter(self.name)
        return lambda series, *args, **named: operator.attrgetter(self.name)(series)(*args, **named)


def _is_finer(one: Any, other: Any) -> bool:
    """Whether two temporal dtypes differ only in their units, and the first one is finer."""
    units = ("ms", "us", "ns")
    zones = getattr(one, "time_zone", None) == getattr(other, "time_zone", None)
    return zones and units.index(one.time_unit) > units.index(other.time_unit)


def _accepts(function: Callable[[Any], Any], value: Any) -> bool:
    try:
        function(value)
    except (TypeError, ValueError):
        return False
    return True


@dataclass(frozen=True, slots=True, eq=False)
class _PickledArgument(Node):
    """A copy of an argument that content hashes cannot encode, identified by its pickle."""

    key: bytes
    held: Any = field(compare=False, repr=False)


def _argument_value(arg: Any) -> Any:
    return arg.held if isinstance(arg, _PickledArgument) else arg


def _encodable_argument(arg: Any) -> Any:
    if isinstance(arg, _ColumnPlaceholder):
        return arg
    try:
        encode(arg)
    except PlanError:
        if callable(arg) and not isinstance(arg, type):
            raise Unsupported(Refusal.FUNCTION_BY_NAME) from None
        try:
            content = pickle.dumps(arg)
            held = pickle.loads(content)
        except Exception as error:
            raise Unsupported(Refusal.ARGUMENT_TYPE, type(arg).__name__) from error
        return _PickledArgument(hashlib.blake2b(content, digest_size=16).digest(), held)
    return arg


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class _ColumnPlaceholder(Node):
    """A placeholder for an input column among the arguments of a :class:`Batch`."""

    def __repr__(self) -> str:
        return "column"


COLUMN = _ColumnPlaceholder()


def batched(
    kind: str,
    name: str,
    columns: list[Value],
    result: DtypeObj,
    args: tuple[Any, ...] | None = None,
    *,
    pick: int | None = None,
    lengths: bool = False,
    **named: Any,
) -> Value:
    """A column that a :class:`Batch` computes.

    Parameters
    ----------
    columns
        The input columns. Their dtypes must not depend on the data.
    args
        All positional arguments, with :data:`COLUMN` for each input column; by default just the columns.
    """
    if args is None:
        args = (COLUMN,) * len(columns)
    if any(not value.definite for value in columns):
        raise Unsupported(Refusal.DTYPE_OF_DATA)
    keywords = tuple((key, _encodable_argument(named[key])) for key in sorted(named))
    payload = Batch(
        kind,
        name,
        tuple(value.dtype for value in columns),
        result,
        tuple(map(_encodable_argument, args)),
        keywords,
        pick,
        lengths,
    )
    target = physical(result)
    expr = Call("batch", tuple(value.expr for value in columns), target, payload=payload)
    return Value(expr, result, nulls=True, nans=target.is_float() and not distinguishes_nan(result))


def verified(held: View, value: Value) -> Value:
    """Compute a column on all rows now, so that the user's call raises if pandas would.

    Returns
    -------
    Value
        The column, marked as one that raises for none of the view's rows.

    Raises
    ------
    Unsupported
        If computing the column raises; the call then goes to pandas, which raises its own error.
    """
    try:
        any_row(held, Call("is_null", (value.expr,), pl.Boolean()))
    except Exception as error:
        raise Unsupported(Refusal.ERROR_OF_PANDAS, error) from error
    return mark_proven(value)


def computed(held: View, value: Value) -> tuple[View, Value]:
    """As :func:`verified`; if the data is in memory, the computed column is kept in memory too, and attached to the view's rows.

    Returns
    -------
    tuple of (View, Value)
        The view, over whose base the column is an expression; the columns of the given view are valid over it too.
    """
    if not may_keep(held.base) or not roots(value.expr):
        return held, verified(held, value)
    plan = build.project(held.base, (("value", value.expr),))
    try:
        (rows,) = collect_rows([plan], ordered=True)
    except Exception as error:
        raise Unsupported(Refusal.ERROR_OF_PANDAS, error) from error
    held, (expr,) = attached(held, [rows.get_column("value")])
    return held, replace(value, expr=expr)


def computed_if_in_memory(held: View, value: Value) -> tuple[View, Value]:
    """A column that pandas computes for batches of rows, computed and kept at once if the data is in memory.

    Otherwise each run that reads the column would call pandas again.

    Returns
    -------
    tuple of (View, Value)
        As of :func:`computed`.
    """
    in_pandas = isinstance(value.expr, Call) and isinstance(value.expr.payload, Batch)
    return computed(held, value) if in_pandas and may_keep(held.base) else (held, value)


def computed_together(held: View, values: Sequence[Value]) -> tuple[View, list[Value]]:
    """Columns that one function of pandas computes from the same input, computed by one call for all rows and kept in memory.

    Parameters
    ----------
    held
        A view of data in memory (:func:`craton.engine.may_keep`).
    values
        The columns: each the result of one :class:`Batch`, of which it picks another column.

    Returns
    -------
    tuple of (View, list of Value)
        As of :func:`computed`.
    """
    calls = [value.expr for value in values if isinstance(value.expr, Call)]
    batches = [call.payload for call in calls if isinstance(call.payload, Batch)]
    inputs = tuple((str(number), arg) for number, arg in enumerate(calls[0].args))
    try:
        (rows,) = collect_rows([build.project(held.base, inputs)], ordered=True)
        columns = batches[0].run_for_all(rows.get_columns(), [batch.pick for batch in batches])
    except Exception as error:
        raise Unsupported(Refusal.ERROR_OF_PANDAS, error) from error
    held, exprs = attached(held, columns)
    return held, [replace(value, expr=expr) for value, expr in zip(values, exprs, strict=True)]


def mark_proven(value: Value) -> Value:
    """Mark a column of a :class:`Batch` as computed on all rows of its view without an error."""
    call = value.expr
    if not isinstance(call, Call) or not isinstance(call.payload, Batch):
        return value
    return replace(value, expr=replace(call, payload=replace(call.payload, proven=True)))
