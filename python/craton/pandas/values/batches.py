"""Row-wise work that pandas or NumPy itself does, a batch of rows at a time, inside a plan.

Where the engine has no function that is exact, the column's batches become pandas arrays, pandas' own function runs on
them, and the result goes back: nothing is materialised, only the needed rows are computed, and the result is pandas' by
construction. It is slower than an expression, so it is for the long tail. Only functions whose result on a row depends
on nothing but that row, and whose result dtype is known, may run so.
"""

from __future__ import annotations

import hashlib
import operator
import pickle
from collections.abc import Callable
from dataclasses import field, replace
from typing import Any

import numpy as np
import pandas as pd
import polars as pl

from craton import warning_filters
from craton.errors import PlanError, Unsupported
from craton.pandas.core.convert import from_array_uncopied, to_array
from craton.pandas.core.data_checks import any_row
from craton.pandas.core.dtypes import DtypeObj, distinguishes_nan, kind_of, physical
from craton.pandas.core.routing import plain_pandas
from craton.pandas.core.view import Value, View
from craton.pandas.values.batch_rows import of_one_length, scattered, where_possible, without_impossible_nulls
from craton.plan.expr import Call
from craton.plan.node import Node, encode
from craton.records import dataclass
from craton.refusals import Refusal


@dataclass(frozen=True, slots=True, eq=False)
class Batch(Node):
    """A pandas or NumPy function by name, with its scalar arguments.

    Parameters
    ----------
    kind
        ``method`` or ``attribute``: of a Series, dotted for accessors (``str.upper``). ``ufunc``: of NumPy, on the
        values. ``operator``: of :mod:`operator`, on Series. ``function``: of the pandas module.
    name
        The function's name.
    dtypes
        The pandas dtypes of the columns that go in.
    result
        The pandas dtype of what comes out.
    args
        What the function is called with; :data:`COLUMN` stands for a column, in order.
    named
        Keyword arguments.
    pick
        Which column of the result is meant, where it is a DataFrame; null if there is none.
    lengths
        Whether the lengths of the lists in the result are meant.
    proven
        Whether the function was computed on every row of the frame that it was called on, and did not raise.
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

        The engine also computes rows whose results it drops: of ``when``, it hands over both branches with all rows, those of the
        other branch as null; of two filters, it may compute both on all rows. What stands there need not be what the function
        takes. Such a row's result is null.
        """
        columns = of_one_length(columns)
        kept = without_impossible_nulls(columns, self.dtypes)
        if kept is not None:
            return scattered(self.run([column.filter(kept) for column in columns]), kept)
        if not self.proven:
            return self._computed(columns)
        try:
            return self._computed(columns)
        except Exception:
            return where_possible(columns, self._computed, self._likely, physical(self.result))

    def _likely(self, columns: list[pl.Series]) -> pl.Series | None:
        """Which rows the function takes, as it tells itself; None where nothing is known.

        A row that it refuses alone is refused in every batch, and the others give what they give without it.
        """
        named = {name: _plain(arg) for name, arg in self.named}
        if self.name == "astype" and kind_of(self.dtypes[0]) == "T" and kind_of(self.result) in "iuf":
            if not isinstance(self.result, np.dtype):
                return None
            number = float if self.result.kind == "f" else int  # what NumPy calls on each
            return pl.Series([_takes(number, text) for text in columns[0].to_list()], dtype=pl.Boolean())
        if self.kind == "function" and named.get("errors") == "raise":
            coerced = replace(self, named=tuple((key, "coerce" if key == "errors" else arg) for key, arg in self.named))
        elif self.name == "dt.tz_localize":
            options = {"ambiguous": "NaT", "nonexistent": "NaT"}
            odd = {key: word for key, word in options.items() if named.get(key, "raise") == "raise"}
            coerced = replace(self, named=tuple(sorted({**dict(self.named), **odd}.items())))
        else:
            return None
        return coerced._computed(columns).is_not_null() | columns[0].is_null()

    def _computed(self, columns: list[pl.Series]) -> pl.Series:
        if self.kind == "ufunc":
            return self._ufunc(columns)
        arrays = [to_array(column, dtype) for column, dtype in zip(columns, self.dtypes, strict=True)]
        with plain_pandas(), warning_filters.ignoring():
            operands = iter([pd.Series(array, copy=False) for array in arrays])
            args = [next(operands) if isinstance(arg, _Column) else _plain(arg) for arg in self.args]
            named = {name: _plain(arg) for name, arg in self.named}
            wide = named.pop("wide", False)
            out = self._function()(*args, **named)
            if wide:
                # Asked is whether the result is one of floats: NaN stands for no.
                if out.dtype.kind not in "if":
                    raise TypeError(f"numbers of {out.dtype}")
                return pl.Series(np.full(len(out), 1.0 if out.dtype.kind == "f" else np.nan))
        if self.lengths:
            return pl.Series([len(item) if isinstance(item, list) else None for item in out], dtype=pl.Int64)
        if self.pick is not None:
            if self.pick >= out.shape[1]:
                return pl.Series([None], dtype=physical(self.result)).new_from_index(0, len(columns[0]))
            out = out.iloc[:, self.pick]
        return self._physical(from_array_uncopied("", out.array if isinstance(out, pd.Series) else out)[0])

    def _ufunc(self, columns: list[pl.Series]) -> pl.Series:
        operands = iter(columns)
        args = [next(operands).to_numpy() if isinstance(arg, _Column) else _plain(arg) for arg in self.args]
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
        if isinstance(column.dtype, units) and type(target) is type(column.dtype) and _finer(target, column.dtype):
            return column.cast(target)  # pandas took a coarser unit for this batch alone: the values are the same
        if column.dtype.is_temporal() or target.is_temporal():
            raise TypeError(f"a batch gave {column.dtype} instead of {target}")
        return column.cast(target)

    def _function(self) -> Callable[..., Any]:
        if self.kind == "operator":
            return getattr(operator, self.name)  # type: ignore[no-any-return]
        if self.kind == "function":
            return getattr(pd, self.name)  # type: ignore[no-any-return]
        if self.kind == "attribute":
            return operator.attrgetter(self.name)
        return lambda series, *args, **named: operator.attrgetter(self.name)(series)(*args, **named)


