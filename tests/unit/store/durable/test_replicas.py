"""Replicas of durable sets: plans choose one, and damaged files are rebuilt from the others."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas
import pytest

import craton
from craton.store import CorruptSet
from craton.store.cli import main
from craton.store.durable import DurableSet
from craton.store.recovery import rebuild
from tests.unit.store.keyed_tables import keyed_table


@pytest.fixture(autouse=True)
def data(tmp_path: Path) -> Iterator[Path]:
    with craton.option_context(data=tmp_path / "data", small_rows=0):
        yield tmp_path / "data"


def table(rows: int = 600, seed: int = 0) -> pandas.DataFrame:
    return keyed_table(rows, seed, 50, 70)


def equal(found: Any, expected: pandas.DataFrame | pandas.Series) -> None:
    if isinstance(expected, pandas.DataFrame):
        pandas.testing.assert_frame_equal(pandas.DataFrame(found), expected)
    else:
        pandas.testing.assert_series_equal(pandas.Series(found), expected)


def plan(frame: Any) -> str:
    return str(craton.explain(frame, stage="optimized"))


def test_plans_choose_the_replica_that_suits_them() -> None:
    lines, orders, parts = table(), table(200, 1)[["k", "x"]], table(100, 2)[["p", "x"]]
    craton.save("lines", lines, partition_by="k", replicate_by=["p"], partitions=3)
    craton.save("orders", orders, partition_by="k", partitions=3)
    craton.save("parts", parts, partition_by="p", partitions=3)
    read = craton.read_set
    by_order, by_part = read("lines").merge(read("orders"), on="k"), read("lines").merge(read("parts"), on="p")
    assert plan(by_order).count("hash(k), 3; joined") == 1
    assert plan(by_part).count("hash(p), 3; joined") == 1
    assert "hash(p), 3; grouped" in plan(read("lines").groupby("p")["x"].sum())
    assert "hash(k), 3; no replica suits better" in plan(read("lines").groupby("s")["x"].sum())
    equal(by_order, lines.merge(orders, on="k"))
    equal(by_part, lines.merge(parts, on="p"))
    both = by_order.merge(read("parts"), on="p").groupby("p")["x"].sum()
    equal(both, lines.merge(orders, on="k").merge(parts, on="p").groupby("p")["x"].sum())


def test_filters_choose_a_replica_by_ranges() -> None:
    rows = table()
    craton.save("rows", rows, partition_by="k", replicate_by=["p", "s"], kind="range", partitions=4)
    read = craton.read_set("rows")
    for some, name, expected in (
        (read[read["p"] < 5], "p", rows[rows["p"] < 5]),
        (read[read["k"] == 7], "k", rows[rows["k"] == 7]),
        (read[read["s"] > "bb"], "s", rows[rows["s"] > "bb"]),
    ):
        assert f"filtered by {name}" in plan(some)
        equal(some, expected)


def test_rows_in_order_are_not_sorted() -> None:
    rows = table()
    craton.save("rows", rows, replicate_by=["k"], partitions=3)
    craton.save("rows", rows, mode="append")
    read, expected = craton.read_set("rows"), pandas.concat([rows, rows], ignore_index=True)
    assert "Sort" not in plan(read)
    equal(read, expected)
    equal(read["x"].cumsum(), expected["x"].cumsum())
    grouped = craton.read_set("rows").groupby("k")["x"].sum()
    assert "hash(k), 3; grouped" in plan(grouped)
    equal(grouped, expected.groupby("k")["x"].sum())


KINDS = [
    {"partition_by": "k", "replicate_by": ["p"]},
    {"partition_by": "k", "replicate_by": ["s"], "kind": "range"},
    {"replicate_by": [["p", "k"]]},
    {"partition_by": "k", "replicate_by": ["p"], "format": "parquet"},
]


@pytest.mark.parametrize("layout", KINDS)
@pytest.mark.parametrize("damage", ["missing", "shorter", "changed"])
def test_damaged_files_are_rebuilt(layout: Any, damage: str) -> None:
    first, second = table(), table(100, 5)
    craton.save("rows", first, partitions=3, **layout)
    craton.save("rows", second, mode="append")
    expected = pandas.concat([first, second], ignore_index=True)
    durable = DurableSet("rows")
    version = durable.version()
    contents = {file["name"]: Path(durable.path(file)).read_bytes() for file in version.files}
    for of in range(2):
        for file in version.files_of(of)[::2]:
            path = Path(durable.path(file))
            if damage == "missing":
                path.unlink()
            else:
                bytes_of = contents[file["name"]]
                path.write_bytes(bytes_of[:-9] if damage == "shorter" else bytes_of[:-9] + b"x" * 9)
        damaged = durable.verify(2)
        assert len(damaged) == len(version.files_of(of)[::2])
        if damage != "changed":  # its length shows it, so that the other replica is read
            equal(craton.read_set("rows"), expected)
            equal(craton.read_set("rows").groupby("k")["x"].sum(), expected.groupby("k")["x"].sum())
        assert len(rebuild(durable, version, damaged)) == len(damaged)
        assert durable.verify(2) == durable.verify(1) == {}
        assert {file["name"]: Path(durable.path(file)).read_bytes() for file in version.files} == contents
        assert durable.repair() == []
    equal(craton.read_set("rows"), expected)


def test_files_of_several_replicas_are_rebuilt_if_their_rows_are_elsewhere() -> None:
    rows = table()
    craton.save("rows", rows, partition_by="k", replicate_by=["p", "x"], partitions=4)
    durable = DurableSet("rows")
    version = durable.version()
    for files in itertools.combinations([file for of in (0, 1) for file in version.files_of(of)], 3):
        for file in files:
            Path(durable.path(file)).unlink()
        equal(craton.read_set("rows"), rows)
        assert len(rebuild(durable, version, durable.verify(1))) == 3
        assert durable.verify(1) == {}


def test_rows_that_are_lost_are_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    rows = table()
    craton.save("rows", rows, partition_by="k", replicate_by=["p"], partitions=3)
    durable = DurableSet("rows")
    version = durable.version()
    for of in (0, 1):
        Path(durable.path(version.files_of(of)[0])).unlink()
    with pytest.raises(CorruptSet, match="no replica is complete"):
        craton.read_set("rows")
    with pytest.raises(CorruptSet, match="in no other file"):
        rebuild(durable, version, durable.verify(1))
    assert main(["repair", "rows"]) == 1
    assert "in no other file" in capsys.readouterr().err
    craton.save("plain", rows)
    Path(DurableSet("plain").path(DurableSet("plain").version().files[0])).unlink()
    with pytest.raises(CorruptSet):
        craton.read_set("plain")


def test_the_command_rebuilds(capsys: pytest.CaptureFixture[str]) -> None:
    craton.save("rows", table(), partition_by="k", replicate_by=["p"], partitions=3)
    durable = DurableSet("rows")
    path = Path(durable.path(durable.version().files[1]))
    path.unlink()
    assert main(["verify", "rows"]) == 1
    assert main(["repair"]) == 0
    assert f"rebuilt {path}" in capsys.readouterr().out
    assert main(["verify", "rows"]) == 0
    assert list(craton.catalog()["partitioned_by"]) == ["hash(k), 3; hash(p), 3"]
