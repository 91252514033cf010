"""read_iceberg and to_iceberg against pandas, with tables in a local catalogue: snapshots, filters, deleted rows, concurrent writes."""

from __future__ import annotations

import datetime
import decimal
import importlib
from typing import Any

import pandas
import pytest
from support import check, same

import craton
import craton.pandas
from craton import fallbacks

catalogs: Any = pytest.importorskip("pyiceberg.catalog")
pytest.importorskip("sqlalchemy")
pytestmark = pytest.mark.filterwarnings("ignore")

ROWS = pandas.DataFrame(
    {
        "i": [3, 1, 2] * 40,
        "f": [1.5, None, -2.0] * 40,
        "s": ["x", None, "yy"] * 40,
        "b": [True, False, True] * 40,
        "flag": pandas.array([True, None, False] * 40, dtype="boolean"),
        "n": pandas.array([1, None, 3] * 40, dtype="Int64"),
        "a.b": range(120),
        "t": pandas.date_range("2020-01-01", periods=120, freq="D").as_unit("us"),
        "z": pandas.date_range("2020-01-01", periods=120, freq="D", tz="UTC").as_unit("us"),
        "day": [datetime.date(2020, 1, 1), None, datetime.date(1999, 12, 31)] * 40,
        "money": [decimal.Decimal("1.50"), None, decimal.Decimal("-3.25")] * 40,
    }
)
PARTS = [(0, 50), (40, 60), (60, 61), (61, 120)]


class Catalog:
    """A catalogue of tables in a folder; ``named`` are the parameters of ``read_iceberg`` that name it."""

    def __init__(self, folder: Any) -> None:
        properties = {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}"}
        self.named: dict[str, Any] = {"catalog_name": "local", "catalog_properties": properties}
        self.catalog = catalogs.load_catalog("local", **properties)
        self.catalog.create_namespace("shop")

    def write(self, rows: Any, name: str = "shop.sales", **named: Any) -> None:
        rows.to_iceberg(name, **self.named, **named)

    @property
    def table(self) -> Any:
        return self.catalog.load_table("shop.sales")

    def snapshots(self) -> list[int]:
        return [snapshot.snapshot_id for snapshot in self.table.metadata.snapshots]


@pytest.fixture
def shop(tmp_path: Any) -> Catalog:
    """A table that was written in four parts."""
    shop = Catalog(tmp_path)
    for start, end in PARTS:
        shop.write(ROWS.iloc[start:end], append=True)
    return shop


STEPS: dict[str, Any] = {
    "all": lambda f: (f, len(f), list(f.columns)),
    "sum": lambda f: (f["i"].sum(), f["a.b"].max()),
    "filter": lambda f: (g := f[f["i"] > 1], len(g), g["f"].sum(), g.head(4), g.tail(3)),
    "groups": lambda f: f.groupby("s")["f"].agg(["sum", "count"]),
    "missing": lambda f: (f[["f", "n"]].isna().sum(), f["n"].sum(), f.dropna(subset=["n"])["i"].sum()),
    "dates": lambda f: (f[f["t"] > "2020-02-01"]["i"].count(), f["z"].max(), f["day"].iloc[0]),
    "changed": lambda f: f.assign(z=f["i"] * 2)["z"].max(),
}


@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
def test_programs(shop: Catalog, step: Any) -> None:
    check(lambda pd: step(pd.read_iceberg("shop.sales", **shop.named)))


ARGUMENTS: list[dict[str, Any]] = [
    {"columns": ["s", "i"]},
    {"columns": ["flag"]},
    {"row_filter": "i >= 2"},
    {"row_filter": "i >= 2 and s is null", "columns": ["f", "flag"]},
    {"row_filter": "i > 99"},
    {"columns": ["S"], "case_sensitive": False},
    {"limit": 7},
    {"scan_properties": {"a": "b"}},
]


