"""Hosts on distributed engines, beyond the contract of hosts: machines, lost launchers, and drivers that die."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import watching
from jobs import Pid, graph
from watching import environment, runs, until

import craton
import craton.cluster
from craton.cluster.hosts.base import WorkerSpec
from craton.cluster.hosts.engine import EngineHost, Launched, address_towards, most_threads
from craton.cluster.hosts.launcher import MachineInfo, machine_info
from craton.cluster.sessions import ClusterSession, Session
from craton.schedule.tasks import Output, Task, new_key

ROOT = Path(__file__).parents[2]


pytestmark = pytest.mark.usefixtures("no_session")


def run(session: Session, tasks: list[Task]) -> list[Output]:
    return session.call(session.runner.run(tasks))


def launcher_of(session: Session, worker: int) -> psutil.Process:
    """Return the engine's process that runs a worker's launcher."""
    found = psutil.Process(session.info()["pid"][worker]).parent()
    assert found is not None
    assert found.pid != os.getpid()
    return found


def check_that_a_lost_launcher_is_replaced(session: Session) -> None:
    before = launcher_of(session, 1)
    old = session.info()["pid"].tolist()
    before.kill()
    tasks = graph(5, 100)
    assert len(run(session, tasks)) == 100
    until(lambda: bool(session.info()["alive"].all()))
    new = session.info()["pid"].tolist()
    assert new[0] == old[0]
    assert new[1] != old[1]
    assert not runs(old[1])
    assert {output.value for output in run(session, [Task(new_key(), Pid(0.05)) for _ in range(20)])} == set(new)


# ---- the common base ----


class Nowhere(EngineHost):
    """A fake engine with launchers on the given machines."""

    name = "nowhere"

    def __init__(self, known: list[MachineInfo], **more: Any) -> None:
        super().__init__(None, **more)
        self.known, self.open_ = known, False

    def connect(self, spec: WorkerSpec) -> int:
        self.open_ = True
        return len(self.known)

    def launch(self, number: int) -> Launched:
        return Launched(None, "127.0.0.1", self.known[number], 1)

    def serve(self, launched: Launched, key: bytes, host: str) -> str:
        raise OSError("nobody is there")

    def disconnect(self) -> None:
        self.open_ = False


def test_one_version_everywhere() -> None:
    own = machine_info()
    host = Nowhere([own, MachineInfo("0.0.0", own.machine, "elsewhere", 1)])
    with pytest.raises(RuntimeError, match=r"elsewhere has Craton 0\.0\.0, and this process"):
        host.open(WorkerSpec())
    assert not host.open_


def test_the_address_of_the_driver() -> None:
    own = machine_info()
    other = MachineInfo(own.version, "another machine", "another", 1)
    assert Nowhere([own]).open(WorkerSpec()) == "127.0.0.1"
    assert Nowhere([own, other], driver="driver.example").open(WorkerSpec()) == "driver.example"
    assert Nowhere([own, other]).open(WorkerSpec()) == address_towards("127.0.0.1") == "127.0.0.1"


def test_a_machine_that_cannot_be_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Nowhere([machine_info()])
    monkeypatch.setattr(ClusterSession, "_make_host", lambda _: host)
    with pytest.raises(RuntimeError, match=r"cannot connect to each other; .*driver=….*nobody is there"):
        craton.init("dask")
    assert not host.open_
    assert craton.cluster.current() is None


def test_as_many_threads_as_fit() -> None:
    assert [most_threads([8, 8], workers) for workers in (1, 2, 3, 16, 17)] == [8, 8, 4, 1, 1]
    assert most_threads([], 1) == 1


def test_an_engine_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ray", "dask"):
        monkeypatch.delitem(sys.modules, f"craton.cluster.hosts.{name}", raising=False)
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ModuleNotFoundError, match=r"'ray' needs ray: pip install 'craton\[ray\]'"):
        craton.init("ray")
    with pytest.raises(ModuleNotFoundError, match=r"'dask' needs distributed: pip install 'craton\[dask\]'"):
        craton.init("dask")


# ---- Dask ----

_DRIVER = """
import sys
import craton
from jobs import Sleeps
from craton.schedule.tasks import Task, new_key
from pathlib import Path

