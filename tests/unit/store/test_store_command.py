"""``craton store``: serving a store, and the commands that inspect it."""

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

import craton
from craton.store import LocalitySet, Store
from craton.store.cli import _verify_pages, main


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
    assert "131,072" in capsys.readouterr().out
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


def test_names_that_are_missing(served: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    at = ["--address", served]
    with Store.connect(served) as store:
        unnamed = store.create_set()
        unnamed.append({"n": [1]})
        for name in ("one", "two", "empty"):
            store.create_set(name, tag=b"state 7" if name == "one" else b"\xff")
        store.get_set("one").append({"n": [1, 2]})
        store.get_set("two").append({"n": np.arange(1000)})
        assert main(["verify", *at]) == 0
        out = capsys.readouterr().out
        assert out == "empty: 0 pages sound\none: 1 page sound\ntwo: 1 page sound\n"
        assert main(["verify", "one", "three", *at]) == 1
        assert capsys.readouterr() == ("one: 1 page sound\n", "craton store verify: no set named 'three'\n")
        assert main(["ls", *at]) == 0
        lines = capsys.readouterr().out.splitlines()
        start = lines[0].index("name")
        assert [line[start:] for line in lines] == ["name", "empty", "one", "two", "-"]
        assert main(["stat", "one", *at]) == 0
        assert "tag         state 7\n" in capsys.readouterr().out
        assert main(["stat", "two", *at]) == 0
        assert "tag         ff\n" in capsys.readouterr().out
        assert main(["export", "empty", str(tmp_path / "x"), *at]) == 1
        assert "no pages" in capsys.readouterr().err
        assert main(["rm", "one", "three", "two", *at]) == 1
        assert capsys.readouterr().err == "craton store rm: no set named 'three'\n"
        assert store.describe()["name"].dropna().tolist() == ["empty"]


def test_an_object_is_not_exported(served: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Store.connect(served) as store:
        pages = store.create_set("object:settings")
        parts = craton.serialize.encode({"a": 1})
        pages._native.write_object(pages.number, parts.chunks, parts.buffers)
        assert main(["export", "object:settings", str(tmp_path / "x"), "--address", served]) == 1
    assert "holds a Python object, not a table" in capsys.readouterr().err
    assert not list(tmp_path.glob("x*"))


def test_verify_counts_pages_that_are_dropped_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    with Store.open(16 << 20) as store:
        pages = store.create_set("parts", durability="discard")
        for number in range(3):
            pages.append({"n": [number]}, key=b"%d" % number)
        before = pages.pages()
        pages.drop_key(b"1")
        monkeypatch.setattr(LocalitySet, "pages", lambda self: before)
        assert _verify_pages(pages) == ("2 pages sound, 1 dropped meanwhile", [])


def test_a_closed_pipe_ends_a_listing_without_an_error(served: str) -> None:
    with Store.connect(served) as store:
        kept = [store.create_set(f"set {number}") for number in range(100)]
        command = [sys.executable, "-m", "craton", "store", "ls", "--address", served]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as listing:
            assert listing.stdout is not None
            assert listing.stderr is not None
            listing.stdout.close()
            assert listing.stderr.read() == ""
            assert listing.wait(60) == 0
        del kept


def test_an_invalid_memory_limit_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["serve", "--memory-limit", "lots"])
    assert left.value.code == 2
    assert "--memory-limit: 'lots' is not a number of bytes" in capsys.readouterr().err


def test_a_damaged_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "page.arrow"
    path.write_bytes(b"ARROW1\0\0 and nothing else")
    assert main(["verify", str(path)]) == 1
    assert capsys.readouterr().out.count(str(path)) == 1


def test_an_address_without_a_server_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ls", "--address", str(tmp_path / "none.sock")]) == 1
    assert "none.sock" in capsys.readouterr().err


def test_gc_removes_what_a_killed_store_left(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dead = tmp_path / "craton-store-dead"
    dead.mkdir()
    (dead / "lock").touch()
    assert main(["gc", "--directory", str(tmp_path)]) == 0
    assert str(dead) in capsys.readouterr().out
    assert not dead.exists()
