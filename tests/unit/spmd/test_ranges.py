"""The ranges of rows that are to be sorted on several ranks, against a sort of all rows with the bounds between them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from craton.spmd.frames.hashing import ranks_and_rounds, ranks_by_hash
from craton.spmd.frames.ranges import in_ranges

RANKS = 4
KINDS = ["int64", "uint8", "float64", "float32", "bool", "datetime64[s]", "timedelta64[ns]", "uint64", "int8"]


def column(chance: np.random.Generator, kind: str, rows: int) -> pd.Series:
    values = chance.integers(0, 2 if kind == "bool" else chance.choice([3, 100]), rows)
    made = pd.Series(values).astype(kind)
    if np.dtype(kind).kind in "mMf":
        made[chance.random(rows) < chance.choice([0, 0.2, 1])] = None
    if np.dtype(kind).kind == "f":
        made[chance.random(rows) < 0.1] = chance.choice([np.inf, -np.inf, -0.0])
    if kind == "uint64":
        made += np.uint64(2**63 - 1)
    return made


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("up", [True, False])
@pytest.mark.parametrize("position", ["first", "last"])
def test_rows_are_in_the_ranges_of_a_stable_sort(kind: str, up: bool, position: str) -> None:
    chance = np.random.default_rng(KINDS.index(kind))
    for _ in range(8):
        whole = pd.DataFrame({"k": column(chance, kind, int(chance.integers(1, 60)))})
        whole["rank"] = np.sort(chance.integers(0, RANKS, len(whole)))
        whole["place"] = range(len(whole))
        chosen = whole.sample(int(chance.integers(0, min(7, len(whole)) + 1)), random_state=int(chance.integers(99)))
        order = {"ascending": up, "na_position": position, "kind": "stable"}
        bounds = chosen.sort_values("place").sort_values("k", **order)
        found = []
        for rank in range(RANKS):
            own = whole[whole["rank"] == rank]
            ranges = in_ranges(own[["k"]], bounds[["k"]], bounds["rank"].to_numpy(), rank, up, position == "last")
            assert ranges is not None
            rows, starts = ranges
            assert len(starts) == len(bounds) + 2
            assert starts[-1] == len(own)
            found.append([own.iloc[rows[starts[i] : starts[i + 1]]] for i in range(len(bounds) + 1)])
        parts = [pd.concat([of_rank[i] for of_rank in found]).sort_values("k", **order) for i in range(len(bounds) + 1)]
        pd.testing.assert_frame_equal(pd.concat(parts), whole.sort_values("k", **order))


def test_other_keys_are_left_to_a_sort() -> None:
    texts = pd.DataFrame({"k": ["a", "b"]})
    assert in_ranges(texts, texts[:1], np.zeros(1, int), 0, True, True) is None
    two = pd.DataFrame({"k": [1, 2], "l": [1, 2]})
    assert in_ranges(two, two[:1], np.zeros(1, int), 0, True, True) is None
    nullable = pd.DataFrame({"k": pd.array([1, None], dtype="Int64")})
    assert in_ranges(nullable, nullable[:1], np.zeros(1, int), 0, True, True) is None


def test_the_rank_of_a_row_does_not_depend_on_the_rounds() -> None:
    frame = pd.DataFrame({"k": np.arange(2000)})
    for size in (2, 7, 70_000):
        for rounds in (1, 3):
            numbers = ranks_and_rounds(frame, ["k"], size, rounds)
            assert (numbers % size == ranks_by_hash(frame, ["k"], size)).all()
            assert len(np.bincount(numbers, minlength=size * rounds)) == size * rounds
