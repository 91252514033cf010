"""A sales report over a folder of Parquet files: totals by region and month, best customers, and late deliveries."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

MONTHS = 6
ORDERS_A_MONTH = 400


def write_orders(folder: Path) -> None:
    """Write one file of orders per month, and one file of customers."""
    random = np.random.default_rng(7)
    folder.joinpath("orders").mkdir()
    for month in range(1, MONTHS + 1):
        days = random.integers(0, 28, ORDERS_A_MONTH)
        ordered = pd.Timestamp(2024, month, 1) + pd.to_timedelta(days, unit="D")
        orders = pd.DataFrame(
            {
                "order": np.arange(ORDERS_A_MONTH) + month * 10_000,
                "customer": random.integers(0, 60, ORDERS_A_MONTH),
                "ordered": ordered,
                "promised": ordered + pd.to_timedelta(random.integers(2, 9, ORDERS_A_MONTH), unit="D"),
                "delivered": ordered + pd.to_timedelta(random.integers(1, 12, ORDERS_A_MONTH), unit="D"),
                "cents": random.integers(500, 90_000, ORDERS_A_MONTH),
                "returned": random.random(ORDERS_A_MONTH) < 0.05,
            }
        )
        orders.to_parquet(folder / "orders" / f"2024-{month:02}.parquet", index=False)
    customers = pd.DataFrame(
        {
            "customer": np.arange(60),
            "name": [f"Customer {number:02}" for number in range(60)],
            "region": random.choice(["North", "East", "South", "West"], 60),
        }
    )
    customers.to_parquet(folder / "customers.parquet", index=False)


def report(folder: Path) -> None:
    """Read the files and print three tables."""
    orders = pd.read_parquet(folder / "orders")
    customers = pd.read_parquet(folder / "customers.parquet")

    kept = orders[~orders["returned"]].merge(customers, on="customer", how="left", validate="m:1")
    kept["month"] = kept["ordered"].dt.month
    totals = kept.pivot_table(index="region", columns="month", values="cents", aggfunc="sum")
    print("Sales by region and month, in cents")
    print(totals, end="\n\n")

    best = (
        kept.groupby(["customer", "name"], as_index=False)
        .agg(orders=("order", "count"), cents=("cents", "sum"), last=("ordered", "max"))
        .sort_values(["cents", "customer"], ascending=[False, True])
        .head(5)
    )
    print("Best customers")
    print(best, end="\n\n")

    kept["late"] = kept["delivered"] > kept["promised"]
    late = kept.groupby("region")["late"].agg(["sum", "size"])
    late["share"] = (late["sum"] / late["size"]).round(3)
    print("Late deliveries")
    print(late)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        write_orders(Path(folder))
        report(Path(folder))


if __name__ == "__main__":
    main()
