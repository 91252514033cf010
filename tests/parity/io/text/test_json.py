"""read_json(lines=True) against pandas: kinds of values, missing keys, dates, pandas' parsing of numbers, bad lines."""

from __future__ import annotations

import gzip
import json
import warnings

import numpy as np
import pandas
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import case_id, check

import craton
import craton.pandas as cp

PLAIN = """{"id":1,"price":1.5,"name":"ab","flag":true,"date":"2020-01-01","n":null}
{"id":2,"price":null,"name":"c d","flag":false,"date":"2020-01-02","n":3}
{"id":3,"price":0.3,"flag":true,"date":null,"late":"x"}
{"id":4,"price":1e3,"name":"\\u00e9","flag":false,"date":"2020-12-31","n":4}
"""


@pytest.fixture
def write(tmp_path):
    def write(text, name="x.jsonl"):
        data = text if isinstance(text, bytes) else text.encode()
        (tmp_path / name).write_bytes(data)
        return tmp_path / name

    return write


def test_plain(write):
    path = write(PLAIN)
    got = check(lambda pd: pd.read_json(path, lines=True))
    assert got["price"].tolist()[2] == 0.30000000000000004  # as pandas' parser computes it
    check(lambda pd: pd.read_json(str(path), lines=True).query("id > 1")[["price", "name"]])
    for name in ("id", "price", "name", "flag", "date", "n", "late"):
        check(lambda pd, name=name: pd.read_json(path, lines=True)[name])
    check(lambda pd: pd.read_json(path, lines=True)["price"].sum())
    check(lambda pd: len(pd.read_json(path, lines=True)))
    check(lambda pd: pd.read_json(path, lines=True)[lambda df: df["price"] > 1])
    check(lambda pd: pd.read_json(path, lines=True).groupby("flag")["price"].mean())
    check(lambda pd: pd.read_json(path, lines=True).iloc[1:3])


@pytest.mark.parametrize(
    "named",
    [{"orient": "records"}, {"dtype": True}, {"convert_axes": True}, {"encoding": "utf-8"}, {"typ": "frame"}],
    ids=case_id,
)
def test_parameters(write, named):
    path = write(PLAIN)
    check(lambda pd: pd.read_json(path, lines=True, **named))


@pytest.mark.parametrize(
    "named",
    [
        {"dtype": False},
        {"dtype": {"id": "float64"}},
        {"convert_axes": False},
        {"convert_dates": False},
        {"convert_dates": ["name"]},
        {"keep_default_dates": False},
        {"precise_float": True},
        {"date_unit": "s"},
        {"nrows": 2},
        {"compression": None},
        {"engine": "pyarrow"},
        {"dtype_backend": "pyarrow"},
        {"dtype_backend": "numpy_nullable"},
        {"orient": "values"},
        {"encoding": "latin-1"},
    ],
    ids=case_id,
)
@pytest.mark.filterwarnings("ignore")
def test_parameters_that_fall_back(write, named):
    path = write(PLAIN)
    check(lambda pd: pd.read_json(path, lines=True, **named), native=None)
    check(lambda pd: list(pd.read_json(path, lines=True, chunksize=2)), native=None)


@pytest.mark.parametrize("named", [{"lines": False}, {"lines": True, "typ": "series"}, {"orient": "no"}, {"nrows": -1}])
def test_parameters_that_pandas_refuses(write, named):
    path = write(PLAIN)
    check(lambda pd: pd.read_json(path, **named), native=None)


