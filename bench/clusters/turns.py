"""The process of one turn of the parts ``init``, ``tasks`` and ``limit``. It times its own phases.

It is started as ``python -m bench.clusters.turns OPTIONS`` (JSON), and prints a line of JSON with the ``seconds`` of each phase and
``details``, in the format of `bench.store.turns`.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

__all__ = ["QUERIES", "main"]

Found = dict[str, Any]


class Nothing:
    """The work of an empty task."""

    def run(self, inputs: Sequence[Any], sink: Any) -> None:
        """Do nothing."""


def _init(options: Found) -> Found:
    """Time a session from start to end; the import of Craton is not included."""
    import craton
    from craton.schedule.tasks import Task, new_key

    began = time.perf_counter()
    session = craton.init(options["host"], workers=options["workers"], threads=options["threads"])
    ready = time.perf_counter()
    session.call(session.runner.run([Task(new_key(), Nothing()) for _ in range(options["workers"])]))
    first = time.perf_counter()
    alive = int(session.info()["alive"].sum())
    ending = time.perf_counter()
    craton.shutdown()
    ended = time.perf_counter()
    if alive != options["workers"]:
        raise RuntimeError(f"only {alive} of {options['workers']} workers were alive in the new session")
    return {"seconds": {"init": ready - began, "first task": first - ready, "shutdown": ended - ending}}


def _tasks(options: Found) -> Found:
    """Time many empty tasks, independent and in chains."""
    import craton
    from craton.schedule.tasks import Read, Task, new_key

    count = options["count"]
    session = craton.init(options["host"], workers=options["workers"], threads=options["threads"])

    async def run(tasks: list[Any]) -> float:
        began = time.perf_counter()
        outputs = await session.runner.run(tasks)
        took = time.perf_counter() - began
        if [output.key for output in outputs] != [task.key for task in tasks]:
            raise RuntimeError(f"{len(tasks)} tasks returned {len(outputs)} outputs, or in another order")
        session.runner.release([task.key for task in tasks])
        return took

    def seconds(tasks: list[Any]) -> float:
        return session.call(run(tasks))

    try:
        seconds([Task(new_key(), Nothing()) for _ in range(1000)])
        found = {"an empty task": seconds([Task(new_key(), Nothing()) for _ in range(count)]) / count}
        tasks: list[Any] = []
        for number in range(count):  # chains of ten
            inputs = (Read((tasks[-1].key,)),) if number % 10 else ()
            tasks.append(Task(new_key(), Nothing(), inputs))
        found["one that waits for another"] = seconds(tasks) / count
        return {"seconds": found}
    finally:
        craton.shutdown()


# ---- under a limit of memory ----


def _few(pd: Any, folder: str) -> Any:
    wide = pd.read_parquet(f"{folder}/wide.parquet")
    found = wide.groupby("few", as_index=False).agg(rows=("a", "count"), a=("a", "sum"), b=("b", "max"))
    return found.sort_values("few").reset_index(drop=True)


def _many(pd: Any, folder: str) -> Any:
    wide = pd.read_parquet(f"{folder}/wide.parquet")
    found = wide.groupby("many", as_index=False).agg(few=("few", "min"), a=("a", "sum"), b=("b", "max"))
    found["one"] = found["many"] * 0
    return found.groupby("one", as_index=False).agg(
        rows=("a", "count"), few=("few", "sum"), a=("a", "sum"), b=("b", "sum")
    )


def _merge(side: str) -> Callable[[Any, str], Any]:
    def run(pd: Any, folder: str) -> Any:
        found = pd.read_parquet(f"{folder}/wide.parquet").merge(pd.read_parquet(f"{folder}/{side}.parquet"), on="many")
        found["one"] = found["many"] * 0
        totals = {"few": ("few", "sum"), "a": ("a", "sum"), "b": ("b", "sum"), "c": ("c", "sum")}
        return found.groupby("one", as_index=False).agg(rows=("a", "count"), **totals)

    return run


def _sorted_text(pd: Any, folder: str) -> Any:
    found = pd.read_parquet(f"{folder}/text.parquet").sort_values("text")
    found["running"] = found["a"].cumsum() % 1_000_003
    found["one"] = 0
    ends = {"least": ("text", "first"), "greatest": ("text", "last")}
    return found.groupby("one", as_index=False).agg(rows=("a", "count"), running=("running", "sum"), **ends)


def _distinct_text(pd: Any, folder: str) -> Any:
    found = pd.read_parquet(f"{folder}/text.parquet").groupby("text", as_index=False)["a"].sum()
    found["one"] = 0
    ends = {"least": ("text", "min"), "greatest": ("text", "max")}
    return found.groupby("one", as_index=False).agg(rows=("a", "count"), a=("a", "sum"), **ends)


QUERIES: dict[str, Callable[[Any, str], Any]] = {
    "sort, text": _sorted_text,
    "groupby, distinct text": _distinct_text,
    "groupby, few keys": _few,
    "groupby, many keys": _many,
    "merge, most match": _merge("high"),
    "merge, few match": _merge("low"),
}
"""The sorts, group-bys and merges over the tables of `bench.clusters.limit`."""


def _query(name: str) -> Callable[[Any, str], Any]:
    from craton.demo.queries import QUERIES as TPCH

    return QUERIES[name] if name in QUERIES else TPCH[name]


def _answers(options: Found) -> Found:
    """Write the embedded run's answers to queries into a file."""
    import pandas

    import craton.pandas as pd
    from bench.clusters.contestants import exact_table
    from craton.memory import clear_memory

    found, seconds = {}, {}
    for name in options["queries"]:
        clear_memory()
        began = time.perf_counter()
        result = pandas.DataFrame(_query(name)(pd, options["folder"]))
        seconds[name] = time.perf_counter() - began
        found[name] = exact_table(result)
    Path(options["answers"]).write_text(json.dumps(found), encoding="utf-8")
    return {"seconds": seconds}