def _finer(one: Any, other: Any) -> bool:
    """Whether one temporal dtype is another with a finer unit."""
    units = ("ms", "us", "ns")
    zones = getattr(one, "time_zone", None) == getattr(other, "time_zone", None)
    return zones and units.index(one.time_unit) > units.index(other.time_unit)


def _takes(function: Callable[[Any], Any], value: Any) -> bool:
    try:
        function(value)
    except (TypeError, ValueError):
        return False
    return True


@dataclass(frozen=True, slots=True, eq=False)
class _Opaque(Node):
    """An argument that has no encoding of its own: a copy of the user's, identified by its pickle."""

    key: bytes
    held: Any = field(compare=False, repr=False)


def _plain(arg: Any) -> Any:
    return arg.held if isinstance(arg, _Opaque) else arg


def _argument(arg: Any) -> Any:
    if isinstance(arg, _Column):
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
        return _Opaque(hashlib.blake2b(content, digest_size=16).digest(), held)
    return arg


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class _Column(Node):
    """The place of a column among arguments."""

    def __repr__(self) -> str:
        return "column"


COLUMN = _Column()


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
        What goes in; all of definite dtype.
    args
        All positional arguments, :data:`COLUMN` for each column; by default the columns.
    """
    if args is None:
        args = (COLUMN,) * len(columns)
    if any(not value.definite for value in columns):
        raise Unsupported(Refusal.DTYPE_OF_DATA)
    keywords = tuple((key, _argument(named[key])) for key in sorted(named))
    payload = Batch(
        kind,
        name,
        tuple(value.dtype for value in columns),
        result,
        tuple(map(_argument, args)),
        keywords,
        pick,
        lengths,
    )
    target = physical(result)
    expr = Call("batch", tuple(value.expr for value in columns), target, payload=payload)
    return Value(expr, result, nulls=True, nans=target.is_float() and not distinguishes_nan(result))


def tried(held: View, value: Value) -> Value:
    """Compute a column now, so that what makes pandas raise does so in the call that asks for it.

    Returns
    -------
    Value
        The column, known not to raise on any of the view's rows.

    Raises
    ------
    Unsupported
        If it can't be computed: pandas words the error.
    """
    try:
        any_row(held, Call("is_null", (value.expr,), pl.Boolean()))
    except Exception as error:
        raise Unsupported(Refusal.ERROR_OF_PANDAS, error) from error
    return proven(value)


def proven(value: Value) -> Value:
    """The same column of a :class:`Batch` after it was computed on all rows, so that no row of them can raise."""
    call = value.expr
    if not isinstance(call, Call) or not isinstance(call.payload, Batch):
        return value
    return replace(value, expr=replace(call, payload=replace(call.payload, proven=True)))
