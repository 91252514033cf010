"""Pipelines on a session whose workers are on several machines, which the local host simulates: steps run on all of them."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pandas as pd
import psutil
import pyarrow as pa
import pytest

import craton
from craton.cluster.sessions import ClusterSession
from craton.pipeline import PipelineFailed, RunSettings
from craton.store import default_store

pytestmark = pytest.mark.usefixtures("no_session")

ROWS = 200_000
FRESH = RunSettings(cache=False)


@craton.step(source=True)
def numbers(*, seed: int = 0) -> pa.Table:
    return pa.table({"n": np.arange(ROWS) + seed, "part": np.arange(ROWS) % 8})


@craton.step(map_over="numbers", partitions=6)
def squared(numbers: pd.DataFrame) -> pd.DataFrame:
    import time

    time.sleep(0.2)  # so that all machines get one
    return numbers.assign(square=numbers["n"] ** 2, machine=_machine())


def _machine() -> str:
    """What distinguishes the machines: a variable of the process of the second machine's store."""
    return "second" if "CRATON_MEMORY_LIMIT" in os.environ else "first"


def total(squared: pd.DataFrame) -> pd.DataFrame:
    return squared.groupby("part", as_index=False)["square"].sum()


def begun() -> ClusterSession:
    session = craton.init("local", workers=2, threads=1, nodes=2)
    assert isinstance(session, ClusterSession)
    return session


def expected(seed: int = 0) -> pd.DataFrame:
    frame = pd.DataFrame({"n": np.arange(ROWS) + seed, "part": np.arange(ROWS) % 8})
    return frame.assign(square=frame["n"] ** 2).groupby("part", as_index=False)["square"].sum()


def test_steps_run_on_all_machines_and_results_are_those_of_one() -> None:
    pipeline = craton.Pipeline([numbers, squared, total])
    alone = pipeline.run(settings=FRESH)
    with begun():
        for seed in (0, 5):
            result = pipeline.run(settings=FRESH, parameters={"seed": seed})
            pd.testing.assert_frame_equal(result["total"], expected(seed))
            frame = result["squared"]
            assert frame["n"].tolist() == list(range(seed, ROWS + seed))
            assert frame["machine"].nunique() == 2
            assert result.bytes_copied > 0.3 * frame.memory_usage(index=False)[["n", "part", "square"]].sum()
        pd.testing.assert_frame_equal(alone["total"], expected())
    pd.testing.assert_frame_equal(pipeline.run(settings=FRESH)["total"], expected())  # on this machine again


def fails(squared: pd.DataFrame, *, how: str) -> Any:
    if how == "raises":
        raise ValueError(f"{len(squared)} rows are too many")
    if how == "ends":
        os._exit(3)
    return 7


@pytest.mark.parametrize(
    ("how", "text"), [("raises", "200000 rows are too many"), ("ends", "ended"), ("returns", "int")]
)
def test_steps_that_fail_on_other_machines(how: str, text: str) -> None:
    made = [craton.step(name=f"fails{i}", cpus=1)(fails) for i in range(3)]
    pipeline = craton.Pipeline([numbers, squared, *made, total], parameters={"how": how})
    with begun():
        with pytest.raises(PipelineFailed, match=text) as raised:
            pipeline.run(settings=FRESH)
        assert sorted(raised.value.errors) == ["fails0", "fails1", "fails2"]
        pd.testing.assert_frame_equal(raised.value.result["total"], expected())
        result = craton.Pipeline([numbers, squared, total]).run(settings=FRESH)
        pd.testing.assert_frame_equal(result["total"], expected())


def test_a_machine_that_is_lost() -> None:
    again = craton.step(map_over="numbers", partitions=6, retries=4, name="squared")(squared)
    pipeline = craton.Pipeline([numbers, again, total])
    with begun() as session:
        pd.testing.assert_frame_equal(pipeline.run(settings=FRESH)["total"], expected())
        address = session.runner.store_address(1)
        killed = [one for one in psutil.Process().children(recursive=True) if _listens(one, address)]
        assert len(killed) == 1
        killed[0].kill()
        pd.testing.assert_frame_equal(pipeline.run(settings=FRESH)["total"], expected())


def _listens(process: psutil.Process, address: str) -> bool:
    port = int(address.rpartition(":")[2])
    try:
        return any(
            one.laddr and one.laddr.port == port and one.status == psutil.CONN_LISTEN
            for one in process.net_connections()
        )
    except psutil.Error:
        return False


def test_nothing_is_left_behind() -> None:
    pipeline = craton.Pipeline([numbers, squared, total])
    pipeline.run(settings=FRESH)
    before = default_store().counters()["page_memory"]
    with begun():
        result = pipeline.run(settings=FRESH)
        del result
        assert default_store().counters()["page_memory"] <= before
