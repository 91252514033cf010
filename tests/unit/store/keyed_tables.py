"""Tables with two keys, a text with gaps and a number, which tests save as sets."""

from __future__ import annotations

import numpy as np
import pandas


def keyed_table(rows: int, seed: int, keys: int, others: int) -> pandas.DataFrame:
    """A table with ``keys`` different values of ``k``, and ``others`` of ``p``."""
    rng = np.random.default_rng(seed)
    return pandas.DataFrame(
        {
            "k": rng.integers(0, keys, rows),
            "p": rng.integers(0, others, rows),
            "s": pandas.Series(rng.choice(["a", "bb", "ccc"], rows), dtype="str").mask(rng.random(rows) < 0.1),
            "x": rng.integers(-40, 40, rows) / 4,
        }
    )
