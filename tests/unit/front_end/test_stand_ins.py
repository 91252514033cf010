"""Stand-ins, the small objects on which pandas' behaviour is tried: one module makes them, calls pandas, and caches the result."""

from __future__ import annotations

import ast
import datetime as dt
import warnings
import zoneinfo
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from craton.errors import Unsupported
from craton.pandas.core import stand_ins
from craton.refusals import Refusal

PACKAGE = Path(stand_ins.__file__).parent

DTYPES: list[Any] = [
    *map(np.dtype, ("bool", "int8", "int64", "uint8", "uint64", "float32", "float64")),
    *map(np.dtype, ("datetime64[ns]", "datetime64[s]", "timedelta64[us]")),
    pd.Int64Dtype(),
    pd.Float32Dtype(),
    pd.BooleanDtype(),
    pd.StringDtype(),
    pd.StringDtype("python", na_value=np.nan),
    pd.CategoricalDtype(["x", "y"]),
    pd.CategoricalDtype([1, 2], ordered=True),
    pd.DatetimeTZDtype("ns", "UTC"),
    pd.DatetimeTZDtype("s", "Europe/Berlin"),
    *(
        pd.ArrowDtype(kind)
        for kind in (
            pa.int8(),
            pa.float64(),
            pa.bool_(),
            pa.string(),
            pa.binary(),
            pa.date32(),
            pa.timestamp("us", "UTC"),
            pa.duration("ms"),
            pa.decimal128(10, 2),
            pa.time64("us"),
        )
    ),
]
#: Dtypes for which the module has no example of a value.
WITHOUT = [
    pd.CategoricalDtype([]),
    pd.CategoricalDtype(),
    pd.PeriodDtype("D"),
    pd.IntervalDtype("int64"),
    pd.ArrowDtype(pa.list_(pa.int64())),
    pd.ArrowDtype(pa.null()),
]


# -- columns ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_columns_have_the_dtype_and_the_values_asked_for(dtype: Any) -> None:
    for filled in (0, 1, 3):
        column = stand_ins.column(dtype, filled)
        assert column.dtype == dtype
        assert len(column) == filled
        assert column.notna().all()
    if not (isinstance(dtype, np.dtype) and dtype.kind in "iub"):
        column = stand_ins.column(dtype, 2, 1)
        assert column.dtype == dtype
        assert column.isna().tolist() == [False, False, True]
    array = stand_ins.values(dtype)
    assert array.dtype == dtype
    assert array[0] == array[1]


@pytest.mark.parametrize("dtype", WITHOUT, ids=str)
def test_dtypes_without_an_example(dtype: Any) -> None:
    if not (isinstance(dtype, pd.IntervalDtype)):
        assert stand_ins.column(dtype, 2).isna().all()
    with pytest.raises(Unsupported):
        stand_ins.values(dtype)


def test_objects_are_no_example_of_objects() -> None:
    with pytest.raises(Unsupported) as refused:
        stand_ins.values(np.dtype(object))
    assert refused.value.refusal is Refusal.SAMPLE_OF_DTYPE


def test_a_column_is_the_callers() -> None:
    first = stand_ins.column(np.dtype("int64"), 2)
    first[:] = 7
    first.name = "mine"
    second = stand_ins.column(np.dtype("int64"), 2)
    assert second.tolist() == [1, 1]
    assert second.name is None


# -- keys -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (True, 1),
        (1, 1.0),
        (0.0, -0.0),
        (1, np.int64(1)),
        (np.float32(1), np.float64(1)),
        ("a", b"a"),
        ([1], (1,)),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        (pd.Timestamp(0, unit="s").as_unit("s"), pd.Timestamp(0).as_unit("ns")),
        (pd.Timestamp(0, tz="UTC"), pd.Timestamp(0, tz="Europe/Berlin")),
        (pd.Timedelta(0).as_unit("s"), pd.Timedelta(0).as_unit("ns")),
        (np.datetime64(0, "s"), np.datetime64(0, "ns")),
        (np.datetime64("NaT"), np.timedelta64("NaT")),
        (None, pd.NA),
        (pd.NaT, None),
        (pd.CategoricalDtype(["x", "y"]), pd.CategoricalDtype(["y", "x"])),
        (pd.CategoricalDtype([1, 2]), pd.CategoricalDtype([1.0, 2.0])),
        (pd.DatetimeTZDtype("ns", dt.UTC), pd.DatetimeTZDtype("ns", zoneinfo.ZoneInfo("UTC"))),
        (dt.date(2020, 1, 1), dt.datetime(2020, 1, 1)),
    ],
)
def test_what_may_give_another_answer_has_another_key(one: Any, other: Any) -> None:
    assert stand_ins.cache_key(one) == stand_ins.cache_key(one)
    assert stand_ins.cache_key(one) != stand_ins.cache_key(other)
    assert len({stand_ins.cache_key(one), stand_ins.cache_key(other)}) == 2


