"""Reduces a program that shows a difference: to fewer steps, shorter expressions, fewer columns and rows, simpler sources."""

from __future__ import annotations

import ast
import copy
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

from tests.fuzz.programs import Program, Step, Table

Fails = Callable[[Program], bool]


def shrink(program: Program, fails: Fails, seconds: float = 20.0, runs: int = 800) -> Program:
    """Return the smallest program found that still fails.

    Parameters
    ----------
    program
        A program that fails.
    fails
        A function that decides whether a program shows the same difference.
    seconds, runs
        The limits on time and on calls of ``fails``.
    """
    until = time.monotonic() + seconds
    improved = True
    while improved:
        improved = False
        every = (fewer_steps, simpler_tables, shorter_steps, fewer_rows)
        for candidates in every[:1] if _may_explode(program) else every:
            again = True
            while again:
                again = False
                for candidate in candidates(program):
                    if runs <= 0 or time.monotonic() > until:
                        return program
                    runs -= 1
                    if _works(candidate, fails):
                        program, again, improved = candidate, True, True
                        break
    return program


#: Names of calls whose results may have far more rows than their inputs.
_JOINS = ("merge", "join", "unstack", "pivot", "crosstab", "get_dummies", "transpose")


def joins(program: Program) -> bool:
    """Whether the result of a step may have far more rows than its inputs."""
    return any(name in step.code for step in program.steps for name in _JOINS)


def _may_explode(program: Program) -> bool:
    """Whether joins of large tables may have far more rows after any change of their keys."""
    return joins(program) and any(table.grow is not None for table in program.tables)


def _works(candidate: Program, fails: Fails) -> bool:
    try:
        return fails(candidate)
    except (SyntaxError, ValueError, IndexError, KeyError, TypeError, AttributeError, AssertionError):
        return False