session = craton.init(sys.argv[1], address=eval(sys.argv[2]), workers=2, threads=1)
print(*session.info()["pid"], flush=True)
session.call(session.runner.run([Task(new_key(), Sleeps(600, deep=True, begun=Path(path))) for path in sys.argv[3:]]))
"""


def check_that_nothing_survives(host: str, address: str | None, number: signal.Signals, folder: Path) -> None:
    """Kill a driver, and check that its workers end, and the engine's processes that it started."""
    program = folder / "driver.py"
    program.write_text(_DRIVER)
    begun = [folder / str(name) for name in range(2)]
    driver = watching.driver(program, host, repr(address), *begun)
    try:
        assert driver.stdout is not None
        line = driver.stdout.readline()
        while line and not line.replace(" ", "").strip().isdecimal():
            line = driver.stdout.readline()
        if not line:
            pytest.fail(driver.communicate()[1])
        pids = {int(pid) for pid in line.split()}
        # Ray's own agents notice after a minute.
        pids |= {one.pid for one in psutil.Process(driver.pid).children(True) if "Agent" not in "".join(one.cmdline())}
        until(lambda: all(path.exists() for path in begun))
        driver.send_signal(number)
        driver.wait(30)
        until(lambda: not any(runs(pid) for pid in pids))
    finally:
        driver.kill()
        driver.communicate()


