"""A plan keeps its operands as they were at the call: changing an operand before the result is read does not change the result.

Each program runs under pandas and under Craton. It makes an operand, calls a method, changes the operand in place, and reads the
result. A later call with the original operand must not return a cached result of the changed one.
"""

import copy

import numpy as np
import pandas as pd
import pytest
from support import same

import craton
import craton.pandas as cp

ROWS = 500


@pytest.fixture(autouse=True)
def planned():
    with craton.option_context(small_rows=0):
        craton.clear_memory()
        yield


def table(module):
    numbers = np.arange(ROWS)
    return module.DataFrame(
        {
            "i": numbers % 50,
            "f": numbers / 4,
            "t": pd.date_range("2020-01-01", periods=ROWS),
            "s": [f"s{i % 20}" for i in range(ROWS)],
            "n": np.where(numbers % 3, numbers / 2, np.nan),
            "b": numbers % 2 == 0,
        }
    )


def overwrite(operand):
    """Change as many values of an operand in place as possible."""
    if isinstance(operand, dict):
        for key in list(operand):
            if isinstance(operand[key], (list, set, np.ndarray, pd.Series)):
                overwrite(operand[key])
            else:
                operand[key] = operand[list(operand)[-1]]
        operand.pop(next(iter(operand)))
    elif isinstance(operand, list):
        operand[:] = operand[-1:] * len(operand)
    elif isinstance(operand, set):
        operand.pop()
    elif isinstance(operand, pd.DataFrame):
        operand.iloc[:] = operand.iloc[::-1].to_numpy()
        operand.loc[0, operand.columns[0]] = operand.iloc[1, 0]
    elif isinstance(operand, pd.Series):
        operand.iloc[:] = operand.iloc[-1]
    elif not isinstance(operand, (pd.Index, tuple, frozenset)):
        operand[:] = operand[-1]


STAMPS = [pd.Timestamp("2020-01-03"), pd.Timestamp("2020-02-01"), pd.Timestamp("2021-01-01")]
MEMBERS = {
    "integers": ("i", np.array([1, 2, 49])),
    "small integers": ("i", np.array([1, 2, 49], dtype="int8")),
    "floats": ("f", np.array([1.0, 2.25, 90.5])),
    "floats with NaN": ("n", np.array([1.0, np.nan, 8.5])),
    "dates": ("t", np.array(STAMPS, dtype="M8[us]")),
    "objects": ("s", np.array(["s1", "s2", "s19"], dtype=object)),
    "mixed objects": ("i", np.array([1, "s2", 49.0, None], dtype=object)),
    "list of integers": ("i", [1, 2, 49]),
    "list of floats": ("f", [1.0, 2.25, 90.5]),
    "list of dates": ("t", list(STAMPS)),
    "list of strings": ("s", ["s1", "s2", "s19"]),
    "mixed list": ("i", [1, "s2", 49.0]),
    "mixed list of floats": ("f", [1, "s2", 90.5, None]),
    "set": ("i", {1, 2, 49}),
    "mixed set": ("i", {1, "s2"}),
    "tuple": ("i", (1, 2)),
    "nullable": ("i", pd.array([1, 2, 49], dtype="Int64")),
    "Arrow": ("i", pd.array([1, 2, 49], dtype="int64[pyarrow]")),
    "strings": ("s", pd.array(["s1", "s2"], dtype="str")),
    "date array": ("t", pd.array(STAMPS, dtype="M8[us]")),
    "series": ("i", pd.Series([1, 2, 49])),
    "series of floats": ("f", pd.Series([1.0, 2.25, 90.5])),
    "Index": ("i", pd.Index([1, 2, 49])),
    "dict": ("i", {1: "a", 2: "b", 49: "c"}),
}


def check(program, operand, change=overwrite):
    """Run a program with an operand that is changed before the result is read, and then again with the original operand."""
    expected = program(table(pd), copy.deepcopy(operand))
    given = copy.deepcopy(operand)
    result = program(table(cp), given)
    change(given)
    same(result, expected)
    same(program(table(cp), copy.deepcopy(operand)), expected)


@pytest.mark.parametrize("kind", MEMBERS)
def test_isin(kind):
    column, operand = MEMBERS[kind]
    check(lambda frame, values: frame[frame[column].isin(values)], operand)
    check(lambda frame, values: frame[column].isin(values), operand)


