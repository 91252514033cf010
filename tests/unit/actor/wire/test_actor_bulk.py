"""Large values by UCX: what TCP's tests demand, that it is used, and what happens when something ends."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import craton.actor as xo
import craton.comm
from craton.actor.wire import addresses, bulk, frames
from craton.actor.wire.peers import Peers
from craton.comm import ucx_library

sys.path.insert(0, str(Path(__file__).parents[1]))

from actors import Worker, until
from test_actor_transfer import Holder

from tests.unit.actor.wire.test_actor_tls import Files

HERE = Path(__file__).parents[1]
CONTRACT = ["calls", "errors", "streams", "transfer", "turns"]
needs_ucx = pytest.mark.skipif("ucx" not in craton.comm.available(), reason="UCX is not installed")
UCX = ["ucx", "ucx"]


@pytest.fixture(autouse=True)
def _only_tcp(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(addresses, "local_name", lambda _address: "\0nobody is here")
    monkeypatch.setattr(addresses, "listen_unix", lambda _address: None)
    yield
    assert not bulk.enabled()


@pytest.mark.parametrize("transport", ["tcp", pytest.param("ucx", marks=needs_ucx)])
def test_the_contract(transport: str) -> None:
    """The tests of calls between processes, by connections as they are between machines."""
    files = [str(HERE / f"test_actor_{name}.py") for name in CONTRACT]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "between_machines", "-p", "no:cacheprovider", *files]
    ran = subprocess.run(
        command,
        env={
            **os.environ,
            bulk.VARIABLE: transport,
            "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path]),
        },
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert ran.returncode == 0, ran.stdout[-5000:] + ran.stderr[-2000:]
    assert int(re.findall(r"(\d+) passed", ran.stdout)[-1]) > 50


def run(work: Callable[[Any, Any], Awaitable[Any]], **options: Any) -> None:
    """Run ``work`` with an actor of another process, and with the link to it, over which UCX is in use."""

    async def main() -> None:
        options.setdefault("external_address_schemes", UCX)
        async with await xo.create_actor_pool("127.0.0.1", n_process=1, auto_recover=False, **options) as pool:
            address = pool.config.get_external_addresses()[1]
            Peers.here().close({address})
            await until(lambda: Peers.here().known(address) is None)
            ref = await xo.create_actor(Worker, address=address)
            peer = Peers.here().known(address)
            assert peer is not None
            link = peer.link
            if link.bulk is not None:
                await until(lambda: link.bulk._peer is not None)
            await work(ref, link)

    asyncio.run(main())


@needs_ucx
def test_large_parts_go_by_ucx_and_small_ones_do_not() -> None:
    async def work(ref: Any, link: Any) -> None:
        sent = link.bulk.sent
        for size in (0, 1, frames.BULK - 1, frames.BULK, frames.BULK + 1, 3_000_000):
            data = np.random.default_rng(size).integers(0, 255, size, "u1")
            assert np.array_equal(await ref.echo(data), data)
            expected = size if size >= frames.BULK else 0
            assert link.bulk.sent - sent == expected
            sent = link.bulk.sent
        before = link.sent
        values = [
            (number, np.full(100_000 + number, number, "u1"), "x" * number, b"y" * 70_000) for number in range(40)
        ]
        answers = await asyncio.gather(*[ref.echo(value) for value in values])
        assert all(
            given[0] == got[0] and np.array_equal(given[1], got[1]) and given[2:] == got[2:]
            for given, got in zip(values, answers, strict=True)
        )
        assert link.sent - before > 40 * 170_000  # what was sent by another way is counted
        assert link._bytes == 0

    run(work)


@needs_ucx
def test_calls_stay_in_order_around_large_ones() -> None:
    async def work(ref: Any, link: Any) -> None:
        calls = []
        for number in range(60):
            calls.append(ref.add(1))
            if number % 3 == 0:
                calls.append(ref.echo(np.full(200_000, number % 250, "u1")))
        answers = await asyncio.gather(*calls)
        assert [answer for answer in answers if isinstance(answer, int)] == list(range(1, 61))

    run(work)


@needs_ucx
@pytest.mark.parametrize("signal", ["kill", "exit"])
def test_the_other_process_ends_in_a_transfer(signal: str) -> None:
    async def work(ref: Any, link: Any) -> None:
        pid = await ref.pid()
        data = np.zeros(300_000_000, "u1")
        calls = [asyncio.ensure_future(ref.echo(data)) for _ in range(4)]
        await asyncio.sleep(0.05)
        if signal == "kill":
            os.kill(pid, 9)
        else:
            calls.append(asyncio.ensure_future(ref.exit(3)))
        done = await asyncio.wait_for(asyncio.gather(*calls, return_exceptions=True), 20)
        assert any(isinstance(one, xo.ServerClosed) for one in done)
        assert all(isinstance(one, (xo.ServerClosed, np.ndarray)) for one in done)

    run(work)


@needs_ucx
def test_a_link_is_closed_in_a_transfer_and_the_next_works() -> None:
    async def work(ref: Any, link: Any) -> None:
        data = np.random.default_rng(0).integers(0, 255, 50_000_000, "u1")
        for _ in range(5):
            call = asyncio.ensure_future(ref.echo(data))
            await asyncio.sleep(0.01)
            address = ref.address
            Peers.here().close({address})
            with pytest.raises(xo.ServerClosed):
                await call
            assert await ref.add(1) > 0
            await until(lambda address=address: Peers.here().known(address).link.bulk._peer is not None)
            assert np.array_equal(await ref.echo(data[:1_000_000]), data[:1_000_000])

    run(work)


@needs_ucx
def test_a_cancelled_call_does_not_disturb_the_next() -> None:
    async def work(ref: Any, link: Any) -> None:
        for number in range(20):
            call = asyncio.ensure_future(ref.echo(np.full(3_000_000, number, "u1")))
            await asyncio.sleep(0.0005 * number)
            call.cancel()
            await asyncio.wait([call])
            data = np.full(100_000, 255 - number, "u1")
            assert np.array_equal(await ref.echo(data), data)

    run(work)


@needs_ucx
def test_event_loops_of_several_threads() -> None:
    async def work(ref: Any, link: Any) -> None:
        async def talk(number: int) -> None:
            there = await xo.actor_ref(ref.uid, address=ref.address)
            for round in range(10):
                data = np.full(100_000 + round, number, "u1")
                assert np.array_equal(await there.echo(data), data)

        failed: list[BaseException] = []

        def thread(number: int) -> None:
            try:
                asyncio.run(talk(number))
            except BaseException as error:
                failed.append(error)

        threads = [threading.Thread(target=thread, args=(number,)) for number in range(3)]
        for one in threads:
            one.start()
        while any(one.is_alive() for one in threads):
            await asyncio.sleep(0.01)
        assert not failed

    run(work)


@needs_ucx
def test_direct_placement() -> None:
    async def main() -> None:
        async with await xo.create_actor_pool("127.0.0.1", n_process=1, external_address_schemes=UCX) as pool:
            address = pool.config.get_external_addresses()[1]
            Peers.here().close({address})
            await until(lambda: Peers.here().known(address) is None)
            holder = await xo.create_actor(Holder, address=address)
            here = await xo.create_actor(Holder, address=pool.external_address)
            peer = Peers.here().known(address)
            link: Any = None if peer is None else peer.link
            await until(lambda: link.bulk._peer is not None)
            for sizes, block in [([10, 5_000_000, 70_000], None), ([3_000_000, 1], 100_000), ([65536], 65536)]:
                assert await here.fill(holder, sizes, block)
            assert link.bulk.sent > 8_000_000

    asyncio.run(main())


@needs_ucx
def test_connections_with_tls_do_not_use_it(tmp_path: Path) -> None:
    async def work(ref: Any, link: Any) -> None:
        assert (link.encrypted, link.bulk) == (True, None)
        assert len(await ref.echo(b"x" * 1_000_000)) == 1_000_000

    run(work, tls=Files(tmp_path).tls("one"))


@needs_ucx
def test_a_process_that_has_another_ucx_already(tmp_path: Path) -> None:
    """MPI comes with its own, for instance, whose parts have the same names."""
    file = ucx_library.find_library()
    assert file is not None
    for part in ("ucm", "ucs", "uct", "ucp"):
        shutil.copy(Path(file).parent / f"lib{part}.so.0", tmp_path)
    program = f"""