VALUES = {
    "ints": ["1", "-2", "0", "-0"],
    "ints and missing": ["1", "null", "3"],
    "large": ["9223372036854775807", "-9223372036854775808"],
    "large and missing": ["9007199254740993", "null"],
    "unsigned": ["1", "18446744073709551615"],
    "huge": ["1", "18446744073709551616"],
    "floats": ["1.5", "-0.0", "0.1", "0.30", "2.5e-3", "1E5", "123456789.12345678901234"],
    "whole floats": ["1.0", "2.0"],
    "whole floats and missing": ["1.0", "null"],
    "whole floats, large": ["1.0", "36028797018963968.0"],
    "tiny": ["1.0", "0.0000000000000001"],
    "ints and floats": ["1", "2.5"],
    "ints and whole floats": ["1", "2.0"],
    "infinite": ["1.5", "Infinity", "-Infinity"],
    "nan": ["1.5", "NaN"],
    "enormous": ["1.5", "1e300"],
    "beyond": ["1.5", "1e400"],
    "leading zero": ["01", "2"],
    "half": ["1.", "2.5"],
    "booleans": ["true", "false"],
    "booleans and missing": ["true", "null"],
    "booleans and ints": ["true", "1"],
    "booleans and text": ["true", '"x"'],
    "text": ['"a"', '"b c"', '""', '"é"', '"\\u65e5\\u672c"', '"q\\"q"', '"a\\\\"', '"\\/"', '"\\n"'],
    "text and missing": ['"a"', "null", '"c"'],
    "surrogates": ['"\\ud83d\\ude00"'],
    "lone surrogates": ['"\\ud83d"'],
    "numbers as text": ['"1"', '"2"'],
    "floats as text": ['"1.5"', '"nan"'],
    "some numbers as text": ['"1"', '"x"'],
    "odd numbers as text": ['"1_000"', '"1e5"'],
    "text and ints": ['"a"', "1"],
    "text of ints and ints": ['"1"', "2"],
    "nothing": ["null", "null"],
    "dates": ['"2020-01-01"', '"2020-01-02"'],
    "nested": ['{"u":1}', "null"],
    "lists": ["[1,2]", "[]"],
    "stamps": ["1577836800", "1577836801"],
    "stamps in ms": ["1577836800000", "null"],
    "stamps in seconds and ms": ["1577836801", "1577836800123"],
    "stamps in us": ["1577836800000001", "9223372036854775"],
    "stamps in ns": ["1577836800000000001", "1577836800000000000"],
    "stamps beyond us": ["31536001", "9223372036854775807"],
    "small stamps": ["31536001", "31536000"],
    "missing stamps": ["1577836800", "-9223372036854775808"],
    "only a missing stamp": ["-9223372036854775808"],
    "negative stamps": ["-1577836800", "1577836800"],
    "large seconds": ["9223372036", "9223372037"],
    "instants": ['"2020-01-01T10:00:00"', '"2020-01-01T10:00:01"', "null"],
    "instants with zone": ['"2020-01-01T10:00:00Z"'],
    "instants in ms": ['"2020-01-01T10:00:00.000"'],
    "dates and text": ['"2020-01-01"', '"x"'],
    "months": ['"Jan"', '"Feb"'],
}


@pytest.mark.parametrize("name", ["a", "date", "made_at", "1"])
@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.filterwarnings("ignore")
def test_kinds(write, monkeypatch, name, kind):
    from craton.pandas.io.text import json_lines

    lines = [f'{{"{name}":{value},"b":1}}\n' for value in VALUES[kind]]
    path = write("".join(lines))
    check(lambda pd: pd.read_json(path, lines=True), native=None)
    path = write("".join([*lines, '{"b":2}\n']), "missing.jsonl")
    check(lambda pd: pd.read_json(path, lines=True), native=None)
    monkeypatch.setattr(json_lines, "_SAMPLE_ROWS", 1)
    path = write("".join(reversed(lines)), "reversed.jsonl")
    check(lambda pd: pd.read_json(path, lines=True), native=None)
    path = write('{"b":0}\n' + "".join(lines), "late.jsonl")
    check(lambda pd: pd.read_json(path, lines=True), native=None)


@pytest.mark.parametrize(
    "kind", ["ints", "ints and missing", "floats", "whole floats", "booleans", "text", "text and missing", "nothing"]
)
def test_kinds_that_are_planned(write, kind):
    path = write("".join(f'{{"a":{value},"b":1}}\n' for value in VALUES[kind]))
    check(lambda pd: pd.read_json(path, lines=True))


def test_a_late_value_decides(write):
    head = '{"a":1,"b":"x"}\n' * 5000
    for i, (late, native) in enumerate(
        [
            ('{"a":2.5,"b":"y"}', True),
            ('{"a":null,"b":null}', True),
            ("{}", True),
            ('{"c":1.5,"b":"y"}', True),
            ('{"a":"x","b":"y"}', False),
            ('{"a":1,"b":3}', False),
            ('{"a":1,"b":{"c":1}}', False),
            ('{"a":1,"a":2}', False),
            ('{"a":true}', False),
            ('{"\\u0061":7}', True),
        ]
    ):
        path = write(head + late + "\n", f"{i}.jsonl")
        check(lambda pd, path=path: pd.read_json(path, lines=True), native=native)


