"""Programs in which the fuzzer found differences, kept as regression tests. Those in ``OPEN`` still differ.

Each is the program that the fuzzer printed, without its imports.
"""

from __future__ import annotations

from tests.fuzz.found_groups import GROUPS

FOUND: dict[str, str] = {
    "row order below an aggregate": """
a = pd.DataFrame({"y": [2, 0, 5, 1], "x": [1, 7, -2, 4]})
v1 = a.sort_values("y")["y"].cumprod().std()
v2 = a.sort_values("y")["x"].shift().var()
v3 = a.merge(a, on="y", how="left")["x_x"].cummin().sum()
""",
    "row labels of windows over sorted groups": """
a = pd.DataFrame({"k": [1, 2, 1, 2], "y": [3, 1, 2, 0], "x": [1.0, 2.0, 4.0, 8.0]})
v1 = a.sort_values("y").groupby("k")["x"].cumsum()
v2 = a.sort_values("y").groupby("k")["x"].shift().sum()
""",
    "a constant column": """
a = pd.DataFrame({"k": [7, 3], "x": [1.5, 1.5]})
v1 = a.assign(w=2)["w"].sum()
v2 = a.assign(w=False)["w"].cumsum()
v3 = a.assign(w=a["k"].max())["w"].diff()
v4 = a.assign(w=2).cumsum()
v5 = a.assign(w=2).groupby("k")["w"].cumsum()
v6 = a.assign(w=2)["w"].duplicated()
v7 = a.assign(w=2)["w"].pct_change()
v8 = a.assign(w="x")["w"].rank(method="first").is_unique
""",
    "a constant column of no rows": """
a = pd.DataFrame({"g": pd.array([], dtype="datetime64[us]")})
v1 = a.assign(w=2)["w"].any()
v2 = a.assign(w=2)["w"].sum()
""",
    "a column set to a constant": """
a = pd.DataFrame({"w": [0.5, 0.0], "s": ["b", "a"]})
a["new"] = a["w"].max()
v1 = a.sort_values("s")["new"].shift()
o1 = a["w"]
o1[:] = 0.0
v2 = o1.std()
a.iloc[:, 0] = np.nan
v3 = a[a.duplicated("w")]
""",
    "a window of a window": """
a = pd.DataFrame({"k": [-2, 7, -2], "v": [1, 2, 4]})
v1 = a.assign(w=a["v"].cumsum()).groupby("k")["w"].ffill()
v2 = a.assign(w=a["v"].cumsum()).groupby("k")["w"].transform("sum")
v3 = a.assign(w=a["v"].shift()).groupby("k")["w"].rank()
""",
    "sorting thousands of rows for their labels": """
a = pd.DataFrame({"x": np.arange(5000) % 7})
v1 = a.sort_values("x").index
v2 = a[["x"]].round().sort_values("x", ignore_index=True)
""",
    "an operand that changes": """
a = pd.DataFrame({"w": [1, 2]})
o1 = np.array([7, 1])
v1 = a["w"].isin(o1)
o1[:] = 7
""",
    "a frame that changes after a group-by": """
a = pd.DataFrame({"y": [-1, 2], "x": [1, 2]})
h1 = a.groupby("y")["x"]
a["x"] = 0
v1 = h1.sum()
h2 = a.groupby("y")["y"]
a.drop(columns="y", inplace=True)
v2 = h2.sum()
""",
    "isin of columns that a dictionary leaves out": """
a = pd.DataFrame({"s": pd.array([pd.NA, True], dtype="boolean"), "x": pd.array([1, 4], dtype="Int64")})
v1 = a.isin({"g": [1]})
""",
    "a crosstab of repeated labels": """
a = pd.DataFrame({"s": [2.0, -1.0]}, index=[5, 5])
v1 = pd.crosstab(a["s"], a["s"])
""",
    "text and times in Parquet": """
a = pd.DataFrame({"k": pd.array([None, "x"], dtype="string[python]"), "s": pd.array([None, None], dtype="datetime64[s]")})
v1 = (a[["k"]].to_parquet(f"{folder}/k.parquet"), pd.read_parquet(f"{folder}/k.parquet"))[1]
v2 = (a[["s"]].to_parquet(f"{folder}/s.parquet"), pd.read_parquet(f"{folder}/s.parquet"))[1]
""",
    "rows filtered where labels are a range": """
v1 = pd.DataFrame({"x": [0.0, 10.0, 2.0]}).tail(2)
v1.to_parquet(f"{folder}/a.parquet")
v2 = pd.read_parquet(f"{folder}/a.parquet", filters=[("x", ">", 1)])
""",
    "the class of a label": """
a = pd.DataFrame({"w": [4, 6, 0]})
v1 = a.sort_values("w")["w"].idxmax()
v2 = a[a["w"] < 5]["w"].idxmin()
""",
    "describe of a key, then melt": """
a = pd.DataFrame({"s": pd.array([6], dtype="uint8")})
v1 = a.groupby("s")["s"].describe().melt()
""",
    "division by a constant false column": """
a = pd.DataFrame({"s": [np.nan, 4.25], "w": [1, 2]})
v1 = a["s"] / a["w"].isin([])
""",
    "duplicates of no rows": """
a = pd.DataFrame({"y": pd.array([], dtype="string[pyarrow]")}, index=pd.Index(pd.array([], dtype="int64"), name="k"))
v1 = a.drop_duplicates(ignore_index=True)
""",
    "column labels that come from values": """
a = pd.DataFrame({"g": pd.array([1.0, 2.0], dtype="Float64")})
v1 = pd.crosstab(a["g"], a["g"])
v2 = v1.groupby(1.0).first()
v3 = v1.groupby(2.0).agg(one=(1.0, "last"))
""",
    "durations of whole days as text": """
pandas.DataFrame({"c": pandas.array(["90s", "-1D"], dtype="timedelta64[us]")}).to_parquet(f"{folder}/a.parquet")
a = pd.read_parquet(f"{folder}/a.parquet")
v1 = a.astype({"c": "string"})
v2 = a["c"].astype("str")
""",
    "all of nullable and Arrow columns": """
a = pd.DataFrame({"y": pd.array([6], dtype="int64[pyarrow]"), "g": pd.array([1], dtype="Int64")})
v1 = a.all()
v2 = a.any()
""",
    "sorting labels of which one is missing": """
a = pd.DataFrame({"x": pd.array([None, ""], dtype="str")}).set_index("x")
v1 = pd.concat({"p": a, "q": a}).sort_index(ascending=False)
""",
    "the class of a time zone": """
pandas.DataFrame({"t": pandas.array(["1970-01-01"], dtype="datetime64[us, UTC]")}).to_parquet(f"{folder}/a.parquet")
a = pd.read_parquet(f"{folder}/a.parquet")
v1 = a["t"].dt.tz
""",
    "a constant false column": """
a = pd.DataFrame({"k": [4, 4], "s": pd.array([None, "1D"], dtype="timedelta64[ns]")})
v1 = a["k"].isna().rank()
v2 = a[["k"]].isna().cumprod()
v3 = a.isin({"y": 1})["k"].var()
v4 = a["s"].fillna(pd.Timedelta("-2h")).notna().sort_values()
""",
    "a column without a name in Parquet": """
pandas.DataFrame({"": pandas.array([6, 2, 5], dtype="int64")}).to_parquet(f"{folder}/a.parquet")
a = pd.read_parquet(f"{folder}/a.parquet")
v1 = a[::2]
v2 = a.tail(2)
v3 = a.sample(frac=0.5, random_state=1)
""",
    "groups of zeros in Arrow columns": """
a = pd.DataFrame({"y": pd.array([0.0, -0.0], dtype="double[pyarrow]"), "g": [1, 2]})
v1 = a.groupby("y")["g"].sum()
""",
    "quantiles of groups without columns": """
a = pd.DataFrame({"s": [2]})
v1 = a.groupby("s").quantile([0.25, 0.75])
""",
    "a tuple as the group of a scalar key": """
a = pd.DataFrame({"t": [1]})
v1 = a.groupby("t").get_group((1,))
""",
    "a column labelled None, melted": """
a = pd.DataFrame({"y": [0], None: [2]})
v1 = a.melt()
""",
    "an empty column of timestamps as floats": """
pandas.DataFrame({"v": pandas.array([], dtype="datetime64[ms]")}).to_parquet(f"{folder}/a.parquet")
a = pd.read_parquet(f"{folder}/a.parquet")
v1 = a.astype(dtype="Float64")
""",
    "the order of unstacked columns": """
a = pd.DataFrame({"x": [-2.25, 10.0, np.nan], "t": [3, -3, 0]})
v1 = a.groupby(["x", "t"]).size().unstack()
""",
    "infinities in groups": """
a = pd.DataFrame({"k": [1, 1, 2], "y": [-np.inf, -np.inf, np.inf]})
v1 = a.groupby("k")["y"].cumsum()
v2 = a.groupby("y")["y"].quantile()
""",
    "division of columns by columns in another order": """
a = pd.DataFrame({"k": [2], "w": [0]})
v1 = a[["w", "k"]].rfloordiv(a)
""",
    "quantiles of integers that are integers": """
a = pd.DataFrame({"g": [3]})
v1 = a.groupby("g")["g"].quantile(interpolation="higher")
v2 = v1.notna()
""",
    "the class of a label after two selections": """
a = pd.DataFrame({"v": [2.0, -2.25, -2.25, -1.0]})
v1 = a.sort_values("v")["v"].head(3).idxmax()
b = pd.DataFrame({"s": ["2.5", None, "zz", "ab"]})
v2 = b[b["s"].notna()].pipe(lambda f: f[f["s"] == f["s"].max()]).last_valid_index()
""",
    "a computed key of a join": """
a = pd.DataFrame({"v": [-1]})
v1 = a.truediv(a).pipe(lambda f: f[f["v"].isin(f["v"])]).reset_index().index
""",
    "rows without columns": """
a = pd.DataFrame({"g": np.array(["a b"], dtype=object)})
v1 = a.groupby("g").cummax(numeric_only=True).dropna()
""",
    "names of labels under keys": """
a = pd.DataFrame({"x": [1, 2]}).rename_axis("i")
b = pd.DataFrame({"x": [5, 6]}).rename_axis("j")
v1 = pd.concat([a, b], keys=["p", "q"])
v2 = pd.concat([a["x"], b["x"].tail(1)], keys=["p", "q"], names=["n"])
v3 = pd.concat([a, b], keys=["p", "q"]).sort_index(ascending=False).reset_index()
""",
    "invalid keys of a concat": """
b = pd.DataFrame({"x": pd.array([], dtype="bool")})
v1 = pd.concat({"p": b, "q": b}, ignore_index=True, keys="one")
""",
    "a group-by column labelled None": """
a = pd.DataFrame({"y": [0, 1], None: [2, 3]})
v1 = a.groupby("y")[None].sum()
v2 = a.groupby("y")[[None]].sum()
""",
    "bytes of strings": """
pandas.DataFrame({"v": pandas.array(["zz", None, "2.5"], dtype="str")}).to_parquet(f"{folder}/a.parquet")
a = pd.read_parquet(f"{folder}/a.parquet")
v1 = a.memory_usage()
""",
    "time zones that are equal": """
a = pd.Series(pd.to_datetime(["2020-01-01"]).tz_localize("UTC"))
b = pd.Series(pd.to_datetime(["2020-01-01"]).tz_localize(datetime.timezone.utc))
v1 = a.groupby([1]).max().dt.tz, a.dt.tz, a.shift(fill_value=a.max()).dt.tz
v2 = b.groupby([1]).max().dt.tz, b.dt.tz, b.shift(fill_value=b.max()).dt.tz
""",
    "overflowing products of 32-bit floats": """
a = pd.DataFrame({"y": np.array([1e30, 1e30, 0.0], dtype="float32"), "w": [1, 2, 3]})
v1 = a.assign(w=a.sort_values("w")["y"].cumprod())
""",
    "rows of a join without needed columns": """
a = pd.DataFrame({"t": [2, 1, 1]})
b = pd.merge(a, a, how="right", sort=True)
v1 = b.assign(w=2)["w"].cumsum().sum()
v2 = b.loc[b.drop_duplicates().index].rename(str)
v3 = len(b), len(b.sort_values("t").head(3)), b[b["t"] > 1].assign(n=1)["n"].shift().count()
""",
    "a product with overflowing partial products": """
a = pd.DataFrame({"s": [1.0, 10.0, -1.0, -2.25, 0.0]}).take(np.random.default_rng(56).integers(0, 5, 1057)).reset_index(drop=True)
v1 = a[["s"]].prod()
v2 = a.sort_values("s")["s"].prod()
v3 = a.assign(k=1).groupby("k")["s"].prod()
v4 = a.assign(k=1).groupby("k")["s"].transform("prod").sum()
""",
    "aggregates of booleans that become objects": """
a = pd.DataFrame({"k": [1.0, 1.0, 2.0, 4.0, 5.0]}).join(pd.DataFrame({"v": [True, False]}, index=[1.0, 3.0]), on="k")
v1 = a.groupby("k").var(ddof=2)
v2 = a.groupby("k")["v"].mean().dtype
""",
    "levels of different lengths": """
a = pd.DataFrame({"x": np.array(["a", "b", "c"], dtype=object), "v": [4, 5, 6]})
v1 = a.groupby("x").idxmin()
v2 = pd.concat([v1, v1], axis=1).set_index("v", append=True).droplevel(level=0)
""",
    "stored categories without rows": """
a = pd.DataFrame({"v": [1], "w": pd.Categorical(["b"], categories=["z", "b"])})
v1 = (a.to_parquet(f"{folder}/a.parquet"), pd.read_parquet(f"{folder}/a.parquet", filters=[("v", ">", 1)]))[1]
""",
    "differences of no rows, then another window": """
a = pd.DataFrame({"w": pd.array([], dtype="int64"), "g": pd.array([], dtype="float64"), "s": pd.array([], dtype="int64")})
b = a.assign(w=a.groupby("g")["w"].diff())
v1 = b.groupby("s").cummax()
v2 = b.groupby("s")["w"].shift()
v3 = b.groupby("s")["w"].ffill()
v4 = b.groupby("s")["w"].first()
v5 = b["w"].cummin().sum()
""",
    "the variance of one missing value": """
a = pd.DataFrame({"w": ["z"], "x": pd.array([pd.NA], dtype="boolean"), "y": [np.nan]})
v1 = a.groupby("w").var(ddof=0)
v2 = a.groupby("w")[["y"]].sem(ddof=0)
v3 = a["y"].std(ddof=0)
v4 = a.groupby("w")["y"].transform("var", ddof=0)
""",
    "windows whose rows the kernel reorders": """
a = pd.DataFrame({"x": pd.array([None, "2020-12-31", None], dtype="datetime64[ns]"), "g": [3, 7, 3]})
v1 = a.groupby("x").ffill()
v1.loc[v1["g"] >= v1.groupby("g")["g"].transform("max"), "w"] = 1
v2 = v1["w"]
v3 = a.assign(m=a.groupby("x")["g"].transform("max"))["m"].where(a["g"] > 3, 0)
v4 = (v1["g"] * 2).where(v1.groupby("g")["g"].transform("sum") > 1, -1)
""",
    "an argument that is missing": """
a = pd.DataFrame({"w": [-1]})
v1 = pd.concat([a]).nlargest()
v2 = a.sort_values()
""",
    "sorting by the same column twice": """
a = pd.DataFrame({"count": np.array(["b", "a", "b"], dtype=object), "v": [1, 2, 3]})
a["new"] = a["count"]
v1 = a.set_index(keys=["new", "count"]).sort_index()
v2 = a.sort_values(["count", "new", "v"], ascending=[False, True, False])["v"].cumsum()
v3 = a.assign(w=a["v"]).sort_values(["v", "w"])["v"].shift().sum()
""",
    "labels of a merge with an indicator": """
a = pd.DataFrame({"w": pd.array([-1.0, 0.5], dtype="Float32"), "v": pd.array(["10", "zz"], dtype="str")})
b = a.groupby(["w", "v"])["w"].sum().unstack(0)
v1 = b.merge(b, on=0.5, indicator=True)
v2 = b.merge(b, on=0.5)
v3 = pd.DataFrame({1: [1, 2], 2: [3, 4]}).merge(pd.DataFrame({1: [1, 5], 3: [3, 4]}), on=1, how="outer", indicator=True)
""",
    "missing values within and outside a level": """
b = pd.DataFrame({"s": pd.array([3, 2], dtype="uint8"), "y": pd.array(["a", None], dtype="string[pyarrow]"), "w": [2.0, 1.0]})
v1 = b.groupby("y", dropna=False).quantile(q=[0.25])
v2 = v1.sort_values("w").where(v1["s"] > 0)
a = pd.DataFrame({"g": [1.0, np.nan], "k": pd.Categorical([2, 2], categories=[3, 1, 2])})
v3 = a.groupby(["g", "k"], dropna=False, observed=False).first()
v4 = v3.abs().unstack()
""",
    "sums that differ in their last digits": """
s = pd.array([9007199254740993, 7, 6, 9007199254740993, 3], dtype="uint64")
b = pd.DataFrame({"s": s, "k": ["a", "a", None, "a", "a"]})
v1 = b.groupby("k").cumsum()
v2 = b.groupby("k")["s"].cumprod()
""",
    "a count beside objects of a file": """
t = pd.DataFrame({"k": [3, 1, 2], "b": [None, True, False]})
t.to_parquet(f"{folder}/a.parquet")
a = pd.read_parquet(f"{folder}/a.parquet")
v1 = a.iloc[[2, 1, 1]]
v2 = v1.nlargest(2, "k")
v3 = len(v2)
v4 = v1["k"].sum()
""",
    "a constant compared with the size of a constant group": """
b = pd.DataFrame({"k": [5, 7, 7]})
v1 = b.isnull()
v2 = v1["k"] < v1.groupby("k").transform("size")
v3 = v1.where(cond=v2)
v4 = len(v1[0 < v1.groupby("k").transform("size")])
v5 = (3 == v1.assign(w=2).groupby("k")["w"].transform("max")).sum()
v6 = v1.assign(w=2)["w"].between(1, v1.groupby("k").transform("size"))
""",
    "a frame that keeps dtypes of columns that are gone": """
b = pd.DataFrame({"s": [np.nan], "x": [0]})
v1 = b.pivot_table(values=["s", "x"], index=["s", "x"], columns="x", aggfunc="sum")
v2 = v1.isna().sum()
v3 = v1.count()
v4 = v1.notna().any()
v5 = v1.abs().max()
""",
    "the largest rows by a column that has an index level's name": """
b = pd.DataFrame({"k": [0, 5], "v": [2, 2]}, index=pd.Index([13, 14], name="k"))
v1 = b.nsmallest(n=6, columns=["v", "k"])
v2 = b.nlargest(n=1, columns="k")
v3 = b.nlargest(n=1, columns=["v"])
""",
    "a pivot table by a boolean label": """
a = pd.DataFrame({"k": ["", "", "b"], "size": [False, True, True]})
v1 = pd.crosstab(a["k"], a["size"])
v2 = v1.groupby(True, as_index=False).kurt()
v3 = len(v2)
v4 = v2.pivot_table(values=True, index=True)
v5 = v1.pivot_table(values=False, index=True, aggfunc="sum")
v6 = v1.pivot_table(values=[False, True], index="k", aggfunc="max")
""",
    "distinct rows of a frame with labels of several levels": """
a = pd.DataFrame({"index": pd.array(["1970-01-01"], dtype="datetime64[ns]"), "k": ["2.5"]})
v1 = a.groupby("index").agg(func=[])
v2 = v1.drop_duplicates()
v3 = a.groupby("index").agg(["min", "max"]).drop_duplicates()
v4 = v3.sort_values(("k", "min"))["k"].shift().count()
""",
    "a category that is NaN and not missing": """
b = pd.DataFrame({"w": pd.array(pa.array([np.nan], pa.float64(), from_pandas=False), dtype="double[pyarrow]")})
v1 = b.astype(dtype={"w": "category"})
""",
    "a long column whose name is NaN": """
a = pd.DataFrame({"t": range(300), None: "b"}, index=pd.Index(range(300), name=np.nan)).assign(u=1)
v1 = a[np.nan]
v2 = repr(v1)
v3 = repr(a.drop(columns="t"))
v4 = repr(a.set_index([np.nan, "u"])["t"])
""",
    "assign to a frame with labels of several levels": """
b = pd.DataFrame({"x": pd.array([], dtype="UInt32")})
v1 = b.groupby([]).agg(func=[])
v2 = v1.assign(z=lambda f: f)
a = pd.DataFrame({"k": [1, 1, 2], "x": [1.5, 2.5, 0.5]}).groupby("k").agg(["min", "max"])
v3 = a.assign(z=lambda f: f[("x", "min")] + 1)
v4 = v3["z"].sum()
""",
    "levels and categories of Arrow's zeros": """
a = pd.DataFrame({"y": pd.array([0.0, -0.0], dtype="double[pyarrow]"), "g": [1, 2]})
v1 = a.assign(w=a.groupby("g")["y"].transform("max")).drop_duplicates()
v2 = a.set_index(["y", "g"])
v3 = a["y"].astype("category")
""",
    "replacements from a frame with missing integers": """
a = pd.DataFrame({"g": pd.array([9007199254740993, pd.NA], dtype="Int64")})
v1 = a.where(cond=a.duplicated(), other=a)
v2 = v1["g"].max()
""",
    "written categories of a column without values": """
a = pd.DataFrame({"g": pd.array([None, None], dtype="str")})
v1 = a.astype(dtype="category")
v2 = (v1.to_parquet(f"{folder}/v1"), pd.read_parquet(f"{folder}/v1"))[1]
v3 = (v1.head(0).to_parquet(f"{folder}/v3"), pd.read_parquet(f"{folder}/v3"))[1]
v4 = (v1.to_feather(f"{folder}/v4"), pd.read_feather(f"{folder}/v4"))[1]
b = a.head(0).astype("category")
v5 = (b.to_parquet(f"{folder}/v5"), pd.read_parquet(f"{folder}/v5"))[1]
""",
    "a concat of columns by repeated labels": """
a = pd.DataFrame({"y": [1, 7, 1], "b": [1, 2, 3]}).set_index("y")
v1 = pd.concat([a, a.head(2)], axis=1)
""",
    "a mask over labels of Arrow floats with NaN": """
y = pd.array(pa.array([-0.0, 0.0, np.nan], pa.float64(), from_pandas=False), dtype="double[pyarrow]")
a = pd.DataFrame({"y": y, "k": ["10", "c", "b"]})
v1 = a.groupby(["k", "y"])["y"].agg(func=["last"])
v2 = v1.pipe(lambda f: f[f[f.columns[0]].isin(f[f.columns[0]])])
v3 = a.iloc[[2, 2, 1]].set_index("y")["k"]
v4 = v3 + v3.map(lambda v: v * 2)
""",
    "NaN in a file that is read with nullable dtypes": """
a = pd.DataFrame({"y": pd.array(pa.array([None, np.nan], pa.float64(), from_pandas=False), dtype="double[pyarrow]")})
v1 = (a.to_parquet(f"{folder}/a"), pd.read_parquet(f"{folder}/a", dtype_backend="numpy_nullable"))[1]
v2 = v1.merge(v1)
v3 = v1["y"].isna().sum()
""",
    "a value of a dropped row that would raise": """
a = pd.DataFrame({"k": np.array([5, 5, 2**63 - 1]), "v": [1.0, 1.0, 2.0], "t": pd.array([0.0, None, 1.0], dtype="double[pyarrow]")})
v1 = a.groupby(["v", "k"]).nth(n=1)
v2 = v1.loc[v1["k"] < v1["t"], ["t", "k"]]
""",
    "a reference to a group in the replacement of a literal text": """
a = pd.DataFrame({"w": pd.array(["é"], dtype="large_string[pyarrow]")})
v1 = a["w"].str.replace(pat="é", repl="\\\\g<0>")
""",
    "values of selected rows set in a frame of windows": """
a = pd.DataFrame({"a": [25, -24], "c": pd.array([8.0, 0.0], dtype="Float64")})
v1 = a.shift(-1)
v2 = v1["c"] == v1["c"].max()
v1.loc[v2, "c"] = v1.loc[v2, "c"] * 2 + v1["a"].mean()
""",
    "a cumulative method that pandas calls on an evaluated column of a nullable dtype": """
a = pd.DataFrame({"x": np.array([-50, 3])})
v1 = a["x"].convert_dtypes()
v2 = v1.transform(func="cumsum")
v3 = a["x"].sum()
""",
    "sums of small integers in groups of a constant": """
a = pd.DataFrame({"v": np.array([5, 127], dtype="int8"), "count": np.array([2, 6], dtype="int8")})
v1 = a.assign(w=True).groupby("w").sum(numeric_only=True)
""",
    "rows of a file selected by filters, with a RangeIndex as a level": """
a = pd.DataFrame({"w": pd.array([4], dtype="Int8"), "y": np.array(["2020-12-31"], dtype="datetime64[ns]")})
v1 = a.groupby("y", as_index=False).count().set_index("y", append=True)
v2 = (v1.to_parquet(f"{folder}/v2"), pd.read_parquet(f"{folder}/v2", filters=[("w", ">", 1)]))[1]
""",
    "a missing condition of where and mask in place": """
a = pd.DataFrame({"m": pd.array([None, 1, 2], dtype="Int8"), "s": ["x", "y", "z"]})
b = a.copy()
a.mask(a["m"] > 1, inplace=True)
b.where(b["m"] > 1, inplace=True)
v1 = a["s"].count()
v2 = b["s"].count()
v3 = a.where(a["m"] > 1)
""",
    "a cumulative maximum of nanoseconds, with a row in no group": """
a = pd.DataFrame({"g": pd.array([False, None], dtype="boolean")})
v1 = a.assign(k=pd.Timestamp("2020-12-31 00:00:00.000000001"))
v2 = v1.assign(x=v1.groupby("g").cummax())
v3 = v1.groupby("g")["k"].rank()
""",
    "a step that pandas has done in part when it raises, and an error that follows from it": """
a = pd.DataFrame({"k": [None, ""], "v": pd.array([-1, None], dtype="Int8")})
v1 = (a.to_parquet(f"{folder}/v1"), pd.read_parquet(f"{folder}/v1"))[1]
v1.fillna(value=7, inplace=True)
v1.replace(to_replace=np.nan, value=0.5)
""",
    "a function of NumPy of an object of Craton and one of pandas": """
a = pd.DataFrame({"v": np.array([False]), "t": np.array(["1999-01-01"], dtype="datetime64[us]")})
v1 = a["t"].dt.is_quarter_start
v2 = (a.to_parquet(f"{folder}/v2"), pandas.read_parquet(f"{folder}/v2"))[1]
v3 = v2.groupby("t").any()
v4 = np.bitwise_or(v1, v3["v"])
v5 = np.logaddexp(v2[["v"]], v1)
""",
    "a write into the rows that equal their mean, whose last digit differs": """
a = pd.DataFrame({"x": [0.1] * 7})
v1 = a.copy()
v1[v1["x"] == v1["x"].mean()] = "lo"
v2 = a.copy()
v2.loc[v2["x"] == v2["x"].mean(), "x"] = 5.0
v3 = a[a["x"] == a["x"].mean()]
v4 = a[~(a["x"] < a["x"].mean())]
v5 = v4["x"].sum()
""",
    "rows that are kept for a live object, with a column of row numbers, are numbered again": """
a = pd.DataFrame({"k": np.array(["ab"], dtype=object)}).take(np.random.default_rng(79).integers(0, 1, 4))
v1 = a.reset_index(drop=True).assign(u=np.random.default_rng(79).permutation(4))
v2 = v1["k"]
v3 = v1.groupby("k").idxmax()
v4 = v2
""",
    "a column of an Arrow table whose name the kernel takes for a pattern": """
a = pd.DataFrame({"x": [1, 2], "*": [5, 6], "^x$": [7, 8]})
v1 = pd.DataFrame.from_arrow(a)
v2 = v1["^x$"].sum()
v3 = v1[v1["*"] > 5]
""",
    "groups are described by keys of which some are missing": """
a = pd.DataFrame({"x": ["a", "2.5", "a", None], "y": [0.5, -1.0, 0.0, 1.0], "u": [1, 2, 3, 4]})
a["k"] = pd.array([1.0, 1.5, 1.5, 1.5], dtype="Float64")
v1 = a.groupby(["k", "x", "y"]).describe()
v2 = a.groupby(["k", "x"])["u"].describe()
v3 = a[a["u"] < 4].groupby(["k", "x", "y"])["u"].describe()
""",
    "frames without columns, whose plans have a column without a name": """
a = pd.DataFrame({"g": pd.array([100, 3], dtype="int64")})
v1 = a.groupby("g").diff()
v2 = v1.sort_index()
v3 = v1.join(a)
v4 = a.select_dtypes(include="object").pivot_table()
v5 = v4.merge(a, left_index=True, right_index=True)
""",
    "product of a single column": """
a = pd.DataFrame({"v": np.array(["a", "a"], dtype=object)})
v2 = a.reindex(columns=["q"])
v4 = v2 @ np.arange(v2.shape[1])
""",
    "alignment and ordered merges of texts that are objects": """
a = pd.DataFrame({"w": np.array(["xbq", "b", None, "ab"], dtype=object)}, index=["a", "b", "a", "c"])
pandas.DataFrame(a).to_parquet(f"{folder}/a.parquet")
v0 = pd.read_parquet(f"{folder}/a.parquet")
v1 = v0["w"].astype(object).str.split("b").str[-1]
v2 = v1.align(v1.iloc[::-1], join="outer")[1]
v3 = v1.align(v1.iloc[::-1], join="outer")[0]
v4 = v1.align(v1.iloc[:2], join="left")[1]
b = pd.DataFrame({"y": pd.array([-2.25], dtype="Float64"), 0: pd.array(["B"], dtype="large_string[pyarrow]")})
v5 = pd.melt(b, id_vars=0)
v6 = pd.merge_ordered(v5, v5)
v7 = pd.merge_ordered(v5, v5, on="variable")
""",
    "joins of frames without columns and rows": """
b = pd.DataFrame({"g": pd.array(["2000-02-29 12:30"], dtype="datetime64[us]"), "w": pd.array([pandas.NA], dtype="Int64")})
v1 = b.groupby(["g", "w"]).sem()
v2 = b.join([v1])
v3 = b.join([v1], how="outer")
v4 = pd.concat([b, v1], axis=1)
v5 = pd.concat([b.set_index("g"), b[[]].head(0)], axis=1)
v6 = pd.concat([b.set_index("g"), b[[]]], axis=1)
""",
    "operators of frames without columns": """
a = pd.DataFrame({"x": [1, 2, 3]})
v1 = a[[]] > a[[]].copy()
v2 = v1.shape
v3 = (a + pd.DataFrame()).count()
v4 = a[[]] + a[[]]
a[a > a.shift()] = 47
v5 = a.sum()
""",
    **GROUPS,
}

OPEN: dict[str, str] = {}
