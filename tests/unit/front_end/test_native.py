"""Native calls: the registry and the wrappers are complete, and no other module wraps or counts calls of pandas."""

from __future__ import annotations

import ast
import contextlib
import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest

import craton
import craton.pandas as pd
from craton import events, fallbacks
from craton.errors import FallbackError, Unsupported
from craton.pandas.core import native
from craton.pandas.core.native import REGISTRY, Native, by_object, wrapped
from craton.pandas.groupby.groupby import DataFrameGroupBy, SeriesGroupBy
from craton.pandas.values.text.strings import StringMethods
from craton.refusals import Reason, Refusal

PACKAGE = Path(craton.__file__).parent
#: The modules that may count calls: the counter itself, and `craton.map`, which is not a call of pandas.
_COUNTING = {"native", "items"}


def modules(folder: Path = PACKAGE) -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(folder.rglob("*.py")):
        yield path.stem, ast.parse(path.read_text(encoding="utf-8"))


# -- one module only ------------------------------------------------------------------------------------------------------


def test_one_module_counts() -> None:
    found = {
        name
        for name, tree in modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and ast.unparse(node) == "fallbacks.count"
    }
    assert found == _COUNTING
    imported = {
        name
        for name, tree in modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        and node.module == "craton.fallbacks"
        and any(alias.name == "count" for alias in node.names)
    }
    assert imported == set()


def test_one_module_wraps_pandas_methods() -> None:
    """No other module copies a signature, marks a wrapper, or emits the event of a call."""
    found = []
    for name, tree in modules(PACKAGE / "pandas"):
        if name == "native":
            continue
        for node in ast.walk(tree):
            text = ast.unparse(node) if isinstance(node, (ast.Attribute, ast.Call)) else ""
            if text in ("functools.wraps", "functools.update_wrapper") or text.startswith(
                ("wraps(", "events.emit('call'")
            ):
                found.append(f"{name}:{node.lineno} {text}")
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    if isinstance(target, ast.Attribute) and target.attr == "__craton_native__":
                        # An accessor may set it, because it is a descriptor that holds its registry entry.
                        assert ast.unparse(node.value).startswith("Native("), name
    assert found == []


def test_nobody_catches_a_refusal_to_call_pandas() -> None:
    """``except Unsupported:`` followed by a call of pandas' own method would be a fallback that is not counted."""
    found = []
    for name, tree in modules(PACKAGE / "pandas"):
        if name in ("native", "printing"):  # printing may evaluate the data, which is not a fallback
            continue
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.ExceptHandler)
                and node.type is not None
                and "Unsupported" in ast.unparse(node.type)
            ):
                calls = [ast.unparse(one.func) for one in ast.walk(node) if isinstance(one, ast.Call)]
                found += [f"{name}:{node.lineno}" for call in calls if call.startswith(("pd.DataFrame.", "pd.Series."))]
    assert found == []


# -- the registry -----------------------------------------------------------------------------------------------------


def labels_of_the_page() -> dict[str, str]:
    """The rows of docs/native.md, and the label of each in the registry."""
    from tools.docs import native_table

    names = {
        "DataFrame.groupby": "DataFrameGroupBy.",
        "Series.groupby": "SeriesGroupBy.",
        "pandas": "",
    }
    return {
        f"{family.title}.{name}": names.get(family.title, f"{family.title}.") + name
        for family in native_table.FAMILIES
        for name in family.members()
        if native_table.is_native(family, name)
    }


def test_what_the_page_lists_is_in_the_registry() -> None:
    page = labels_of_the_page()
    assert len(page) > 350
    for name in (
        "io.feather",
        "io.orc",
        "io.parquet",
        "io.text.csv",
        "io.text.json_lines",
    ):  # registered when they are needed
        importlib.import_module(f"craton.pandas.{name}")

    missing = [row for row, label in page.items() if label not in REGISTRY or not REGISTRY[label].planned]
    assert missing == []


def test_entries_have_what_pandas_has() -> None:
    for entry in list(REGISTRY.values()):
        assert isinstance(entry, Native)
        assert callable(entry.theirs) or hasattr(entry.theirs, "__get__"), entry.label
        assert entry.function is None or callable(entry.function), entry.label


