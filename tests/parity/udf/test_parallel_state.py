"""Functions that read or change other objects, print, warn, or call workers themselves: their effects are as in one process."""

from __future__ import annotations

import asyncio
import functools
import threading
import warnings
from typing import Any

import numpy as np
import pandas
import pytest
from counted import DATA, Counted, Local, N
from support import check, same

import craton
from craton import fallbacks
from craton.remote.functions import UserFunction

SEEN: list[int] = []
COUNT = 0


def remember(cell: int) -> int:
    """Change a global, which an analysis of the caller's code does not find."""
    SEEN.append(cell)
    return cell


def count(cell: int) -> int:
    """Assign a global."""
    global COUNT
    COUNT += 1
    return COUNT


def refused() -> str:
    """The reason why the last call did not run on workers."""
    (reason,) = fallbacks.explain_fallbacks()["reason"]
    return str(reason)


@pytest.mark.parametrize("large", [True, False])
def test_lists_that_are_appended_to(large: bool, parallel: Counted) -> None:
    seen: list[int] = []
    table: dict[int, int] = {}
    total = np.zeros(1)

    def append(cell: int) -> int:
        seen.append(cell)
        return len(seen)

    def store(cell: int) -> int:
        table[cell] = len(table)
        return table[cell]

    def add(cell: int) -> float:
        total[0] += cell
        return float(total[0])

    def nested(cell: int) -> list[int]:
        return [append(cell) for _ in range(2)]

    def hidden(cell: int, held: Any = seen) -> int:
        for one in (held,):
            one += [cell]
        return len(held)

    series = pandas.Series(range(N))
    for function in (append, store, add, nested, hidden):
        fallbacks.reset()
        seen.clear()
        table.clear()
        total[0] = 0
        expected = series.map(function)
        kept = [*seen], dict(table), total[0]
        seen.clear()
        table.clear()
        total[0] = 0
        with craton.option_context(small_rows=0 if large else 10**6):
            same(craton.pandas.Series(series).map(function), expected)
        assert ([*seen], dict(table), total[0]) == kept, function
        assert parallel.pieces == 0
        assert refused()


def test_globals_that_are_changed(parallel: Counted) -> None:
    global COUNT
    COUNT = 0
    fallbacks.reset()
    assert craton.pandas.Series(range(N)).map(count).tolist() == list(range(1, N + 1))
    assert COUNT == N
    assert refused() == "a function that assigns a global: COUNT in count"
    SEEN.clear()
    assert craton.map(lambda item: remember(item) + 1, range(N)) == list(range(1, N + 1))
    assert list(range(N)) == SEEN


def test_what_is_changed_late(parallel: Counted) -> None:
    """The function changes a list only in later calls, which the analysis does not find. These calls are made here, in order."""
    found: list[int] = []

    def note(where: list[int], cell: int) -> None:
        getattr(where, "app" + "end")(cell)

    def function(cell: int) -> int:
        if cell > 45:
            note(found, cell)
        return len(found)

    fallbacks.reset()
    assert craton.pandas.Series(range(N)).map(function).tolist() == [0] * 46 + list(range(1, N - 45))
    assert found == list(range(46, N))
    assert parallel.pieces > 0
    assert refused() == "the function changed an object that it captures"


@pytest.mark.parametrize("generator", ["module", "numpy", "own"])
def test_random_numbers_come_in_order(generator: str, parallel: Counted) -> None:
    import random

    def program(pd: Any, series: Any) -> Any:
        random.seed(3)
        np.random.seed(3)
        own = np.random.default_rng(3)
        draw: dict[str, Any] = {"module": random.random, "numpy": np.random.random, "own": own.random}
        return series.map(lambda cell: draw[generator]())

    check(program, pandas.Series(range(N)), native=False)
    assert parallel.pieces == 0


def test_what_cannot_be_pickled(parallel: Counted) -> None:
    lock = threading.Lock()

    def function(cell: int) -> int:
        with lock:
            return cell

    fallbacks.reset()
    assert craton.pandas.Series(range(N)).map(function).tolist() == list(range(N))
    assert refused().startswith("the function cannot be pickled: TypeError")


def test_results_that_cannot_be_pickled(parallel: Counted) -> None:
    fallbacks.reset()
    locks = craton.map(lambda item: threading.Lock() if item > 30 else item, range(N))
    assert locks[:31] == list(range(31))
    assert len({id(lock) for lock in locks[31:]}) == N - 31
    assert refused().startswith("the function's results cannot be pickled")


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda cell: input(), "a function that asks for input: <lambda>"),
        (lambda cell: SEEN.append(cell), "a function that changes objects that it captures: SEEN.append in <lambda>"),
        (
            lambda cell: SEEN.__class__.append(SEEN, cell),
            "a function that changes objects that it captures: SEEN.append in <lambda>",
        ),
        (lambda cell: [cell].append(1), None),
        (lambda cell: sorted(SEEN), None),
        (lambda cell: np.add(cell, 1), None),
        (lambda cell: DATA["a"].add(cell), None),
        (lambda cell: DATA.pop("a"), "a function that changes objects that it captures: DATA.pop in <lambda>"),
        (Local(3), None),
        (functools.partial(count, 3), "a function that assigns a global: COUNT in count"),
        (len, None),
    ],
)
def test_what_code_tells(function: Any, reason: str | None) -> None:
    from craton.remote.captured import refusal

    told = refusal(UserFunction(function))
    assert (told and str(told)) == reason


