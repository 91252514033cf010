"""Pools: starting, addresses, options, and recovery."""

from __future__ import annotations

import asyncio
import gc
import logging
import socket
import sys
from pathlib import Path
from typing import Any

import pytest

import craton.actor as xo
from craton.actor.allocate_strategy import IdleLabel, RandomSubPool
from craton.actor.pools import local_pool
from craton.actor.wire import addresses

sys.path.insert(0, str(Path(__file__).parent))

from actors import Worker, descriptors, free_port, of, runs, until


def pids(pool: Any) -> list[int]:
    return [process.pid for process in pool.sub_processes.values()]


# ---- recovery ----


@pytest.mark.parametrize("how", ["actor", pytest.param("process", marks=pytest.mark.slow), False])
def test_recovery(how: str | bool) -> None:
    events: list[tuple[str, str]] = []

    def down(pool: Any, address: str) -> None:
        events.append(("down", address))
        raise ValueError("this is logged")

    async def back(pool: Any, address: str) -> None:
        await asyncio.sleep(0)
        events.append(("back", address))
        raise ValueError("so is this")

    async def main() -> None:
        pool = await xo.create_actor_pool(
            "127.0.0.1", n_process=2, auto_recover=how, on_process_down=down, on_process_recover=back
        )
        async with pool:
            main = pool.external_address
            ref = await xo.create_actor(Worker, 5, address=main, uid="w", allocate_strategy=of(1))
            other = await xo.create_actor(Worker, 5, address=main, allocate_strategy=of(2))
            neighbour = await xo.create_actor(Worker, ref, address=ref.address)
            await ref.add(1)
            pid = await ref.pid()
            await xo.kill_actor(ref)
            assert not runs(pid)
            if how is False:
                with pytest.raises(xo.ServerClosed, match="SIGKILL"):
                    await xo.wait_actor_pool_recovered(ref.address, main)
                with pytest.raises(xo.ServerClosed, match=rf"pid {pid}.*SIGKILL"):
                    await ref.add(1)
                assert not await xo.has_actor(xo.create_actor_ref("w", address=main))
                for _ in range(8):  # nothing is placed in the pool that was lost
                    made = await xo.create_actor(Worker, address=main, allocate_strategy=RandomSubPool())
                    assert made.address == other.address
                await pool.remove_sub_pool(ref.address)
                assert pool.config.get_external_addresses() == [main, other.address]
            else:
                await xo.wait_actor_pool_recovered(ref.address, main)
                assert await xo.has_actor(ref) is (how == "actor")
                assert await xo.has_actor(neighbour) is (how == "actor")
                if how == "actor":
                    assert await ref.add(1) == 6  # recreated with its original arguments
                else:
                    await xo.create_actor(Worker, 1, address=ref.address, uid="w")
                    assert await ref.add(1) == 2
                assert await ref.pid() != pid
                # It dies again, by exiting this time, and calls made meanwhile are answered after recovery.
                with pytest.raises(xo.ServerClosed, match="code 7"):
                    await ref.exit(7)
                made = await xo.create_actor(Worker, 9, address=main, allocate_strategy=of(1))
                assert await made.add(1) == 10
                await until(lambda: len(events) == 4)
            assert await other.add(1) == 6
            await until(lambda: events)
            assert set(events) == {("down", ref.address)} | ({("back", ref.address)} if how else set())

    asyncio.run(main())


def test_callbacks_that_fail_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def down(pool: Any, address: str) -> None:
        raise ValueError("of the callback")

    async def main() -> None:
        async with await xo.create_actor_pool("127.0.0.1", n_process=1, on_process_down=down) as pool:
            (address,) = pool.sub_processes
            pool.sub_processes[address].kill()
            await xo.wait_actor_pool_recovered(address, pool.external_address)
            await until(lambda: "of the callback" in caplog.text)

    with caplog.at_level(logging.ERROR, "craton.actor"):
        asyncio.run(main())


def test_placement_in_recovered_pools() -> None:
    async def main() -> None:
        pool = await xo.create_actor_pool("127.0.0.1", n_process=2, labels=["main", "a", "a"])
        async with pool:
            main, idle = pool.external_address, IdleLabel("a", "mark")
            refs = [await xo.create_actor(Worker, address=main, allocate_strategy=idle) for _ in range(2)]
            assert len({ref.address for ref in refs}) == 2
            await xo.kill_actor(refs[0])
            with pytest.raises(xo.NoIdleSlot):
                await xo.create_actor(Worker, address=main, allocate_strategy=idle)
            await xo.wait_actor_pool_recovered(refs[0].address, main)
            await xo.destroy_actor(refs[0])
            # Created from a sub pool.
            again = await xo.create_actor(Worker, address=refs[1].address, allocate_strategy=idle)
            assert again.address == refs[0].address

    asyncio.run(main())


# ---- adding and removing pools ----


