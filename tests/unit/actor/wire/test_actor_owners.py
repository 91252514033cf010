"""Unix sockets connect processes of one user: another user's process that binds the name, or connects, is refused."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import pickle
import socket
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import craton.actor as xo
from craton.actor.allocate_strategy import MainPool
from craton.actor.errors import NotAuthenticated, ServerClosed
from craton.actor.wire import addresses, auth, frames, owners

sys.path.insert(0, str(Path(__file__).parents[1]))

from actors import Worker, free_port

OTHER = 65534
"""The uid of another user."""
as_superuser = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0 or sys.platform != "linux",
    reason="only the superuser can become another user, and names as these are Linux's",
)

# Binds a pool's name and relays to the pool until the handshake is done; then it sends the client a malicious pickle.
HOLDER = f"""
import encodings.idna, os, socket, sys, threading
name, port, evil = "\\0" + sys.argv[1], int(sys.argv[2]), bytes.fromhex(sys.argv[3])
os.setgid({OTHER}), os.setuid({OTHER})
listening = socket.socket(socket.AF_UNIX)
listening.bind(name)
listening.listen(64)
print("holds", flush=True)

def hand_on(source, target, say, after=0):
    count = 0
    while data := source.recv(1 << 16):
        print(say, len(data), flush=True)
        if after and count < after <= count + len(data):
            cut = after - count
            data = data[:cut] + evil + data[cut:]
        count += len(data)
        target.sendall(data)

while True:
    client, _ = listening.accept()
    print("met a client", flush=True)
    pool = socket.create_connection(("127.0.0.1", port))
    threading.Thread(target=hand_on, args=(client, pool, "heard"), daemon=True).start()
    threading.Thread(target=hand_on, args=(pool, client, "told", {auth.OPENING + auth.MAC}), daemon=True).start()
"""

# Connects to a name as another user, and prints what it receives.
VISITOR = f"""
import os, socket, sys
os.setgid({OTHER}), os.setuid({OTHER})
with socket.socket(socket.AF_UNIX) as sock:
    sock.settimeout(20)
    sock.connect("\\0" + sys.argv[1])
    try:
        print(len(sock.recv(100)))
    except ConnectionResetError:
        print(0)
"""

POOL = """
import asyncio, sys
import craton.actor as xo
from actors import Worker

async def main():
    async with await xo.create_actor_pool(sys.argv[1], n_process=int(sys.argv[2])) as pool:
        for index in range(int(sys.argv[2]) + 1):
            await xo.create_actor(
                Worker, uid=f"w{index}", address=pool.external_address,
                allocate_strategy=xo.allocate_strategy.ProcessIndex(index),
            )
        print(pool.external_address, flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)

asyncio.run(main())
"""


class Evil:
    """Creates a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.path),)


def name_of(address: str) -> str:
    return addresses.local_name(address).removeprefix("\0")


@contextlib.contextmanager
def held(address: str, port: int, proof: Path) -> Iterator[subprocess.Popen[str]]:
    """Have another user's process bind the Unix socket's name of an address, and relay to a port."""
    envelope = pickle.dumps((0, 0, Evil(proof)))
    evil = frames.HEADER.pack(len(envelope), 0) + envelope
    arguments = [sys.executable, "-c", HOLDER, name_of(address), str(port), evil.hex()]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "holds\n"
        try:
            yield holder
        finally:
            holder.kill()


