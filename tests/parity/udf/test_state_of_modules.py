"""Functions in worker processes see the state that the program has set in modules, classes, contexts and options.

Workers import modules again. A separate program calls each function once in worker processes and once in its own process,
and compares the results.
"""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import craton.pandas

PYTHON = Path(craton.pandas.__file__).parents[2]

SETTINGS = """
import time

RATE = 1
TABLE = {}


class Scale:
    factor = 1

    def times(self, x):
        return x * self.factor


def helper(x):
    return x * RATE


def replaced(x):
    return x


def slow():
    time.sleep(0.005)


def own(x):
    slow()
    return helper(x) * Scale.factor + TABLE.get("a", 0)
"""

PROGRAM = """
import decimal
import math
import sys

import pandas
import settings
from settings import Scale, helper


def of_a_module(x): settings.slow(); return x * settings.RATE
def by_a_helper(x): settings.slow(); return settings.helper(x)
def by_an_imported_helper(x): settings.slow(); return helper(x)
def of_a_dict(x): settings.slow(); return settings.TABLE.get("a", 0) * x
def of_a_class(x): settings.slow(); return settings.Scale.factor * x
def of_an_instance(x): settings.slow(); return Scale().times(x)
def of_a_replaced_function(x): settings.slow(); return settings.replaced(x)
def of_an_import_within(x):
    import settings as within
    within.slow()
    return within.RATE * x
def of_a_method_of_pandas(x): settings.slow(); return pandas.Series([x]).tripled()
def of_an_accessor(x): settings.slow(); return pandas.Series([x]).added.first()
def of_decimals(x): settings.slow(); return float(decimal.Decimal(1) / decimal.Decimal(x + 7))
def of_an_option(x): settings.slow(); return pandas.get_option("mode.string_storage")


def main():
    import craton
    import craton.pandas as pd
    from craton.remote import parallel_calls, session

    craton.options.small_rows = 0
    taken = []
    take = parallel_calls._Run.take
    parallel_calls._Run.take = lambda run, *args: (taken.append(1), take(run, *args))
    parallel_calls.MIN_PARALLEL_SECONDS, parallel_calls.SAMPLE_SECONDS = 1e-9, 0.0
    session.start().result()

    class Accessor:
        def __init__(self, series): self.series = series
        def first(self): return self.series.iloc[0] * 5

    pd.Series.tripled = lambda series: series.iloc[0] * 3
    pd.api.extensions.register_series_accessor("added")(Accessor)
    functions = [
        of_a_module, by_a_helper, by_an_imported_helper, of_a_dict, of_a_class, of_an_instance, of_a_replaced_function,
        of_an_import_within, settings.own, of_a_method_of_pandas, of_an_accessor, of_decimals, of_an_option,
    ]
    cells = pd.Series(range(60))
    for turn in (3, 4):  # workers that have imported the module get what is set later, too
        settings.RATE, settings.Scale.factor, settings.TABLE["a"] = turn, 2 * turn, 5 * turn
        table = settings.TABLE
        settings.replaced = lambda x, turn=turn: x - turn
        decimal.getcontext().prec = turn
        for function in functions:
            option = "python" if function is of_an_option else "auto"
            taken.clear()
            with pandas.option_context("mode.string_storage", option):
                found = cells.map(function).tolist()
                assert found == [function(x) for x in range(60)], (function.__name__, turn)
            in_workers = function not in (of_a_method_of_pandas, of_an_accessor, of_an_option)
            assert bool(taken) == in_workers, (function.__name__, turn, craton.explain_fallbacks().to_string())
        assert settings.TABLE is table
    print("the same")


if __name__ == "__main__":
    main()
"""


def test_workers_read_what_the_program_has_set(tmp_path: Path) -> None:
    (tmp_path / "settings.py").write_text(textwrap.dedent(SETTINGS))
    (tmp_path / "program.py").write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, "program.py"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(PYTHON), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.stdout == "the same\n", done.stderr