@pytest.mark.parametrize("named", ARGUMENTS, ids=str)
def test_arguments(shop: Catalog, named: dict[str, Any]) -> None:
    def program(pd: Any) -> Any:
        frame = pd.read_iceberg("shop.sales", **shop.named, **named)
        return len(frame), frame.dtypes, frame.head(2), frame[frame.columns[0]].count(), frame

    check(program, native=None)
    for i, snapshot in enumerate(shop.snapshots()):
        frame = pandas.read_iceberg("shop.sales", **shop.named, snapshot_id=snapshot)
        assert len(frame) == sum(end - start for start, end in PARTS[: i + 1])
        check(
            lambda pd, one=snapshot: pd.read_iceberg("shop.sales", **shop.named, snapshot_id=one, **named), native=None
        )


def test_it_is_planned_and_reads_needed_columns(shop: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[tuple[str, ...]] = []
    scans = importlib.import_module("pyiceberg.table").DataScan
    original = scans.to_arrow_batch_reader

    def recording(self: Any) -> Any:
        read.append(self.selected_fields)
        return original(self)

    monkeypatch.setattr(scans, "to_arrow_batch_reader", recording)
    with craton.option_context(small_rows=0):
        fallbacks.reset()
        frame = craton.pandas.read_iceberg("shop.sales", **shop.named)
        assert len(frame) == 130
        assert not read
        assert frame[frame["i"] > 1]["f"].count() == 86
        assert [set(names) for names in read] == [{"i", "f"}]
        assert fallbacks.explain_fallbacks().empty


def test_deleted_rows(shop: Catalog) -> None:
    shop.table.delete("i == 1")
    check(
        lambda pd: (pd.read_iceberg("shop.sales", **shop.named), pd.read_iceberg("shop.sales", **shop.named)["f"].sum())
    )
    shop.table.delete("i > 0")
    check(lambda pd: pd.read_iceberg("shop.sales", **shop.named)["f"].sum())


def test_writes_do_not_change_a_lazy_frame(shop: Catalog) -> None:
    with craton.option_context(small_rows=0):
        frame = craton.pandas.read_iceberg("shop.sales", **shop.named)
        expected = pandas.read_iceberg("shop.sales", **shop.named)
        shop.write(ROWS.iloc[:1])
        shop.table.delete("i == 3")
        same(frame.groupby("s")["i"].sum(), expected.groupby("s")["i"].sum())
        same(frame, expected)
        assert len(craton.pandas.read_iceberg("shop.sales", **shop.named)) == 0


def test_columns_that_are_added_and_renamed(shop: Catalog) -> None:
    first = shop.snapshots()[0]
    with shop.table.update_schema() as update:
        update.rename_column("i", "number")
        update.add_column("later", importlib.import_module("pyiceberg.types").BooleanType())
    check(lambda pd: (f := pd.read_iceberg("shop.sales", **shop.named), f["number"].sum(), f["later"]))
    check(lambda pd: pd.read_iceberg("shop.sales", **shop.named, snapshot_id=first))


def test_a_lazy_frame_is_written(shop: Catalog) -> None:
    def program(pd: Any) -> Any:
        name = f"shop.{pd.__name__.replace('.', '_')}"
        frame = pd.read_iceberg("shop.sales", **shop.named)
        shop.write(frame[frame["i"] > 1][["i", "f", "s"]].reset_index(drop=True), name)
        shop.write(frame.head(3)[["i", "f", "s"]], name, append=True)
        return pd.read_iceberg(name, **shop.named)

    check(program, native=None)


def test_errors(shop: Catalog) -> None:
    calls: list[dict[str, Any]] = [
        {"table_identifier": "shop.nope"},
        {"columns": ["nope"]},
        {"columns": ["S"]},
        {"row_filter": "nope > 1"},
        {"row_filter": "i >"},
        {"snapshot_id": 99},
        {"columns": 3},
    ]
    for call in calls:
        named = {"table_identifier": "shop.sales", **shop.named, **call}
        with pytest.raises(Exception) as theirs:
            pandas.read_iceberg(**named)
        with craton.option_context(small_rows=0), pytest.raises(type(theirs.value)) as ours:
            craton.pandas.read_iceberg(**named)
        assert str(ours.value) == str(theirs.value)
