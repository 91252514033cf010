"""Group-bys, windows, accessors and indexers of frames that are changed in place after the object was made.

They see the changes that pandas' objects see. That depends on earlier calls, because a group-by of pandas caches the columns of
its first call. Each case also runs under pandas.
"""

import itertools

import numpy as np
import pandas as pd
import pytest
from support import same

import craton
import craton.pandas as cp


@pytest.fixture(autouse=True)
def planned():
    with craton.option_context(small_rows=0):
        craton.clear_memory()
        yield


def table(module):
    return module.DataFrame(
        {
            "c": ["x", "y", "x", "z"] * 5,
            "a": np.arange(20),
            "b": np.arange(20) * 0.5,
            "t": pd.date_range("2020", periods=20),
        }
    )


def item(key, value):
    return lambda frame: frame.__setitem__(key, value)


CHANGES = {
    "nothing": lambda frame: None,
    "a column": item("a", 0),
    "the key": item("c", "q"),
    "a new column": item("n", 1),
    "a column of itself": lambda frame: frame.__setitem__("a", frame["a"] + 1),
    "a cell": lambda frame: frame.loc.__setitem__((0, "a"), 100),
    "a cell of the key": lambda frame: frame.loc.__setitem__((0, "c"), "zz"),
    "rows by mask": lambda frame: frame.loc.__setitem__((frame["a"] > 5, "b"), -1.0),
    "rows by position": lambda frame: frame.iloc.__setitem__((slice(0, 5), 1), 7),
    "one cell": lambda frame: frame.at.__setitem__((3, "a"), 55),
    "sort": lambda frame: frame.sort_values("b", ascending=False, inplace=True),
    "drop": lambda frame: frame.drop(columns="b", inplace=True),
    "delete": lambda frame: frame.__delitem__("b"),
    "pop": lambda frame: frame.pop("b"),
    "insert": lambda frame: frame.insert(0, "n", 5),
    "rename": lambda frame: frame.rename(columns={"a": "z"}, inplace=True),
    "replace": lambda frame: frame.replace({"a": {3: 99}}, inplace=True),
    "reset_index": lambda frame: frame.reset_index(inplace=True),
    "columns": lambda frame: setattr(frame, "columns", list("CABT")),
    "index": lambda frame: setattr(frame, "index", range(100, 120)),
    "update": lambda frame: frame.update(pd.DataFrame({"a": [50, 51]})),
}

GROUPS = {
    "frame": lambda frame: frame.groupby("c"),
    "column": lambda frame: frame.groupby("c")["a"],
    "columns": lambda frame: frame.groupby("c")[["a"]],
    "keys as columns": lambda frame: frame.groupby(["c"], as_index=False),
    "its own column": lambda frame: frame.groupby(frame["c"]),
    "another key": lambda frame: frame.groupby(frame["a"] % 3),
    "a column by itself": lambda frame: frame["a"].groupby(frame["c"]),
}


def column_of(groups):
    return groups["a"] if groups.ndim == 2 and groups._selection is None else groups


USES = {
    "sum": lambda groups: groups.sum(numeric_only=True),
    "count": lambda groups: groups.count(),
    "head": lambda groups: groups.head(1),
    "size": lambda groups: groups.size(),
    "cumsum": lambda groups: groups.cumsum(numeric_only=True) if groups.ndim == 2 else groups.cumsum(),
    "nth": lambda groups: groups.nth(1),
    "shift": lambda groups: groups.shift(),
    "ngroup": lambda groups: groups.ngroup(),
    "agg": lambda groups: groups.agg("max"),
    "first": lambda groups: groups.first(),
    "len": lambda groups: len(groups),
    "apply": lambda groups: groups.apply(lambda one: one.sum() if one.ndim == 1 else one.sum(numeric_only=True)),
    "transform": lambda groups: column_of(groups).transform("sum"),
    "rolling": lambda groups: column_of(groups).rolling(2).sum(),
    "one": lambda groups: column_of(groups).sum(),
    "iterated": lambda groups: [one.to_numpy().tolist() for _, one in groups],
}
BEFORE = (None, "sum", "head")


def outcome(program):
    try:
        return program()
    except Exception as error:
        return type(error)


