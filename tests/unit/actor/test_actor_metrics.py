"""The metrics of pools, and their formats."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import numpy as np
import pytest

import craton.actor as xo
from craton.actor.allocate_strategy import ProcessIndex
from craton.actor.group_metrics import bound, quantile
from craton.actor.pool.duration_histogram import BUCKETS, DurationHistogram


class Busy(xo.Actor):
    def __init__(self) -> None:
        self.gate = asyncio.Event()

    def echo(self, value: Any) -> Any:
        return value

    def fail(self) -> None:
        raise KeyError("no")

    async def hold(self) -> None:
        await self.gate.wait()

    @xo.no_lock
    def open(self) -> None:
        self.gate.set()


def test_metrics_of_a_group() -> None:
    async def check() -> None:
        async with await xo.create_actor_pool("127.0.0.1", n_process=2, labels=[None, 'a "b"', "c"]) as pool:
            ref = await xo.create_actor(Busy, address=pool.external_address, allocate_strategy=ProcessIndex(1))
            before = (await xo.metrics(ref.address)).frame().loc[ref.address]
            data = np.arange(100_000)
            for _ in range(3):
                await ref.echo(data)
            with pytest.raises(KeyError):
                await ref.fail()
            waiting = [asyncio.create_task(ref.hold()) for _ in range(4)]
            async with asyncio.timeout(20):
                while (found := await xo.metrics(pool.external_address)).pools[1]["queue"] != 3:
                    await asyncio.sleep(0)
            frame = found.frame()
            row = frame.loc[ref.address]
            assert frame["label"].tolist()[1:] == ['a "b"', "c"]
            assert row["running"] == 4
            assert row["actors"] == 1
            assert row["connections"] >= 1
            assert row["calls"] - before["calls"] >= 5
            assert row["errors"] - before["errors"] == 1
            assert 3 * data.nbytes < row["bytes_in"] - before["bytes_in"] < 3 * data.nbytes + 100_000
            assert 3 * data.nbytes < row["bytes_out"] - before["bytes_out"] < 3 * data.nbytes + 100_000
            assert row["memory"] > 1 << 20
            assert 0 < row["p50"] <= row["p99"]
            assert row["pid"] == pool.sub_processes[ref.address].pid
            await ref.open()
            await asyncio.gather(*waiting)
            later = (await xo.metrics(pool.external_address)).pools[1]
            assert (later["queue"], later["running"]) == (0, 0)
            _is_prometheus(found.prometheus())

    asyncio.run(check())


def _is_prometheus(text: str) -> None:
    assert text.endswith("\n")
    typed: dict[str, str] = {}
    values: dict[str, float] = {}
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            name, kind = line[7:].split()
            typed[name] = kind
        elif not line.startswith("# HELP "):
            found = re.fullmatch(r'(\w+)\{((?:\w+="(?:[^"\\]|\\.)*",?)+)\} (\S+)', line)
            assert found, line
            values[f"{found[1]}{{{found[2]}}}"] = float(found[3])
            assert found[1] in typed or re.sub("_(bucket|sum|count)$", "", found[1]) in typed
    assert typed["craton_actor_calls_total"] == "counter"
    assert typed["craton_actor_handling_seconds"] == "histogram"
    assert r'label="a \"b\""' in text
    infinite = [key for key in values if 'index="1"' in key and 'le="+Inf"' in key]
    (count,) = [
        values[key] for key in values if 'index="1"' in key and key.startswith("craton_actor_handling_seconds_count")
    ]
    assert [values[key] for key in infinite] == [count]
    buckets = [values[key] for key in values if "_bucket" in key and 'index="1"' in key]
    assert buckets == sorted(buckets)
    assert count >= 4


def test_metrics_of_a_dead_pool() -> None:
    async def check() -> None:
        pool = await xo.create_actor_pool("127.0.0.1", n_process=1, auto_recover=False)
        async with pool:
            (address,) = pool.sub_processes
            process = pool.sub_processes[address]
            process.kill()
            await process.wait(20)
            found = await xo.metrics(pool.external_address)
            row = found.frame().loc[address]
            assert row[["pid", "calls", "p99"]].isna().all()
            assert "error" in found.pools[1]
            assert f'craton_actor_up{{pool="{address}",index="1",label=""}} 0' in found.prometheus()
        with pytest.raises(xo.ServerClosed):
            await xo.metrics(pool.external_address)

    asyncio.run(check())


def test_bounds_of_buckets() -> None:
    histogram = DurationHistogram()
    for place in range(BUCKETS - 1):
        histogram.record(0.75 * bound(place))
    histogram.record(1e9)
    assert histogram.buckets == [1] * BUCKETS
    assert quantile(histogram.buckets, 0.5) == bound(BUCKETS // 2 - 1)
    assert quantile([0] * BUCKETS, 0.5) is None
