"""Texts are copied from the kernel's layout to pandas': all lengths, missing ones, slices, and several buffers."""

from __future__ import annotations

import threading

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from craton import _native
from craton.pandas.core import array_conversion
from craton.pandas.core.array_conversion import large_texts

ROWS = 70_001


@pytest.fixture(autouse=True)
def _few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(array_conversion, "_FEWEST_KEPT", 0)


def texts(seed: int, longest: int, missing: float) -> list[str | None]:
    rng = np.random.default_rng(seed)
    alphabet = np.array(list("aß€😀 \0x"))
    lengths = rng.integers(0, longest + 1, ROWS)
    gone = rng.random(ROWS) < missing
    letters = alphabet[rng.integers(0, len(alphabet), 50)]
    return [None if lost else "".join(letters[:length]) for length, lost in zip(lengths, gone, strict=True)]


def check(chunked: pa.ChunkedArray) -> None:
    found = large_texts(chunked)
    found.validate(full=True)
    assert found.type == pa.large_string()
    assert found.equals(chunked.cast(pa.large_string()))
    assert found.null_count == chunked.null_count


@pytest.mark.parametrize("longest", [0, 3, 12, 13, 40])
@pytest.mark.parametrize("missing", [0.0, 0.3, 1.0])
def test_all_lengths(longest: int, missing: float) -> None:
    made = texts(longest, longest, missing)
    views = pa.chunked_array(pl.Series(made, dtype=pl.String).to_arrow(compat_level=pl.CompatLevel.newest()))
    check(views)
    check(pa.chunked_array([pa.array(made, pa.string_view())]))


@pytest.mark.parametrize("start", [0, 1, 7, 8, 64, 65_536, ROWS - 1, ROWS])
def test_slices_and_several_chunks(start: int) -> None:
    views = pa.array(texts(5, 30, 0.2), pa.string_view())
    whole = pa.chunked_array([views])
    check(whole.slice(start))
    check(whole.slice(start, 9))
    check(pa.chunked_array([views.slice(start, 100), views.slice(3, 50), views.slice(0, 0)]))
    check(pa.chunked_array([], pa.string_view()))


def test_texts_of_many_buffers() -> None:
    parts = [pl.Series([f"{number} {'long ' * (row % 9)}{row}" for row in range(5000)]) for number in range(20)]
    joined = pl.concat(parts).filter(pl.Series(np.arange(100_000) % 3 > 0))
    check(pa.chunked_array(joined.to_arrow(compat_level=pl.CompatLevel.newest())))


def test_other_layouts() -> None:
    check(pa.chunked_array([pa.array(["a", None, "ccc"])]))
    check(pa.chunked_array([pa.array(["a", None, "ccc"], pa.large_string())]))


def test_several_threads() -> None:
    views = pa.chunked_array([pa.array(texts(9, 25, 0.1), pa.string_view())])
    expected = views.cast(pa.large_string())
    found: list[bool] = []
    threads = [threading.Thread(target=lambda: found.append(large_texts(views).equals(expected))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 6


def test_wrong_lengths() -> None:
    views, offsets, out = np.zeros(32, np.uint8), np.zeros(3, np.int64), np.zeros(0, np.uint8)
    assert _native.offsets_of_texts(views, None, offsets) == 0
    _native.copy_texts(views, [], offsets, out)
    for given in ((views[:31], None, offsets), (views, np.zeros(0, np.uint8), offsets), (views, None, offsets[:2])):
        with pytest.raises(ValueError):
            _native.offsets_of_texts(*given)
    for wrong in ((views, [], offsets[:2], out), (views, [], np.array([0, 5, 3]), np.zeros(3, np.uint8))):
        with pytest.raises(ValueError, match="offsets are not those"):
            _native.copy_texts(*wrong)
    views[0] = 20
    with pytest.raises(ValueError, match="in no buffer"):
        _native.copy_texts(views, [], np.array([0, 20, 20]), np.zeros(20, np.uint8))