@contextlib.contextmanager
def serving(address: str, n_process: int = 0) -> Iterator[str]:
    """Start a pool in another process; return its address."""
    here = Path(__file__).parents[1]
    path = os.pathsep.join([str(here), str(here.parents[2] / "python")])
    with subprocess.Popen(
        [sys.executable, "-c", POOL, address, str(n_process)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        found = process.stdout.readline().strip()
        try:
            yield found or pytest.fail(process.stderr.read())
        finally:
            process.communicate()


def heard(holder: subprocess.Popen[str]) -> list[str]:
    """Wait until a holder has had a client; return the lines in which it reports the bytes that it received."""
    assert holder.stdout is not None
    assert holder.stdout.readline() == "met a client\n"
    holder.kill()
    return [line for line in holder.communicate()[0].splitlines() if line.startswith("heard")]


@as_superuser
def test_a_name_that_another_user_holds(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Calls use TCP instead, from another process to the pool and between the processes of the group."""
    port = free_port()
    address = f"127.0.0.1:{port}"

    async def main() -> None:
        main_pool = await xo.actor_ref("w0", address=address)
        sub_pool = await xo.actor_ref("w1", address=address)
        assert await main_pool.add(1) == 1
        assert await sub_pool.ask(main_pool, "add", 1) == 2
        assert await main_pool.ask(sub_pool, "add", 5) == 5

    with held(address, port, tmp_path / "ran") as holder, serving(address, 1):
        with caplog.at_level(logging.WARNING):
            asyncio.run(main())
        assert heard(holder) == [], "nothing was said to the other user's process"
    assert f"held by a process of user {OTHER}" in caplog.text
    assert list(tmp_path.iterdir()) == []


@as_superuser
@pytest.mark.parametrize("tcp", [False, True], ids=["nobody at the port", "a pool at the port"])
def test_a_relayed_handshake(tmp_path: Path, tcp: bool) -> None:
    """If no pool of this user listens at the address, the call fails and nothing that is received is unpickled."""

    async def main(claimed: str) -> None:
        ref = xo.create_actor_ref(b"w0", address=claimed)
        if tcp:
            assert await ref.add(1) == 1
            return
        with pytest.raises(ServerClosed, match=f"held by a process of user {OTHER}"):
            await ref.add(1)

    with serving("127.0.0.1") as address:
        port = addresses.split(address)[1]
        assert port is not None
        claimed = f"localhost:{port}" if tcp else f"127.0.0.1:{free_port()}"
        with held(claimed, port, tmp_path / "ran") as holder:
            asyncio.run(main(claimed))
            assert heard(holder) == []
    assert list(tmp_path.iterdir()) == []


@as_superuser
def test_another_user_that_connects(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with await xo.create_actor_pool("127.0.0.1", n_process=0) as pool:
            visitor = await asyncio.create_subprocess_exec(
                sys.executable, "-c", VISITOR, name_of(pool.external_address), stdout=subprocess.PIPE
            )
            assert (await visitor.communicate())[0] == b"0\n", "not even a nonce"
            assert not pool._links
            ref = await xo.create_actor(Worker, address=pool.external_address, allocate_strategy=MainPool())
            assert await ref.add(1) == 1

    with caplog.at_level(logging.WARNING):
        asyncio.run(main())
    assert f"a process of user {OTHER}" in caplog.text


@pytest.mark.skipif(sys.platform != "linux", reason="names as these are Linux's")
def test_a_handshake_is_bound_to_the_name(tmp_path: Path) -> None:
    """A relay from a name to another pool is detected, even if it runs as the same user."""

    async def hand_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1 << 16):
            writer.write(data)
        writer.close()

    async def main(address: str, unix: bool) -> None:
        async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            if unix:
                there = await asyncio.open_unix_connection(addresses.local_name(address))
            else:
                host, port = addresses.split(address)
                there = await asyncio.open_connection(host, port)
            with contextlib.suppress(ConnectionError):
                await asyncio.gather(hand_on(reader, there[1]), hand_on(there[0], writer))

        claimed = f"127.0.0.1:{free_port()}"
        async with await asyncio.start_unix_server(relay, addresses.local_name(claimed)):
            with pytest.raises(NotAuthenticated):
                await xo.create_actor_ref(b"w0", address=claimed).add(1)

    with serving("127.0.0.1") as address:
        for unix in (False, True):
            asyncio.run(main(address, unix))


def test_a_name_that_this_user_holds() -> None:
    """Two pools of one user at one address are an error."""

    async def main() -> None:
        async with await xo.create_actor_pool("127.0.0.1", n_process=0) as pool:
            with pytest.raises(OSError, match="in use"):
                addresses.listen_unix(pool.external_address)

    asyncio.run(main())


def test_credentials() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX)
    with ours, theirs:
        assert owners.credentials(ours)[1] == os.geteuid()
        assert owners.is_same_user(ours)
    assert not owners.is_same_user(ours), "what cannot be known is not this user's"
    with socket.socket(socket.AF_INET) as tcp:
        assert owners.credentials(tcp) == (None, None)


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="it looks into /proc")
def test_connections_that_never_authenticate_cost_little() -> None:
    """Five times a thousand connections: each takes a few kB, and the memory is returned after each time."""
    text = textwrap.dedent("""
        import asyncio, gc, os, resource, socket, subprocess, sys
        import craton.actor as xo
        from actors import until
        from craton.actor.wire import addresses

        MANY = int(sys.argv[1])
        resource.setrlimit(resource.RLIMIT_NOFILE, (8 * MANY, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
        VISITS = '''
        import socket, sys
        socks = [socket.create_connection((sys.argv[1], int(sys.argv[2]))) for _ in range(int(sys.argv[3]))]
        for sock in socks:
            sock.sendall(b"CrAc")
        print("there", flush=True)
        sys.stdin.read()
        '''.replace("\\n        ", "\\n")

        def memory():
            gc.collect()
            with open("/proc/self/statm") as file:
                return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

        async def main():
            async with await xo.create_actor_pool("127.0.0.1", n_process=0) as pool:
                host, port = addresses.split(pool.external_address)
                for _ in range(5):
                    visitors = await asyncio.create_subprocess_exec(
                        sys.executable, "-c", VISITS, host, str(port), str(MANY),
                        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                    )
                    before = memory()
                    await visitors.stdout.readline()
                    await until(lambda: len(pool.unauthenticated) >= MANY)
                    during = memory()
                    visitors.stdin.close()
                    await visitors.wait()
                    await until(lambda: not pool._links and not len(pool.unauthenticated))
                    print(before, during, memory(), flush=True)

        asyncio.run(main())
    """)
    here = Path(__file__).parents[1]
    path = os.pathsep.join([str(here), str(here.parents[2] / "python")])
    found = subprocess.run(
        [sys.executable, "-c", text, "1000"], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path}, check=True
    )  # fmt: skip
    rows = [[int(number) for number in line.split()] for line in found.stdout.splitlines()]
    assert len(rows) == 5, found.stderr
    for before, during, after in rows:
        assert during - before < 1000 * 16_000
        assert after - before < 1000 * 16_000
    assert rows[-1][2] - rows[1][0] < 8 << 20, "what the first ones took serves the others"
