"""Seasons of baseball players: careers, best seasons, teams and salaries."""

# %% Imports
import numpy as np
import pandas as pd

# %% Reading
batting = pd.read_csv("batting.csv")
people = pd.read_csv("people.csv", parse_dates=["debut"])
teams = pd.read_csv("teams.csv")
salaries = pd.read_csv("salaries.csv", dtype={"salary": "float64"})
print(batting.tail())
print(batting.shape, people.shape, teams.shape, salaries.shape)
print(batting["yearID"].min(), batting["yearID"].max(), batting["playerID"].nunique())

# %% Seasons
keys = ["playerID", "yearID"]
seasons = batting.groupby(keys, as_index=False)[["G", "AB", "R", "H", "2B", "3B", "HR", "RBI", "BB", "SO"]].sum()
print(len(seasons), (batting.groupby(keys).size() > 1).sum())
seasons["1B"] = seasons["H"] - seasons["2B"] - seasons["3B"] - seasons["HR"]
seasons["AVG"] = seasons["H"].div(seasons["AB"].where(seasons["AB"] > 0))
seasons["SLG"] = seasons.eval("(`1B` + 2 * `2B` + 3 * `3B` + 4 * HR) / AB")
seasons["OBP"] = (seasons["H"] + seasons["BB"]) / (seasons["AB"] + seasons["BB"])
seasons["OPS"] = seasons["OBP"] + seasons["SLG"]
print(seasons[["AVG", "SLG", "OBP", "OPS"]].describe().round(4))
regulars = seasons[seasons["AB"] >= 300]
print(regulars.nlargest(10, ["OPS", "HR"])[[*keys, "OPS", "HR"]])

# %% Names
people["name"] = people["nameFirst"].str.cat(people["nameLast"], sep=" ")
people["initials"] = people["nameFirst"].str[0] + "." + people["nameLast"].str[0] + "."
people["born"] = pd.to_datetime(
    {"year": people["birthYear"], "month": people["birthMonth"], "day": people["birthDay"]}, errors="coerce"
)
print(people[["name", "initials", "born", "debut"]].head())
print(people["born"].isna().sum(), people["bats"].value_counts(dropna=False).to_dict())
age_at_debut = (people["debut"] - people["born"]).dt.days / 365.25
print(age_at_debut.describe().round(3))

# %% Careers
ordered = seasons.sort_values(keys).reset_index(drop=True)
ordered["season"] = ordered.groupby("playerID").cumcount() + 1
ordered["career_HR"] = ordered.groupby("playerID")["HR"].cumsum()
ordered["previous_OPS"] = ordered.groupby("playerID")["OPS"].shift(1)
ordered["improved"] = ordered["OPS"] > ordered["previous_OPS"]
ordered["best_so_far"] = ordered.groupby("playerID")["OPS"].cummax()
ordered["mean_so_far"] = ordered.groupby("playerID")["HR"].transform(lambda s: s.expanding().mean())
print(ordered[["playerID", "season", "HR", "career_HR", "mean_so_far", "improved"]].head(12))
print(ordered.groupby("season")["OPS"].mean().head(8).round(4))
milestone = ordered[ordered["career_HR"] >= 100].groupby("playerID").first()
print(len(milestone), milestone["season"].mean() if len(milestone) else None)

# %% Totals
careers = ordered.groupby("playerID").agg(
    first=("yearID", "min"),
    last=("yearID", "max"),
    seasons=("season", "max"),
    HR=("HR", "sum"),
    H=("H", "sum"),
    AB=("AB", "sum"),
)
careers["years"] = careers["last"] - careers["first"] + 1
careers = careers.join(people.set_index("playerID")[["name", "bats", "born"]])
careers["AVG"] = (careers["H"] / careers["AB"]).round(4)
print(careers.sort_values(["HR", "H"], ascending=False).head(10))
print(careers.loc[careers["AB"] > 1000].groupby("bats")["AVG"].agg(["count", "mean", "max"]).round(4))
print(careers[careers["years"] != careers["seasons"]].shape)
pick = careers.index[:3].tolist()
print(careers.loc[pick, "HR":"AB"])

# %% Best seasons
best = regulars.loc[regulars.groupby("yearID")["HR"].idxmax(), [*keys, "HR"]]
best = best.merge(people[["playerID", "name"]], on="playerID", how="left").set_index("yearID")
print(best.tail(8))
leaders = regulars.assign(place=regulars.groupby("yearID")["AVG"].rank(ascending=False, method="dense"))
podium = leaders[leaders["place"] <= 3].sort_values(["yearID", "place", "playerID"])
print(podium[["yearID", "place", "playerID", "AVG"]].head(6))
print(podium["playerID"].value_counts().head(5))

# %% Teams
by_team = batting.groupby(["yearID", "teamID"])[["R", "HR", "SO"]].sum()
print(by_team.loc[2000].head())
print(by_team.xs("T03", level="teamID").tail(3))
print(by_team.loc[(slice(1995, 1996), ["T01", "T05"]), :])
runs = by_team["R"].unstack("teamID")
print(runs.iloc[-3:, :5])
print(runs.idxmax(axis=1).tail(3).to_dict(), runs.max().nlargest(3).to_dict())
standing = teams.merge(by_team.reset_index(), on=["yearID", "teamID"], how="outer", indicator=True)
print(standing["_merge"].value_counts())
standing["pct"] = standing["W"] / (standing["W"] + standing["L"])
print(standing[["pct", "R", "HR", "SO"]].corr(method="spearman").round(4))
swing = standing.sort_values(["teamID", "yearID"]).groupby("teamID")["W"].diff()
print(swing.describe().round(2))

# %% Salaries
paid = salaries.merge(seasons, on=keys, how="inner", validate="many_to_one")
paid["per_HR"] = paid["salary"] / paid["HR"].replace(0, np.nan)
print(paid.groupby("yearID")["salary"].agg(["median", "mean", "max"]).tail().round(0))
paid["share"] = paid["salary"] / paid.groupby(["yearID", "teamID"])["salary"].transform("sum")
print(paid.loc[paid["share"] > 0.5, ["playerID", "yearID", "teamID", "share"]].head())
payroll = paid.pivot_table(index="yearID", columns="teamID", values="salary", aggfunc="sum")
ratio = payroll.div(payroll.mean(axis=1), axis=0)
print(ratio.tail(3).iloc[:, :6].round(3))
print(ratio.stack().sort_values().tail(3).round(4))
raise_ = paid.sort_values(keys).groupby("playerID")["salary"].pct_change()
print(raise_.replace([np.inf, -np.inf], np.nan).dropna().quantile([0.1, 0.5, 0.9]).round(4))

# %% Eras
era = pd.cut(ordered["yearID"], [1900, 1989, 1999, 2009, 2030], labels=["80s", "90s", "00s", "10s"])
by_era = ordered.groupby([era, "season"], observed=True)["HR"].mean().unstack(0)
print(by_era.head(5).round(3))
decline = ordered.groupby("playerID")[["AVG", "OPS"]].agg(["first", "last"])
decline.columns = ["_".join(pair) for pair in decline.columns]
print(decline.dropna().head().round(4))
print((decline["OPS_last"] < decline["OPS_first"]).mean().round(4))

# %% Writing
careers.drop(columns="born").to_csv("careers.csv")
ordered.to_parquet("seasons.parquet", index=False)
