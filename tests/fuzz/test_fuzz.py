"""Tests of the fuzzer itself: equal seeds generate equal programs, and an injected error is found and reduced."""

from __future__ import annotations

import ast
import io
import random
import types
from pathlib import Path

import pandas
import pytest

import craton.pandas
from tests.fuzz import __main__ as command
from tests.fuzz import execution, frames, grid, metamorphic, oracle, reach
from tests.fuzz.building import OPERATIONS, Builder, Operation, build
from tests.fuzz.compare import Closeness, difference
from tests.fuzz.explained import EXPLAINED
from tests.fuzz.metamorphic import CHANGES
from tests.fuzz.modes import MODES
from tests.fuzz.programs import Column, Program, Step, Table
from tests.fuzz.run import Run, summary
from tests.fuzz.shrink import shorter, shrink
from tests.fuzz.work import Worker

SEED = "smoke"


def built(number: int) -> Program:
    with execution.quiet(), execution.scratch() as folder:
        return build(f"{SEED}/{number}", execution.namespace(pandas, folder))[0]


def program_of(code: str, rows: tuple[str, ...] = ("3", "1", "2", "5")) -> Program:
    table = Table("a", (Column('"k"', "int64", rows), Column('"x"', "int64", rows[::-1])), rows=len(rows))
    return Program((table,), tuple(Step(line, "step", line.partition(" = ")[0], ("a",)) for line in code.splitlines()))


def test_the_same_seed_gives_the_same_programs() -> None:
    assert [built(i).text() for i in range(8)] == [built(i).text() for i in range(8)]
    assert len({built(i).text() for i in range(8)}) == 8


def test_a_step_whose_frame_pandas_cannot_read_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = ["pandas.concat([a, a + 0.5], axis=1)", "v1[['k', 'x', 'k']].sub(v1['x'])"]
    builder = Builder(random.Random(0), {"pandas": pandas, "a": pandas.DataFrame({"k": [1], "x": [2]})})
    monkeypatch.setattr(builder, "_receiver", lambda on: "a")
    made = [builder.try_operation(Operation("step", "frame", lambda _, v, step=step: step)) for step in steps]
    assert made == [True, False]
    assert "v2" not in builder.env


def test_printed_programs_are_valid_python() -> None:
    for number in range(8):
        ast.parse(built(number).text())


@pytest.mark.parametrize("mode", ["single-node", "default", "tiles3"])
def test_programs_run_in_a_mode(mode: str) -> None:
    worker = Worker(SEED, [mode], shrinking=0)
    for number in range(6):
        worker.run(number)
    assert worker.counts.programs == 6
    assert worker.counts.steps >= 6


@pytest.mark.parametrize("change", CHANGES)
def test_changed_programs_run(change: str) -> None:
    for number in range(3):
        changed = CHANGES[change][0](built(number))
        ast.parse(changed.text())


@pytest.mark.parametrize("change", ["reordered", "evaluations", "renamed"])
def test_an_error_that_the_changed_program_raises_late_too_is_no_difference(change: str) -> None:
    # Division by zero of Arrow integers is raised when the rows are computed.
    table = Table("a", (Column('"k"', "int64[pyarrow]", ("3", "1")),), rows=2)
    steps = (Step('v1 = a["k"].floordiv(0)', "step", "v1", ("a",)), Step('v2 = a["k"].sum()', "step", "v2", ("a",)))
    assert metamorphic.check(Program((table,), steps), change, MODES["reordered"]) == []


def test_an_injected_error_is_found_and_reduced(monkeypatch: pytest.MonkeyPatch) -> None:
    original = craton.pandas.Series.between

    def between(self: object, left: object, right: object, inclusive: str = "both") -> object:
        return ~original(self, left, right, inclusive)

    monkeypatch.setattr(craton.pandas.Series, "between", between)
    program = program_of(
        'v1 = a.assign(y=a["x"] * 2)\nv2 = v1["x"].head(3)\nv3 = v1[v1["x"].between(1, 2) & (v1["k"] > 0)]\nv4 = a["k"].sum()',
        ("3", "1", "2", "5", "4", "9", "7", "8"),
    )

    def fails(candidate: Program) -> bool:
        return any(one.kind == "shape" for one in oracle.check(candidate, MODES["single-node"]))

    assert fails(program)
    small = shrink(program, fails)
    assert len(small.steps) == 1
    assert "between" in small.steps[0].code
    assert "head" not in small.text()
    assert small.tables[0].rows <= 2
    assert len(small.tables[0].columns) == 1


