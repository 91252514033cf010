"""All contestants of a benchmark run under the same conditions, in any environment, and results record the conditions."""

from __future__ import annotations

import json
import os
import sys
import textwrap
from collections import OrderedDict
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("psutil", reason="the harness watches memory with psutil, of the bench extra")

from bench import import_time
from bench.harness import conditions, measure, report
from bench.harness.measure import Benchmark, Case, Entry
from bench.pandas_likes import PANDAS_LIKES
from bench.store import turns as store_turns
from craton.kernel import memory

CONTESTANTS = """
    import importlib
    import os

    class Contestant:
        def __init__(self, name, options):
            self.name, self.calls = name, []
            if name == "craton":
                importlib.import_module("craton.pandas")
            if name == "polars":
                importlib.import_module("polars")

        def versions(self):
            return {"allocator": os.environ.get("_RJEM_MALLOC_CONF")}

        def forget(self):
            self.calls.append("forget")

        def run(self, case):
            self.calls.append("run")
            return case

        def answer(self, case, result):
            return self.calls if self.name == "diary" else None

    def open_contestant(name, options):
        return Contestant(name, options)
"""

SHELL = {
    "_RJEM_MALLOC_CONF": "dirty_decay_ms:1",
    "MALLOC_ARENA_MAX": "1",
    "POLARS_MAX_THREADS": "1",
    "OMP_NUM_THREADS": "7",
    "PYTHONDONTWRITEBYTECODE": "1",
    "CRATON_RESULT_MEMORY": "0",
    "DASK_DATAFRAME__CONVERT_STRING": "False",
    "LD_PRELOAD": "",
}
"""Environment variables that a shell may have set before a benchmark is started."""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a folder from which a worker process can import the harness, Craton and the contestants above."""
    repository = Path(measure.__file__).resolve().parents[2]
    (tmp_path / "bench").symlink_to(repository / "bench")
    (tmp_path / "python").symlink_to(repository / "python")
    (tmp_path / "pretended.py").write_text(textwrap.dedent(CONTESTANTS), encoding="utf-8")
    return tmp_path


def run(root: Path, names: tuple[str, ...], **settings: Any) -> dict[str, Any]:
    entries = [Entry(name, lambda: Path(sys.executable)) for name in names]
    given: dict[str, Any] = {"repeat": 2, "warm_up": 1, "timeout": 60, **settings}
    return measure.measure(
        Benchmark("p", "P", "pretended", [Case("works")], entries, baseline=names[0], **given), root=root
    )


@pytest.mark.parametrize("allocator", ["kept", "default"])
def test_all_contestants_have_one_environment(root: Path, monkeypatch: pytest.MonkeyPatch, allocator: str) -> None:
    for name, value in SHELL.items():
        monkeypatch.setenv(name, value)
    found = run(root, ("craton", "polars", "pandas", "duckdb"), allocator=allocator)
    assert found["conditions"] == json.loads(json.dumps(conditions.describe(allocator=allocator, warm_up=1)))
    for name in ("craton", "polars", "pandas", "duckdb"):
        assert found["contestants"][name]["environment"] == found["conditions"]["variables"], name
    # Importing Polars extends the allocator's setting, in the same way with and without Craton.
    set_up = [found["contestants"][name]["versions"]["allocator"] for name in ("craton", "polars")]
    assert set_up[0] == set_up[1] != ""
    threads = [found["contestants"][name]["threads"]["polars"] for name in ("craton", "polars")]
    assert threads == [conditions.cores()] * 2


def test_the_environment_does_not_depend_on_the_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if conditions.names_conditions(name) and name != "PYTHONPATH":
            monkeypatch.delenv(name)
    plain = conditions.process_environment("polars")
    for name, value in SHELL.items():
        monkeypatch.setenv(name, value)
    assert conditions.process_environment("polars") == plain


def test_memory_is_kept_as_craton_keeps_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("_RJEM_MALLOC_CONF", raising=False)
    memory.configure_allocator(memory.AMPLE)
    assert conditions.ALLOCATORS["kept"] == {
        "_RJEM_MALLOC_CONF": os.environ["_RJEM_MALLOC_CONF"],
        "MALLOC_TRIM_THRESHOLD_": str(memory.KEPT_HEAP),
        "MALLOC_MMAP_THRESHOLD_": str(memory.KEPT_BLOCK),
    }


def test_engines_of_many_processes_give_their_libraries_one_thread() -> None:
    ours, theirs = conditions.variables("craton"), conditions.variables("modin")
    different = {name for name in ours if ours[name] != theirs[name]}
    assert theirs["OMP_NUM_THREADS"] == "1"
    assert all(name.endswith("_THREADS") for name in different)
    assert theirs["BENCH_CORES"] == ours["BENCH_CORES"]


def test_what_is_remembered_is_dropped_before_each_run(root: Path) -> None:
    # The contestant returns the list of calls so far, so its last answer differs from its first.
    result = run(root, ("diary",), repeat=2, warm_up=1)["cases"]["works"]["diary"]
    assert f"last answer is {['forget', 'run'] * 3} and should be {['forget', 'run']}" in result["message"]


def test_craton_forgets_results_footers_and_templates(tmp_path: Path) -> None:
    from craton.engine.result_cache import results

    others = results.digests()  # results that objects of other tests keep alive
    pandas, craton = PANDAS_LIKES["pandas"](), PANDAS_LIKES["craton"]()
    path = tmp_path / "some.parquet"
    pandas.pd.DataFrame({"k": [1, 2, 1], "x": [1.0, 2.0, 3.0]}).to_parquet(path)
    read = craton.pd.read_parquet(path)
    craton.materialise(read.groupby("k", as_index=False)["x"].sum().sort_values("x"))
    assert any(_sizes().values())
    assert results.digests() - others
    craton.forget()
    assert not any(_sizes().values())
    assert not results.digests() - others


def _sizes() -> dict[str, int]:
    """Return the number of entries in each cache of Craton's modules."""
    cached = type(lru_cache(_sizes))
    sizes = {}
    for name, module in list(sys.modules.items()):
        if name.split(".")[0] == "craton":
            for label, value in vars(module).items():
                if isinstance(value, cached):
                    sizes[f"{name}.{label}"] = value.cache_info().currsize
                elif isinstance(value, OrderedDict):
                    sizes[f"{name}.{label}"] = len(value)
    return sizes


def test_first_runs_are_in_the_result_and_in_its_table(root: Path) -> None:
    found = run(root, ("pandas", "other"), repeat=1, warm_up=0)
    assert found["cases"]["works"]["pandas"]["first"] == found["cases"]["works"]["pandas"]["seconds"][0]
    found["settings"]["warm_up"] = 1
    text = report.table(found)
    assert "First runs in their processes, seconds in total: pandas" in text
    assert conditions.text(found["conditions"]) in text


def test_turns_and_imports_say_their_conditions_too() -> None:
    result = store_turns.new_report("paging", "Paging", {"warm_up": 0}, "craton")
    assert result["conditions"]["variables"] == conditions.variables()
    assert result["conditions"]["remembered"] == "nothing: each turn is a new process"
    imported = import_time.measure({"nothing": "import json"}, 1, baseline="nothing", warm_up=0)
    assert imported["conditions"]["variables"] == conditions.variables()


def test_a_limit_of_memory_leaves_the_allocator_to_the_contestant() -> None:
    turns = [store_turns.Turn("craton", "some.module", {}, limit=limit) for limit in (None, 1 << 30)]
    assert [turn.allocator for turn in turns] == ["kept", "own"]
    assert "_RJEM_MALLOC_CONF" not in conditions.process_environment("craton", allocator="own")
