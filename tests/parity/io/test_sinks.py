"""to_parquet, to_csv, to_feather, to_json against pandas: the text, the frame that is read back, and files after failures."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas
import pyarrow.parquet as pq
import pytest
from frames import frames
from hypothesis import HealthCheck, given, settings
from support import check, same

import craton
import craton.pandas as cp
from craton import fallbacks
from craton.kernel import run as kernel

FRAME = pandas.DataFrame(
    {
        "i": [3, 1, 2, 5],
        "f": [1.5, np.nan, -0.0, np.inf],
        "e": [1e16, 1e-5, 123456789.125, 1e-4],
        "s": ["b", None, 'a "quoted", text', ""],
        "t": pandas.to_datetime(["2020-01-01", "2021-06-01", None, "1999-12-31"]),
        "u": pandas.to_datetime(["2020-01-01 10:00:00", "2021-06-01", None, "1999-12-31"], format="ISO8601"),
        "v": pandas.to_datetime(["2020-01-01 10:00:00.25", "2021-06-01", None, "1999-12-31"], format="ISO8601"),
        "z": pandas.to_datetime(["2020-01-01", "2021-06-01", None, "1999-12-31"]).tz_localize("Europe/Berlin"),
        "d": pandas.to_timedelta([1, 2, None, 4], unit="s"),
        "b": [True, False, True, True],
        "n": pandas.array([1, None, 3, 4], dtype="Int64"),
        "m": pandas.array([True, None, False, True], dtype="boolean"),
        "r": pandas.array([0.5, None, 1e20, 2.0], dtype="Float64"),
        "a": pandas.array([1, None, 3, 4], dtype="int32[pyarrow]"),
        "c": pandas.Categorical(["x", None, "z", "x"], categories=["z", "x", "unused"]),
        "o": pandas.Categorical([2, 1, None, 1], categories=[3, 1, 2], ordered=True),
        "small": np.array([1, 2, 3, 4], dtype="int8"),
        "half": np.array([0.1, 2, 1e-7, np.nan], dtype="float32"),
    }
)
INDEXES = {
    "default": None,
    "named": pandas.RangeIndex(4, name="rows"),
    "range": pandas.RangeIndex(5, 13, 2),
    "ints": pandas.Index([7, 1, 3, 3]),
    "text": pandas.Index(["x", "y", None, "z"], name="key"),
    "dates": pandas.DatetimeIndex(["2020-01-01", "2020-01-02", "2020-01-03", "2020-01-05"], name="day"),
    "two": pandas.MultiIndex.from_arrays([["a", "a", "b", "b"], [1, 2, 1, 2]], names=["one", None]),
}


def with_index(kind: str, frame: pandas.DataFrame = FRAME) -> pandas.DataFrame:
    return frame if INDEXES[kind] is None else frame.set_axis(INDEXES[kind])


def written(frame, method, path, native=True, **named):
    """The bytes that pandas and Craton write to the same path, one after the other."""
    results = []
    for planned in (False, True):
        if os.path.exists(path):
            os.unlink(path)
        if planned:
            with craton.option_context(small_rows=0):
                fallbacks.reset()
                assert getattr(cp.DataFrame(frame), method)(path, **named) is None
                if native:
                    assert fallbacks.explain_fallbacks().empty, fallbacks.explain_fallbacks().to_string()
        else:
            getattr(frame, method)(path, **named)
        results.append(Path(path).read_bytes())
    assert os.listdir(os.path.dirname(path)) == [os.path.basename(path)], "something is left behind"
    return results


@pytest.mark.parametrize("kind", INDEXES)
@pytest.mark.parametrize("index", [None, True, False])
def test_parquet(tmp_path, kind, index):
    frame = with_index(kind)
    for part in (frame, frame.drop(columns=["c", "o"])):
        path = str(tmp_path / "x.parquet")
        part.to_parquet(path, index=index)
        expected, schema = pandas.read_parquet(path), pq.read_schema(path)
        written(part, "to_parquet", path, index=index)
        pandas.testing.assert_frame_equal(pandas.read_parquet(path), expected)
        got = pq.read_schema(path)
        assert got.equals(schema, check_metadata=False)
        assert got.pandas_metadata["index_columns"] == schema.pandas_metadata["index_columns"]
        assert got.pandas_metadata["columns"] == schema.pandas_metadata["columns"]


@pytest.mark.parametrize("compression", ["snappy", "gzip", "brotli", "lz4", "zstd", None])
def test_parquet_compression(tmp_path, compression):
    for frame in (FRAME, FRAME[["i", "f"]]):
        path = str(tmp_path / "x.parquet")
        frame.to_parquet(path, compression=compression)
        expected = pandas.read_parquet(path)
        written(frame, "to_parquet", path, compression=compression)
        pandas.testing.assert_frame_equal(pandas.read_parquet(path), expected)
        codec = pq.read_metadata(path).row_group(0).column(0).compression
        assert codec == (compression or "uncompressed").upper()


@pytest.mark.parametrize("columns", [["b"], ["b", "i"], ["s"], ["c"]])
def test_parquet_partitions(tmp_path, columns):
    frame = FRAME.dropna(subset=["s", "c"])
    frame.to_parquet(tmp_path / "theirs", partition_cols=columns)
    with craton.option_context(small_rows=0):
        fallbacks.reset()
        cp.DataFrame(frame).to_parquet(tmp_path / "ours", partition_cols=columns)
        assert fallbacks.explain_fallbacks().empty
    assert sorted(os.listdir(tmp_path)) == ["ours", "theirs"]
    folders = [
        sorted(str(p.parent.relative_to(tmp_path / name)) for p in (tmp_path / name).rglob("*.parquet"))
        for name in ("ours", "theirs")
    ]
    assert folders[0] == folders[1]
    pandas.testing.assert_frame_equal(pandas.read_parquet(tmp_path / "ours"), pandas.read_parquet(tmp_path / "theirs"))
    with craton.option_context(small_rows=0):
        cp.DataFrame(frame).to_parquet(tmp_path / "ours", partition_cols=columns)
    assert len(pandas.read_parquet(tmp_path / "ours")) == 2 * len(pandas.read_parquet(tmp_path / "theirs"))


def test_parquet_of_a_plan(tmp_path):
    frame = FRAME.drop(columns="o")
    frame.to_parquet(tmp_path / "in.parquet")
    program = lambda pd: pd.read_parquet(tmp_path / "in.parquet").query("i > 1").assign(g=lambda d: d["i"] * 2)  # noqa: E731
    program(pandas).to_parquet(tmp_path / "theirs.parquet")
    with craton.option_context(small_rows=0):
        program(cp).to_parquet(tmp_path / "ours.parquet")
        # The frame overwrites its own source, and keeps the rows of the old file.
        lazy = cp.read_parquet(tmp_path / "in.parquet")
        lazy[["i"]].to_parquet(tmp_path / "in.parquet")
        same(lazy, frame)
    one, other = (pandas.read_parquet(tmp_path / f"{name}.parquet") for name in ("ours", "theirs"))
    pandas.testing.assert_frame_equal(one, other, check_index_type=True)
    assert type(one.index) is type(other.index)
    pandas.testing.assert_frame_equal(pandas.read_parquet(tmp_path / "in.parquet"), FRAME[["i"]])


def test_labels_that_are_evenly_spaced_stay_a_range(tmp_path):
    FRAME[["i", "f"]].to_parquet(tmp_path / "in.parquet")
    with craton.option_context(small_rows=0):
        frame = cp.read_parquet(tmp_path / "in.parquet")
        frame[frame["i"] > 0].to_parquet(tmp_path / "all.parquet")
        frame[frame["i"] > 2].to_parquet(tmp_path / "some.parquet")
    assert isinstance(pandas.read_parquet(tmp_path / "all.parquet").index, pandas.RangeIndex)
    frame = FRAME[["i", "f"]]
    same(pandas.read_parquet(tmp_path / "some.parquet"), frame[frame["i"] > 2])


def test_attrs(tmp_path):
    with craton.option_context(small_rows=0):
        frame = cp.DataFrame(FRAME[["i"]])
        frame.attrs = {"unit": "m"}
        frame.to_parquet(tmp_path / "x.parquet")
    assert pandas.read_parquet(tmp_path / "x.parquet").attrs == {"unit": "m"}


@pytest.mark.parametrize("compression", [None, "lz4", "zstd", "uncompressed"])
def test_feather(tmp_path, compression):
    named = {} if compression is None else {"compression": compression}
    path = str(tmp_path / "x.feather")
    for kind in INDEXES:
        frame = with_index(kind)
        frame.to_feather(path, **named)
        expected = pandas.read_feather(path)
        written(frame, "to_feather", path, **named)
        same(pandas.read_feather(path), expected)


CSV = [
    {},
    {"index": False},
    {"header": False},
    {"sep": ";"},
    {"sep": "\t", "na_rep": "NULL"},
    {"na_rep": 'a,"b'},
    {"columns": ["f", "s"]},
    {"header": list(map(str, range(18)))},
    {"index_label": "rows"},
    {"index_label": ["p", "q"]},
    {"index_label": False},
    {"float_format": "%.3f"},
    {"date_format": "%d/%m/%Y"},
    {"quoting": 1},
    {"quoting": 2},
    {"quoting": 3, "escapechar": "\\"},
    {"quotechar": "'"},
    {"decimal": ","},
    {"lineterminator": "\r\n"},
    {"sep": "."},
    {"chunksize": 3},
    {"encoding": "utf-16"},
]


@pytest.mark.parametrize("named", CSV, ids=str)
@pytest.mark.parametrize("kind", INDEXES)
def test_csv(tmp_path, kind, named):
    if "header" in named and kind == "two" and named.get("index_label") is not None:
        pytest.skip("pandas raises")
    frame = with_index(kind)
    if isinstance(named.get("index_label"), list) and kind != "two":
        named = {"index_label": ["p"]}
    theirs, ours = written(frame, "to_csv", str(tmp_path / "x.csv"), **named)
    assert ours.decode("latin-1") == theirs.decode("latin-1")
    with craton.option_context(small_rows=0):
        assert cp.DataFrame(frame).to_csv(**named) == frame.to_csv(**named)


@pytest.mark.parametrize("suffix", ["gz", "bz2", "xz", "zip", "tar"])
def test_csv_compressed(tmp_path, suffix):
    path = str(tmp_path / f"x.csv.{suffix}")
    written(FRAME, "to_csv", path)
    same(pandas.read_csv(path), pandas.read_csv(_copied(FRAME, tmp_path / "theirs.csv")))
    if suffix == "zip":
        import zipfile

        assert zipfile.ZipFile(path).namelist() == ["x.csv"]


def _copied(frame, path):
    frame.to_csv(path)
    return path


def test_csv_in_several_chunks(tmp_path):
    rows = 70_001
    frame = pandas.DataFrame(
        {
            "day": pandas.date_range("2020-01-01", periods=rows, freq="D", unit="s").where(np.arange(rows) < 60_000),
            "second": pandas.Timestamp("2020-01-01") + pandas.to_timedelta(np.r_[np.zeros(rows - 1), 1], unit="s"),
            "x": np.arange(rows) / 7,
        }
    )
    theirs, ours = written(frame, "to_csv", str(tmp_path / "x.csv"))
    assert ours == theirs


@pytest.mark.parametrize("columns", [[("x", "a")], ["x"], [("y", "b"), ("x", "a")], [], [("z", "z")], ("x", "a")])
def test_columns_of_several_levels_as_text(columns):
    def program(pd):
        frame = pd.DataFrame({"x": [1, 2, 3], "y": [3.0, None, 5.0]})
        frame.columns = pd.MultiIndex.from_tuples([("x", "a"), ("y", "b")])
        return frame[frame[("x", "a")] > 1].to_csv(columns=columns)

    check(program, native=None)


def test_csv_of_one_column(tmp_path):
    frame = pandas.DataFrame({"s": ["a", None, ""]})
    theirs, ours = written(frame, "to_csv", str(tmp_path / "x.csv"), index=False)
    assert ours == theirs


def test_csv_of_a_series(tmp_path):
    for series in (FRAME["s"], FRAME["f"].rename(None)):
        with craton.option_context(small_rows=0):
            assert cp.Series(series).to_csv() == series.to_csv()
            cp.Series(series).to_csv(tmp_path / "x.csv")
        assert (tmp_path / "x.csv").read_text() == series.to_csv()


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(frames())
@pytest.mark.filterwarnings("ignore:The default formatting of datetime")
def test_random_frames_as_text(frame):
    with craton.option_context(small_rows=0):
        assert cp.DataFrame(frame).to_csv() == frame.to_csv()
        plain = frame.reset_index(drop=True)
        assert cp.DataFrame(plain).to_json(orient="records", lines=True) == plain.to_json(orient="records", lines=True)


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(frames())
def test_random_frames_read_back(tmp_path_factory, frame):
    folder = tmp_path_factory.mktemp("sinks")
    frame.to_parquet(folder / "theirs.parquet")
    frame.to_feather(folder / "theirs.feather")
    with craton.option_context(small_rows=0):
        cp.DataFrame(frame).to_parquet(folder / "ours.parquet")
        cp.DataFrame(frame).to_feather(folder / "ours.feather")
        for form, read in (("parquet", "read_parquet"), ("feather", "read_feather")):
            expected = getattr(pandas, read)(folder / f"theirs.{form}")
            same(getattr(pandas, read)(folder / f"ours.{form}"), expected)
            same(getattr(cp, read)(folder / f"ours.{form}"), expected)


def test_floats_as_text_to_the_last_digit():
    random = np.random.default_rng(0)
    numbers = np.concatenate(
        [random.random(3000), 10.0 ** random.uniform(-300, 300, 3000), random.integers(0, 10**17, 3000) / 8]
    )
    with np.errstate(over="ignore"):
        frame = pandas.DataFrame({"a": numbers, "b": numbers.astype("float32")})
    with craton.option_context(small_rows=0):
        assert cp.DataFrame(frame).to_csv() == frame.to_csv()


@pytest.mark.filterwarnings("ignore:The default formatting of datetime")
def test_json_lines(tmp_path):
    frame = FRAME.drop(columns=["d"])
    for named in ({}, {"date_format": "iso"}, {"double_precision": 3}, {"force_ascii": False}):
        theirs, ours = written(frame, "to_json", str(tmp_path / "x.json"), orient="records", lines=True, **named)
        assert ours == theirs
    (tmp_path / "x.json").unlink()
    path = str(tmp_path / "x.json.gz")
    written(frame, "to_json", path, orient="records", lines=True)
    same(pandas.read_json(path, lines=True)[["i", "s"]], frame[["i", "s"]])
    written(frame.head(0), "to_json", path, orient="records", lines=True)
    written(frame, "to_json", path, native=False)


# -- failures ------------------------------------------------------------------------------------------------------------


class Broken(RuntimeError):
    pass


WRITES = {
    "parquet": lambda frame, path: frame.to_parquet(path),
    "parquet of pyarrow": lambda frame, path: frame.to_parquet(path, compression="brotli"),
    "folder": lambda frame, path: frame.to_parquet(path, partition_cols=["k"]),
    "csv": lambda frame, path: frame.to_csv(path),
    "feather": lambda frame, path: frame.to_feather(path),
    "json": lambda frame, path: frame.to_json(path, orient="records", lines=True),
}


@pytest.mark.parametrize("kind", WRITES)
@pytest.mark.parametrize("error", [Broken, KeyboardInterrupt])
def test_an_error_in_the_middle_leaves_what_was_there(tmp_path, monkeypatch, kind, error):
    from craton.pandas.io import output_rows, sink_arrow, sink_text

    path = tmp_path / "x"
    if kind == "folder":
        path.mkdir()
        (path / "old").write_text("old")
    else:
        path.write_text("old")
    before = sorted(p.relative_to(tmp_path) for p in tmp_path.rglob("*"))
    monkeypatch.setattr(sink_arrow, "_PANDAS_GROUP", sink_arrow.BATCH_ROWS)  # so that there are several
    seen = []

    def broken(original):
        def function(*args, **named):
            seen.append(1)
            if len(seen) > 1:
                raise error("stop")
            return original(*args, **named)

        return function

    if kind == "parquet":
        monkeypatch.setattr(
            sink_arrow,
            "run_into_sink",
            lambda plan, attach: (output_rows.run_into_sink(plan, attach), broken(None)(), broken(None)())[0],
        )
        monkeypatch.setattr(sink_arrow, "run_into_sink", _interrupted(output_rows.run_into_sink, error))
    else:
        monkeypatch.setattr(sink_arrow, "batch_to_arrow", broken(sink_arrow.batch_to_arrow))
        monkeypatch.setattr(sink_text, "batch_to_frame", broken(sink_text.batch_to_frame))
        monkeypatch.setattr(sink_text._CsvFormatter, "chunk", broken(sink_text._CsvFormatter.chunk))
    frame = pandas.DataFrame({"k": np.arange(300_000) % 3, "x": 0.5})
    with craton.option_context(small_rows=0), pytest.raises(error):
        WRITES[kind](cp.DataFrame(frame), str(path))
    assert sorted(p.relative_to(tmp_path) for p in tmp_path.rglob("*")) == before
    assert (path / "old" if kind == "folder" else path).read_text() == "old"


def _interrupted(sink, error):
    def function(plan, attach):
        sink(plan, attach)
        raise error("stop")

    return function


def test_a_query_that_fails_leaves_no_file(tmp_path):
    pandas.DataFrame({"s": ["1", "x"]}).to_parquet(tmp_path / "in.parquet")
    data = bytearray((tmp_path / "in.parquet").read_bytes())
    data[4:60] = b"\xff" * 56
    (tmp_path / "in.parquet").write_bytes(bytes(data))
    with craton.option_context(small_rows=0):
        frame = cp.read_parquet(tmp_path / "in.parquet")
        with pytest.raises(OSError):
            frame.to_csv(tmp_path / "out.csv")
    assert os.listdir(tmp_path) == ["in.parquet"]


PROGRAM = """
import os, resource, signal, sys
import numpy as np
import craton, pandas
import craton.pandas as cp
folder, module = sys.argv[1:]
pd = pandas if module == "pandas" else cp
if module == "planned":
    craton.options.small_rows = 0
