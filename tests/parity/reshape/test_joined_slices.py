"""Tables that a program takes apart by rows and puts together again."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pandas
import pytest
from support import check, check_sources

from craton.pandas.core.execute import planned
from craton.pandas.core.lazy import view
from craton.plan.operators import Union
from craton.plan.stages import optimize
from craton.plan.visit import topological

ROWS = 57
FRAME = pandas.DataFrame(
    {
        "x": np.arange(ROWS) * 1.5,
        "k": np.arange(ROWS) % 4,
        "s": [None if i % 5 == 0 else f"text {i % 7}" for i in range(ROWS)],
    }
)

#: Bounds of the slices, each from a row to a row.
BOUNDS: dict[str, list[tuple[int | None, int | None]]] = {
    "neighbours": [(0, 10), (10, 20), (20, 40), (40, 57)],
    "to the end": [(0, 10), (10, None)],
    "beyond the end": [(0, 50), (50, 60), (60, 70)],
    "all beyond the end": [(60, 70), (70, 80)],
    "with a gap": [(0, 10), (11, 20), (20, 21)],
    "twice": [(0, 10), (0, 10), (10, 20)],
    "overlapping": [(0, 10), (9, 20)],
    "in reverse": [(20, 40), (0, 20)],
    "empty": [(5, 5), (5, 9), (9, 9), (9, 12)],
    "from the end": [(-10, -5), (-5, None)],
    "to the end, and more": [(0, None), (57, 60)],
    "after the end": [(0, 20), (20, None), (None, 3)],
}


@pytest.mark.parametrize("label", [None, "s", "x"])
@pytest.mark.parametrize("name", BOUNDS)
def test_slices(name: str, label: str | None, tmp_path: Any) -> None:
    def program(pd: Any, df: Any) -> Any:
        held = df[df["k"] != 9]
        if label is not None:
            held = held.set_index(label, drop=False)
        before = held["x"].sum()
        parts = [held.iloc[start:stop] for start, stop in BOUNDS[name]]
        changed = [part.assign(y=part["x"] * 2) for part in parts]
        cumulated = [part.assign(y=part["x"].cumsum()) for part in parts]
        numbered = pd.concat(changed, ignore_index=True)
        total = numbered["y"].sum()
        held["x"] = 0.0
        return pd.concat(parts), pd.concat(changed), pd.concat(cumulated), numbered, total, before, held["x"].sum()

    check_sources(program, FRAME, tmp_path)


def test_random_bounds() -> None:
    generator = np.random.default_rng(8)
    for _ in range(30):
        cuts = sorted(generator.integers(0, ROWS + 9, generator.integers(2, 9)).tolist())
        bounds = list(itertools.pairwise(cuts))
        if generator.random() < 0.4:
            generator.shuffle(bounds)

        def program(pd: Any, df: Any, bounds: Any = bounds) -> Any:
            made = pd.concat([df.iloc[start:stop] for start, stop in bounds])
            return made, made["x"].sum(), made["s"].value_counts(), len(made)

        check(program, FRAME, native=None)


def test_one_slice_remains() -> None:
    def program(pd: Any, df: Any) -> Any:
        made = pd.concat([df.iloc[i : i + 3] for i in range(0, 30, 3)])
        if pd is not pandas:
            operators = topological(optimize(planned(view(made))))
            assert not any(isinstance(op, Union) for op in operators)
        return made

    check(program, FRAME)
