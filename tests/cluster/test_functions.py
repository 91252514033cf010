"""Python functions called by worker processes."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas
import pandas.testing as pt
import pytest

import craton
import craton.pandas
from craton.cluster.sessions import ClusterSession
from craton.remote import parallel_calls

FRAME = pandas.DataFrame({"a": range(300), "b": np.linspace(0, 1, 300), "text": ["x", None, "yy"] * 100})


@pytest.fixture(autouse=True)
def worth_it(monkeypatch: pytest.MonkeyPatch, session: ClusterSession) -> Iterator[None]:
    """Every function is worth workers, after its first calls."""
    monkeypatch.setattr(parallel_calls, "MIN_PARALLEL_SECONDS", -1.0)
    monkeypatch.setattr(parallel_calls, "SAMPLE_SECONDS", 0.0)
    return


def test_rows_cells_and_groups() -> None:
    by = 3
    frame = craton.pandas.DataFrame(FRAME)

    def series(row: Any) -> Any:
        return pandas.Series({"p": row["a"] * by, "q": row["text"]})

    pt.assert_series_equal(
        pandas.Series(frame.apply(lambda row: row["b"] * by, axis=1)), FRAME.apply(lambda row: row["b"] * by, axis=1)
    )
    pt.assert_frame_equal(pandas.DataFrame(frame.apply(series, axis=1)), FRAME.apply(series, axis=1))
    pt.assert_series_equal(pandas.Series(frame["text"].map(str)), FRAME["text"].map(str))
    keys = FRAME["a"] % 17
    pt.assert_frame_equal(
        pandas.DataFrame(frame.groupby(keys).apply(lambda group: group.head(by))),
        FRAME.groupby(keys).apply(lambda group: group.head(by)),
    )


def test_other_processes_call_them() -> None:
    found = set(craton.map(lambda item: os.getpid(), range(200)))
    assert found - {os.getpid()}
    assert craton.remote.spawn(os.getpid).result() != os.getpid()


def test_classes_come_back_as_they_were() -> None:
    class Point:
        def __init__(self, x: int) -> None:
            self.x = x

    moved = craton.map(lambda point: Point(point.x + 1), [Point(number) for number in range(50)])
    assert [point.x for point in moved] == list(range(1, 51))
    assert all(type(point) is Point for point in moved)


def test_errors_arrive_with_their_class() -> None:
    class Late(Exception):
        def __init__(self, item: int, why: str) -> None:
            super().__init__(why)
            self.item = item

    def function(item: int) -> int:
        if item >= 150:
            raise Late(item, "too late")
        return item

    with pytest.raises(Late, match="too late") as caught:
        craton.map(function, range(300))
    assert caught.value.item == 150
    assert "in function" in str(caught.value.__cause__)


def test_what_they_print_comes_here(capsys: pytest.CaptureFixture[str]) -> None:
    craton.map(print, range(100))
    assert capsys.readouterr().out.split() == [str(number) for number in range(100)]


def test_calls_can_be_cancelled_and_awaited() -> None:
    import time

    waiting = craton.remote.spawn(time.sleep, 60)
    assert waiting.cancel()
    assert waiting.cancelled()

    async def powers() -> list[int]:
        return list(await asyncio.gather(*(craton.remote.spawn(pow, 2, power) for power in range(8))))

    assert asyncio.run(powers()) == [1, 2, 4, 8, 16, 32, 64, 128]
