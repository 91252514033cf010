"""``craton store``: a served store, and the commands that look into it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from craton.store import Store
from craton.store.cli import main


@pytest.fixture
def served(tmp_path: Path) -> Iterator[str]:
    address = str(tmp_path / "runtime" / "store.sock")
    command = [sys.executable, "-m", "craton", "store", "serve", "--address", address]
    command += ["--memory-limit", "64MiB", "--directory", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        assert server.stdout.readline().strip() == address
        yield address
        server.send_signal(signal.SIGTERM)
        assert server.wait(30) == 0
    assert not os.path.exists(address)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_commands(served: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    at = ["--address", served]
    assert main(["ls", *at]) == 0
    assert capsys.readouterr().out == "no sets\n"
    store = Store.connect(served)
    store.create_set("numbers").append(pa.record_batch({"n": np.arange(1 << 17)}))
    store.create_set("other", durability="write-through").append(pa.record_batch({"n": np.arange(10)}))
    assert main(["ls", *at]) == 0
    out = capsys.readouterr().out
    assert "numbers" in out
    assert "1.0 MiB" in out
    assert main(["stat", "numbers", *at]) == 0
    assert "131072" in capsys.readouterr().out
    assert main(["stat", *at]) == 0
    assert "64.0 MiB" in capsys.readouterr().out
    assert main(["stat", "--prometheus", *at]) == 0
    assert "# TYPE" in capsys.readouterr().out
    assert main(["verify", *at]) == 0
    assert "numbers: 1 page sound" in capsys.readouterr().out
    (page,) = tmp_path.rglob("*.arrow")
    assert main(["verify", str(page)]) == 0
    target = tmp_path / "numbers.arrow.copy"
    assert main(["export", "numbers", str(target), *at]) == 0
    assert pa.ipc.open_file(target).read_all().num_rows == 1 << 17
    target.unlink()
    assert main(["rm", "numbers", "other", *at]) == 0
    assert main(["rm", "numbers", *at]) == 1
    assert "numbers" in capsys.readouterr().err
    store.close()


def test_a_damaged_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "page.arrow"
    path.write_bytes(b"ARROW1\0\0 and nothing else")
    assert main(["verify", str(path)]) == 1
    assert capsys.readouterr().out.count(str(path)) == 1


def test_nobody_serves(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ls", "--address", str(tmp_path / "none.sock")]) == 1
    assert "none.sock" in capsys.readouterr().err


def test_gc_removes_what_a_killed_store_left(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dead = tmp_path / "craton-store-dead"
    dead.mkdir()
    (dead / "lock").touch()
    assert main(["gc", "--directory", str(tmp_path)]) == 0
    assert str(dead) in capsys.readouterr().out
    assert not dead.exists()
