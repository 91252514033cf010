"""Bad input: the class and text of the error are pandas', and no partial file is left."""

from __future__ import annotations

import operator
import os
import warnings

import numpy as np
import pandas
import pytest
from support import check

FRAME = pandas.DataFrame(
    {
        "k": [3, 1, 2, 1],
        "f": [1.5, np.nan, 2.5, np.inf],
        "s": ["b", "a", None, "c"],
        "t": pandas.to_datetime(["2020-01-01", None, "2021-06-01", "1999-12-31"]),
        "b": [True, False, True, True],
        "big": [300, -300, 2**40, -(2**40)],
        "c": pandas.Categorical(["x", "y", None, "x"]),
    }
)
READERS = {
    "csv": lambda pd, path, **named: pd.read_csv(path, **named),
    "parquet": lambda pd, path, **named: pd.read_parquet(path, **named),
    "feather": lambda pd, path, **named: pd.read_feather(path, **named),
    "json": lambda pd, path, **named: pd.read_json(path, lines=True, **named),
}
WRITERS = {
    "csv": lambda frame, path: frame.to_csv(path, index=False),
    "parquet": lambda frame, path: frame.to_parquet(path),
    "feather": lambda frame, path: frame.to_feather(path),
    "json": lambda frame, path: frame.to_json(path, orient="records", lines=True, date_format="iso"),
}


