"""Readings of sensors in buildings: gaps, outliers, calibration, resampling, alarms and comparisons."""

# %% Imports
import numpy as np
import pandas as pd

# %% Reading
readings = pd.read_csv("readings.csv", parse_dates=["time"], dtype={"sensor": "category"})
sensors = pd.read_json("sensors.json")
calibration = pd.read_csv("calibration.csv", parse_dates=["since"])
readings.info(memory_usage=False)
print(readings.head(), sensors.head(3), calibration.head(3))
print(readings["sensor"].cat.categories.size, readings["time"].min(), readings["time"].max())

# %% Duplicates and order
print(readings.duplicated(["sensor", "time"]).sum())
readings = (
    readings.drop_duplicates(["sensor", "time"], keep="last").sort_values(["sensor", "time"]).reset_index(drop=True)
)
step = readings.groupby("sensor", observed=True)["time"].diff()
print(step.value_counts().head(3))
print(step.dt.total_seconds().div(60).describe().round(3))
readings["gap"] = step > pd.Timedelta("30min")
print(readings.groupby("sensor", observed=True)["gap"].sum().sort_values(ascending=False, kind="stable").head(5))

# %% Outliers
limits = readings.groupby("sensor", observed=True)["temperature"].quantile([0.25, 0.75]).unstack()
limits["iqr"] = limits[0.75] - limits[0.25]
print(limits.head(4).round(3))
readings = readings.merge(limits, left_on="sensor", right_index=True)
far = (
    ~readings["temperature"].between(readings[0.25] - 3 * readings["iqr"], readings[0.75] + 3 * readings["iqr"])
    & readings["temperature"].notna()
)
print(far.sum())
readings.loc[far, "temperature"] = np.nan
readings = readings.drop(columns=[0.25, 0.75, "iqr"])
readings["humidity"] = readings["humidity"].clip(lower=0, upper=100)
print(readings[["temperature", "humidity"]].isna().sum())

# %% Filling
grouped = readings.groupby("sensor", observed=True)
readings["filled"] = grouped["temperature"].ffill(limit=3)
readings["interpolated"] = grouped["temperature"].transform(lambda s: s.interpolate(limit_direction="both"))
readings["humidity"] = readings["humidity"].fillna(grouped["humidity"].transform("median"))
print(readings[["temperature", "filled", "interpolated"]].count())
print(readings[["temperature", "interpolated"]].agg(["mean", "std", "min", "max"]).round(4))

# %% Calibration
readings["sensor"] = readings["sensor"].astype(str)
readings = readings.sort_values("time", kind="stable")
calibration = calibration.sort_values(["since", "sensor"])
readings = pd.merge_asof(readings, calibration, left_on="time", right_on="since", by="sensor", direction="backward")
readings["offset"] = readings["offset"].fillna(0.0)
readings["corrected"] = readings["interpolated"] + readings["offset"]
print(readings.groupby("offset")["corrected"].agg(["count", "mean"]).round(4).head())
age = (readings["time"] - readings["since"]).dt.days
print(age.describe().round(2))

# %% Rooms
sensors["floor"] = sensors["room"].str.extract(r"(\d)\d\d").astype("Int64")
sensors["wing"] = sensors["room"].str[0]
readings = readings.merge(sensors, on="sensor", how="left", validate="m:1")
print(readings["kind"].value_counts(dropna=False))
print(readings.groupby(["wing", "floor"])[["corrected", "humidity"]].mean().round(2))
comfort = readings["corrected"].between(20, 24) & readings["humidity"].between(35, 60)
print(comfort.groupby([readings["wing"], readings["floor"]]).mean().unstack().round(3))

# %% Quarter hours
quarter = (
    readings.groupby(["sensor", pd.Grouper(key="time", freq="15min")])[["corrected", "humidity"]].mean().reset_index()
)
print(quarter.head())
wide = quarter.pivot(index="time", columns="sensor", values="corrected")
print(wide.shape)
print(wide.iloc[:3, :4].round(4))
full = pd.date_range(wide.index.min(), wide.index.max(), freq="15min")
wide = wide.reindex(full)
print(wide.isna().sum().sum(), wide.isna().all(axis=1).sum())
wide = wide.interpolate(limit=4).bfill(limit=2)
print(wide.mean(axis=1).resample("D").agg(["min", "mean", "max"]).head().round(3))

# %% Alarms
recent = wide.rolling("6h").mean()
noise = wide.rolling(24, min_periods=6).std()
alarm = (wide - recent).abs() > 3 * noise
print(int(alarm.sum().sum()))
print(alarm.sum().sort_values(ascending=False, kind="stable").head(5))
events = alarm.stack()
events = events[events].index.to_frame(index=False, name=["time", "sensor"])
print(events.groupby(events["time"].dt.hour).size().head())
per_day = events.groupby([events["time"].dt.floor("D"), "sensor"]).size().unstack(fill_value=0)
print(per_day.iloc[:3, :4])

# %% Runs of missing values
lost = wide.isna()
column = lost.columns[0]
run = (lost[column] != lost[column].shift()).cumsum()
runs = lost[column].groupby(run).agg(["first", "size"])
print(runs[runs["first"]]["size"].describe())
last_value = wide.apply(pd.Series.last_valid_index)
print(last_value.min(), wide.first_valid_index())

# %% Days and nights
daily = wide.between_time("08:00", "17:45").resample("D").mean()
nightly = wide.between_time("20:00", "05:45").resample("D").mean()
difference = (daily - nightly).mean().round(3)
print(difference.nlargest(5))
weekend = wide[wide.index.day_of_week >= 5].mean().sub(wide[wide.index.day_of_week < 5].mean())
print(weekend.describe().round(4))
correlation = wide.corr()
pairs = correlation.where(np.triu(np.ones(correlation.shape), k=1).astype(bool)).stack()
print(pairs.nlargest(3).round(4), pairs.abs().idxmin())
smooth = (
    wide[column].ewm(halflife="2h", times=wide.index).mean()
    if wide[column].notna().all()
    else wide[column].ewm(8).mean()
)
print(smooth.tail(3).round(4))
changes = wide.diff().abs().max().rename_axis("sensor").rename("largest_change")
print(changes.head(3).round(3))

# %% Energy
hourly = readings.set_index("time").groupby("kind")["power"].resample("h").mean().unstack(0)
print(hourly.head(3).round(2))
energy = hourly.fillna(0).cumsum()
print(energy.iloc[-1].round(2))
peak = hourly.idxmax()
print(peak, hourly.quantile([0.5, 0.95]).round(3))
degree = (18 - readings["corrected"]).clip(lower=0)
print(degree.groupby(readings["time"].dt.to_period("M")).sum().round(3))

# %% Writing
wide.to_parquet("quarter_hours.parquet")
readings.groupby("sensor").agg(n=("time", "count"), mean=("corrected", "mean"), kind=("kind", "last")).to_csv(
    "sensors_summary.csv"
)
