"""Taxi trips: cleaning, fares and tips by zone, hour and payment, and flows between boroughs."""

# %% Imports
import numpy as np
import pandas as pd

# %% Reading
trips = pd.read_parquet("trips.parquet")
zones = pd.read_csv("zones.csv", index_col="LocationID")
trips.info(memory_usage=False)
print(trips.sample(5, random_state=1))
print(trips.describe().round(2))

# %% Cleaning
trips = trips.rename(columns={"tpep_pickup_datetime": "pickup", "tpep_dropoff_datetime": "dropoff"})
trips.columns = trips.columns.str.lower()
n = len(trips)
trips = trips.drop_duplicates()
print("duplicates:", n - len(trips))
trips["passenger_count"] = trips["passenger_count"].fillna(1).astype(int)
trips = trips[(trips["fare_amount"] > 0) & (trips["trip_distance"] > 0)]
trips = trips[trips["pickup"].between("2023-01-01", "2023-03-31 23:59:59")]
trips["minutes"] = (trips["dropoff"] - trips["pickup"]).dt.total_seconds() / 60
trips = trips.loc[(trips["minutes"] > 1) & (trips["minutes"] < 180)].reset_index(drop=True)
print(len(trips), round(trips["minutes"].mean(), 6))
low, high = trips["fare_amount"].quantile([0.001, 0.999])
print(low, high)
trips["fare_amount"] = trips["fare_amount"].clip(low, high)

# %% New columns
payments = {1: "card", 2: "cash", 3: "no charge", 4: "dispute"}
trips["payment"] = trips["payment_type"].map(payments).astype("category")
trips["hour"] = trips["pickup"].dt.hour
trips["day"] = trips["pickup"].dt.day_of_week
trips["date"] = trips["pickup"].dt.normalize()
trips["mph"] = trips["trip_distance"] / (trips["minutes"] / 60)
trips["mph"] = trips["mph"].where(trips["mph"] < 80)
trips["tip_share"] = (trips["tip_amount"] / trips["fare_amount"]).replace([np.inf, -np.inf], np.nan)
trips.loc[trips["payment"] == "cash", "tip_share"] = np.nan
print(trips[["payment", "hour", "mph", "tip_share"]].head(10))
print(trips.isna().sum()[lambda s: s > 0])

# %% Zones
trips = trips.join(zones[["Borough", "Zone"]], on="pulocationid")
trips = trips.merge(
    zones[["Borough", "Zone"]], left_on="dolocationid", right_index=True, how="left", suffixes=("_from", "_to")
)
print(trips[["Borough_from", "Borough_to", "Zone_from", "Zone_to"]].head())
print(trips["Borough_from"].value_counts(dropna=False))
flows = trips.pivot_table(
    index="Borough_from", columns="Borough_to", values="total_amount", aggfunc="count", fill_value=0
)
print(flows)
print(flows.div(flows.sum(axis=1), axis=0).round(3))
busiest = trips.groupby(["Zone_from", "Zone_to"]).size().sort_values(ascending=False, kind="stable").head(10)
print(busiest)

# %% Hours
by_hour = trips.groupby("hour").agg(
    trips=("fare_amount", "size"),
    fare=("fare_amount", "mean"),
    speed=("mph", "median"),
    tip=("tip_share", "mean"),
    riders=("passenger_count", "sum"),
)
print(by_hour.round(3))
print(by_hour["trips"].idxmax(), by_hour["speed"].idxmin())
week = trips.groupby(["day", "hour"])["mph"].mean().unstack("hour")
week.index = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]
print(week.iloc[:, [0, 6, 12, 18]].round(2))
rush = trips["hour"].isin([7, 8, 9, 16, 17, 18]) & (trips["day"] < 5)
print(trips.groupby(rush.rename("rush"))[["mph", "minutes", "fare_amount"]].mean().round(3))

# %% Days
daily = trips.set_index("pickup").resample("D")["total_amount"].agg(["sum", "count", "mean"])
print(daily.head().round(2))
daily["trend"] = daily["count"].rolling(7, min_periods=3).mean()
daily["vs_last_week"] = daily["count"] / daily["count"].shift(7) - 1
print(daily.tail(5).round(4))
print(daily["sum"].cumsum().round(2).iloc[-1])
print(daily.loc["2023-02"].mean().round(3))
half_hours = trips.groupby(pd.Grouper(key="pickup", freq="30min")).size()
print(half_hours.nlargest(3), half_hours.eq(0).sum())

# %% Tips
card = trips.query("payment == 'card' and tip_share < 1")
print(card["tip_share"].quantile([0.05, 0.25, 0.5, 0.75, 0.95]).round(4))
distance = pd.cut(card["trip_distance"], [0, 1, 2, 5, 10, np.inf], labels=["<1", "1-2", "2-5", "5-10", ">10"])
print(card.groupby(distance, observed=False)["tip_share"].agg(["mean", "std", "count"]).round(4))
tips = card.groupby("Borough_from")["tip_share"].transform("mean")
above = card[card["tip_share"] > tips]
print(len(above), round(above["tip_amount"].sum(), 2))
print(card[["trip_distance", "minutes", "fare_amount", "tip_amount", "total_amount"]].corr(method="pearson").round(3))
generous = card.nlargest(5, "tip_amount")[["Zone_from", "Zone_to", "tip_amount", "total_amount"]]
print(generous)
print(card.groupby("passenger_count")["tip_share"].apply(lambda s: s.sort_values().iloc[len(s) // 2]).round(4))

# %% Shifts of zones
zone_day = trips.groupby(["Zone_from", "date"], as_index=False).agg(n=("hour", "size"), money=("total_amount", "sum"))
zone_day = zone_day.sort_values(["Zone_from", "date"])
zone_day["change"] = zone_day.groupby("Zone_from")["n"].diff()
zone_day["share"] = zone_day["money"] / zone_day.groupby("date")["money"].transform("sum")
zone_day["best"] = zone_day.groupby("Zone_from")["money"].cummax()
print(zone_day.loc[zone_day["change"].abs() > zone_day["change"].std() * 3].head())
print(zone_day.loc[zone_day.groupby("date")["share"].idxmax(), ["date", "Zone_from", "share"]].head())

# %% Writing
trips["payment"] = trips["payment"].cat.add_categories("other").fillna("other")
print(trips["payment"].value_counts())
trips.drop(columns=["payment_type", "date"]).to_parquet("clean_trips.parquet", index=False)
by_hour.round(6).to_csv("by_hour.csv")
