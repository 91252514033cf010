"""pandas' type checks of expressions in ``query`` and ``eval``, which are stricter than those of its operators.

pandas raises errors for expressions that its operators would compute: ``i & 2`` of integers, ``flags * 2`` of nullable booleans,
``n * flag`` of nullable numbers. It checks the types of all operands below an operator when it parses the text. So pandas' own
parser visits the expression here, with empty stand-ins for the columns. If it raises an error, the expression is left to pandas.
"""

from __future__ import annotations

import ast
from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import is_scalar
from pandas.core.computation.expr import PandasExprVisitor
from pandas.core.computation.scope import DEFAULT_GLOBALS, Scope

from craton.errors import Unsupported
from craton.pandas.core import stand_ins
from craton.pandas.core.dtypes import BOOL
from craton.pandas.core.lazy import view
from craton.refusals import Refusal

#: Names that pandas resolves to its own objects before it looks for a column.
RESERVED_NAMES = frozenset(DEFAULT_GLOBALS)

#: Syntax that takes an attribute of an object, or calls it.
_STEPS = (ast.Attribute, ast.Call)
_COLLECTIONS = (list, tuple, set, frozenset, dict)


def check_types(node: ast.AST, found: Mapping[int, Any]) -> None:
    """Have pandas check the types within an expression.

    Parameters
    ----------
    node
        The parsed expression.
    found
        The values of its names, attributes and calls, by the ids of their nodes.

    Raises
    ------
    Unsupported
        If pandas raises an error or warns for the expression.
    """
    nodes = list(ast.walk(node))
    passed = {id(one.func if isinstance(one, ast.Call) else one.value) for one in nodes if isinstance(one, _STEPS)}
    leaves = [one for one in nodes if isinstance(one, ast.Name) or (isinstance(one, _STEPS) and id(one) not in passed)]
    standing = [_stand_in(found[id(leaf)]) for leaf in leaves]

    def read() -> None:
        _Reader({id(leaf): one for leaf, (_, one) in zip(leaves, standing, strict=True)}).visit(node)

    keys = [key for key, _ in standing]
    if None in keys:
        stand_ins.probe(read)
        return
    stand_ins.cached(("expression", ast.dump(node), *keys), lambda: stand_ins.probe(read))


def _stand_in(value: Any) -> tuple[Hashable, Any]:
    """The cache key of a value (None if it has none), and the stand-in that pandas checks in place of the value."""
    if isinstance(value, pd.DataFrame):
        return "frame", pd.DataFrame()
    if isinstance(value, pd.Series):
        (column,) = view(value).values
        if not column.definite and column.dtype == BOOL:
            raise Unsupported(Refusal.DTYPE_OF_DATA)
        return _key("column", column.dtype), stand_ins.column(column.dtype)
    if isinstance(value, (np.ndarray, pd.Index, pd.api.extensions.ExtensionArray)) and value.ndim == 1:
        return _key(type(value).__name__, value.dtype), value[:0]
    if type(value) in _COLLECTIONS:
        return _key("collection", type(value)), type(value)()
    return (_key("scalar", value) if is_scalar(value) else None), value


def _key(word: str, value: Any) -> Hashable:
    try:
        return word, stand_ins.cache_key(value)
    except TypeError:
        return None


class _Reader(PandasExprVisitor):  # type: ignore[misc]
    """pandas' expression visitor, with stand-ins for names, attributes and calls."""

    def __init__(self, standing: Mapping[int, Any]) -> None:
        super().__init__(Scope(0, global_dict={}, local_dict={}), engine="python", parser="pandas")
        self._standing = standing

    def visit_Name(self, node: ast.Name, **_: Any) -> Any:
        return self._term(node)

    def visit_Attribute(self, node: ast.Attribute, **_: Any) -> Any:
        self._read_within(node)
        return self._term(node)

    def visit_Call(self, node: ast.Call, **_: Any) -> Any:
        self._read_within(node)
        return self._term(node)

    def _read_within(self, node: ast.Attribute | ast.Call) -> None:
        within = [node.value] if isinstance(node, ast.Attribute) else [node.func, *node.args]
        if isinstance(node, ast.Call):
            within += [keyword.value for keyword in node.keywords]
        for part in within:
            if isinstance(part, _STEPS):  # not an operand
                self._read_within(part)
            else:
                self.visit(part)

    def _term(self, node: ast.expr) -> Any:
        return self.term_type(self.env.add_tmp(self._standing[id(node)]), self.env)