def _limit(options: Found) -> Found:
    """Run one query on workers under the memory limit of this process's control group, and compare its answer."""
    import pandas

    import craton
    import craton.pandas as pd
    from bench.clusters.contestants import exact_table
    from bench.harness.answers import difference

    expected = json.loads(Path(options["answers"]).read_text(encoding="utf-8"))[options["query"]]
    began = time.perf_counter()
    if options["workers"]:
        craton.init("local", workers=options["workers"], threads=options["threads"], memory_limit=options["memory"])
    ready = time.perf_counter()
    result = pandas.DataFrame(_query(options["query"])(pd, options["folder"]))
    ended = time.perf_counter()
    said = difference(expected, exact_table(result), order_by="every", tolerance=1e-9)
    if said is not None:
        raise RuntimeError(f"wrong: the result {said}, as in the answer without a limit")
    restarts = _deaths()
    craton.shutdown()
    return {"seconds": {"run": ended - ready}, "details": {"init": ready - began, "killed_for_memory": restarts}}


def _deaths() -> int:
    """Return how many processes of this control group were killed for lack of memory."""
    for line in Path("/proc/self/cgroup").read_text(encoding="ascii").splitlines():
        _, controllers, path = line.split(":", 2)
        control = Path("/sys/fs/cgroup/memory") / path.lstrip("/") / "memory.oom_control"
        if "memory" in controllers.split(",") and control.exists():
            known = dict(line.split() for line in control.read_text(encoding="ascii").splitlines())
            return int(known.get("oom_kill", 0))
    return 0


PARTS: dict[str, Callable[[Found], Found]] = {"init": _init, "tasks": _tasks, "answers": _answers, "limit": _limit}


def main(argv: list[str]) -> int:
    """Take one turn."""
    options = json.loads(argv[0])
    found = PARTS[options["part"]](options)
    print(json.dumps({"details": {}, **found}), flush=True)
    return 0


if __name__ == "__main__":
    # As __main__, this module would be a second copy, with other classes than those that workers import.
    code = importlib.import_module("bench.clusters.turns").main(sys.argv[1:])
    sys.stdout.flush()
    sys.exit(code)