TEXTS = {
    "crlf": b'{"a":1.5,"b":"x"}\r\n{"a":2,"b":"y"}\r\n',
    "spaces": b'{ "a" : 1.5 , "b" : "x" }\n{"a":\t2.5,"b":null}\n',
    "returns": b'{"a":\r1.5}\n{"a":2.5\r}\r\r\n',
    "no end": b'{"a":1}\n{"a":2}',
    "bom": b'\xef\xbb\xbf{"a":1}\n',
    "blank lines": b'{"a":1.5}\n\n{"a":2.5}\n\n',
    "blank first": b'\n{"a":1}\n',
    "line of blanks": b'{"a":1.5}\n  \n{"a":2.5}\n',
    "indented": b' {"a":1.5}\n\t{"a":2.5}\n',
    "two in a line": b'{"a":1}{"a":2}\n',
    "two in a line, comma": b'{"a":1},{"a":2}\n',
    "trailing comma": b'{"a":1},\n{"a":2}\n',
    "comma within": b'{"a":1,}\n{"a":2}\n',
    "object over lines": b'{"a":1,\n"b":2}\n',
    "no object": b"1\n2\n",
    "null line": b'{"a":1}\nnull\n',
    "list line": b'{"a":1}\n[1]\n',
    "late number": b'{"a":1}\n' * 300 + b"5\n",
    "late null": b'{"a":1}\n' * 300 + b"null\n",
    "late rubbish": b'{"a":1}\n' * 300 + b"rubbish\n",
    "late half": b'{"a":1}\n' * 300 + b'{"a":\n',
    "empty": b"",
    "a newline": b"\n",
    "no keys": b"{}\n{}\n",
    "latin": '{"a":"é"}\n'.encode("latin-1"),
    "late latin": b'{"a":"x"}\n' * 300 + '{"a":"é"}\n'.encode("latin-1"),
    "tab in text": b'{"a":"x\ty"}\n',
    "late tab in text": b'{"a":"x"}\n' * 300 + b'{"a":"x\ty"}\n',
    "nul in text": b'{"a":"x\0y"}\n',
    "nul escaped": b'{"a":"x\\u0000y"}\n',
    "double keys": b'{"a":1.5,"a":2.5}\n',
    "key in text": b'{"s":"\\"a\\": 7.5, ","a":1.5}\n{"s":", \\"a\\" : 8.5","a":2.5}\n{"s":"a","a":3.5}\n{"s":"a\\\\","a":0.5}\n',
    "key that ends alike": b'{"x\\"a":7.5,"a":1.5}\n',
    "escaped key": b'{"\\u0061":1.5}\n{"a":2.5}\n',
    "empty key": b'{"":1.5,"b":2}\n',
    "key with quote": b'{"a\\"b":1.5}\n',
    "key with dot": b'{"a.b":1.5,"axb":2.5,"a+b":0.5,"a b":7.5,"(":0.5}\n',
    "key of another script": '{"é":1.5,"日":"x"}\n'.encode(),
    "number keys": b'{"1":1.5,"2":"x"}\n',
    "date keys": b'{"2020-01-01":1.5,"2020-01-02":"x"}\n',
    "slash key": b'{"a\\/b":1.5}\n{"a/b":2.5}\n',
    "late depth": b'{"a":1}\n' * 300 + b'{"a":' * 500 + b"1" + b"}" * 500 + b"\n",
    "late great depth": b'{"a":1}\n' * 300 + b'{"a":' + b"[" * 5000 + b"]" * 5000 + b"}\n",
    "single quotes": b"{'a':1}\n",
}


@pytest.mark.parametrize("kind", TEXTS)
@pytest.mark.filterwarnings("ignore")
def test_texts(write, kind):
    path = write(TEXTS[kind])
    check(lambda pd: pd.read_json(path, lines=True), native=None)


def test_compressed(tmp_path):
    (tmp_path / "x.jsonl.gz").write_bytes(gzip.compress(PLAIN.encode()))
    check(lambda pd: pd.read_json(tmp_path / "x.jsonl.gz", lines=True), native=False)


def test_a_buffer(write):
    import io

    check(lambda pd: pd.read_json(io.StringIO(PLAIN), lines=True), native=False)


def test_missing_file(tmp_path):
    assert isinstance(check(lambda pd: pd.read_json(tmp_path / "nope.jsonl", lines=True)), FileNotFoundError)


def test_small_files_stay_in_pandas(write):
    path = write(PLAIN)
    frame = cp.read_json(path, lines=True)
    assert type(frame) is cp.DataFrame
    assert "_view" not in frame.__dict__
    pandas.testing.assert_frame_equal(pandas.DataFrame(frame), pandas.read_json(path, lines=True))


def test_a_changed_file_is_noticed(write):
    path = write('{"a":1.5,"b":1}\n')
    with craton.option_context(small_rows=0):
        frame = cp.read_json(path, lines=True)
        path.write_text('{"a":1.5,"b":100}\n')
        with pytest.raises(craton.errors.SourceChanged, match="changed after it was read"):
            frame["a"].sum()


def test_a_file_that_is_gone_still_gives_its_rows(write):
    path = write('{"a":1.5,"b":1}\n{"a":0.3,"b":2}\n')
    with craton.option_context(small_rows=0):
        frame = cp.read_json(path, lines=True)
        path.unlink()
        assert frame["a"].tolist() == [1.5, 0.30000000000000004]
        assert frame["b"].tolist() == [1, 2]


