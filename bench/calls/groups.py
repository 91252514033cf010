"""Calls over groups and several frames: aggregates, transforms, joins, reshaping."""

from __future__ import annotations

from bench.calls.registry import Family

__all__ = ["AGGREGATES", "JOINS", "RESHAPING", "TRANSFORMS"]

AGGREGATES = Family("group aggregates")
_add = AGGREGATES.add
_add(
    "sum",
    lambda q: q.df.groupby("k")["y"].sum(),
    lambda pl, df, few, many: df.group_by("k").agg(pl.col("y").sum()).sort("k"),
)
_add(
    "mean of all",
    lambda q: q.df.groupby("g").mean(numeric_only=True),
    lambda pl, df, few, many: df.group_by("g").agg(pl.col("id", "k", "x", "y", "n", "b").mean()).sort("g"),
)
_add(
    "by category",
    lambda q: q.df.groupby("c", observed=True)["y"].mean(),
    lambda pl, df, few, many: df.group_by("c").agg(pl.col("y").mean()).sort("c"),
)
_add(
    "by two keys",
    lambda q: q.df.groupby(["g", "k"], as_index=False)["y"].sum(),
    lambda pl, df, few, many: df.group_by("g", "k").agg(pl.col("y").sum()).sort("g", "k"),
)
_add(
    "many groups",
    lambda q: q.df.groupby("s")["n"].sum(),
    lambda pl, df, few, many: df.group_by("s").agg(pl.col("n").sum()).sort("s"),
)
_add(
    "named aggregates",
    lambda q: q.df.groupby("g").agg(rows=("id", "size"), most=("y", "max"), mean=("x", "mean"), last=("t", "max")),
    lambda pl, df, few, many: (
        df.group_by("g").agg(pl.len(), pl.col("y").max(), pl.col("x").mean(), pl.col("t").max()).sort("g")
    ),
)
_add(
    "several by dict",
    lambda q: q.df.groupby("k").agg({"x": ["mean", "std"], "y": ["min", "max"]}),
    lambda pl, df, few, many: (
        df.group_by("k")
        .agg(pl.col("x").mean(), pl.col("x").std().alias("xs"), pl.col("y").min(), pl.col("y").max().alias("ym"))
        .sort("k")
    ),
)
_add(
    "size",
    lambda q: q.df.groupby(["g", "b"]).size(),
    lambda pl, df, few, many: df.group_by("g", "b").len().sort("g", "b"),
)
_add(
    "nunique",
    lambda q: q.df.groupby("g")["k"].nunique(),
    lambda pl, df, few, many: df.group_by("g").agg(pl.col("k").n_unique()).sort("g"),
)
_add(
    "median",
    lambda q: q.df.groupby("k")["y"].median(),
    lambda pl, df, few, many: df.group_by("k").agg(pl.col("y").median()).sort("k"),
)
_add(
    "quantile",
    lambda q: q.df.groupby("g")["y"].quantile(0.9),
    lambda pl, df, few, many: df.group_by("g").agg(pl.col("y").quantile(0.9, "linear")).sort("g"),
)
_add(
    "first, last",
    lambda q: q.df.groupby("k").agg(a=("t", "first"), z=("t", "last")),
    lambda pl, df, few, many: df.group_by("k").agg(pl.col("t").first(), pl.col("t").last().alias("z")).sort("k"),
)
_add(
    "std, var",
    lambda q: q.df.groupby("g")[["x", "y"]].std(),
    lambda pl, df, few, many: df.group_by("g").agg(pl.col("x", "y").std()).sort("g"),
)
_add(
    "idxmax",
    lambda q: q.df.groupby("g")["y"].idxmax(),
    lambda pl, df, few, many: (
        df.with_row_index().group_by("g").agg(pl.col("index").get(pl.col("y").arg_max())).sort("g")
    ),
)
_add(
    "value_counts",
    lambda q: q.df.groupby("g")["c"].value_counts(),
    lambda pl, df, few, many: df.group_by("g", "c").len().sort("g", "len"),
)
_add("describe", lambda q: q.df.groupby("g")["y"].describe())
_add(
    "by month",
    lambda q: q.df.groupby(q.df["d"].dt.month)["y"].sum(),
    lambda pl, df, few, many: df.group_by(pl.col("d").dt.month()).agg(pl.col("y").sum()).sort("d"),
)
_add(
    "by Grouper",
    lambda q: q.df.groupby(q.pd.Grouper(key="t", freq="D"))["y"].sum(),
    lambda pl, df, few, many: df.group_by_dynamic("t", every="1d").agg(pl.col("y").sum()),
)
_add("agg of a lambda", lambda q: q.df.groupby("k")["y"].agg(lambda values: values.max() - values.min()))
_add("apply", lambda q: q.df.groupby("g")[["x", "y"]].apply(lambda group: (group["x"] * group["y"]).sum()))