rows = 90_000
frame = pd.DataFrame({"k": np.arange(rows) % 3, "x": np.random.default_rng(0).random(rows)})
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
writes = {
    "parquet": lambda path: frame.to_parquet(path),
    "parquet of pyarrow": lambda path: frame.to_parquet(path, compression="brotli"),
    "folder": lambda path: frame.to_parquet(path, partition_cols=["k"]),
    "csv": lambda path: frame.to_csv(path),
    "feather": lambda path: frame.to_feather(path),
    "json": lambda path: frame.to_json(path, orient="records", lines=True),
}
for kind, write in writes.items():
    try:
        write(os.path.join(folder, kind))
        print(kind, "written")
    except OSError as error:
        print(kind, "OSError", error.errno)
"""


def test_a_full_disk(tmp_path):
    pytest.importorskip("resource")
    told = {}
    for module in ("pandas", "planned", "small"):
        folder = tmp_path / module
        folder.mkdir()
        for kind in WRITES:
            if kind != "folder":
                (folder / kind).write_text("old")
        command = [sys.executable, "-c", PROGRAM, str(folder), module]
        told[module] = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
        if module == "pandas":
            continue
        assert sorted(os.listdir(folder)) == sorted(set(WRITES) - {"folder"})
        assert {(folder / kind).read_text() for kind in WRITES if kind != "folder"} == {"old"}
    assert told["pandas"].count("OSError") == len(WRITES)
    assert told["planned"] == told["small"] == told["pandas"]


def test_a_file_system_that_is_full(tmp_path):
    place = tmp_path / "small"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(place)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("mounting is not permitted")
    try:
        frame = pandas.DataFrame({"x": np.random.default_rng(0).random(300_000)})
        with craton.option_context(small_rows=0):
            for write in (cp.DataFrame.to_parquet, cp.DataFrame.to_csv, cp.DataFrame.to_feather):
                with pytest.raises(OSError, match="No space left on device"):
                    write(cp.DataFrame(frame), str(place / "x"))
                assert os.listdir(place) == []
    finally:
        subprocess.run(["umount", str(place)], check=True)


# -- targets -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["to_parquet", "to_csv", "to_feather"])
@pytest.mark.parametrize("small_rows", [0, 1000])
def test_targets_that_can_not_be_written(tmp_path, method, small_rows):
    frame = FRAME[["i", "s"]]
    for path in (tmp_path / "no folder" / "x", tmp_path):
        with pytest.raises(Exception) as theirs:
            getattr(frame, method)(path)
        with craton.option_context(small_rows=small_rows), pytest.raises(type(theirs.value)) as ours:
            getattr(cp.DataFrame(frame), method)(path)
        assert str(ours.value) == str(theirs.value)
    assert os.listdir(tmp_path) == []


def test_links_and_modes_stay(tmp_path):
    (tmp_path / "real").write_text("old")
    os.chmod(tmp_path / "real", 0o640)
    (tmp_path / "link").symlink_to("real")
    cp.DataFrame(FRAME).to_csv(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == FRAME.to_csv()
    assert (tmp_path / "real").stat().st_mode & 0o777 == 0o640


def test_appending_and_pipes(tmp_path):
    frame = cp.DataFrame(FRAME[["i"]])
    frame.to_csv(tmp_path / "x.csv")
    frame.to_csv(tmp_path / "x.csv", mode="a", header=False)
    assert (tmp_path / "x.csv").read_text() == FRAME[["i"]].to_csv() + FRAME[["i"]].to_csv(header=False)
    frame.to_csv(os.devnull)
    import io

    for buffer in (io.StringIO(), io.BytesIO()):
        with craton.option_context(small_rows=0):
            frame.to_csv(buffer)
        text = buffer.getvalue()
        assert (text if isinstance(text, str) else text.decode()) == FRAME[["i"]].to_csv()


def test_runs_and_sinks_are_lent_memory(tmp_path, monkeypatch):
    frame = pandas.DataFrame({"a": np.arange(1000), "b": np.arange(1000) / 7})
    frame.to_parquet(tmp_path / "in.parquet")
    asked = []

    class Lender:
        connected = False

        def reserve(self, nbytes, *, at_least):
            asked.append((nbytes, at_least))
            return contextlib.nullcontext()

    monkeypatch.setattr(kernel, "SMALL_RUN_BYTES", 1)
    monkeypatch.setattr(kernel, "current_store", Lender)
    with craton.option_context(small_rows=0):
        read = cp.read_parquet(tmp_path / "in.parquet")
        assert read["a"].sum() == 999 * 500
        assert asked == [(8000, 0)]
        for write in (
            lambda: read.to_parquet(tmp_path / "out.parquet"),
            lambda: read.to_csv(tmp_path / "out.csv"),
            lambda: read.to_feather(tmp_path / "out.feather"),
        ):
            asked.clear()
            write()
            assert asked == [(16000, 0)]


@pytest.mark.parametrize("method", ["to_parquet", "to_csv", "to_feather"])
def test_an_error_that_rows_bring_up(method, tmp_path):
    series = pandas.Series(np.array([2**63 - 5, 0], dtype="M8[us]"))

    def program(pd, s):
        getattr((s + pandas.Timedelta(days=1)).to_frame("t"), method)(tmp_path / "out")

    assert isinstance(check(program, series, native=None), OverflowError)
    assert not list(tmp_path.iterdir())