def test_floats_are_parsed_to_the_last_bit(write):
    random = np.random.default_rng(0)
    numbers = np.concatenate(
        [random.random(3000), 10.0 ** random.uniform(-300, 18, 3000), random.random(3000).round(2)]
    )
    path = write("".join(f'{{"a":{number!r}}}\n' for number in numbers.tolist()))
    check(lambda pd: pd.read_json(path, lines=True), rtol=0)


SCALARS = {
    "int": st.integers(-(2**40), 2**40),
    "float": st.floats(allow_nan=False, allow_infinity=False, min_value=-1e12, max_value=1e12),
    "short float": st.integers(-10_000, 10_000).map(lambda n: n / 100),
    "bool": st.booleans(),
    "str": st.text(max_size=6),
    "word": st.sampled_from(["a", "x y", "1", "2.5", "true", "nan", "2020-01-01", "{", "[", '"a":1.5,', "é"]),
    "date": st.dates().map(str),
    "any": st.one_of(
        st.integers(), st.floats(allow_nan=False), st.text(max_size=3), st.booleans(), st.lists(st.none())
    ),
}
NAMES = st.sampled_from(["a", "b", "date", "made_at", "timestamp", "a b", "x.y", "1"])


@st.composite
def records(draw):
    """Records with a few keys; the values of a key are of one kind, and some are missing or null."""
    columns = draw(
        st.lists(st.tuples(NAMES, st.sampled_from(list(SCALARS))), min_size=1, max_size=4, unique_by=lambda c: c[0])
    )
    sparse = draw(st.booleans())
    rows = []
    for _ in range(draw(st.integers(1, 8))):
        row = {}
        for name, kind in columns:
            how = draw(st.integers(0, 5)) if sparse else 5
            if how:
                row[name] = None if how == 1 else draw(SCALARS[kind])
        rows.append(row)
    return rows


@settings(max_examples=200, deadline=None)
@given(records(), st.booleans(), st.booleans(), st.integers(1, 3))
def test_random_records(tmp_path_factory, rows, ascii_only, spaced, sampled):
    from craton.pandas.io.text import json_lines

    path = tmp_path_factory.mktemp("json") / "x.jsonl"
    separators = (", ", ": ") if spaced else (",", ":")
    lines = [json.dumps(row, ensure_ascii=ascii_only, separators=separators) for row in rows]
    path.write_bytes(("\n".join(lines) + "\n").encode("utf-8", "surrogatepass"))
    with warnings.catch_warnings(), pytest.MonkeyPatch.context() as patch:
        warnings.simplefilter("ignore")
        patch.setattr(json_lines, "_SAMPLE_ROWS", 200 if sampled == 3 else sampled)
        check(lambda pd: pd.read_json(path, lines=True), native=None, rtol=0)
        check(lambda pd: pd.read_json(path, lines=True).iloc[:, 0], native=None, rtol=0)


def test_late_keys_come_in_order_of_appearance(write, monkeypatch):
    from craton.pandas.io.text import json_lines

    monkeypatch.setattr(json_lines, "_SAMPLE_ROWS", 1)
    path = write('{"m":1}\n{"z":1.5,"c":"x"}\n{"a":2,"m":3}\n{"b":"\\"y\\":","z":2,"y":true}\n{"b":null}\n')
    check(lambda pd: pd.read_json(path, lines=True), native=None)
    path = write(
        '{"m":1}\n{"z":1.5,"c":"x"}\n{"a":2,"m":3}\n{"b":"\\"y\\":w","z":2,"y":1}\n{"b":null}\n', "other.jsonl"
    )
    check(lambda pd: pd.read_json(path, lines=True))


@pytest.mark.parametrize("name", ["d[1].json", "d*.json", "d?.json", "[ab].json", "{a,b}.json", "**.json"])
def test_names_that_look_like_patterns(tmp_path, name):
    """Files whose names look like patterns, in a folder with other files that these patterns match."""
    frames = {}
    for number, each in enumerate((name, "d1.json", "dx.json", "a.json", "b.json", "other.json")):
        frames[each] = pandas.DataFrame(
            {"a": range(number * 10, number * 10 + 5), "f": [0.3, 1.5, 2.0, 1e3, 4.0], "s": list("xyzab")}
        )
        for suffix in ("", "l"):
            frames[each].to_json(tmp_path / f"{each}{suffix}", orient="records", lines=True)
    for suffix in ("", "l"):
        path = str(tmp_path / f"{name}{suffix}")
        check(lambda pd, path=path: pd.read_json(path, lines=True), native=None)
        check(
            lambda pd, path=path: (len(pd.read_json(path, lines=True)), pd.read_json(path, lines=True)["f"].sum()),
            native=None,
        )
    frames[name].to_csv(tmp_path / f"{name}.csv", index=False)
    frames[name].to_parquet(tmp_path / f"{name}.parquet")
    check(lambda pd: pd.read_csv(tmp_path / f"{name}.csv")["a"].sum(), native=None)
