"""Sessions: their beginning, and their end without leftovers, even when the driver is killed."""

from __future__ import annotations

import concurrent.futures
import gc
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import watching
from jobs import Pid, Sleeps
from watching import environment, runs, until

import craton
import craton.cluster
from craton.cluster.sessions import EmbeddedSession, parse_cluster
from craton.schedule.tasks import Task, new_key

ROOT = Path(__file__).parents[2]


pytestmark = pytest.mark.usefixtures("no_session")


def test_no_session_is_begun_by_default() -> None:
    assert craton.cluster.current() is None
    with pytest.raises(RuntimeError, match=r"craton\.init\(\) begins one"):
        craton.cluster.info()


def test_embedded() -> None:
    with craton.init() as session:
        assert craton.cluster.current() is session
        assert isinstance(session, EmbeddedSession)
        task = Task(new_key(), Pid())
        (output,) = session.call(session.runner.run([task]))
        assert output.value == os.getpid()
        assert craton.cluster.info()["pid"].tolist() == [os.getpid()]
        assert "embedded" in session._repr_html_()
    assert craton.cluster.current() is None
    assert repr(session) == "<Session on embedded, ended>"


def test_embedded_within_a_running_loop() -> None:
    import asyncio

    async def go() -> int:
        with craton.init() as session:
            (output,) = session.call(session.runner.run([Task(new_key(), Pid())]))
        await asyncio.sleep(0)
        return output.value

    assert asyncio.run(go()) == os.getpid()


def test_one_session_at_a_time() -> None:
    first = craton.init("local", workers=1)
    assert craton.init("local", workers=1) is first
    with pytest.raises(RuntimeError, match=r"there is a session with other arguments, <Session on local: 1 worker, "):
        craton.init("local", workers=2)
    pids = first.info()["pid"].tolist()
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(first.call(first.runner.run([Task(new_key(), Pid())]))))
    thread.start()
    thread.join()
    assert [output.value for output in found[0]] == pids
    craton.shutdown()
    assert first.closed
    assert not any(runs(pid) for pid in pids)
    with pytest.raises(RuntimeError, match="the session has ended"):
        first.call(first.runner.run([Task(new_key(), Pid())]))
    with craton.init("local", workers=1, memory_limit="300MB", policy="round-robin") as second:
        assert second.info()["memory_limit"].tolist() == [300_000_000]
        tasks = [Task(new_key(), Pid()) for _ in range(5)]
        assert {output.value for output in second.call(second.runner.run(tasks))} == set(second.info()["pid"])


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"host": "slurm"}, ValueError, "host must be one of 'embedded', 'local', 'ray', 'dask', not 'slurm'"),
        ({"host": "local", "workers": 0}, ValueError, "workers must be an integer of at least 1, not 0"),
        ({"host": "local", "policy": "best"}, ValueError, "policy must be one of 'ncs'"),
        ({"host": "local", "memory_limit": "much"}, ValueError, "not a number of bytes"),
    ],
)
def test_invalid_arguments_of_init(arguments: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        craton.init(**arguments)
    assert craton.cluster.current() is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("embedded", ("embedded", {})),
        ("local", ("local", {})),
        ("local:3", ("local", {"workers": 3})),
        ("ray", ("ray", {"address": None})),
        ("ray:auto", ("ray", {"address": "auto"})),
        ("ray://head:10001", ("ray", {"address": "ray://head:10001"})),
        ("dask://head:8786", ("dask", {"address": "tcp://head:8786"})),
        ("dask:tls://head:8786", ("dask", {"address": "tls://head:8786"})),
    ],
)
def test_clusters_as_text(text: str, expected: Any) -> None:
    assert parse_cluster(text) == expected


@pytest.mark.parametrize("text", ["local:0", "local:many", "embedded:2", "", "spark://x"])
def test_text_that_names_no_cluster(text: str) -> None:
    with pytest.raises(ValueError, match="names no cluster"):
        parse_cluster(text)


_PROGRAM = """
import craton, os, sys
from craton.schedule.tasks import Task, new_key

class Own:  # workers cannot import it
    def run(self, inputs, sink):
        return os.getpid()

session = craton.cluster.current()
outputs = session.call(session.runner.run([Task(new_key(), Own()) for _ in range(9)]))
print(session, os.getpid() in {output.value for output in outputs}, sys.argv[1:])
"""