TRANSFORMS = Family("group transforms")
_add = TRANSFORMS.add
_add(
    "transform mean",
    lambda q: q.df.groupby("k")["y"].transform("mean"),
    lambda pl, df, few, many: df.select(pl.col("y").mean().over("k")),
)
_add(
    "share of the group",
    lambda q: q.df["y"] / q.df.groupby("g")["y"].transform("sum"),
    lambda pl, df, few, many: df.select(pl.col("y") / pl.col("y").sum().over("g")),
)
_add(
    "cumsum",
    lambda q: q.df.groupby("k")["y"].cumsum(),
    lambda pl, df, few, many: df.select(pl.col("y").cum_sum().over("k")),
)
_add(
    "shift",
    lambda q: q.df.groupby("k")["y"].shift(),
    lambda pl, df, few, many: df.select(pl.col("y").shift().over("k")),
)
_add("diff", lambda q: q.df.groupby("k")["n"].diff(), lambda pl, df, few, many: df.select(pl.col("n").diff().over("k")))
_add("rank", lambda q: q.df.groupby("g")["y"].rank(), lambda pl, df, few, many: df.select(pl.col("y").rank().over("g")))
_add(
    "ffill",
    lambda q: q.df.groupby("k")["x"].ffill(),
    lambda pl, df, few, many: df.select(pl.col("x").fill_nan(None).forward_fill().over("k")),
)
_add(
    "cumcount",
    lambda q: q.df.groupby("k").cumcount(),
    lambda pl, df, few, many: df.select(pl.int_range(pl.len()).over("k")),
)
_add("ngroup", lambda q: q.df.groupby("g").ngroup(), lambda pl, df, few, many: df.select(pl.col("g").rank("dense")))
_add(
    "head",
    lambda q: q.df.groupby("k").head(3),
    lambda pl, df, few, many: df.filter(pl.int_range(pl.len()).over("k") < 3),
)
_add(
    "nth",
    lambda q: q.df.groupby("k").nth(2),
    lambda pl, df, few, many: df.filter(pl.int_range(pl.len()).over("k") == 2),
)
_add(
    "filter",
    lambda q: q.df.groupby("s").filter(lambda group: len(group) > 200),
    lambda pl, df, few, many: df.filter(pl.len().over("s") > 200),
    rows=1_000_000,
)
_add(
    "fill by group",
    lambda q: q.df["x"].fillna(q.df.groupby("g")["x"].transform("median")),
    lambda pl, df, few, many: df.select(
        pl.col("x").fill_nan(None).fill_null(pl.col("x").fill_nan(None).median().over("g"))
    ),
)
_add(
    "rolling",
    lambda q: q.df.groupby("g")["y"].rolling(7).mean(),
    lambda pl, df, few, many: df.select(pl.col("y").rolling_mean(7).over("g")),
)
_add("transform of a lambda", lambda q: q.df.groupby("g")["y"].transform(lambda values: values - values.mean()))

