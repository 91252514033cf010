"""Writes the generated files of a notebook."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl

__all__ = ["Files", "some_missing", "texts", "write"]

Files = dict[str, "pd.DataFrame | list[str]"]
"""The contents of files by their names: a table, or lines of text."""


def some_missing(rng: np.random.Generator, values: Any, share: float) -> pd.Series:
    """Return values of which some are missing."""
    series = pd.Series(values)
    return series.where(rng.random(len(series)) >= share)


def texts(values: Any) -> pd.Series:
    """Return a Series of the dtype str."""
    return pd.Series(values, dtype="str")


def write(files: Files, folder: Path) -> None:
    """Write files in the formats of their suffixes."""
    for name, content in files.items():
        path = folder / name
        if isinstance(content, list):
            path.write_text("\n".join(content) + "\n", encoding="utf-8")
        elif path.suffix == ".parquet":
            content.to_parquet(path, index=False)
        elif path.suffix == ".csv":
            pl.from_pandas(content).write_csv(path, datetime_format="%Y-%m-%d %H:%M:%S")
        elif path.suffix == ".jsonl":
            pl.from_pandas(content).write_ndjson(path)
        else:
            content.to_json(path, orient="records")
