"""Copying into buffers and files of other processes."""

from __future__ import annotations

import asyncio
import io
import pickle
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import craton.actor as xo
from craton.actor import transfer
from craton.actor.aio import AioFileObject
from craton.actor.allocate_strategy import MainPool, ProcessIndex
from craton.actor.transfer import BlockSizeError, BufferRef, FileObjectRef


class Holder(xo.StatelessActor):
    def __init__(self) -> None:
        self.buffers: list[Any] = []
        self.files: list[Any] = []

    def make(self, sizes: list[int]) -> list[BufferRef]:
        self.buffers = [np.zeros(size, "u1") for size in sizes]
        return [xo.buffer_ref(self.address, buffer) for buffer in self.buffers]

    def contents(self, refs: list[BufferRef]) -> list[bytes]:
        return [BufferRef.get_buffer(ref).tobytes() for ref in refs]

    def release(self) -> None:
        self.buffers.clear()

    async def fill(self, ref: Any, sizes: list[int], block: int | None) -> bool:
        refs = await ref.make(sizes)
        data = [np.random.default_rng(size).integers(0, 255, size, "u1") for size in sizes]
        await xo.copy_to(data, refs, block_size=block)
        return await ref.contents(refs) == [array.tobytes() for array in data]

    def open(self, paths: list[str], buffering: int = -1) -> list[FileObjectRef]:
        self.files = [AioFileObject(open(path, "w+b", buffering)) for path in paths]  # noqa: SIM115
        return [xo.file_object_ref(self.address, file) for file in self.files]

    async def close(self) -> list[int]:
        ends = [await file.tell() for file in self.files]
        for file in self.files:
            await file.close()
        return ends

    def echo(self, value: Any) -> Any:
        return value


def run(work: Callable[[Any, Any], Awaitable[Any]], n_process: int = 1) -> Any:
    async def main() -> Any:
        async with await xo.create_actor_pool("127.0.0.1", n_process=n_process) as pool:
            here = await xo.create_actor(Holder, address=pool.external_address)
            there = await xo.create_actor(
                Holder,
                address=pool.external_address,
                allocate_strategy=ProcessIndex(n_process) if n_process else MainPool(),
            )
            return await asyncio.wait_for(work(here, there), 30)

    return asyncio.run(main())


SIZES = [3_000_000, 0, 1, 70_000, 300_000, 5, *[100] * 600]


def test_buffers_between_processes_and_groups() -> None:
    async def work(here: Any, there: Any) -> None:
        async with await xo.create_actor_pool("127.0.0.1", n_process=0) as other:
            far = await xo.create_actor(Holder, address=other.external_address)
            for ref in (here, there, far):
                assert await here.fill(ref, SIZES, None)
                assert await there.fill(ref, SIZES, 100_000)
                assert await there.fill(ref, [5, 7], 1)
            refs = [await ref.make([10, 2_000_000]) for ref in (there, far)]
            data = [np.arange(10, dtype="u1"), b"x" * 2_000_000]
            await xo.copy_to([*data, *data], [*refs[0], *refs[1]])  # to several pools in one call
            for ref, places in zip((there, far), refs, strict=True):
                assert await ref.contents(places) == [bytes(range(10)), data[1]]

    run(work)


def test_tcp(monkeypatch: pytest.MonkeyPatch) -> None:
    from craton.actor.wire import addresses

    async def work(here: Any, there: Any) -> None:
        monkeypatch.setattr(addresses, "local_name", lambda _address: "\0nobody is here")
        (ref,) = await there.make([30_000_000])
        data = np.random.default_rng(0).integers(0, 255, 30_000_000, "u1")
        await asyncio.gather(xo.copy_to([data], [ref]), *[there.echo(i) for i in range(20)])
        assert await there.contents([ref]) == [data.tobytes()]

    run(work)


