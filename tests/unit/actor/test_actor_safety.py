"""Peers without the key, and peers that send garbage, are dropped without affecting others."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import random
import socket
import struct
import time
from typing import Any

import pytest

import craton.actor as xo
from craton.actor.allocate_strategy import MainPool
from craton.actor.wire import addresses, auth, frames, unauthenticated
from craton.actor.wire import link as links


class Counter(xo.Actor):
    def __init__(self) -> None:
        self.value = 0

    def add(self, n: int) -> int:
        self.value += n
        return self.value


_OPENING = len(auth.MAGIC) + auth.NONCE


def _connect(address: str, local: bool) -> socket.socket:
    if local:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        sock.settimeout(10)
        while True:
            with contextlib.suppress(BlockingIOError):
                sock.connect(addresses.local_name(address))
                return sock
    host, port = addresses.split(address)
    return socket.create_connection((host, port or 0), timeout=10)


def _read(sock: socket.socket, count: int) -> bytes:
    found = b""
    while len(found) < count:
        more = sock.recv(count - len(found))
        if not more:
            raise ConnectionResetError
        found += more
    return found


def _shake(sock: socket.socket, key: bytes) -> bytes:
    shake = auth.Handshake(key, False)
    shake.binding = addresses.binding(sock, server=False)
    record = shake.answer(_read(sock, _OPENING))
    assert record is not None
    sock.sendall(record)
    shake.answer(_read(sock, auth.MAC))
    return record


def _attack(kind: int, sock: socket.socket, dice: random.Random, key: bytes, heard: bytes) -> None:
    if kind == 0:
        sock.sendall(dice.randbytes(dice.randrange(1, 400)))
    elif kind == 1:
        sock.sendall(heard[: dice.randrange(len(heard))])
    elif kind == 2:
        _shake(sock, dice.randbytes(32))
    elif kind == 3:
        sock.sendall(heard)
        _read(sock, _OPENING + 1)
    elif kind == 4:
        sock.sendall(struct.pack("<II", 0xFFFFFFFF, 0xFFFFFFFF) * 20)
    elif kind == 5:
        _shake(sock, key)
        sock.sendall(dice.randbytes(dice.randrange(8, 2000)))
    elif kind == 6:
        _shake(sock, key)
        sock.sendall(frames.HEADER.pack(10, 3) + struct.pack("<QQQ", 1 << 39, 1 << 38, 1 << 60))
    elif kind == 7:
        _shake(sock, key)
        sock.sendall(frames.pack((dice.randrange(-5, 20), "x", [], {}), None)[0])
    elif kind == 8:
        sock.shutdown(socket.SHUT_WR)
        while sock.recv(4096):
            pass
    # kind 9 sends nothing


def _attacks(address: str, count: int, key: bytes) -> int:
    dice = random.Random(7)
    with _connect(address, True) as sock:
        heard = _shake(sock, key)
    for number in range(count):
        with _connect(address, dice.random() < 0.5) as sock, contextlib.suppress(OSError):
            _attack(number % 10, sock, dice, key, heard)
    return count


def _memory() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def _until(condition: Any) -> None:
    end = time.monotonic() + 15
    while not condition():
        assert time.monotonic() < end
        await asyncio.sleep(0.01)


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="it looks into /proc")
@pytest.mark.parametrize("count", [500, pytest.param(10_000, marks=pytest.mark.slow)])
def test_attacks_do_not_affect_clients(count: int, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with await xo.create_actor_pool("127.0.0.1", n_process=0) as pool:
            ref = await xo.create_actor(Counter, address=pool.external_address, allocate_strategy=MainPool())
            loop = asyncio.get_running_loop()
            key = auth.key()
            await loop.run_in_executor(None, _attacks, pool.external_address, 200, key)
            await _until(lambda: not pool._links)
            gc.collect()
            before = len(os.listdir("/proc/self/fd")), len(asyncio.all_tasks()), _memory()
            work = loop.run_in_executor(None, _attacks, pool.external_address, count, key)
            calls = 0
            while not work.done():
                calls += 1
                assert await ref.add(1) == calls  # calls work during the attack
                await asyncio.sleep(0.01)
            assert await work == count
            await _until(lambda: not pool._links and not len(pool.unauthenticated))
            gc.collect()
            assert (len(os.listdir("/proc/self/fd")), len(asyncio.all_tasks())) == before[:2]
            assert _memory() - before[2] < 32 << 20
            assert not pool._running
            assert not pool._tasks

    with caplog.at_level(logging.WARNING):
        asyncio.run(main())
    lines = [record for record in caplog.records if "drops" in record.getMessage()]
    assert lines
    assert len(lines) < 200


def test_silent_clients_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links, "HANDSHAKE_TIMEOUT", 0.1)

    async def main() -> None:
        async with await xo.create_actor_pool("127.0.0.1", n_process=0) as pool:
            with _connect(pool.external_address, False) as sock:
                sock.sendall(b"Cr")
                await _until(lambda: len(pool.unauthenticated) == 1)
                await _until(lambda: not pool._links)

    asyncio.run(main())


def test_a_refusal_differs_from_a_crash() -> None:
    async def main() -> None:
        async with await xo.create_actor_pool("127.0.0.1", n_process=0) as pool:

            def refused() -> str:
                with _connect(pool.external_address, True) as sock:
                    shake = auth.Handshake(b"another key of sixteen bytes", False)
                    shake.binding = addresses.binding(sock, server=False)
                    sock.sendall(shake.answer(_read(sock, _OPENING)) or b"")
                    assert shake.answer(_read(sock, auth.MAC)) is None
                return shake.refusal

            loop = asyncio.get_running_loop()
            assert "refuses this process" in await loop.run_in_executor(None, refused)

        async def dies(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(auth.Handshake(auth.key(), True).opening())
            writer.close()

        server = await asyncio.start_server(dies, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()
        async with server, await xo.create_actor_pool("127.0.0.1", n_process=0):
            with pytest.raises(xo.ServerClosed, match="no pool can be reached"):
                await xo.has_actor(xo.create_actor_ref(b"somebody", address=f"{host}:{port}"))

    asyncio.run(main())


def test_limit_of_unauthenticated_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unauthenticated, "MAX_UNAUTHENTICATED", 16)

    async def main() -> None:
        async with await xo.create_actor_pool("127.0.0.1", n_process=0) as pool:
            loop, key = asyncio.get_running_loop(), auth.key()
            with contextlib.ExitStack() as stack:
                for _ in range(40):
                    stack.enter_context(_connect(pool.external_address, True))
                await _until(lambda: len(pool.unauthenticated) == 16)

                def friend() -> None:
                    with _connect(pool.external_address, True) as sock:
                        _shake(sock, key)
                        assert _read(sock, frames.HEADER.size)

                await loop.run_in_executor(None, friend)
                assert len(pool._links) <= 17

    asyncio.run(main())
