"""Verifies by experiment what causes a difference: for example inputs whose last digits differ, or arrays that pandas shares.

No function here decides by the text of a difference alone. Either pandas runs the step on Craton's inputs, or pandas, or both, run
a variant of the program without the suspected cause.
"""

from __future__ import annotations

import ast
import re
import types
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pandas

from tests.fuzz.compare import Closeness, difference
from tests.fuzz.execution import Difference, RunResult, closeness, namespace, pandas_copy, quiet, run, scratch
from tests.fuzz.programs import Column, Program, Step, Table, compiled

_PRELUDE_NAMES = frozenset(namespace(pandas, ""))

#: The kinds of differences that other last digits, or an input of another documented difference, may cause.
_BY_INPUTS = frozenset(
    [
        "values",
        "value",
        "index",
        "shape",
        "length",
        "text",
        "name",
        "names",
        "levels",
        "dtype",
        "class",
        "error",
        "no error",
    ]
)


def depends_on_last_digits(program: Program, expected: RunResult, got: RunResult, found: Difference) -> bool:
    """Whether the last digits of sums may cause a difference, because rows are compared, sorted or counted by them.

    This holds if an input of the step differs in its last digits or in the sign of a zero. The caller verifies the cause: with exact
    sums, there must be no difference.
    """
    if found.kind not in _BY_INPUTS or found.step < 0:
        return False
    read: set[str] = set(program.steps[found.step].uses)
    for step in reversed(program.steps[: found.step]):
        if step.target in read:
            read |= set(step.uses)
    for name in read & expected.values.keys() & got.values.keys():
        with quiet():
            try:
                if difference(expected.values[name], got.values[name], Closeness(exact=True, signs=True)) is not None:
                    return True
            except Exception:  # an input whose plan raises an error explains nothing
                return False
    return False


def has_cancelled_digits(program: Program, found: Difference) -> bool:
    """Whether a difference may come from cancellation: the variance of numbers far from zero has fewer correct digits than they have."""
    step = program.steps[found.step].code if found.step >= 0 else ""
    return found.kind in ("value", "values") and re.search(r"\b(var|std|sem|skew|kurt|describe)\b", step) is not None


def explained_by_inputs(
    program: Program,
    expected: RunResult,
    got: RunResult,
    found: Difference,
    had: tuple[RunResult, RunResult] | None = None,
) -> bool:
    """Whether pandas computes Craton's result from Craton's inputs, which differ only in the last digits of sums.

    Parameters
    ----------
    program, expected, got, found
        The program, its results under pandas and Craton, and a difference of these.
    had
        The results of pandas and Craton before the step, if later steps wrote into its inputs.
    """
    earlier, before = had or (expected, got)
    if not depends_on_last_digits(program, earlier, before, found):
        return False
    step = program.steps[found.step]
    raised = found.raised if found.kind == "error" else ""
    # A step of several statements has several results: the one that differs.
    target = step.target or (found.variable if "\n" in step.code else "")
    # A step without a target writes into its inputs, so its error is judged by the inputs before the step.
    if target not in got.values and not (raised and (step.target or had is not None)):
        return False
    # Later writes into the result are part of it.
    writes = [program.steps[n] for n in _writes_into(program, target, found.step)]
    values = {
        name: pandas_copy(before.values[name])
        for name in {*step.uses, *(used for write in writes for used in write.uses)} - {target}
        if name in before.values and name not in _PRELUDE_NAMES
    }
    with quiet(), scratch() as folder:
        names = namespace(pandas, folder) | values
        try:
            exec(compiled(step.code), names)
            for write in writes:
                exec(compiled(write.code), names)
            result = names[target]
            if raised:
                return False
            return difference(result, got.values[target], closeness(earlier.values, [*values])) is None
        except Exception as error:
            return type(error).__name__ == raised


def later_writes(program: Program, number: int) -> list[int]:
    """The numbers of the later steps that write into the result of a step."""
    name = program.steps[number].target if number >= 0 else ""
    return _writes_into(program, name, number)


def _writes_into(program: Program, name: str, after: int) -> list[int]:
    """The numbers of the steps after a step that write into a variable; none for a step without a variable."""
    if not name:
        return []
    statement = re.compile(rf"^(?:del )?{name}\b", re.MULTILINE)
    later = range(after + 1, len(program.steps))
    return [n for n in later if not program.steps[n].target and statement.search(program.steps[n].code)]