@pytest.mark.parametrize("ours", [pd.DataFrame, pd.Series, DataFrameGroupBy, SeriesGroupBy, StringMethods])
def test_wrappers_look_like_pandas_methods(ours: Any) -> None:
    checked = 0
    for name in dir(ours):
        member = native.getattr_static(ours, name)
        entry = getattr(member, "__craton_native__", None)
        if not inspect.isfunction(member) or entry is None or not inspect.isfunction(entry.theirs):
            continue
        theirs = getattr(getattr(ours, "_stands_for", ours.__mro__[-2]), name, None)
        theirs = entry.theirs if theirs is None or ours is StringMethods else theirs
        if "theirs" in entry.theirs.__qualname__ or entry.function is member:  # a method of an accessor, or a property
            continue
        assert member.__doc__ == entry.theirs.__doc__ or "query" in name or "eval" in name, name
        assert member.__name__ == name or entry.theirs.__name__ == member.__name__, name
        checked += 1
    assert checked > 20 or ours is StringMethods


def test_signatures_are_those_of_pandas() -> None:
    for theirs, ours in ((pandas.DataFrame, pd.DataFrame), (pandas.Series, pd.Series)):
        for name in (
            "shift",
            "merge",
            "query",
            "apply",
            "to_csv",
            "from_arrow",
            "__add__",
            "add",
            "drop",
            "sum",
            "map",
        ):
            if hasattr(theirs, name):
                assert inspect.signature(getattr(ours, name)) == inspect.signature(getattr(theirs, name)), name
                assert getattr(ours, name).__doc__ == getattr(theirs, name).__doc__, name
    for name in ("merge", "concat", "melt", "read_csv", "to_datetime", "crosstab", "cut"):
        assert inspect.signature(getattr(pd, name)) == inspect.signature(getattr(pandas, name))
        assert getattr(pd, name).__doc__ == getattr(pandas, name).__doc__
        assert getattr(pd, name).__module__ == "craton.pandas"


# -- calls --------------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    fallbacks.reset()
    yield
    fallbacks.reset()


def counts() -> list[tuple[str, str]]:
    return [(row["method"], row["reason"]) for row in fallbacks.explain_fallbacks().to_dict("records")]


def frame() -> Any:
    times = pandas.to_datetime(["2024-01-01", "2024-01-02", "2024-01-03"])
    return pd.DataFrame({"a": [1, 2, 3], "s": ["x", "y", "x"], "t": times})


def lazy_frame() -> Any:
    return frame().assign(b=1)


CALLS: list[tuple[str, Any, str, str]] = [
    (
        "a method",
        lambda df: df.clip(lower=df, axis=0),
        "DataFrame.clip",
        "parameters axis",
    ),
    ("a method of a column", lambda df: df["a"].repeat(2), "Series.repeat", "a method that is not planned"),
    ("an operator", lambda df: df["a"] + np.arange(3), "Series.__add__", "an operand of type ndarray"),
    ("an inherited method", lambda df: df.convert_dtypes(), "DataFrame.convert_dtypes", "a method that is not planned"),
    ("a member of an accessor", lambda df: df["s"].str.split(n=1), "Series.str.split", "a split into at most"),
    (
        "a member that is not planned",
        lambda df: df["t"].dt.to_period("D"),
        "Series.dt.to_period",
        "a method that is not",
    ),
    ("a property of an accessor", lambda df: df["t"].dt.freq, "Series.dt.freq", "a result of Python objects"),
    ("a method of a group-by", lambda df: df.groupby("s").nth(0, "any"), "DataFrameGroupBy.nth", "nth with dropna"),
    ("brackets of a group-by", lambda df: df.groupby("s").nth[0], "DataFrameGroupBy.nth", "nth[...] of groups"),
    (
        "a property of a group-by",
        lambda df: df.groupby("s")["a"].is_monotonic_increasing,
        "SeriesGroupBy.is_monotonic_increasing",
        "a method that is not",
    ),
    ("a function", lambda df: pd.concat([df, df["a"]]), "concat", "a concat of frames and series"),
    (
        "a function that is not planned",
        lambda df: pd.lreshape(df, {"v": ["a"]}),
        "lreshape",
        "a method that is not planned",
    ),
    ("a ufunc", lambda df: np.modf(df["a"]), "np.modf", "np.modf.__call__ with keyword arguments"),
    ("rows by label", lambda df: df.loc(axis=0)[[0]], "DataFrame.loc", "loc of one axis"),
    (
        "setting rows",
        lambda df: df.loc.__setitem__(0, 3),
        "DataFrame.loc =",
        "values set in rows that are selected by a label",
    ),
    (
        "an expression",
        lambda df: df.query("a == 1", parser="python"),
        "DataFrame.query",
        "one of the parameters parser",
    ),
    ("a sink", lambda df: df.to_csv(None, columns=["a"], index=3), "DataFrame.to_csv", "the parameter index"),
    ("an iterator", lambda df: df["a"].isin(iter([1, 2])), "Series.isin", "an iterator"),
    ("a merge", lambda df: df.merge(df, on="a", how="left_anti", indicator=True), "DataFrame.merge", "anti merge"),
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "call", "label", "reason"), CALLS, ids=[case[0] for case in CALLS])
def test_every_kind_of_call_is_counted_under_its_name(name: str, call: Any, label: str, reason: str) -> None:
    told: list[Any] = []
    with craton.option_context(small_rows=0, fallback="silent"):
        df = lazy_frame()
        fallbacks.reset()
        with events_heard(told), contextlib.suppress(TypeError, ValueError, NotImplementedError):
            call(df)
        found = counts()
    assert label in [method for method, _ in found], found
    assert reason in dict(found)[label]
    for one in told:  # calls that raise emit no event
        assert one["native"] is (one["reason"] is None)
        if one["name"] == label and not one["native"]:
            assert one["reason"] == dict(found)[label]


