"""What a difference follows from, tried out: digits of sums in which its inputs differ already, arrays that pandas shares by chance.

Nothing here goes by the text of a difference alone. Each reason is tried: pandas runs the step on what Craton had before it, or
both run the program without what is said to be the reason.
"""

from __future__ import annotations

import ast
import re
import types
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pandas

from tests.fuzz.compare import Closeness, difference
from tests.fuzz.execution import Difference, Outcome, closeness, namespace, plain, quiet, run, scratch
from tests.fuzz.programs import Column, Program, Step, Table, compiled

_PRELUDE_NAMES = frozenset(namespace(pandas, ""))


def hangs_on_digits(program: Program, expected: Outcome, got: Outcome, found: Difference) -> bool:
    """Whether a difference may come of the last digits of sums, by which rows are told apart, sorted or counted.

    Something that the step reads then differs in its last digits, or in the sign of a zero. That this is the reason is tried: there
    is no difference where sums are exact.
    """
    if (
        found.kind
        not in ("values", "value", "index", "shape", "length", "text", "name", "names", "dtype", "error", "no error")
        or found.step < 0
    ):
        return False
    read: set[str] = set(program.steps[found.step].uses)
    for step in reversed(program.steps[: found.step]):
        if step.target in read:
            read |= set(step.uses)
    for name in read & expected.values.keys() & got.values.keys():
        with quiet():
            if difference(expected.values[name], got.values[name], Closeness(exact=True, signs=True)) is not None:
                return True
    return False


def of_numbers_far_from_zero(program: Program, found: Difference) -> bool:
    """Whether a difference may be one of the spread of numbers, which are far from zero: it has fewer digits than they."""
    step = program.steps[found.step].code if found.step >= 0 else ""
    return found.kind in ("value", "values") and re.search(r"\b(var|std|sem|skew|kurt|describe)\b", step) is not None


def follows(
    program: Program, expected: Outcome, got: Outcome, found: Difference, had: tuple[Outcome, Outcome] | None = None
) -> bool:
    """Whether pandas comes to Craton's result from what Craton had before, which differs in the last digits of sums only.

    Parameters
    ----------
    program, expected, got, found
        The program, what each left, and a difference.
    had
        What pandas and Craton had before the step, if something was written to it later.
    """
    earlier, before = had or (expected, got)
    if not hangs_on_digits(program, earlier, before, found):
        return False
    step = program.steps[found.step]
    raised = found.raised if found.kind == "error" else ""
    if not step.target or (step.target not in got.values and not raised):
        return False
    # What is written to the result afterwards belongs to it.
    writes = [s for s in program.steps[found.step + 1 :] if not s.target and s.code.startswith(step.target)]
    values = {
        name: plain(before.values[name])
        for name in {*step.uses, *(used for write in writes for used in write.uses)} - {step.target}
        if name in before.values and name not in _PRELUDE_NAMES
    }
    with quiet(), scratch() as folder:
        names = namespace(pandas, folder) | values
        try:
            exec(compiled(step.code), names)
            for write in writes:
                exec(compiled(write.code), names)
            result = names[step.target]
            if raised:
                return False
            return difference(result, got.values[step.target], closeness(earlier.values, [*values])) is None
        except Exception as error:
            return type(error).__name__ == raised


def written(program: Program, number: int) -> list[int]:
    """The later steps that write into what a step has made."""
    name = program.steps[number].target if number >= 0 else ""
    later = range(number + 1, len(program.steps))
    return [n for n in later if name and not program.steps[n].target and program.steps[n].code.startswith(name)]