def test_the_command_line_and_the_environment(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(_PROGRAM)
    for arguments, more in (
        (["-m", "craton", "--cluster", "local:1", str(program), "x"], {}),
        ([str(program), "x"], {"CRATON_CLUSTER": "local:1"}),
    ):
        ended = subprocess.run(
            [sys.executable, *arguments], env=environment(**more), capture_output=True, text=True, timeout=60
        )
        assert (ended.returncode, ended.stderr) == (0, "")
        assert ended.stdout.startswith("<Session on local: 1 worker")
        assert ended.stdout.endswith("> False ['x']\n")


_DRIVER = """
import sys, time
import craton
from jobs import Sleeps
from craton.schedule.tasks import Task, new_key
from pathlib import Path

if __name__ == "__main__":
    session = craton.init("local", workers=2, threads=1, nodes=2)
    print(*session.info()["pid"], flush=True)
    begun = [Path(path) for path in sys.argv[1:]]
    session.call(session.runner.run([Task(new_key(), Sleeps(600, deep=True, begun=path)) for path in begun]))
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_nothing_survives_the_driver(tmp_path: Path, number: signal.Signals) -> None:
    program, temporary = tmp_path / "driver.py", tmp_path / "temporary"
    program.write_text(_DRIVER)
    temporary.mkdir()
    begun = [tmp_path / str(name) for name in range(2)]
    driver = watching.driver(program, *begun, TMPDIR=str(temporary))
    try:
        assert driver.stdout is not None
        line = driver.stdout.readline()
        if not line:
            pytest.fail(driver.communicate()[1])
        pids = [int(pid) for pid in line.split()]
        until(lambda: all(path.exists() for path in begun))
        driver.send_signal(number)
        assert driver.wait(20) in (-number, 130)
        until(lambda: not any(runs(pid) for pid in pids), 5)
        until(lambda: not list(temporary.iterdir()), 10)
    finally:
        driver.kill()
        driver.communicate()


def test_a_fork_has_no_session() -> None:
    with craton.init("local", workers=1) as session:
        pid = os.fork()
        if not pid:
            os._exit(0 if session.closed and craton.cluster.current() is None else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert not session.closed


def test_waiting_runs_end_with_the_session(tmp_path: Path) -> None:
    session = craton.init("local", workers=1)
    raised: list[BaseException] = []

    def wait() -> None:
        try:
            session.call(session.runner.run([Task(new_key(), Sleeps(60, begun=tmp_path / "begun"))]))
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    until((tmp_path / "begun").exists)
    craton.shutdown()
    thread.join(10)
    assert len(raised) == 1
    assert "the session has ended" in str(raised[0])


def test_calls_and_messages_while_a_session_ends(recwarn: pytest.WarningsRecorder) -> None:
    """Every call that comes while the session shuts down ends, and no coroutine of a message is left unawaited."""
    unraised: list[Any] = []
    before, sys.unraisablehook = sys.unraisablehook, unraised.append
    ended: list[str] = []
    try:
        for turn in range(3):
            session = craton.init("local", workers=1, threads=1)
            runner = session.runner
            assert hasattr(runner, "_loop")
            kept = [session.call(runner.put(pa.table({"x": [turn]}))) for _ in range(8)]
            going = threading.Event()

            def asks(session: Any = session, runner: Any = runner, going: threading.Event = going) -> None:
                going.set()
                try:
                    while True:
                        session.call(runner.run([Task(new_key(), Pid())]))
                except (RuntimeError, concurrent.futures.CancelledError) as error:
                    ended.append(type(error).__name__)

            threads = [threading.Thread(target=asks) for _ in range(3)]
            for thread in threads:
                thread.start()
            going.wait(10)

            def released(runner: Any = runner, kept: Any = kept) -> None:
                pending = runner._members._tasks
                before = set(pending)
                for output in kept:
                    runner.release([output.key])
                runner._send_forgotten()
                for task in pending - before:
                    task.cancel()

            session._loop.call_soon_threadsafe(released)
            session.shutdown()
            for thread in threads:
                thread.join(20)
                assert not thread.is_alive()
        gc.collect()
    finally:
        sys.unraisablehook = before
    assert len(ended) == 9
    assert not unraised
    assert not [one for one in recwarn if "never awaited" in str(one.message)]
