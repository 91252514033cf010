"""Values are not counted where each row has one."""

from __future__ import annotations

from dataclasses import replace

from craton.plan.expr import Column
from craton.plan.operators import Aggregate, AggregateCall, Operator
from craton.plan.origin import origin
from craton.plan.sources import FileSource
from craton.plan.visit import rewritten


def count_rows(root: Operator) -> Operator:
    """Count rows instead of values that are never missing, so that the values need not be read.

    ``Aggregate[count(x)](L)`` becomes ``Aggregate[len()](L)`` where ``x`` comes as it is from a file whose metadata says that it
    has no nulls, and nothing on the way adds any: no outer join, no computation.
    """
    return rewritten(root, lambda op, inputs: _counted(op.with_inputs(inputs)))


def _counted(op: Operator) -> Operator:
    if not isinstance(op, Aggregate) or not any(call.function == "count" for _, call in op.aggregates):
        return op
    calls = tuple(
        (name, AggregateCall("len", (), call.dtype) if _is_complete(op.input, call) else call)
        for name, call in op.aggregates
    )
    return op if calls == op.aggregates else replace(op, aggregates=calls)


def _is_complete(below: Operator, call: AggregateCall) -> bool:
    if call.function != "count" or call.options or not isinstance(call.args[0], Column):
        return False
    found = origin(below, call.args[0].name, joins=("inner", "left", "semi", "anti"))
    return found is not None and isinstance(found[0].source, FileSource) and found[1] in found[0].source.complete
