"""The cluster recipes: those for Slurm are run on this machine with stand-ins for Slurm's commands, those for Kubernetes are parsed."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from craton.cluster.sessions import parse_cluster

ROOT = Path(__file__).parents[2]
RECIPES = ROOT / "examples" / "clusters"

_PROGRAM = """
import os, sys
import craton.cluster
from craton.schedule.tasks import Task, new_key

class Own:
    def run(self, inputs, sink):
        return os.getpid()

session = craton.cluster.current()
(output,) = session.call(session.runner.run([Task(new_key(), Own())]))
print("ran on", session.host, output.value != os.getpid(), sys.argv[1:])
"""


@pytest.mark.parametrize("name", ["slurm-ray.sh", "slurm-dask.sh"])
def test_scripts_are_shell(name: str) -> None:
    subprocess.run(["bash", "-n", RECIPES / name], check=True)
    assert os.access(RECIPES / name, os.X_OK)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["ray", "dask"])
def test_scripts_run(engine: str, tmp_path: Path) -> None:
    if importlib.util.find_spec("distributed" if engine == "dask" else engine) is None:
        pytest.skip(f"{engine} is not installed")
    # Stand-ins for Slurm's commands on a cluster of one machine.
    (tmp_path / "scontrol").write_text("#!/bin/bash\necho 127.0.0.1\n")
    (tmp_path / "srun").write_text('#!/bin/bash\nwhile [[ $1 == --* ]]; do shift; done\nexec "$@"\n')
    for name in ("scontrol", "srun"):
        (tmp_path / name).chmod(0o755)
    program = tmp_path / "program.py"
    program.write_text(_PROGRAM)
    given = {
        "SLURM_JOB_NODELIST": "one", "SLURM_JOB_ID": str(os.getpid()), "SLURM_NNODES": "1", "SLURM_CPUS_PER_TASK": "2",
        "PATH": os.pathsep.join([str(tmp_path), os.path.dirname(sys.executable), os.environ["PATH"]]), "PYTHONPATH": str(ROOT / "python"),
    }  # fmt: skip
    ended = subprocess.run(
        [RECIPES / f"slurm-{engine}.sh", program, "argument"],
        env={**os.environ, **given},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ended.returncode == 0, ended.stderr
    assert f"ran on {engine} True ['argument']" in ended.stdout


def documents(name: str) -> dict[str, dict[str, Any]]:
    return {each["kind"]: each for each in yaml.safe_load_all((RECIPES / name).read_text())}


def test_kuberay() -> None:
    job = documents("kuberay.yaml")["RayJob"]["spec"]
    words = job["entrypoint"].split()
    assert parse_cluster(words[words.index("--cluster") + 1]) == ("ray", {"address": "auto"})
    groups = [job["rayClusterSpec"]["headGroupSpec"], *job["rayClusterSpec"]["workerGroupSpecs"]]
    assert len({group["template"]["spec"]["containers"][0]["image"] for group in groups}) == 1


def test_dask_operator() -> None:
    found = documents("dask-operator.yaml")
    cluster, job = found["DaskCluster"], found["Job"]["spec"]["template"]["spec"]
    service = cluster["spec"]["scheduler"]["service"]
    (variable,) = job["containers"][0]["env"]
    host, arguments = parse_cluster(variable["value"])
    assert (variable["name"], host) == ("CRATON_CLUSTER", "dask")
    name = f"{cluster['metadata']['name']}-scheduler"
    assert arguments["address"] == f"tcp://{name}:{service['ports'][0]['port']}"
    assert service["selector"]["dask.org/cluster-name"] == cluster["metadata"]["name"]
