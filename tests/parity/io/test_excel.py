"""read_excel and to_excel against pandas, where openpyxl is installed; read_html of several tables."""

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