def test_differences_are_described() -> None:
    one = pandas.DataFrame({"x": [1.0, 2.0]})
    assert difference(one, one.copy()) is None
    assert str(difference(one, one.astype("float32"))).startswith("dtype")
    assert str(difference(one, one.rename(columns={"x": "y"}))).startswith("index")
    assert str(difference(one, one[::-1])).startswith("index")
    assert str(difference(one["x"], one["x"].rename("y"))).startswith("name")
    assert str(difference(one, one + 1e-6)).startswith("values")
    assert difference(one, one + 1e-14) is None
    assert difference(one, one + 1e-14, Closeness(exact=True)) is not None
    assert str(difference(pandas.Index([1], name="i"), pandas.Index([1]))).startswith("names")
    assert difference(1, True) is not None
    assert difference(pandas.NA, None) is not None


def test_errors_are_compared() -> None:
    assert oracle.check(program_of('v1 = a["nope"]'), MODES["single-node"]) == []
    assert oracle.check(program_of('v1 = a["k"].astype("nope")'), MODES["single-node"]) == []


def test_an_error_that_pandas_does_not_raise_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def head(self: object, n: int = 5) -> object:
        raise KeyError("injected")

    monkeypatch.setattr(craton.pandas.Series, "head", head)
    (found,) = oracle.check(program_of('v1 = a["k"].head(2)'), MODES["single-node"])
    assert found.kind == "error"


def test_expressions_get_shorter() -> None:
    texts = list(shorter('v1 = a[(a["x"] > 1) & a["k"].isin([1, 2])].head(n=2)'))
    assert "v1 = a.head(n=2)" in texts
    assert "v1 = a[(a['x'] > 1) & a['k'].isin([1, 2])].head()" in texts


def test_tables_of_every_dtype_can_be_made() -> None:
    for dtype, kind in frames.KINDS.items():
        values = (*kind.values, kind.missing) if kind.missing else kind.values
        table = Table("a", (Column('"x"', dtype, values),), rows=len(values))
        names = execution.namespace(pandas, "")
        for statement in table.statements():
            exec(statement, names)
        assert len(names["a"]) == len(values)


def test_random_tables_can_be_made() -> None:
    for number in range(40):
        table = frames.table(random.Random(number), "a", None, ("memory",))
        names = execution.namespace(pandas, "")
        for statement in table.statements():
            exec(statement, names)
        assert isinstance(names["a"], pandas.DataFrame)


def test_every_native_call_has_an_operation() -> None:
    names = {operation.name for operations in OPERATIONS.values() for operation in operations}
    assert set(reach.native_calls()) - names == set()


def test_pairs_of_operators_are_counted() -> None:
    worker = Worker(SEED, ["single-node"], shrinking=0)
    for number in range(3):
        worker.run(number)
    assert worker.counts.pairs
    assert "pairs of operators" in reach.table(worker.counts.emitted, worker.counts.native, worker.counts.pairs)


def test_a_case_of_the_grid() -> None:
    assert oracle.check(grid.GridCase(0, 0, 2).program(grid.tables()), MODES["single-node"]) == []
    assert len(list(grid.cases())) == 15 * 18 * 25


def test_a_run_in_a_separate_process() -> None:
    out = io.StringIO()
    counts = Run("0", ["single-node"], 3, 120.0, 1, out).run()
    assert counts.programs == 3
    assert "3 programs" in summary(counts, 1.0, True)


def test_a_process_that_dies_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run("0", ["single-node"], 3, 60.0, 1, io.StringIO())
    process = types.SimpleNamespace(exitcode=-11, join=lambda timeout=None: None)

    def ended() -> None:
        raise EOFError

    from tests.fuzz.run import WorkerProcess
    from tests.fuzz.work import Counts

    one = WorkerProcess(process, types.SimpleNamespace(recv=ended), 0, number=2)
    counts = Counts()
    assert run._receive(one, counts, set()) is False
    assert counts.findings[0].difference.kind == "broken"


def test_an_interrupted_run_reports_its_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Run, "_collect", interrupted)
    out = io.StringIO()
    assert Run("0", ["single-node"], 3, 60.0, 1, out).run().programs == 0
    assert "interrupted" in out.getvalue()


def test_unknown_modes_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command.main(["--mode", "nope"])
    assert "no modes" in capsys.readouterr().err


def test_explained_differences_are_documented() -> None:
    page = (Path(__file__).parents[2] / "docs/known-differences.md").read_text().splitlines()
    assert not {one.section for one in EXPLAINED} - {
        line.removeprefix("### ") for line in page if line.startswith("### ")
    }