def follows_from_writes(program: Program, got: Outcome, found: Difference, had: tuple[Outcome, Outcome]) -> bool:
    """Whether pandas comes to Craton's result by the writes alone, from what Craton had before the first of them.

    What they read differs in the last digits of sums only then, and the object that is written into may be part of it.

    Parameters
    ----------
    program, got, found
        The program, what Craton left, and a difference in what is written into.
    had
        What pandas and Craton had before the first write.
    """
    numbers = written(program, found.step)
    name = program.steps[found.step].target
    if not numbers or name not in got.values or found.kind in ("error", "no error"):
        return False
    names = {name}.union(*(program.steps[n].uses for n in numbers)) - _PRELUDE_NAMES
    expected, before = (outcome.values for outcome in had)
    if not names <= expected.keys() & before.keys():
        return False
    close, exact = closeness(expected, [*names]), Closeness(exact=True, signs=True)
    with quiet(), scratch() as folder:
        try:
            if any(difference(expected[one], before[one], close) is not None for one in names):
                return False
            if all(difference(expected[one], before[one], exact) is None for one in names):
                return False
            values = namespace(pandas, folder) | {one: plain(before[one]) for one in names}
            for number in numbers:
                exec(compiled(program.steps[number].code), values)
            return difference(values[name], got.values[name], close) is None
        except Exception:
            return False


def shared(program: Program, got: Outcome, found: Difference) -> bool:
    """Whether pandas comes to Craton's result where each step makes arrays of its own: else a later step changes one by chance."""
    name = found.what.partition(":")[0]
    if found.step >= 0 and name not in got.values:
        name = program.steps[found.step].target
    if not name or name not in got.values or found.kind in ("error", "no error"):
        return False
    # What is another name of an object stays one: its writes are no chance.
    own = "{code}\n{name} = {name}.copy() if hasattr({name}, 'copy') and all({name} is not one for one in [{uses}]) else {name}"
    steps = [
        replace(s, code=own.format(code=s.code, name=s.target, uses=", ".join(s.uses))) if s.target else s
        for s in program.steps
    ]
    with quiet(), scratch() as folder:
        apart = run(replace(program, steps=tuple(steps)), pandas, folder)
        try:
            return name in apart.values and difference(apart.values[name], got.values[name], Closeness()) is None
        except Exception:
            return False


def head(program: Program, number: int) -> Program:
    """A program up to a step, without it."""
    return replace(program, steps=program.steps[:number])


def unchained(program: Program, number: int) -> Program | None:
    """The program with a step's calls one after another in steps of their own; None if the step is a single call."""
    step = program.steps[number]
    try:
        (node,) = ast.parse(step.code).body
    except (SyntaxError, ValueError):
        return None
    if not isinstance(node, ast.Assign) or not step.target or ast.unparse(node.targets[0]) != step.target:
        return None
    pieces: list[Step] = []

    def split(inner: ast.expr) -> ast.expr:
        if isinstance(inner, ast.Attribute) and not isinstance(inner.value, ast.Name):
            inner.value = split(inner.value)  # what an accessor or a method is of
            return inner
        if not isinstance(inner, (ast.Call, ast.Subscript, ast.BinOp, ast.Compare)):
            return inner
        _within(inner)
        name = f"{step.target}_{len(pieces)}"
        uses = tuple(sorted({n.id for n in ast.walk(inner) if isinstance(n, ast.Name)}))
        pieces.append(Step(f"{name} = {ast.unparse(inner)}", step.operation, name, uses))
        return ast.Name(name, ast.Load())

    def _within(outer: ast.expr) -> None:
        if isinstance(outer, ast.Call) and isinstance(outer.func, ast.Attribute):
            outer.func.value = split(outer.func.value)
        elif isinstance(outer, ast.Call) and isinstance(outer.func, ast.Lambda):
            outer.args = [split(one) for one in outer.args]
        elif isinstance(outer, ast.Subscript):
            outer.value = split(outer.value)
        elif isinstance(outer, ast.BinOp):
            outer.left, outer.right = split(outer.left), split(outer.right)
        elif isinstance(outer, ast.Compare):
            outer.left, outer.comparators = split(outer.left), [split(one) for one in outer.comparators]

    _within(node.value)
    if not pieces:
        return None
    uses = tuple(sorted({n.id for n in ast.walk(node.value) if isinstance(n, ast.Name)}))
    last = replace(step, code=ast.unparse(node), uses=uses)
    return replace(program, steps=(*program.steps[:number], *pieces, last, *program.steps[number + 1 :]))


#: A point in time so far away, in every unit but nanoseconds, that the kernel's calendar does not reach it.
_FAR = "9223372036854775807"