def fewer_steps(program: Program) -> Iterator[Program]:
    """Variants without either half of the steps, without one step, or without one table."""
    count = len(program.steps)
    for end in sorted({count // 2, count - 1}):
        if 0 < end < count:
            yield replace(program, steps=program.steps[:end])
    for start in sorted({count // 2}):
        if 0 < start < count:
            yield replace(program, steps=program.steps[start:])
    for i in reversed(range(count)):
        if count > 1:
            yield replace(program, steps=program.steps[:i] + program.steps[i + 1 :])
    for i, step in enumerate(program.steps):
        alias = re.fullmatch(r"(\w+) = (\w+)", step.code)
        if alias and count > 1:
            steps = [replace(one, code=re.sub(rf"\b{alias[1]}\b", alias[2], one.code)) for one in program.steps]
            yield replace(program, steps=(*program.steps[:i], *steps[i + 1 :]))
    for i in range(len(program.tables)):
        if len(program.tables) > 1:
            yield replace(program, tables=program.tables[:i] + program.tables[i + 1 :])
    if program.evaluation_order != "last":
        yield replace(program, evaluation_order="last")


def simpler_tables(program: Program) -> Iterator[Program]:
    """Variants with a table from memory, with fewer sampled rows, with default labels, or without one column."""
    for i, table in enumerate(program.tables):

        def changed(new: Table, i: int = i) -> Program:
            return replace(program, tables=(*program.tables[:i], new, *program.tables[i + 1 :]))

        if table.source != "memory":
            yield changed(replace(table, source="memory"))
        if table.grow is not None:
            yield changed(replace(table, grow=None))
            for rows in (table.grow[1] // 2, table.grow[1] * 9 // 10, table.grow[1] - 1):
                if rows > 3:
                    yield changed(replace(table, grow=(table.grow[0], rows)))
        if table.index:
            yield changed(replace(table, index=()))
        if len(table.columns) > 1:
            for number in range(len(table.columns)):
                yield changed(replace(table, columns=table.columns[:number] + table.columns[number + 1 :]))


def fewer_rows(program: Program) -> Iterator[Program]:
    """Variants without halves, quarters, … or single rows of a table; then with simpler dtypes and values."""
    for i, table in enumerate(program.tables):

        def changed(new: Table, i: int = i) -> Program:
            return replace(program, tables=(*program.tables[:i], new, *program.tables[i + 1 :]))

        size = table.rows // 2
        while size >= 1:
            for start in range(0, table.rows, size):
                yield changed(table.without_rows(start, min(start + size, table.rows)))
            size //= 2
        for number, column in enumerate(table.columns):
            plain = {"int8": "int64", "int16": "int64", "int32": "int64", "float32": "float64"}.get(column.dtype)
            if plain is not None:
                yield changed(_with_column(table, number, dtype=plain))
            for simple in ("1", "0", "1.5", '"a"'):
                if simple in column.values and len(set(column.values)) > 1:
                    yield changed(_with_column(table, number, values=(simple,) * table.rows))


def _with_column(table: Table, number: int, **changes: object) -> Table:
    columns = list(table.columns)
    columns[number] = replace(columns[number], **changes)  # type: ignore[arg-type]
    return replace(table, columns=tuple(columns))


def shorter_steps(program: Program) -> Iterator[Program]:
    """Variants in which an expression is replaced by a part of it, or an argument or a line is removed."""
    for i, step in enumerate(program.steps):
        for code in shorter(step.code):
            new = replace(step, code=code)
            yield replace(program, steps=(*program.steps[:i], new, *program.steps[i + 1 :]))
        if "\n" in step.code:
            lines = step.code.split("\n")
            for j in range(len(lines)):
                new = replace(step, code="\n".join(lines[:j] + lines[j + 1 :]))
                yield replace(program, steps=(*program.steps[:i], new, *program.steps[i + 1 :]))


def shorter(code: str) -> Iterator[str]:
    """Shorter statements, the shortest first."""
    tree = ast.parse(code)
    found: set[str] = set()
    for path, node in _places(tree):
        for smaller in _smaller(node):
            new = copy.deepcopy(tree)
            if _put(new, path, smaller):
                text = ast.unparse(ast.fix_missing_locations(new))
                if len(text) < len(ast.unparse(tree)):
                    found.add(text)
    yield from sorted(found, key=lambda text: (len(text), text))


Path = tuple[tuple[str, int | None], ...]


def _places(node: ast.AST, path: Path = ()) -> Iterator[tuple[Path, ast.AST]]:
    for field, value in ast.iter_fields(node):
        if isinstance(value, ast.expr):
            yield (*path, (field, None)), value
            yield from _places(value, (*path, (field, None)))
        elif isinstance(value, list):
            for i, item in enumerate(value):
                if isinstance(item, (ast.expr, ast.stmt, ast.keyword)):
                    if isinstance(item, ast.expr):
                        yield (*path, (field, i)), item
                    yield from _places(item, (*path, (field, i)))


def _smaller(node: ast.AST) -> Iterator[ast.AST]:
    """Smaller expressions that may replace an expression."""
    if isinstance(getattr(node, "ctx", None), (ast.Store, ast.Del)):
        return
    if isinstance(node, ast.Call):
        if isinstance(node.func, ast.Attribute):
            yield node.func.value
            inner = node.func.value
            if isinstance(inner, ast.Call) and isinstance(inner.func, ast.Attribute):
                skipped = copy.deepcopy(node)
                assert isinstance(skipped.func, ast.Attribute)
                skipped.func.value = inner.func.value
                yield skipped
        for i in range(len(node.args)):
            yield ast.Call(node.func, node.args[:i] + node.args[i + 1 :], node.keywords)
        for i in range(len(node.keywords)):
            yield ast.Call(node.func, node.args, node.keywords[:i] + node.keywords[i + 1 :])
        yield from node.args
    elif isinstance(node, ast.Subscript):
        yield node.value
    elif isinstance(node, ast.BinOp):
        yield from (node.left, node.right)
    elif isinstance(node, ast.Compare):
        yield from (node.left, *node.comparators)
    elif isinstance(node, ast.UnaryOp):
        yield node.operand
    elif isinstance(node, (ast.List, ast.Tuple)):
        for i in range(len(node.elts)):
            yield type(node)(node.elts[:i] + node.elts[i + 1 :], ast.Load())
        if len(node.elts) == 1 and isinstance(node, ast.List):
            yield node.elts[0]
    elif isinstance(node, ast.Attribute):
        yield node.value


def _put(tree: ast.AST, path: Path, new: ast.AST) -> bool:
    node: ast.AST = tree
    for field, i in path[:-1]:
        value = getattr(node, field)
        node = value if i is None else value[i]
    field, i = path[-1]
    if i is None:
        setattr(node, field, copy.deepcopy(new))
    else:
        getattr(node, field)[i] = copy.deepcopy(new)
    return True


def signature(program: Program, kind: str) -> str:
    """A text that is equal for findings with the same kind of difference and the same set of called names."""
    names: list[str] = []
    for step in program.steps:
        for node in ast.walk(ast.parse(step.code)):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                names.append(node.attr)
            elif isinstance(node, ast.BinOp):
                names.append(type(node.op).__name__)
            elif isinstance(node, ast.Subscript) and not isinstance(node.slice, ast.Constant):
                names.append("[]")
    return f"{kind}: {' '.join(sorted(set(names)))}"


def step_of(program: Program, number: int) -> Step | None:
    """A step by its number."""
    return program.steps[number] if 0 <= number < len(program.steps) else None