def fails(program, *data):
    """Check that pandas and Craton raise the same error, and return it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        error = check(program, *data, native=None)
    assert isinstance(error, Exception), error
    return error


# -- files ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", READERS)
@pytest.mark.parametrize("kind", [str, os.path.abspath, "path"])
def test_missing_file(tmp_path, form, kind):
    path = tmp_path / "no such file" if kind == "path" else kind(str(tmp_path / "no such file"))
    assert isinstance(fails(lambda pd: READERS[form](pd, path)), FileNotFoundError)


@pytest.mark.parametrize("form", READERS)
def test_folder_in_place_of_a_file(tmp_path, form):
    check(lambda pd: READERS[form](pd, tmp_path), native=None)


@pytest.mark.parametrize("form", READERS)
@pytest.mark.parametrize("kept", [0, 3, 0.1, 0.5, 0.9, -1, -6, -9])
def test_truncated_file(tmp_path, form, kept):
    path = tmp_path / f"x.{form}"
    frame = pandas.concat([FRAME] * 500, ignore_index=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        WRITERS[form](frame, path)
    data = path.read_bytes()
    path.write_bytes(data[: kept if isinstance(kept, int) else int(len(data) * kept)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(lambda pd: READERS[form](pd, path), native=None)
        check(lambda pd: READERS[form](pd, path)["k"].sum(), native=None)


@pytest.mark.parametrize("form", READERS)
def test_file_of_another_form(tmp_path, form):
    for other in WRITERS:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            WRITERS[other](FRAME, tmp_path / other)
            check(lambda pd, other=other: READERS[form](pd, tmp_path / other), native=None)


@pytest.mark.parametrize("where", [1, 50, 150_000])
@pytest.mark.parametrize("row", ["1,2,3,4", '"1,2', "x\0y,2", "1,2,3,4,5,6"])
def test_bad_csv_row(tmp_path, where, row):
    path = tmp_path / "x.csv"
    path.write_text("a,b,c\n" + "1,2.5,x\n" * where + row + "\n" + "3,4.5,y\n" * 3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(lambda pd: pd.read_csv(path), native=None)
        check(lambda pd: pd.read_csv(path)["b"].sum(), native=None)
        check(lambda pd: pd.read_csv(path, dtype={"a": "int64"}), native=None)


@pytest.mark.parametrize("where", [1, 50, 20_000])
@pytest.mark.parametrize(
    "row", ['{"a":1', "rubbish", '{"a":1}}', '{"a":}', '{"a":1e999}', '{"a":99999999999999999999}']
)
def test_bad_json_row(tmp_path, where, row):
    path = tmp_path / "x.json"
    path.write_text('{"a":1,"b":"x"}\n' * where + row + "\n" + '{"a":1,"b":"x"}\n' * 3)
    check(lambda pd: pd.read_json(path, lines=True), native=None)
    check(lambda pd: pd.read_json(path, lines=True)["a"].sum(), native=None)


# -- names ---------------------------------------------------------------------------------------------------------------

UNKNOWN = {
    "getitem": lambda pd, f: f["no"],
    "getitem of a list": lambda pd, f: f[["k", "no"]],
    "getitem of unknown ones": lambda pd, f: f[["no", "neither"]],
    "loc": lambda pd, f: f.loc[:, "no"],
    "loc of a list": lambda pd, f: f.loc[:, ["k", "no"]],
    "attribute": lambda pd, f: f.no,
    "del": lambda pd, f: f.__delitem__("no"),
    "pop": lambda pd, f: f.pop("no"),
    "drop": lambda pd, f: f.drop(columns=["no"]),
    "drop of two": lambda pd, f: f.drop(columns=["k", "no", "neither"]),
    "rename": lambda pd, f: f.rename(columns={"no": "x"}, errors="raise"),
    "set_index": lambda pd, f: f.set_index("no"),
    "set_index of two": lambda pd, f: f.set_index(["k", "no", "neither"]),
    "sort_values": lambda pd, f: f.sort_values("no"),
    "sort_values of two": lambda pd, f: f.sort_values(["k", "no"]),
    "groupby": lambda pd, f: f.groupby("no"),
    "groupby of two": lambda pd, f: f.groupby(["k", "no"])["f"].sum(),
    "groupby getitem": lambda pd, f: f.groupby("k")["no"].sum(),
    "groupby getitem of a list": lambda pd, f: f.groupby("k")[["f", "no"]].sum(),
    "groupby agg": lambda pd, f: f.groupby("k").agg({"no": "sum"}),
    "groupby named agg": lambda pd, f: f.groupby("k").agg(x=("no", "sum")),
    "groupby unknown function": lambda pd, f: f.groupby("k")["f"].agg("no"),
    "merge": lambda pd, f: f.merge(f, on="no"),
    "merge of two": lambda pd, f: f.merge(f, on=["k", "no"]),
    "merge left_on": lambda pd, f: f.merge(f, left_on="no", right_on="k"),
    "merge right_on": lambda pd, f: f.merge(f, left_on="k", right_on="no"),
    "merge without common columns": lambda pd, f: f[["k"]].merge(f[["f"]]),
    "drop_duplicates": lambda pd, f: f.drop_duplicates("no"),
    "dropna": lambda pd, f: f.dropna(subset=["no"]),
    "fillna": lambda pd, f: f.fillna({"no": 1}),
    "astype": lambda pd, f: f.astype({"no": "int64"}),
    "query": lambda pd, f: f.query("no > 1"),
    "eval": lambda pd, f: f.eval("no + 1"),
    "pivot_table": lambda pd, f: f.pivot_table(index="no", values="f"),
    "melt": lambda pd, f: f.melt(id_vars="no"),
    "nlargest": lambda pd, f: f.nlargest(2, "no"),
    "agg": lambda pd, f: f.agg({"no": "sum"}),
    "explode": lambda pd, f: f.explode("no"),
    "value_counts": lambda pd, f: f.value_counts("no"),
    "iloc": lambda pd, f: f.iloc[:, 99],
    "iloc of rows": lambda pd, f: f.iloc[99],
    "loc of a row": lambda pd, f: f.loc[99],
    "at": lambda pd, f: f.at[0, "no"],
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_unknown_column(tmp_path, name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(UNKNOWN[name], FRAME, native=None)
        FRAME.to_parquet(tmp_path / "x.parquet")
        error = check(lambda pd: UNKNOWN[name](pd, pd.read_parquet(tmp_path / "x.parquet")), native=None)
    assert isinstance(error, Exception) or name == "fillna"


@pytest.mark.parametrize(
    ("form", "named"),
    [
        ("csv", {"usecols": ["k", "no"]}),
        ("csv", {"usecols": [99]}),
        ("csv", {"index_col": "no"}),
        ("csv", {"parse_dates": ["no"]}),
        ("csv", {"dtype": {"k": "no such"}}),
        ("csv", {"dtype": {"s": "int64"}}),
        ("csv", {"dtype": {"big": "int8"}}),
        ("parquet", {"columns": ["k", "no"]}),
        ("parquet", {"columns": ["no"]}),
        ("parquet", {"filters": [("no", ">", 1)]}),
        ("feather", {"columns": ["k", "no"]}),
        ("json", {"dtype": {"s": "int64"}}),
    ],
)
def test_unknown_column_of_a_file(tmp_path, form, named):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        WRITERS[form](FRAME, tmp_path / "x")
        check(lambda pd: READERS[form](pd, tmp_path / "x", **named), native=None)


MISMATCHED = {
    "int and text": lambda pd, f: f.merge(f, left_on="k", right_on="s"),
    "text and int": lambda pd, f: f.merge(f, left_on="s", right_on="k"),
    "dates and int": lambda pd, f: f.merge(f, left_on="t", right_on="k"),
    "dates and text": lambda pd, f: f.merge(f, left_on="t", right_on="s"),
    "float and text": lambda pd, f: f.merge(f, left_on="f", right_on="s"),
    "bool and int": lambda pd, f: f.merge(f, left_on="b", right_on="k"),
    "bool and text": lambda pd, f: f.merge(f, left_on="b", right_on="s"),
    "category and int": lambda pd, f: f.merge(f, left_on="c", right_on="k"),
    "float and int": lambda pd, f: f.merge(f, left_on="f", right_on="k"),
    "two and one": lambda pd, f: f.merge(f, left_on=["k", "s"], right_on=["k"]),
    "one and two": lambda pd, f: f.merge(f, left_on="k", right_on=["k", "s"]),
    "left only": lambda pd, f: f.merge(f, left_on="k"),
    "right only": lambda pd, f: f.merge(f, right_on="k"),
    "on and left_on": lambda pd, f: f.merge(f, on="k", left_on="k", right_on="k"),
    "on and index": lambda pd, f: f.merge(f, on="k", left_index=True),
    "index and two": lambda pd, f: f.merge(f, left_on=["k", "s"], right_index=True),
    "unknown how": lambda pd, f: f.merge(f, on="k", how="no"),
    "validate": lambda pd, f: f.merge(f, on="k", validate="one_to_one"),
    "suffixes": lambda pd, f: f.merge(f, on="k", suffixes=("", "")),
    "cross with keys": lambda pd, f: f.merge(f, on="k", how="cross"),
    "join of the same columns": lambda pd, f: f.join(f),
    "indexes of other kinds": lambda pd, f: f.set_index("k").merge(f.set_index("s"), left_index=True, right_index=True),
    "concat of nothing": lambda pd, f: pd.concat([]),
    "concat of None": lambda pd, f: pd.concat([None]),
    "concat of text": lambda pd, f: pd.concat([f, "x"]),
    "no frame": lambda pd, f: pd.merge(f, 1, on="k"),
    "mask of another length": lambda pd, f: f[[True]],
    "column of another length": lambda pd, f: f.assign(z=[1, 2]),
    "labels of another length": lambda pd, f: f.set_axis(["a"], axis=1),
    "text and number": lambda pd, f: f["s"] + f["k"],
    "text over number": lambda pd, f: f["s"] / 2,
    "text less than number": lambda pd, f: f["s"] < 1,
    "dates plus dates": lambda pd, f: f["t"] + f["t"],
    "dates less than number": lambda pd, f: f["t"] < 1,
    "mean of text": lambda pd, f: f["s"].mean(),
    "sum of dates": lambda pd, f: f["t"].sum(),
    "str of numbers": lambda pd, f: f["k"].str.upper(),
    "dt of numbers": lambda pd, f: f["k"].dt.year,
    "bool of a series": lambda pd, f: bool(f["k"]),
    "mean of a group's text": lambda pd, f: f.groupby("k")["s"].mean(),
    "bad regular expression": lambda pd, f: f["s"].str.contains("("),
}


@pytest.mark.parametrize("name", MISMATCHED)
def test_mismatched_operands(tmp_path, name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(MISMATCHED[name], FRAME, native=None)
        FRAME.to_parquet(tmp_path / "x.parquet")
        check(lambda pd: MISMATCHED[name](pd, pd.read_parquet(tmp_path / "x.parquet")), native=None)


# -- casts ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("column", ["k", "f", "s", "t", "b", "big", "c"])
@pytest.mark.parametrize(
    "dtype",
    [
        "int8",
        "uint8",
        "int32",
        "int64",
        "uint64",
        "float32",
        "float64",
        "bool",
        "str",
        "datetime64[ns]",
        "Int8",
        "Int64",
        "UInt8",
        "Float32",
        "boolean",
        "string",
        "category",
        "timedelta64[s]",
        "int8[pyarrow]",
        "double[pyarrow]",
        "no",
    ],
)
def test_casts(column, dtype):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(lambda pd, f: f[column].astype(dtype), FRAME, native=None)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64", "uint64", "Int8", "Int64", "UInt64"])
@pytest.mark.parametrize(
    "values",
    [
        [1.5, 2.0],
        [1.0, np.nan],
        [1.0, np.inf],
        [1e20, 1.0],
        [-1.0, 2.0],
        [127.0, 128.0],
        [2.0**63],
        [-0.0],
        ["1", "x"],
        ["300"],
        ["1.5"],
        [None, "1"],
        ["99999999999999999999"],
    ],
    ids=str,
)
def test_overflow_on_cast(dtype, values):
    series = pandas.Series(values)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(lambda pd, s: s.astype(dtype), series, native=None)
        check(lambda pd, s: s.to_frame("x").astype({"x": dtype}), series, native=None)


@pytest.mark.parametrize("downcast", [None, "integer", "signed", "unsigned", "float", "no"])
@pytest.mark.parametrize(
    "values",
    [
        [1, 300],
        [-1, 2],
        [2**40, 1],
        [1.0, 2.0],
        [1.5, 2.0],
        [1.0, np.nan],
        [np.inf, 1.0],
        [1e300, 1.0],
        ["1", "300"],
        ["1", "x"],
        ["1.5", None],
        [True, False],
        ["99999999999999999999"],
    ],
    ids=str,
)
def test_to_numeric(downcast, values):
    series = pandas.Series(values)
    check(lambda pd, s: pd.to_numeric(s, downcast=downcast), series, native=None)
    check(lambda pd, s: pd.to_numeric(s, errors="coerce", downcast=downcast), series, native=None)


@pytest.mark.parametrize("values", [["2020-01-01", "x"], ["2020-13-01"], ["2020-01-01", "01/02/2020"], ["9999-99-99"]])
def test_to_datetime(values):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(lambda pd, s: pd.to_datetime(s), pandas.Series(values), native=None)
        check(lambda pd, s: pd.to_datetime(s, format="%Y-%m-%d"), pandas.Series(values), native=None)


def test_dates_beyond_their_range():
    last = pandas.Series(np.array([2**63 - 5, 0], dtype="M8[us]"))
    for unit in ("us", "ns"):
        days = pandas.Series(np.array([10**18, 1], dtype=f"m8[{unit}]"))
        fails(lambda pd, a, b: a + b, last.astype("M8[us]"), days)
    assert isinstance(fails(lambda pd, a: a + pandas.Timedelta(days=1), last), OverflowError)
    assert isinstance(fails(lambda pd, a: pandas.Timedelta(days=1) + a, last), OverflowError)
    assert isinstance(fails(lambda pd, a: a - pandas.Timestamp("1960-01-01"), last), OverflowError)
    check(lambda pd, a: a.iloc[1:] + pandas.Timedelta(days=1), last)


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("date", ["2262-01-01", "1677-10-01", "290000-01-01"])
@pytest.mark.parametrize(
    "step", [{"years": 1}, {"months": -6}, {"days": 200}, {"years": 8000}, {"microseconds": 1}], ids=str
)
def test_calendar_steps(unit, date, step):
    if unit == "ns" and date.startswith("29"):
        return
    series = pandas.Series(np.array([date], dtype=f"M8[{unit}]"))
    check(lambda pd, s: s + pd.DateOffset(**step), series, native=None)


def test_calls_that_pandas_refuses():
    fails(lambda pd, f: f["f"].groupby(f["k"], as_index=False), FRAME)
    fails(lambda pd, f: f["f"].groupby(as_index=False), FRAME)
    fails(lambda pd, f: f.eval("k + f", inplace=True), FRAME)
    fails(lambda pd, f: f.eval("k + f", inplace=1), FRAME)


# -- rows that make a call fail --------------------------------------------------------------------------------------------

UNCLEAR = pandas.DataFrame(
    {
        "cat": pandas.Categorical(["a", None, "b"]),
        "none": pandas.Categorical([None] * 3, categories=["a", "b"]),
        "numbered": pandas.Categorical([1, None, 3]),
        "nullable": pandas.Categorical(pandas.array([1, None, 3], dtype="Int64")),
        "bool": [True, False, True],
        "int": [1, 2, 3],
        "minus": [-1, 1, 2],
        "str": ["a", None, "b"],
        "date": pandas.to_datetime(["2020-01-01", None, "2021-01-01"]),
        "boolean": pandas.array([False, None, None], dtype="boolean"),
        "Int64": pandas.array([1, None, 3], dtype="Int64"),
        "string": pandas.array(["a", None, "b"], dtype="string"),
        "bool[pyarrow]": pandas.array([True, None, False], dtype="bool[pyarrow]"),
        "int64[pyarrow]": pandas.array([1, None, 3], dtype="int64[pyarrow]"),
    }
)
OPERATORS = {name: getattr(operator, name) for name in ("eq", "lt", "and_", "pow")}


def at_once(program, data):
    """Compare with pandas. An error must also be raised if the program does not read the result."""

    def unread(pd, f):
        program(pd, f)
        return 0

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if isinstance(check(program, data, native=None), Exception):
            check(unread, data, native=None)


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("left", UNCLEAR)
def test_operators_of_any_two_columns(name, left):
    for right in UNCLEAR:
        at_once(lambda pd, f, right=right: OPERATORS[name](f[left], f[right]), UNCLEAR)


@pytest.mark.parametrize("name", [*OPERATORS, "or_"])
@pytest.mark.parametrize("column", UNCLEAR)
def test_operators_of_any_column_and_scalar(name, column):
    for scalar in (None, pandas.NA, True, -1, 1.5, "a"):
        at_once(lambda pd, f, scalar=scalar: getattr(operator, name)(f[column], scalar), UNCLEAR)


@pytest.mark.parametrize("column", UNCLEAR)
def test_membership_and_inversion(column):
    for values in ([1, "a", True], [pandas.NA], [None], [1], []):
        at_once(lambda pd, f, values=values: f[column].isin(values), UNCLEAR)
    at_once(lambda pd, f: ~f[column], UNCLEAR)


def test_a_condition_of_unclear_truth_that_nobody_reads():
    def program(pd, f):
        g = f.assign(new=f["boolean"].where(f["none"] == f["boolean"]))
        return g.assign(new=g["int"] + 1)

    assert isinstance(fails(program, UNCLEAR), TypeError)


def test_objects_that_hold_na():
    values = np.array([True, pandas.NA, False], dtype=object)
    frame = pandas.DataFrame({"o": values, "n": [1, 2, 3]})
    for program in (
        lambda pd, f: f["o"] == f["n"],
        lambda pd, f: f["n"].where(f["o"]),
        lambda pd, f: f["n"].mask(f["o"]),
        lambda pd, f: f[f["o"]],
        lambda pd, f: f.loc[f["o"], "n"],
        lambda pd, f: f["o"].any(),
        lambda pd, f: f["o"].max(skipna=False),
        lambda pd, f: f["o"].astype(bool),
        lambda pd, f: ~f["o"],
        lambda pd, f: f["o"] & f["o"],
        lambda pd, f: f["o"].sum(),
        lambda pd, f: f["o"].sort_values(),
    ):
        check(program, frame, native=None)


def test_a_number_beside_dates_in_a_query():
    for text in ("date == 2020", "date == 1", "2020 == date", "date != 2020"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            check(lambda pd, f, text=text: f.query(text), UNCLEAR, native=None)
