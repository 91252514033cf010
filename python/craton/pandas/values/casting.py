"""``astype`` and ``round``."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
from pandas.api.types import pandas_dtype
from pandas.core.dtypes.dtypes import NumpyEADtype

from craton.engine import collect_rows
from craton.errors import Unsupported
from craton.pandas.core import stand_ins
from craton.pandas.core.array_conversion import from_array, to_array
from craton.pandas.core.data_checks import any_missing, any_row, has_negative_zero
from craton.pandas.core.dtypes import OBJECT, STR, DtypeObj, family, kind_of, numeric_dtype, physical, same_dtype
from craton.pandas.core.view import ObjectColumn, Value, View
from craton.pandas.values.batches import COLUMN, batched, computed
from craton.pandas.values.whole_results import whole_column
from craton.plan import build
from craton.plan.expr import Call, Expr, Literal, Values
from craton.refusals import Refusal

MAX_CATEGORIES = 1_000_000


def dtype_named(dtype: Any) -> DtypeObj:
    """The dtype object for a dtype argument of the user.

    Raises
    ------
    Unsupported
        If pandas does not recognise the argument; pandas then raises its own error.
    """
    if isinstance(dtype, type) and issubclass(dtype, pd.api.extensions.ExtensionDtype):
        raise Unsupported(Refusal.DTYPE_CLASS)
    named = stand_ins.probe(pandas_dtype, dtype, warned=True)
    return named.numpy_dtype if isinstance(named, NumpyEADtype) else named  # type: ignore[no-any-return]


def cast(held: View, value: Value, dtype: DtypeObj) -> tuple[View, Value]:
    """``astype`` of a column.

    Returns
    -------
    tuple of (View, Value)
        The view, over whose base the result is an expression; the columns of the given view are valid over it too.

    Raises
    ------
    Unsupported
        If plans have no such cast, or if it fails on these data.
    """
    if not value.definite:
        raise Unsupported(Refusal.DTYPE_OF_DATA)
    if value.dtype == dtype and str(value.dtype) == str(dtype):
        return held, value
    if isinstance(value.expr, ObjectColumn) and value.expr.nan and dtype == STR:
        return held, Value(value.expr.column, STR, nulls=value.nulls)
    if dtype == OBJECT:
        return held, _as_objects(value)
    families = family(value.dtype), family(dtype)
    kinds = kind_of(value.dtype), kind_of(dtype)
    if isinstance(dtype, pd.CategoricalDtype) and dtype.categories is None:
        return held, categorical(held, value, dtype)
    physical(dtype)
    if families[0] == "category" and families[1] != "category":
        return held, _from_category(held, value, dtype)
    if set(families) <= {"numpy", "masked"} and set("".join(kinds)) <= set("biuf"):
        try:
            return held, _numbers(held, value, dtype)
        except Unsupported:
            pass
    elif families == ("numpy", "str") and kinds[0] in "iu" and not value.nulls:
        return held, Value(Call("cast", (value.expr,), pl.String()), dtype, nulls=False)
    elif isinstance(dtype, pd.CategoricalDtype) and families[0] != "object":
        return held, _into_categories(held, value, dtype)
    elif families == ("str", "numpy") and kinds[1] == "i" and _are_plain_integers(held, value, dtype):
        return computed(held, Value(Call("cast", (value.expr,), physical(dtype)), dtype, nulls=False))
    return _by_pandas(held, value, dtype)


def _as_objects(value: Value) -> Value:
    """The values as Python objects, which are made when the result is materialised."""
    if value.dtype == STR:
        return Value(ObjectColumn(value.expr, nan=True), OBJECT, nulls=value.nulls)
    if _holds_objects(value.dtype):  # in pandas, the result shares the texts of the column
        raise Unsupported(Refusal.CAST, f"{value.dtype} to {OBJECT}")
    if not isinstance(value.expr, ObjectColumn):
        return Value(ObjectColumn(value.expr, source=value.dtype), OBJECT)
    if not value.expr.in_memory:
        raise Unsupported(Refusal.CAST, f"{value.dtype} to {OBJECT}")
    made = stand_ins.probe(pd.Series(value.expr.objects, copy=False).astype, OBJECT, warned=True)
    return Value(ObjectColumn(value.expr.column, np.asarray(made)), OBJECT)


def _holds_objects(dtype: DtypeObj) -> bool:
    """Whether pandas holds the values of a string dtype as Python objects."""
    return isinstance(dtype, pd.StringDtype) and dtype.storage == "python"


def _are_plain_integers(held: View, value: Value, dtype: DtypeObj) -> bool:
    """Whether no text is missing, and all are digits, perhaps after a minus sign, fewer than could exceed the dtype."""
    most = len(str(np.iinfo(dtype).max)) - 1  # type: ignore[arg-type]
    pattern = Literal(rf"\A-?[0-9]{{1,{most}}}\z", pl.String())
    plain = Call("str_contains", (value.expr, pattern), pl.Boolean(), (("literal", False),))
    filled = Call("fill_null", (plain, Literal(False, pl.Boolean())), pl.Boolean())
    return not any_row(held, Call("not", (filled,), pl.Boolean()))


def _by_pandas(held: View, value: Value, dtype: DtypeObj) -> tuple[View, Value]:
    """The cast by pandas itself, batch by batch; if it can fail, all rows are cast now, so that ``astype`` raises the error."""
    families = family(value.dtype), family(dtype)
    if isinstance(value.expr, ObjectColumn) and value.expr.in_memory and _holds_objects(dtype):
        raise Unsupported(Refusal.CAST, f"{value.dtype} to {dtype}")  # in pandas, the result shares the objects
    of_objects = families[0] == "object" and families[1] in ("numpy", "str", "masked")
    if of_objects or (families == ("numpy", "str") and kind_of(value.dtype) in "mM" and value.definite):
        # pandas omits the times of day if all of them are midnight
        return whole_column(held, value, lambda column: pd.Series.astype(column, dtype))
    if "object" in families or "category" in families or (kind_of(value.dtype) in "mM" and kind_of(dtype) == "T"):
        raise Unsupported(Refusal.CAST, f"{value.dtype} to {dtype}")
    if _holds_objects(value.dtype) and families[1] == "masked":
        raise Unsupported(Refusal.CAST, f"{value.dtype} to {dtype}")  # the text "nan" becomes a NaN that is not missing
    try:
        stand_ins.probe(stand_ins.column(value.dtype).astype, dtype, warned=True)
    except Unsupported as error:  # pandas refuses the cast even for a column without rows
        raise Unsupported(Refusal.CAST, f"{value.dtype} to {dtype}") from error
    result = batched("method", "astype", [value], dtype, (COLUMN, dtype))
    if isinstance(dtype, np.dtype) and dtype.kind in "biu":
        result = Value(result.expr, dtype, nulls=False)
    return (held, result) if _never_fails(value.dtype, dtype) else computed(held, result)


def _never_fails(source: DtypeObj, target: DtypeObj) -> bool:
    return kind_of(source) in "biuf" and kind_of(target) == "T"


def categorical(held: View, value: Value, dtype: pd.CategoricalDtype) -> Value:
    """``astype("category")``; runs a query that finds the categories."""
    if family(value.dtype) == "category":
        raise Unsupported(Refusal.CATEGORICAL_OF_CATEGORICAL)
    if has_negative_zero(held, value):
        raise Unsupported(Refusal.CATEGORIES_ARROW_FLOAT_ZEROS)
    plan = build.aggregate(held.base, (("value", value.clean.expr),), (), sort=True)
    every = collect_rows([plan])[0].get_column("value")
    found = every.drop_nulls()
    if len(found) > MAX_CATEGORIES:
        raise Unsupported(Refusal.MANY_CATEGORIES)
    # The missing value is included, because pyarrow assigns the null type to the categories that pandas makes without any rows.
    kind = pd.Categorical(pd.Series(to_array(every, value.dtype)), ordered=bool(dtype.ordered)).dtype
    codes = pd.Series(to_array(found, value.dtype)).astype(kind).cat.codes
    numbers = pl.Series(codes.to_numpy()).cast(pl.Int32)
    if not len(found):
        return Value(Literal(None, pl.Int32()), kind)
    expr = Call("map_values", (value.clean.expr, Values.of(found), Values.of(numbers)), pl.Int32())
    return Value(expr, kind, nulls=value.nulls or value.nans)


def _into_categories(held: View, value: Value, dtype: pd.CategoricalDtype) -> Value:
    """A cast to given categories: the number of each value's category.

    Raises
    ------
    Unsupported
        If a value is in no category, of which pandas warns; or if the values are floats, or of another dtype than the categories.
    """
    categories = dtype.categories
    known = (
        categories is not None and 0 < len(categories) <= MAX_CATEGORIES and same_dtype(value.dtype, categories.dtype)
    )
    if not known or kind_of(value.dtype) not in "iuTmM":
        raise Unsupported(Refusal.CAST, f"{value.dtype} to category")
    keys = Values.of(from_array("", categories._values)[0])  # type: ignore[union-attr]
    codes = Values.of(pl.Series(range(len(keys.series)), dtype=pl.Int32))
    inside = Call(
        "or",
        (Call("is_in", (value.expr, keys), pl.Boolean()), Call("is_null", (value.expr,), pl.Boolean())),
        pl.Boolean(),
    )
    if any_row(held, Call("not", (inside,), pl.Boolean())):
        raise Unsupported(Refusal.CAST, f"{value.dtype} to category")
    return Value(Call("map_values", (value.expr, keys, codes), pl.Int32()), dtype, nulls=value.nulls)


def _from_category(held: View, value: Value, dtype: DtypeObj) -> Value:
    """A cast of a categorical column: pandas casts each category once, and a missing value if there is one."""
    assert isinstance(value.dtype, pd.CategoricalDtype)
    count = len(value.dtype.categories)
    if not count or count > MAX_CATEGORIES:
        raise Unsupported(Refusal.CAST, f"{value.dtype} to {dtype}")
    missing = any_missing(held, value)
    each = pd.Series(pd.Categorical.from_codes([*range(count), *([-1] if missing else [])], dtype=value.dtype))
    cast_categories = stand_ins.probe(each.astype, dtype, warned=True)
    if cast_categories.dtype != dtype or bool(cast_categories.isna().iloc[:count].any()):
        raise Unsupported(Refusal.CAST, f"{value.dtype} to {dtype}")
    if missing and not pd.isna(cast_categories.iloc[count]):
        raise Unsupported(Refusal.CAST, f"{value.dtype} to {dtype}")
    results = from_array("", cast_categories.iloc[:count]._values)[0]
    codes = Values.of(pl.Series(range(count), dtype=pl.Int32))
    expr = Call("map_values", (value.expr, codes, Values.of(results)), physical(dtype))
    return Value(expr, dtype, nulls=missing)


def _numbers(held: View, value: Value, dtype: DtypeObj) -> Value:
    source, target = numeric_dtype(value.dtype), numeric_dtype(dtype)
    kind = physical(dtype)
    masked = family(dtype) == "masked"
    if family(value.dtype) == "masked" and not masked and (value.nulls or source.kind != target.kind):
        raise Unsupported(Refusal.MISSING_TO_NUMPY)
    if source == target:
        return Value(value.expr, dtype, value.nulls, nans=value.nans)
    if target.kind == "b":
        if source.kind == "f" or masked:
            raise Unsupported(Refusal.CAST, f"{value.dtype} to {dtype}")
        expr: Expr = Call("ne", (value.expr, Literal(0, value.physical)), kind)
        return Value(expr, dtype, value.nulls)
    if source.kind == "f" and target.kind in "iu":
        clean = value.clean
        bounds = np.iinfo(target)
        low, high = float(bounds.min), float(bounds.max)
        inside = Call(
            "is_between",
            (clean.expr, Literal(low, clean.physical), Literal(high, clean.physical)),
            pl.Boolean(),
            (("closed", "left" if high > 2**52 else "both"),),
        )
        outside: Expr = Call("not", (inside,), pl.Boolean())
        if not masked:
            outside = Call("fill_null", (outside, Literal(True, pl.Boolean())), pl.Boolean())
        if masked:
            rounded_off = Call("round", (clean.expr,), clean.physical, (("decimals", 0),))
            is_integer = Call("eq", (clean.expr, rounded_off), pl.Boolean())
            outside = Call("or", (outside, Call("not", (is_integer,), pl.Boolean())), pl.Boolean())
        if any_row(held, outside):
            raise Unsupported(Refusal.VALUES_OUT_OF_INTEGERS)
        return Value(Call("cast", (clean.expr,), kind), dtype, nulls=masked and clean.nulls)
    if target.kind in "iu" and masked and not np.can_cast(source, target):
        raise Unsupported(Refusal.NARROWING_INTEGERS)
    if target.kind == "f" and source.kind == "f" and target.itemsize < source.itemsize and masked:
        raise Unsupported(Refusal.NARROWING_FLOATS)
    wrap = target.kind in "iu"
    given = value.clean if masked else value
    expr = Call("cast", (given.expr,), kind, (("wrap", True),) if wrap and source.kind != "b" else ())
    return Value(expr, dtype, given.nulls, given.nans)


def rounded(value: Value, decimals: int) -> Value:
    """``round``: half to even, as NumPy does it."""
    if not value.definite or kind_of(value.dtype) not in "iuf":
        raise Unsupported(Refusal.OPERATION, f"round of {value.dtype}")
    if family(value.dtype) in ("numpy", "masked") and kind_of(value.dtype) in "iu" and decimals >= 0:
        return value
    if family(value.dtype) in ("numpy", "masked") and decimals == 0:
        expr = Call("round", (value.expr,), value.physical, (("decimals", 0),))
        return Value(expr, value.dtype, value.nulls, value.nans)
    return batched("method", "round", [value], value.dtype, (COLUMN, decimals))


def is_dtype_map(dtype: Any) -> bool:
    """Whether the ``dtype`` argument of ``astype`` maps columns to dtypes."""
    return isinstance(dtype, (dict, pd.Series))
