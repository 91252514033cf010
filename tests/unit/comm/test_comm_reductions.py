"""Reductions of numbers and arrays: NumPy's results, the same bits on all ranks and in every run."""

from __future__ import annotations

from functools import reduce

import numpy as np
import pytest

from craton.comm.errors import CollectiveMismatch, CommunicatorClosed

DTYPES = ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16"]
UFUNCS = {
    "sum": np.add,
    "prod": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
}


def values(dtype: str, shape: tuple[int, ...], rank: int) -> np.ndarray:
    """Values that differ by rank, with the extremes of their type."""
    generator = np.random.default_rng([rank, len(dtype), *shape])
    kind = np.dtype(dtype).kind
    if kind == "b":
        return generator.random(shape) < 0.7
    if kind in "iu":
        limits = np.iinfo(dtype)
        return generator.integers(limits.min, limits.max, shape, dtype, endpoint=True)
    array = (generator.standard_normal(shape) * 3).astype(dtype)
    if kind == "c":
        array += 1j * generator.standard_normal(shape)
    elif array.size > 2:
        array.flat[rank % array.size] = np.nan
        array.flat[-1] = np.inf
    return array


def test_arrays_of_every_dtype_and_shape(ranks):
    def program(comm):
        checked = 0
        for dtype in DTYPES:
            for shape in ((), (0,), (5,), (3, 4), (2, 0, 3), (6000,)):
                for op, ufunc in UFUNCS.items():
                    if np.dtype(dtype).kind in "fc" and op in ("and", "or"):
                        continue
                    if np.dtype(dtype).kind == "c" and op in ("min", "max"):
                        continue
                    given = [values(dtype, shape, rank) for rank in range(comm.size)]
                    with np.errstate(all="ignore"):
                        expected = np.asarray(reduce(ufunc, given))
                        found = np.asarray(comm.allreduce(given[comm.rank], op))
                        root = checked % comm.size
                        reduced = comm.reduce(given[comm.rank], op, root)
                    assert found.dtype == expected.dtype
                    if np.dtype(dtype).kind == "c" and op == "prod":
                        # NumPy rounds the parts of a product differently on different processors.
                        np.testing.assert_allclose(found, expected, rtol=1e-5)
                    else:
                        np.testing.assert_array_equal(found, expected, err_msg=f"{dtype} {shape} {op}")
                    assert (reduced is None) == (comm.rank != root)
                    if reduced is not None:
                        np.testing.assert_array_equal(reduced, found)
                    checked += 1
        return checked

    found = ranks.run(program)
    assert min(found) > 300


def test_the_same_bits_everywhere(ranks):
    def program(comm):
        found = []
        for length in (1, 100, 2048, 2049, 5000, 100_003):
            array = values("f8", (length,), comm.rank)
            array[np.isnan(array)] = 0.1
            first, again = comm.allreduce(array), comm.allreduce(array)
            assert first.tobytes() == again.tobytes()
            found.append(first.tobytes())
        return found

    found = ranks.run(program)
    assert all(one == found[0] for one in found)


def test_own_communicators_give_the_same_bits_over_all_transports(make):
    def program(comm):
        array = np.random.default_rng(comm.rank).standard_normal(30_000)
        return [comm.allreduce(array[:length]).tobytes() for length in (1, 2000, 2100, 30_000)]

    assert make("own", 4).run(program) == make("tcp", 4).run(program)


def test_arrays_that_are_not_contiguous(ranks):
    def program(comm):
        base = np.arange(60_000.0).reshape(200, 300) + comm.rank
        total = sum(range(comm.size))
        for array in (base[::2, ::3], base.T, np.asfortranarray(base), base[5:5]):
            expected = (array - comm.rank) * comm.size + total
            np.testing.assert_array_equal(comm.allreduce(array), expected)
        return True

    assert all(ranks.run(program))


