"""The inline runner: order of tasks and rows, pages, row ranges, errors, and releasing outputs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

from craton.schedule.inline import InlineRunner
from craton.schedule.memory_accounting import INTERVAL
from craton.schedule.tasks import Input, Output, Read, Sink, Task, new_key
from craton.store import Store


class Calls:
    """Work that is a function."""

    def __init__(self, function: Callable[[Sequence[Input], Sink], Any]) -> None:
        self.function = function

    def run(self, inputs: Sequence[Input], sink: Sink) -> Any:
        return self.function(inputs, sink)


def task(function: Callable[[Sequence[Input], Sink], Any], *inputs: Read, parts: int = 1, key: int = 0) -> Task:
    return Task(key or new_key(), Calls(function), inputs, parts)


@pytest.fixture
def store() -> Iterator[Store]:
    with Store.open(1 << 28) as opened:
        yield opened


@pytest.fixture(params=[1, 3])
def runner(request: pytest.FixtureRequest, store: Store) -> InlineRunner:
    return InlineRunner(store, bands=2, threads=request.param)


def numbers(first: int, number: int) -> pa.Table:
    return pa.table({"n": list(range(first, first + number))})


def ran(runner: InlineRunner, *tasks: Task) -> list[Output]:
    return asyncio.run(runner.run(tasks))


def fetched(runner: InlineRunner, key: int, part: int = 0) -> pa.Table:
    return asyncio.run(runner.fetch(key, part))


def spread(rows: int) -> Callable[[Sequence[Input], Sink], Any]:
    def write(inputs: Sequence[Input], sink: Sink) -> int:
        for row in range(rows):
            sink.write(row % 4, numbers(row, 1))
        return rows

    return write


def copied(inputs: Sequence[Input], sink: Sink) -> list[int]:
    for one in inputs:
        sink.write(0, one.table())
    return [one.rows for one in inputs]


def test_small_parts_share_a_page(runner: InlineRunner, store: Store) -> None:
    made = task(spread(10), parts=6)
    (output,) = ran(runner, made)
    assert [part.rows for part in output.parts] == [3, 3, 2, 2, 0, 0]
    assert output.value == 10
    assert fetched(runner, made.key, 1)["n"].to_pylist() == [1, 5, 9]
    assert fetched(runner, made.key, 5).schema.names == ["n"]
    assert store.describe()["pages"].tolist() == [1]


def test_a_read_concatenates_parts_of_tasks_in_order(runner: InlineRunner) -> None:
    sources = [task(spread(8), parts=4) for _ in range(2)]
    keys = tuple(one.key for one in sources)
    reader = task(copied, Read(keys, (2, 0)))
    sliced = task(copied, Read(keys, (2, 0), (1, 5)))
    # Consumers may be listed before their producers.
    outputs = ran(runner, sliced, reader, *sources)
    assert outputs[1].value == [8]
    assert outputs[0].value == [5]
    whole = [2, 6, 0, 4] * 2
    assert fetched(runner, reader.key)["n"].to_pylist() == whole
    assert fetched(runner, sliced.key)["n"].to_pylist() == whole[1:6]


def test_large_and_small_batches_keep_their_order(runner: InlineRunner) -> None:
    def write(inputs: Sequence[Input], sink: Sink) -> None:
        sink.write(0, numbers(0, 3))
        sink.write(0, numbers(3, 100_000))
        sink.write(0, pl.DataFrame({"n": [100_003]}))

    (output,) = ran(runner, made := task(write))
    assert output.rows == 100_004
    assert fetched(runner, made.key)["n"].to_pylist() == list(range(100_004))


def test_the_size_of_a_slice_of_text_is_that_of_its_rows(runner: InlineRunner) -> None:
    frame = pl.DataFrame({"text": [f"a text that is too long for a view {i}" for i in range(50_000)]})

    def write(inputs: Sequence[Input], sink: Sink) -> None:
        sink.write(0, frame[:1000])

    (output,) = ran(runner, made := task(write))
    assert output.nbytes < 100_000
    read = fetched(runner, made.key)
    assert pl.DataFrame(read).equals(frame[:1000])
    assert read.schema.field("text").type == pa.string_view()


def test_a_task_without_rows_can_declare_its_schema(runner: InlineRunner, store: Store) -> None:
    silent, says = task(lambda inputs, sink: None), task(lambda inputs, sink: sink.schema(numbers(0, 0).schema))
    reader = task(
        lambda inputs, sink: [one.table().schema.names for one in inputs], Read((silent.key,)), Read((says.key,))
    )
    assert ran(runner, silent, says, reader)[2].value == [[], ["n"]]
    assert len(store.describe()) == 0


def test_tables_yields_part_by_part(runner: InlineRunner) -> None:
    source = task(spread(3), parts=4)
    reader = task(lambda inputs, sink: [one.num_rows for one in inputs[0].tables()], Read((source.key,), (0, 1, 2, 3)))
    nothing = task(lambda inputs, sink: [one.num_rows for one in inputs[0].tables()], Read((source.key,), (3,)))
    assert [output.value for output in ran(runner, source, reader, nothing)[1:]] == [[1, 1, 1], [0]]


def test_memory_is_reserved_and_measured(runner: InlineRunner, store: Store) -> None:
    def hungry(inputs: Sequence[Input], sink: Sink) -> int:
        data = bytearray(48 << 20)
        for place in range(0, len(data), 4096):
            data[place] = 1
        time.sleep(10 * INTERVAL)  # long enough to be sampled at least once on a busy machine
        return store.counters()["reserved"]

    (output,) = ran(runner, Task(new_key(), Calls(hungry), memory=64 << 20))
    assert output.value >= 64 << 20
    assert 40 << 20 < output.memory < 80 << 20
    assert store.counters()["reserved"] == 0


def test_an_error_drops_all_outputs_of_the_run(runner: InlineRunner, store: Store) -> None:
    source = task(spread(4), parts=4)

    def fail(inputs: Sequence[Input], sink: Sink) -> None:
        sink.write(0, numbers(0, 100_000))
        raise ZeroDivisionError("no")

    with pytest.raises(ZeroDivisionError, match="no"):
        ran(runner, source, task(fail, Read((source.key,))))
    assert len(store.describe()) == 0
    with pytest.raises(KeyError, match="released"):
        fetched(runner, source.key)


def test_put_and_release(runner: InlineRunner, store: Store) -> None:
    async def go() -> None:
        put = await runner.put(numbers(0, 5))
        (output,) = await runner.run([made := task(copied, Read((put.key,)))])
        runner.release([put.key, 12345])
        assert (await runner.fetch(made.key)).num_rows == output.rows == 5
        runner.release([made.key])

    asyncio.run(go())
    assert len(store.describe()) == 0


@pytest.mark.parametrize(
    ("tasks", "message"),
    [
        ([task(copied, Read((7,)), key=1)], "reads the output of task 7, which does not exist"),
        ([task(copied, Read((2,)), key=1), task(copied, Read((1,)), key=2)], "depends on its own output"),
        ([task(copied, key=1), task(copied, key=1)], "only 1 different keys"),
    ],
)
def test_invalid_graphs(tasks: list[Task], message: str, runner: InlineRunner) -> None:
    with pytest.raises(ValueError, match=message):
        ran(runner, *tasks)


def test_parts_that_do_not_exist(runner: InlineRunner) -> None:
    source = task(spread(4), parts=4)
    with pytest.raises(IndexError, match=f"part 4 of the output of task {source.key}"):
        ran(runner, source, task(copied, Read((source.key,), (4,))))
    with pytest.raises(IndexError, match="cannot write to part 1: the output has 1 parts"):
        ran(runner, task(lambda inputs, sink: sink.write(1, numbers(0, 1))))
