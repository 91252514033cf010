"""Calls over values: strings, dates, windows, cells and files."""

from __future__ import annotations

from typing import Any

from bench.calls.registry import Family, Given

__all__ = ["CELLS", "DATES", "STRINGS", "WINDOWS"]

STRINGS = Family("strings")
_add = STRINGS.add
_add("upper", lambda q: q.df["s"].str.upper(), lambda pl, df, few, many: df.select(pl.col("s").str.to_uppercase()))
_add(
    "contains",
    lambda q: q.df["s"].str.contains("12", regex=False),
    lambda pl, df, few, many: df.select(pl.col("s").str.contains("12", literal=True)),
)
_add(
    "contains, regex",
    lambda q: q.df["s"].str.contains(r"\d{4} kg"),
    lambda pl, df, few, many: df.select(pl.col("s").str.contains(r"\d{4} kg")),
)
_add(
    "startswith",
    lambda q: q.df[q.df["s"].str.startswith("user 1")],
    lambda pl, df, few, many: df.filter(pl.col("s").str.starts_with("user 1")),
)
_add(
    "replace",
    lambda q: q.df["s"].str.replace(" kg", "", regex=False),
    lambda pl, df, few, many: df.select(pl.col("s").str.replace_all(" kg", "", literal=True)),
)
_add(
    "replace, regex",
    lambda q: q.df["s"].str.replace(r"\s+", "_", regex=True),
    lambda pl, df, few, many: df.select(pl.col("s").str.replace_all(r"\s+", "_")),
)
_add("slice", lambda q: q.df["s"].str[5:8], lambda pl, df, few, many: df.select(pl.col("s").str.slice(5, 3)))
_add("len", lambda q: q.df["s"].str.len(), lambda pl, df, few, many: df.select(pl.col("s").str.len_chars()))
_add(
    "split, expand",
    lambda q: q.df["s"].str.split(" ", expand=True),
    lambda pl, df, few, many: df.select(pl.col("s").str.split_exact(" ", 2)).unnest("s"),
)
_add(
    "extract",
    lambda q: q.df["s"].str.extract(r"user (\d+)"),
    lambda pl, df, few, many: df.select(pl.col("s").str.extract(r"user (\d+)")),
)
_add(
    "strip",
    lambda q: q.df["s"].str.strip("gk "),
    lambda pl, df, few, many: df.select(pl.col("s").str.strip_chars("gk ")),
)
_add(
    "number in a text",
    lambda q: q.df["s"].str.replace("user ", "").str.replace(" kg", "").astype(int),
    lambda pl, df, few, many: df.select(pl.col("s").str.replace("user ", "").str.replace(" kg", "").cast(pl.Int64)),
)
_add(
    "joined",
    lambda q: q.df["g"] + "-" + q.df["s"],
    lambda pl, df, few, many: df.select(pl.col("g") + "-" + pl.col("s")),
)
_add("zfill", lambda q: q.df["g"].str.zfill(6), lambda pl, df, few, many: df.select(pl.col("g").str.zfill(6)))
_add(
    "numbers to text", lambda q: q.df["n"].astype(str), lambda pl, df, few, many: df.select(pl.col("n").cast(pl.String))
)