def test_parts(ranks):
    def program(comm):
        for shape in ((0,), (1,), (7,), (comm.size * 5, 3), (10_001, 2)):
            for dtype in ("i8", "f4", "f2"):
                array = (np.arange(np.prod(shape)) % 7).reshape(shape).astype(dtype) + np.dtype(dtype).type(comm.rank)
                expected = np.array_split(
                    reduce(np.add, [array + (other - comm.rank) for other in range(comm.size)]), comm.size
                )
                found = comm.reduce_scatter(array)
                assert found.dtype == array.dtype
                np.testing.assert_array_equal(found, expected[comm.rank].astype(dtype))
        with pytest.raises(TypeError, match="at least one dimension"):
            comm.reduce_scatter(np.array(1))
        return True

    assert all(ranks.run(program))


def test_numbers_of_python(ranks):
    def program(comm):
        rank, size = comm.rank, comm.size
        assert comm.allreduce(rank) == sum(range(size))
        assert comm.allreduce(1 << 62) == size << 62
        assert comm.allreduce((1 << 80) + rank, "max") == (1 << 80) + size - 1
        assert comm.allreduce(-rank, "min") == -(size - 1)
        assert comm.allreduce(0.1) == sum([0.1] * size)
        assert comm.allreduce(1j, "prod") == reduce(lambda left, right: left * right, [1j] * size)
        assert comm.allreduce(rank == 0, "or") is True
        assert comm.allreduce(rank == 0, "and") is (size == 1)
        assert comm.allreduce(6, "and") == 6
        for op in ("min", "max"):
            found = comm.allreduce(float("nan") if rank == size - 1 else 1.0, op)
            assert found != found
        assert type(comm.allreduce(np.float32(1))) is np.float32
        reduced = comm.reduce(rank, "max", size - 1)
        assert reduced == (size - 1 if rank == size - 1 else None)
        return True

    assert all(ranks.run(program))


def test_what_cannot_be_reduced(ranks):
    def program(comm):
        for value, op in (("text", "sum"), ([1], "sum"), (None, "max"), (np.array(["a"], object), "sum")):
            with pytest.raises(TypeError):
                comm.allreduce(value, op)
        with pytest.raises(ValueError, match="op must be one of"):
            comm.allreduce(1, "mean")
        for op in ("and", "or"):
            with pytest.raises(TypeError):
                comm.allreduce(np.ones(3), op)
            with pytest.raises(TypeError):
                comm.allreduce(1.0, op)
        return comm.allreduce(1)

    assert ranks.run(program) == [ranks.size] * ranks.size


@pytest.mark.parametrize("name", ["own", "tcp", "mpi", "ucx"])
@pytest.mark.parametrize(
    "program",
    [
        pytest.param(lambda comm: comm.allreduce(np.zeros(10 + comm.rank)), id="lengths"),
        pytest.param(lambda comm: comm.allreduce(np.zeros((2, 3) if comm.rank else (3, 2))), id="shapes"),
        pytest.param(lambda comm: comm.allreduce(np.zeros(3, "i8" if comm.rank else "f8")), id="dtypes"),
        pytest.param(lambda comm: comm.allreduce(np.zeros(3, "f2" if comm.rank else "f8")), id="kinds of dtypes"),
        pytest.param(lambda comm: comm.allreduce(1 if comm.rank else 1.0), id="types of numbers"),
        pytest.param(lambda comm: comm.allreduce(1 if comm.rank else np.zeros(1)), id="a number and an array"),
        pytest.param(lambda comm: comm.allreduce(np.ones(3), "max" if comm.rank else "min"), id="reductions"),
        pytest.param(lambda comm: comm.allreduce(1, "max" if comm.rank else "min"), id="reductions of numbers"),
        pytest.param(lambda comm: comm.reduce(np.ones(3), "sum", comm.rank), id="roots"),
        pytest.param(lambda comm: comm.broadcast(1, comm.rank), id="roots of a broadcast"),
        pytest.param(lambda comm: comm.barrier() if comm.rank else comm.allgather(1), id="collectives"),
        pytest.param(
            lambda comm: comm.gather(1, 0) if comm.rank else comm.alltoall([1] * comm.size), id="other collectives"
        ),
    ],
)
def test_calls_that_do_not_agree(make, name, program):
    def then_barrier(comm):
        program(comm)
        # A rank that only sends may return; the next call notices it.
        comm.barrier()

    found = make(name, 3).errors(then_barrier)
    assert any(isinstance(one, CollectiveMismatch) for one in found), found
    assert all(isinstance(one, CollectiveMismatch | CommunicatorClosed) for one in found), found