@pytest.mark.parametrize("n_process", [0, 1])
def test_copy_errors(n_process: int) -> None:
    async def work(here: Any, there: Any) -> None:
        refs = await there.make([10, 20])
        with pytest.raises(ValueError, match="nothing to copy"):
            await xo.copy_to([], [])
        with pytest.raises(ValueError, match="1 sources cannot be copied to 2 targets"):
            await xo.copy_to([b"x"], refs)
        for wrong in (0, -1):
            with pytest.raises(BlockSizeError, match="1 byte or more"):
                await xo.copy_to([b"x"], refs[:1], block_size=wrong)
        assert issubclass(BlockSizeError, ValueError)
        assert issubclass(BlockSizeError, AssertionError)
        with pytest.raises(ValueError, match="11 bytes do not fit the 10 bytes"):
            await xo.copy_to([b"x" * 11], refs[:1])
        with pytest.raises(TypeError):
            await xo.copy_to([io.BytesIO()], refs[:1])
        with pytest.raises(ValueError, match="C-contiguous"):
            await xo.copy_to([np.zeros((4, 4))[:, 1]], refs[:1])
        # The connection still works, and a shorter source changes only the beginning of its target.
        await xo.copy_to([b"abc", b"de"], refs)
        assert await there.contents(refs) == [b"abc" + bytes(7), b"de" + bytes(18)]
        await there.release()
        with pytest.raises(xo.ActorError, match="refers to nothing"):
            await xo.copy_to([b"abc"], refs[:1])
        assert await there.echo(1) == 1

    run(work, n_process)


def test_references() -> None:
    buffer = memoryview(bytearray(3))
    ref = xo.buffer_ref("127.0.0.1:1", buffer)
    assert pickle.loads(pickle.dumps(ref)) == ref
    assert len({ref, pickle.loads(pickle.dumps(ref))}) == 1
    assert BufferRef.get_buffer(ref) is buffer
    with pytest.raises(ValueError, match="read-only"):
        xo.buffer_ref("127.0.0.1:1", b"x")
    with pytest.raises(TypeError, match="memoryview"):
        xo.buffer_ref("127.0.0.1:1", bytearray(1))
    with pytest.raises(TypeError):
        xo.buffer_ref("127.0.0.1:1", 1)


@pytest.mark.parametrize("n_process", [0, 1])
def test_files(n_process: int, tmp_path: Path) -> None:
    sizes = [3_000_000, 0, 10, 1_000_000]

    async def work(here: Any, there: Any) -> None:
        rng = np.random.default_rng(0)
        texts = [rng.bytes(size) for size in sizes]
        for buffering in (-1, 0):
            paths = [tmp_path / str(i) for i in range(len(sizes))]
            refs = await there.open([str(path) for path in paths], buffering)
            for part in ("first", "second"):  # the second is appended to the first
                files = [AioFileObject(io.BytesIO(part.encode() + text)) for text in texts]
                await xo.copy_to(files, refs, block_size=300_000)
            assert await there.close() == [path.stat().st_size for path in paths]
            assert [path.read_bytes() for path in paths] == [b"first" + text + b"second" + text for text in texts]
        with pytest.raises(ValueError, match="closed file"):
            await xo.copy_to([AioFileObject(io.BytesIO(b"x"))], refs[:1])

    run(work, n_process)


def test_async_files(tmp_path: Path) -> None:
    async def main() -> None:
        async with AioFileObject(open(tmp_path / "a", "w+b")) as file:
            assert await file.write(b"one\ntwo\n") == 8
            await file.seek(0)
            assert [line async for line in file] == [b"one\n", b"two\n"]
            assert file.name == str(tmp_path / "a")
            assert not file.closed
        assert file.closed

    asyncio.run(main())


def test_another_carrier(monkeypatch: pytest.MonkeyPatch) -> None:
    carried = []

    class Fabric:
        def reaches(self, address: str) -> bool:
            return True

        async def copy(self, address: str, pairs: Any, block: int) -> None:
            carried.extend(pairs)

    monkeypatch.setattr(transfer, "CARRIERS", [Fabric(), *transfer.CARRIERS])
    ref = BufferRef("127.0.0.1:1", b"x")
    asyncio.run(xo.copy_to([b"abc"], [ref]))
    assert carried == [(memoryview(b"abc"), ref)]
