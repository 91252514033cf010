"""The demo: its data is generated once, its comparison finds every difference, and its output files can be opened."""

from __future__ import annotations

import html.parser
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from craton.demo import data, report, run
from craton.demo.compare import difference, materialise
from craton.demo.measure import Contestant, QueryResult, measure, totals
from craton.demo.queries import QUERIES

SCALE = 0.01


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return data.ensure(SCALE, tmp_path_factory.mktemp("tpch"))


# ---- data ----


def test_data_is_complete_and_of_pandas_types(folder: Path) -> None:
    assert data.is_complete(folder, SCALE)
    assert sorted(path.name for path in folder.iterdir()) == sorted(
        [data.MARKER, *(f"{table}.parquet" for table in data.TABLES)]
    )
    lineitem = pd.read_parquet(folder / "lineitem.parquet")
    assert len(lineitem) == 60175
    assert lineitem["l_shipdate"].dtype == np.dtype("datetime64[us]")
    assert lineitem["l_extendedprice"].dtype == np.dtype("float64")
    assert lineitem["l_comment"].dtype == pd.StringDtype(na_value=np.nan)


def test_decimals_become_the_nearest_doubles(folder: Path) -> None:
    lineitem = pd.read_parquet(folder / "lineitem.parquet")
    for name in ("l_extendedprice", "l_discount", "l_tax"):
        nearest = [float(f"{value:.2f}") for value in lineitem[name]]
        assert lineitem[name].tolist() == nearest


def test_data_is_made_once(folder: Path) -> None:
    before = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    steps: list[str] = []
    assert data.ensure(SCALE, folder, report=lambda step, done, total: steps.append(step)) == folder
    assert steps == []
    assert {path.name: path.stat().st_mtime_ns for path in folder.iterdir()} == before


def test_data_without_its_marker_is_made_again(tmp_path: Path) -> None:
    data.ensure(0.001, tmp_path)
    (tmp_path / data.MARKER).unlink()
    (tmp_path / "orders.parquet").write_bytes(b"half a file")
    steps: list[tuple[str, int, int]] = []
    data.ensure(0.001, tmp_path, report=lambda *step: steps.append(step))
    assert data.is_complete(tmp_path, 0.001)
    assert len(pd.read_parquet(tmp_path / "orders.parquet")) == 1500
    assert ("orders", 1500, 1500) in steps


def test_data_of_another_scale_is_not_replaced(folder: Path) -> None:
    with pytest.raises(ValueError, match=r"scale factor 0\.01, not 0\.02; name another folder"):
        data.ensure(0.02, folder)
    assert data.is_complete(folder, SCALE)


@pytest.mark.parametrize("scale", [0, -1, math.nan])
def test_a_scale_has_to_be_positive(tmp_path: Path, scale: float) -> None:
    with pytest.raises(ValueError, match="give a number above 0"):
        data.ensure(scale, tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_a_failing_generator_is_quoted_and_leaves_no_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    generator = tmp_path / "generator"
    generator.write_text("#!/bin/sh\necho 'no space left' >&2\nexit 3\n")
    generator.chmod(0o755)
    monkeypatch.setattr(data, "find_generator", lambda: str(generator))
    with pytest.raises(RuntimeError, match="exited with status 3: no space left"):
        data.ensure(SCALE, tmp_path / "tables")
    assert list((tmp_path / "tables").iterdir()) == []


def test_a_missing_generator_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data.shutil, "which", lambda *_, **__: None)
    with pytest.raises(FileNotFoundError, match="pip install tpchgen-cli"):
        data.find_generator()


def test_a_failed_conversion_leaves_no_file(tmp_path: Path) -> None:
    source = tmp_path / "raw.parquet"
    source.write_bytes(b"PAR1 this is not Parquet")
    with pytest.raises(ValueError, match="Parquet"):
        data.convert(source, tmp_path / "orders.parquet")
    assert [path.name for path in tmp_path.iterdir()] == ["raw.parquet"]


# ---- comparison ----


def frame() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "count": [1, 2, 3],
            "price": [0.1 + 0.2, np.nan, 1e9],
            "name": ["a", "b", None],
            "day": pd.to_datetime(["2024-01-01", "2024-01-02", None]).as_unit("us"),
            "flag": [True, False, True],
        }
    )


def test_equal_frames_have_no_difference() -> None:
    assert difference(frame(), frame()) is None