def compare(make, before, change, use, planned_frame):
    found = []
    for module in (pd, cp):
        frame = table(module)
        if planned_frame:
            frame = frame[frame["a"] >= 0]
        helper = outcome(lambda frame=frame: make(frame))
        if before is not None:
            outcome(lambda helper=helper: before(helper))
        outcome(lambda frame=frame: change(frame))
        result = outcome(lambda helper=helper: use(helper))
        found.append(result.copy() if isinstance(result, (pd.DataFrame, pd.Series)) else result)
    theirs, ours = found
    same(ours, theirs)


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("groups", GROUPS)
def test_group_bys(groups, change):
    # A quarter of the cases for each pair, so that every use meets every change and every kind of group-by.
    turn = list(CHANGES).index(change) + list(GROUPS).index(groups)
    cases = list(itertools.product(BEFORE, USES))
    for number, (before, use) in enumerate(cases):
        if number % 4 != turn % 4:
            continue
        first = None if before is None else USES[before]
        try:
            compare(GROUPS[groups], first, CHANGES[change], USES[use], planned_frame=number // 4 % 2 == 0)
        except AssertionError as error:
            raise AssertionError(f"{use} after {before}: {error}") from error


def concat(frames):
    return (pd if type(frames[0]) is pd.DataFrame else cp).concat(frames)


#: How to make an object, and the call on it.
HELPERS = {
    "rolling": (lambda frame: frame[["a", "b"]].rolling(3), lambda window: window.sum()),
    "rolling frame": (lambda frame: frame.rolling(3), lambda window: window.sum(numeric_only=True)),
    "rolling column": (lambda frame: frame.rolling(3)["a"], lambda window: window.mean()),
    "column rolling": (lambda frame: frame["a"].rolling(3), lambda window: window.sum()),
    "expanding": (lambda frame: frame[["a", "b"]].expanding(), lambda window: window.sum()),
    "ewm": (lambda frame: frame["b"].ewm(com=1), lambda window: window.mean()),
    "resample column": (lambda frame: frame.resample("2D", on="t")["a"], lambda sampler: sampler.sum()),
    "str": (lambda frame: frame["c"].str, lambda accessor: accessor.upper()),
    "str len": (lambda frame: frame["c"].str, lambda accessor: accessor.len()),
    "dt": (lambda frame: frame["t"].dt, lambda accessor: accessor.day),
    "dt strftime": (lambda frame: frame["t"].dt, lambda accessor: accessor.strftime("%d")),
    "loc": (lambda frame: frame.loc, lambda indexer: indexer[indexer.obj["b"] > 2]),
    "loc row": (lambda frame: frame.loc, lambda indexer: indexer[5]),
    "iloc": (lambda frame: frame.iloc, lambda indexer: indexer[3:7]),
    "at": (lambda frame: frame.at, lambda indexer: indexer[3, "a"]),
    "column": (lambda frame: frame["a"], lambda column: column),
    "columns": (lambda frame: frame[["a", "b"]], lambda columns: columns),
    "filter": (lambda frame: frame[frame["a"] > 3], lambda found: found),
    "mask": (lambda frame: frame["a"] > 3, lambda mask: mask),
    "index": (lambda frame: frame.index, lambda index: list(index)),
    "labels": (lambda frame: frame.columns, lambda labels: list(labels)),
    "copy": (lambda frame: frame.copy(), lambda found: found),
    "shallow copy": (lambda frame: frame.copy(deep=False), lambda found: found),
    "assign": (lambda frame: frame.assign(z=frame["a"] * 2), lambda found: found),
    "merge": (lambda frame: frame.merge(frame, on="c"), lambda found: found["a_x"].sum()),
    "concat": (lambda frame: concat([frame, frame]), lambda found: found),
    "group sum": (lambda frame: frame.groupby("c").sum(numeric_only=True), lambda found: found),
    "sort": (lambda frame: frame.sort_values("b"), lambda found: found),
    "set_index": (lambda frame: frame.set_index("t"), lambda found: found),
    "array": (lambda frame: frame[["a", "b"]].to_numpy(), lambda array: array.tolist()),
    "items": (lambda frame: dict(frame.items()), lambda found: found["a"]),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("planned_frame", [False, True])
def test_helpers_and_what_was_derived(change, planned_frame):
    for name, (make, use) in HELPERS.items():
        try:
            compare(make, None, CHANGES[change], use, planned_frame)
        except AssertionError as error:
            raise AssertionError(f"{name}: {error}") from error


def test_keys_that_are_changed_after_the_call():
    frame, keys = table(cp), ["c", "a"]
    groups = frame.groupby(keys)
    keys.pop()
    assert groups.ngroups == 20
    series = cp.Series(np.arange(20) % 2)
    groups = frame.groupby(series)["a"]
    series.iloc[0] = 1
    assert groups.sum().tolist() == [90, 100]
    assert groups.apply(lambda one: one.sum()).tolist() == [90, 100]


def test_a_computed_frame_is_still_grouped_by_the_plan():
    """Materialising a grouped frame does not affect its group-by."""
    frame = table(cp)
    frame = frame[frame["a"] >= 0]
    groups = frame.groupby("c")
    _ = frame._mgr
    craton.fallbacks.reset()
    assert groups["a"].sum().tolist() == [90, 45, 55]
    assert craton.fallbacks.explain_fallbacks().empty
