"""The relational operators that plans consist of.

An operator is immutable, implements :mod:`craton.plan.protocol`, and is validated when it is built. Its schema (column name →
physical dtype, in order) is derived on demand and cached outside the tree. Column names are unique within an operator. The
row order is part of an operator's semantics; :mod:`craton.plan.order` derives where it can be observed.

Only :class:`Window` computes values that depend on other rows. :mod:`craton.plan.build` moves windows from the front end's
expressions into such operators.
"""

from __future__ import annotations

from craton.plan.ops.combining import Join, JoinHow, Union, Unpivot
from craton.plan.ops.grouping import Aggregate, AggregateCall, NumpySort, Sort, SortKey
from craton.plan.ops.rowwise import Attach, Project, RowNumber, Scan, Window
from craton.plan.ops.selecting import Distinct, Explode, Filter, Slice
from craton.plan.protocol import Named, Operator, RowOrder, Schema, schema

__all__ = [
    "Aggregate",
    "AggregateCall",
    "Attach",
    "Distinct",
    "Explode",
    "Filter",
    "Join",
    "JoinHow",
    "Named",
    "NumpySort",
    "Operator",
    "Project",
    "RowNumber",
    "RowOrder",
    "Scan",
    "Schema",
    "Slice",
    "Sort",
    "SortKey",
    "Union",
    "Unpivot",
    "Window",
    "schema",
]