def test_append_and_remove(tmp_path: Path) -> None:
    (tmp_path / "a_module_of_ours.py").write_text("ANSWER = 42\n")
    wrapper = tmp_path / "python"
    wrapper.write_text(f'#!/bin/sh\nexport WRAPPED=1\n{sys.executable} "$@"\n')
    wrapper.chmod(0o755)
    port = free_port()

    async def main() -> None:
        sys.path.append(str(tmp_path))
        pool = await xo.create_actor_pool("127.0.0.1", n_process=0)
        async with pool:
            main = pool.external_address
            first = await pool.append_sub_pool(
                label="x", env={"OURS": "1"}, modules=["a_module_of_ours"], start_python=str(wrapper)
            )
            second = await pool.append_sub_pool(external_address=f"127.0.0.1:{port}")
            assert second == f"127.0.0.1:{port}"
            ref = await xo.create_actor(Worker, address=main, allocate_strategy=xo.allocate_strategy.RandomLabel("x"))
            assert ref.address == first
            assert await ref.env("OURS") == await ref.env("WRAPPED") == "1"
            assert await ref.loaded("a_module_of_ours")
            other = await xo.create_actor(Worker, address=second)
            assert await other.env("OURS") is None
            assert (await xo.get_pool_config(second)).get_external_addresses() == [main, first, second]
            pid, wrapped = await ref.pid(), pool.sub_processes[first].pid
            await pool.remove_sub_pool(first)
            await until(lambda: not runs(pid) and not runs(wrapped))
            assert (await xo.get_pool_config(second)).get_external_addresses() == [main, second]
            with pytest.raises(ConnectionError):
                await ref.pid()
            with pytest.raises(ValueError, match="no pool of this group"):
                await pool.remove_sub_pool(first)
            with pytest.raises(ValueError, match="stop it"):
                await pool.remove_sub_pool(main)
            await pool.remove_sub_pool(second, force=True)
            assert await pool.append_sub_pool(external_address=second) == second  # the port is free again

    try:
        asyncio.run(main())
    finally:
        sys.path.remove(str(tmp_path))


def test_sub_pools_that_cannot_start(tmp_path: Path) -> None:
    async def main() -> None:
        before = descriptors()
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            address = f"127.0.0.1:{taken.getsockname()[1]}"
            with pytest.raises(OSError, match=rf"{address} cannot listen.*in use"):
                await xo.create_actor_pool(
                    "127.0.0.1", n_process=2, ports=[free_port(), free_port(), taken.getsockname()[1]]
                )
            with pytest.raises(OSError, match="in use"):
                await xo.create_actor_pool(address, n_process=0)
            with pytest.raises(RuntimeError, match=r"(?s)No module named 'no_such_module'.*Traceback"):
                await xo.create_actor_pool("127.0.0.1", n_process=2, modules=["no_such_module"])
            with pytest.raises(FileNotFoundError, match="no_python"):
                await xo.create_actor_pool("127.0.0.1", n_process=2, start_python=str(tmp_path / "no_python"))
            script = tmp_path / "python"
            script.write_text("#!/bin/sh\necho what it said >&2\nexit 3\n")
            script.chmod(0o755)
            with pytest.raises(RuntimeError, match=r"(?s)exited with code 3.*what it said"):
                await xo.create_actor_pool("127.0.0.1", n_process=1, start_python=str(script))
            async with await xo.create_actor_pool("127.0.0.1", n_process=1) as pool:
                with pytest.raises(OSError, match="in use"):
                    await pool.append_sub_pool(external_address=address)
                assert len(pool.config.pools) == 2
                await pool.append_sub_pool()
            with pytest.raises(xo.ActorError, match="has stopped"):
                await pool.append_sub_pool()
        gc.collect()
        await until(lambda: descriptors() <= before + 2, f"{descriptors()} {before}")

    asyncio.run(main())


# ---- addresses ----


@pytest.mark.parametrize("host", ["[::1]", "127.0.0.1", "localhost"])
def test_hosts(host: str) -> None:
    async def main() -> None:
        async with await xo.create_actor_pool(host, n_process=1) as pool:
            assert pool.external_address.startswith(f"{host}:")
            ref = await xo.create_actor(Worker, address=pool.external_address, allocate_strategy=of(1))
            assert ref.address.startswith(f"{host}:")
            assert await ref.add(1) == 1
            assert await pool.append_sub_pool() != ref.address

    asyncio.run(main())


@pytest.mark.parametrize(
    ("by", "advertised", "everywhere"),
    [
        ("listen", "127.0.0.1", "0.0.0.0"),
        ("extra_conf", "[::1]", "::"),
        ("address", "127.0.0.1", "0.0.0.0"),
        ("address", "[::1]", "::"),
    ],
)
def test_wildcard_hosts(by: str, advertised: str, everywhere: str) -> None:
    family = socket.AF_INET6 if "::" in everywhere else socket.AF_INET

    async def main() -> None:
        options: dict[str, Any] = {"listen": everywhere} if by == "listen" else {}
        if by == "extra_conf":
            options = {"extra_conf": {"listen_elastic_ip": True}}
        port = free_port(family)
        given = f"[{everywhere}]" if by == "address" and ":" in everywhere else everywhere
        address = f"{given if by == 'address' else advertised}:{port}"
        async with await xo.create_actor_pool(address, n_process=1, **options) as pool:
            assert pool.external_address == address
            through = f"{advertised}:{port}"
            ref = await xo.create_actor(Worker, address=through, allocate_strategy=of(1), uid="w")
            assert ref.address.startswith(f"{advertised}:")
            assert await ref.add(1) == 1
            assert (await xo.actor_ref("w", address=through)).address == ref.address
            # Through another address of this machine, over TCP.
            host = "::1" if family == socket.AF_INET6 else "127.0.0.2"
            reader, writer = await asyncio.open_connection(host, port)
            assert await reader.readexactly(4) == b"CrAc"
            writer.close()
            with pytest.raises(xo.ServerClosed, match=r"exited with code 5"):
                await ref.exit(5)

    asyncio.run(main())