def explained_by_writes(
    program: Program,
    got: RunResult,
    found: Difference,
    had: tuple[RunResult, RunResult],
    judged: frozenset[str] = frozenset(),
) -> bool:
    """Whether pandas computes Craton's result if it runs only the writes, on the objects that Craton had before the first of them.

    The inputs of the writes, including the object that they write into, may then differ only in the last digits of sums.

    Parameters
    ----------
    program, got, found
        The program, its results under Craton, and a difference in an object that steps write into.
    had
        The results of pandas and Craton before the first write.
    judged
        Inputs whose differences the caller judges separately, so that they may be of any kind.
    """
    numbers = later_writes(program, found.step)
    name = program.steps[found.step].target
    if not numbers or name not in got.values or found.kind in ("error", "no error"):
        return False
    names = {name}.union(*(program.steps[n].uses for n in numbers)) - _PRELUDE_NAMES
    expected, before = (outcome.values for outcome in had)
    # A step of several statements also uses the variables that it assigns.
    names -= {made for n in numbers for made in _variables_made(program.steps[n])} - expected.keys() - before.keys()
    if not names <= expected.keys() & before.keys():
        return False
    close, exact = closeness(expected, [*names]), Closeness(exact=True, signs=True)
    with quiet(), scratch() as folder:
        try:
            if any(difference(expected[one], before[one], close) is not None for one in names - judged):
                return False
            if all(difference(expected[one], before[one], exact) is None for one in names):
                return False
            values = namespace(pandas, folder) | {one: pandas_copy(before[one]) for one in names}
            for number in numbers:
                exec(compiled(program.steps[number].code), values)
            return difference(values[name], got.values[name], close) is None
        except Exception:
            return False


def not_explained_by_writes(
    program: Program,
    got: RunResult,
    found: list[Difference],
    results_before: Callable[[int], tuple[RunResult, RunResult]],
    judged: frozenset[str] = frozenset(),
) -> list[Difference]:
    """The differences that :func:`explained_by_writes` does not explain; `results_before` gives both results before a step."""
    return [
        one
        for one in found
        if not (writes := later_writes(program, one.step))
        or not explained_by_writes(program, got, one, had=results_before(writes[0]), judged=judged)
    ]


def _variables_made(step: Step) -> set[str]:
    """The variables that the statements of a step assign."""
    nodes = ast.walk(ast.parse(step.code))
    return {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}


def explained_by_shared_arrays(program: Program, got: RunResult, found: Difference) -> bool:
    """Whether pandas computes Craton's result if every step copies its result, so that no later write reaches a shared array."""
    name = found.variable
    if found.step >= 0 and name not in got.values:
        name = program.steps[found.step].target
    if not name or name not in got.values or found.kind in ("error", "no error"):
        return False
    # A result that is an input under another name is not copied, because writes to it must reach the input.
    copying = "{code}\n{name} = {name}.copy() if hasattr({name}, 'copy') and all({name} is not one for one in [{uses}]) else {name}"
    steps = [
        replace(s, code=copying.format(code=s.code, name=s.target, uses=", ".join(s.uses))) if s.target else s
        for s in program.steps
    ]
    with quiet(), scratch() as folder:
        apart = run(replace(program, steps=tuple(steps)), pandas, folder)
        try:
            return name in apart.values and difference(apart.values[name], got.values[name], Closeness()) is None
        except Exception:
            return False


def steps_before(program: Program, number: int) -> Program:
    """The program up to a step, exclusive."""
    return replace(program, steps=program.steps[:number])


