"""The commands of ``craton store`` for durable sets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pandas
import pytest

import craton
import craton.pandas as pd
from craton.store.cli import main
from craton.store.durable import DurableSet

NOWHERE = ["--address", "@no-store-is-served-here"]


@pytest.fixture(autouse=True)
def sets(tmp_path: Path) -> Iterator[Path]:
    with craton.option_context(data=tmp_path):
        rows = pandas.DataFrame(
            {"k": [1, 2, 3, 4], "s": ["a", None, "c", "d"], "t": pandas.to_datetime(["2020-01-01"] * 4)}
        )
        craton.save("shop.orders", rows, partition_by="k", kind="range", partitions=2)
        craton.save("lines", rows)
        for _ in range(3):
            craton.save("lines", rows, mode="append")
        yield tmp_path


def test_ls_and_describe(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ls", *NOWHERE]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[0].split() == ["name", "version", "rows", "size", "files", "partitioned", "by"]
    assert [line.split()[:3] for line in shown[1:]] == [["default.lines", "4", "16"], ["shop.orders", "1", "4"]]
    assert shown[2].endswith("range(k), 2")
    assert main(["describe", "shop.orders"]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert "range(k), 2" in shown[5]
    assert [line.split() for line in shown if line.startswith(("k ", "s "))] == [
        ["k", "int64", "0", "1", "4", "~4"],
        ["s", "str", "1", "a", "d", "~3"],
    ]
    assert main(["describe", "lines", "--version", "2"]) == 0
    assert "2 of 1, 2, 3, 4" in capsys.readouterr().out
    for name in ("nothing", "lines --version 9"):
        assert main(["describe", *name.split()]) == 1
        assert "craton store describe: " in capsys.readouterr().err


def test_vacuum_and_repair(capsys: pytest.CaptureFixture[str], sets: Path) -> None:
    durable = DurableSet("lines")
    assert main(["vacuum", "lines", "--keep", "2", "--days", "1"]) == 0  # all versions are younger
    assert durable.versions() == [1, 2, 3, 4]
    assert main(["vacuum", "--keep", "2"]) == 0
    assert durable.versions() == [3, 4]
    shown = capsys.readouterr().out
    assert "default.lines: 2 versions dropped, 0 files removed" in shown  # the files are those of later versions, too
    craton.save("lines", pandas.DataFrame({"k": [1]}), mode="overwrite")
    assert main(["vacuum", "lines"]) == 0
    assert "2 versions dropped, 4 files removed" in capsys.readouterr().out
    assert len(pd.read_set("lines")) == 1
    assert main(["vacuum", "lines", "--keep", "0"]) == 1
    assert main(["vacuum", "nothing"]) == 1
    capsys.readouterr()
    assert main(["repair"]) == 0
    assert capsys.readouterr().out == "nothing to repair\n"
    (sets / "shop" / ".dropped-orders-1").mkdir()
    (sets / "default" / "lines" / "writers" / "gone").touch()
    assert main(["repair"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2


def test_verify(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", *NOWHERE]) == 0
    assert capsys.readouterr().out.splitlines() == ["default.lines: 4 files sound", "shop.orders: 2 files sound"]
    durable = DurableSet("lines")
    path = Path(durable.path(durable.version().files[1]))
    path.write_bytes(path.read_bytes()[:-1] + b"X")
    assert main(["verify", "lines"]) == 1
    assert capsys.readouterr().out == f"default.lines: {path.name}: its checksum differs\n"
    assert main(["verify", "shop.orders"]) == 0
    assert main(["verify", "nothing", *NOWHERE]) == 1
