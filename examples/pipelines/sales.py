"""Yesterday's sales: a pipeline of three steps and a check. Run it with ``python -m craton run sales.py --param day=2024-05-01``.

It reads all CSV files of the folder `sales`, which have the columns time, shop, article and cents.
"""

from __future__ import annotations

import pandas as pd

import craton
from craton.pipeline import CSV

sales = CSV("sales", parse_dates=["time"])


@craton.step(map_over="sales")
def cleaned(sales: pd.DataFrame) -> pd.DataFrame:
    """Drop lines without a price, one file at a time."""
    return sales.dropna(subset=["cents"]).astype({"cents": "int64"})


@craton.step
def of_day(cleaned: pd.DataFrame, *, day: str) -> pd.DataFrame:
    """Take the lines of one day."""
    return cleaned[cleaned["time"].dt.normalize() == pd.Timestamp(day)]


@craton.step(to_parquet="reports/shops.parquet", retries=1)
def shops(of_day: pd.DataFrame) -> pd.DataFrame:
    """Sum up the day, by shop."""
    return of_day.groupby("shop", as_index=False).agg(lines=("cents", "size"), cents=("cents", "sum"))


@craton.expect
def every_shop_has_sold(shops: pd.DataFrame, cleaned: pd.DataFrame) -> str | bool:
    """Refuse a day on which a shop is missing: its file has not arrived."""
    missing = set(cleaned["shop"]) - set(shops["shop"])
    return f"no sales of {', '.join(sorted(missing))}" if missing else True
