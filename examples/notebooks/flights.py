"""Flights of a year from three airports: delays by carrier, destination, hour, weather and aircraft."""

# %% Imports
import numpy as np
import pandas as pd

# %% Reading
flights = pd.read_csv("flights.csv")
airlines = pd.read_csv("airlines.csv")
airports = pd.read_csv("airports.csv")
planes = pd.read_csv("planes.csv")
weather = pd.read_csv("weather.csv")
print(flights.shape)
print(flights.head())
print(flights.dtypes)
print(flights.isna().sum())

# %% Dates and times
flights["date"] = pd.to_datetime(flights[["year", "month", "day"]])
flights["dep_hour"] = flights["dep_time"] // 100
flights["dep_minute"] = flights["dep_time"] % 100
flights["sched_hour"] = flights["sched_dep_time"] // 100
flights["weekday"] = flights["date"].dt.day_name()
flights["weekend"] = flights["date"].dt.day_of_week >= 5
print(flights[["date", "dep_hour", "dep_minute", "weekday"]].head(8))

# %% Cancelled flights
cancelled = flights[flights["dep_time"].isna()]
print(len(cancelled), round(len(cancelled) / len(flights), 4))
by_month = flights.groupby("month")["dep_time"].agg(lambda s: s.isna().mean())
print(by_month.round(4))
print(cancelled.groupby(["origin", "month"]).size().unstack(fill_value=0))
flown = flights.dropna(subset=["dep_time", "arr_delay"]).copy()
print(len(flown))

# %% Speed and gained time
flown["gain"] = flown["dep_delay"] - flown["arr_delay"]
flown["speed"] = flown["distance"] / flown["air_time"] * 60
flown["gain_per_hour"] = flown["gain"] / (flown["air_time"] / 60)
print(flown[["gain", "speed", "gain_per_hour"]].describe().round(3))
print(flown.loc[flown["speed"].idxmax(), ["carrier", "flight", "origin", "dest", "speed"]])
flown["on_time"] = np.where(flown["arr_delay"] <= 15, "on time", "late")
print(flown["on_time"].value_counts(normalize=True).round(3))

# %% Carriers
by_carrier = (
    flown.groupby("carrier")
    .agg(
        flights=("flight", "size"),
        mean_delay=("arr_delay", "mean"),
        median_delay=("arr_delay", "median"),
        worst=("arr_delay", "max"),
        destinations=("dest", "nunique"),
        planes=("tailnum", "nunique"),
    )
    .reset_index()
    .merge(airlines, on="carrier", how="left")
    .sort_values("mean_delay", ascending=False)
)
print(by_carrier.head(10))
print(by_carrier.loc[by_carrier["flights"] > by_carrier["flights"].median(), ["name", "mean_delay"]])

# %% Destinations
named = flown.merge(airports, left_on="dest", right_on="faa", how="left", suffixes=("", "_airport"))
print(named["name"].isna().sum())
named["name"] = named["name"].fillna("unknown")
popular = named.groupby(["dest", "name"])["arr_delay"].agg(["count", "mean", "std"])
popular = popular[popular["count"] > popular["count"].quantile(0.5)].sort_values("mean")
print(popular.head(10).round(2))
print(named.loc[named["alt"] > 5000, "dest"].unique())
far_north = named.query("lat > 45 and distance > 1000")
print(len(far_north), far_north["distance"].mean())

# %% Ranks within an airport
ranked = flown.groupby(["origin", "dest"], as_index=False)["arr_delay"].mean()
ranked["rank"] = ranked.groupby("origin")["arr_delay"].rank(ascending=False, method="min")
print(ranked[ranked["rank"] <= 3].sort_values(["origin", "rank"]))
top = flown["dest"].value_counts().head(10)
print(top)
to_top = flown[flown["dest"].isin(top.index)]
print(to_top.pivot_table(index="dest", columns="origin", values="arr_delay", aggfunc="mean").round(1))

# %% Hours and months
bands = pd.cut(
    flown["sched_hour"], [0, 6, 12, 18, 24], right=False, labels=["night", "morning", "afternoon", "evening"]
)
print(flown.groupby(bands, observed=False)["dep_delay"].agg(["size", "mean"]).round(2))
print(pd.crosstab(bands, flown["weekday"], normalize="columns").round(3))
hourly = flown.groupby(["month", "sched_hour"])["dep_delay"].mean().unstack("month")
print(hourly.round(1).iloc[:, :6])
daily = flown.groupby("date").agg(flights=("flight", "count"), delay=("arr_delay", "mean"))
daily["week_mean"] = daily["delay"].rolling(7).mean()
daily["change"] = daily["flights"].diff()
print(daily.head(10).round(2))
print(daily["delay"].nlargest(5).round(2))
print(daily.resample("ME").agg({"flights": "sum", "delay": "mean"}).round(2))

# %% Weather
weather["time_hour"] = pd.to_datetime(weather["time_hour"])
flown["time_hour"] = flown["date"] + pd.to_timedelta(flown["sched_hour"], unit="h")
with_weather = flown.merge(
    weather[["origin", "time_hour", "wind_speed", "precip", "visib"]], on=["origin", "time_hour"], how="left"
)
print(with_weather[["wind_speed", "precip", "visib"]].isna().mean().round(4))
with_weather["rain"] = with_weather["precip"].fillna(0) > 0
print(with_weather.groupby("rain")["dep_delay"].describe().round(2))
print(with_weather[["dep_delay", "wind_speed", "precip", "visib"]].corr().round(4))
with_weather["wind"] = pd.qcut(with_weather["wind_speed"], 4, labels=False)
print(with_weather.groupby("wind")["dep_delay"].mean().round(3))

# %% Aircraft
aged = flown.merge(planes, on="tailnum", how="inner", suffixes=("", "_built"))
aged["age"] = aged["year"] - aged["year_built"]
print(aged.groupby("age")["arr_delay"].mean().head(10).round(2))
print(aged["manufacturer"].str.title().value_counts().head(5))
without = flown[~flown["tailnum"].isin(planes["tailnum"])]
print(len(without), without["carrier"].mode().iloc[0])
seats = aged.drop_duplicates("tailnum").groupby("carrier")["seats"].sum().sort_values(ascending=False, kind="stable")
print(seats.head())

# %% The same aircraft during a day
ordered = flown.sort_values(["tailnum", "time_hour", "flight"])
ordered["previous_delay"] = ordered.groupby(["tailnum", "date"])["arr_delay"].shift()
print(ordered[["previous_delay", "dep_delay"]].corr().round(4))
ordered["leg"] = ordered.groupby(["tailnum", "date"]).cumcount() + 1
print(ordered.groupby("leg")["dep_delay"].agg(["size", "mean"]).head(6).round(2))

# %% Writing
summary = flown.groupby(["origin", "dest", "carrier", "month"], as_index=False).agg(
    flights=("flight", "size"), delay=("arr_delay", "mean"), late=("arr_delay", lambda s: (s > 15).sum())
)
print(summary.tail())
summary.to_csv("summary.csv", index=False)
with_weather.drop(columns=["year", "month", "day"]).to_parquet("flights_with_weather.parquet")
