"""The commands ``craton run`` and ``craton plan``, drawings, and how results are shown."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from xml.etree import ElementTree

import pandas as pd
import pyarrow as pa
import pytest

import craton
from craton.pipeline import Pipeline, RunSettings, cli
from craton.store import Store

FILE = """
import helpers_of_test
import pandas as pd
import craton
from craton.pipeline import Parquet

orders = Parquet("orders.parquet")

@craton.step
def large(orders: pd.DataFrame, *, least: float = 10.0, flag: bool = False, label="x") -> pd.DataFrame:
    assert isinstance(least, float) and isinstance(flag, bool)
    return helpers_of_test.above(orders, least)

@craton.step(to_parquet="out/total.parquet")
def total(large: pd.DataFrame) -> pd.DataFrame:
    return large.agg(["sum"])

@craton.step
def bad(large: pd.DataFrame, *, fail: int = 0) -> pd.DataFrame:
    if fail:
        raise ValueError("told to")
    return large

@craton.step
def after(bad): return bad
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "pipeline_of_test.py").write_text(FILE)
    (tmp_path / "helpers_of_test.py").write_text("def above(frame, least): return frame[frame['price'] > least]\n")
    pd.DataFrame({"price": [5.0, 10.0, 20.0]}).to_parquet(tmp_path / "orders.parquet")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(cli, "RunSettings", RunSettings)
    for name in ("pipeline_of_test", "helpers_of_test"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return tmp_path


def test_a_file_is_run(folder: Path) -> None:
    command = [sys.executable, "-W", "error", "-m", "craton"]
    paths = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*command, *arguments], capture_output=True, text=True, env=paths, cwd=folder, check=False
        )

    ran = run("run", "pipeline_of_test.py", "--param", "large.least=4", "--draw", "graph.svg")
    assert ran.returncode == 0, ran.stderr
    assert re.search(r"^total +step +ran +1 ", ran.stdout, re.M), ran.stdout
    assert pd.read_parquet("out/total.parquet")["price"].tolist() == [35.0]
    assert ElementTree.parse("graph.svg").getroot().tag.endswith("svg")
    failed = run("run", "pipeline_of_test.py", "--param", "fail=1", "--quiet")
    assert (failed.returncode, failed.stdout) == (1, "")
    assert "step 'bad': ValueError: told to" in failed.stderr
    assert 'raise ValueError("told to")' in failed.stderr
    assert pd.read_parquet("out/total.parquet")["price"].tolist() == [20.0]