class events_heard:
    """Collects the events of calls while the context is open."""

    def __init__(self, told: list[Any]) -> None:
        self.told = told

    def hear(self, kind: str, fields: dict[str, Any]) -> None:
        if kind == "call":
            self.told.append(fields)

    def __enter__(self) -> None:
        events.subscribe(self.hear)

    def __exit__(self, *_: object) -> None:
        events.unsubscribe(self.hear)


@pytest.mark.filterwarnings("ignore")
def test_small_frames_are_not_counted() -> None:
    with craton.option_context(small_rows=100):
        for _, call, _, _ in CALLS:
            with contextlib.suppress(TypeError, ValueError, NotImplementedError):
                call(frame())
    assert counts() == []


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "call", "label", "reason"), CALLS, ids=[case[0] for case in CALLS])
def test_error_mode_raises_for_every_kind(name: str, call: Any, label: str, reason: str) -> None:
    with craton.option_context(small_rows=0, fallback="error"), pytest.raises(FallbackError) as raised:
        call(lazy_frame())
    assert f"{label} runs in pandas" in str(raised.value)


class Thing:
    """Stands for a class of pandas with one method."""

    def method(self, number: int = 1) -> str:
        """Return the argument as text."""
        return f"theirs {number}"


def test_a_wrapper_asks_and_falls_back() -> None:
    def planned(self: Thing, number: int = 1) -> str:
        if number > 1:
            raise Unsupported(Refusal.PARAMETER, f"number={number}")
        return f"ours {number}"

    stays = [False]
    method = wrapped("Thing.method", Thing.method, planned, route=by_object(lambda _: stays[0]))
    thing = Thing()
    assert method(thing) == "ours 1"
    assert counts() == []
    assert method(thing, 2) == "theirs 2"
    assert counts() == [("Thing.method", "the parameter number=2")]
    stays[0] = True
    assert method(thing) == "theirs 1"
    assert len(counts()) == 1
    assert method.__doc__ == Thing.method.__doc__
    assert inspect.signature(method) == inspect.signature(Thing.method)
    assert REGISTRY.pop("Thing.method").function is planned


def test_what_is_not_planned_does_not_replace_what_is() -> None:
    planned = Native("Thing.other", Thing.method, Thing.method)
    Native("Thing.other", Thing.method)
    assert REGISTRY.pop("Thing.other") is planned


def test_a_reason_given_before_is_the_reason() -> None:
    entry = Native("Thing.third", Thing.method, lambda self: "ours")
    assert entry.run(Thing(), (), {}, Reason(Refusal.ALL_ROWS)) == "theirs 1"
    assert counts() == [("Thing.third", Refusal.ALL_ROWS.value)]
    del REGISTRY["Thing.third"]