class Locator(xo.Actor):
    """An actor that returns its address, and passes references to itself on."""

    def where(self) -> str:
        return str(self.address)

    def me(self) -> Any:
        return self.ref()

    @xo.generator
    async def numbers(self) -> Any:
        for number in range(3):
            yield number


@pytest.mark.parametrize(("given", "everywhere"), [("127.0.0.1", "0.0.0.0"), ("0.0.0.0", None), ("[::]", None)])
@pytest.mark.parametrize("tcp", [False, True])
def test_actors_know_the_advertised_address(
    given: str, everywhere: str | None, tcp: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with await xo.create_actor_pool(given, n_process=1, listen=everywhere) as pool:
            if tcp:
                monkeypatch.setattr(addresses, "local_name", lambda _address: "\0nobody is here")
            for index, address in enumerate(pool.config.get_external_addresses()):
                ref = await xo.create_actor(Locator, address=address)
                advertised = await ref.where()
                host, port = addresses.split(advertised)
                assert port == addresses.split(address)[1]
                assert host not in addresses.EVERYWHERE
                assert everywhere is None or advertised == address
                again = await ref.me()
                assert again.address == advertised
                # As if it had been received from another machine.
                assert await xo.has_actor(xo.create_actor_ref(ref.uid, address=advertised))
                assert [number async for number in await again.numbers()] == [0, 1, 2]
                assert (local_pool(advertised) is pool) == (index == 0)

    asyncio.run(main())


def test_advertised_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    assert addresses.advertised("node7:7103") == "node7:7103"
    assert addresses.advertised("test://127.0.0.1:1") == "test://127.0.0.1:1"

    class Unreachable(socket.socket):
        def connect(self, _address: Any) -> None:
            raise OSError("no route")

    monkeypatch.setattr(addresses.socket, "socket", Unreachable)
    assert addresses.advertised("0.0.0.0:5") == "127.0.0.1:5"
    assert addresses.advertised("[::]:5") == "[::1]:5"


# ---- options ----


def test_unknown_options() -> None:
    async def main() -> None:
        with pytest.raises(
            TypeError, match=r"create_actor_pool\(\) has no option 'n_proces': did you mean 'n_process'\?"
        ):
            await xo.create_actor_pool("127.0.0.1", n_proces=1)
        with pytest.raises(TypeError, match=r"has no option 'xyzzy'$"):
            await xo.create_actor_pool("127.0.0.1", xyzzy=1)
        ignored = {"pool_cls": None, "proxy_conf": {}, "metrics": {}, "subprocess_start_method": "spawn"}
        async with await xo.create_actor_pool("127.0.0.1", n_process=0, suspend_sigint=True, **ignored) as pool:
            with pytest.raises(TypeError, match="labels"):
                await pool.append_sub_pool(labels=["x"])  # type: ignore[call-arg]
            assert len(pool.config.pools) == 1

    asyncio.run(main())


# ---- several groups, loops and threads ----


def test_two_groups_in_one_process() -> None:
    async def main() -> None:
        async with (
            await xo.create_actor_pool("127.0.0.1", n_process=1) as one,
            await xo.create_actor_pool("127.0.0.1", n_process=1) as two,
        ):
            refs = [
                await xo.create_actor(Worker, address=pool.external_address, allocate_strategy=of(index), uid="same")
                for pool in (one, two)
                for index in (1,)
            ]
            assert refs[0] != refs[1]
            await one.stop()
            with pytest.raises(ConnectionError):
                await refs[0].add(1)
            assert await refs[1].add(1) == 1

    asyncio.run(main())


def test_one_pool_from_many_threads() -> None:
    async def main() -> None:
        async with await xo.create_actor_pool("127.0.0.1", n_process=1) as pool:
            main = pool.external_address
            refs = [await xo.create_actor(Worker, address=main, allocate_strategy=of(index)) for index in range(2)]

            async def elsewhere() -> None:
                for _ in range(50):
                    await asyncio.gather(*[ref.add(1) for ref in refs])
                made = await xo.create_actor(Worker, address=main, allocate_strategy=of(1))
                assert await made.ask(refs[0], "echo", 3) == 3

            await asyncio.gather(*[asyncio.to_thread(asyncio.run, elsewhere()) for _ in range(3)])
            assert [await ref.add(0) for ref in refs] == [150, 150]
            # The threads have ended; the sub processes still run.
            await pool.append_sub_pool()
            assert all(process.is_alive() for process in pool.sub_processes.values())

    asyncio.run(main())