def one_call_per_step(program: Program, number: int) -> Program | None:
    """The program with each call of a step in a separate step; None if the step has a single call.

    The step assigns to a variable, or writes into one (``v[v > v.mean()] = 1``).
    """
    step = program.steps[number]
    try:
        (node,) = ast.parse(step.code).body
    except (SyntaxError, ValueError):
        return None
    if not isinstance(node, ast.Assign) or len(node.targets) > 1:
        return None
    (assigned,) = node.targets
    written = not step.target and isinstance(assigned, ast.Subscript)
    if not written and (not step.target or ast.unparse(assigned) != step.target):
        return None
    prefix = step.target or f"written{number}"
    pieces: list[Step] = []

    def split(inner: ast.expr) -> ast.expr:
        if isinstance(inner, ast.Attribute) and not isinstance(inner.value, ast.Name):
            inner.value = split(inner.value)  # the receiver of an accessor or method
            return inner
        if isinstance(inner, ast.Tuple):
            inner.elts = [split(one) for one in inner.elts]
            return inner
        if isinstance(inner, ast.UnaryOp):
            inner.operand = split(inner.operand)
            return inner
        if not isinstance(inner, (ast.Call, ast.Subscript, ast.BinOp, ast.Compare)):
            return inner
        split_inputs(inner)
        name = f"{prefix}_{len(pieces)}"
        uses = tuple(sorted({n.id for n in ast.walk(inner) if isinstance(n, ast.Name)}))
        pieces.append(Step(f"{name} = {ast.unparse(inner)}", step.operation, name, uses))
        return ast.Name(name, ast.Load())

    def split_inputs(outer: ast.expr) -> None:
        if isinstance(outer, ast.Call) and isinstance(outer.func, ast.Attribute):
            outer.func.value = split(outer.func.value)
        elif isinstance(outer, ast.Call) and isinstance(outer.func, ast.Lambda):
            outer.args = [split(one) for one in outer.args]
        elif isinstance(outer, ast.Subscript):
            outer.value, outer.slice = split(outer.value), split(outer.slice)
        elif isinstance(outer, ast.BinOp):
            outer.left, outer.right = split(outer.left), split(outer.right)
        elif isinstance(outer, ast.Compare):
            outer.left, outer.comparators = split(outer.left), [split(one) for one in outer.comparators]

    if isinstance(assigned, ast.Subscript):
        node.value = split(node.value)
        assigned.slice = split(assigned.slice)
    else:
        split_inputs(node.value)
    if not pieces:
        return None
    read = node if written else node.value
    uses = tuple(sorted({n.id for n in ast.walk(read) if isinstance(n, ast.Name)}))
    last = replace(step, code=ast.unparse(node), uses=uses)
    return replace(program, steps=(*program.steps[:number], *pieces, last, *program.steps[number + 1 :]))


#: A timestamp that is beyond the range of the kernel's calendar, in every unit but nanoseconds.
_FAR = "9223372036854775807"


def with_supported_times(program: Program, found: list[Difference]) -> Program | None:
    """The program with timestamps within the kernel's calendar: "Years beyond 262,142" in the known differences."""
    if not all(".dt." in one.where or any("datetime64" in step.code for step in program.steps) for one in found):
        return None

    def closer(column: Column) -> Column:
        return replace(column, values=tuple(value.replace(_FAR, "86400000000") for value in column.values))

    tables: tuple[Table, ...] = tuple(
        replace(table, columns=tuple(map(closer, table.columns)), index=tuple(map(closer, table.index)))
        for table in program.tables
    )
    return replace(program, tables=tables) if tables != program.tables else None


def with_integer_labels(program: Program, found: list[Difference]) -> Program | None:
    """The program with integer labels instead of a RangeIndex, for whose unions and selections pandas has other rules.

    This is "Index or RangeIndex" in the known differences.
    """

    def may_apply(one: Difference) -> bool:
        united = "reindex" in one.what.lower() and one.kind in ("error", "no error")
        return united or (one.where.endswith((".loc", ".truncate")) and one.kind == "shape")

    if not any(map(may_apply, found)):
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


#: Functions that remove a possible cause of differences from a program. If the variant has none, that was the cause.
VARIANTS: tuple[Callable[[Program, list[Difference]], Program | None], ...] = (
    with_supported_times,
    with_integer_labels,
)


def _without_failing_steps(steps: Sequence[Step], got: RunResult) -> tuple[Step, ...]:
    """The first steps of a program without those that raise in Craton: pandas does such steps in part, or in full."""
    return tuple(
        step for number, step in enumerate(steps) if number not in got.errors or step.target or "for " in step.code
    )


def equal_without_failing_steps(program: Program, expected: RunResult, got: RunResult, found: Difference) -> bool:
    """Whether pandas computes Craton's result without the steps that raise in Craton."""
    steps = _without_failing_steps(program.steps, got)
    return len(steps) < len(program.steps) and _gives_same_result(replace(program, steps=steps), got, found)


def raised_without_failing_steps(program: Program, got: RunResult, found: Difference) -> bool:
    """Whether pandas raises Craton's error in a step without the earlier steps that raise in Craton."""
    if found.step < 0:
        return False
    before = _without_failing_steps(program.steps[: found.step], got)
    if len(before) == found.step:
        return False
    with quiet(), scratch() as folder:
        errors = run(replace(program, steps=(*before, program.steps[found.step])), pandas, folder).errors
    return type(errors.get(len(before))).__name__ == found.raised


