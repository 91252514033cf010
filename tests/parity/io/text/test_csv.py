"""read_csv against pandas: inference over the whole file, parameters, quoting, odd text, bad rows."""

from __future__ import annotations

import gzip
import os
import threading
import warnings

import numpy as np
import pandas
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import case_id, check

import craton
import craton.pandas as cp

PLAIN = """id,price,name,flag,day,when
1,1.5,ab,True,2020-01-01,2020-01-01 10:00:00
2,,c d,False,2020-01-02,2021-01-01 10:00:01
3,-0.25,,True,,
4,1e3,NA,False,2020-12-31,2020-06-01 00:00:00
"""


@pytest.fixture
def write(tmp_path):
    def write(text, name="x.csv"):
        data = text if isinstance(text, bytes) else text.encode()
        (tmp_path / name).write_bytes(data)
        return tmp_path / name

    return write


def test_plain(write):
    path = write(PLAIN)
    check(lambda pd: pd.read_csv(path))
    check(lambda pd: pd.read_csv(str(path)).query("id > 1")[["price", "name"]])
    check(lambda pd: pd.read_csv(path)["price"].sum())
    check(lambda pd: len(pd.read_csv(path)))


@pytest.mark.parametrize(
    "named",
    [
        {"usecols": ["name", "id"]},
        {"usecols": [0, 2]},
        {"usecols": lambda name: name != "price"},
        {"dtype": {"id": "int8", "price": "float32"}},
        {"dtype": {"id": "Int16", "price": "Float64", "flag": "boolean", "name": "string"}},
        {"dtype": str},
        {"dtype": {"id": "float64", "name": str}},
        {"na_values": ["ab"]},
        {"na_values": "ab", "keep_default_na": True},
        {"keep_default_na": False, "na_values": [""]},
        {"parse_dates": ["day"]},
        {"parse_dates": ["day", "when"], "usecols": ["id", "day", "when"]},
        {"index_col": "id"},
        {"index_col": 2},
        {"index_col": ["name", "id"]},
        {"index_col": "day", "parse_dates": True},
        {"index_col": "day", "parse_dates": ["day"]},
        {"names": list("uvwxyz"), "header": 0},
        {"skiprows": 2, "header": None},
        {"header": 1},
        {"header": None, "skiprows": 1, "names": list("abcdef")},
        {"low_memory": False},
        {"engine": "c"},
    ],
    ids=case_id,
)
def test_parameters(write, named):
    path = write(PLAIN)
    check(lambda pd: pd.read_csv(path, **named))


@pytest.mark.parametrize(
    "labels", [(1, 4, 7), (9, 7, 5), (1, 4, 5), (2, 2, 2), ("u", "v", "w"), (1.0, 2.0, 3.0), (1, "", 3)]
)
@pytest.mark.parametrize(
    "named",
    [
        {"index_col": "a"},
        {"index_col": 0},
        {"index_col": ["a"]},
        {"index_col": "a", "dtype": {"b": "str"}},
        {"index_col": "a", "dtype": {"a": "str"}},
        {"index_col": "a", "dtype": {"a": "float64"}},
        {"index_col": "a", "dtype": {"a": "int64"}},
        {"index_col": "k", "names": ["k", "b"], "header": 0},
    ],
    ids=case_id,
)
def test_classes_of_labels(write, tmp_path, labels, named):
    path = write("a,b\n" + "".join(f"{label},{i}\n" for i, label in enumerate(labels)))
    check(lambda pd: type(pd.read_csv(path, **named).index), native=None)
    check(lambda pd: list(map(type, pd.read_csv(path, **named).index)), native=None)

    def written(pd):
        pd.read_csv(path, **named).to_parquet(tmp_path / "x.parquet")
        return pq.read_schema(tmp_path / "x.parquet").names

    check(written, native=None)


@pytest.mark.parametrize(
    "named",
    [
        {"nrows": 2},
        {"skiprows": [3]},
        {"skiprows": lambda line: line == 1},
        {"engine": "python"},
        {"dtype": {"name": "category"}},
        {"converters": {"id": str}},
        {"na_values": {"id": [2]}},
        {"parse_dates": ["name"]},
        {"sep": r"\s+"},
        {"float_precision": "round_trip"},
        {"skipinitialspace": True},
        {"skipfooter": 1, "engine": "python"},
        {"escapechar": "\\"},
        {"header": [0, 1]},
        {"encoding": "utf-16"},
        {"dtype_backend": "pyarrow", "index_col": "id"},
    ],
    ids=case_id,
)
@pytest.mark.filterwarnings("ignore")
def test_parameters_that_fall_back(write, named):
    text = PLAIN.encode("utf-16") if named.get("encoding") == "utf-16" else PLAIN
    path = write(text)
    check(lambda pd: pd.read_csv(path, **named), native=False)


