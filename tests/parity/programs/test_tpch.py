"""The 22 TPC-H queries, written as plain pandas, give exactly the same results under Craton."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

import craton
import craton.pandas
from craton.demo import data
from craton.demo.compare import difference, materialise
from craton.demo.queries import QUERIES

SCALE = 0.01


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return data.ensure(SCALE, tmp_path_factory.mktemp("tpch"))


@pytest.mark.parametrize("small_rows", [0, 100_000], ids=["engine", "small-data-path"])
@pytest.mark.parametrize("name", QUERIES)
def test_query_equals_pandas(name: str, small_rows: int, folder: Path) -> None:
    expected = QUERIES[name](pd, str(folder))
    assert len(expected) > 0
    with craton.option_context(small_rows=small_rows):
        result = QUERIES[name](craton.pandas, str(folder))
        assert isinstance(result, craton.pandas.DataFrame)
        assert difference(expected, materialise(result)) is None