DATES = Family("dates")
_add = DATES.add
_add("year", lambda q: q.df["t"].dt.year, lambda pl, df, few, many: df.select(pl.col("t").dt.year()))
_add(
    "day of the week",
    lambda q: q.df["t"].dt.day_of_week,
    lambda pl, df, few, many: df.select(pl.col("t").dt.weekday() - 1),
)
_add("floor", lambda q: q.df["t"].dt.floor("h"), lambda pl, df, few, many: df.select(pl.col("t").dt.truncate("1h")))
_add(
    "normalize", lambda q: q.df["t"].dt.normalize(), lambda pl, df, few, many: df.select(pl.col("t").dt.truncate("1d"))
)
_add(
    "difference",
    lambda q: (q.df["t"] - q.df["d"]).dt.days,
    lambda pl, df, few, many: df.select((pl.col("t") - pl.col("d")).dt.total_days()),
)
_add(
    "total_seconds",
    lambda q: (q.df["t"] - q.df["t"].min()).dt.total_seconds(),
    lambda pl, df, few, many: df.select((pl.col("t") - pl.col("t").min()).dt.total_seconds()),
)
_add(
    "to_datetime",
    lambda q: q.pd.to_datetime(q.df["ds"]),
    lambda pl, df, few, many: df.select(pl.col("ds").str.to_datetime()),
)
_add(
    "to_datetime, format",
    lambda q: q.pd.to_datetime(q.df["ds"], format="%Y-%m-%d"),
    lambda pl, df, few, many: df.select(pl.col("ds").str.to_datetime("%Y-%m-%d")),
)
_add(
    "strftime",
    lambda q: q.df["t"].dt.strftime("%Y-%m"),
    lambda pl, df, few, many: df.select(pl.col("t").dt.strftime("%Y-%m")),
)
_add(
    "tz_localize, tz_convert",
    lambda q: q.df["t"].dt.tz_localize("UTC").dt.tz_convert("America/New_York"),
    lambda pl, df, few, many: df.select(
        pl.col("t").dt.replace_time_zone("UTC").dt.convert_time_zone("America/New_York")
    ),
)
_add(
    "plus days",
    lambda q: q.df["d"] + q.pd.Timedelta(days=30),
    lambda pl, df, few, many: df.select(pl.col("d").dt.offset_by("30d")),
)
_add(
    "plus months",
    lambda q: q.df["d"] + q.pd.DateOffset(months=1),
    lambda pl, df, few, many: df.select(pl.col("d").dt.offset_by("1mo")),
)
_add(
    "resample",
    lambda q: q.df.set_index("t")["y"].resample("h").mean(),
    lambda pl, df, few, many: df.group_by_dynamic("t", every="1h").agg(pl.col("y").mean()),
)
_add(
    "rows of a month",
    lambda q: q.df.set_index("t").loc["2023-07"],
    lambda pl, df, few, many: df.filter((pl.col("t").dt.year() == 2023) & (pl.col("t").dt.month() == 7)),
)
_add(
    "text of days",
    lambda q: q.df["d"].dt.day_name(),
    lambda pl, df, few, many: df.select(pl.col("d").dt.strftime("%A")),
)

WINDOWS = Family("windows")
_add = WINDOWS.add
_add("shift", lambda q: q.df["y"].shift(), lambda pl, df, few, many: df.select(pl.col("y").shift()))
_add("diff", lambda q: q.df["y"].diff(), lambda pl, df, few, many: df.select(pl.col("y").diff()))
_add("pct_change", lambda q: q.df["y"].pct_change(), lambda pl, df, few, many: df.select(pl.col("y").pct_change()))
_add("cumsum", lambda q: q.df["y"].cumsum(), lambda pl, df, few, many: df.select(pl.col("y").cum_sum()))
_add("cummax", lambda q: q.df["y"].cummax(), lambda pl, df, few, many: df.select(pl.col("y").cum_max()))
_add(
    "ffill", lambda q: q.df["x"].ffill(), lambda pl, df, few, many: df.select(pl.col("x").fill_nan(None).forward_fill())
)
_add(
    "interpolate",
    lambda q: q.df["x"].interpolate(),
    lambda pl, df, few, many: df.select(pl.col("x").fill_nan(None).interpolate()),
)
_add(
    "rolling mean",
    lambda q: q.df["y"].rolling(30).mean(),
    lambda pl, df, few, many: df.select(pl.col("y").rolling_mean(30)),
)
_add(
    "rolling std",
    lambda q: q.df["y"].rolling(30).std(),
    lambda pl, df, few, many: df.select(pl.col("y").rolling_std(30)),
)
_add(
    "rolling median",
    lambda q: q.df["y"].rolling(15).median(),
    lambda pl, df, few, many: df.select(pl.col("y").rolling_median(15)),
)
_add(
    "rolling by time",
    lambda q: q.df.set_index("t")["y"].rolling("1h").sum(),
    lambda pl, df, few, many: df.select(pl.col("y").rolling_sum_by("t", "1h")),
)
_add(
    "expanding",
    lambda q: q.df["y"].expanding().mean(),
    lambda pl, df, few, many: df.select(pl.col("y").cum_sum() / pl.int_range(1, pl.len() + 1)),
)
_add("ewm", lambda q: q.df["y"].ewm(span=20).mean(), lambda pl, df, few, many: df.select(pl.col("y").ewm_mean(span=20)))
_add(
    "several shifts",
    lambda q: q.pd.concat({f"lag{i}": q.df["y"].shift(i) for i in range(1, 6)}, axis=1),
    lambda pl, df, few, many: df.select(pl.col("y").shift(i).alias(f"lag{i}") for i in range(1, 6)),
)

