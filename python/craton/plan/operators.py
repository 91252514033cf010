"""The relational operators: a plan is a tree of these.

Each is frozen and states what :mod:`craton.plan.protocol` asks for; it is validated when built, and its schema (column
name → physical dtype, in order) is derived on demand and never stored in the tree. Names are unique within an operator.
Row order is part of an operator's *meaning*; whether anybody can observe it is derived in :mod:`craton.plan.order`.

Values that depend on other rows are computed by :class:`Window` and by nothing else. :mod:`craton.plan.build` takes them
out of the expressions that the front end writes.
"""

from __future__ import annotations

from craton.plan.ops.combining import Join, JoinHow, Union, Unpivot
from craton.plan.ops.grouping import Aggregate, AggregateCall, Sort, SortKey
from craton.plan.ops.rowwise import Attach, Project, RowNumber, Scan, Window
from craton.plan.ops.selecting import Distinct, Filter, Slice
from craton.plan.protocol import Named, Operator, RowOrder, Schema, schema

__all__ = [
    "Aggregate",
    "AggregateCall",
    "Attach",
    "Distinct",
    "Filter",
    "Join",
    "JoinHow",
    "Named",
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