def test_floats_may_differ_in_their_last_bits() -> None:
    assert difference(frame(), frame().assign(price=[0.3, np.nan, 1e9 + 0.1])) is None
    assert difference(frame(), frame().assign(price=[0.3, np.nan, 1e9 + 10])) is not None
    zero = pd.DataFrame({"price": [0.0]})
    assert difference(zero, pd.DataFrame({"price": [1e-300]})) is not None


CHANGES = {
    "an integer": lambda f: f.assign(count=[1, 2, 4]),
    "a large integer": lambda f: f.assign(count=[1, 2, 3 + 10**18]),
    "integer type": lambda f: f.assign(count=f["count"].astype("int32")),
    "integer to float": lambda f: f.assign(count=f["count"].astype("float64")),
    "float type": lambda f: f.assign(price=f["price"].astype("float32")),
    "NaN filled": lambda f: f.assign(price=f["price"].fillna(0)),
    "a string": lambda f: f.assign(name=["a", "c", None]),
    "string type": lambda f: f.assign(name=f["name"].astype(object)),
    "a day": lambda f: f.assign(day=f["day"] + pd.Timedelta(days=1)),
    "unit of time": lambda f: f.assign(day=f["day"].astype("datetime64[ns]")),
    "a flag": lambda f: f.assign(flag=~f["flag"]),
    "row order": lambda f: f.iloc[::-1].reset_index(drop=True),
    "a row less": lambda f: f.head(2),
    "index values": lambda f: f.set_axis([0, 1, 3]),
    "index type": lambda f: f.set_axis(pd.Index([0, 1, 2])),
    "index name": lambda f: f.rename_axis("row"),
    "column order": lambda f: f[["price", "count", "name", "day", "flag"]],
    "column name": lambda f: f.rename(columns={"flag": "flags"}),
    "name of columns": lambda f: f.rename_axis(columns="fields"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_any_other_difference_is_found(change: str) -> None:
    found = difference(frame(), CHANGES[change](frame()))
    assert found is not None
    assert "\n" not in found


def test_the_difference_says_where_and_what() -> None:
    assert difference(frame(), frame().assign(count=[1, 2, 4])) == (
        "column 'count': Series values are different (33.33333 %): expected [1, 2, 3], got [1, 2, 4]"
    )


def test_materialise_gives_plain_pandas() -> None:
    class Lazy(pd.DataFrame):
        pass

    assert type(materialise(Lazy({"a": [1]}))) is pd.DataFrame
    with pytest.raises(TypeError, match="returned int"):
        materialise(1)


# ---- measurement ----


class Wrong:
    """Stands for pandas, but reads only the first 100 rows of a file."""

    DataFrame = pd.DataFrame
    Timestamp = pd.Timestamp

    @staticmethod
    def read_parquet(path: str) -> pd.DataFrame:
        return pd.read_parquet(path).head(100)


class Broken:
    """Stands for pandas, but cannot read files."""

    @staticmethod
    def read_parquet(path: str) -> pd.DataFrame:
        raise NotImplementedError(f"cannot read\n{path}")


def outcomes_of(folder: Path, module: Any, names: list[str], **options: Any) -> list[QueryResult]:
    return list(measure(names, folder, Contestant("pandas", pd), Contestant("Craton", module), **options))


def test_every_run_is_announced_timed_and_takes_turns(folder: Path) -> None:
    said: list[tuple[str, str, int]] = []
    forgotten: list[str] = []
    counted = iter([5, 7, 7, 10])
    contestant = Contestant("Craton", pd, lambda: forgotten.append("once"), lambda: next(counted))
    [outcome] = measure(
        ["q06"], folder, Contestant("pandas", pd), contestant, repeat=2, announce=lambda *args: said.append(args)
    )
    assert said == [("q06", "pandas", 1), ("q06", "Craton", 1), ("q06", "Craton", 2), ("q06", "pandas", 2)]
    assert len(forgotten) == 2
    assert outcome.equal
    assert outcome.fallbacks == 3
    assert outcome.title == "Forecasting revenue change"
    assert outcome.rows == 1
    assert len(outcome.baseline_seconds) == len(outcome.seconds) == 2
    assert outcome.speed_up == outcome.baseline / outcome.craton > 0


def test_a_wrong_result_is_unequal_and_a_raised_error_is_told(folder: Path) -> None:
    [wrong] = outcomes_of(folder, Wrong, ["q13"])
    assert not wrong.equal
    assert wrong.problem is not None
    assert wrong.problem.startswith("shape: expected")
    [broken] = outcomes_of(folder, Broken, ["q13"])
    assert broken.problem is not None
    assert broken.problem.startswith(
        f"Craton failed: NotImplementedError: cannot read {folder}/customer.parquet (raised"
    )
    assert math.isnan(broken.speed_up)
    total = totals([wrong, broken])
    assert (total.equal, total.queries) == (0, 2)
    assert total.speed_up == pytest.approx(wrong.speed_up)


# ---- report and command line ----


class Page(html.parser.HTMLParser):
    """Collects the rows and images of an HTML page, and fails on tags that are not closed in order."""

    VOID = ("meta", "img")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.rows = 0
        self.sources: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.rows += tag == "tr"
        self.sources += [value or "" for key, value in attrs if key in ("src", "href")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag != "p" or self.open[-1] == "p":
            assert self.open.pop() == tag


def test_report_files_can_be_opened(tmp_path: Path) -> None:
    from matplotlib.image import imread

    outcomes = [
        QueryResult("q01", "Pricing summary report", (5.0, 6.0, 7.0), (0.5, 0.4, 0.6), 4, None, 0),
        QueryResult("q02", "Minimum cost <supplier>", (0.2,), (), 100, "Craton failed: KeyError: '<a> & b'"),
        QueryResult("q03", "Shipping priority", (1.0,), (0.1,), 10, "column 'revenue' differs", 2),
    ]
    files = report.write(outcomes, report.setting(0.5, 3), tmp_path / "out")
    assert sorted((tmp_path / "out").iterdir()) == sorted([files.chart, files.page, files.results])

    image = imread(files.chart)
    assert image.ndim == 3
    assert image.shape[1] > image.shape[0] > 200
    assert image.std() > 0.05  # the image is not of a single colour

    text = files.page.read_text(encoding="utf-8")
    page = Page(text)
    assert page.rows == 1 + len(outcomes) + 1
    assert [source.partition(",")[0] for source in page.sources] == ["data:image/png;base64"]
    for expected in ("Q01", "6.000 s", "0.500 s", "12.0×", "2 of 3 results are not equal", "&lt;a&gt; &amp; b"):
        assert expected in text
    assert "<supplier>" not in text
    for package in ("Python", *report.PACKAGES):
        assert f"<dt>{package}</dt>" in text

    assert report.fallback_line(outcomes) == "calls that Craton passed on to pandas: q03 2"

    figures = json.loads(files.results.read_text(encoding="utf-8"))
    assert figures["totals"]["speed_up"] == pytest.approx(7 / 0.6)
    assert [query["problem"] is None for query in figures["queries"]] == [True, False, False]


def test_the_command_line_ends_well(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [
        "--scale",
        str(SCALE),
        "--data",
        str(folder),
        "--out",
        str(tmp_path),
        "--queries",
        "6,1",
        "--repeat",
        "1",
    ]
    assert run.main(arguments, engine=pd) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines if line.startswith("q")] == ["query", "q01", "q06"]
    assert any(line.startswith("total") and line.endswith("2 of 2") for line in lines)
    for name in ("tpch-sf0.01.png", "tpch-sf0.01.html", "tpch-sf0.01.json"):
        assert (tmp_path / name).is_file()
        assert any(line.endswith(str(tmp_path / name)) for line in lines)


def test_the_command_line_fails_when_a_result_differs(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [
        "--scale",
        str(SCALE),
        "--data",
        str(folder),
        "--out",
        str(tmp_path),
        "--queries",
        "13",
        "--repeat",
        "1",
    ]
    assert run.main(arguments, engine=Wrong) == 1
    out = capsys.readouterr().out
    assert "Not equal:\n  q13  shape: expected" in out
    assert (tmp_path / "tpch-sf0.01.html").is_file()


def test_the_command_line_says_why_it_cannot_start(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run.main(["--scale", "3", "--data", str(folder), "--out", str(tmp_path)], engine=pd) == 2
    assert "holds TPC-H data of scale factor 0.01, not 3" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--queries", "23"], "numbers from 1 to 22"),
        (["--queries", "one"], "'one' is not a query"),
        (["--repeat", "0"], "a number of at least 1"),
        (["--scale", "-1"], "give a number above 0"),
    ],
)
def test_wrong_arguments_are_refused(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        run.main(arguments, engine=pd)
    assert caught.value.code == 2
    assert said in capsys.readouterr().err


def test_all_22_queries_are_there_and_are_titled() -> None:
    assert list(QUERIES) == [f"q{number:02}" for number in range(1, 23)]
    assert len({query.__doc__ for query in QUERIES.values()}) == 22
