"""Callers get errors that name the true cause of a failure, and get them quickly."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import craton.actor as xo
from craton.actor.wire.peers import Peers

sys.path.insert(0, str(Path(__file__).parent))

from actors import Worker, of, program, runs, until

#: Seconds within which a caller must get the error after the called process has ended.
NOTICE_TIME = 1.0

_GROUP = """
import asyncio, sys
import craton.actor as xo
from actors import Worker, of

async def main():
    pool = await xo.create_actor_pool({address!r}, n_process=1, auto_recover=False)
    refs = [await xo.create_actor(Worker, address=pool.external_address, allocate_strategy=of(i)) for i in range(2)]
    print(pool.external_address, *[part for ref in refs for part in (ref.address, ref.uid.decode())], flush=True)
    await pool.join()

asyncio.run(main())
"""


class Group:
    """A group of pools whose main pool runs in another process."""

    def __init__(self, address: str = "127.0.0.1", **options: Any) -> None:
        self.process = program(_GROUP.format(address=address), **options)
        assert self.process.stdout is not None
        said = self.process.stdout.readline().split()
        assert said, self.process.communicate()[1]
        self.address = said[0]
        self.main = xo.create_actor_ref(said[2], address=said[1])
        self.sub = xo.create_actor_ref(said[4], address=said[3])

    def __enter__(self) -> Group:
        return self

    def __exit__(self, *_error: object) -> None:
        self.process.kill()
        self.process.communicate()


async def lost(*calls: Any) -> xo.ServerClosed:
    """Return the error with which all calls to an ended process fail."""
    began = time.monotonic()
    found = await asyncio.wait_for(asyncio.gather(*calls, return_exceptions=True), 5)
    assert time.monotonic() - began < NOTICE_TIME + 0.5  # half a second more for a busy machine
    texts = {str(error) for error in found}
    assert len(texts) == 1, texts
    assert all(type(error) is xo.ServerClosed for error in found), found
    assert isinstance(found[0], ConnectionError)
    return found[0]


_ENDS = [
    (("exit", 3, "a last word\n"), r"(?s)pid \d+\) exited with code 3:.*a last word", 3),
    (("kill", signal.SIGKILL), r"pid \d+\) was killed by SIGKILL", -9),
    (("kill", signal.SIGSEGV), r"(?s)pid \d+\) was killed by SIGSEGV:.*Segmentation fault", -11),
    (("exit", 0), r"pid \d+\) exited with code 0", 0),
]


def test_every_caller_gets_the_exit_report() -> None:
    async def main() -> None:
        async with (
            await xo.create_actor_pool("127.0.0.1", n_process=2, auto_recover="actor") as pool,
            await xo.create_actor_pool("127.0.0.1", n_process=1) as others,
        ):
            main = pool.external_address
            ref = await xo.create_actor(Worker, address=main, allocate_strategy=of(1), uid="w")
            neighbour = await xo.create_actor(Worker, address=main, allocate_strategy=of(2))
            outsider = await xo.create_actor(Worker, address=others.external_address, allocate_strategy=of(1))
            for how, text, code in _ENDS:
                # The outsider knows the main pool's address only if it was connected before the process ends.
                assert await outsider.ask(ref, "add", 0) == 0
                calls = [asyncio.ensure_future(ref.sleep(100)) for _ in range(10)]
                calls += [asyncio.ensure_future(other.ask(ref, "sleep", 100)) for other in (neighbour, outsider)]
                calls.append(asyncio.ensure_future(getattr(ref, how[0])(*how[1:])))
                error = await lost(*calls)
                assert error.address == ref.address
                assert error.exitcode == code
                with pytest.raises(xo.ServerClosed, match=text):
                    raise error
                await xo.wait_actor_pool_recovered(ref.address, main)
                assert await ref.add(1) == 1
                assert await asyncio.wait_for(neighbour.ask(ref, "add", 1), 5) == 2
                assert await asyncio.wait_for(outsider.ask(ref, "add", -2), 5) == 0

    asyncio.run(main())


def test_calls_after_the_end_say_why() -> None:
    async def main() -> None:
        async with await xo.create_actor_pool("127.0.0.1", n_process=1, auto_recover=False) as pool:
            ref = await xo.create_actor(Worker, address=pool.external_address, allocate_strategy=of(1))
            pid = await ref.pid()
            os.kill(pid, signal.SIGTERM)  # a graceful end
            await until(lambda: not runs(pid))
            assert "exited with code 0" in str(await lost(ref.add(1)))
            assert "exited with code 0" in str(await lost(ref.add(1), xo.destroy_actor(ref)))

    asyncio.run(main())


def test_a_group_whose_main_process_is_killed() -> None:
    async def main() -> None:
        with Group() as group:
            assert await group.sub.add(1) == 1
            pids = [await ref.pid() for ref in (group.main, group.sub)]
            main_calls = [asyncio.ensure_future(group.main.sleep(100)) for _ in range(3)]
            sub_calls = [asyncio.ensure_future(group.sub.sleep(100)) for _ in range(3)]
            await group.main.add(1)
            group.process.kill()
            error, _ = await asyncio.gather(lost(*main_calls), lost(*sub_calls))
            assert str(error).endswith(f"(pid {pids[0]}) has ended")
            await until(lambda: not any(runs(pid) for pid in pids), seconds=5)
            await lost(group.main.add(1))
            await lost(group.sub.add(1))

    asyncio.run(main())


def test_a_process_that_was_forked_does_not_hide_the_end() -> None:
    async def main() -> None:
        async with await xo.create_actor_pool("127.0.0.1", n_process=2) as pool:
            ref = await xo.create_actor(Worker, address=pool.external_address, allocate_strategy=of(1))
            other = await xo.create_actor(Worker, address=pool.external_address, allocate_strategy=of(2))
            forked = await ref.fork()
            try:
                calls = [asyncio.ensure_future(call) for call in (ref.sleep(100), other.ask(ref, "sleep", 100))]
                await ref.add(0)
                error = await lost(*calls, ref.kill())
                assert "SIGKILL" in str(error)
                assert runs(forked)
                await xo.wait_actor_pool_recovered(ref.address, pool.external_address)
                assert await asyncio.wait_for(ref.add(1), 5) == 1
            finally:
                os.kill(forked, signal.SIGKILL)

    asyncio.run(main())


def test_a_lost_connection_is_not_reported_as_a_process_exit() -> None:
    async def main() -> None:
        async with await xo.create_actor_pool("127.0.0.1", n_process=1) as pool:
            ref = await xo.create_actor(Worker, address=pool.external_address, allocate_strategy=of(1))
            await xo.kill_actor(ref)  # the main pool then has an exit report, but of another process
            await xo.wait_actor_pool_recovered(ref.address, pool.external_address)
            call = asyncio.ensure_future(ref.sleep(100))
            await ref.add(1)
            Peers.here().close({ref.address})
            with pytest.raises(xo.ServerClosed, match="is lost: it was closed"):
                await asyncio.wait_for(call, 5)
            assert await ref.add(1) == 2

    asyncio.run(main())


# ---- memory ----


@contextlib.contextmanager
def memory_group(limit: int) -> Iterator[Path]:
    """A control group with a memory limit."""
    own = [line.split(":", 2) for line in Path("/proc/self/cgroup").read_text().splitlines()]
    roots = [
        (Path("/sys/fs/cgroup/memory") / path.lstrip("/"), "memory.limit_in_bytes")
        for _, controllers, path in own
        if "memory" in controllers.split(",")
    ] or [(Path("/sys/fs/cgroup") / own[-1][2].lstrip("/"), "memory.max")]
    group = roots[0][0] / f"craton-test-{uuid.uuid4().hex}"
    try:
        group.mkdir()
        (group / roots[0][1]).write_text(str(limit))
    except OSError as error:
        with contextlib.suppress(OSError):
            group.rmdir()
        pytest.skip(f"no control group of memory can be made here: {error}")
    try:
        yield group
    finally:
        asyncio.run(until(lambda: not (group / "cgroup.procs").read_text()))
        group.rmdir()


def test_an_oom_kill_is_recognised() -> None:
    async def main(group: Path) -> None:
        tasks = group / "cgroup.procs"
        wrapper = group_python(tasks)
        try:
            async with await xo.create_actor_pool("127.0.0.1", n_process=1, start_python=wrapper) as pool:
                ref = await xo.create_actor(Worker, address=pool.external_address, allocate_strategy=of(1))
                with pytest.raises(xo.ServerClosed, match=r"SIGKILL, because its control group.*OOM kill") as found:
                    await ref.eat(1 << 30)
                assert found.value.exitcode == -9
        finally:
            os.unlink(wrapper)

    with memory_group(256 << 20) as group:
        asyncio.run(main(group))


def group_python(tasks: Path) -> str:
    """Return a Python interpreter that joins a control group first."""
    path = f"/tmp/craton-python-{uuid.uuid4().hex}"
    Path(path).write_text(f'#!/bin/sh\necho $$ > {tasks} || exit 9\nexec {sys.executable} "$@"\n')
    os.chmod(path, 0o755)
    return path


# ---- machines ----


@pytest.fixture
def machine() -> Iterator[tuple[str, str, str]]:
    """A network namespace that stands for another machine: its name, its address, and the name of this side's interface."""
    name = f"craton{os.getpid() % 100_000}"
    here, there = f"ch{os.getpid() % 100_000}", f"ct{os.getpid() % 100_000}"
    net = f"10.{os.getpid() % 200 + 20}.{os.getpid() // 200 % 250}"

    def ip(*words: str) -> None:
        subprocess.run(["ip", *words], check=True, capture_output=True)

    try:
        ip("netns", "add", name)
        ip("link", "add", here, "type", "veth", "peer", "name", there, "netns", name)
        ip("addr", "add", f"{net}.1/24", "dev", here)
        ip("link", "set", here, "up")
        ip("-n", name, "addr", "add", f"{net}.2/24", "dev", there)
        ip("-n", name, "link", "set", there, "up")
        ip("-n", name, "link", "set", "lo", "up")
    except (OSError, subprocess.CalledProcessError) as error:
        subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False) if not isinstance(
            error, OSError
        ) else None
        pytest.skip(f"no network namespace can be made here: {error}")
    try:
        yield name, f"{net}.2", here
    finally:
        subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)


