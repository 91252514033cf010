"""Functions of a script that depend on state that must be sent to workers: globals, caches, limits and display options."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

_SCRIPT = """
import functools, inspect, sys, time
import numpy as np, pandas
import craton.pandas

N, K = 0, 3

@functools.lru_cache(maxsize=None)
def rate(x):
    return x * 2

def depth(n):
    return 0 if n == 0 else 1 + depth(n - 1)

def cached(x): return rate(x % 3)
def by_globals(x): return globals().get("N", -1)
def counted(x): globals()["N"] = globals()["N"] + 1; return globals()["N"]
def evaluated(x): return eval("K * x")
def formatted(x): return "{K}{x}".format(**globals(), x=x)
def by_frame(x): frame = sys._getframe(0).f_globals; frame["N"] += 1; return frame["N"]
def by_inspection(x): return inspect.currentframe().f_globals["K"]
def deep(x): return depth(2000)
def an_array(x): return str(np.array([x / 3]))
def a_column(x): return pandas.Series([x / 3]).to_string() + str(pandas.get_option("display.max_rows"))
def failing(x): return {"a": 1}["b" if x == 119 else "a"]

def slowly(function):
    def call(x):
        time.sleep(0.006)
        return function(x)
    return call

if __name__ == "__main__":
    craton.pandas.Series(range(200)).map(slowly(abs))  # starts the workers
    sys.setrecursionlimit(5000)
    np.set_printoptions(precision=3)
    pandas.set_option("display.precision", 2)
    functions = [cached, by_globals, counted, evaluated, formatted, by_frame, by_inspection, deep, an_array, a_column, failing]
    for function in functions:
        results = []
        for pd in (pandas, craton.pandas):
            N = 0
            try:
                results.append(pd.Series(range(120)).map(slowly(function)).tolist())
            except Exception as error:
                results.append(repr(error))
        print(function.__name__, results[0] == results[1])
"""


def test_functions_of_a_script(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(_SCRIPT, encoding="utf-8")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=240, check=False)
    lines = done.stdout.splitlines()
    assert len(lines) == 11, done.stderr
    assert [line for line in lines if not line.endswith(" True")] == []