def near(program: Program, found: list[Difference]) -> Program | None:
    """The program with points in time that the kernel's calendar reaches: "Years beyond 262,142"."""
    if not all(".dt." in one.where or any("datetime64" in step.code for step in program.steps) for one in found):
        return None

    def closer(column: Column) -> Column:
        return replace(column, values=tuple(value.replace(_FAR, "86400000000") for value in column.values))

    tables: tuple[Table, ...] = tuple(
        replace(table, columns=tuple(map(closer, table.columns)), index=tuple(map(closer, table.index)))
        for table in program.tables
    )
    return replace(program, tables=tables) if tables != program.tables else None


def numbered(program: Program, found: list[Difference]) -> Program | None:
    """The program with labels that are numbers, and no ranges: "Index or RangeIndex". pandas unites and chooses the two by other rules."""

    def may(one: Difference) -> bool:
        united = "reindex" in one.what.lower() and one.kind in ("error", "no error")
        return united or (one.where.endswith(".loc") and one.kind == "shape")

    if not any(map(may, found)):
        return None

    def plain_labels(table: Table) -> Table:
        if table.grow or any(column.dtype != "range" for column in table.index):
            return table
        start, step = map(int, table.index[0].values) if table.index else (0, 1)
        return replace(table, index=(_numbers(range(start, start + step * table.rows, step)),))

    tables = tuple(map(plain_labels, program.tables))
    return replace(program, tables=tables) if tables != program.tables else None


def _numbers(labels: range) -> Column:
    return Column(name="None", dtype="int64", values=tuple(map(str, labels)))


#: Programs without what may be the reason of differences: there are none in them if it is.
CURES: tuple[Callable[[Program, list[Difference]], Program | None], ...] = (near, numbered)


def undone(program: Program, expected: Outcome, got: Outcome, found: Difference) -> bool:
    """Whether pandas has Craton's result too where steps that raise in Craton are not begun: pandas goes half way in them, or on."""
    steps = tuple(
        step
        for number, step in enumerate(program.steps)
        if number not in got.errors or step.target or "for " in step.code
    )
    return len(steps) < len(program.steps) and _comes_to(replace(program, steps=steps), got, found)


def copied(program: Program, expected: Outcome, got: Outcome, found: Difference) -> bool:
    """Whether pandas has Craton's result too where ``astype`` makes arrays of its own."""

    def own(step: Step) -> Step:
        return replace(step, code=re.sub(r"\.astype\(", ".copy().astype(", step.code))

    return _comes_to(replace(program, steps=tuple(map(own, program.steps))), got, found)


def writable(program: Program, expected: Outcome, got: Outcome, found: Difference) -> bool:
    """Whether pandas has Craton's result too where it starts with copies of its tables, which can be written to."""
    copies = tuple(Step(f"{one.name} = {one.name}.copy()", "copy", one.name, (one.name,)) for one in program.tables)
    return _comes_to(replace(program, steps=(*copies, *program.steps)), got, found)


def _comes_to(program: Program, got: Outcome, found: Difference) -> bool:
    """Whether a program leaves in pandas what Craton has for the variable that differs."""
    name = found.what.partition(":")[0]
    if name not in got.values:
        return False
    with quiet(), scratch() as folder:
        outcome = run(program, pandas, folder)
        try:
            close = closeness(outcome.values, program.variables())
            return name in outcome.values and difference(outcome.values[name], got.values[name], close) is None
        except Exception:
            return False


def refused(program: Program, expected: Outcome, got: Outcome, found: Difference) -> bool:
    """Whether pandas raises what Craton raises in a step where no objects that are put together share their labels."""
    step = program.steps[found.step]
    values = {name: plain(got.values[name]) for name in step.uses if name in got.values and name not in _PRELUDE_NAMES}

    def concat(objs: Any, *args: Any, **kwargs: Any) -> Any:
        items = objs.values() if isinstance(objs, dict) else objs
        copies = [plain(item).set_axis(item.index.copy(deep=True)) for item in items]
        return pandas.concat(
            dict(zip(objs, copies, strict=True)) if isinstance(objs, dict) else copies, *args, **kwargs
        )

    apart = types.SimpleNamespace(**{**vars(pandas), "concat": concat})
    with quiet(), scratch() as folder:
        try:
            exec(compiled(step.code), namespace(pandas, folder) | values | {"pd": apart})
        except Exception as error:
            return type(error).__name__ == found.raised
    return False
