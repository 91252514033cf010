"""Python functions called by workers: the results are pandas', whichever process made each call.

Here the pieces run in threads of this process, on an embedded runner, which pickles them and their results as for other
processes. ``tests/cluster`` runs some of these functions in other processes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import numpy as np
import pandas
import pytest
from counted import DATA, Counted, Local, N
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support import case_id, check, same

import craton
from craton.remote import parallel_calls
from craton.remote.functions import UserFunction
from craton.remote.items import _Items
from craton.remote.pieces import PieceResult
from craton.remote.values import pack

OFFSET = 7


def scale(row: Any, by: float = 2, *, plus: float = 0) -> Any:
    """A function of a module."""
    return row["b"] * by + plus


def labels(group: Any) -> str:
    """A description of the row labels of a group."""
    index = group.index
    return f"{type(index).__name__} {index.dtype} {index.names} {getattr(index, 'freq', '')} {list(index[:3])}"


def attributed(df: Any) -> Any:
    """Set an attribute of the frame, and return it."""
    df.attrs["source"] = "here"
    return df


ROWS: dict[str, Callable[[Any, Any], Any]] = {
    "floats": lambda pd, df: df.apply(lambda row: row["b"] * 2, axis=1),
    "integers": lambda pd, df: df.apply(lambda row: row["a"] + OFFSET, axis=1),
    "truth": lambda pd, df: df.apply(lambda row: row["a"] > 3, axis=1),
    "text": lambda pd, df: df.apply(lambda row: f"{row['text']}!", axis=1),
    "missing text": lambda pd, df: df.apply(lambda row: row["text"], axis=1),
    "nothing": lambda pd, df: df.apply(lambda row: None, axis=1),
    "times": lambda pd, df: df.apply(lambda row: row["time"] + pandas.Timedelta(1, "h"), axis=1),
    "mixed": lambda pd, df: df.apply(lambda row: row["a"] if row["a"] % 2 else str(row["a"]), axis=1),
    "late float": lambda pd, df: df.apply(lambda row: 0.5 if row["a"] == N - 1 else row["a"], axis=1),
    "late text": lambda pd, df: df.apply(lambda row: "z" if row["a"] == N - 1 else 1, axis=1),
    "large integers": lambda pd, df: df.apply(lambda row: 2**63 + row["a"], axis=1),
    "lists": lambda pd, df: df.apply(lambda row: [row["a"], row["b"]], axis=1),
    "dicts": lambda pd, df: df.apply(lambda row: {"a": row["a"]}, axis=1),
    "expand": lambda pd, df: df.apply(lambda row: [row["a"], row["b"]], axis=1, result_type="expand"),
    "reduce": lambda pd, df: df.apply(lambda row: row[["a", "b"]], axis=1, result_type="reduce"),
    "broadcast": lambda pd, df: df[["a", "b"]].apply(lambda row: [1, 2], axis=1, result_type="broadcast"),
    "series": lambda pd, df: df.apply(lambda row: pandas.Series({"p": row["a"], "q": row["b"]}), axis=1),
    "series of mixed": lambda pd, df: df.apply(lambda row: pandas.Series({"p": row["a"], "q": row["text"]}), axis=1),
    "ragged series": lambda pd, df: df.apply(lambda row: pandas.Series(range(row["a"] % 3)), axis=1),
    "the row": lambda pd, df: df.apply(lambda row: row, axis=1),
    "part of the row": lambda pd, df: df[["a", "b"]].apply(lambda row: row[["b", "a"]] * 2, axis=1),
    "late scalar": lambda pd, df: df[["a", "b"]].apply(lambda row: row if row["a"] < N - 1 else 3, axis=1),
    "the name": lambda pd, df: df.apply(lambda row: row.name, axis=1),
    "the dtype": lambda pd, df: df[["a", "b"]].apply(lambda row: str(row.dtype), axis=1),
    "args": lambda pd, df: df.apply(scale, axis=1, args=(3,), plus=1),
    "class of the row": lambda pd, df: df.apply(lambda row: isinstance(row, pd.Series), axis=1),
    "changed row": lambda pd, df: (df[["a", "b"]].apply(lambda row: row.__setitem__("a", 9.0) or row, axis=1), df),
    "one column": lambda pd, df: df[["a"]].apply(lambda row: row["a"] * 2, axis=1),
    "masked": lambda pd, df: df[["maybe", "maybe"]].apply(lambda row: row.iloc[0], axis=1),
    "index of times": lambda pd, df: df.set_index("time").apply(lambda row: row.name, axis=1),
    "index of levels": lambda pd, df: df.set_index(["key", "a"]).apply(lambda row: row.name[0] + row["b"], axis=1),
    "filtered": lambda pd, df: df[df["a"] > 5].apply(scale, axis=1),
    "raw": lambda pd, df: df[["a", "b"]].apply(lambda row: row.sum(), axis=1, raw=True),
    "raw text": lambda pd, df: df[["a", "b"]].apply(lambda row: "long" if row[0] > 3 else "s", axis=1, raw=True),
    "raw rows": lambda pd, df: df[["a", "b"]].apply(lambda row: row * 2, axis=1, raw=True),
    "raw columns": lambda pd, df: df[["a", "b"]].apply(lambda column: column - column.mean(), raw=True),
    "columns": lambda pd, df: df[["a", "b"]].apply(lambda column: column.sum()),
    "columns of columns": lambda pd, df: df[["a", "b"]].apply(lambda column: column * 2),
    "columns by kind": lambda pd, df: df.apply(lambda column: str(column.dtype)),
    "list of functions": lambda pd, df: df[["a", "b"]].apply([np.sum, "mean"]),
    "a name": lambda pd, df: df[["a", "b"]].apply("sum"),
    "no rows": lambda pd, df: df[df["a"] < 0][["a", "b"]].apply(scale, axis=1),
}

CELLS: dict[str, Callable[[Any, Any], Any]] = {
    "numbers": lambda pd, df: df["a"].map(lambda cell: cell * 2),
    "kinds": lambda pd, df: df["a"].map(lambda cell: type(cell).__name__),
    "text": lambda pd, df: df["text"].map(lambda cell: f"{cell}!"),
    "text without missing": lambda pd, df: df["text"].map(lambda cell: cell + "!", na_action="ignore"),
    "times": lambda pd, df: df["time"].map(lambda cell: cell.year),
    "times of times": lambda pd, df: df["time"].map(lambda cell: cell + pandas.Timedelta(1, "D")),
    "categories": lambda pd, df: df["kind"].map(lambda cell: cell * 2),
    "masked": lambda pd, df: df["maybe"].map(lambda cell: cell is pandas.NA),
    "masked ignored": lambda pd, df: df["maybe"].map(lambda cell: cell + 1, na_action="ignore"),
    "tuples": lambda pd, df: df["a"].map(lambda cell: (cell, 1)),
    "kwargs": lambda pd, df: df["a"].map(lambda cell, by: cell * by, by=3),
    "late missing": lambda pd, df: df["a"].map(lambda cell: None if cell == N - 1 else cell),
    "a dict": lambda pd, df: df["a"].map({1: "one", 2: "two"}),
    "object": lambda pd, df: df["a"].map(Local(3)),
    "partial": lambda pd, df: df["a"].map(functools.partial(pow, 2)),
    "apply": lambda pd, df: df["b"].apply(lambda cell: cell * 2),
    "apply with arguments": lambda pd, df: df["b"].apply(lambda cell, by, plus: cell * by + plus, args=(2,), plus=1),
    "apply to series": lambda pd, df: df["b"].apply(lambda cell: pandas.Series({"p": cell, "q": 1})),
    "apply of a column": lambda pd, df: df["b"].apply(lambda column: column.sum(), by_row=False),
    "apply of NumPy": lambda pd, df: df["b"].apply(np.exp),
    "frame": lambda pd, df: df[["a", "b"]].map(lambda cell: cell * 2),
    "frame of kinds": lambda pd, df: df.map(lambda cell: type(cell).__name__),
    "frame without missing": lambda pd, df: df.map(str, na_action="ignore"),
    "transform": lambda pd, df: df[["a", "b"]].transform(lambda column: column - column.mean()),
    "transform a column": lambda pd, df: df["b"].transform(lambda cell: cell * 2),
    "transform to less": lambda pd, df: df[["a", "b"]].transform(lambda column: column.sum()),
}

GROUPS: dict[str, Callable[[Any, Any], Any]] = {
    "numbers": lambda pd, df: df.groupby("key").apply(lambda group: float(group["b"].sum())),
    "frames": lambda pd, df: df.groupby("key").apply(lambda group: group.head(2)),
    "frames without keys": lambda pd, df: df.groupby("key", group_keys=False).apply(lambda group: group.head(2)),
    "same index": lambda pd, df: df.groupby("key", group_keys=False)[["a", "b"]].apply(lambda group: group - 1),
    "series": lambda pd, df: df.groupby("key").apply(
        lambda group: pandas.Series({"n": len(group), "m": group["b"].mean()})
    ),
    "series of a column": lambda pd, df: df.groupby("key")["b"].apply(lambda group: group.cumsum()),
    "number of a column": lambda pd, df: df.groupby("key")["b"].apply(lambda group: group.max()),
    "dicts of a column": lambda pd, df: df.groupby("key")["b"].apply(lambda group: {"p": group.max(), "q": 1}),
    "some nothing": lambda pd, df: df.groupby("key").apply(lambda group: None if group.name == 1 else group),
    "all nothing": lambda pd, df: df.groupby("key").apply(lambda group: None),
    "names": lambda pd, df: df.groupby(["key", "text"]).apply(lambda group: str(group.name)),
    "unsorted": lambda pd, df: df.groupby("key", sort=False).apply(len),
    "with missing": lambda pd, df: df.groupby("text", dropna=False).apply(len),
    "without index": lambda pd, df: df.groupby("key", as_index=False).apply(lambda group: group["b"].max()),
    "categories": lambda pd, df: df.groupby("kind", observed=False).apply(lambda group: len(group)),
    "observed": lambda pd, df: df.groupby("kind", observed=True).apply(lambda group: len(group)),
    "by days": lambda pd, df: df.groupby(pandas.Grouper(key="time", freq="7h")).apply(lambda group: group["b"].sum()),
    "by level": lambda pd, df: df.groupby(level=0).apply(lambda group: group["a"].iloc[0]),
    "by function": lambda pd, df: df.groupby(lambda label: label[-1]).apply(lambda group: group["a"].sum()),
    "arguments": lambda pd, df: df.groupby("key").apply(lambda group, by, plus: len(group) * by + plus, 2, plus=1),
    "arrays": lambda pd, df: df.groupby("key").apply(lambda group: group["b"].to_numpy()[:2]),
    "a name": lambda pd, df: df.groupby("key")[["a", "b"]].apply("sum"),
    "no rows": lambda pd, df: df[df["a"] < 0].groupby("key").apply(lambda group: len(group)),
    "of a series": lambda pd, df: df["b"].groupby(df["key"]).apply(lambda group: group.sum()),
    "columns": lambda pd, df: df.groupby("key").apply(lambda group: list(group.columns)),
    "labels": lambda pd, df: df.reset_index().groupby(OFFSET - df["a"].to_numpy() // 9).apply(labels),
    "labels of reversed rows": lambda pd, df: df.reset_index().groupby(-np.arange(len(df))).apply(labels),
    "labels of numbers": lambda pd, df: df.set_index(df["a"] * 3 % 60).groupby("key").apply(labels),
    "labels of few rows": lambda pd, df: df.reset_index()[:2].groupby(np.array([1, 0])).apply(labels),
    "labels without missing keys": lambda pd, df: df.reset_index().groupby("text")["b"].apply(labels),
    "labels of rows in order": lambda pd, df: df.reset_index().groupby(df["a"].to_numpy() // 9).apply(labels),
    "labels of times": lambda pd, df: df.set_index("time").groupby(OFFSET - df["a"].to_numpy() // 9)["b"].apply(labels),
    "labels of times in order": lambda pd, df: df.set_index("time").groupby(df["a"].to_numpy() // 9).apply(labels),
    "labels of levels": lambda pd, df: df.set_index(["key", "a"]).groupby("text", dropna=False).apply(labels),
    "ranges": lambda pd, df: df.reset_index().groupby(OFFSET - df["a"].to_numpy() // 9).apply(lambda group: group),
    "shared": lambda pd, df: (df.groupby("a")[["b"]].apply(lambda group: group.__setitem__("b", 0.0) or group), df),
    "missing keys": lambda pd, df: df.groupby("text").apply(lambda group: group[["a", "maybe"]]),
    "all kinds": lambda pd, df: df.groupby("key").apply(lambda group: [str(dtype) for dtype in group.dtypes]),
    "attributes": lambda pd, df: attributed(df).groupby("key").apply(lambda group: str(group.attrs)),
}


PROGRAMS = {
    f"{kind}: {name}": program
    for kind, programs in {"rows": ROWS, "cells": CELLS, "groups": GROUPS}.items()
    for name, program in programs.items()
}


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_results_are_those_of_pandas(program: Callable[[Any, Any], Any], parallel: Counted) -> None:
    check(program, DATA, native=None)


@pytest.mark.parametrize("program", [ROWS["series"], CELLS["text"], GROUPS["frames"]], ids=case_id)
def test_small_functions_are_called_here(program: Callable[[Any, Any], Any], workers: None) -> None:
    with Counted() as counted:
        check(program, DATA, native=None)
    assert counted.pieces == 0


@pytest.mark.parametrize(
    "program", [ROWS["floats"], ROWS["raw"], CELLS["numbers"], CELLS["frame"], GROUPS["numbers"]], ids=case_id
)
def test_functions_that_take_long_are_called_by_workers(program: Callable[[Any, Any], Any], parallel: Counted) -> None:
    check(program, DATA, native=True)
    assert parallel.pieces > 0


def test_groups_are_put_in_order_when_they_are_called(parallel: Counted, monkeypatch: pytest.MonkeyPatch) -> None:
    from craton.pandas.udf.groups import _RowsByGroup

    asked: list[tuple[int, int]] = []
    rows = _RowsByGroup.rows

    def noted(self: Any, first: int, last: int) -> Any:
        asked.append((int(first), int(last)))
        return rows(self, first, last)

    monkeypatch.setattr(_RowsByGroup, "rows", noted)
    check(GROUPS["numbers"], DATA, native=True)
    assert [first for first, _ in asked] == [0, *(last for _, last in asked[:-1])]
    assert asked[-1][1] == N
    assert len(asked) > 1


class Held:
    """A fake session with two workers, which finishes the first piece only when no further piece may be sent."""

    workers, runner = 2, None

    def __init__(self) -> None:
        self.sent: list[Future[Any]] = []

    def submit(self, work: Any) -> Future[Any]:
        """Accept a piece. All pieces but the first are finished immediately."""
        work.close()
        self.sent.append(Future())
        if len(self.sent) > 1:
            self._finish(len(self.sent) - 1)
        if len(self.sent) == parallel_calls._UNUSED_PIECES * self.workers:
            self._finish(0)
        return self.sent[-1]

    def _finish(self, number: int) -> None:
        self.sent[number].set_result((PieceResult(0.01), pack([number])))

    def release(self, *keys: int) -> None:
        """Drop nothing."""


def test_others_are_sent_while_the_first_is_in_flight() -> None:
    session = Held()
    run = parallel_calls._Run(_Items(list(range(N)), UserFunction(abs)), "test", 1)
    run.rate = 0.01
    piece: Any = None
    assert run.in_workers(session, piece, 0) is None  # type: ignore[arg-type]
    assert run.results.to_list() == list(range(N))
    assert len(session.sent) == N


def test_pieces_are_worth_a_round_trip() -> None:
    """Pieces grow at first and shrink later, but not below the duration that is worth a round trip."""
    run = parallel_calls._Run(_Items(list(range(10_000)), UserFunction(abs)), "test", None)
    run.rate = 1e-3
    stops = [0]
    while stops[-1] < run.total:
        stops.append(run.reach(stops[-1], run.share(stops[-1], 2, len(stops) - 1)))
    seconds = run.rate * np.diff(stops)
    assert seconds[:2].max() <= parallel_calls.PIECE_SECONDS[0]
    assert seconds[2:-2].max() == pytest.approx(parallel_calls.PIECE_SECONDS[1], rel=0.05)
    assert seconds[:-1].min() > parallel_calls.PIECE_SECONDS[0] / 2
    assert len(seconds) < 40


def test_small_frames_too(parallel: Counted) -> None:
    frame = craton.pandas.DataFrame(DATA)
    same(frame.apply(scale, axis=1), DATA.apply(scale, axis=1))
    same(frame.groupby("key").apply(len), DATA.groupby("key").apply(len))
    assert parallel.pieces > 1


def test_the_option_switches_it_off(parallel: Counted) -> None:
    with craton.option_context(parallel_functions=False):
        check(ROWS["floats"], DATA, native=False)
    assert parallel.pieces == 0


# -- any results ------------------------------------------------------------------------------------------------------

SCALARS = st.one_of(
    st.integers(-5, 5), st.integers(2**62, 2**64), st.floats(allow_nan=True), st.booleans(), st.text(max_size=3), st.none(),
    st.sampled_from([np.float64(1.5), np.int64(4), np.bool_(True), np.int32(7), pandas.NaT, pandas.NA, pandas.Timestamp(0)]),
)  # fmt: skip
RESULTS = st.one_of(
    SCALARS,
    st.lists(st.integers(0, 3), max_size=3),
    st.lists(st.integers(0, 3), min_size=2, max_size=2).map(lambda values: pandas.Series(values, index=["p", "q"])),
    st.dictionaries(st.sampled_from("xyz"), st.integers(0, 3), max_size=2),
)


def _comparable(result: Any) -> Any:
    """The result with dicts instead of Series in its cells, because pandas' assertions index such cells by position."""
    if not isinstance(result, pandas.Series) or not any(isinstance(cell, pandas.Series) for cell in result):
        return result
    return result.map(lambda cell: cell.to_dict() if isinstance(cell, pandas.Series) else cell)


@settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    results=st.one_of(st.lists(SCALARS, min_size=1, max_size=12), st.lists(RESULTS, min_size=1, max_size=12)),
    by_cell=st.booleans(),
)
def test_whatever_functions_return(results: list[Any], parallel: Counted, by_cell: bool) -> None:
    frame = pandas.DataFrame({"place": range(len(results)), "other": 0.5})

    def program(pd: Any, df: Any) -> Any:
        if by_cell:
            return _comparable(df["place"].map(lambda place: results[place]))
        return _comparable(df.apply(lambda row: results[int(row["place"])], axis=1))

    check(program, frame, native=None)


@settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    results=st.lists(RESULTS, min_size=3, max_size=3),
    group_keys=st.booleans(),
    as_index=st.booleans(),
    sort=st.booleans(),
)
def test_whatever_functions_of_groups_return(
    results: list[Any], parallel: Counted, group_keys: bool, as_index: bool, sort: bool
) -> None:
    def program(pd: Any, df: Any) -> Any:
        groups = df.groupby("key", group_keys=group_keys, as_index=as_index, sort=sort)
        return groups.apply(lambda group: results[group.name - 1])

    check(program, DATA[["key", "a", "b"]], native=None)


# -- errors -----------------------------------------------------------------------------------------------------------


