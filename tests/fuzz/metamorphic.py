"""Changes to a program that must not change its results: early evaluation, another order of steps, split files, other names.

The changed program is compared with pandas and, if the tables are the same, with the original under Craton. Modes whose names end with
``-bits`` set the option ``reproducible`` and require equal bits.
"""

from __future__ import annotations

import ast
import random
from collections.abc import Callable
from dataclasses import replace

import craton
import craton.pandas
from tests.fuzz import execution, oracle
from tests.fuzz.consequences import explained_by_inputs, not_explained_by_writes, steps_before
from tests.fuzz.execution import Difference, RunResult
from tests.fuzz.explained import explanation
from tests.fuzz.oracle import Mode
from tests.fuzz.programs import Program, Step, Table
from tests.fuzz.shrink import joins

#: New names of columns: names that the engine or pandas might use internally.
NAMES = (
    "__row__",
    "__position__",
    "index",
    "level_0",
    "literal",
    "len",
    "count",
    "a b",
    "values",
    "row_nr",
    "",
    "key_0",
    "*",
    "^.*$",
    "é",
    "0",
)


def with_evaluations(program: Program) -> Program:
    """Evaluate the result of each step immediately after it."""
    rng = random.Random(program.label)
    steps: list[Step] = []
    for step in program.steps:
        steps.append(step)
        if step.target:
            evaluation = rng.choice(
                [f"repr({step.target})", f"len({step.target})", f"{step.target}.sum()", f"{step.target}.shape"]
            )
            steps.append(Step(f"try: {evaluation}\nexcept Exception: pass", "evaluate"))
    return replace(program, steps=tuple(steps))


def reordered(program: Program) -> Program:
    """Permute steps that have no variable in common."""
    rng = random.Random(program.label)
    left = list(program.steps)
    done: list[Step] = []
    while left:
        free = [step for i, step in enumerate(left) if not any(_related(step, other) for other in left[:i])]
        chosen = rng.choice(free)
        left.remove(chosen)
        done.append(chosen)
    return replace(program, steps=tuple(done))


def _related(one: Step, other: Step) -> bool:
    if "\n" in one.code or "\n" in other.code:
        return True
    ones, others = {one.target, *one.uses} - {"", "pd", "np"}, {other.target, *other.uses} - {"", "pd", "np"}
    return bool(ones & others)


def split(program: Program) -> Program:
    """Read the tables from folders of several files."""
    return replace(program, tables=tuple(map(_in_parts, program.tables)))


def _in_parts(table: Table) -> Table:
    written = all(column.name.startswith('"') and column.dtype != "object" for column in table.columns)
    return replace(table, source="parts", index=()) if written and table.columns else table


def in_sets(program: Program) -> Program:
    """Read the tables from Parquet files, which the mode saves as durable sets."""
    return replace(
        program,
        tables=tuple(replace(_in_parts(table), source="parquet") for table in program.tables),
    )


def renamed(program: Program) -> Program:
    """Give the columns unusual names."""
    rng = random.Random(program.label)
    labels = list(dict.fromkeys(column.name for table in program.tables for column in table.columns))
    new = dict(zip(labels, rng.sample([f'"{name}"' for name in NAMES], min(len(labels), len(NAMES))), strict=False))
    tables = tuple(
        replace(
            table, columns=tuple(replace(column, name=new.get(column.name, column.name)) for column in table.columns)
        )
        for table in program.tables
    )
    names = {ast.literal_eval(old): ast.literal_eval(text) for old, text in new.items()}

    class Rename(ast.NodeTransformer):
        def visit_Constant(self, node: ast.Constant) -> ast.Constant:
            return ast.Constant(names[node.value]) if isinstance(node.value, str) and node.value in names else node

    steps = []
    for step in program.steps:
        code = ast.unparse(ast.fix_missing_locations(Rename().visit(ast.parse(step.code))))
        steps.append(replace(step, code=code))
    return replace(program, tables=tables, steps=tuple(steps))


