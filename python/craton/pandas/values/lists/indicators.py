"""``Series.str.get_dummies``: a column for each distinct part of the strings. A small query finds the parts first."""

from __future__ import annotations

from typing import Any

import pandas as pd
import polars as pl

from craton.engine import collect_rows
from craton.errors import Unsupported
from craton.pandas.core import stand_ins
from craton.pandas.core.array_conversion import to_array
from craton.pandas.core.dtypes import family, physical
from craton.pandas.core.routing import plain_pandas
from craton.pandas.core.view import Value, View
from craton.plan import build
from craton.plan.expr import Call, Literal, options
from craton.plan.operators import Distinct, Explode
from craton.refusals import Refusal

__all__ = ["indicators_of_items"]

#: A frame of more indicator columns than this is made by pandas.
MOST_COLUMNS = 300


def indicators_of_items(held: View, sep: Any, dtype: Any) -> View:
    """The view of the columns.

    Raises
    ------
    Unsupported
        If there are no parts, or too many.
    """
    value = held.values[0]
    if type(sep) is not str or not sep:
        raise Unsupported(Refusal.PARAMETER, "sep")
    if not value.definite or family(value.dtype) != "str" or getattr(value.dtype, "storage", None) != "pyarrow":
        raise Unsupported(Refusal.OPERATION, f"str.get_dummies of {value.dtype}")
    parts = Call("str_split", (value.expr,), pl.List(pl.String()), options(by=sep))
    single = Explode(build.project(held.base, (("part", parts),)), "part")
    (rows,) = collect_rows([Distinct(single, ("part",), "any")])
    found = rows.get_column("part").drop_nulls()
    if not 0 < len(found) <= MOST_COLUMNS:
        raise Unsupported(Refusal.NO_INDICATORS)
    with plain_pandas():
        texts = pd.Series(to_array(found, value.dtype), copy=False)
        frame = stand_ins.probe(texts.str.get_dummies, sep, dtype)
    if any(not isinstance(label, str) for label in frame.columns):
        raise Unsupported(Refusal.NO_INDICATORS)
    held, (lists,) = held.with_values([], held.labels[:0]).projected_with([parts])
    values = []
    for label, result in frame.dtypes.items():
        has = Call("list_contains", (lists,), pl.Boolean(), options(item=str(label)))
        mark = Call("fill_null", (has, Literal(False, pl.Boolean())), pl.Boolean())
        kind = physical(result)
        values.append(Value(mark if kind == pl.Boolean() else Call("cast", (mark,), kind), result, nulls=False))
    return held.with_values(values, frame.columns)