class Refusal(Exception):
    """An exception that takes two arguments, so that the default pickling cannot recreate it."""

    def __init__(self, label: Any, reason: str) -> None:
        super().__init__(f"{label}: {reason}")
        self.label = label


def refuse_late(row: Any) -> Any:
    """Raise an error for the later rows."""
    if row["a"] >= 40:
        raise Refusal(row["a"], "too late")
    return row["a"]


def test_the_first_error_is_raised(parallel: Counted) -> None:
    frame = craton.pandas.DataFrame(DATA)
    with pytest.raises(Refusal, match="40: too late") as caught:
        frame.apply(refuse_late, axis=1)
    assert caught.value.label == 40
    assert "refuse_late" in str(caught.value.__cause__)
    assert parallel.pieces > 0


def test_causes_are_kept(parallel: Counted) -> None:
    def function(cell: int) -> int:
        try:
            return dict.fromkeys(range(40), 0)[cell]
        except KeyError as error:
            raise ValueError("no such cell") from error

    with pytest.raises(ValueError, match="no such cell") as caught:
        craton.pandas.Series(range(N)).map(function)
    assert isinstance(caught.value.__cause__, KeyError)
    assert "in function" in str(caught.value.__cause__.__cause__)


def test_errors_of_groups(parallel: Counted) -> None:
    check(lambda pd, df: df.groupby("key").apply(lambda group: group["none"]), DATA, native=None)
    check(lambda pd, df: df.groupby("a").apply(lambda group: 1 / (30 - group.name)), DATA, native=None)


@pytest.mark.parametrize("error", [StopIteration("x"), SystemExit(3), KeyboardInterrupt(), OSError(2, "none", "file")])
def test_errors_of_every_class(error: BaseException, parallel: Counted) -> None:
    def function(cell: int) -> int:
        if cell > 30:
            raise error
        return cell

    with pytest.raises(type(error)) as caught:
        craton.pandas.Series(range(N)).map(function)
    assert caught.value.args == error.args
