"""The data of the benchmark: a log of events with columns of all common dtypes, and two tables that calls join to it."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pandas as pd

__all__ = ["FOLDER", "frames", "make"]

FOLDER = Path(__file__).resolve().parents[2] / "build" / "calls"
KEYS = 1_000
SEED = 20
_MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]


def frames(rows: int) -> dict[str, pd.DataFrame]:
    """Generate the frames, by name.

    Parameters
    ----------
    rows : int
        The number of rows of the large frame, ``df``. ``few`` has 1,000 rows, and ``many`` a tenth of those of ``df``.
    """
    rng = np.random.default_rng(SEED)
    days = np.datetime64("2023-01-01") + rng.integers(0, 730, rows).astype("timedelta64[D]")
    seconds = np.sort(rng.integers(0, 2 * 365 * 86_400, rows))
    numbers = rng.integers(0, rows, rows)
    x = rng.normal(size=rows)
    x[rng.random(rows) < 0.05] = np.nan
    names = np.array([f"g{i:02}" for i in range(100)])
    df = pd.DataFrame(
        {
            "id": rng.permutation(rows),
            "k": rng.integers(0, KEYS, rows),
            "g": pd.Series(names[rng.integers(0, 100, rows)], dtype="str"),
            "c": pd.Categorical.from_codes(rng.integers(0, 12, rows), categories=_MONTHS),
            "x": x,
            "y": rng.exponential(10.0, rows),
            "n": rng.integers(-500, 500, rows),
            "t": np.datetime64("2023-01-01T00:00:00", "us") + seconds.astype("timedelta64[s]"),
            "d": days.astype("datetime64[us]"),
            "ds": pd.Series(days.astype(str), dtype="str"),
            "s": pd.Series([f"user {number % 5000} kg" for number in numbers], dtype="str"),
            "b": rng.random(rows) < 0.3,
        }
    )
    few = pd.DataFrame(
        {
            "k": rng.permutation(KEYS),
            "name": pd.Series([f"key {i}" for i in range(KEYS)], dtype="str"),
            "w": rng.random(KEYS),
        }
    )
    chosen = rng.choice(rows, max(rows // 10, 1), replace=False)
    many = pd.DataFrame({"id": chosen, "k": rng.integers(0, KEYS, len(chosen)), "v": rng.random(len(chosen))})
    return {"df": df, "few": few, "many": many}


def make(rows: int, folder: Path | None = None) -> Path:
    """Write the frames as Parquet files unless these exist, and return their folder."""
    target = folder or FOLDER / f"rows-{rows}-seed-{SEED}"
    if not target.exists():
        scratch = target.with_name(target.name + ".part")
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir(parents=True)
        for name, frame in frames(rows).items():
            frame.to_parquet(scratch / f"{name}.parquet", index=False)
        scratch.rename(target)
    return target
