"""Calls over rows: selecting, arithmetic, reductions, sorting."""

from __future__ import annotations

import numpy as np

from bench.calls.registry import Family

__all__ = ["ARITHMETIC", "REDUCTIONS", "SELECTING", "SORTING"]

SELECTING = Family("selecting")
_add = SELECTING.add
_add("compare", lambda q: q.df[q.df["n"] > 250], lambda pl, df, few, many: df.filter(pl.col("n") > 250))
_add(
    "and, or",
    lambda q: q.df[((q.df["x"] > 0) & (q.df["n"] < 0)) | ~q.df["b"]],
    lambda pl, df, few, many: df.filter(((pl.col("x") > 0) & (pl.col("n") < 0)) | ~pl.col("b")),
)
_add(
    "isin",
    lambda q: q.df[q.df["g"].isin(["g01", "g17", "g42"])],
    lambda pl, df, few, many: df.filter(pl.col("g").is_in(["g01", "g17", "g42"])),
)
_add(
    "between",
    lambda q: q.df[q.df["t"].between("2023-06-01", "2023-09-01")],
    lambda pl, df, few, many: df.filter(
        pl.col("t").is_between(pl.datetime(2023, 6, 1), pl.datetime(2023, 9, 1), closed="both")
    ),
)
_add(
    "query",
    lambda q: q.df.query("n > 0 and y < 5 and g != 'g00'"),
    lambda pl, df, few, many: df.filter((pl.col("n") > 0) & (pl.col("y") < 5) & (pl.col("g") != "g00")),
)
_add(
    "loc rows and columns",
    lambda q: q.df.loc[q.df["b"], ["id", "x", "g"]],
    lambda pl, df, few, many: df.filter(pl.col("b")).select("id", "x", "g"),
)
_add("iloc slice", lambda q: q.df.iloc[1000:-1000:3], lambda pl, df, few, many: df.slice(1000).gather_every(3))
_add("head", lambda q: q.df.head(10), lambda pl, df, few, many: df.head(10))
_add("sample", lambda q: q.df.sample(frac=0.01, random_state=3).shape)
_add("drop columns", lambda q: q.df.drop(columns=["s", "ds"]), lambda pl, df, few, many: df.drop("s", "ds"))
_add(
    "drop_duplicates",
    lambda q: q.df.drop_duplicates(["k", "g"]),
    lambda pl, df, few, many: df.unique(["k", "g"], keep="first", maintain_order=True),
)
_add(
    "dropna",
    lambda q: q.df.dropna(subset=["x"]),
    lambda pl, df, few, many: df.filter(pl.col("x").is_not_nan() & pl.col("x").is_not_null()),
)
_add("filter columns", lambda q: q.df.filter(regex="^[xyn]$"), lambda pl, df, few, many: df.select("^[xyn]$"))
_add("select_dtypes", lambda q: q.df.select_dtypes("number"))
_add("loc of a label", lambda q: [q.df.loc[i, "x"] for i in range(0, 1000, 10)])
_add("iat in a loop", lambda q: [q.df.iat[i, 4] for i in range(1000)])
_add("loc of labels", lambda q: q.df.set_index("id").loc[list(range(0, 2500, 7)), "x"])

