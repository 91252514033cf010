"""SPMD programs and sessions inside the tasks of Dask and Ray: alone, several at once, and on a session of the same cluster."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.cluster

_JOBS = """
import numpy as np
import pandas


def program(ranks):
    from craton.spmd import Executor, frames, gather, scatter

    def work(part, env):
        shared = float(env.comm.allreduce(np.full(10, env.rank + 1.0))[0])
        return shared, frames.groupby(part, "k", env=env).agg(total=("x", "sum"))

    frame = pandas.DataFrame({"k": [1, 2, 1] * 1000, "x": range(3000)})
    with Executor(ranks) as ex:
        found = ex.run(work, scatter(frame, ex)).results()
    assert len({shared for shared, _ in found}) == 1
    whole = pandas.concat([part for _, part in found])
    assert whole["total"].to_dict() == frame.groupby("k")["x"].sum().to_dict()
    return found[0][0]


def on_a_session(host, **given):
    import craton
    import craton.pandas as pd
    from craton.spmd import Executor

    with craton.init(host, threads=1, **given):
        with Executor(2) as ex:
            found = ex.run(lambda env: int(env.comm.allreduce(env.rank + 1))).results()
        with craton.option_context(small_rows=0):
            frame = pd.DataFrame({"k": [1, 2, 1] * 1000, "x": range(3000)})
            return found, int(frame.groupby("k")["x"].sum().shift().sum())
"""

_DASK = (
    _JOBS
    + """

def in_dask():
    from distributed import worker_client

    with worker_client() as client:
        return on_a_session("dask", address=client.scheduler.address, workers=2)


if __name__ == "__main__":
    from distributed import Client, LocalCluster

    with LocalCluster(n_workers=2, threads_per_worker=2, dashboard_address=None) as cluster, Client(cluster) as client:
        assert client.submit(program, 2).result() == 3.0
        assert client.gather([client.submit(program, 3, pure=False) for _ in range(3)]) == [6.0] * 3
        assert client.submit(in_dask).result() == ([3, 3], 2999000)
    print("done")
"""
)

_RAY = (
    _JOBS
    + """

import ray


@ray.remote
class Job:
    def run(self):
        return program(3)


ray.init(num_cpus=4, include_dashboard=False, object_store_memory=100 << 20)
assert ray.get(ray.remote(program).remote(2)) == 3.0
assert ray.get(Job.remote().run.remote()) == 6.0
assert ray.get(ray.remote(on_a_session).remote("ray", workers=1)) == ([3, 3], 2999000)
ray.shutdown()
print("done")
"""
)


@pytest.mark.parametrize(("package", "program"), [("distributed", _DASK), ("ray", _RAY)], ids=["dask", "ray"])
def test_inside_tasks(package: str, program: str, tmp_path: Path) -> None:
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    path = tmp_path / "jobs.py"
    path.write_text(program)
    ran = subprocess.run([sys.executable, "-W", "ignore", str(path)], capture_output=True, text=True, timeout=200)
    assert ran.returncode == 0, ran.stderr[-5000:]
    assert ran.stdout.splitlines()[-1] == "done"
