"""Programs with group-bys in which the fuzzer found differences: a part of those of ``found``."""

from __future__ import annotations

GROUPS: dict[str, str] = {
    "keys that are columns of objects": """
a = pd.DataFrame({"y": pd.array([], dtype="int64"), "g": np.array([], dtype=object)})
v1 = a.groupby(a["g"])["y"].min()
v2 = a.groupby(a["g"]).count()
v3 = a.groupby(a["g"])[[]].agg(func="std")
b = pd.DataFrame({"y": [1, 2], "g": np.array([2, 1], dtype=object)})
v4 = b.groupby(b["g"])["y"].agg(list)
v5 = b.groupby(b["g"])["y"].unique()
""",
    "keys that a function makes of categories": """
a = pd.DataFrame({"v": pd.array([False], dtype="bool")})
v1 = a.groupby(a["v"].astype("category")).max()
v4 = v1.groupby(lambda i: i).last()
""",
    "categories beside a key that is named by a number": """
a = pd.DataFrame({"w": pd.array([1, 1], dtype="int64"), 0: pd.array([3, 2], dtype="int64")})
v1 = a.groupby([a["w"].astype("category"), 0], observed=False).var()
""",
    "a key of a frame whose rows were sorted already": """
a = pd.DataFrame({"i": [1, 2, 1], "h": [3, 4, 5]})
b = a[["i", "h"]].sort_index()
v1 = b.groupby(a["i"]).sum()
v2 = a.groupby(b["i"]).sum()
v3 = a.sort_index(ignore_index=True).groupby(a["i"]).max()
v4 = a["h"].sort_index().groupby(a["i"]).max()
""",
    "pivot tables by functions that are called for each group": """
a = pd.DataFrame({"t": [1, 2, 1], "y": [100, 4, 2], "z": [1.0, np.nan, 2.0]})
v1 = a.pivot_table(index="t", aggfunc=max)
v2 = a.pivot_table(index="t", aggfunc=np.any)
v3 = a.pivot_table(index="t", values="y", aggfunc=[max, "sum"])
v4 = a.pivot_table(index="t", values="y", aggfunc=max, margins=True)
v5 = a.pivot_table(index="t", values="y", aggfunc=lambda s: s.max() - s.min(), margins=True)
v6 = a.pivot_table(index="t", values="y", aggfunc=np.ptp)
v1["new"] = 1
v7 = v1["y"].sum()
""",
    "an attribute of grouped values that is one of their row labels": """
a = pd.DataFrame({"k": [1, 1], "x": [3, 4]}, index=["e", "f"])
v1 = a.groupby("k")["x"].agg("e")
v2 = a["x"].groupby([1, 2]).agg("e")
v3 = a.sort_values("x").groupby("k")["x"].e
v4 = a.groupby("k")["x"].agg("none")
""",
    "a key of categories that pandas cannot print": """
a = pd.DataFrame({"s": pd.array([pandas.Timestamp("2020-01-01 00:00:01")], dtype="timestamp[us][pyarrow]"), "k": [1]})
b = a.take([0])
b.insert(1, "ins", b["s"])
v1 = b.groupby(b["s"].astype("category"))["ins"].max().tolist()
""",
    "differences of integers beyond floats in a function of groups": """
a = pd.DataFrame({"g": [1, 1, 2, 2], "y": [9223372036854775807, -2, 9007199254740993, 9007199254740992]})
v1 = a.groupby("g").transform(lambda s: s.diff())
v2 = a.groupby("g")["y"].agg(lambda s: s.diff().max())
v3 = a.groupby("g")["y"].transform(lambda s: s - s.shift())
""",
    "first and last of intervals, after a shift": """
a = pd.DataFrame({"t": [9.0, 1.0, 2.0, 3.0], "w": pd.to_datetime(["1970-01-01"] * 4)})
v1 = a.shift(1)
v2 = v1.groupby(pd.Grouper(key="w", freq="36h"))["t"].last()
v3 = v1.groupby(pd.Grouper(key="w", freq="36h"))["t"].first()
v4 = v1.resample("36h", on="w").agg({"t": ["first", "last"]})
v5 = a.assign(t=a["t"].cumsum(), w=a["w"].shift())
v6 = v5.groupby(pd.Grouper(key="w", freq="1D"))["t"].first()
""",
    "quantiles of large integers in a function of groups": """
a = pd.DataFrame({"w": pd.array([200, 200], dtype="uint8"), "x": [9223372036854775807, 3], "y": [-9223372036854775808, -5]})
v1 = a.groupby("w").transform(lambda s: s.quantile())
v2 = a.head(1).groupby("w").agg(lambda s: s.quantile())
v3 = a.groupby("w")["y"].transform(lambda s: s.quantile(0.25))
v4 = a.tail(1).groupby("w")["x"].agg(lambda s: s.quantile())
""",
    "group keys of Arrow floats": """
y = pd.array(pa.array([0.0, 2.5, None, 2.5, np.nan, -0.0], pa.float64(), from_pandas=False), dtype="double[pyarrow]")
a = pd.DataFrame({"y": y, "k": [1, 1, 2, 1, 2, 1], "v": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]})
v1 = a.groupby("y", dropna=False)["v"].sum()
b = a.head(4)
v2 = b.groupby(["y", "k"], as_index=False, dropna=False)["v"].max()
v3 = float(b.groupby("y")["v"].sum().iloc[0])
b.loc[0, "y"] = -0.0
v4 = b.groupby("y")["v"].sum()
b["y"] = 1 - b["y"] * 2
v5 = b.groupby(["k", "y"], sort=False).agg({"v": "mean"})
v6 = b["k"].isin([2, 3])
v7 = a[a["y"] > 0].groupby("y").transform("sum")
""",
    "a fallback of groups by a column of the frame itself": """
pandas.DataFrame({"len": pandas.array(["x", "y", "x", None], dtype="str"), "n": [1, 2, 3, 4]}).to_parquet(f"{folder}/a.parquet")
a = pd.read_parquet(f"{folder}/a.parquet")
v1 = a.groupby(a["len"], as_index=False)["len"].value_counts()
v2 = a.groupby(a["n"], as_index=False)["n"].value_counts()
v3 = a.groupby(a["n"], as_index=False)[["n"]].value_counts()
v4 = a.groupby(a["n"] > 2, as_index=False)["n"].value_counts()
""",
    "distinct rows of no rows": """
a = pd.DataFrame({"s": pd.array([], dtype="float64")})
v1 = a.drop_duplicates(keep="last")
v2 = a.drop_duplicates()
v3 = a.drop_duplicates(keep=False).duplicated(keep="last")
""",
    "columns over rows that a filter selects by them": """
pandas.DataFrame({"s": ["a-1", "b-2", None, "a-1", "c"] * 3, "k": [1, 2, 1, 1, 2] * 3}).to_parquet(f"{folder}/a.parquet")
a = pd.read_parquet(f"{folder}/a.parquet")
v1 = a["k"].sum()
a["t"] = a["s"].str.replace(r"-\\d", "", regex=True).str.strip()
v2 = a["t"].eq("a").sum()
b = a[~a["t"].eq("a")]
v3 = b.duplicated(["k", "t"], keep=False).sum()
v4 = b.drop_duplicates(["k", "t"], keep="last")
b["t"] = b["t"] + "!"
v5 = b[b["k"] == 2]["t"].nunique()
v6 = b.groupby("t")["k"].sum()
v7 = v4.reset_index(drop=True)["t"]
""",
    "nearest rows of which some do not exist": """
a = pd.DataFrame({"t": [1, 4, 9, 12], "k": ["x", "y", "x", "y"], "v": [1.0, np.nan, 3.0, 4.0]})
b = pd.DataFrame({"t": [2, 3, 8], "k": ["x", "y", "x"], "w": [5, 6, 7], "z": ["p", None, "r"]})
v1 = pd.merge_asof(a, b, on="t", by="k", tolerance=2)
v2 = v1["w"].sum()
v3 = v1.dropna(subset=["w"]).groupby("k")["v"].sum()
v4 = v1[v1["z"].isna()]
v1["w"] = v1["w"].fillna(0) + v1["v"]
v5 = v1.sort_values("w").head(2)
v6 = pd.merge_asof(a, b[b["t"] > 100], on="t")
""",
    "groups of which all keys are missing": """
a = pd.DataFrame({"w": pd.array([-4, 3], dtype="int64"), "g": np.array([None, None], dtype=object)})
v1 = a.groupby("g")["w"].transform("first")
v2 = a.groupby("g")["w"].transform("last").isna().sum()
v3 = [a.groupby("g")["w"].transform(name) for name in ("min", "sum", "mean", "count", "nunique", "median", "size")]
v4 = a.groupby("g").transform("first")
""",
    "counts in groups of columns one of which has no name": """
a = pd.DataFrame({"s": pd.array([2.0, 3.0, None, 2.0], dtype="float64")})
b = pd.get_dummies(a["s"], dummy_na=True)
v1 = b.groupby(2.0).value_counts()
v2 = b.groupby([2.0, 3.0]).value_counts().sum()
""",
    "moving errors of the mean with the keys as columns": """
a = pd.DataFrame({"k": [True, True, False, True, True], "w": [3, 1, 2, 5, 6], "v": [1.0, 2.0, 3.0, 4.0, 5.0]})
v1 = a.groupby("k", as_index=False).rolling(2).sem()
v2 = a.groupby("k", as_index=False)["w"].expanding().sem()
v3 = a.groupby(["v", "w"], as_index=False).rolling(1).sem()
v4 = a.groupby("k", as_index=False).rolling(2).agg("sem")
v5 = a.groupby("k").rolling(2).sem()
""",
    "booleans with missing values, sorted": """
a = pd.DataFrame({"w": [False, False, False, False, True, True, True, False, True, True, False, False, False, True] + [False] * 30})
v1 = a.groupby("w")["w"].shift()
v2 = v1.sort_values()
v3 = v1.sort_values(ascending=False, na_position="first")
v4 = a.assign(v=v1).sort_values("v").head(9)
""",
}