ARITHMETIC = Family("arithmetic")
_add = ARITHMETIC.add
_add(
    "columns",
    lambda q: q.df["x"] * q.df["y"] + q.df["n"],
    lambda pl, df, few, many: df.select(pl.col("x") * pl.col("y") + pl.col("n")),
)
_add("division", lambda q: q.df["x"] / q.df["y"], lambda pl, df, few, many: df.select(pl.col("x") / pl.col("y")))
_add(
    "floor and remainder",
    lambda q: q.df["id"] // 7 + q.df["id"] % 7,
    lambda pl, df, few, many: df.select(pl.col("id") // 7 + pl.col("id") % 7),
)
_add(
    "frame by number",
    lambda q: q.df[["x", "y", "n"]] * 2.5,
    lambda pl, df, few, many: df.select(pl.col("x", "y", "n") * 2.5),
)
_add(
    "comparison, summed",
    lambda q: (q.df["y"] > 10).sum(),
    lambda pl, df, few, many: df.select((pl.col("y") > 10).sum()),
)
_add("abs, round", lambda q: q.df["x"].abs().round(2), lambda pl, df, few, many: df.select(pl.col("x").abs().round(2)))
_add("clip", lambda q: q.df["x"].clip(-1, 1), lambda pl, df, few, many: df.select(pl.col("x").clip(-1, 1)))
_add(
    "where",
    lambda q: q.df["x"].where(q.df["n"] > 0, 0.0),
    lambda pl, df, few, many: df.select(pl.when(pl.col("n") > 0).then("x").otherwise(0.0)),
)
_add("mask", lambda q: q.df["x"].mask(q.df["b"]), lambda pl, df, few, many: df.select(pl.when(~pl.col("b")).then("x")))
_add(
    "np.where",
    lambda q: np.where(q.df["n"] > 0, q.df["x"], q.df["y"]),
    lambda pl, df, few, many: df.select(pl.when(pl.col("n") > 0).then("x").otherwise("y")),
)
_add(
    "np.select",
    lambda q: np.select([q.df["n"] < -250, q.df["n"] < 250], ["low", "mid"], "high"),
    lambda pl, df, few, many: df.select(
        pl.when(pl.col("n") < -250)
        .then(pl.lit("low"))
        .when(pl.col("n") < 250)
        .then(pl.lit("mid"))
        .otherwise(pl.lit("high"))
    ),
)
_add("np.log", lambda q: np.log(q.df["y"] + 1), lambda pl, df, few, many: df.select((pl.col("y") + 1).log()))
_add(
    "assign several",
    lambda q: q.df.assign(a=q.df["x"] + 1, e=lambda d: d["a"] * 2, f=q.df["n"].abs()),
    lambda pl, df, few, many: df.with_columns(a=pl.col("x") + 1, f=pl.col("n").abs()).with_columns(e=pl.col("a") * 2),
)
_add(
    "eval",
    lambda q: q.df.eval("x * y - n"),
    lambda pl, df, few, many: df.select(pl.col("x") * pl.col("y") - pl.col("n")),
)
_add(
    "standardise",
    lambda q: (q.df["y"] - q.df["y"].mean()) / q.df["y"].std(),
    lambda pl, df, few, many: df.select((pl.col("y") - pl.col("y").mean()) / pl.col("y").std()),
)

REDUCTIONS = Family("reductions")
_add = REDUCTIONS.add
_add("sum", lambda q: q.df["x"].sum(), lambda pl, df, few, many: df.select(pl.col("x").fill_nan(None).sum()))
_add(
    "mean of all",
    lambda q: q.df.mean(numeric_only=True),
    lambda pl, df, few, many: df.select(pl.col("id", "k", "x", "y", "n", "b").mean()),
)
_add("std", lambda q: q.df["x"].std(), lambda pl, df, few, many: df.select(pl.col("x").fill_nan(None).std()))
_add("median", lambda q: q.df["y"].median(), lambda pl, df, few, many: df.select(pl.col("y").median()))
_add(
    "quantiles",
    lambda q: q.df["y"].quantile([0.05, 0.5, 0.95]),
    lambda pl, df, few, many: df.select(pl.col("y").quantile(p, "linear").alias(str(p)) for p in (0.05, 0.5, 0.95)),
)
_add(
    "describe",
    lambda q: q.df[["x", "y", "n"]].describe(),
    lambda pl, df, few, many: df.select("x", "y", "n").collect().describe(),
)
_add("nunique", lambda q: q.df.nunique(), lambda pl, df, few, many: df.select(pl.all().n_unique()))
_add(
    "unique", lambda q: q.df["s"].unique(), lambda pl, df, few, many: df.select(pl.col("s").unique(maintain_order=True))
)
_add(
    "value_counts",
    lambda q: q.df["g"].value_counts(),
    lambda pl, df, few, many: df.group_by("g").len().sort("len", descending=True),
)
_add(
    "value_counts of two",
    lambda q: q.df[["g", "b"]].value_counts(),
    lambda pl, df, few, many: df.group_by("g", "b").len().sort("len", descending=True),
)
_add("mode", lambda q: q.df["k"].mode(), lambda pl, df, few, many: df.select(pl.col("k").mode()))
_add("count", lambda q: q.df.count(), lambda pl, df, few, many: df.select(pl.all().count()))
_add(
    "min, max",
    lambda q: (q.df["t"].min(), q.df["t"].max()),
    lambda pl, df, few, many: df.select(pl.col("t").min().alias("a"), pl.col("t").max()),
)
_add("idxmax", lambda q: q.df["x"].idxmax(), lambda pl, df, few, many: df.select(pl.col("x").fill_nan(None).arg_max()))
_add(
    "corr",
    lambda q: q.df[["x", "y", "n"]].corr(),
    lambda pl, df, few, many: df.select(pl.corr("x", "y"), pl.corr("x", "n").alias("a"), pl.corr("y", "n").alias("b")),
)
_add(
    "skew, kurt",
    lambda q: (q.df["y"].skew(), q.df["y"].kurt()),
    lambda pl, df, few, many: df.select(pl.col("y").skew(bias=False), pl.col("y").kurtosis(bias=False).alias("a")),
)
_add(
    "any, all",
    lambda q: (q.df["b"].any(), q.df["b"].all()),
    lambda pl, df, few, many: df.select(pl.col("b").any(), pl.col("b").all().alias("a")),
)
_add("missing a column", lambda q: q.df.isna().sum(), lambda pl, df, few, many: df.select(pl.all().null_count()))

SORTING = Family("sorting")
_add = SORTING.add
_add("by integer", lambda q: q.df.sort_values("id"), lambda pl, df, few, many: df.sort("id", maintain_order=True))
_add(
    "by float, down",
    lambda q: q.df.sort_values("y", ascending=False),
    lambda pl, df, few, many: df.sort("y", descending=True, maintain_order=True),
)
_add("by two", lambda q: q.df.sort_values(["g", "n"]), lambda pl, df, few, many: df.sort("g", "n", maintain_order=True))
_add(
    "by three, mixed",
    lambda q: q.df.sort_values(["k", "b", "y"], ascending=[True, False, True]),
    lambda pl, df, few, many: df.sort("k", "b", "y", descending=[False, True, False], maintain_order=True),
)
_add(
    "by string",
    lambda q: q.df.sort_values("s", kind="stable"),
    lambda pl, df, few, many: df.sort("s", maintain_order=True),
)
_add(
    "by date, first rows",
    lambda q: q.df.sort_values("d", kind="stable").head(100),
    lambda pl, df, few, many: df.sort("d", maintain_order=True).head(100),
)
_add("a column", lambda q: q.df["y"].sort_values(), lambda pl, df, few, many: df.select(pl.col("y").sort()))
_add("nlargest", lambda q: q.df.nlargest(100, "y"), lambda pl, df, few, many: df.top_k(100, by="y"))
_add(
    "nsmallest of a column",
    lambda q: q.df["y"].nsmallest(50),
    lambda pl, df, few, many: df.select(pl.col("y").bottom_k(50)),
)
_add("rank", lambda q: q.df["y"].rank(), lambda pl, df, few, many: df.select(pl.col("y").rank()))
_add(
    "rank, dense",
    lambda q: q.df["n"].rank(method="dense"),
    lambda pl, df, few, many: df.select(pl.col("n").rank("dense")),
)
_add("argsort", lambda q: q.df["y"].argsort(), lambda pl, df, few, many: df.select(pl.col("y").arg_sort()))
_add("set_index, sort_index", lambda q: q.df.set_index("id").sort_index(), lambda pl, df, few, many: df.sort("id"))
