"""``craton actor ls`` and ``top``, with their formats for people and for programs, on another process's pools."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from craton.actor.cli import main, table
from craton.actor.group_metrics import GroupMetrics

SERVER = """
import asyncio, sys
import craton.actor as xo

class Named(xo.Actor):
    def hello(self):
        return "hello"

async def serve():
    async with await xo.create_actor_pool("127.0.0.1", n_process=1, labels=["main", "worker"]) as pool:
        ref = await xo.create_actor(Named, address=pool.external_address)
        sub = await xo.create_actor(Named, address=pool.config.get_external_addresses()[1])
        for _ in range(7):
            await sub.hello()
        print(pool.external_address, flush=True)
        await asyncio.to_thread(sys.stdin.read)

asyncio.run(serve())
"""


@contextlib.contextmanager
def running(*command: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with running("-c", SERVER) as server:
        assert server.stdout is not None
        assert server.stdin is not None
        yield server.stdout.readline().strip()
        server.stdin.close()
        assert server.wait(30) == 0


def test_ls(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ls", address]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["address", "pid", "label", "actors", "calls", "p99", "queue", "memory"]
    assert len(lines) == 3
    assert max(map(len, lines)) <= 80
    assert lines[1].split()[0] == address
    assert lines[2].split()[2:5] == ["worker", "1", "7"]
    assert main(["ls", address, "--json"]) == 0
    pools = json.loads(capsys.readouterr().out)
    assert [pool["label"] for pool in pools] == ["main", "worker"]
    assert pools[1]["calls"] == 7
    assert main(["ls", address, "--prometheus"]) == 0
    assert "# TYPE craton_actor_calls_total counter" in capsys.readouterr().out


def test_top_shows_rates(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["top", address, "--interval", "0.01", "--count", "2"]) == 0
    out = capsys.readouterr().out
    assert out.count("calls/s") == 2
    assert "\x1b" not in out
    assert main(["top", address, "--interval", "0.01", "--count", "2", "--json"]) == 0
    assert [len(json.loads(line)) for line in capsys.readouterr().out.splitlines()] == [2, 2]


def test_top_ends_with_an_interrupt(address: str) -> None:
    with running("-m", "craton", "actor", "top", address, "--interval", "0.05", "--json") as top:
        assert top.stdout is not None
        assert top.stderr is not None
        for _ in range(2):
            assert json.loads(top.stdout.readline())[0]["address"] == address
        os.kill(top.pid, signal.SIGINT)
        assert top.wait(20) == 128 + signal.SIGINT
        assert top.stderr.read() == ""


def test_output_to_a_closed_pipe(address: str) -> None:
    with running("-m", "craton", "actor", "top", address, "--interval", "0.01", "--json") as top:
        assert top.stdout is not None
        assert top.stderr is not None
        assert top.stdout.readline()
        top.stdout.close()
        assert top.wait(20) == 0
        assert top.stderr.read() == ""


def test_unreachable_addresses_and_wrong_arguments(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ls", "127.0.0.1:1"]) == 1
    assert "127.0.0.1:1" in capsys.readouterr().err
    assert main(["ls", "nowhere"]) == 1
    assert "no port" in capsys.readouterr().err
    with pytest.raises(SystemExit) as ended:
        main(["top", "127.0.0.1:1", "--interval", "0"])
    assert ended.value.code == 2
    with pytest.raises(SystemExit) as ended:
        main(["top", "127.0.0.1:1", "--count", "-1"])
    assert ended.value.code == 2


def test_tables_are_no_wider_than_80_columns() -> None:
    pool = {
        "address": "[2001:db8:0:0:0:0:0:ff00]:65535", "index": 1, "label": "a very long label", "pid": 4194304,
        "actors": 123_456, "calls": 10**13, "queue": 10**9, "memory": 1 << 39, "buckets": [0] * 20 + [5] * 12,
    }  # fmt: skip
    gone = {"address": "127.0.0.1:7103", "index": 2, "label": None, "error": "no answer"}
    for before in (None, {pool["address"]: {**pool, "calls": 0, "buckets": [0] * 32}}):
        lines = table(GroupMetrics([pool, gone]), before, 1.0).splitlines()
        assert max(map(len, lines)) <= 80
        assert "gone" in lines[2]
