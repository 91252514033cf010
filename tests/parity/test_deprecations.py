"""Deprecated parameters: pandas' warnings, once, at the line of the user's program."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas
import pytest
from support import to_craton

import craton


@pytest.mark.parametrize("inplace", [True, False])
@pytest.mark.parametrize("method", ["dropna", "drop_duplicates", "reset_index", "rename", "sort_index"])
@pytest.mark.parametrize("small", [0, 1000])
def test_deprecated_parameters_warn_at_the_users_line(method, inplace, small):
    frames = pandas.DataFrame({"a": [1.0, 1.0, np.nan]})
    for frame in (frames, frames["a"]):
        if method == "reset_index" and frame.ndim == 1 and inplace:
            continue  # a Series cannot become a frame
        arguments = [{"a": "b"}] if method == "rename" else []
        with craton.option_context(small_rows=small), pytest.warns(pandas.errors.Pandas4Warning) as caught:
            getattr(to_craton(frame.copy()), method)(*arguments, inplace=inplace)
        assert [Path(one.filename).name for one in caught] == [Path(__file__).name]
