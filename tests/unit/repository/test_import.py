"""The modules that `import craton.pandas` loads; all others are imported when they are first needed.

A program that works on small frames pays only for importing the modules listed here. Add a module to the list only if every
program needs it.
"""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys

import craton

#: The modules that `import craton.pandas` loads, by package.
LOADED = {
    "craton": """
        _native advice callers config engine errors events fallbacks forks imported kernel locks pandas plan records
        refusals tracebacks warning_filters
        """,
    "craton.engine": "live_objects",
    "craton.kernel": "interrupts memory",
    "craton.pandas": """
        core deferred frame frame_metadata functions groupby indexing io libraries printing reductions reshape series
        series_metadata udf values window
        """,
    "craton.pandas.core": """
        align array_conversion axes call_arguments cheap_calls counterparts data_checks deprecations dtypes execute
        function_keys identities inherit lazy native numpy_errors routing scanning stack stand_ins unchanged
        view
        """,
    "craton.pandas.groupby": "grouping",
    "craton.pandas.indexing": "chosen_rows frame_columns indexers rows selection shared_columns",
    "craton.pandas.io": "persisting sinks",
    "craton.pandas.reductions": "counting reductions whole_columns",
    "craton.pandas.reshape": "alignment construction exploding relational relational_calls relational_series small_tables",
    "craton.pandas.udf": "methods",
    "craton.pandas.values": "accessors categories constants gathering methods operands operators text times ufuncs",
    "craton.pandas.values.text": "string_functions strings",
    "craton.pandas.values.times": "dates",
    "craton.pandas.window": "shifts window_objects windows",
    "craton.plan": "build expr lengths names node operators ops origin protocol registry sources",
    "craton.plan.ops": "combining grouping rowwise selecting",
}

#: Modules of other libraries that only sessions, actors, pools, TLS and readers need.
ABSENT = (
    "asyncio", "cloudpickle", "concurrent.futures.process", "dask", "distributed", "duckdb", "fsspec", "html", "matplotlib",
    "multiprocessing.pool", "psutil", "pyarrow.compute", "pyarrow.dataset", "pyarrow.parquet", "ray", "ssl", "statistics",
)  # fmt: skip

_PROGRAM = """
import sys
import pandas, polars
before = set(sys.modules)
import {module}
print(*sorted(set(sys.modules) - before))
"""


def _loads(module: str) -> set[str]:
    """The modules that an import loads beyond those of pandas and Polars, in a fresh interpreter."""
    program = [sys.executable, "-c", _PROGRAM.format(module=module)]
    return set(subprocess.run(program, capture_output=True, text=True, check=True).stdout.split())


def test_importing_loads_what_is_listed() -> None:
    listed = {"craton"} | {f"{package}.{name}" for package, names in LOADED.items() for name in names.split()}
    loaded = {name for name in _loads("craton.pandas") if name.partition(".")[0] == "craton"}
    assert sorted(loaded - listed) == [], "imported by everyone: import it where it is needed, or list it"
    assert sorted(listed - loaded) == [], "no longer imported by everyone: take it off the list"


def test_importing_loads_nothing_that_only_some_programs_need() -> None:
    loaded = _loads("craton.pandas")
    assert [name for name in ABSENT if name in loaded] == []


def test_the_package_alone_loads_no_front_end() -> None:
    assert not {"craton.pandas", "craton.cluster.sessions", "craton.actor"} & _loads("craton")


def test_what_is_loaded_later_is_there() -> None:
    program = """
import craton, craton.lower, craton.pandas as pd
for module in (craton, pd, craton.cluster, craton.remote, craton.store, craton.lower):
    for name in module.__all__:
        assert getattr(module, name) is getattr(module, name), name
    try:
        module.no_such_name
    except AttributeError:
        continue
    raise AssertionError(module)
"""
    subprocess.run([sys.executable, "-W", "error", "-c", program], check=True)


def test_a_library_that_another_thread_imports_is_waited_for() -> None:
    program = """
import sys, threading
from craton.imported import imported_pandas

met = []

def look():
    while not met:
        module = imported_pandas()
        if module is not None:
            met.append(module.Timestamp)

threads = [threading.Thread(target=look) for _ in range(3)]
for thread in threads:
    thread.start()
import pandas
for thread in threads:
    thread.join()
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stderr == ""


def test_modules_of_pandas_are_found_by_their_names() -> None:
    program = """
import types
import pandas, craton.pandas as pd
import craton.pandas.io.text.csv
before = [name for name, value in vars(pandas).items() if isinstance(value, types.ModuleType)]
assert {"api", "core", "io", "testing", "tseries"} <= set(before), before
for name in before:
    if not name.startswith("_"):
        assert getattr(pd, name) is getattr(pandas, name), name
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_the_version_is_that_of_the_installed_package() -> None:
    version = importlib.metadata.version("craton")
    assert craton.__version__ == version
    shown = subprocess.run([sys.executable, "-m", "craton", "--version"], capture_output=True, text=True, check=True)
    assert shown.stdout == f"craton {version}\n"