def test_a_plan_is_shown(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.plan(["pipeline_of_test.py", "--only", "total"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[:4] == ["step", "kind", "state", "needs"]
    assert [line.split()[:4] for line in lines[1:]] == [
        ["large", "step", "run", "orders"],
        ["total", "step", "run", "large"],
    ]
    assert lines[1].endswith("pipeline_of_test.py:9")
    assert not (folder / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["missing.py"], "there is no file missing.py"),
        (["pipeline_of_test.py", "--param", "lest=1"], "no step has a parameter 'lest'; did you mean 'least'?"),
        (["pipeline_of_test.py", "--param", "least"], "write NAME=VALUE"),
        (["pipeline_of_test.py", "--param", "least=many"], "could not convert string to float: 'many'"),
        (["pipeline_of_test.py", "--param", "flag=perhaps"], "'perhaps' is neither true nor false"),
        (["pipeline_of_test.py", "--only", "totals"], "there is no step 'totals'; did you mean 'total'?"),
        (["pipeline_of_test.py", "--from", "x"], "there is no step 'x'; steps are large, total, bad, after"),
        (["pipeline_of_test.py", "--pipeline", "main"], "has no pipeline 'main'"),
        (["orders.parquet"], "is no Python file"),
    ],
)
def test_bad_arguments_are_one_line(
    arguments: list[str], text: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for command in (cli.plan, cli.run):
        assert command(arguments) == 1
        shown = capsys.readouterr()
        assert text in shown.err
        assert len(shown.err.splitlines()) == 1


def test_a_file_may_have_several_pipelines(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (
        textwrap.dedent(FILE)
        + "\none = craton.Pipeline([large, orders])\ntwo = craton.Pipeline([large, total, orders])\n"
    )
    (folder / "pipeline_of_test.py").write_text(text)
    assert cli.plan(["pipeline_of_test.py"]) == 1
    assert "has several pipelines; choose one: --pipeline one | two" in capsys.readouterr().err
    assert cli.plan(["pipeline_of_test.py", "--pipeline", "one"]) == 0
    assert "total" not in capsys.readouterr().out


def test_the_example_for_cron(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    example = Path(__file__).resolve().parents[3] / "examples" / "pipelines" / "sales.py"
    (tmp_path / "sales").mkdir()
    for shop, lines in {
        "north": "09:00:00,north,tea,250\n2024-05-02 10:00:00,north,tea,300\n",
        "south": "10:00:00,south,jam,\n",
    }.items():
        (tmp_path / "sales" / f"{shop}.csv").write_text(f"time,shop,article,cents\n2024-05-01 {lines}")
    with (tmp_path / "sales" / "south.csv").open("a") as file:
        file.write("2024-05-01 11:00:00,south,jam,125\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "sales", raising=False)
    assert cli.run([str(example), "--quiet", "--param", "day=2024-05-01"]) == 0
    report = pd.read_parquet("reports/shops.parquet")
    assert report.to_dict("list") == {"shop": ["north", "south"], "lines": [1, 1], "cents": [250, 125]}
    assert cli.run([str(example), "--quiet", "--param", "day=2024-05-02"]) == 1
    assert "check 'every_shop_has_sold' failed: no sales of south" in capsys.readouterr().err
    pd.testing.assert_frame_equal(pd.read_parquet("reports/shops.parquet"), report)


def test_drawings_show_every_step_and_what_it_did(store: Store, tmp_path: Path) -> None:
    @craton.step
    def first(numbers: pa.Table, *, factor: int = 2) -> pa.Table:
        return numbers

    @craton.step(map_over="first", partitions=2)
    def second(first: pa.Table, numbers: pa.Table) -> pa.Table:
        return first

    @craton.expect(action="warn")
    def checked(second: pa.Table) -> str:
        return "a < b & c"

    pipeline = Pipeline([first, second, checked], sources={"numbers": pa.table({"n": [1, 2]})})
    root = ElementTree.fromstring(pipeline.draw(str(tmp_path / "graph.svg")).text)
    texts = [one.text for one in root.iter() if one.tag.endswith("text")]
    assert {"numbers", "first", "second", "checked", "factor=2", "for each part of first", "warns"} <= set(texts)
    assert len([one for one in root.iter() if one.tag.endswith("path") and one.get("marker-end")]) == 4
    with pytest.raises(ValueError, match=r"written as \.svg or \.png"):
        pipeline.draw("graph.gif")
    if "cairosvg" not in sys.modules:
        with pytest.raises(ImportError, match="needs the library cairosvg"):
            pipeline.draw(str(tmp_path / "graph.png"))
    with pytest.warns(craton.pipeline.ExpectationWarning):
        result = pipeline.run(store=store, in_process=True)
    root = ElementTree.fromstring(result.draw().text)
    texts = [one.text or "" for one in root.iter() if one.tag.endswith("text")]
    assert "warned" in texts
    assert any(text.startswith("2 rows") for text in texts)
    html = result._repr_html_()
    assert "<table>" in html
    assert "<svg" in html
    assert "a &lt; b &amp; c" in html
    ElementTree.fromstring(html)
    assert repr(result).startswith("<Result of 4 steps:")
    assert repr(pipeline) == "<Pipeline pipeline: numbers, first, second, checked>"
    assert pipeline._repr_html_() == pipeline.draw().text


def test_graphs_of_all_shapes_are_drawn_without_overlaps(store: Store) -> None:
    names = [f"s{number}" for number in range(15)]
    functions = []
    for place, name in enumerate(names):
        inputs = sorted({["numbers", *names[:place]][(place * step) % (place + 1)] for step in (1, 2, 5)})
        scope: dict[str, object] = {}
        exec(f"def {name}({', '.join(inputs)}): return {inputs[0]}", scope)
        functions.append(scope[name])
    root = ElementTree.fromstring(Pipeline(functions, sources={"numbers": pa.table({"n": [1]})}).draw().text)
    boxes = [
        tuple(float(one.get(key, 0)) for key in ("x", "y", "width", "height"))
        for one in root.iter()
        if one.tag.endswith("rect")
    ][1:]
    assert len(boxes) == 16
    for place, (x, y, width, height) in enumerate(boxes):
        assert x >= 0
        assert x + width <= float(root.get("width", 0))
        for other_x, other_y, *_ in boxes[:place]:
            assert abs(x - other_x) >= width or abs(y - other_y) >= height
