"""Craton's classes in place of pandas': instances, pickles, results of fallbacks, counts of fallbacks, and warnings."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest

import craton
import craton.pandas as pd
from craton import fallbacks
from craton.pandas.core import counterparts

PYTHON = Path(pd.__file__).parents[2]


@pytest.fixture(params=[0, 100], ids=["planned", "small"])
def size(request: pytest.FixtureRequest) -> Any:
    with craton.option_context(small_rows=request.param):
        yield request.param


def frame() -> Any:
    return pd.DataFrame({"a": [3, 1, 2], "b": ["x", "y", "x"], "c": [1.5, np.nan, 2.5]})


def dates() -> Any:
    return pd.Series([1, 2, 3], index=pandas.date_range("2024-01-01", periods=3, freq="D"))


# Instances and subclasses ------------------------------------------------------------------------------------


def test_pandas_own_objects_are_instances_and_classes_subclasses() -> None:
    assert isinstance(pandas.DataFrame(), pd.DataFrame)
    assert isinstance(pandas.Series([1]), pd.Series)
    assert isinstance(pd.DataFrame(), pandas.DataFrame)
    assert not isinstance(pandas.Series([1]), pd.DataFrame)
    assert issubclass(pandas.DataFrame, pd.DataFrame)
    assert not issubclass(pandas.Series, pd.DataFrame)


def test_a_subclass_of_the_user_s_is_an_ordinary_class() -> None:
    class Mine(pd.DataFrame):  # type: ignore[misc]
        pass

    assert isinstance(Mine({"a": [1]}), pd.DataFrame)
    assert not isinstance(pandas.DataFrame(), Mine)
    assert not isinstance(pd.DataFrame(), Mine)
    assert not issubclass(pandas.DataFrame, Mine)


def test_the_classes_look_like_pandas() -> None:
    for ours, theirs in ((pd.DataFrame, pandas.DataFrame), (pd.Series, pandas.Series)):
        assert repr(ours) == repr(theirs)
        assert (ours.__name__, ours.__qualname__, ours.__module__) == (
            theirs.__name__,
            theirs.__qualname__,
            theirs.__module__,
        )
        assert ours.__doc__ == theirs.__doc__


# Pickling -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_pickling_gives_the_class_back(protocol: int, size: int) -> None:
    for made in (frame(), frame()["b"], frame()[frame()["a"] > 1]):
        again = pickle.loads(pickle.dumps(made, protocol=protocol))
        assert type(again) is type(made)
        assert pandas.DataFrame(again).equals(pandas.DataFrame(made))
        assert type(copy.deepcopy(made)) is type(copy.copy(made)) is type(made)
    assert pickle.loads(pickle.dumps([pd.DataFrame, pd.Series, pandas.DataFrame], protocol=protocol)) == [
        pd.DataFrame,
        pd.Series,
        pandas.DataFrame,
    ]


def test_a_pickle_is_read_by_a_process_that_has_not_imported_craton(tmp_path: Path) -> None:
    path = tmp_path / "frame.pickle"
    path.write_bytes(pickle.dumps(frame()))
    code = f"import pickle; f = pickle.load(open({str(path)!r}, 'rb')); print(type(type(f)).__module__, f['a'].sum())"
    environment = os.environ | {"PYTHONPATH": str(PYTHON)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment)
    assert done.stdout.startswith("craton.pandas."), done.stderr
    assert done.stdout.endswith(" 6\n")


class OfTheUser(pd.DataFrame):  # type: ignore[misc]
    """A subclass of the user, which is pickled by its own name."""


def test_a_subclass_is_pickled_by_its_own_name() -> None:
    made = OfTheUser({"a": [1]})
    assert type(pickle.loads(pickle.dumps(made))) is OfTheUser


# Results of fallbacks ----------------------------------------------------------------------------

GIVES: dict[str, Callable[[], Any]] = {
    "describe": lambda: frame().describe(),
    "apply to columns": lambda: frame()[["a", "c"]].apply(np.sum),
    "apply to rows": lambda: frame()[["a", "c"]].apply(lambda row: row.max(), axis=1),
    "agg with a list": lambda: frame()[["a", "c"]].agg(["sum", "mean"]),
    "mode": lambda: frame().mode(),
    "corr": lambda: frame()[["a", "c"]].corr(),
    "stack": lambda: frame()[["a", "c"]].stack(),
    "transpose": lambda: frame().T,
    "str.extract": lambda: frame()["b"].str.extract("(.)"),
    "str.get_dummies": lambda: frame()["b"].str.get_dummies(),
    "str.cat": lambda: frame()["b"].str.cat(frame()["b"]),
    "dt.isocalendar": lambda: dates().index.to_series().pipe(pd.Series).dt.isocalendar(),
    "cat.codes": lambda: frame()["b"].astype("category").cat.codes,
    "rolling": lambda: frame()["a"].rolling(2).mean(),
    "rolling, a column": lambda: frame().rolling(2)["a"].sum(),
    "rolling, agg": lambda: frame()[["a", "c"]].rolling(2).agg(["sum", "max"]),
    "expanding": lambda: frame()[["a"]].expanding().sum(),
    "ewm": lambda: frame()["a"].ewm(span=2).mean(),
    "resample": lambda: dates().resample("2D").sum(),
    "resample, apply": lambda: dates().resample("2D").apply(lambda part: part.max()),
    "group-by, apply": lambda: frame().groupby("b")[["a"]].apply(lambda part: part.max()),
    "group-by, describe": lambda: frame().groupby("b")["a"].describe(),
    "group-by by a function": lambda: frame().groupby(lambda label: label % 2)["a"].sum(),
    "group-by, rolling": lambda: frame().groupby("b")["a"].rolling(1).sum(),
    "ufunc": lambda: np.sqrt(frame()[["a", "c"]]),
    "crosstab": lambda: pd.crosstab(frame()["a"], frame()["b"]),
    "get_dummies": lambda: pd.get_dummies(frame()["b"]),
    "cut": lambda: pd.cut(frame()["a"], 2),
    "merge_asof": lambda: pd.merge_asof(frame().sort_values("a"), frame().sort_values("a"), on="a"),
    "read_json": lambda: pd.read_json(__import__("io").StringIO('[{"a": 1}]')),
    "from_dict": lambda: pd.DataFrame.from_dict({"a": [1]}),
    "json_normalize": lambda: pd.json_normalize([{"a": 1}]),
}


@pytest.mark.parametrize("name", GIVES)
def test_what_pandas_makes_is_craton_s(name: str, size: int) -> None:
    assert type(GIVES[name]()) in (pd.DataFrame, pd.Series)


def test_an_object_that_somebody_else_holds_keeps_its_class() -> None:
    held = pandas.DataFrame({"a": [1]})
    held.attrs["source"] = "a library"
    given = frame().groupby("b")["a"].apply(lambda part: part).pipe(lambda _: held)
    assert given is held
    assert type(held) is pandas.DataFrame
    converted = counterparts.as_craton(held)
    assert type(converted) is pd.DataFrame
    assert type(held) is pandas.DataFrame
    assert converted.attrs == held.attrs
    converted.loc[0, "a"] = 5
    assert held.loc[0, "a"] == 1


# Counts of fallbacks ----------------------------------------------------------------------------------------


def counted(program: Callable[[], Any]) -> list[str]:
    fallbacks.reset()
    program()
    told = fallbacks.explain_fallbacks()["method"].tolist()
    fallbacks.reset()
    return told


@pytest.mark.parametrize(
    ("program", "method"),
    [
        (lambda made: made.combine(made, lambda one, _: one), "DataFrame.combine"),
        (lambda made: made["b"].repeat(2), "Series.repeat"),
        (lambda made: made["a"].rolling(2, step=2).mean(), "Rolling.mean"),
        (lambda made: made.to_numpy(), None),
        (lambda made: list(made.items()), None),
        (lambda made: made.pipe(lambda it: it), None),
    ],
)
def test_a_call_that_pandas_runs_is_counted_once(program: Callable[[Any], Any], method: str | None) -> None:
    made = frame()
    with craton.option_context(small_rows=0):
        assert counted(lambda: program(made)) == ([] if method is None else [method])
    with craton.option_context(small_rows=100):
        assert counted(lambda: program(made)) == []


# Warnings ----------------------------------------------------------------------------------


def caught(program: Callable[[], Any]) -> list[warnings.WarningMessage]:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        program()
    return found


@pytest.mark.parametrize("module", [pandas, pd], ids=["pandas", "craton"])
def test_a_warning_names_the_line_of_the_user(module: Any, size: int) -> None:
    def program() -> None:
        module.DataFrame({"a": ["1", "x"]}).apply(lambda column: module.to_datetime(column, errors="coerce"))

    (warning,) = caught(program)
    assert warning.filename == __file__


@pytest.mark.parametrize("module", [pandas, pd], ids=["pandas", "craton"])
def test_chained_assignment_warns(module: Any, size: int) -> None:
    made = module.DataFrame({"a": [1, 2], "c": [1.5, None]})

    def item() -> None:
        made["a"][0] = 5

    def method() -> None:
        made["c"].fillna(0, inplace=True)

    def update() -> None:
        made["a"].update(module.Series([7]))

    for program in (item, method, update):
        (warning,) = caught(program)
        assert warning.category is pandas.errors.ChainedAssignmentError
        assert warning.filename == __file__


@pytest.mark.parametrize("module", [pandas, pd], ids=["pandas", "craton"])
def test_assignment_that_is_not_chained_does_not_warn(module: Any, size: int) -> None:
    made = module.DataFrame({"a": [1, 2], "c": [1.5, None]})
    column = made["c"]

    def program() -> None:
        made["d"] = 1
        made.loc[0, "a"] = 3
        column.fillna(0, inplace=True)
        column[0] = 9
        made.fillna(1, inplace=True)
        made["c"].fillna(0)

    assert caught(program) == []