@pytest.mark.parametrize("kind", MEMBERS)
def test_isin_of_a_frame(kind):
    column, operand = MEMBERS[kind]
    check(lambda frame, values: frame[[column]].isin({column: values}), operand)
    check(lambda frame, values: frame[[column, "b"]].isin(values), operand if kind != "dict" else {column: [1, 2, 3]})


@pytest.mark.parametrize("kind", MEMBERS)
def test_query(kind):
    column, operand = MEMBERS[kind]
    check(lambda frame, wanted: frame.query(f"{column} in @wanted"), operand)
    check(lambda frame, wanted: frame.query(f"{column} not in @wanted"), operand)


def row_values(dtype):
    return np.arange(ROWS)[::-1].astype(dtype)


ROWWISE = {
    "integers": row_values("int64"),
    "small integers": row_values("int16"),
    "floats": row_values("float64") / 3,
    "dates": row_values("M8[us]"),
    "booleans": row_values("int64") % 3 == 0,
    "objects": np.array([f"o{i}" for i in range(ROWS)], dtype=object),
    "list": list(range(ROWS)),
    "nullable": pd.array(range(ROWS), dtype="Int64"),
    "date array": pd.array(row_values("M8[us]")),
    "categories": pd.Categorical([f"c{i % 5}" for i in range(ROWS)]),
    "series": pd.Series(row_values("float64")),
    "Index": pd.Index(row_values("int64")),
}
ASSIGNING = {
    "assign": lambda frame, values: frame.assign(x=values),
    "setitem": lambda frame, values: frame.__setitem__("x", values) or frame,
    "setitem in place of": lambda frame, values: frame.__setitem__("i", values) or frame,
    "insert": lambda frame, values: frame.insert(0, "x", values) or frame,
    "loc": lambda frame, values: frame.loc.__setitem__((slice(None), "x"), values) or frame,
    "filtered": lambda frame, values: (late := frame[frame["i"] >= 0]).__setitem__("x", values) or late,
    "set_axis": lambda frame, values: frame.set_axis(values, axis=0),
}


@pytest.mark.parametrize("kind", ROWWISE)
@pytest.mark.parametrize("way", ASSIGNING)
def test_columns_and_labels(way, kind):
    if way == "loc" and kind in ("categories", "nullable"):
        pytest.skip("pandas sets these otherwise, see the tests of setting")
    check(ASSIGNING[way], ROWWISE[kind])


MASKS = {
    "array": np.arange(ROWS) % 3 == 0,
    "list": [i % 3 == 0 for i in range(ROWS)],
    "nullable": pd.array(np.arange(ROWS) % 3 == 0, dtype="boolean"),
    "series": pd.Series(np.arange(ROWS) % 3 == 0),
}
MASKING = {
    "getitem": lambda frame, mask: frame[mask],
    "loc": lambda frame, mask: frame.loc[mask],
    "loc column": lambda frame, mask: frame.loc[mask, "f"],
    "series": lambda frame, mask: frame["f"][mask],
    "setitem": lambda frame, mask: frame.loc.__setitem__((mask, "f"), -1.0) or frame,
    "where": lambda frame, mask: frame["f"].where(mask, 0.0),
    "mask": lambda frame, mask: frame["f"].mask(mask),
    "sum": lambda frame, mask: frame[mask]["f"].sum(),
}


@pytest.mark.parametrize("kind", MASKS)
@pytest.mark.parametrize("way", MASKING)
def test_masks(way, kind):
    check(MASKING[way], MASKS[kind])


POSITIONS = {"array": np.array([5, 3, 400, 3]), "unsigned": np.array([5, 3, 400], dtype="uint32"), "list": [5, 3, 400]}


@pytest.mark.parametrize("kind", POSITIONS)
@pytest.mark.parametrize("way", ["iloc", "loc", "take", "set"])
def test_positions(way, kind):
    def program(frame, positions):
        if way == "set":
            frame.iloc[positions, 1] = -1.0
            return frame
        return frame.take(positions) if way == "take" else getattr(frame, way)[positions]

    check(program, POSITIONS[kind])