@pytest.mark.slow
def test_an_unreachable_machine_is_detected(machine: tuple[str, str, str]) -> None:
    name, address, link = machine

    def there() -> None:
        descriptor = os.open(f"/run/netns/{name}", os.O_RDONLY)
        import ctypes

        assert ctypes.CDLL(None).setns(descriptor, 0) == 0

    async def main() -> None:
        loop = asyncio.get_running_loop()
        with Group(address, preexec_fn=there) as group:
            assert await group.sub.add(1) == 1
            # A receiver that is too busy to read for longer than SILENCE does not count as unreachable.
            block = asyncio.ensure_future(group.main.block(4))
            big = asyncio.ensure_future(group.main.echo(b"x" * (48 << 20)))
            quiet = asyncio.ensure_future(group.sub.sleep(100))
            await block
            assert len(await big) == 48 << 20
            await group.sub.add(1)
            began = loop.time()
            subprocess.run(["ip", "link", "set", link, "down"], check=True)
            # One connection is idle, and the other has data in flight.
            under_way = asyncio.ensure_future(group.main.add(1))
            for call in (quiet, under_way):
                with pytest.raises(xo.ServerClosed, match=r"silent|timed out"):
                    await asyncio.wait_for(call, 10)
                assert loop.time() - began < 3.2
            # New connections time out, too.
            began = loop.time()
            with pytest.raises(xo.ServerClosed, match="no pool can be reached"):
                await asyncio.wait_for(group.sub.add(1), 10)
            assert loop.time() - began < 3.2

    asyncio.run(main())


