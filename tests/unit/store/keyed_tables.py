"""Tables which tests save as sets: with two keys, a text with gaps and a number, or with columns of many dtypes."""

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


def table_of_dtypes(count: int, seed: int) -> pandas.DataFrame:
    """Columns of many dtypes with few different values in a page, in runs, so that pages differ."""
    rng = np.random.default_rng(seed)
    runs = np.repeat(rng.integers(0, 40, count // 16 + 1), 16)[:count]
    noise = rng.integers(0, 3, count)
    number = runs * 5 % 37 + noise
    gaps = (rng.random(count) < 0.1) | (runs % 11 == 0)
    base = pandas.Timestamp("2024-02-28 23:59:59.5")
    times = pandas.Series(base + pandas.to_timedelta(number, unit="h"))
    return pandas.DataFrame(
        {
            "int8": (number - 20).astype(np.int8),
            "int64": number.astype(np.int64) * 2**52 + 1,
            "uint64": (number.astype(np.uint64) << np.uint64(57)) + np.uint64(1),
            "float64": np.where(gaps, np.nan, (number - 18) / 4),
            "zeros": np.where(runs % 2, -0.0, 0.0) + np.where(noise == 1, 0.0, -0.0),
            "float32": np.where(gaps, np.nan, number / 10).astype(np.float32),
            "bool": runs % 3 == 0,
            "text": pandas.Series([f"t{value}" for value in number], dtype="str").mask(gaps),
            "long": pandas.Series(["x" * 70 + str(value % 2) for value in number], dtype="str"),
            "time": times.mask(gaps),
            "zone": times.dt.tz_localize("Europe/Berlin", nonexistent="shift_forward", ambiguous=True).mask(gaps),
            "duration": pandas.to_timedelta(number, unit="min"),
            "masked": pandas.array(number, dtype="Int64"),
            "flags": pandas.Series(runs % 2 == 0, dtype="boolean").mask(gaps),
            "category": pandas.Categorical([f"c{value}" for value in number]).set_categories(
                [f"c{value}" for value in range(50)][::-1], ordered=True
            ),
            "numbers": pandas.Categorical(number),
        }
    )