def equal_with_copying_astype(program: Program, expected: RunResult, got: RunResult, found: Difference) -> bool:
    """Whether pandas computes Craton's result if ``astype`` always copies."""

    def copying(step: Step) -> Step:
        return replace(step, code=re.sub(r"\.astype\(", ".copy().astype(", step.code))

    return _gives_same_result(replace(program, steps=tuple(map(copying, program.steps))), got, found)


def equal_with_copied_tables(program: Program, expected: RunResult, got: RunResult, found: Difference) -> bool:
    """Whether pandas computes Craton's result if it starts with copies of the tables, whose arrays are writable."""
    copies = tuple(Step(f"{one.name} = {one.name}.copy()", "copy", one.name, (one.name,)) for one in program.tables)
    return _gives_same_result(replace(program, steps=(*copies, *program.steps)), got, found)


def _gives_same_result(program: Program, got: RunResult, found: Difference) -> bool:
    """Whether a program gives the differing variable, under pandas, the value that it has under Craton."""
    name = found.variable
    if name not in got.values:
        return False
    with quiet(), scratch() as folder:
        outcome = run(program, pandas, folder)
        try:
            close = closeness(outcome.values, program.variables())
            return name in outcome.values and difference(outcome.values[name], got.values[name], close) is None
        except Exception:
            return False


def raised_with_separate_labels(program: Program, expected: RunResult, got: RunResult, found: Difference) -> bool:
    """Whether pandas raises Craton's error in a step if the concatenated objects do not share an index object."""
    separate = _pandas_with_labels(lambda labels: labels.copy(deep=True))
    error = _error_of_step(program, found.step, got, pandas_copy, pd=separate)
    return error is not None and type(error).__name__ == found.raised


def concatenates_with_ranges(program: Program, expected: RunResult, got: RunResult, found: Difference) -> bool:
    """Whether pandas raises no error in a step if the labels of concatenated objects are a RangeIndex where that is possible."""

    def to_range(labels: pandas.Index) -> pandas.Index:
        if labels.dtype.kind != "i" or isinstance(labels, pandas.MultiIndex):
            return labels
        return pandas.RangeIndex(0)._shallow_copy(labels.to_numpy()).rename(labels.name)  # type: ignore[attr-defined,no-any-return]

    return _error_of_step(program, found.step, expected, pandas_copy, pd=_pandas_with_labels(to_range)) is None


def _pandas_with_labels(changed: Callable[[pandas.Index], pandas.Index]) -> types.SimpleNamespace:
    """pandas with a concat that first changes the labels of its inputs."""

    def concat(objs: Any, *args: Any, **kwargs: Any) -> Any:
        items = objs.values() if isinstance(objs, dict) else objs
        copies = [pandas_copy(item).set_axis(changed(item.index)) for item in items]
        return pandas.concat(
            dict(zip(objs, copies, strict=True)) if isinstance(objs, dict) else copies, *args, **kwargs
        )

    return types.SimpleNamespace(**{**vars(pandas), "concat": concat})


def raised_with_separate_columns(program: Program, expected: RunResult, got: RunResult, found: Difference) -> bool:
    """Whether pandas raises Craton's error if each column of the tables has a block of its own: pandas goes block by block."""
    if found.step < 0 or found.step not in got.errors:
        return False
    error, raised = _error_of_step(program, found.step, expected, _with_separate_columns), got.errors[found.step]
    return type(error) is type(raised) and str(error) == str(raised)


def _error_of_step(
    program: Program, number: int, had: RunResult, copied: Callable[[Any], Any], **names: Any
) -> Exception | None:
    """The error that pandas raises in one step over copies of the values of a run, with other values of some names."""
    step = program.steps[number]
    used = set(re.findall(r"\w+", step.code)) - _PRELUDE_NAMES
    values = {name: copied(had.values[name]) for name in used if name in had.values}
    with quiet(), scratch() as folder:
        try:
            exec(compiled(step.code), namespace(pandas, folder) | values | names)
        except Exception as error:
            return error
    return None


def _with_separate_columns(value: Any) -> Any:
    copied = pandas_copy(value)
    if not isinstance(copied, pandas.DataFrame):
        return copied
    separate = copied.iloc[:, :0].copy()
    for i, label in enumerate(copied.columns):
        separate.insert(i, label, copied.iloc[:, i].copy(), allow_duplicates=True)
    return separate