CELLS = Family("cells and files")
_add = CELLS.add


def _set_column(q: Given) -> Any:
    changed = q.df.copy()
    changed["e"] = changed["y"] * 2
    return changed


def _set_where(q: Given) -> Any:
    changed = q.df[["x", "n"]].copy()
    changed.loc[changed["n"] < 0, "x"] = 0.0
    return changed


def _write(q: Given, method: str, **options: Any) -> Any:
    path = f"{q.folder}/written"
    getattr(q.df, method)(path, index=False, **options)
    return None


_add("fillna", lambda q: q.df["x"].fillna(0.0), lambda pl, df, few, many: df.select(pl.col("x").fill_nan(0.0)))
_add(
    "fillna of the mean",
    lambda q: q.df["x"].fillna(q.df["x"].mean()),
    lambda pl, df, few, many: df.select(pl.col("x").fill_nan(None).fill_null(strategy="mean")),
)
_add(
    "replace",
    lambda q: q.df["g"].replace({"g01": "one", "g02": "two"}),
    lambda pl, df, few, many: df.select(pl.col("g").replace({"g01": "one", "g02": "two"})),
)
_add(
    "map of a dict",
    lambda q: q.df["n"].map(dict.fromkeys(range(-500, 500), 1.5)),
    lambda pl, df, few, many: df.select(pl.col("n").replace_strict(dict.fromkeys(range(-500, 500), 1.5))),
)
_add("map of a function", lambda q: q.df["n"].map(lambda value: value * 2 + 1))
_add("apply by rows", lambda q: q.df[["x", "y"]].head(20_000).apply(lambda row: row["x"] + row["y"], axis=1))
_add("set a column", _set_column, lambda pl, df, few, many: df.with_columns(e=pl.col("y") * 2))
_add(
    "set where", _set_where, lambda pl, df, few, many: df.select(pl.when(pl.col("n") < 0).then(0.0).otherwise("x"), "n")
)
_add(
    "to category",
    lambda q: q.df["g"].astype("category"),
    lambda pl, df, few, many: df.select(pl.col("g").cast(pl.Categorical)),
)
_add("to int32", lambda q: q.df["n"].astype("int32"), lambda pl, df, few, many: df.select(pl.col("n").cast(pl.Int32)))
_add(
    "to_numpy",
    lambda q: q.df[["x", "y"]].to_numpy(),
    lambda pl, df, few, many: df.select("x", "y").collect().to_numpy(),
)
_add("itertuples", lambda q: sum(row.n for row in q.df.head(50_000).itertuples()))
_add("to_dict", lambda q: len(q.df.head(10_000).to_dict("records")))
_add(
    "duplicated",
    lambda q: q.df.duplicated(["k", "g"]).sum(),
    lambda pl, df, few, many: df.select((~pl.struct("k", "g").is_first_distinct()).sum()),
)
_add("factorize", lambda q: q.pd.factorize(q.df["g"])[0])
_add("print", lambda q: repr(q.df), lambda pl, df, few, many: repr(df.collect()))
_add("to_csv", lambda q: _write(q, "to_csv"), lambda pl, df, few, many: df.collect().write_csv("/dev/null"))
_add("to_parquet", lambda q: _write(q, "to_parquet"))