def grown(program: Program) -> Program:
    """Give the tables thousands of rows, unless a join would multiply them."""
    if joins(program):
        return program
    return replace(program, tables=tuple(replace(table, grow=(7, 12_000), index=()) for table in program.tables))


#: By mode: the function that changes a program, and whether its floats must equal the original's bit by bit. None: the results
#: may differ from the original's, so they are compared with pandas only.
CHANGES: dict[str, tuple[Callable[[Program], Program], bool | None]] = {
    "evaluations": (with_evaluations, False),
    "evaluations-bits": (with_evaluations, True),
    "reordered": (reordered, False),
    "reordered-bits": (reordered, True),
    "split": (split, None),
    "renamed": (renamed, None),
    "spill": (grown, None),
    "sets": (in_sets, None),
    "sets-tiles3": (in_sets, None),
    "sets-objects": (in_sets, None),
}


def check(program: Program, change: str, mode: Mode) -> list[Difference]:
    """The differences of the changed program from pandas, or else from the original program under Craton.

    Parameters
    ----------
    program
        The original program.
    change
        A key of :data:`CHANGES`.
    mode
        The context in which Craton runs both programs.
    """
    make, exact = CHANGES[change]
    changed = make(program)
    found, got = oracle.check_with_result(changed, execution.run_in_pandas(changed), mode, fresh=True)
    # A cumulative sum of texts grows with the square of the rows, so that a page may not fit into the small store.
    if change == "spill":
        found = [one for one in found if one.raised != "MemoryError"]
    if found or exact is None:
        return found
    if exact:
        with craton.option_context(reproducible=True):
            return _compared(program, _run_in_craton(program, mode), _run_in_craton(changed, mode), True)

    def results_before(number: int) -> tuple[RunResult, RunResult]:
        before = steps_before(program, number)
        return _run_in_craton(before, mode), _run_in_craton(make(before), mode)

    found = _compared(program, _run_in_craton(program, mode), got, False, results_before)
    return _unless_in_pandas(program, changed, found, mode) if found else found


def _unless_in_pandas(program: Program, changed: Program, found: list[Difference], mode: Mode) -> list[Difference]:
    """The differences, without those of variables that the change makes differ in pandas, too; these are compared with pandas."""
    differing = {
        one.variable
        for one in oracle.compare(program, execution.run_in_pandas(program), execution.run_in_pandas(changed))
    }
    own = [one for one in found if one.variable not in differing]
    return own if len(own) == len(found) else own + oracle.check(program, mode, fresh=True)


def _run_in_craton(program: Program, mode: Mode) -> RunResult:
    """Run a program under Craton without remembered results of earlier programs."""
    with execution.quiet(), execution.scratch() as folder, mode():
        craton.clear_memory()
        outcome = execution.run(program, craton.pandas, folder)
        execution.evaluate_variables(program, outcome, program.variables())
    return outcome


def check_bits(program: Program, mode: Mode, single_node: Mode) -> list[Difference]:
    """The differences in bits between a run in a mode and a single-node run, both with the option ``reproducible``."""
    with craton.option_context(reproducible=True):
        outcomes = [_run_in_craton(program, run_mode) for run_mode in (single_node, mode)]
    return _compared(program, *outcomes, True)


def _compared(
    program: Program,
    original: RunResult,
    other: RunResult,
    exact: bool,
    results_before: Callable[[int], tuple[RunResult, RunResult]] | None = None,
) -> list[Difference]:
    """The differences of two runs; `results_before` gives the results of both before a step, to explain later writes."""
    original.errors.clear()
    other.errors.clear()
    found = [
        replace(one, kind=f"bits: {one.kind}") if exact and one.kind in ("value", "values") else one
        for one in oracle.compare(program, original, other, exact)
        if one.kind != "freq"  # after a selection, the frequency is known only when the rows have been computed
        and (exact or not _explained(program, original, other, one))
    ]
    if results_before is None:
        return found
    return not_explained_by_writes(program, other, found, results_before)


def _explained(program: Program, original: RunResult, other: RunResult, found: Difference) -> bool:
    return explanation(program, original, other, found) is not None or explained_by_inputs(
        program, original, other, found
    )
