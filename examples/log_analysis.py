"""Analysis of a web server's log in CSV: traffic by hour, slowest pages, failing clients, and sessions."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

LINES = 3_000
PAGES = ["/", "/login", "/search?q=lamp", "/search?q=desk", "/item/17", "/item/23", "/cart", "/static/site.css"]


def write_log(path: Path) -> None:
    """Write the requests of one day as CSV, with some missing values."""
    random = np.random.default_rng(11)
    seconds = np.sort(random.integers(0, 86_400, LINES))
    status = random.choice([200, 200, 200, 304, 404, 500], LINES)
    with path.open("w", encoding="utf-8") as file:
        file.write("time,client,method,url,status,milliseconds,referrer\n")
        for second, code in zip(seconds, status, strict=True):
            client = f"10.0.{random.integers(0, 3)}.{random.integers(1, 20)}"
            method = random.choice(["GET", "GET", "POST"])
            took = "" if code == 304 else f"{random.gamma(2.0, 40.0):.1f}"
            referrer = random.choice(["", "https://shop.example/", "https://search.example/?q=lamp"])
            moment = pd.Timestamp("2024-03-09") + pd.Timedelta(seconds=int(second))
            file.write(f"{moment.isoformat()},{client},{method},{random.choice(PAGES)},{code},{took},{referrer}\n")


def analyse(path: Path) -> None:
    """Read the log, and print four tables about it."""
    log = pd.read_csv(path, parse_dates=["time"], dtype={"status": "int16"})
    log = log[~log["url"].str.startswith("/static/")]

    hourly = (
        log.assign(hour=log["time"].dt.hour)
        .groupby("hour")
        .agg(requests=("url", "size"), clients=("client", "nunique"))
    )
    print("The busiest hours")
    print(hourly.sort_values("requests", ascending=False, kind="stable").head(3), end="\n\n")

    pages = log["url"].str.split("?").str[0]
    slow = log.groupby(pages)["milliseconds"].agg(["count", "median", "max"]).sort_values("max", ascending=False)
    print("The slowest pages")
    print(slow.head(4), end="\n\n")

    failed = log[log["status"] >= 400]
    print("Failures by status and method")
    print(failed.groupby(["status", "method"]).size().unstack(fill_value=0), end="\n\n")
    print("The clients with the most failures")
    print(failed["client"].value_counts(sort=True).nlargest(3), end="\n\n")

    ordered = log.sort_values(["client", "time"], kind="stable")
    pause = ordered.groupby("client")["time"].diff()
    ordered["session"] = (pause.isna() | (pause > pd.Timedelta(minutes=30))).astype("int64")
    sessions = ordered.groupby("client")["session"].sum()
    print("Sessions per client")
    print(sessions.describe().round(2))


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "access.csv"
        write_log(path)
        analyse(path)


if __name__ == "__main__":
    main()
