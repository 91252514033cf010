"""A session as in a notebook: thirty steps on the same data, each of which displays a result."""

from __future__ import annotations

from typing import Any

from bench.calls.registry import Given

__all__ = ["STEPS", "polars_session", "session"]

STEPS = 30


def session(q: Given) -> dict[str, str]:
    """Run the steps, and return the text of each displayed result by the number of its step."""
    pd, df = q.pd, q.df
    seen: list[Any] = [df.shape, df.dtypes, df.head(), df.isna().sum(), df[["x", "y", "n"]].describe()]
    df = df.drop_duplicates("id")
    seen.append(len(df))
    df = df.assign(x=df["x"].fillna(df["x"].median()))
    seen.append(df["x"].isna().sum())
    df["day"] = pd.to_datetime(df["ds"], format="%Y-%m-%d")
    seen.append(df["day"].min())
    df["month"] = df["day"].dt.month
    seen.append(df["month"].value_counts())
    df["weight"] = df["s"].str.extract(r"user (\d+)", expand=False).astype(int)
    seen.append(df["weight"].mean())
    kept = df[(df["n"] > -400) & (df["y"] < 60)]
    seen += [len(kept), kept["g"].nunique(), kept["y"].quantile([0.1, 0.9])]
    joined = kept.merge(q.few, on="k", how="left")
    seen += [joined.head(), joined["w"].mean()]
    joined["value"] = joined["y"] * joined["w"]
    by_name = joined.groupby("name")["value"].sum().sort_values(ascending=False)
    seen += [by_name.head(10), by_name.describe()]
    by_month = joined.groupby(["month", "g"], as_index=False).agg(rows=("id", "size"), value=("value", "mean"))
    seen += [by_month.head(), by_month.pivot_table(index="g", columns="month", values="value").head()]
    joined["share"] = joined["value"] / joined.groupby("g")["value"].transform("sum")
    seen.append(joined.nlargest(5, "share")[["id", "g", "share"]])
    daily = joined.groupby("day")["value"].sum()
    seen += [daily.tail(), daily.rolling(7).mean().tail(), daily.pct_change().abs().max()]
    seen.append(joined.groupby("g")["y"].median().head())
    seen.append(joined[["x", "y", "n", "value"]].corr())
    late = joined[joined["t"] >= pd.Timestamp("2024-07-01")]
    seen += [len(late), late["value"].sum(), late.groupby("c", observed=True)["value"].mean()]
    seen.append(pd.cut(joined["y"], [0, 5, 10, 20, 60]).value_counts())
    seen.append(joined.sort_values(["g", "value"], ascending=[True, False]).groupby("g").head(1)[["g", "value"]].head())
    texts = {str(number): f"{one:.9g}" if isinstance(one, float) else repr(one) for number, one in enumerate(seen)}
    if len(texts) < STEPS:
        raise AssertionError(f"{len(texts)} steps")
    return texts


def polars_session(pl: Any, df: Any, few: Any, many: Any) -> dict[str, str]:
    """The same questions as users of Polars ask them in a notebook: on eager frames. Missing values and ties are Polars' own."""
    df, few = df.collect(engine="streaming"), few.collect(engine="streaming")
    seen: list[Any] = [df.shape, df.schema, df.head(), df.null_count(), df[["x", "y", "n"]].describe()]
    df = df.unique("id", keep="first", maintain_order=True)
    seen.append(len(df))
    df = df.with_columns(x=pl.col("x").fill_null(df["x"].median()))
    seen.append(df["x"].null_count())
    df = df.with_columns(day=pl.col("ds").str.to_datetime("%Y-%m-%d"))
    seen.append(df["day"].min())
    df = df.with_columns(month=pl.col("day").dt.month())
    seen.append(df["month"].value_counts(sort=True))
    df = df.with_columns(weight=pl.col("s").str.extract(r"user (\d+)").cast(pl.Int64))
    seen.append(df["weight"].mean())
    kept = df.filter((pl.col("n") > -400) & (pl.col("y") < 60))
    seen += [len(kept), kept["g"].n_unique(), [kept["y"].quantile(share, "linear") for share in (0.1, 0.9)]]
    joined = kept.join(few, on="k", how="left", maintain_order="left")
    seen += [joined.head(), joined["w"].mean()]
    joined = joined.with_columns(value=pl.col("y") * pl.col("w"))
    by_name = joined.group_by("name").agg(pl.col("value").sum()).sort("value", descending=True)
    seen += [by_name.head(10), by_name["value"].describe()]
    by_month = joined.group_by("month", "g").agg(rows=pl.len(), value=pl.col("value").mean()).sort("month", "g")
    seen += [by_month.head(), by_month.pivot("month", index="g", values="value", sort_columns=True).head()]
    joined = joined.with_columns(share=pl.col("value") / pl.col("value").sum().over("g"))
    seen.append(joined.top_k(5, by="share")[["id", "g", "share"]])
    daily = joined.group_by("day").agg(pl.col("value").sum()).sort("day")
    seen += [
        daily.tail(),
        daily["value"].rolling_mean(7).tail(),
        daily["value"].pct_change().abs().max(),
    ]
    seen.append(joined.group_by("g").agg(pl.col("y").median()).sort("g").head())
    seen.append(joined[["x", "y", "n", "value"]].corr())
    late = joined.filter(pl.col("t") >= pl.datetime(2024, 7, 1))
    seen += [len(late), late["value"].sum(), late.group_by("c").agg(pl.col("value").mean()).sort("c")]
    seen.append(joined["y"].cut([0, 5, 10, 20, 60]).value_counts(sort=True))
    first = joined.sort(["g", "value"], descending=[False, True]).group_by("g", maintain_order=True).head(1)
    seen.append(first[["g", "value"]].head())
    return {str(number): repr(one) for number, one in enumerate(seen)}