def test_nan_is_its_own_key() -> None:
    assert stand_ins.cache_key(float("nan")) == stand_ins.cache_key(float("nan"))


class Own:
    """A class whose objects are hashable and mutable."""


@pytest.mark.parametrize(
    "value",
    [len.__call__, lambda column: column, Own(), {1}, np.arange(2), pd.Series([1]), [[Own()]]],
    ids=[*"1234567"],
)
def test_what_may_change_makes_no_key(value: Any) -> None:
    with pytest.raises(TypeError):
        stand_ins.cache_key(value)


def test_many_categories_make_no_key_but_a_column() -> None:
    dtype = pd.CategoricalDtype(range(1000))
    with pytest.raises(TypeError):
        stand_ins.cache_key(dtype)
    assert stand_ins.column(dtype, 1).dtype == dtype


def test_the_order_of_categories_is_that_of_the_column() -> None:
    for order in (["x", "y"], ["y", "x"]):
        assert list(stand_ins.column(pd.CategoricalDtype(order), 1).cat.categories) == order


# -- trying calls -----------------------------------------------------------------------------------------------------------


def test_answers_are_remembered() -> None:
    calls = []
    for _ in range(2):
        assert stand_ins.probe_cached("test", (1, "a"), lambda: calls.append(1) or len(calls)) == 1
    assert stand_ins.probe_cached("test", (True, "a"), lambda: "another") == "another"
    assert stand_ins.probe_cached("another test", (1, "a"), lambda: "another") == "another"


def test_without_a_key_it_is_asked_each_time() -> None:
    calls: list[int] = []
    for _ in range(2):
        stand_ins.probe_cached("test", (Own(),), lambda: calls.append(1))
    assert len(calls) == 2


def test_what_a_call_refers_to_is_not_kept() -> None:
    import gc
    import weakref

    held = Own()
    gone = weakref.ref(held)
    assert stand_ins.probe_cached("kept", (1,), lambda held=held: len(str(held))) > 0
    del held
    gc.collect()
    assert gone() is None


def failing() -> None:
    raise ValueError("no such thing")


def warning() -> int:
    warnings.warn("careful", FutureWarning, stacklevel=1)
    return 3


def test_errors_and_warnings_are_refusals() -> None:
    for call, told in ((failing, "ValueError: no such thing"), (warning, "FutureWarning: careful")):
        with pytest.raises(Unsupported) as refused:
            stand_ins.probe(call, about="shift")
        assert refused.value.refusal is Refusal.ERROR_OF_PANDAS
        assert refused.value.detail == f"shift: {told}"


def test_warnings_may_be_for_the_user() -> None:
    with pytest.warns(FutureWarning, match="careful"):
        assert stand_ins.probe(warning, warned=True) == 3


def test_a_result_is_quiet_and_raises_as_pandas_does() -> None:
    assert stand_ins.result(warning) == 3
    with pytest.raises(ValueError, match="no such thing"):
        stand_ins.result(failing)


# -- one module only ------------------------------------------------------------------------------------------------------


def modules() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        if path.stem != "stand_ins":
            yield path.stem, ast.parse(path.read_text(encoding="utf-8"))


#: The other modules that use this refusal. None of them tries a call on a stand-in.
_OTHERS = {
    "call_arguments",  # arguments that do not fit the signature, as in the next
    "groupby",
    "query",  # the expression does not parse, or its value cannot be computed
    "parsing",  # a query over the data failed, as in the next
    "data_checks",
    "row_labels",  # no such column
}


def test_only_one_module_asks_what_pandas_would_say() -> None:
    found = {
        name
        for name, tree in modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr == "ERROR_OF_PANDAS"
    }
    assert found <= _OTHERS


def test_only_one_module_makes_objects_without_rows() -> None:
    """``pd.Series([], dtype=...)`` and ``pd.DataFrame(columns=...)`` are stand-ins, so no other module may create them."""
    found = []
    for name, tree in modules():
        for node in ast.walk(tree):
            if not (isinstance(node, ast.Call) and ast.unparse(node.func) in ("pd.Series", "pd.DataFrame")):
                continue
            given = [ast.unparse(item) for item in node.args]
            named = {keyword.arg for keyword in node.keywords}
            if given[:1] == ["[]"] or (not given and named == {"columns"}):
                found.append(f"{name}:{node.lineno}")
    assert found == []


def test_answers_about_dtypes_are_kept_in_one_place() -> None:
    """Outside the module ``dtypes``, no function of a dtype is cached: a cache would confuse dtypes that are equal but differ.

    For the physical types in ``dtypes``, such differences do not matter.
    """
    found = []
    for name, tree in modules():
        for node in ast.walk(tree):
            if not isinstance(node, ast.FunctionDef) or name == "dtypes":
                continue
            cached = any("cache" in ast.unparse(decorator) for decorator in node.decorator_list)
            if cached and any(
                "dtype" in (arg.arg + ast.unparse(arg.annotation or arg)).lower() for arg in node.args.args
            ):
                found.append(f"{name}.{node.name}")
    assert found == []