@pytest.mark.parametrize("dtype", ["int8", "float64", "Int64", "str"])
@pytest.mark.parametrize("header", ["a,a,b", "a,b,a", "a,a,a", "a,a.1,b", "a,a,a.1", "a,b,c", "a.1,a.1,a"])
def test_dtypes_of_repeated_labels(write, header, dtype):
    """pandas reads all columns with the same label in the dtype given for that label."""
    path = write(header + "\n1,2,3\n4,5,6\n")
    for names in (["a"], ["b"], ["a.1"], ["a", "a.1"], ["a", "b"]):
        named = {name: dtype for name in names if name in header.split(",")}
        check(lambda pd, named=named: pd.read_csv(path, dtype=named), native=None)
        check(lambda pd, named=named: pd.read_csv(path, dtype=named).sum(), native=None)
        check(lambda pd, named=named: pd.read_csv(path, dtype=named, usecols=[0, 1]).iloc[:, 1].max(), native=None)
        check(lambda pd, named=named: pd.read_csv(path, dtype=named, index_col=0).index, native=None)
    check(lambda pd: pd.read_csv(path, dtype={"b": dtype}), native="b" in header.split(",") or None)


@pytest.mark.parametrize("separator", [";", "\t", "|", ":"])
def test_separators(write, separator):
    path = write(PLAIN.replace(":", ".").replace(",", separator))
    check(lambda pd: pd.read_csv(path, sep=separator))
    check(lambda pd: pd.read_csv(path, delimiter=separator))
    if separator == "\t":
        check(lambda pd: pd.read_table(path))


@pytest.mark.parametrize("suffix", ["gz", "zst"])
def test_compressed(tmp_path, suffix):
    name = tmp_path / f"x.csv.{suffix}"
    if suffix == "gz":
        name.write_bytes(gzip.compress(PLAIN.encode()))
    else:
        import pyarrow as pa

        with pa.output_stream(str(name), compression="zstd") as sink:
            sink.write(PLAIN.encode())
        pytest.importorskip("compression.zstd" if not _has("zstandard") else "zstandard")
    check(lambda pd: pd.read_csv(name))


def _has(name):
    import importlib.util

    return importlib.util.find_spec(name) is not None


@pytest.mark.parametrize("suffix", ["bz2", "xz", "zip"])
def test_compressions_of_pandas_alone(tmp_path, suffix):
    frame = pandas.DataFrame({"a": [1, 2]})
    frame.to_csv(tmp_path / f"x.csv.{suffix}", index=False)
    check(lambda pd: pd.read_csv(tmp_path / f"x.csv.{suffix}"), native=False)


VALUES = {
    "ints": ["1", "-2", "+3", "007"],
    "large": ["9223372036854775807", "-9223372036854775808"],
    "unsigned": ["1", "18446744073709551615"],
    "huge": ["1", "184467440737095516150"],
    "floats": ["1.", ".5", "1e5", "-1E-3", "0.1", "123456789.12345678901234", "2.2250738585072011e-308"],
    "infinite": ["inf", "-Inf", "Infinity", "1e400"],
    "ints and missing": ["1", "", "3"],
    "large and missing": ["9007199254740993", "", "1"],
    "huge and missing": ["184467440737095516150", "", "3"],
    "ints and floats": ["1", "2.5"],
    "padded": [" 1", "2 ", "3"],
    "padded floats": [" 1.5", "2"],
    "booleans": ["True", "false", "TRUE"],
    "odd booleans": ["tRuE", "false"],
    "booleans and missing": ["True", "", "False"],
    "booleans and text": ["True", "x"],
    "booleans and ints": ["True", "1"],
    "numbers and text": ["1", "x", "2.5", ""],
    "text": ["a", "b c", " d ", "é", "日本"],
    "text and missing": ["a", "", "NA", "null"],
    "nothing": ["", "NA", ""],
    "nans": ["nan", "NaN", "1.5"],
    "odd nans": ["NAN", "1.5"],
    "hexadecimal": ["0x10", "1_000"],
    "half numbers": ["1e", "2"],
    "a point": ["."],
    "trailing": ["5.0x"],
    "two": ["1 2"],
    "signs": ["--1", "+-1", "- 5"],
    "letters": ["1d5", "1f", "e5"],
    "other digits": ["١", "２"],
    "blanks": ["  ", "a"],
    "dates": ["2020-01-01", "2020-01-02"],
}


