"""A call that cannot be completed fails on all ranks, at once; it never hangs."""

from __future__ import annotations

import os
import signal
import threading
import time

import numpy as np
import pytest

from craton.comm.errors import CommunicatorClosed, RankFailed

#: The longest time that an error may take; far less is measured.
SOON = 10.0


def waiting(comm, kind):
    """Wait for all other ranks, in a call of a kind."""
    started = time.monotonic()
    try:
        if kind == "barrier":
            comm.barrier()
        elif kind == "large":
            comm.allreduce(np.ones(5_000_000))
        elif kind == "receive":
            comm.receive((comm.rank + 1) % comm.size)
        else:
            comm.send(np.ones(10_000_000), 2)
            comm.receive(2)
    except (RankFailed, CommunicatorClosed) as error:
        assert time.monotonic() - started < SOON
        with pytest.raises(CommunicatorClosed):
            comm.barrier()
        return type(error), getattr(error, "rank", None)
    return None, None


@pytest.mark.parametrize("kind", ["barrier", "large", "receive", "send"])
def test_a_rank_that_is_killed(fresh, kind):
    ranks = fresh(3)
    ranks.start(waiting, kind, only=[0, 1])
    # One that is in the middle of a large value as often as in no call at all.
    ranks.start(lambda comm: comm.allgather(np.ones(50_000_000)), only=[2] if kind == "large" else [])
    ranks.gang.kill(2)
    found = ranks.results([0, 1])
    assert found.count((RankFailed, 2)) >= 1, found
    assert all(one in ((RankFailed, 2), (CommunicatorClosed, None)) or one[0] is RankFailed for one in found), found


def test_a_rank_that_has_forked_is_killed(fresh):
    """A forked child holds copies of its parent's sockets; the end of the parent is noticed all the same."""

    def fork(comm):
        child = os.fork()
        if child == 0:
            found = 1
            try:
                comm.barrier()
            except CommunicatorClosed:
                found = 0
            while os.getppid() != 1 and found == 0:
                time.sleep(0.05)
            os._exit(found)
        return child

    ranks = fresh(2)
    ranks.start(fork, only=[1])
    ranks.results([1])
    ranks.start(waiting, "barrier", only=[0])
    ranks.gang.kill(1)
    assert ranks.results([0]) == [(RankFailed, 1)]


def test_a_rank_that_closes(fresh):
    ranks = fresh(3)
    ranks.start(lambda comm: comm.close(), only=[2])
    ranks.start(waiting, "barrier", only=[0, 1])
    ranks.results([2])
    found = ranks.results([0, 1])
    assert any(one == (RankFailed, 2) for one in found), found
    assert all(one[0] in (RankFailed, CommunicatorClosed) for one in found), found


def test_what_was_sent_arrives_after_the_sender_has_closed(fresh):
    def program(comm):
        if comm.rank == 0:
            for number in range(100):
                comm.send(np.full(1000, number), 1, number)
            comm.close()
            return None
        while comm.size == 2 and not getattr(comm, "waited", False):
            time.sleep(0.2)
            comm.waited = True
        found = [int(comm.receive(0, number)[0]) for number in reversed(range(100))]
        with pytest.raises(RankFailed, match="closed"):
            comm.receive(0, 0)
        return found

    assert fresh(2).run(program)[1] == list(reversed(range(100)))


def test_a_stopped_rank_is_waited_for_until_the_timeout(make, fresh):
    ranks = fresh(2)
    ranks.run(lambda comm: comm.barrier())

    def program(comm):
        started = time.monotonic()
        with pytest.raises((TimeoutError, RankFailed)):
            comm.allreduce(np.ones(100_000), timeout=0.5)
        with pytest.raises(CommunicatorClosed):
            comm.barrier()
        return time.monotonic() - started

    ranks.gang.kill(1, signal.SIGSTOP)
    ranks.start(program, only=[0])
    [took] = ranks.results([0])
    assert 0.4 < took < SOON
    ranks.gang.kill(1, signal.SIGCONT)
    # It makes the call that the other one has given up; it must not get a value of it.
    found = ranks.errors(lambda comm: comm.allreduce(np.ones(100_000)))
    assert all(isinstance(one, CommunicatorClosed | RankFailed) for one in found), found


def test_a_silent_rank_beyond_tcp_is_noticed(make):
    from gang import Gang

    gang = Gang(2, "plain")
    try:
        ranks = gang.ranks("tcp", 2)
        gang.kill(1, signal.SIGSTOP)
        ranks.start(waiting, "barrier", only=[0])
        assert ranks.results([0]) == [(RankFailed, 1)]
    finally:
        gang.end()


@pytest.mark.parametrize("name", ["own", "tcp", "mpi", "ucx"])
def test_timeouts(make, name):
    def program(comm):
        with pytest.raises(TimeoutError):
            comm.receive((comm.rank + 1) % comm.size, timeout=0.1)
        started = time.monotonic()
        with pytest.raises(CommunicatorClosed):
            comm.barrier()
        return time.monotonic() - started

    assert max(make(name, 3).run(program)) < SOON


@pytest.mark.parametrize("name", ["own", "tcp", "mpi", "ucx"])
def test_a_timeout_of_one_rank_ends_the_calls_of_the_others(make, name):
    def program(comm):
        timeout = 0.2 if comm.rank == 1 else None
        expected = TimeoutError if comm.rank == 1 else CommunicatorClosed
        with pytest.raises(expected):
            comm.receive((comm.rank + 1) % comm.size, timeout=timeout)
        return True

    assert all(make(name, 3).run(program))


@pytest.mark.parametrize("name", ["own", "tcp", "mpi", "ucx"])
def test_abort_in_another_thread(make, name):
    def program(comm):
        if comm.rank == 1:
            threading.Timer(0.1, comm.abort, ["no more of this"]).start()
        with pytest.raises(CommunicatorClosed, match="no more of this"):
            comm.receive((comm.rank + 1) % comm.size)
        with pytest.raises(CommunicatorClosed):
            comm.allreduce(1)
        return True

    assert all(make(name, 3).run(program))


@pytest.mark.parametrize("name", ["own", "tcp", "mpi", "ucx"])
def test_interrupts(make, name):
    def program(comm):
        if comm.rank == 0:
            threading.Timer(0.1, os.kill, [os.getpid(), signal.SIGINT]).start()
            started = time.monotonic()
            with pytest.raises(KeyboardInterrupt):
                comm.receive(1)
            return time.monotonic() - started
        with pytest.raises(CommunicatorClosed, match="interrupted"):
            comm.receive(0)
        return 0.0

    assert max(make(name, 2).run(program)) < SOON


@pytest.mark.parametrize("name", ["own", "tcp", "ucx"])
def test_two_threads(make, name):
    """A second thread gets an error, and the first one's call goes on."""

    def program(comm):
        if comm.rank == 0:
            return comm.receive(1)
        failures = []

        def second():
            try:
                comm.barrier()
            except ValueError as error:
                failures.append(str(error))

        thread = threading.Timer(0.2, second)
        thread.start()
        with pytest.raises(TimeoutError):
            comm.receive(0, timeout=1.0)
        thread.join()
        return failures

    found = make(name, 2).errors(program)
    assert isinstance(found[0], CommunicatorClosed)
    assert len(found[1]) == 1
    assert "one thread at a time" in found[1][0]