JOINS = Family("joins")
_add = JOINS.add
_add(
    "left, small",
    lambda q: q.df.merge(q.few, on="k", how="left"),
    lambda pl, df, few, many: df.join(few, on="k", how="left", maintain_order="left"),
)
_add(
    "inner, large",
    lambda q: q.df.merge(q.many, on="id"),
    lambda pl, df, few, many: df.join(many, on="id", maintain_order="left_right"),
)
_add(
    "outer",
    lambda q: q.df[["id", "x"]].merge(q.many[["id", "v"]], on="id", how="outer"),
    lambda pl, df, few, many: (
        df.select("id", "x").join(many.select("id", "v"), on="id", how="full", coalesce=True).sort("id")
    ),
)
_add(
    "on two keys",
    lambda q: q.df.merge(q.many, on=["id", "k"]),
    lambda pl, df, few, many: df.join(many, on=["id", "k"], maintain_order="left_right"),
)
_add(
    "join on the index",
    lambda q: q.df.join(q.few.set_index("k"), on="k"),
    lambda pl, df, few, many: df.join(few, on="k", how="left", maintain_order="left"),
)
_add(
    "merge, then sum",
    lambda q: q.df.merge(q.few, on="k").groupby("name")["y"].sum(),
    lambda pl, df, few, many: df.join(few, on="k").group_by("name").agg(pl.col("y").sum()).sort("name"),
)
_add(
    "indicator",
    lambda q: q.df[["id"]].merge(q.many[["id"]], on="id", how="left", indicator=True)["_merge"].value_counts(),
)
_add(
    "anti-join",
    lambda q: q.df[~q.df["id"].isin(q.many["id"])],
    lambda pl, df, few, many: df.join(many, on="id", how="anti", maintain_order="left"),
)
_add(
    "map by a series",
    lambda q: q.df["k"].map(q.few.set_index("k")["w"]),
    lambda pl, df, few, many: df.select("k").join(few, on="k", how="left", maintain_order="left").select("w"),
)
_add(
    "merge_asof",
    lambda q: q.pd.merge_asof(q.df[["t", "y"]], q.df[["t", "n"]].iloc[::10], on="t"),
    lambda pl, df, few, many: df.select("t", "y").join_asof(df.select("t", "n").gather_every(10), on="t"),
)
_add(
    "concat of rows",
    lambda q: q.pd.concat([q.df, q.df], ignore_index=True),
    lambda pl, df, few, many: pl.concat([df, df]),
)
_add(
    "concat of columns",
    lambda q: q.pd.concat([q.df[["x"]], q.df[["y"]].rename(columns={"y": "z"})], axis=1),
    lambda pl, df, few, many: df.select("x", z="y"),
)
_add(
    "concat of 100 frames",
    lambda q: q.pd.concat([q.df.iloc[i * 1000 : (i + 1) * 1000] for i in range(100)]),
    lambda pl, df, few, many: pl.concat([df.slice(i * 1000, 1000) for i in range(100)]),
)
_add(
    "combine_first",
    lambda q: q.df["x"].combine_first(q.df["y"]),
    lambda pl, df, few, many: df.select(pl.col("x").fill_nan(None).fill_null(pl.col("y"))),
)

RESHAPING = Family("reshaping")
_add = RESHAPING.add
_add(
    "pivot_table",
    lambda q: q.df.pivot_table(index="g", columns="c", values="y", aggfunc="sum", observed=True),
    lambda pl, df, few, many: df.collect().pivot("c", index="g", values="y", aggregate_function="sum").sort("g"),
)
_add(
    "pivot_table, margins", lambda q: q.df.pivot_table(index="g", columns="b", values="y", aggfunc="mean", margins=True)
)
_add(
    "crosstab",
    lambda q: q.pd.crosstab(q.df["g"], q.df["b"]),
    lambda pl, df, few, many: df.collect().pivot("b", index="g", values="id", aggregate_function="len").sort("g"),
)
_add(
    "melt",
    lambda q: q.df.melt(id_vars=["id"], value_vars=["x", "y"]),
    lambda pl, df, few, many: df.unpivot(["x", "y"], index="id"),
)
_add(
    "stack", lambda q: q.df[["x", "y"]].stack(), lambda pl, df, few, many: df.select(pl.concat_list("x", "y").explode())
)
_add(
    "unstack",
    lambda q: q.df.groupby(["k", "c"], observed=True)["y"].sum().unstack(),
    lambda pl, df, few, many: df.collect().pivot("c", index="k", values="y", aggregate_function="sum").sort("k"),
)
_add(
    "get_dummies",
    lambda q: q.pd.get_dummies(q.df["c"]),
    lambda pl, df, few, many: df.select("c").collect().to_dummies(),
)
_add(
    "cut",
    lambda q: q.pd.cut(q.df["y"], [0, 5, 10, 50, 1000]),
    lambda pl, df, few, many: df.select(
        pl.col("y").bin_intervals([0, 5, 10, 50, 1000], labels=False, right_closed=True)
    ),
)
_add(
    "qcut",
    lambda q: q.pd.qcut(q.df["y"], 10, labels=False),
    lambda pl, df, few, many: df.select(pl.col("y").bin_quantiles(10, labels=False, right_closed=True)),
)
_add(
    "explode",
    lambda q: q.df[["id", "s"]].assign(w=q.df["s"].str.split(" ")).explode("w"),
    lambda pl, df, few, many: df.select("id", "s", w=pl.col("s").str.split(" ")).explode("w"),
)
_add(
    "transpose",
    lambda q: q.df[["x", "y"]].head(1000).T,
    lambda pl, df, few, many: df.select("x", "y").head(1000).collect().transpose(),
)
_add(
    "reset_index",
    lambda q: q.df.set_index(["g", "k"]).reset_index(),
    lambda pl, df, few, many: df.select("g", "k", pl.exclude("g", "k")),
)
_add(
    "rename",
    lambda q: q.df.rename(columns={"x": "first", "y": "second"}),
    lambda pl, df, few, many: df.rename({"x": "first", "y": "second"}),
)