import ctypes
ctypes.CDLL({str(tmp_path / "libucs.so.0")!r})
from craton.comm import ucx_library
assert ucx_library._present() == {str(tmp_path / "libucp.so.0")!r}
ucx_library.worker()
assert {str(tmp_path)!r} in open("/proc/self/maps").read()
assert {file!r} not in open("/proc/self/maps").read()
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_it_was_not_chosen() -> None:
    async def work(ref: Any, link: Any) -> None:
        assert link.bulk is None

    run(work, external_address_schemes=[None, "tcp"])


def test_wrong_choices(monkeypatch: pytest.MonkeyPatch) -> None:
    async def start(**options: Any) -> None:
        await xo.create_actor_pool("127.0.0.1", n_process=0, **options)

    known = craton.comm._IMPLEMENTATIONS
    monkeypatch.setitem(known, "ucx", known["ucx"]._replace(installed=lambda: False))
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'craton\[ucx\]'"):
        asyncio.run(start(external_address_schemes=["ucx"]))
    with pytest.raises(ValueError, match="2 values"):
        asyncio.run(start(external_address_schemes=UCX))
    monkeypatch.setenv(bulk.VARIABLE, "pigeons")
    with pytest.raises(ValueError, match="must be one of tcp, ucx, not 'pigeons'"):
        asyncio.run(start())
    monkeypatch.delenv(bulk.VARIABLE)
