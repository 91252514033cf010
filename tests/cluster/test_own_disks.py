"""Tasks that read files of places run on the machines that have these places on their own disks; results do not change."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest

import craton
import craton.pandas as cpd
from craton.cluster.folders import FolderMap
from craton.cluster.recovery import Recovery
from craton.engine.tiled import TiledEngine, current_engine, using
from craton.lower.tiled import Settings
from craton.memory import clear_memory

pytestmark = pytest.mark.usefixtures("no_session")

PLACES = 4


@pytest.fixture
def places(tmp_path: Path) -> Iterator[list[str]]:
    folders = [str(tmp_path / f"place{number}") for number in range(PLACES)]
    with craton.option_context(data=str(tmp_path / "data"), data_places=folders, small_rows=0):
        yield folders


def machine_of(folder: str) -> int:
    return int(Path(folder).parts[-3].removeprefix("place")) % 2


def programs(pd: Any, lines: Any) -> list[Any]:
    return [
        lines.groupby("k")["v"].agg(["sum", "count"]),
        lines[lines["v"] > 500].sort_values(["v", "n"]).head(50),
        lines.merge(lines.groupby("k", as_index=False)["v"].max(), on=["k", "v"])["n"].sum(),
        len(lines.drop_duplicates("k")),
    ]


def test_tasks_run_where_their_places_are(places: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    rows = 60_000
    table = pandas.DataFrame({"k": rng.integers(0, 3000, rows), "v": rng.integers(0, 1000, rows), "n": range(rows)})
    craton.save("lines", table, partition_by="k", partitions=16, losses=1)

    async def answer(_: Any, machine: int, folders: Sequence[str]) -> list[bool]:
        return [machine_of(folder) == machine for folder in folders]

    placed: list[tuple[set[int], int]] = []
    place = Recovery._place

    def recorded(self: Any, tasks: Any, living: Any) -> Any:
        bands, orders = place(self, tasks, living)
        nodes = [band.node for band in self._members.bands]
        placed.extend(
            ({machine_of(folder) for folder in task.folders}, nodes[band])
            for task, band in zip(tasks, bands, strict=True)
            if task.folders
        )
        return bands, orders

    monkeypatch.setattr(FolderMap, "_answer", answer)
    monkeypatch.setattr(Recovery, "_place", recorded)
    expected = programs(pandas, table)
    with craton.init("local", workers=4, threads=1, nodes=2):
        own = current_engine()
        assert isinstance(own, TiledEngine)
        settings = Settings(tiles=16, collapse_bytes=0, broadcast_bytes=1)
        with using(TiledEngine(own.runner, own.call, settings, least_bytes=0, where=own.where)):
            clear_memory()
            for got, wanted in zip(programs(cpd, cpd.read_set("lines")), expected, strict=True):
                if isinstance(wanted, pandas.DataFrame):
                    pandas.testing.assert_frame_equal(pandas.DataFrame(got), wanted)
                else:
                    assert got == wanted
            # A place is lost while the session runs.
            for folder, _, files in os.walk(places[1]):
                for file in files:
                    os.unlink(os.path.join(folder, file))
            clear_memory()
            assert int(cpd.read_set("lines")["v"].sum()) == int(table["v"].sum())
    alone = [(machines, node) for machines, node in placed if len(machines) == 1]
    assert len(alone) >= 16
    there = sum(node in machines for machines, node in alone)
    assert there >= 0.75 * len(alone), f"{there} of {len(alone)} tasks ran on the machine that has their files"
