"""The parameters of read_csv against pandas: what each of them does to rows, missing values, numbers, dates and dtypes."""

from __future__ import annotations

import itertools
import warnings

import pandas
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import case_id, check

import craton
import craton.pandas as cp
from craton import fallbacks

ROWS = """id,price,name,flag,day,code
1,1.5,ab,yes,31/12/2020,-999
2,,c d,no,01/02/2021,3
3,-0.25,n/a,yes,,-999.0
4,1e3,NA,no,15/06/2019,7
"""


@pytest.fixture
def write(tmp_path):
    def write(text, name="x.csv"):
        data = text if isinstance(text, bytes) else text.encode()
        (tmp_path / name).write_bytes(data)
        return tmp_path / name

    return write


def program(path, named):
    """Read a file, and then: filter, look at some rows, count missing values, group, add a number, take a number."""

    def run(pd):
        frame = pd.read_csv(path, **named)
        first, last = frame.columns[0], frame.columns[-1]
        counted = frame.isna().sum()
        some = frame[frame[first].notna()].tail(3)
        sizes = frame.groupby(last, dropna=False).size()
        frame["more"] = frame[first].notna().cumsum()
        return frame, frame.dtypes, counted, some, sizes, frame["more"].max(), len(frame)

    return run


@pytest.mark.parametrize(
    "named",
    [
        {"nrows": None},
        {"skiprows": [1]},
        {"skiprows": [1, 2]},
        {"skiprows": range(1, 3)},
        {"skiprows": [0], "header": None},
        {"skiprows": [0, 1], "names": list("abcdef")},
        {"skiprows": {1}},
        {"true_values": ["yes"], "false_values": ["no"]},
        {"true_values": ["yes"]},
        {"true_values": ["yes"], "false_values": ["no"], "dtype": {"flag": "boolean"}},
        {"true_values": ["1"], "false_values": ["2", "3", "4"]},
        {"na_values": -999},
        {"na_values": [-999, "ab"]},
        {"na_values": ["-999"]},
        {"na_values": [3.0]},
        {"na_values": {"name": ["ab"], "flag": "no"}},
        {"na_values": {"name": "ab", "absent": "x"}},
        {"keep_default_na": False},
        {"keep_default_na": False, "na_values": ["ab"]},
        {"keep_default_na": False, "na_values": ["NA", ""]},
        {"na_filter": False},
        {"na_filter": False, "na_values": ["ab"]},
        {"parse_dates": ["day"], "date_format": "%d/%m/%Y"},
        {"parse_dates": ["day"], "date_format": {"day": "%d/%m/%Y"}},
        {"parse_dates": [4], "date_format": "%d/%m/%Y"},
        {"index_col": "day", "parse_dates": True, "date_format": "%d/%m/%Y"},
        {"date_format": "%d/%m/%Y"},
        {"index_col": "day", "date_format": "%d/%m/%Y"},
        {"index_col": "day", "date_format": "%d/%m/%Y", "parse_dates": False},
        {"index_col": False},
        {"usecols": ["id", "name"], "index_col": 0},
        {"usecols": ["price", "id"], "index_col": [1]},
        {"usecols": [0, 2], "index_col": 1},
        {"on_bad_lines": "skip"},
        {"on_bad_lines": "warn"},
        {"encoding": "latin-1"},
        {"encoding": "ascii"},
        {"encoding": "utf-8-sig"},
        {"encoding_errors": "replace"},
        {"quoting": 1},
        {"quoting": 3},
        {"quotechar": "'"},
        {"comment": "#"},
        {"compression": None},
        {"dayfirst": True},
        {"decimal": ","},
        {"thousands": ","},
        {"dtype_backend": "numpy_nullable"},
        {"dtype_backend": "pyarrow"},
        {"dtype_backend": "numpy_nullable", "true_values": ["yes"], "false_values": ["no"]},
    ],
    ids=case_id,
)
def test_planned(write, named):
    path = write(ROWS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(program(path, named), native=None)
        check(lambda pd: pd.read_csv(path, **named))


NUMBERS = [
    "1",
    "1,5",
    "1.5",
    "1,234",
    "1.234",
    "1,234.5",
    "1.234,5",
    "12,34",
    ",5",
    "5,",
    ".5",
    "-1,000",
    "+1,0",
    "1,e3",
]
NUMBERS += [
    "1e1,0",
    "1,,0",
    " 1,5",
    "1,5 ",
    "x",
    "",
    "1.5,5",
    "1,000,000",
    "1_000",
    "1'000",
    "a,b",
    "9,223,372,036,854,775,807",
]


@pytest.mark.parametrize(
    ("decimal", "thousands"), [(",", None), (",", "."), (".", ","), (".", "_"), (".", "'"), (",", "'")]
)
def test_notations_of_numbers(write, decimal, thousands):
    """Every number alone, and beside an integer, a fraction and a text, after and within the first rows."""
    from craton.pandas.io.text import csv

    named = {"sep": ";", "decimal": decimal, "thousands": thousands}
    for beside in ("1", f"2{decimal}5", "x"):
        for number in NUMBERS:
            path = write(f"a;b\n{beside};1\n{number};2\n")
            check(lambda pd, path=path: pd.read_csv(path, **named), native=None)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(csv, "_SAMPLE_ROWS", 1)
                path.touch()
                check(lambda pd, path=path: pd.read_csv(path, **named)["a"], native=None)
                check(lambda pd, path=path: pd.read_csv(path, **named, dtype={"a": "float64"})["a"], native=None)


def test_notations_are_planned(write):
    path = write("a;b;c\n" + "1.234,5;10.000;x\n-0,25;7;y\n;;\n" * 300)
    got = check(lambda pd: pd.read_csv(path, sep=";", decimal=",", thousands=".").groupby("c")[["a", "b"]].sum())
    assert got.loc["x", "a"] == 1234.5 * 300
    check(lambda pd: pd.read_csv(path, sep=";", decimal=",", thousands=".", dtype={"b": "Int64"})["b"].max())
    path = write('a,b\n"1,234","2"\n"5","1,000,000"\n', "quoted.csv")
    check(lambda pd: pd.read_csv(path, thousands=",").sum())


@pytest.mark.parametrize("value", ["-999", "-999.0", "-999.00", "-9.99e2", "+3", "3", "3.0", "x", ""])
@pytest.mark.parametrize("others", [["1", "2"], ["1.5", "2"], ["x", "1"], ["True", "False"], ["", "1"]])
def test_numbers_that_are_missing(write, value, others):
    for na in (-999, [-999.0], ["-999"], [3], "3.0", {"a": ["-999"]}, {"a": ["x"]}, {"b": [1]}):
        path = write("a,b\n" + "".join(f"{one},1\n" for one in [*others, value]))
        for default in (True, False):
            named = {"na_values": na, "keep_default_na": default}
            check(lambda pd, path=path, named=named: pd.read_csv(path, **named), native=None)


TEXTS = ["", "NA", '""', '"NA"', "x", "1", "2.5", "nan", "True", '"a"', " "]


@pytest.mark.parametrize(
    "rows", [["1,2", "{},3"], ["x,y", "{},z"], ["1,2", "{}"], ["1.5,{}", "{},"], ["True,1", "{},2"]]
)
def test_empty_fields_that_are_texts(write, rows):
    from craton.pandas.io.text import csv

    options = [{"keep_default_na": False}, {"keep_default_na": False, "na_values": ["NA", "1"]}, {"na_filter": False}]
    for text, named, size in itertools.product(TEXTS, options, (1, 200)):
        path = write("a,b\n" + "".join(row.format(*[text] * row.count("{}")) + "\n" for row in rows))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(csv, "_SAMPLE_ROWS", size)
            check(lambda pd, path=path, named=named: pd.read_csv(path, **named), native=None)
            check(lambda pd, path=path, named=named: pd.read_csv(path, **named).isna().sum().sum(), native=None)


@pytest.mark.parametrize(
    ("form", "first", "more"),
    [
        (
            "%d/%m/%Y",
            "31/12/2020",
            ["1/2/2020", "01/02/2020", "31/02/2020", "2020-01-01", "", "12/13/2020", "01/02/20"],
        ),
        ("%m/%d/%Y", "12/31/2020", ["01/02/2020", "13/01/2020", "1/1/2020"]),
        ("%Y%m%d", "20201231", ["20200101", "2020011", "", "20201301"]),
        ("%Y-%m-%d", "2020-12-31", ["2020-01-01", "2020-1-1", "2020-01-01 00:00"]),
        ("%Y-%m-%d %H:%M:%S", "2020-12-31 10:11:12", ["2020-01-01 24:00:00", "2020-01-01 00:00:60", "2020-01-01"]),
        ("%d.%m.%Y %H:%M", "31.12.2020 10:11", ["01.02.2020 00:00", "01.02.2020  00:00"]),
        ("%d %b %Y", "31 Dec 2020", ["01 Feb 2020"]),
        ("%Y-%m-%dT%H:%M:%SZ", "2020-12-31T10:11:12Z", ["2020-01-01T00:00:00Z"]),
        ("%Y-%m", "2020-12", ["2020-01"]),
        ("%Y-%m-%d %H", "2020-12-31 10", ["2020-01-01 11"]),
        ("%y-%m-%d", "20-12-31", ["20-01-01"]),
        ("ISO8601", "2020-12-31", ["2020-01-01"]),
        ("mixed", "2020-12-31", ["2020-01-01"]),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_formats_of_dates(write, form, first, more):
    for value in [first, *more]:
        path = write(f"day,x\n{first},1\n{value},2\n")
        for named in ({"date_format": form}, {"date_format": {"day": form}}, {}, {"date_format": {"x": form}}):
            check(lambda pd, path=path, named=named: pd.read_csv(path, parse_dates=["day"], **named), native=None)
        check(lambda pd, path=path: pd.read_csv(path, parse_dates=[0], date_format=form)["day"].max(), native=None)
    path = write(f"day,x\n{first},1\n{first},2\n")
    if form in ("%d/%m/%Y", "%m/%d/%Y", "%Y%m%d", "%d.%m.%Y %H:%M"):
        check(lambda pd: pd.read_csv(path, parse_dates=["day"], date_format=form))


HEADS = {
    "comments": "# made by x\n# on monday\na,b\n1,2\n3,4\n",
    "comments and data": "# made by x\na,b\n1,2\n3,4 # last\n",
    "comment lines within": "a,b\n1,2\n# half\n3,4\n",
    "comment of commas": "#,,,\na,b\n1,2\n",
    "quoted comment": '# "made"\na,b\n1,2\n',
    "quoted mark": 'a,b\n1,"x # y"\n',
    "only comments": "# a\n# b\n",
    "blank after comment": "# a\n\na,b\n1,2\n",
    "units": "a,b\nkm,h\n1,2\n3,4\n",
}


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize(
    "named",
    [
        {"comment": "#"},
        {"comment": "#", "header": None},
        {"comment": "#", "skiprows": 1},
        {"comment": "#", "header": 1},
        {"skiprows": [1]},
        {"skiprows": [0, 1]},
        {"skiprows": 1},
        {"skiprows": [0, 2]},
        {"skiprows": []},
        {"comment": "#", "nrows": 1},
    ],
    ids=case_id,
)
@pytest.mark.filterwarnings("ignore")
def test_lines_before_the_rows(write, head, named):
    path = write(HEADS[head])
    check(lambda pd: pd.read_csv(path, **named), native=None)
    check(lambda pd: pd.read_csv(path, **named).iloc[:, 0].count(), native=None)


@pytest.mark.parametrize("mark", ['"', "'", "|"])
def test_quote_characters(write, mark):
    text = f"a,b\n1,{mark}x, y{mark}\n2,{mark}z {mark}{mark}q{mark}{mark}{mark}\n3,plain\n"
    path = write(text)
    for named in ({"quotechar": mark}, {"quoting": 3, "on_bad_lines": "skip"}, {"quotechar": mark, "quoting": 1}, {}):
        check(lambda pd, named=named: pd.read_csv(path, **named), native=None)
    check(lambda pd: pd.read_csv(path, quotechar=mark))
    path = write(f"a,b\n1,5{mark} disk\n2,{mark}z\n")
    check(lambda pd: pd.read_csv(path, quoting=3))
    check(lambda pd: pd.read_csv(path, quoting=3)["b"].str.len().sum())


def test_encodings(write):
    for encoding in ("latin-1", "cp1252", "utf-8-sig", "utf-16", "utf-8", "ascii", "no such"):
        for text in ("a,b\n1,x\n", "a,b\n1,é\n"):
            try:
                data = text.encode(encoding)
            except (LookupError, UnicodeEncodeError):
                data = text.encode()
            path = write(data)
            check(lambda pd, path=path, encoding=encoding: pd.read_csv(path, encoding=encoding), native=None)
    path = write(b"\xef\xbb\xbfa,b\n1,x\n")
    for encoding in ("latin-1", "utf-8-sig", None):
        check(lambda pd, encoding=encoding: pd.read_csv(path, encoding=encoding), native=None)


def test_compressions_that_are_named(write, tmp_path):
    frame = pandas.DataFrame({"a": range(500), "b": ["x", "y"] * 250})
    for method, name in [
        ("gzip", "x.csv.gz"),
        ("gzip", "x.dat"),
        ("bz2", "x.bz2"),
        ("xz", "x.csv.xz"),
        ("zip", "x.zip"),
    ]:
        frame.to_csv(tmp_path / name, index=False, compression=method)
        for named in (method, {"method": method}, "infer", None):
            path = tmp_path / name
            check(lambda pd, path=path, named=named: pd.read_csv(path, compression=named)["a"].sum(), native=None)
    check(lambda pd: pd.read_csv(tmp_path / "x.csv.gz", compression="gzip")["a"].sum())


BAD = [
    {"nrows": -1}, {"nrows": 1.5}, {"nrows": "2"}, {"skiprows": -1}, {"header": -1}, {"decimal": ""}, {"decimal": "ab"},
    {"thousands": "ab"}, {"comment": "ab"}, {"quotechar": "ab"}, {"quoting": 7}, {"date_format": 3, "parse_dates": ["id"]},
    {"parse_dates": [99]}, {"parse_dates": "day"}, {"usecols": ["id", "nope"]}, {"usecols": [99]}, {"index_col": 99},
    {"index_col": "nope"}, {"dtype_backend": "nope"}, {"encoding": 3}, {"chunksize": 0}, {"chunksize": -1}, {"true_values": 3},
    {"names": ["a", "a"]}, {"on_bad_lines": "nope"}, {"lineterminator": "ab"}, {"na_filter": "x"}, {"compression": "nope"},
    {"nope": 1}, {"storage_options": {"a": 1}}, {"na_values": object()}, {"skiprows": ["x"]},
]  # fmt: skip


@pytest.mark.parametrize("named", BAD, ids=case_id)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("small_rows", [0, 10])
def test_bad_parameters(write, named, small_rows):
    path = write(ROWS)
    outcomes = []
    for pd in (pandas, cp):
        with craton.option_context(small_rows=small_rows):
            try:
                outcomes.append((pd.read_csv(path, **named).to_string(), ""))
            except Exception as error:
                outcomes.append((type(error), str(error).partition(" at 0x")[0]))
    assert outcomes[1] == outcomes[0]


VALUES = st.sampled_from(
    ["", "NA", "1", "-2", "2.5", "1,5", "1.000", "x", "yes", "no", "-999", "True", "01/02/2020", "#", '"q"', " "]
)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(VALUES, VALUES, VALUES), min_size=1, max_size=5),
    st.fixed_dictionaries(
        {},
        optional={
            "skiprows": st.sampled_from([[1], [1, 2], 1, [0]]),
            "decimal": st.just(","),
            "thousands": st.just("."),
            "true_values": st.just(["yes"]),
            "false_values": st.just(["no"]),
            "na_values": st.sampled_from([-999, ["x"], {"a": "x"}, [1]]),
            "keep_default_na": st.booleans(),
            "na_filter": st.booleans(),
            "comment": st.just("#"),
            "quoting": st.sampled_from([0, 1, 3]),
            "usecols": st.just(["a", "c"]),
            "index_col": st.sampled_from([0, "b", False]),
            "dtype_backend": st.sampled_from(["numpy_nullable", "pyarrow"]),
            "parse_dates": st.just(["a"]),
            "date_format": st.just("%d/%m/%Y"),
            "low_memory": st.booleans(),
        },
    ),
)
def test_random_parameters(tmp_path_factory, rows, named):
    from craton.pandas.io.text import csv

    path = tmp_path_factory.mktemp("csv") / "x.csv"
    path.write_text("\n".join(["a;b;c", *(";".join(row) for row in rows)]) + "\n")
    named = {**named, "sep": ";"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(lambda pd: pd.read_csv(path, **named), native=None)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(csv, "_SAMPLE_ROWS", 1)
            path.touch()
            check(lambda pd: pd.read_csv(path, **named), native=None)


@pytest.mark.parametrize("labels", [["", ""], ["01/02/2020", ""], ["01/02/2020", "31/12/2020"], ["x", "1"], ["1", "2"]])
def test_a_format_of_dates_is_for_the_index(write, labels):
    """``date_format`` without ``parse_dates`` makes pandas parse the row labels."""
    path = write("a,b\n" + "".join(f"{label},1\n" for label in labels))
    for parse in ({}, {"parse_dates": None}, {"parse_dates": False}, {"parse_dates": True}):
        named = {"index_col": 0, "date_format": "%d/%m/%Y", **parse}
        check(lambda pd, named=named: pd.read_csv(path, **named), native=None)
        check(lambda pd, named=named: pd.read_csv(path, **named, dayfirst=True), native=None)


@pytest.mark.parametrize("line", ["7,8,9", "7", "7,8,", ",", '"7","8","9"', "7,8,9,10"])
@pytest.mark.parametrize(
    "named",
    [
        {"on_bad_lines": "skip"},
        {"on_bad_lines": "warn"},
        {"on_bad_lines": "skip", "usecols": ["a"]},
        {"on_bad_lines": "skip", "names": ["a", "b"], "header": 0},
        {"index_col": False},
        {"index_col": False, "usecols": ["a", "b"]},
        {"na_filter": False},
        {"keep_default_na": False, "usecols": ["b"]},
        {"skiprows": [1]},
        {"comment": "#"},
        {"nrows": 3},
        {"nrows": 300},
    ],
    ids=case_id,
)
def test_lines_with_other_numbers_of_fields(write, line, named):
    """They come after the first rows, from which the layout is derived, and before and after other lines."""
    for behind in ("", "1,2\n"):
        path = write("a,b\n" + "1,2\n" * 250 + line + "\n" + behind)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            check(lambda pd, path=path: pd.read_csv(path, **named), native=None)
            check(lambda pd, path=path: len(pd.read_csv(path, **named)), native=None)


# -- files that fit into memory ---------------------------------------------------------------------------------------


@pytest.fixture
def large(tmp_path):
    """A file of some kilobytes, which counts as large beside ``small_rows=5``."""
    frame = pandas.DataFrame({"a": range(2000), "b": ["x", "yy", None, "z"] * 500, "c": [1.5, -2.0] * 1000})
    frame.to_csv(tmp_path / "large.csv", index=False)
    return tmp_path / "large.csv"


def test_a_file_that_fits_is_read_once_and_then_planned(large):
    with craton.option_context(small_rows=5):
        fallbacks.reset()
        frame = cp.read_csv(large)
        assert type(frame) is cp.DataFrame
        assert "_view" not in frame.__dict__
        large.unlink()
        totals = frame[frame["a"] > 10].groupby("b")["c"].sum()
        assert fallbacks.explain_fallbacks().empty
        assert totals.sum() == pandas.DataFrame(frame).query("a > 10 and b.notna()")["c"].sum()


def test_a_file_that_does_not_fit_is_scanned(large):
    expected = pandas.read_csv(large)
    with craton.option_context(small_rows=5, memory_limit=1 << 20):
        frame = cp.read_csv(large)
        assert "_view" in frame.__dict__
        assert frame["a"].sum() == expected["a"].sum()
        some = cp.read_csv(large, nrows=7)
        assert "_view" in some.__dict__ or len(some) == 7
    with craton.option_context(small_rows=5, decode_cache="on"):
        assert "_view" in cp.read_csv(large).__dict__


@pytest.mark.parametrize("small_rows", [0, 5])
def test_chunks_are_cratons_frames(large, tmp_path, small_rows):
    """Frames of readers in chunks have Craton's class, so that calls on them are planned."""
    pandas.read_csv(large).to_json(tmp_path / "x.json", orient="records", lines=True)

    def steps(pd):
        parts = []
        with pd.read_csv(large, chunksize=700) as reader:
            for part in reader:
                parts.append(part[part["c"] > 0].groupby("b")["a"].sum())
        total = pd.concat(parts).groupby(level=0).sum()
        with pd.read_csv(large, iterator=True) as reader:
            first, second, rest = reader.get_chunk(3), reader.read(4), next(reader)
        lines = [part["a"].sum() for part in pd.read_json(tmp_path / "x.json", lines=True, chunksize=900)]
        return total, first, second, rest.tail(2), lines, isinstance(reader, pandas.io.parsers.TextFileReader)

    with craton.option_context(small_rows=small_rows):
        check(steps, native=None)
        assert all(type(part) is cp.DataFrame for part in cp.read_csv(large, chunksize=900))
        assert all(type(part) is cp.DataFrame for part in cp.read_json(tmp_path / "x.json", lines=True, chunksize=900))