# ---- calls in flight ----


def test_a_reference_works_again_from_everywhere_after_many_recoveries() -> None:
    async def main() -> None:
        async with await xo.create_actor_pool("127.0.0.1", n_process=2) as pool:
            main = pool.external_address
            ref = await xo.create_actor(Worker, address=main, allocate_strategy=of(1))
            other = await xo.create_actor(Worker, address=main, allocate_strategy=of(2))
            for turn in range(3):
                assert await ref.add(1) == 1, turn
                assert await other.ask(ref, "add", 1) == 2, turn
                await xo.kill_actor(ref)
                # A caller that retries.
                await xo.wait_actor_pool_recovered(ref.address, *[main] * (turn == 2))
                await until(lambda: reached(ref))

    async def reached(ref: Any) -> bool:
        try:
            await ref.add(0)
        except (ConnectionError, xo.ActorNotExist):
            return False
        return True

    asyncio.run(main())


def test_traffic_while_a_pool_is_killed() -> None:
    async def main() -> None:
        async with await xo.create_actor_pool("127.0.0.1", n_process=2) as pool:
            main = pool.external_address
            refs = [await xo.create_actor(Worker, address=main, allocate_strategy=of(index)) for index in (1, 2)]
            done = False
            counted = {"good": 0, "lost": 0}

            async def caller(call: Any) -> None:
                while not done:
                    try:
                        await asyncio.wait_for(call(), 5)
                        counted["good"] += 1
                    except (ConnectionError, xo.ActorNotExist):
                        counted["lost"] += 1
                        await asyncio.sleep(0.01)

            callers = [
                asyncio.ensure_future(caller(call))
                for call in (
                    lambda: refs[0].add(1),
                    lambda: refs[1].ask(refs[0], "echo", b"x" * 100_000),
                    lambda: refs[0].ask(refs[1], "add", 1),
                    lambda: xo.has_actor(refs[0]),
                )
            ]
            for _ in range(3):
                good = counted["good"]
                await until(lambda good=good: counted["good"] > good + 20)
                await xo.kill_actor(refs[0])
                await xo.wait_actor_pool_recovered(refs[0].address, main)
            done = True
            await asyncio.wait_for(asyncio.gather(*callers), 6)
            assert counted["lost"] >= 3

    asyncio.run(main())
