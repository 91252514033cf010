"""Every collective passes values of every kind, of equal and of different sizes, from every root."""

from __future__ import annotations

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest


class Point:
    """An object of the program's own."""

    def __init__(self, x: int) -> None:
        self.x = x

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Point) and other.x == self.x

    __hash__ = None  # type: ignore[assignment]


def kinds(rank: int) -> list[object]:
    """Values of every kind, which differ by rank."""
    frame = pd.DataFrame(
        {
            "n": np.arange(rank + 2),
            "c": pd.Categorical(["a", "b"] * 5, ["b", "a", "x"])[: rank + 2],
            "t": ["x"] * (rank + 2),
        },
        index=pd.Index([f"row {i}" for i in range(rank + 2)], name="label"),
    )
    strided = np.arange(60.0).reshape(6, 10)[::2, ::3] + rank
    return [
        None,
        rank,
        1 << (70 + rank),
        float(rank) / 3,
        complex(rank, 1),
        rank % 2 == 0,
        "text ü " * rank,
        b"bytes" * rank,
        datetime.date(2026, 1, 1 + rank),
        (rank, [rank, {"key": rank}], {rank}),
        Point(rank),
        np.float32(rank),
        np.array(rank),
        np.arange(rank, dtype="i2"),
        np.zeros((0, 3)),
        strided,
        np.asfortranarray(strided),
        np.array(["a", "bc" * rank]),
        np.array([1, "x", None], dtype=object),
        np.array(["2026-01-01", "NaT"], dtype="M8[s]"),
        np.zeros(3, dtype=[("a", "i4"), ("b", "f8")]),
        frame,
        frame.iloc[:0],
        frame["n"],
        pl.DataFrame({"a": list(range(rank)), "b": ["x"] * rank}),
        pa.table({"a": pa.array([rank, None]), "b": pa.array(["x", "y"]).dictionary_encode()}),
        pa.record_batch({"a": pa.array([rank] * rank, pa.int8())}),
    ]


def equal(left: object, right: object) -> bool:
    if type(left) is not type(right):
        return False
    if isinstance(left, np.ndarray | np.generic):
        return left.dtype == right.dtype and left.shape == right.shape and left.tolist() == right.tolist()
    if isinstance(left, pd.DataFrame):
        pd.testing.assert_frame_equal(left, right)
        return True
    if isinstance(left, pd.Series):
        pd.testing.assert_series_equal(left, right)
        return True
    if isinstance(left, pl.DataFrame):
        return left.equals(right) and left.schema == right.schema
    if isinstance(left, pa.Table | pa.RecordBatch):
        return left.equals(right) and left.schema == right.schema
    return left == right


def test_values_of_every_kind(few_ranks):
    def program(comm):
        rank, size = comm.rank, comm.size
        expected = [kinds(other) for other in range(size)]
        for number, own in enumerate(expected[rank]):
            root = number % size
            column = [expected[other][number] for other in range(size)]
            assert equal(comm.broadcast(own, root), column[root]), own
            gathered = comm.gather(own, root)
            assert (gathered is None) == (rank != root)
            assert gathered is None or all(map(equal, gathered, column)), own
            assert all(map(equal, comm.allgather(own), column)), own
            given = column if rank == root else None
            assert equal(comm.scatter(given, root), own)
            sent = [(own, other) for other in range(size)]
            received = comm.alltoall(sent)
            assert all(equal(value, column[other]) and to == rank for other, (value, to) in enumerate(received)), own
            comm.send(own, (rank + 1) % size, number)
            assert equal(comm.receive((rank - 1) % size, number), column[rank - 1]), own
        comm.barrier()
        return len(expected[rank])

    assert set(few_ranks.run(program)) == {len(kinds(0))}


def test_sizes_around_the_thresholds(ranks):
    def program(comm):
        rank, size = comm.rank, comm.size
        for length in (0, 1, 4095, 4097, 16_300, 32_700, 32_769, 70_001, 1_100_000):

            def value(of, to=0, length=length):
                # Different sizes on different ranks: small here, large there.
                return np.arange(length if (of + to) % 2 else of, dtype=np.uint8) + np.uint8(of + to)

            root = length % size
            assert np.array_equal(comm.broadcast(value(root), root), value(root))
            for other, found in enumerate(comm.allgather(value(rank))):
                assert np.array_equal(found, value(other))
            for other, found in enumerate(comm.alltoall([value(rank, to) for to in range(size)])):
                assert np.array_equal(found, value(other, rank))
            gathered = comm.gather(value(rank), root)
            assert gathered is None or all(np.array_equal(found, value(other)) for other, found in enumerate(gathered))
            given = [value(root, to) for to in range(size)] if rank == root else None
            assert np.array_equal(comm.scatter(given, root), value(root, rank))
        return True

    assert all(ranks.run(program))


def test_values_that_the_sender_changes_afterwards(ranks):
    """What has been sent does not change any more, also if it was not copied."""

    def program(comm):
        rank, size = comm.rank, comm.size
        for length in (10, 300_000):
            array = np.full(length, rank)
            comm.send(array, (rank + 1) % size)
            array[:] = -1
            assert (comm.receive((rank - 1) % size) == (rank - 1) % size).all()
            array = np.full(length, rank)
            others = comm.allgather(array)
            array[:] = -1
            comm.barrier()
            assert all((found == other).all() for other, found in enumerate(others) if other != rank)
        return True

    assert all(ranks.run(program))


def test_calls_with_a_wrong_number_of_values(ranks):
    def program(comm):
        for _ in range(2):
            with pytest.raises(ValueError, match=r"a value for each of the \d+ ranks"):
                comm.scatter([1] * (comm.size + 1) if comm.rank == 0 else None)
            with pytest.raises(ValueError, match=r"a value for each of the \d+ ranks"):
                comm.alltoall([1] * (comm.size - 1))
        for root in (-1, comm.size):
            with pytest.raises(ValueError, match="must be a rank from 0 to"):
                comm.broadcast(1, root)
            with pytest.raises(ValueError, match="must be a rank from 0 to"):
                comm.send(1, root)
        # The communicator still works.
        return comm.allgather(comm.rank)

    assert ranks.run(program) == [list(range(ranks.size))] * ranks.size


@pytest.mark.parametrize("name", ["own", "tcp", "mpi", "ucx"])
def test_messages_over_64_megabytes(make, name):
    def program(comm):
        large = np.arange(9_000_000, dtype=np.int64) * (comm.rank + 1)
        received = comm.alltoall([large, large + 1])
        assert np.array_equal(received[0], np.arange(9_000_000) + comm.rank)
        assert np.array_equal(comm.broadcast(large), np.arange(9_000_000))
        # Both send before they receive.
        comm.send(large, 1 - comm.rank)
        return int(comm.receive(1 - comm.rank)[-1])

    assert make(name, 2).run(program) == [2 * 8_999_999, 8_999_999]
