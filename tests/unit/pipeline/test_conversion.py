"""Tables of all libraries are stored as Arrow data, and come back as they were, or as another library has them."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pandas.testing import assert_frame_equal, assert_series_equal

import craton.pandas as cpd
from craton.pipeline.conversion import form_of, given, outputs_of
from craton.pipeline.returned import NotATable
from craton.store import Store

N = 5


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    with Store.open(1 << 28) as opened:
        yield opened


def stored(store: Store, value: Any) -> tuple[pa.Table, Any]:
    """The table that a store has of a value, and its form."""
    output = outputs_of(value)[None]
    pages = store.create_set()
    for table in output.tables:
        pages.append(table)
    return pages.to_arrow(), output.form


def again(store: Store, value: Any, wanted: Any = None) -> Any:
    table, form = stored(store, value)
    return given(table, form, wanted or form)


def objects() -> dict[str, list[Any]]:
    utc = datetime.UTC
    return {
        "mixed": ["a", None, "b", 1, 2.5],
        "text and NaN": ["a", np.nan, "b", "c", "d"],
        "text, None and NaN": ["a", None, np.nan, "c", "d"],
        "numbers and None": [1, None, 3, 4, 5],
        "booleans": [True, None, False, True, True],
        "lists": [[1], [2], None, [], ["a"]],
        "lists of numbers": [[1], [2], None, [], [3]],
        "lists of NumPy's": [[np.int64(1)], [2], None, [], [3]],
        "structs": [{"a": 1}] * 5,
        "other structs": [{"a": 1}, {"b": 2}, {}, None, {"a": None}],
        "tuples": [(1,)] * 5,
        "dates": [datetime.date(2020, 1, 1)] * 4 + [None],
        "decimals": [decimal.Decimal(text) for text in ("1.0", "1.00", "NaN", "2", "-0")],
        "large": [10**30, 1, 2, 3, -(2**63)],
        "bytes": [b"a", b"", None, b"\0", b"d"],
        "scalars": [np.float64(1.5)] * 5,
        "missing": [pd.NA, pd.NaT, None, np.nan, 1],
        "surrogates": ["\ud800"] * 5,
        "None": [None] * 5,
        "NaN": [np.nan] * 5,
        "floats": [1.5, None, np.nan, -0.0, 3.0],
        "times": [datetime.datetime(2020, 1, 1)] * 5,
        "zones": [datetime.datetime(2020, 1, 1, tzinfo=utc)] * 5,
        "truth and numbers": [True, 1, 1.0, 0, False],
    }


def columns() -> pd.DataFrame:
    frame = pd.DataFrame(
        {
            "i": np.arange(N),
            "f": [1.5, np.nan, -0.0, np.inf, 3],
            "b": [True, False, True, True, False],
            "s": ["a", None, "b", "c", "d"],
            "I": pd.array([1, None, 3, 4, 5], dtype="Int64"),
            "F": pd.array([1.5, None, 3, 4, 5], dtype="Float64"),
            "B": pd.array([True, None, True, False, None], dtype="boolean"),
            "d": pd.date_range("2020", periods=N, unit="ns"),
            "dn": [pd.Timestamp("2020"), pd.NaT] * 2 + [pd.NaT],
            "tz": pd.date_range("2020", periods=N, tz="Europe/Berlin"),
            "tn": pd.to_datetime(["2020-01-01", None, "2021-01-01", None, None]).tz_localize("UTC"),
            "td": pd.to_timedelta([1, None, 3, 4, 5], unit="s"),
            "c": pd.Categorical(["a", "b", None, "a", "b"], categories=["b", "a", "z"], ordered=True),
            "ci": pd.Categorical([1, 2, None, 1, 2]),
            "co": pd.Categorical(["x", (1,), None, "x", (1,)], categories=pd.Index(["x", (1,)], dtype=object)),
            "per": pd.period_range("2020", periods=N, freq="M"),
            "iv": pd.interval_range(0, N),
            "sp": pd.arrays.SparseArray([0, 0, 1, 2, 0]),
            "cx": np.array([1, 2j, 3, 4, 5]),
            "f2": np.arange(N, dtype="f2"),
            "ld": np.arange(N, dtype="longdouble"),
            "u8": np.arange(N, dtype="u1"),
            "al": pd.array([[1], [2, 3], None, [], [4]], dtype=pd.ArrowDtype(pa.list_(pa.int64()))),
            "ad": pd.array([decimal.Decimal("1.10")] * N, dtype=pd.ArrowDtype(pa.decimal128(5, 2))),
            "sy": pd.array(["a", None, "b", "c", "d"], dtype=pd.StringDtype("python")),
            "sa": pd.array(["a", None, "b", "c", "d"], dtype="string"),
        }
    )
    for name, values in objects().items():
        array = np.empty(N, object)
        array[:] = values
        frame[name] = pd.Series(array, dtype=object)
    return frame


def frames() -> dict[str, Any]:
    whole = columns()
    small = whole[["i", "f", "s"]]
    levels = pd.MultiIndex(levels=[[1, 2, 3], ["x", "y", "unused"]], codes=[[0, -1, 2, 1, 0], [1, 0, -1, 0, 0]])
    attributed = small.copy()
    attributed.attrs = {"source": "x", "n": [1]}
    return {
        "all": whole,
        "empty": whole.iloc[:0],
        "slice": whole.iloc[1:4],
        "step": whole.iloc[::2],
        "no columns": whole[[]],
        "nothing": pd.DataFrame(),
        "columns only": pd.DataFrame(columns=["a", "b"]),
        "numbered": pd.DataFrame(np.arange(12.0).reshape(4, 3)),
        "duplicates": pd.DataFrame(np.arange(12.0).reshape(4, 3), columns=["a", "a", 0]),
        "text of a label": pd.DataFrame([[1, 2, 3]], columns=["0", 0, "0.1"]),
        "levels": whole.set_index(["i", "s"]),
        "levels of dtypes": whole.set_index(["I", "c", "f"])[["b", "d"]],
        "missing in levels": small.set_index(levels),
        "levels of columns": pd.DataFrame(
            [[1, 2, 3, 4]], columns=pd.MultiIndex.from_product([["a", "b"], [1, 2]], names=["x", None])
        ),
        "days": small.set_index(pd.date_range("2020", periods=N, freq="D", name="when")),
        "hours": small.set_index(pd.date_range("2020", periods=N, freq="h", tz="Asia/Tokyo")),
        "periods": small.set_index(pd.period_range("2020", periods=N, freq="M")),
        "categories": small.set_index(pd.CategoricalIndex(whole["c"])),
        "objects": small.set_index(pd.Index(whole["mixed"])),
        "text": small.set_index(pd.Index(list("abcde"), dtype=object)),
        "range": small.set_index(pd.RangeIndex(10, 0, -2, name="r")),
        "name of a column": small.rename_axis("i"),
        "attributes": attributed,
        "flags": small.set_flags(allows_duplicate_labels=False),
        "labels": pd.DataFrame({True: [1], None: [2], 1.5: [3], pd.Timestamp("2020"): [4]}),
        "named columns": small.rename_axis(columns="name"),
    }


@pytest.mark.parametrize("name", list(frames()))
def test_frames_come_back_as_they_were(store: Store, name: str) -> None:
    frame = frames()[name]
    before = frame.copy()
    back = again(store, frame)
    assert type(back) is pd.DataFrame
    same(back, frame)
    table, _ = stored(store, frame)
    assert table.num_rows == len(frame)
    # What a function does to its frame changes no one else's.
    own = frame.copy()
    for place in range(frame.shape[1] if len(frame) else 0):
        assert changed(back, (0, place), (-1, place)) == changed(own, (0, place), (-1, place))
    same(back, own)
    same(given(table, "pandas", "pandas"), before)
    same(frame, before)
    # and a function may return what it was given.
    same(again(store, again(store, frame)), before)


def changed(value: Any, to: Any, source: Any) -> str:
    """Write to a cell; what pandas says if it cannot."""
    try:
        value.iloc[to] = value.iloc[source]
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def same(back: Any, frame: Any) -> None:
    assert_frame_equal(back, frame, check_freq=True, check_flags=True)
    assert list(back.dtypes) == list(frame.dtypes)
    assert type(back.index) is type(frame.index)
    assert back.attrs == frame.attrs
    for place in range(frame.shape[1]):
        if frame.dtypes.iloc[place] == np.dtype(object):
            for one, two in zip(frame.iloc[:, place], back.iloc[:, place], strict=True):
                assert type(one) is type(two)
                assert repr(one) == repr(two)
        elif frame.dtypes.iloc[place].kind == "f":
            assert list(map(repr, back.iloc[:, place])) == list(map(repr, frame.iloc[:, place]))


@pytest.mark.parametrize("name", list(columns().columns))
def test_series_come_back_as_they_were(store: Store, name: str) -> None:
    series = columns()[name].rename(("a", 1))
    back = again(store, series)
    assert_series_equal(back, series)
    changed(back, 0, 1)
    assert_series_equal(again(store, series), series)
    own = again(store, series, "craton")
    assert isinstance(own, cpd.Series)
    assert own.name == ("a", 1)


def test_frames_as_other_libraries_have_them(store: Store) -> None:
    frame = columns()[["i", "f", "s", "c", "text and NaN", "lists of numbers"]]
    frame["i"] = [7, 1, 3, 2, 9]
    table, _ = stored(store, frame.set_index("i").rename_axis(None))
    arrow = given(table, "pandas", "arrow")
    assert arrow.column_names == ["f", "s", "c", "text and NaN", "lists of numbers", "__index_level_0__"]
    assert arrow["f"].to_pylist() == [1.5, None, 0.0, np.inf, 3]
    assert arrow["text and NaN"].to_pylist() == ["a", None, "b", "c", "d"]
    assert arrow["lists of numbers"].type == pa.list_(pa.int64())
    assert b"craton" not in arrow.schema.metadata
    assert arrow.to_pandas().index.tolist() == [7, 1, 3, 2, 9]
    assert given(table, "pandas", "polars").columns == ["f", "s", "c", "text and NaN", "lists of numbers"]
    named, _ = stored(store, frame.set_index("i"))
    assert given(named, "pandas", "polars").columns[-1] == "i"
    own = given(named, "pandas", "craton")
    assert isinstance(own, cpd.DataFrame)
    assert own["f"].sum() == np.inf
    assert given(named, "pandas", "numpy").shape == (N, 5)
    # A table that was changed is Arrow's, whatever it was made from.
    changed, form = stored(store, arrow.slice(1, 2))
    assert form == "arrow"
    assert given(changed, form, "pandas")["s"].tolist()[1] == "b"
    assert given(changed, form, "craton")["s"].tolist()[1] == "b"


def arrays() -> list[np.ndarray[Any, Any]]:
    random = np.random.default_rng(0)
    return [
        np.arange(5),
        np.arange(6.0).reshape(2, 3),
        np.asfortranarray(random.random((3, 4))),
        random.random((2, 3, 4)),
        random.random((2, 3, 4)).T,
        random.random((4, 4))[::2, ::2],
        np.zeros((0, 3)),
        np.zeros((3, 0)),
        np.zeros(0),
        np.array([True, False]),
        np.array(["a", "bcd"]),
        np.array([b"ab", b"c"]),
        np.array([1, 2], ">i4"),
        np.array([1 + 2j]),
        np.array([1], "M8[D]"),
        np.array([1], "m8[s]"),
        np.array([1.5], "longdouble"),
        np.array([1, 2], "f2"),
        np.array([np.nan, -0.0]),
        np.array([(1, [2.5]), (3, [4])], [("a", "i4"), ("b", "f8", (1,))]),
        np.array([(1, (2, 3))], [("a", "i4"), ("b", [("x", "i2"), ("y", "f4")])]),
    ]


@pytest.mark.parametrize("place", range(len(arrays())))
def test_arrays_come_back_as_they_were(store: Store, place: int) -> None:
    array = arrays()[place]
    back = again(store, array)
    assert (back.dtype, back.shape, back.tobytes()) == (array.dtype, array.shape, array.tobytes())
    assert not back.size or not back.flags.writeable
    assert outputs_of(array)[None].rows == len(array)
    same_again = again(store, back)
    assert same_again.tobytes() == array.tobytes()


def test_arrays_as_other_libraries_have_them(store: Store) -> None:
    assert again(store, np.array([1, 2], ">i4"), "arrow")["values"].to_pylist() == [1, 2]
    assert again(store, np.arange(4.0).reshape(2, 2), "pandas").to_numpy().tolist() == [[0, 1], [2, 3]]
    assert again(store, np.array(["a", "b"]), "polars")["values"].to_list() == ["a", "b"]
    assert again(store, np.array([(1, 2.5)], "i4,f8"), "craton")["f1"].sum() == 2.5
    assert again(store, np.arange(8.0).reshape(2, 2, 2), "arrow").num_rows == 2
    for array in (np.array([1j]), np.zeros((2, 2, 2), bool)):
        with pytest.raises(TypeError, match="NumPy array"):
            again(store, array, "arrow")
    assert again(store, pa.table({"x": [1, 2]}), "numpy").tolist() == [1, 2]
    assert again(store, pa.table({"x": [1, 2], "y": [0.5, None]}), "numpy").shape == (2, 2)


def test_polars_frames_come_back_as_they_were(store: Store) -> None:
    frame = pl.DataFrame(
        {
            "s": ["a", "bb" * 20, None],
            "c": pl.Series(["x", "y", "x"], dtype=pl.Categorical),
            "e": pl.Series(["x", "y", "x"], dtype=pl.Enum(["x", "y"])),
            "l": [["a"], ["b"], []],
            "d": [1, 2, 3],
            "f": [float("nan"), None, -0.0],
        }
    ).with_columns(
        dec=pl.col("d").cast(pl.Decimal(10, 2)),
        dt=pl.col("d").cast(pl.Datetime("us", "UTC")),
        t=pl.struct("s", "d"),
        a=pl.col("s").reshape((3, 1)),
        n=None,
        b=pl.col("s").cast(pl.Binary),
        time=pl.col("d").cast(pl.Time),
    )
    for value in (frame, frame.lazy(), frame.head(0)):
        back = again(store, value)
        expected = value.collect() if isinstance(value, pl.LazyFrame) else value
        assert back.schema == expected.schema
        assert back.equals(expected)
    arrow = again(store, frame, "arrow")
    assert arrow["s"].type == pa.large_string()  # what all of pyarrow's functions take
    assert arrow["c"].type.value_type == pa.large_string()
    assert again(store, frame.drop("time"), "pandas")["s"].tolist()[:2] == ["a", "bb" * 20]
    assert again(store, frame.select("s", "d"), "craton")["d"].sum() == 6


def test_craton_frames_come_back_as_crafted(store: Store) -> None:
    frame = cpd.DataFrame({"k": [1, 2, 1, 2], "x": [0.5, None, 1.5, 2.5]})
    grouped = frame[frame["x"] > 0].groupby("k")["x"].mean()
    table, form = stored(store, grouped)
    assert form == "craton"
    back = given(table, form, "craton")
    assert isinstance(back, cpd.Series)
    assert_series_equal(given(table, form, "pandas"), pd.Series([1.0, 2.5], pd.Index([1, 2], name="k"), name="x"))
    assert form_of(frame) == "craton"
    assert form_of(pd.DataFrame()) == "pandas"


def test_batches_of_an_iterator(store: Store) -> None:
    arrays = again(store, iter([np.zeros((0, 2)), np.ones((2, 2)), np.asfortranarray(np.arange(4.0).reshape(2, 2))]))
    assert arrays.tolist() == [[1, 1], [1, 1], [0, 1], [2, 3]]
    parts = [pd.DataFrame({"x": [1, 2], "s": ["a", None]}), pd.DataFrame({"x": [3], "s": ["b"]})]
    assert_frame_equal(again(store, iter(parts)), pd.concat(parts, ignore_index=True))
    labelled = [part.set_index("s") for part in parts]
    assert_frame_equal(again(store, iter(labelled)), pd.concat(labelled))
    days = pd.DataFrame({"x": range(4)}, index=pd.date_range("2020", periods=4, freq="D"))
    back = again(store, iter([days[:2], days[2:]]))
    assert_frame_equal(back, days, check_freq=False)
    one = pl.DataFrame({"a": ["x"]})
    assert again(store, iter([one, one]))["a"].to_list() == ["x", "x"]


@pytest.mark.parametrize(
    ("batches", "said"),
    [
        ([], "no batches"),
        ([1], "batch 0"),
        ([pa.table({"a": [1]}), pa.table({"b": [1]})], "batch 1"),
        ([pa.table({"a": [1]}), pd.DataFrame({"a": [1]})], "of pandas"),
        ([np.zeros(2), np.zeros((2, 2))], "shape"),
        ([np.zeros(2), np.zeros(2, int)], "int64"),
        ([pd.DataFrame({"x": pd.Categorical([1])}), pd.DataFrame({"x": pd.Categorical([2])})], "category"),
        ([pd.DataFrame({"x": [1]}), pd.DataFrame({"x": [1]}, index=["a"])], "columns"),
        ([pd.DataFrame({"x": [1]}, index=[5]), pd.DataFrame({"x": [1]}, index=pd.Index([6], name="k"))], "columns"),
        ([pd.DataFrame([[1]], columns=[0]), pd.DataFrame([[1]], columns=["0"])], "columns"),
        ([pd.Series(["a", None], dtype=object), pd.Series(["a", np.nan], dtype=object)], "kinds of objects"),
        ([pd.Series([1]), pd.DataFrame({"values": [1]})], "columns"),
    ],
)
def test_batches_that_differ(batches: list[Any], said: str) -> None:
    with pytest.raises(NotATable, match=said):
        outputs_of(iter(batches))


def test_what_is_no_table() -> None:
    for value in (None, 3, [1], np.float64(1), np.array(3), {}, {"a": None}, {1: pa.table({})}, "x", pl.Series([1])):
        with pytest.raises(NotATable, match=r"expected a table|names of outputs"):
            outputs_of(value)
    for value in (np.array([None]), np.ma.array([1], mask=[True]), pd.DataFrame({"x": [lambda: 1]})):
        with pytest.raises(NotATable, match="cannot be stored"):
            outputs_of(value)