@pytest.mark.parametrize("kind", VALUES)
def test_inference(write, kind):
    path = write("a,b\n" + "".join(f"{value},1\n" for value in VALUES[kind]))
    check(lambda pd: pd.read_csv(path), native=None)
    check(lambda pd: pd.read_csv(path, dtype={"a": str}), native=None)


def test_a_late_value_decides(write):
    rows = 5000
    for late, kind in [("2.5", "f"), ("x", "O"), ("", "f"), ("7", "i"), ("True", "O")]:
        path = write("a,b\n" + "1,1\n" * rows + f"{late},1\n", f"{kind}.csv")
        got = check(lambda pd, path=path: pd.read_csv(path))
        assert got["a"].dtype.kind == kind
    path = write("a,b\n" + "x,1\n" * rows + "1,1\n" * rows)
    check(lambda pd: pd.read_csv(path))


@pytest.mark.filterwarnings("ignore::pandas.errors.DtypeWarning")
def test_types_that_depend_on_chunks(write):
    rows = 300_000  # more than a chunk of pandas' reader
    for head, tail in [("1", "x"), ("", "x"), ("x", ""), ("True", "1"), ("1", "2.5"), ("", "3"), ("", "True")]:
        path = write("a,b\n" + f"{head},1\n" * rows + f"{tail},1\n" * 7, f"{head}-{tail}.csv")
        check(lambda pd, path=path: pd.read_csv(path), native=None)


TEXTS = {
    "crlf": b"a,b\r\n1,x\r\n2,\r\n",
    "bare cr": b"a,b\r1,x\r2,y\r",
    "no end": b"a,b\n1,x\n2,y",
    "bom": b"\xef\xbb\xbfa,b\n1,x\n",
    "bom and quote": b'\xef\xbb\xbf"a",b\n1,x\n',
    "quoted": b'a,b\n"1","x, y"\n"2","z ""q"" z"\n',
    "quoted nothing": b'a,b\n"","x"\n2,""\n',
    "quoted missing": b'a,b\n"NA","x"\n2,"NA"\n',
    "lines within": b'a,b\n1,"x\n\ny"\n2,"u\r\nv"\n',
    "quote within": b'a,b\n1,x"y\n2,5" disk\n',
    "text behind quote": b'a,b\n1,"x"y\n2,z\n',
    "open quote": b'a,b\n1,"x\n2,z\n',
    "quoted header": b'"a, b","c"\n1,2\n',
    "header of two lines": b'"a\nb","c"\n1,2\n',
    "blank lines": b"a,b\n\n1,x\n\n2,y\n\n",
    "blank first": b"\n\na,b\n1,x\n",
    "blank last": b"a,b\n1,x\n\n",
    "line of blanks": b"a,b\n1,x\n   \n2,y\n",
    "tab line": b"a,b\n1,x\n\t\n2,y\n",
    "missing lines": b"a,b\n1,x\n,\n2,y\n",
    "short rows": b"a,b,c\n1,2,3\n4,5\n6\n",
    "implicit index": b"a,b\nx,1,2\ny,3,4\n",
    "trailing separators": b"a,b\n1,2,\n3,4,\n",
    "double labels": b"a,a,b\n1,2,3\n",
    "no labels": b",b\n1,2\n",
    "one column": b"a\n1\n2\n",
    "one column, blank": b"a\n1\n\n2\n",
    "latin": "a,b\n1,é\n".encode("latin-1"),
    "nul": b"a,b\n1,x\0y\n",
    "only a header": b"a,b\n",
    "empty": b"",
    "comment": b"a,b\n# c\n1,2\n",
}


@pytest.mark.parametrize("kind", TEXTS)
@pytest.mark.filterwarnings("ignore")
def test_texts(write, kind):
    path = write(TEXTS[kind])
    check(lambda pd: pd.read_csv(path), native=None)


def test_quotes_at_the_edge_of_a_block(write, monkeypatch):
    from craton.pandas.io.text import csv_text

    data = b"a,b\n" + b'"x ""y"" z","1\r\n2"\r\n' * 3 + b'q,"r"\r\n'
    for size in range(1, 20):
        monkeypatch.setattr(csv_text, "_BLOCK", size)
        path = write(data, f"{size}.csv")
        check(lambda pd, path=path: pd.read_csv(path))