def test_each_call_is_made_once(parallel: Counted, tmp_path: Any) -> None:
    def function(cell: int) -> int:
        with open(tmp_path / f"{cell}", "x"):
            return cell

    assert craton.map(function, range(N)) == list(range(N))
    assert len(list(tmp_path.iterdir())) == N


# -- output and warnings ----------------------------------------------------------------------------------------------


def test_what_is_printed_comes_in_order(parallel: Counted, capsys: pytest.CaptureFixture[str]) -> None:
    craton.map(lambda item: print("item", item), range(N))
    assert capsys.readouterr().out == "".join(f"item {item}\n" for item in range(N))


def test_warnings_are_given_here(parallel: Counted) -> None:
    def function(cell: int) -> int:
        if cell > 30:
            warnings.warn(f"late {cell}", UserWarning, stacklevel=1)
        return cell

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        craton.map(function, range(N))
    assert [str(one.message) for one in caught] == [f"late {cell}" for cell in range(31, N)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="late 31"):
            craton.map(function, range(N))


def test_floating_point_errors_are_as_here(parallel: Counted) -> None:
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        craton.map(lambda item: np.float64(1) / (item - 40), range(N))


# -- map and spawn ----------------------------------------------------------------------------------------------------


def test_classes_stay_what_they_are(parallel: Counted) -> None:
    class Point:
        def __init__(self, x: int) -> None:
            self.x = x

    points = craton.map(Point, [1, 2, 3])
    assert [point.x for point in points] == [1, 2, 3]
    moved = craton.map(lambda point: Point(point.x + 1), points * 10)
    assert [point.x for point in moved] == [2, 3, 4] * 10
    assert all(type(point) is Point for point in moved)


def test_map_takes_any_items(parallel: Counted) -> None:
    assert craton.map(str, []) == []
    assert craton.map(lambda item: item + 1, (item for item in range(N)), chunksize=7) == list(range(1, N + 1))
    assert parallel.pieces == 9
    with pytest.raises(ValueError, match="at least 1, not 0"):
        craton.map(str, [1], chunksize=0)
    with pytest.raises(TypeError, match="must be callable"):
        craton.map(3, [1])  # type: ignore[arg-type]


def test_functions_within_functions(parallel: Counted) -> None:
    def outer(item: int) -> tuple[list[int], int]:
        return craton.map(lambda inner: inner * item, range(3)), craton.remote.spawn(pow, item, 2).result()

    assert craton.map(outer, range(20)) == [([0, item, 2 * item], item * item) for item in range(20)]


def test_spawn(workers: None) -> None:
    seven = 7
    future = craton.remote.spawn(lambda value, by=1: value * by + seven, 3, by=2)
    assert future.result() == 13
    assert future.done()
    assert not future.cancel()
    assert future.exception() is None
    failed = craton.remote.spawn(divmod, 1, 0)
    assert isinstance(failed.exception(), ZeroDivisionError)
    with pytest.raises(ZeroDivisionError):
        failed.result()

    async def awaited() -> list[int]:
        return list(await asyncio.gather(*(craton.remote.spawn(pow, 2, power) for power in range(5))))

    assert asyncio.run(awaited()) == [1, 2, 4, 8, 16]
    with pytest.raises(TypeError, match="pickle"):
        craton.remote.spawn(print, threading.Lock())


def test_workers_follow_the_store_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers that connected to a store which the program has closed are replaced, and others are not."""
    import craton.remote
    from craton.remote import session
    from craton.store import close_store

    monkeypatch.setattr(session, "_make", None)
    monkeypatch.setattr(session, "_hidden", None)
    assert craton.remote.spawn(divmod, 17, 5).result() == (3, 2)
    first = session._hidden
    assert craton.remote.spawn(divmod, 18, 5).result() == (3, 3)
    assert session._hidden is first
    close_store()
    assert craton.remote.spawn(divmod, 19, 5).result() == (3, 4)
    second = session._hidden
    assert second is not first
    assert craton.remote.spawn(divmod, 20, 5).result() == (4, 0)
    assert session._hidden is second
    assert second is not None
    assert second.session is not None
    second.session.shutdown()
