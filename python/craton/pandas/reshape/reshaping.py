"""``melt``: turns columns into rows."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from typing import Any

import pandas as pd
import polars as pl
from pandas.api.types import is_list_like
from pandas.core.dtypes.cast import find_common_type

from craton.errors import Unsupported
from craton.pandas.core.dtypes import INT64, OBJECT, STR, DtypeObj, physical
from craton.pandas.core.execute import resolved
from craton.pandas.core.view import IndexSpec, Value, View, index_labels, is_missing_label
from craton.pandas.reshape.concatenation import as_dtype
from craton.plan import build
from craton.plan.expr import Call, Column, Expr, Values
from craton.plan.names import column_names
from craton.plan.operators import Unpivot
from craton.refusals import Refusal


def melt(held: View, id_vars: Any, value_vars: Any, var_name: Any, value_name: Hashable, ignore_index: bool) -> View:
    """The view of a melt; parameters as :meth:`pandas.DataFrame.melt`.

    Raises
    ------
    Unsupported
        If pandas must do the melt, or raise its error.
    """
    labels = held.labels
    if isinstance(labels, pd.MultiIndex) or not labels.is_unique:
        raise Unsupported(Refusal.DUPLICATE_LABELS)
    if value_name in labels or is_list_like(var_name) or (var_name is not None and is_missing_label(var_name)):
        raise Unsupported(Refusal.MELT_NAME)
    keep, chosen = _melted_labels(held, id_vars, value_vars)
    variable = var_name if var_name is not None else labels.name if labels.name is not None else "variable"
    names = [*keep, variable, value_name]
    if len(set(names)) != len(names):
        raise Unsupported(Refusal.DUPLICATE_LABELS)
    if held.index.freq is not None and not ignore_index:
        raise Unsupported(Refusal.LABELS_WITH_FREQUENCY)
    held = resolved(held)
    if not ignore_index:
        held = held.numbered()
    kept = [held.values[held.position(label)] for label in keep]
    melted = [held.values[held.position(label)] for label in chosen]
    dtypes = [value.dtype for value in melted]
    common = dtypes[0] if all(dtype == dtypes[0] for dtype in dtypes) else find_common_type(dtypes)
    if common == OBJECT:
        raise Unsupported(Refusal.OBJECT_COLUMNS, dtypes)
    melted = [as_dtype(held, value, common) for value in melted]
    index = IndexSpec() if ignore_index else held.index
    # The plan needs unique names for the present columns and the two new ones.
    plan_names = column_names([*index_labels(index), *keep, *chosen, "variable", "value"])
    *taken, code, number = plan_names
    columns = [*index.values, *kept, *melted]
    base = build.project(held.base, tuple(zip(taken, (value.expr for value in columns), strict=True)))
    fixed = len(index.values) + len(kept)
    unpivot = Unpivot(base, tuple(taken[:fixed]), tuple(taken[fixed:]), code, number)
    bare = [value.at(name) for value, name in zip(columns[:fixed], taken[:fixed], strict=True)]
    count = len(index.values)
    value = replace(
        melted[0].at(number), nulls=any(v.nulls for v in melted), nans=any(v.nans for v in melted), dtype=common
    )
    result = (*bare[count:], _variable_column(Column(code, pl.UInt32()), chosen, labels.dtype), value)
    rows = held.rows * len(chosen) if held.rows is not None else None
    return View(unpivot, result, pd.Index(names), replace(index, values=tuple(bare[:count])), rows)


def _melted_labels(held: View, id_vars: Any, value_vars: Any) -> tuple[list[Any], list[Any]]:
    """The labels of the columns that stay, and of those that are melted."""
    if any(getattr(given, "ndim", 1) != 1 for given in (id_vars, value_vars)):
        raise Unsupported(Refusal.MELT_COLUMNS)
    labels = held.labels
    keep = _labels(id_vars)
    if any(is_missing_label(label) for label in (*keep, *_labels(value_vars))):
        raise Unsupported(Refusal.LABEL_MISSING)
    chosen = _labels(value_vars) if value_vars is not None else [label for label in labels if label not in keep]
    if not chosen or len(set(keep)) != len(keep) or any(len(held.positions(label)) != 1 for label in (*keep, *chosen)):
        raise Unsupported(Refusal.MELT_COLUMNS)
    if value_vars is not None:
        chosen = list(dict.fromkeys(chosen))
        if any(label in keep for label in chosen):
            raise Unsupported(Refusal.MELT_BOTH)
    if labels.dtype not in (STR, INT64):
        raise Unsupported(Refusal.LABELS_OF_DTYPE, labels.dtype)
    if labels.hasnans:
        raise Unsupported(Refusal.LABELS_OBJECTS_OR_MISSING)
    return keep, chosen


def _variable_column(code: Expr, labels: list[Any], dtype: DtypeObj) -> Value:
    """The column with the label of the melted column that each row comes from."""
    kind = physical(dtype)
    numbers = Values.of(pl.Series("v", range(len(labels)), dtype=pl.UInt32))
    found = Values.of(pl.Series("v", labels, dtype=kind))
    return Value(Call("map_values", (code, numbers, found), kind), dtype, nulls=False)


def _labels(given: Any) -> list[Any]:
    if given is None:
        return []
    return list(given) if is_list_like(given) else [given]
