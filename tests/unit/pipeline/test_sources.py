"""Sources: what steps take of them is what pandas would read, and files are decoded once."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import craton
import craton.pandas
from craton.errors import SourceChanged
from craton.pipeline import CSV, Input, InvalidPipeline, NamedSet, Parquet, PipelineFailed, Query
from craton.pipeline.sources import decoding, files
from craton.pipeline.sources.selection import selected
from craton.store import Store


def frame_of(rows: int, seed: int = 0) -> pd.DataFrame:
    """Columns of many types, with missing values, NaN and -0.0."""
    rng = np.random.default_rng(seed)
    floats = rng.choice([np.nan, -0.0, 0.0, 1.5, -3.0, np.inf], rows)
    return pd.DataFrame(
        {
            "i": rng.integers(-5, 5, rows),
            "f": floats,
            "s": pd.Series(rng.choice(["a", "b", "", None], rows), dtype="str"),
            "c": pd.Categorical(rng.choice(["u", "v"], rows)),
            "t": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 100, rows), "h"),
            "n": pd.array(rng.choice([1, 2, None], rows), "Int64"),
            "b": rng.random(rows) > 0.5,
        }
    )


def taken(source: Any, given: Input, store: Store, form: str = "pandas") -> Any:
    """What a step takes of a source, in a form."""

    @craton.step(inputs={"table": given}, takes=form, cache=False)  # type: ignore[call-overload]
    def same(table: Any) -> Any:
        return table

    return craton.Pipeline([same], sources={"table": source}).run(store=store, in_process=True)["same"]


CONDITIONS = [
    ("i > 0", lambda f: f["i"] > 0),
    ("f > 0", lambda f: f["f"] > 0),
    ("f != 1.5", lambda f: (f["f"] != 1.5) & f["f"].notna()),
    ("f == 0", lambda f: f["f"] == 0),
    ("-3 < i <= 2 and b", lambda f: (f["i"] > -3) & (f["i"] <= 2) & f["b"]),
    ("s == 'a' or i < -4", lambda f: (f["s"] == "a") | (f["i"] < -4)),
    ("s in ('a', '') and not b", lambda f: f["s"].isin(["a", ""]) & ~f["b"]),
    ("i * 2 - 1 >= f", lambda f: f["i"] * 2 - 1 >= f["f"]),
    ([("i", ">", 1), ("s", "==", "b")], lambda f: (f["i"] > 1) & (f["s"] == "b")),
    ([[("i", ">", 3)], [("c", "==", "u")]], lambda f: (f["i"] > 3) | (f["c"] == "u")),
    (pc.field("t") > pd.Timestamp("2024-01-03"), lambda f: f["t"] > pd.Timestamp("2024-01-03")),
    ("t >= '2024-01-03'", lambda f: f["t"] >= pd.Timestamp("2024-01-03")),
    ("n == 2", lambda f: (f["n"] == 2).fillna(False)),
    ("i > 100", lambda f: f["i"] > 100),
]


@pytest.mark.parametrize(("where", "mask"), CONDITIONS, ids=[str(one[0]) for one in CONDITIONS])
@pytest.mark.parametrize("group", [7, 1000], ids=["many groups", "one group"])
def test_rows_and_columns_of_parquet_are_those_of_pandas(
    where: Any, mask: Any, group: int, store: Store, tmp_path: Path
) -> None:
    frame = frame_of(60)
    frame.index = pd.Index(np.arange(60) * 3, name="label")
    path = tmp_path / "table.parquet"
    frame.to_parquet(path, row_group_size=group)
    whole = pd.read_parquet(path)
    pd.testing.assert_frame_equal(taken(Parquet(path), Input(), store), whole)
    expected = whole[mask(whole)]
    for columns in (None, ["s", "i"], ["f"]):
        wanted = expected if columns is None else expected[columns]
        for _ in range(2):  # the second time from the store
            pd.testing.assert_frame_equal(taken(Parquet(path), Input(columns=columns, where=where), store), wanted)
        table = taken(Parquet(path), Input(columns=columns, where=where), store, "arrow")
        assert table.column_names == ([*whole.columns, "label"] if columns is None else columns)
        source = Parquet(path, columns, where)
        pd.testing.assert_frame_equal(taken(source, Input(), store), wanted)


@pytest.mark.parametrize(("where", "mask"), CONDITIONS, ids=[str(one[0]) for one in CONDITIONS])
def test_rows_and_columns_of_steps_are_those_of_pandas(where: Any, mask: Any, store: Store) -> None:
    frame = frame_of(50, 1)
    frame.index = pd.MultiIndex.from_arrays([np.arange(50) % 3, list("ab" * 25)], names=[None, "x"])
    frame["o"] = pd.Series([1, "a", None, 2.5, (1,)] * 10, index=frame.index, dtype=object)
    expected = frame[mask(frame)]

    @craton.step
    def made(start: Any) -> pd.DataFrame:
        return start

    @craton.step(inputs={"made": Input(where=where)})
    def rows(made: pd.DataFrame) -> pd.DataFrame:
        return made

    @craton.step(inputs={"made": Input(columns=["o", "f"], where=where)})
    def both(made: pd.DataFrame) -> pd.DataFrame:
        return made

    @craton.step(inputs={"made": ["c", "i"]})
    def columns(made: pd.DataFrame) -> pd.DataFrame:
        return made

    result = craton.Pipeline([made, rows, both, columns], sources={"start": frame}).run(store=store, in_process=True)
    pd.testing.assert_frame_equal(result["rows"], expected)
    pd.testing.assert_frame_equal(result["both"], expected[["o", "f"]])
    pd.testing.assert_frame_equal(result["columns"], frame[["c", "i"]])


def test_conditions_on_columns_that_cannot_be_compared_are_errors(store: Store) -> None:
    frame = pd.DataFrame({"o": pd.Series([1, "x", None], dtype=object)})
    with pytest.raises((TypeError, KeyError, pa.ArrowException)):
        selected(craton.pipeline.InMemory(frame)._table, "pandas", None, craton.pipeline.Input(where="o == 'x'").where)
    with pytest.raises(InvalidPipeline, match="'table' has no column 'q'"):
        taken(pd.DataFrame({"a": [1]}), Input(columns=["q"]), store)
    with pytest.raises(PipelineFailed, match="reads a column that is not there"):
        taken(pd.DataFrame({"a": [1]}), Input(where="q > 1"), store)


def test_a_program_over_several_files(store: Store, tmp_path: Path) -> None:
    parts = [frame_of(20, seed) for seed in range(3)]
    for number, part in enumerate(parts):
        part.to_parquet(tmp_path / f"part-{number}.parquet")
    (tmp_path / "_ignored").mkdir()
    parts[0].head(1).to_parquet(tmp_path / "_ignored" / "x.parquet")
    whole = pd.read_parquet([tmp_path / f"part-{number}.parquet" for number in range(3)])
    for path in (tmp_path, tmp_path / "part-*.parquet", sorted(tmp_path.glob("part*"))):
        source = Parquet(path, name="parts", form="pandas")
        pd.testing.assert_frame_equal(taken(source, Input(), store), whole)

    @craton.step(map_over="parts")
    def counted(parts: pd.DataFrame) -> pd.DataFrame:
        return pd.DataFrame({"rows": [len(parts)], "sum": [parts["i"].sum()]})

    @craton.step
    def total(counted: pd.DataFrame) -> pd.DataFrame:
        return counted.sum().to_frame().T

    source = Parquet(tmp_path / "part-*.parquet", name="parts")
    result = craton.Pipeline([counted, total, source]).run(store=store, in_process=True)
    assert result["counted"]["rows"].tolist() == [20, 20, 20]
    assert result["total"]["sum"].tolist() == [whole["i"].sum()]
    parts[1].rename(columns={"i": "j"}).to_parquet(tmp_path / "part-1.parquet")
    with pytest.raises(
        InvalidPipeline, match=r"part-1\.parquet are not those of .*part-0\.parquet: it has no column 'i'"
    ):
        craton.Pipeline([counted, total, source])


def test_bad_files_are_found_before_a_run(tmp_path: Path) -> None:
    def use(table: Any) -> Any:
        return table

    (tmp_path / "broken.parquet").write_bytes(b"PAR1 no")
    pd.DataFrame({"a": [1]}).to_parquet(tmp_path / "a.parquet")
    for source, text in [
        (Parquet(tmp_path / "none.parquet", name="table"), "there is no file .*none.parquet"),
        (Parquet(tmp_path / "x*.parquet", name="table"), "there are no .parquet files"),
        (Parquet(tmp_path / "broken.parquet", name="table"), "a file cannot be read"),
        (Parquet(tmp_path / "a.parquet", ["b"], name="table"), "has no column 'b'; it has a"),
        (Parquet(tmp_path / "a.parquet", where="b > 1", name="table"), "reads a column that is not there"),
        (Parquet(tmp_path / "a.parquet", where="a > 'x'", name="table"), "cannot be evaluated"),
    ]:
        with pytest.raises(InvalidPipeline, match=f"test_sources.py:[0-9]+: source 'table': .*{text}"):
            craton.Pipeline([use, source])


def test_csv_is_what_pandas_reads(store: Store, tmp_path: Path) -> None:
    text = "a;b;c\n1;x;2024-01-01\n2;;2024-01-02\n;y;\n"
    (tmp_path / "one.csv").write_text(text)
    (tmp_path / "two.csv").write_text(text.replace("x", "z"))
    options: dict[str, Any] = {"sep": ";", "parse_dates": ["c"], "dtype": {"a": "Int64"}}
    one = pd.read_csv(tmp_path / "one.csv", **options)
    both = pd.concat([one, pd.read_csv(tmp_path / "two.csv", **options)], ignore_index=True)
    source = CSV(tmp_path / "one.csv", **options)
    pd.testing.assert_frame_equal(taken(source, Input(), store), one)
    pd.testing.assert_frame_equal(taken(CSV(tmp_path / "*.csv", name="x", **options), Input(), store), both)
    pd.testing.assert_frame_equal(taken(source, Input(columns=["c", "a"]), store), one[["c", "a"]])
    pd.testing.assert_frame_equal(taken(source, Input(where="b == 'x'"), store), one[one["b"] == "x"])
    with pytest.raises(InvalidPipeline, match="has no column 'd'"):
        taken(source, Input(columns=["d"]), store)
    with pytest.raises(TypeError, match="no option usecols"):
        CSV(tmp_path / "one.csv", usecols=["a"])


def test_queries_and_tables_in_memory(store: Store) -> None:
    frame = craton.pandas.DataFrame({"a": np.arange(200_000) % 7, "b": np.arange(200_000) / 3, "c": "x"})
    lazy = frame[frame["a"] > 3].groupby("a", as_index=False)["b"].sum()
    calls = []

    def plan() -> Any:
        calls.append(1)
        return frame[frame["a"] > 3][["a", "b"]]

    expected = pd.DataFrame(lazy)
    pd.testing.assert_frame_equal(pd.DataFrame(taken(Query(lazy), Input(), store)), expected)
    table = taken(Query(plan), Input(columns=["b"], where="b > 66000"), store, "arrow")
    assert table.drop_columns("__index_level_0__").column_names == ["b"]  # and the labels of the rows
    assert table.num_rows == sum(1 for n in range(200_000) if n % 7 > 3 and n / 3 > 66000)
    assert calls == [1]
    polars = taken(pl.DataFrame({"x": [1, None]}), Input(), store, "polars")
    assert polars.equals(pl.DataFrame({"x": [1, None]}))
    array = taken(np.arange(6).reshape(2, 3), Input(), store, "numpy")
    np.testing.assert_array_equal(array, np.arange(6).reshape(2, 3))
    with pytest.raises(TypeError, match="a source was given"):
        craton.Pipeline([], sources={"x": 3})


def test_a_named_set_is_kept_and_read_again(store: Store) -> None:
    @craton.step(persist="kept sums")
    def sums(numbers: pd.DataFrame) -> pd.DataFrame:
        return numbers.groupby("k", as_index=False).sum()

    numbers = pd.DataFrame({"k": [1, 1, 2], "x": [0.5, 0.25, 4.0]})
    craton.Pipeline([sums], sources={"numbers": numbers}).run(store=store, in_process=True)
    assert store.get_set("kept sums").to_arrow()["x"].to_pylist() == [0.75, 4.0]

    @craton.step
    def doubled(earlier: pd.DataFrame) -> pd.DataFrame:
        return earlier * 2

    pipeline = craton.Pipeline([doubled, NamedSet("kept sums", name="earlier")])
    result = pipeline.run(store=store, in_process=True)
    assert result["doubled"]["x"].tolist() == [1.5, 8.0]
    assert pipeline.run(store=store, in_process=True).steps.loc["doubled", "state"] == "cached"
    craton.Pipeline([sums], sources={"numbers": numbers * 10}).run(store=store, in_process=True)
    assert pipeline.run(store=store, in_process=True)["doubled"]["x"].tolist() == [15.0, 80.0]
    with pytest.raises(PipelineFailed, match=r"source at .* cannot be read: no set named 'nothing'"):
        craton.Pipeline([doubled, NamedSet("nothing", name="earlier")]).run(store=store, in_process=True)


def test_a_file_is_decoded_once_for_all_pipelines(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "numbers.parquet"
    pd.DataFrame({"a": np.arange(50_000), "b": np.arange(50_000) / 2, "c": "text"}).to_parquet(
        path, row_group_size=10_000
    )
    decoded: list[tuple[str, ...]] = []
    rows = files._rows

    def counting(file: str, names: Any, start: int, count: Any) -> pa.Table:
        decoded.append(tuple(names))
        time.sleep(0)
        return rows(file, names, start, count)

    monkeypatch.setattr(files, "_rows", counting)

    def pipeline(number: int) -> Any:
        @craton.step(inputs={"numbers": ["a", "b"] if number % 2 else ["b", "c"]}, cache=False)
        def total(numbers: pa.Table, *, times: int = number) -> pa.Table:
            return pa.table({"sum": [pc.sum(numbers["b"]).as_py() * times]})

        return craton.Pipeline([total, Parquet(path)])

    made: dict[int, Any] = {}

    def run(number: int) -> None:
        made[number] = pipeline(number).run(store=store, in_process=True)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    total = sum(n / 2 for n in range(50_000))
    assert [made[number]["total"]["sum"].to_pylist() for number in range(6)] == [
        [total * number] for number in range(6)
    ]
    assert sorted(name for names in decoded for name in names) == ["a", "b", "c"]
    later = pipeline(1).run(store=store, in_process=True)
    assert len(decoded) <= 3
    assert later.bytes_shared >= 50_000 * 16
    (source,) = (one for one in later.records.values() if one.kind == "source")
    assert (source.new, source.copied) == (0, 0)


def test_a_file_that_does_not_fit_is_read_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "large.parquet"
    frame = pd.DataFrame({"a": np.arange(300_000), "b": np.random.default_rng(0).random(300_000)})
    frame.to_parquet(path, row_group_size=50_000)
    monkeypatch.setattr(files, "MOST_OF_LIMIT", 0.001)
    with Store.open(1 << 28, directory=tmp_path) as store:
        pd.testing.assert_frame_equal(taken(Parquet(path), Input(), store), frame)
        some = taken(Parquet(path), Input(columns=["b"], where="a >= 299_998"), store)
        pd.testing.assert_frame_equal(
            some, frame.loc[frame["a"] >= 299_998, ["b"]].reset_index(drop=True), check_index_type=False
        )


def test_a_changed_file_is_read_again_and_noticed(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "numbers.parquet"
    pd.DataFrame({"a": [1, 2]}).to_parquet(path)

    @craton.step
    def total(numbers: pd.DataFrame) -> pd.DataFrame:
        return numbers.sum().to_frame("sum")

    pipeline = craton.Pipeline([total, Parquet(path)])
    assert pipeline.run(store=store, in_process=True)["total"]["sum"].tolist() == [3]
    pd.DataFrame({"a": [1, 2, 4]}).to_parquet(path)
    assert pipeline.run(store=store, in_process=True)["total"]["sum"].tolist() == [7]
    pd.DataFrame({"a": [1, 2, 4, 8]}).to_parquet(path)
    rows = files._rows

    def overwriting(file: str, names: Any, start: int, count: Any) -> pa.Table:
        found = rows(file, names, start, count)
        pd.DataFrame({"a": [100]}).to_parquet(path)
        return found

    monkeypatch.setattr(files, "_rows", overwriting)
    with pytest.raises(PipelineFailed) as caught:
        pipeline.run(store=store, in_process=True)
    (error,) = caught.value.errors.values()
    assert isinstance(error.__cause__, SourceChanged)


def test_files_with_labels_types_and_no_rows(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "table.parquet"
    for frame in (
        frame_of(0),
        frame_of(3).set_index("s"),
        pd.DataFrame({"x": []}),
        pd.DataFrame(index=pd.RangeIndex(3)),
    ):
        frame.to_parquet(path)
        pd.testing.assert_frame_equal(taken(Parquet(path), Input(), store), pd.read_parquet(path))
    decimals = pa.table({"d": pa.array([None, 1], pa.decimal128(9, 2)), "l": [[1], None], "z": [{"a": 1}, {"a": None}]})
    pq.write_table(decimals, path)
    assert taken(Parquet(path), Input(), store, "arrow").equals(decimals)
    assert taken(Parquet(path), Input(columns=["z", "d"], where="0.5 < d < 2"), store, "arrow").to_pylist() == [
        {"z": {"a": None}, "d": 1}
    ]


def test_locks_of_other_processes_are_released(store: Store) -> None:
    store.serve()
    with decoding._locked_for_others(store, "a"), decoding._locked_for_others(store, "b"):
        pass
    with decoding._locked_for_others(store, "a"):
        pass
