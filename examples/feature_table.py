"""A table of features for a churn model: one row per user, from profiles, events and invoices."""

from __future__ import annotations

import numpy as np
import pandas as pd

USERS = 300
EVENTS = 4_000
TODAY = pd.Timestamp("2024-07-01")


def tables() -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Generate the three tables: profiles, events, invoices."""
    random = np.random.default_rng(3)
    profiles = pd.DataFrame(
        {
            "user": np.arange(USERS),
            "plan": pd.Categorical(random.choice(["free", "team", "pro"], USERS), ["free", "team", "pro"]),
            "age": np.where(random.random(USERS) < 0.1, np.nan, random.integers(18, 80, USERS)),
            "joined": TODAY - pd.to_timedelta(random.integers(30, 900, USERS), unit="D"),
        }
    )
    events = pd.DataFrame(
        {
            "user": random.integers(0, USERS, EVENTS),
            "kind": random.choice(["open", "edit", "share", "error"], EVENTS, p=[0.5, 0.3, 0.1, 0.1]),
            "at": TODAY - pd.to_timedelta(random.integers(0, 90 * 24, EVENTS), unit="h"),
        }
    )
    invoices = pd.DataFrame(
        {
            "user": random.choice(USERS, 500),
            "cents": random.integers(900, 20_000, 500),
            "paid": random.random(500) < 0.9,
        }
    )
    return profiles, events, invoices


def features(profiles: pd.DataFrame, events: pd.DataFrame, invoices: pd.DataFrame) -> pd.DataFrame:
    """Compute one row per user. Missing values are filled, and categories are encoded as numbers."""
    kinds = events.groupby(["user", "kind"]).size().unstack(fill_value=0).add_prefix("n_").reset_index()
    last = events.groupby("user", as_index=False).agg(last=("at", "max"), total=("at", "size"))
    paid = invoices[invoices["paid"]].groupby("user", as_index=False)["cents"].sum()
    open_invoices = invoices.loc[~invoices["paid"], "user"].unique()

    table = (
        profiles.merge(kinds, on="user", how="left")
        .merge(last, on="user", how="left")
        .merge(paid, on="user", how="left")
    )
    counts = [name for name in table.columns if name.startswith("n_")] + ["total", "cents"]
    table[counts] = table[counts].fillna(0).astype("int64")
    table["age"] = table["age"].fillna(table["age"].median())
    table["days_joined"] = (TODAY - table["joined"]).dt.days
    table["days_silent"] = (TODAY - table["last"]).dt.days.fillna(999).astype("int64")
    table["owes"] = table["user"].isin(open_invoices)
    table["rank"] = table["cents"].rank(method="min", ascending=False).astype("int64")
    table = pd.get_dummies(table, columns=["plan"])
    return table.drop(columns=["joined", "last"]).set_index("user").sort_index()


def main() -> None:
    table = features(*tables())
    print(table.dtypes, end="\n\n")
    print(table.head(8).to_string(), end="\n\n")
    print(table.groupby("owes")[["cents", "total", "days_silent"]].median())


if __name__ == "__main__":
    main()
