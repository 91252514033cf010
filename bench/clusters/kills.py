"""The part ``kills``: repeated runs of a pipeline of three joins, in each of which a random worker is killed at a random moment.

Drivers run one after another, each a process with its own session. A driver runs the pipeline repeatedly, and reports each run
as a line of JSON. A run is right if its answer equals the embedded run's, and a clear error if it raises `TaskLost`. A run
without output for ``hang`` seconds is a hang. After each run, all workers of the session must be alive again, and the store
must hold no additional set of pages. After each driver, no process and no file may remain.

    python -m bench.clusters.kills OPTIONS        run as a driver
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import random
import secrets
import selectors
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from bench.harness import conditions
from bench.store.turns import ROOT, bar, say

__all__ = ["measure", "pipeline"]

MARK = "CRATON_BENCH_KILLS"
OUTCOMES = ("right", "clear error", "unclear error", "wrong", "hang", "driver ended")
# Maximum seconds until workers are restarted and pages are dropped after a run, and until processes have ended after a driver.
RECOVERY, END = 20.0, 10.0


def pipeline(pd: Any, folder: str) -> Any:
    """Join four tables, and aggregate the result."""
    lineitem = pd.read_parquet(f"{folder}/lineitem.parquet")
    orders = pd.read_parquet(f"{folder}/orders.parquet")
    customer = pd.read_parquet(f"{folder}/customer.parquet")
    supplier = pd.read_parquet(f"{folder}/supplier.parquet")
    found = (
        lineitem.merge(orders, left_on="l_orderkey", right_on="o_orderkey")
        .merge(customer, left_on="o_custkey", right_on="c_custkey")
        .merge(supplier, left_on="l_suppkey", right_on="s_suppkey")
    )
    found["revenue"] = found["l_extendedprice"] * (1 - found["l_discount"])
    keys = ["c_nationkey", "s_nationkey", "o_orderpriority"]
    totals = found.groupby(keys, as_index=False).agg(revenue=("revenue", "sum"), rows=("l_orderkey", "count"))
    return totals.sort_values(keys).reset_index(drop=True)


# ---- a driver ----


class Driver:
    """Runs the pipeline on a session, and kills a worker in each run.

    Parameters
    ----------
    options : dict
        ``folder``, ``workers``, ``broadcast`` (bytes up to which a side of a join is broadcast).
    """

    def __init__(self, options: dict[str, Any]) -> None:
        import craton
        import craton.pandas
        from craton.cluster.sessions import Session
        from craton.engine.tiled import current_engine
        from craton.lower.tiled.planner import Settings

        self._folder = options["folder"]
        self._expected = self._run()
        self._session: Session = craton.init("local", workers=options["workers"], threads=1)
        engine: Any = current_engine()
        engine.least_bytes, engine.settings = 0, Settings(broadcast_bytes=options["broadcast"])
        self._run()
        began = time.monotonic()
        self._compare(self._run())
        self.usual = time.monotonic() - began
        self._pages = self._held()

    def _run(self) -> Any:
        import pandas

        import craton.pandas
        from craton.memory import clear_memory

        clear_memory()
        return pandas.DataFrame(pipeline(craton.pandas, self._folder))

    def _compare(self, found: Any) -> None:
        import pandas

        pandas.testing.assert_frame_equal(found, self._expected, rtol=1e-9)

    def _held(self) -> int:
        """Return the number of sets in the store."""
        from craton.memory import clear_memory
        from craton.store import default_store

        clear_memory()
        return len(default_store().describe())

    def turn(self, seed: int) -> dict[str, Any]:
        """Run the pipeline once, with a kill, and return the outcome."""
        from craton.schedule.tasks import TaskLost

        random_of = random.Random(seed)
        pid = random_of.choice(self._session.info()["pid"].tolist())
        moment = random_of.random() * self.usual
        said: dict[str, Any] = {"seed": seed, "moment": moment, "usual": self.usual}
        timer = threading.Timer(moment, _kill, [pid])
        began = time.monotonic()
        timer.start()
        try:
            found = self._run()
            said["seconds"] = time.monotonic() - began
            try:
                self._compare(found)
                said["outcome"] = "right"
            except AssertionError as error:
                said.update(outcome="wrong", message=" ".join(str(error).split())[:400])
        except Exception as error:
            said["seconds"] = time.monotonic() - began
            said["outcome"] = "clear error" if isinstance(error, TaskLost) else "unclear error"
            said["message"] = f"{type(error).__name__}: {' '.join(str(error).split())[:400]}"
        said["hit"] = not timer.is_alive()
        timer.join()
        said["recovered"] = _until(lambda: bool(self._session.info()["alive"].all()))
        said["pages_left"] = 0
        if not _until(lambda: self._held() <= self._pages):
            said["pages_left"] = self._held() - self._pages
        return said


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _until(what: Callable[[], bool], seconds: float = RECOVERY) -> bool:
    end = time.monotonic() + seconds
    while not what():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def main(argv: list[str]) -> int:
    """Run as a driver: run the pipeline once per seed, and print the outcome of each run."""
    import craton

    options = json.loads(argv[0])
    driver = Driver(options)
    print(json.dumps({"usual": driver.usual}), flush=True)
    for seed in options["seeds"]:
        print(json.dumps(driver.turn(seed)), flush=True)
    craton.shutdown()
    return 0


# ---- all drivers ----


def measure(
    result: dict[str, Any],
    folder: Path,
    *,
    kills: int,
    batch: int,
    workers: int,
    broadcast: int,
    hang: float,
    seed: int,
) -> None:
    """Add the outcomes of runs with a kill to a report.

    Parameters
    ----------
    result : dict
        A report of `bench.store.turns.new_report`.
    folder : path
        The folder of the tables.
    kills, batch : int
        The number of runs, and how many of them one driver makes.
    workers, broadcast : int
        The number of workers; bytes up to which a side of a join is broadcast.
    hang : float
        Seconds after which a run counts as a hang.
    seed : int
        The seed of the first run. Each further run has the next number.
    """
    turns: list[dict[str, Any]] = []
    left: list[str] = []
    seeds = list(range(seed, seed + kills))
    while seeds:
        some = seeds[:batch]
        done = _drive({"folder": str(folder), "workers": workers, "broadcast": broadcast, "seeds": some}, hang, left)
        turns += done
        seeds = seeds[max(len(done), 1) :]
    result["runs"], result["left"] = turns, left
    counts = Counter(turn["outcome"] for turn in turns)
    result["outcomes"] = {outcome: counts[outcome] for outcome in OUTCOMES}
    bar(result, "runs with a right answer or a clear error", counts["right"] + counts["clear error"],
        lambda n: n == kills, f"{kills}")  # fmt: skip
    bar(result, f"runs that hang for {hang:g} s", counts["hang"], lambda n: n == 0, "0")
    bar(
        result,
        "sets of pages left in the store",
        sum(turn.get("pages_left", 0) for turn in turns),
        lambda n: n == 0,
        "0",
    )
    lost = sum(not turn.get("recovered", False) for turn in turns)
    bar(result, "runs after which workers are missing", lost, lambda n: n == 0, "0")
    bar(result, "processes and files left", len(left), lambda n: n == 0, "0")


def _drive(options: dict[str, Any], hang: float, left: list[str]) -> list[dict[str, Any]]:
    """Run one driver, and return its runs up to the first that hangs or ends it. Add its remaining processes and files to `left`."""
    token = secrets.token_hex(8)
    turns: list[dict[str, Any]] = []
    shared = set(os.listdir("/dev/shm"))
    with tempfile.TemporaryDirectory(prefix="craton-bench-kills-") as temporary, tempfile.TemporaryFile() as log:
        driver = subprocess.Popen(
            [sys.executable, "-m", "bench.clusters.kills", json.dumps(options)],
            stdout=subprocess.PIPE,
            stderr=log,
            cwd=ROOT,
            env=conditions.process_environment(extra={"TMPDIR": temporary, MARK: token}),
        )
        failure = None
        try:
            for line in _lines(driver, 10 * hang, hang + 2 * RECOVERY, len(options["seeds"]) + 1):
                said = json.loads(line)
                if "outcome" in said:
                    if said["seconds"] > hang:
                        said["outcome"] = "hang"
                    turns.append(said)
                    say(f"seed {said['seed']}: {said['outcome']} after {said['seconds']:.2f} s, killed at {said['moment']:.2f} s"
                        + (f": {said['message']}" if "message" in said else ""))  # fmt: skip
            driver.wait(hang)
        except (TimeoutError, subprocess.TimeoutExpired):
            failure = "hang"
        finally:
            driver.kill()
            code = driver.wait()
            if driver.stdout is not None:
                driver.stdout.close()
        log.seek(0)
        words = " | ".join(log.read().decode(errors="replace").strip().splitlines()[-3:])
        if len(turns) < len(options["seeds"]):
            failure = failure or "driver ended"
            message = words if failure == "driver ended" else f"the driver printed nothing; its last output: {words}"
            turns.append({"seed": options["seeds"][len(turns)], "outcome": failure, "message": message[-400:]})
            say(f"seed {turns[-1]['seed']}: {failure}, exit status {code}: {message}")
        elif code:
            left.append(f"the driver ended with exit status {code}: {words}"[:400])
        end = time.monotonic() + END
        while (found := [*_processes(token), *_files(Path(temporary), shared)]) and time.monotonic() < end:
            time.sleep(0.05)
        for pid in _processes(token):
            _kill(pid)
        left += [str(one) for one in found]
    return turns


def _lines(driver: subprocess.Popen[bytes], first: float, each: float, most: int) -> Iterator[bytes]:
    """Yield up to `most` lines that a driver prints.

    Raise TimeoutError if the first line takes longer than `first` seconds, or a later one longer than `each`.
    """
    assert driver.stdout is not None
    unread, given = b"", 0
    with selectors.DefaultSelector() as selector:
        selector.register(driver.stdout, selectors.EVENT_READ)
        end = time.monotonic() + first
        while given < most:
            while b"\n" in unread:
                line, _, unread = unread.partition(b"\n")
                given += 1
                yield line
                end = time.monotonic() + each
            if given >= most:
                return
            if not selector.select(max(end - time.monotonic(), 0)):
                raise TimeoutError
            chunk = os.read(driver.stdout.fileno(), 1 << 16)
            if not chunk:
                return
            unread += chunk


def _processes(token: str) -> list[int]:
    """Return the processes whose environment contains the token of this driver."""
    wanted, found = f"{MARK}={token}".encode(), []
    for entry in os.scandir("/proc"):
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):
                if wanted in Path(entry.path, "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
    return found


def _files(folder: Path, shared: set[str]) -> list[str]:
    """Return the files in a folder, and Craton's new files in shared memory."""
    new = [name for name in os.listdir("/dev/shm") if name not in shared and "craton" in name]
    return [*(str(path) for path in folder.iterdir()), *new]


def plot(result: dict[str, Any], target: Path) -> None:
    """Plot the duration of each run against the moment of the kill."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.2), layout="constrained")
    axes = figure.add_subplot()
    for number, outcome in enumerate(OUTCOMES):
        points = [
            (t["moment"] / t["usual"], t["seconds"])
            for t in result["runs"]
            if t["outcome"] == outcome and "seconds" in t
        ]
        if points:
            moments, seconds = zip(*points, strict=True)
            axes.scatter(moments, seconds, s=14, color=f"C{number}", label=f"{outcome} ({len(points)})")
    axes.set_xlabel("moment of the kill, as a part of a run without one")
    axes.set_ylabel("seconds")
    axes.set_ylim(bottom=0)
    axes.set_title(result["title"], fontsize=11)
    axes.grid(linewidth=0.4, alpha=0.6)
    axes.legend(fontsize=8, frameon=False)
    FigureCanvasAgg(figure).print_png(target)


if __name__ == "__main__":
    # As __main__, this module would be a second copy, with other classes than those that workers import.
    code = importlib.import_module("bench.clusters.kills").main(sys.argv[1:])
    sys.stdout.flush()
    sys.exit(code)