OTHERS = {
    "map dict": (lambda frame, d: frame["i"].map(d), {i: i * 2 for i in range(50)}),
    "map strings": (lambda frame, d: frame["s"].map(d), {f"s{i}": i / 2 for i in range(20)}),
    "map series": (lambda frame, d: frame["i"].map(d), pd.Series(np.arange(50.0))),
    "map floats": (lambda frame, d: frame["f"].map(d), {i / 4: i for i in range(50)}),
    "replace dict": (lambda frame, d: frame["i"].replace(d), {1: 100, 2: 200}),
    "replace list": (lambda frame, d: frame["i"].replace(d, 0), [1, 2]),
    "replace nested": (lambda frame, d: frame.replace(d), {"i": {1: 100, 2: 200}}),
    "fillna dict": (lambda frame, d: frame.fillna(d), {"n": -1.0, "f": 0.0}),
    "fillna series": (lambda frame, d: frame["n"].fillna(d), pd.Series(np.arange(ROWS) * 1.0)),
    "clip": (lambda frame, d: frame["f"].clip(d, 90.0), np.arange(ROWS) * 0.1),
    "add array": (lambda frame, d: frame["f"] + d, np.arange(ROWS) * 0.1),
    "add list": (lambda frame, d: frame["f"] + d, [0.5] * ROWS),
    "compare array": (lambda frame, d: frame[frame["f"] > d], np.arange(ROWS) * 0.2),
    "ufunc": (lambda frame, d: np.maximum(frame["f"], d), np.arange(ROWS) * 0.2),
    "np.where": (lambda frame, d: np.where(frame["b"], frame["f"], d), np.arange(ROWS) * 0.2),
    "np.select": (lambda frame, d: np.select([frame["b"]], [frame["f"]], d), np.arange(ROWS) * 0.2),
    "combine_first": (lambda frame, d: frame["n"].combine_first(d), pd.Series(np.arange(ROWS) * 1.0)),
    "groupby key": (lambda frame, d: frame.groupby(d)["f"].sum(), np.arange(ROWS) % 7),
    "groupby list": (lambda frame, d: frame.groupby(d)["f"].sum(), ["i", "b"]),
    "groupby series": (lambda frame, d: frame.groupby(d)["f"].sum(), pd.Series(np.arange(ROWS) % 7)),
    "agg dict": (lambda frame, d: frame.groupby("b").agg(d), {"f": "sum", "i": "max"}),
    "sort by": (lambda frame, d: frame.sort_values(d), ["i", "f"]),
    "columns": (lambda frame, d: frame[d], ["i", "f"]),
    "drop": (lambda frame, d: frame.drop(columns=d), ["i", "f"]),
    "dropna": (lambda frame, d: frame.dropna(subset=d), ["i", "n"]),
    "rename": (lambda frame, d: frame.rename(columns=d), {"i": "I", "f": "F"}),
    "astype": (lambda frame, d: frame.astype(d), {"i": "float64", "f": "float64"}),
    "merge": (lambda frame, d: frame.merge(d, on="i"), pd.DataFrame({"i": [1, 2, 3], "v": [10, 20, 30]})),
    "concat": (
        lambda frame, d: (pd if type(frame) is pd.DataFrame else cp).concat([frame[["i"]], d]),
        pd.DataFrame({"i": [1, 2, 3]}),
    ),
    "set_index": (lambda frame, d: frame.set_index(d), np.arange(ROWS) * 3),
    "reindex": (lambda frame, d: frame.reindex(d), [5, 3, 1000]),
    "between": (lambda frame, d: frame[frame["f"].between(d, 80.0)], np.arange(ROWS) * 0.1),
    "dot": (lambda frame, d: frame[["i", "f"]].dot(d), np.array([1.0, 2.0])),
    "split": (lambda frame, d: frame["s"].str.startswith(tuple(d)), ["s1", "s2"]),
    "isin of a column": (lambda frame, d: frame[frame["i"].isin(d["i"])], pd.DataFrame({"i": [1, 2, 3]})),
    "quantile": (lambda frame, d: frame["f"].quantile(d), [0.1, 0.9]),
    "nlargest": (lambda frame, d: frame.nlargest(3, d), ["f", "i"]),
    "duplicated": (lambda frame, d: frame.duplicated(subset=d), ["i", "b"]),
    "melt": (lambda frame, d: frame.melt(id_vars=d, value_vars=["f"]), ["i", "b"]),
    "update labels": (lambda frame, d: frame.set_axis(d, axis=1), list("abcdef")),
}
CHANGES = {
    "groupby list": lambda names: names.pop(),
    "agg dict": lambda given: given.update(f="min"),
    "rename": lambda given: given.update(i="other"),
    "astype": lambda given: given.update(i="str"),
    "update labels": lambda names: names.__setitem__(0, "z"),
    **{
        name: lambda names: names.pop()
        for name in ("sort by", "columns", "drop", "dropna", "nlargest", "duplicated", "melt", "split", "quantile")
    },
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_operands(name):
    program, operand = OTHERS[name]
    check(program, operand, CHANGES.get(name, overwrite))


def test_an_operand_of_craton_that_is_changed_in_place():
    frame = table(cp)
    other = cp.DataFrame({"i": [1, 2, 3], "v": [10, 20, 30]})
    merged, found = frame.merge(other, on="i"), frame[frame["i"].isin(other["i"])]
    other.loc[0, "i"] = 40
    other["v"] = 0
    assert sorted(set(merged["v"])) == [10, 20, 30]
    assert sorted(set(found["i"])) == [1, 2, 3]


def test_a_function_in_a_plan_is_not_known_by_its_name():
    frame = table(cp)
    for suffix in ("x", "y"):

        def replaced(match, suffix=suffix):
            return match.group() + suffix

        replaced.__qualname__ = replaced.__name__ = "replaced"
        globals()["replaced"] = replaced
        result = frame["s"].str.replace("s1", replaced, regex=True)
        assert result.iloc[1] == "s1" + suffix


MIXED = {
    "frame and column": lambda df, s: np.add(df, s),
    "column and frame": lambda df, s: np.add(s, df),
    "of one length": lambda df, s: np.multiply(df["a"], df),
    "no operator": lambda df, s: np.logaddexp(df, df["a"]),
    "no operator, the column first": lambda df, s: np.logaddexp(df["a"], df),
    "maximum": lambda df, s: np.maximum(df, s),
    "a comparison": lambda df, s: np.less(s, df),
    "an array between": lambda df, s: np.add(df.to_numpy(), df),
}


@pytest.mark.parametrize("name", MIXED)
@pytest.mark.parametrize("small", [0, 1000])
def test_universal_functions_of_a_frame_and_a_column(name: str, small: int) -> None:
    found = []
    for module in (pd, cp):
        with craton.option_context(small_rows=small):
            df = module.DataFrame({"a": [1.0, 2.0], "b": [4.0, 5.0]})
            s = module.Series([1.0, 2.0], index=["a", "b"])
            try:
                result = MIXED[name](df, s)
            except Exception as error:
                found.append((type(error), str(error)))
            else:
                found.append((type(result).__name__, result.to_numpy().tolist(), list(result.columns)))
    assert found[0] == found[1]


OF_BOTH_LIBRARIES = {
    "f": lambda module: module.Series([1.5, None, -2.0], name="a"),
    "i": lambda module: module.Series([3, 1, 2], index=[2, 1, 0], name="b"),
    "UInt32": lambda module: module.Series([2, 3, None], dtype="UInt32", name="a"),
    "Arrow": lambda module: module.Series([2, 3, None], dtype="int64[pyarrow]", name="a"),
    "frame": lambda module: module.DataFrame({"a": [1.0, None, 3.0], "b": [1, 2, 3]}),
}


@pytest.mark.parametrize("name", ["fmax", "maximum", "logaddexp", "add", "less", "divmod", "bitwise_and", "heaviside"])
@pytest.mark.parametrize("first", OF_BOTH_LIBRARIES)
@pytest.mark.parametrize("second", OF_BOTH_LIBRARIES)
@pytest.mark.parametrize("small", [0, 1000])
def test_universal_functions_of_objects_of_pandas_and_of_craton(name, first, second, small):
    """NumPy functions accept operands of both libraries: one library's ``__array_ufunc__`` handles both operands."""
    of_series = "frame" not in (first, second)

    def run(one, other):
        try:
            return getattr(np, name)(one, other)
        except Exception as error:
            return type(error).__name__ if of_series else "an error"

    with craton.option_context(small_rows=small):
        a, b = OF_BOTH_LIBRARIES[first], OF_BOTH_LIBRARIES[second]
        expected = run(a(pd), b(pd))
        same(run(a(pd), b(cp)), expected, rtol=0)
        same(run(a(cp), b(pd)), expected, rtol=0)


@pytest.mark.parametrize("name", ["fmax", "add", "logaddexp", "less"])
@pytest.mark.parametrize("small", [0, 1000])
def test_universal_functions_keep_a_class_of_the_user(name, small):
    def classes(module):
        class Subclass(module.Series):
            @property
            def _constructor(self):
                return Subclass

        one, other = Subclass([1.0, 2.0], name="a"), module.Series([2.0, 1.0], name="a")
        ufunc = getattr(np, name)
        return [type(result).__name__ for result in (ufunc(one, other), ufunc(other, one), ufunc(one, one))]

    with craton.option_context(small_rows=small):
        assert classes(cp) == classes(pd) == ["Subclass"] * 3