@pytest.mark.parametrize(
    ("text", "named", "error"),
    [
        ("a,b\n1,2\n1,2,3\n", {}, pandas.errors.ParserError),
        ("a,b\n1,2\n3,4\n", {"usecols": ["a", "nope"]}, ValueError),
        ("a,b\n1,2\n3,4\n", {"index_col": "nope"}, ValueError),
        ("a,b\n1,2\n3,4\n", {"parse_dates": ["nope"]}, ValueError),
        ("a,b\n1,2\n300,4\n", {"dtype": {"a": "int8"}}, None),
        ("a,b\n1,2\n99999999999999999999,4\n", {"dtype": {"a": "int64"}}, OverflowError),
        ("a,b\n1,2\nx,4\n", {"dtype": {"a": "int64"}}, ValueError),
        ("a,b\n1,2\n,4\n", {"dtype": {"a": "int64"}}, ValueError),
        ("a,b\n1,2\nx,4\n", {"dtype": {"a": "float64"}}, ValueError),
        ("a,b\n1,2\n", {"dtype": {"a": "no such"}}, TypeError),
        ("a,b\n1,2\n", {"dtype": {"a": "datetime64[ns]"}}, TypeError),
        ("", {}, pandas.errors.EmptyDataError),
        ("a;b\n1;2\n", {"delimiter": ";", "sep": ","}, ValueError),
        ("a;b\n1;2\n", {"delimiter": ";", "sep": ";"}, ValueError),
        ("a;b\n1;2\n", {"delimiter": ";", "sep": None}, ValueError),
        ("a;b\n1;2\n", {"delimiter": None, "sep": ";"}, None),
        ("a;b\n1;2\n", {"delimiter": ""}, None),
        ("a;b\n1;2\n", {"delimiter": "", "sep": ";"}, None),
    ],
)
def test_bad_input(write, text, named, error):
    path = write(text)
    got = check(lambda pd: pd.read_csv(path, **named), native=None)
    assert error is None or isinstance(got, error)


def test_missing_file(tmp_path):
    assert isinstance(check(lambda pd: pd.read_csv(tmp_path / "nope.csv")), FileNotFoundError)


def test_a_bad_row_far_behind(write):
    path = write("a,b\n" + "1,2\n" * 70_000 + "1,2,3\n" + "1,2\n")
    assert isinstance(check(lambda pd: pd.read_csv(path)), pandas.errors.ParserError)
    check(lambda pd: pd.read_csv(path, usecols=["a"]))


def test_small_files_stay_in_pandas(write):
    path = write(PLAIN)
    frame = cp.read_csv(path)
    assert type(frame) is cp.DataFrame
    assert "_view" not in frame.__dict__
    pandas.testing.assert_frame_equal(pandas.DataFrame(frame), pandas.read_csv(path))


def test_a_changed_file_is_noticed(write):
    path = write("a,b\n1,2\n")
    with craton.option_context(small_rows=0):
        frame = cp.read_csv(path)
        path.write_text("a,b\nx,yy\n")
        with pytest.raises(craton.errors.SourceChanged, match="changed after it was read"):
            frame["a"].sum()
        assert cp.read_csv(path)["a"].tolist() == ["x"]


def test_a_file_that_is_gone_or_replaced_still_gives_its_rows(write, tmp_path):
    path = write("a,b\n1,2\n3,4\n")
    with craton.option_context(small_rows=0):
        one, other = cp.read_csv(path), cp.read_csv(path, usecols=["b"])
        write("a,b\n7,8\n", "new.csv").replace(path)
        assert one["a"].tolist() == [1, 3]
        path.unlink()
        assert other["b"].tolist() == [2, 4]


FIELDS = st.one_of(
    st.sampled_from(
        [
            "",
            "NA",
            "nan",
            "1",
            "-2",
            "2.5",
            "1e3",
            "x",
            "True",
            "false",
            "a b",
            " 1",
            '"q"',
            "inf",
            "0",
            "é",
            '"x,y"',
            '""',
            '"a""b"',
        ]
    ),
    st.integers(-(10**20), 10**20).map(str),
    st.floats().map(repr),
)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(FIELDS, st.sampled_from(["1", "2", "", "3.5", "x"]), FIELDS), min_size=1, max_size=6),
    st.booleans(),
)
def test_random_files(tmp_path_factory, rows, crlf):
    from craton.pandas.io.text import csv

    path = tmp_path_factory.mktemp("csv") / "x.csv"
    end = "\r\n" if crlf else "\n"
    path.write_bytes((end.join(["a,b,c", *(",".join(row) for row in rows)]) + end).encode())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(lambda pd: pd.read_csv(path), native=None)
        with pytest.MonkeyPatch.context() as patch:  # the first row hardly predicts the dtypes of later rows
            patch.setattr(csv, "_SAMPLE_ROWS", 1)
            path.touch()
            check(lambda pd: pd.read_csv(path), native=None)


