"""read_excel and to_excel against pandas, where openpyxl is installed; to_excel into open writers."""

from __future__ import annotations

from typing import Any

import pandas
import pytest
from support import case_id, check

import craton
import craton.pandas as cp

ROWS = pandas.DataFrame({"i": [3, 1, 2] * 20, "f": [1.5, None, -2.0] * 20, "s": ["x", None, "yy"] * 20})


@pytest.mark.parametrize(
    "named",
    [
        {},
        {"sheet_name": None},
        {"sheet_name": [0, "two"]},
        {"sheet_name": "two", "index_col": 0},
        {"usecols": "A:B"},
        {"usecols": ["i", "s"]},
        {"skiprows": [1, 2]},
        {"nrows": 5},
        {"dtype": {"i": "float64"}},
        {"na_values": ["x"]},
        {"dtype_backend": "pyarrow"},
        {"sheet_name": "nope"},
    ],
    ids=case_id,
)
def test_sheets(tmp_path: Any, named: dict[str, Any]) -> None:
    pytest.importorskip("openpyxl")

    def program(pd: Any) -> Any:
        ROWS.to_parquet(tmp_path / "x.parquet")
        frame = pd.read_parquet(tmp_path / "x.parquet")
        with pd.ExcelWriter(tmp_path / "x.xlsx") as writer:
            frame.to_excel(writer, sheet_name="one", index=False)
            frame[frame["i"] > 1].to_excel(writer, sheet_name="two", index=False)
        read = pd.read_excel(tmp_path / "x.xlsx", **named)
        every = list(read.values()) if isinstance(read, dict) else [read]
        return [(each, len(each), each.isna().sum().sum()) for each in every], sorted(map(str, read))

    check(program, native=None)


def test_every_sheet_has_cratons_class(tmp_path: Any) -> None:
    pytest.importorskip("openpyxl")
    ROWS.to_excel(tmp_path / "x.xlsx")
    with craton.option_context(small_rows=0):
        assert all(
            type(frame) is cp.DataFrame for frame in cp.read_excel(tmp_path / "x.xlsx", sheet_name=None).values()
        )


class _Cells(pandas.ExcelWriter):
    """A writer that keeps the cells in memory, so that the test needs no other library."""

    _engine = "cells"
    _supported_extensions = (".cells",)
    written: list[tuple[str, Any]]

    def __init__(self, path: Any, engine: Any = None, **_: Any) -> None:
        self.written = []
        super().__init__(path, engine="cells")

    @property
    def book(self) -> Any:
        return self.written

    @property
    def sheets(self) -> dict[str, Any]:
        return {}

    def _write_cells(self, cells: Any, sheet_name: Any = None, *_: Any, **__: Any) -> None:
        self.written.extend((sheet_name, cell.val) for cell in cells)

    def _save(self) -> None: ...


@pytest.mark.parametrize("small_rows", [0, 1000])
def test_an_open_writer_is_not_a_path(tmp_path: Any, small_rows: int) -> None:
    """``ExcelWriter`` is path-like, but several frames are written into one open file."""
    pandas.io.excel._util.register_writer(_Cells)
    ROWS.to_parquet(tmp_path / "x.parquet")
    found = []
    for pd in (pandas, cp):
        with craton.option_context(small_rows=small_rows), _Cells(tmp_path / "x.cells") as writer:
            frame = pd.read_parquet(tmp_path / "x.parquet")
            frame[frame["i"] > 2].to_excel(writer, sheet_name="one", index=False)
            frame["f"].to_excel(writer, sheet_name="two")
            found.append(list(map(str, writer.written)))
    assert found[1] == found[0]
    assert found[0]