@pytest.fixture(scope="module")
def dask(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Dask cluster of two processes with nannies."""
    pytest.importorskip("distributed")
    program = (
        "import distributed, sys\n"
        "if __name__ == '__main__':\n"
        "    with distributed.LocalCluster(n_workers=2, threads_per_worker=3, dashboard_address='127.0.0.1:0') as cluster:\n"
        "        print(cluster.scheduler_address, flush=True)\n"
        "        sys.stdin.read()\n"
    )
    script = tmp_path_factory.mktemp("dask") / "cluster.py"
    script.write_text(program)
    cluster = subprocess.Popen(
        [sys.executable, str(script)], env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert cluster.stdout is not None
        yield cluster.stdout.readline().strip()
    finally:
        cluster.communicate("")


def test_an_existing_dask_cluster(dask: str) -> None:
    with craton.init("dask", address=dask) as session:
        assert [band.threads for band in session.runner.bands] == [3, 3]
        assert len({launcher_of(session, worker).pid for worker in range(2)}) == 2
        assert session.info()["node"].nunique() == 1
        outputs = run(session, graph(3, 100))
        assert {output.band for output in outputs} == {0, 1}
        pids = session.info()["pid"].tolist()
        for process in psutil.process_iter(["cmdline"]):
            assert secret(session) not in " ".join(process.info["cmdline"] or [])
    until(lambda: not any(runs(pid) for pid in pids))
    assert run_elsewhere(dask) == 2


def secret(session: Session) -> str:
    from craton.actor.wire.peers import Peers

    async def key() -> str:
        return Peers.here().key().decode()

    return session.call(key())


def run_elsewhere(dask: str) -> int:
    """Run a session on a Dask cluster, and return the cluster's number of workers afterwards."""
    import distributed

    with distributed.Client(dask, set_as_default=False) as client:
        with craton.init("dask", address=client, workers=1) as session:
            assert "1 worker, 3 threads" in repr(session)
        assert client.submit(sum, [1, 2]).result(20) == 3
        return len(client.scheduler_info(n_workers=-1)["workers"])


def test_frames_are_sent_to_dask_and_back(dask: str) -> None:
    import distributed
    import pandas as pd

    import craton.pandas as cpd

    def totals(frame: Any) -> Any:
        return frame[frame["v"] > 1].groupby("k")["v"].sum()

    plain = pd.DataFrame({"k": ["a", "b", "a", "b"], "v": [1, 2, 3, 4]})
    with distributed.Client(dask, set_as_default=False) as client:
        here = cpd.DataFrame(plain)
        for sent in (here, here.groupby("k")):
            work = totals if sent is here else (lambda groups: groups["v"].sum())
            found = client.submit(work, sent, pure=False).result(60)
            theirs = work(plain if sent is here else plain.groupby("k"))
            assert type(found) is cpd.Series
            pd.testing.assert_series_equal(pd.Series(found), theirs)


def test_dask_loses_a_worker_and_has_another(dask: str) -> None:
    with craton.init("dask", address=dask, workers=2, threads=1) as session:
        check_that_a_lost_launcher_is_replaced(session)


@pytest.mark.slow
def test_dask_loses_a_machine(dask: str) -> None:
    with craton.init("dask", address=dask, workers=2, threads=1, nodes=2) as session:
        run(session, kept := graph(4, 50))
        check_that_a_lost_launcher_is_replaced(session)
        for task in kept:
            session.call(session.runner.fetch(task.key))


def test_dask_has_too_few_workers(dask: str) -> None:
    with pytest.raises(RuntimeError, match=r"Dask has 2 workers at tcp://.* after 0\.5 s, expected 5"):
        craton.init("dask", address=dask, workers=5, timeout=0.5)
    with pytest.raises(OSError):
        craton.init("dask", address="tcp://127.0.0.1:1", timeout=0.5)
    assert craton.cluster.current() is None


def test_workers_of_dask_end_with_the_driver(dask: str, tmp_path: Path) -> None:
    check_that_nothing_survives("dask", dask, signal.SIGKILL, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_started_dask_cluster_ends_with_the_driver(tmp_path: Path, number: signal.Signals) -> None:
    pytest.importorskip("distributed")
    check_that_nothing_survives("dask", None, number, tmp_path)


# ---- Ray ----


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_started_ray_cluster_ends_with_the_driver(tmp_path: Path, number: signal.Signals) -> None:
    pytest.importorskip("ray")
    check_that_nothing_survives("ray", None, number, tmp_path)


@pytest.mark.slow
def test_an_existing_ray_cluster(tmp_path: Path) -> None:
    ray = pytest.importorskip("ray")
    ray.init("local", num_cpus=3, include_dashboard=False, object_store_memory=100 << 20, log_to_driver=False)
    try:
        before = signal.getsignal(signal.SIGTERM)
        with craton.init("ray", runtime_env={"env_vars": {"GREETING": "hello"}}, env={"OTHER": "too"}) as session:
            assert [band.threads for band in session.runner.bands] == [1, 1, 1]
            (output,) = run(session, [Task(new_key(), Variables())])
            assert output.value == ("hello", "too", os.getcwd())
            check_that_a_lost_launcher_is_replaced(session)
            pids = [*session.info()["pid"], launcher_of(session, 0).pid]
        until(lambda: not any(runs(pid) for pid in pids))
        assert signal.getsignal(signal.SIGTERM) is before
        assert ray.is_initialized()
        until(lambda: ray.available_resources().get("CPU") == 3)
        with pytest.raises(RuntimeError, match=r"Ray found no room for 4 workers with \{'CPU': 1\} each within 0\.5 s"):
            craton.init("ray", workers=4, timeout=0.5)
        until(lambda: ray.available_resources().get("CPU") == 3)
    finally:
        ray.shutdown()


class Variables:
    """Returns environment variables and the working directory of a worker."""

    def run(self, inputs: Any, sink: Any) -> tuple[str | None, str | None, str]:
        return os.environ.get("GREETING"), os.environ.get("OTHER"), os.getcwd()