@pytest.mark.parametrize("first", ["1", "1.5", "x", "True"])
@pytest.mark.parametrize("kind", VALUES)
def test_inference_beyond_the_sample(write, monkeypatch, first, kind):
    from craton.pandas.io.text import csv

    monkeypatch.setattr(csv, "_SAMPLE_ROWS", 1)
    path = write(f"a,b\n{first},1\n" + "".join(f"{value},1\n" for value in VALUES[kind]))
    check(lambda pd: pd.read_csv(path), native=None)


def test_floats_are_parsed_to_the_last_bit(write):
    values = np.random.default_rng(0)
    numbers = np.concatenate([values.random(5000), 10.0 ** values.uniform(-307, 307, 5000)])
    path = write("a,b\n" + "".join(f"{number!r},1\n" for number in numbers.tolist()))
    got = check(lambda pd: pd.read_csv(path), rtol=0)
    assert (got["a"].to_numpy() == numbers).all()


@pytest.mark.parametrize("size", [1, 20_000])
@pytest.mark.parametrize("method", [None, "infer", "gzip", "zip", "bz2"])
@pytest.mark.parametrize("content", ["plain", "gzip", "cut", "zip"])
def test_names_that_lie_about_compression(write, content, method, size):
    plain = ("a,b\n" + "1,2\n3,x\n" * size).encode()
    packed = gzip.compress(plain)
    data = {"plain": plain, "gzip": packed, "cut": packed[: len(packed) * 3 // 4], "zip": b"PK\x03\x04" + packed}[
        content
    ]
    for name in ("x.csv.gz", "x.csv", "x.csv.zip"):
        path = write(data, name)
        check(lambda pd, path=path: pd.read_csv(path, compression=method), native=None)
        check(lambda pd, path=path: pd.read_csv(path)["a"].sum(), native=None)


@pytest.mark.parametrize(
    "named",
    [
        {"delimiter": None}, {"sep": None}, {"compression": None}, {"header": None}, {"names": None}, {"index_col": None},
        {"usecols": None}, {"dtype": None}, {"skiprows": None}, {"na_values": None}, {"keep_default_na": None},
        {"parse_dates": None}, {"low_memory": None}, {"engine": None}, {"quotechar": None}, {"quoting": None},
        {"doublequote": None}, {"decimal": None}, {"on_bad_lines": None}, {"encoding": None}, {"encoding_errors": None},
        {"skipinitialspace": None}, {"skipfooter": None}, {"iterator": None}, {"chunksize": None}, {"thousands": None},
        {"na_filter": None}, {"skip_blank_lines": None}, {"memory_map": None}, {"dtype_backend": None}, {"nrows": None},
        {"storage_options": None}, {"lineterminator": None}, {"comment": None}, {"float_precision": None},
        {"converters": None}, {"true_values": None}, {"date_format": None}, {"cache_dates": None}, {"dayfirst": None},
    ],
    ids=case_id,
)  # fmt: skip
def test_none_for_a_parameter(write, named):
    """None equals the default of some parameters and not of others; results, errors and warnings are pandas'."""
    path = write(PLAIN)
    for reader in ("read_csv", "read_table"):
        with warnings.catch_warnings(record=True) as theirs:
            warnings.simplefilter("always")
            try:
                expected = getattr(pandas, reader)(path, **named)
            except Exception as error:
                expected = error
        with warnings.catch_warnings(record=True) as ours, craton.option_context(small_rows=0):
            warnings.simplefilter("always")
            try:
                got = getattr(cp, reader)(path, **named)
                if isinstance(got, pandas.DataFrame):
                    got = pandas.DataFrame(got)
            except Exception as error:
                got = error
        assert [(one.category, str(one.message)) for one in ours] == [
            (one.category, str(one.message)) for one in theirs
        ]
        assert type(got) is type(expected)
        if isinstance(expected, pandas.DataFrame):
            pandas.testing.assert_frame_equal(got, expected)
        elif isinstance(expected, Exception):
            assert str(got) == str(expected)


@pytest.mark.parametrize("kind", ["csv", "json"])
def test_a_pipe_is_read_once(tmp_path, kind):
    text = "a,b\n1,x\n2,y\n" if kind == "csv" else '{"a":1,"b":"x"}\n{"a":2,"b":"y"}\n'

    def program(pd):
        path = tmp_path / "pipe"
        path.unlink(missing_ok=True)
        os.mkfifo(path)
        writer = threading.Thread(target=path.write_text, args=(text,))
        writer.start()
        frame = pd.read_csv(path) if kind == "csv" else pd.read_json(path, lines=True)
        writer.join()
        return frame, frame["a"].sum(), frame[frame["a"] > 1]

    check(program, native=None)


def _after_the_sample(write, line, row, *, end="\n"):
    """Write a file that ends with a line unlike the first rows, from which the layout is derived."""
    return write("a,b\n" + row * 250 + line + end)


@pytest.mark.parametrize("blanks", [" ", "  ", "\t", '" "', '"\t"', " \t "])
@pytest.mark.parametrize("value", ["7", "7.5", "", "True", "x y", "a"])
@pytest.mark.parametrize("dtype", [None, "float64", "Int64", "float32", "str"])
def test_a_field_of_blanks_is_text(write, blanks, value, dtype):
    """The kernel reads a field of blanks as a missing number; pandas reads it as text."""
    for line, row, name in ((f"{blanks},1", f"{value},1\n", "a"), (f"1,{blanks}", f"1,{value}\n", "b")):
        for end in ("\n", "\n7,1\n", "", "\r\n"):
            path = _after_the_sample(write, line, row, end=end)
            named = {} if dtype is None else {"dtype": {name: dtype}}

            def program(pd, path=path, named=named, name=name):
                frame = pd.read_csv(path, **named)
                return len(frame), frame.dtypes, frame[name].isna().sum(), frame[name].astype(str).iloc[-2:], frame

            check(program, native=None)
        path = _after_the_sample(write, line, row)
        check(lambda pd, path=path, name=name: pd.read_csv(path, index_col=name).index, native=None)


@pytest.mark.parametrize("line", ["3,4,", "3,", "3,4,5", ",", "3,4", "3", '3,"4",', "3,4,\n", "3,\n"])
def test_the_last_line(write, line):
    path = _after_the_sample(write, line, "1,2\n", end="")
    check(lambda pd: pd.read_csv(path), native=None)
    check(lambda pd: pd.read_csv(path, usecols=["a"]).sum(), native=None)


MARK = "\ufeff"


@pytest.mark.parametrize(
    "text",
    [
        f"{MARK}\n9,1\n8,1\n",
        f"{MARK} \n9,1\n8,1\n",
        f"{MARK}\n\n9,1\n",
        f"{MARK}\na,b\n9,8\n",
        f"a,b\n{MARK}5,1\n6,7\n",
        f"x,y\na,b\n{MARK}5,1\n6,7\n",
        f"{MARK}{MARK}5,1\n6,7\n",
        f"{MARK}a,b\n{MARK}5,1\n",
        f"{MARK}a,b\n5,1\n",
        f"a,b\n1,2\n{MARK}3,4\n",
        f"a,b\n{MARK}x,1\n",
        f"a,b\n1,{MARK}\n",
        f'{MARK}"a",b\n1,2\n',
    ],
    ids=repr,
)
def test_byte_order_marks(write, text):
    """A byte order mark is removed only at the start of a file."""
    path = write(text)
    for named in (
        {},
        {"header": None},
        {"header": 1},
        {"skiprows": 1},
        {"skiprows": 2, "header": None},
        {"names": ["p", "q"]},
    ):
        check(lambda pd, named=named: pd.read_csv(path, **named), native=None)


def test_blanks_at_the_ends_of_blocks(write, monkeypatch):
    """The file's bytes are checked block by block, with blocks of every small size here."""
    from craton.pandas.io.text import csv, csv_text

    monkeypatch.setattr(csv, "_SAMPLE_ROWS", 1)
    for line in ("2, ", " 2,3", "3, 4", "      ,1", "2,      ", "  ,", ",  ", 'x y," "'):
        for size in range(1, 12):
            monkeypatch.setattr(csv_text, "_BLOCK", size)
            path = write(f"a,b\n1,2\n{line}\n3,4\n", f"{size}.csv")
            check(lambda pd, path=path: pd.read_csv(path), native=None)
            check(lambda pd, path=path: pd.read_csv(path, dtype={"a": "float64"}), native=None)
