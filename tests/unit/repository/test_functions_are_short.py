"""Limits on the lines, parameters and branches of functions; each exception has a reason."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tracked import texts

MOST_LINES, MOST_PARAMETERS, MOST_BRANCHES = 60, 8, 15

PANDAS = "has the parameters of pandas' own"
XOSCAR = "has the parameters of Xoscar's own"
SKLEARN = "has the parameters of scikit-learn's own"
FIELDS = "its parameters are the fields of a record or an option each"
#: Functions that exceed the limits, and the reasons.
LARGE = {
    "actor/api.py create_actor_pool": XOSCAR,
    "actor/pool/main.py append_sub_pool": XOSCAR,
    "ml/mini_batches.py __init__": SKLEARN,
    "pandas/io/iceberg.py read_iceberg": PANDAS,
    "pandas/io/sets/tables.py save": FIELDS,
    "pandas/reshape/alignment.py reindex": PANDAS,
    "pandas/reshape/crosstab.py crosstab": PANDAS,
    "pandas/reshape/cutting.py cut": PANDAS,
    "pandas/reshape/merges/merging.py merge": PANDAS,
    "pandas/reshape/merges/ordered_merges.py merge_asof": PANDAS,
    "pandas/reshape/merges/ordered_merges.py merge_ordered": PANDAS,
    "pandas/reshape/relational.py _merged_on_labels": PANDAS,
    "pandas/reshape/relational.py merge": PANDAS,
    "pandas/reshape/relational.py sort_index": PANDAS,
    "pandas/reshape/relational_calls.py sort_by_index": PANDAS,
    "pandas/reshape/relational_series.py sort_index": PANDAS,
    "pandas/reshape/tables.py concat": PANDAS,
    "pandas/reshape/tables.py merge": PANDAS,
    "pandas/values/times/parsing.py to_datetime": PANDAS,
    "pipeline/steps/definition.py step": FIELDS,
    "plan/registry.py register": FIELDS,
    "spmd/frames/joining.py merge": PANDAS,
    "store/shuffle.py __init__": FIELDS,
    "store/shuffle.py shuffle": FIELDS,
}

_BRANCHES = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.ExceptHandler, ast.IfExp, ast.match_case)


def _own(function: ast.AST) -> Iterator[ast.AST]:
    """The syntax nodes of a function, without those of nested functions and classes."""
    for child in ast.iter_child_nodes(function):
        if not isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            yield child
            yield from _own(child)


def sizes(function: ast.FunctionDef | ast.AsyncFunctionDef) -> tuple[int, int, int]:
    """The number of lines without the docstring, of parameters without ``self``, and of branches."""
    last, first = function.end_lineno or 0, function.lineno
    lines = last - first + 1
    if ast.get_docstring(function) is not None:
        lines -= (function.body[0].end_lineno or 0) - function.body[0].lineno + 1
    given = [argument.arg for argument in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)]
    parameters = len(given) - (given[:1] in (["self"], ["cls"]))
    return lines, parameters, sum(isinstance(node, _BRANCHES) for node in _own(function))


def large(name: str, text: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            lines, parameters, branches = sizes(node)
            if lines > MOST_LINES or parameters > MOST_PARAMETERS or branches > MOST_BRANCHES:
                yield f"{name} {node.name}"


def test_functions_are_short() -> None:
    prefix = "python/craton/"
    found = {
        one for name, text in texts(".py") if name.startswith(prefix) for one in large(name.removeprefix(prefix), text)
    }
    assert sorted(found - LARGE.keys()) == [], "cut the function where the idea changes"
    assert sorted(LARGE.keys() - found) == [], "take it off the list"


def test_sizes_are_seen() -> None:
    text = "class A:\n    def f(self, a, *, b):\n        'Doc\\nstring.'\n        if a:\n            return lambda: 1 if b else 2\n"
    function = ast.parse(text).body[0].body[0]  # type: ignore[attr-defined]
    assert sizes(function) == (3, 2, 1)
