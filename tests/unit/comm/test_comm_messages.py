"""Messages between two ranks, groups of ranks, and random programs of both."""

from __future__ import annotations

import random

import numpy as np
import pytest
from gang import Gang

import craton.comm
from craton.comm.errors import CommunicatorClosed


def test_messages_keep_their_order_by_tag(ranks):
    def program(comm):
        rank, size = comm.rank, comm.size
        to, source = (rank + 1) % size, (rank - 1) % size
        for number in range(60):
            comm.send((number, np.full(number * 700, rank)), to, number % 3 - 1)
        found = {tag: [comm.receive(source, tag) for _ in range(20)] for tag in (1, -1, 0)}
        for tag, received in found.items():
            assert [number for number, _ in received] == list(range((tag + 1) % 3, 60, 3))
            assert all((array == source).all() for _, array in received)
        return True

    assert all(ranks.run(program))


def _send_before_receiving(comm):
    for other in range(comm.size):
        comm.send(np.full(400_000, comm.rank), other, 5)
    return [int(comm.receive(other, 5)[-1]) for other in range(comm.size)]


def test_all_send_large_messages_before_they_receive(ranks):
    assert ranks.run(_send_before_receiving) == [list(range(ranks.size))] * ranks.size


@pytest.mark.skipif("ucx" not in craton.comm.available(), reason="UCX is not installed")
@pytest.mark.parametrize("transports", ["tcp", "^cma"])
def test_ucx_without_reading_the_memory_of_others(monkeypatch, transports):
    """A sender makes no further call: parts of its large messages are still to be sent then."""
    monkeypatch.setenv("UCX_TLS", transports)
    gang = Gang(2, "plain")
    try:
        ranks = gang.ranks("ucx", 2)
        assert ranks.run(_send_before_receiving) == [[0, 1]] * 2
        ranks.start(lambda comm: comm.send(np.arange(4_000_000), 1), only=[0])
        ranks.results([0])
        ranks.start(lambda comm: int(comm.receive(0).sum()), only=[1])
        assert ranks.results([1]) == [7999998000000]
        ranks.close()
    finally:
        gang.end()


def test_groups(ranks):
    def program(comm):
        rank, size = comm.rank, comm.size
        halves = comm.split(rank % 2, key=-rank)
        members = sorted((other for other in range(size) if other % 2 == rank % 2), reverse=True)
        assert (halves.rank, halves.size) == (members.index(rank), len(members))
        assert halves.allgather(rank) == members
        assert comm.split(None if rank else 7) is None or rank == 0
        # Within a group of a group, while the other ranks use the whole.
        inner = halves.split(0 if halves.rank == 0 else None)
        if inner is not None:
            assert (inner.rank, inner.size, inner.allreduce(5)) == (0, 1, 5)
        assert halves.allreduce(np.full(30_000, rank)).tolist() == [sum(members)] * 30_000
        assert comm.allreduce(rank) == sum(range(size))
        halves.close()
        with pytest.raises(CommunicatorClosed):
            halves.barrier()
        comm.barrier()
        return True

    assert all(ranks.run(program))


@pytest.mark.parametrize("name", ["own", "tcp", "mpi", "ucx"])
def test_a_group_and_the_whole_at_the_same_time(make, name):
    """Ranks 0 and 1 use their group, and then send to the others, which have been waiting in the whole."""

    def program(comm):
        pair = comm.split(0 if comm.rank < 2 else 1)
        if comm.rank < 2:
            total = sum(pair.allreduce(number) for number in range(50))
            comm.send((total, "same tag"), comm.rank + 2)
            pair.send("in the pair", 1 - pair.rank)
            assert pair.receive(1 - pair.rank) == "in the pair"
        else:
            total, _ = comm.receive(comm.rank - 2)
        return comm.allgather(total)

    assert make(name, 4).run(program) == [[2450] * 4] * 4


SEEDS = range(4)


@pytest.mark.parametrize("seed", SEEDS)
def test_random_programs(ranks, seed):
    """Programs of many calls on the whole and on its groups, compared with what one process computes."""

    def program(comm, seed):
        shared = random.Random(seed)
        rank, size = comm.rank, comm.size
        colors = [shared.randrange(2) for _ in range(size)]
        group = comm.split(colors[rank])
        members = [other for other in range(size) if colors[other] == colors[rank]]

        def value(of, step):
            own = random.Random(f"{seed} {of} {step}")
            length = own.choice([0, 1, 3, 500, 3000, 9000, 50_000])
            return np.arange(length) * (of + 1) + step

        def call(used, numbers, kind, step):
            me, root = numbers.index(rank), step % len(numbers)
            if kind == "barrier":
                return used.barrier() is None
            if kind == "broadcast":
                return np.array_equal(used.broadcast(value(rank, step), root), value(numbers[root], step))
            if kind == "allgather":
                return all(
                    map(np.array_equal, used.allgather(value(rank, step)), [value(one, step) for one in numbers])
                )
            if kind == "gather":
                found = used.gather(value(rank, step), root)
                return found is None or all(map(np.array_equal, found, [value(one, step) for one in numbers]))
            if kind == "alltoall":
                found = used.alltoall([value(rank, step + 1000 * one) for one in numbers])
                return all(map(np.array_equal, found, [value(one, step + 1000 * rank) for one in numbers]))
            if kind == "scatter":
                given = [value(numbers[root], step + 7 * one) for one in numbers] if me == root else None
                return np.array_equal(used.scatter(given, root), value(numbers[root], step + 7 * rank))
            if kind == "ring":
                used.send(value(rank, step), (me + 1) % len(numbers), step % 4)
                return np.array_equal(used.receive((me - 1) % len(numbers), step % 4), value(numbers[me - 1], step))
            length = 1 + (step * 997) % 40_000
            arrays = {one: np.arange(length) * (one + step) for one in numbers}
            total = sum(arrays.values())
            if kind == "allreduce":
                return np.array_equal(used.allreduce(arrays[rank]), total)
            if kind == "reduce":
                found = used.reduce(arrays[rank], "sum", root)
                return found is None or np.array_equal(found, total)
            return np.array_equal(used.reduce_scatter(arrays[rank]), np.array_split(total, len(numbers))[me])

        kinds = [
            "barrier",
            "broadcast",
            "allgather",
            "gather",
            "alltoall",
            "scatter",
            "ring",
            "allreduce",
            "reduce",
            "parts",
        ]
        wrong = []
        for step in range(40):
            kind, whole = shared.choice(kinds), shared.random() < 0.5
            if not (call(comm, list(range(size)), kind, step) if whole else call(group, members, kind, step)):
                wrong.append((step, kind, whole))
        return wrong

    assert ranks.run(program, seed) == [[]] * ranks.size
