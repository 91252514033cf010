"""A census: incomes by education, age and occupation, with weights, and features for a model."""

# %% Imports
import numpy as np
import pandas as pd

# %% Reading
columns = ["age", "workclass", "weight", "education", "education_years", "marital", "occupation", "relationship"]
columns += ["race", "sex", "gain", "loss", "hours", "country", "income"]
people = pd.read_csv("census.csv", header=None, names=columns, na_values="?", skipinitialspace=True)
print(people.head())
print(people.describe(include="all").iloc[:4])
print(people.nunique().sort_values(kind="stable"))
print(people.isna().mean().round(4).loc[lambda s: s > 0])

# %% Missing values
for name in ["workclass", "occupation", "country"]:
    people[name] = people[name].fillna(people[name].mode()[0])
print(people.isna().any().any())
people["income"] = people["income"].str.rstrip(".").map({"<=50K": 0, ">50K": 1})
print(people["income"].mean())
print(people.select_dtypes("number").skew().round(3))

# %% Ordered categories
order = ["Preschool", "HS-grad", "Some-college", "Bachelors", "Masters", "Doctorate"]
people["education"] = pd.Categorical(people["education"], categories=order, ordered=True)
print(people["education"].value_counts(sort=False))
print(people["education"].min(), people["education"].max(), (people["education"] >= "Bachelors").mean())
married = people["marital"].replace({"Married-civ-spouse": "Married", "Married-AF-spouse": "Married"})
people["married"] = married.eq("Married")
print(married.value_counts())

# %% Ages
people["decade"] = people["age"] // 10 * 10
people["age_group"] = pd.cut(
    people["age"], bins=[16, 25, 35, 50, 65, 120], labels=["16-25", "26-35", "36-50", "51-65", "66+"]
)
print(people.groupby("age_group", observed=True)["income"].agg(["mean", "count"]).round(4))
pyramid = people.groupby(["decade", "sex"])["weight"].sum().unstack().fillna(0)
pyramid["share_female"] = (pyramid["Female"] / pyramid.sum(axis=1)).round(4)
print(pyramid)
quartiles = pd.qcut(people["hours"], 4, duplicates="drop")
print(quartiles.value_counts().sort_index())


# %% Weighted means
def weighted(group: pd.DataFrame) -> float:
    return np.average(group["income"], weights=group["weight"])


by_education = people.groupby("education", observed=False)[["income", "weight"]].apply(weighted)
print(by_education.round(5))
people["wi"] = people["income"] * people["weight"]
sums = people.groupby("occupation")[["wi", "weight"]].sum()
print((sums["wi"] / sums["weight"]).sort_values(ascending=False).round(5).head(8))

# %% Tables
print(pd.crosstab(people["education"], people["income"], margins=True))
print(pd.crosstab(people["race"], people["sex"], normalize="index").round(3))
print(pd.crosstab(people["sex"], people["income"], values=people["hours"], aggfunc="mean").round(3))
table = people.pivot_table(
    index="education", columns=["sex", "married"], values="income", aggfunc=["mean", "count"], observed=False
)
print(table.round(3))
print(table["mean"].xs("Female", axis=1, level="sex").round(3))
print(table.columns.to_list()[:3])

# %% Capital
capital = people[["gain", "loss"]]
print((capital > 0).mean().round(4))
print(capital.where(capital > 0).quantile([0.25, 0.5, 0.75, 0.99]))
people["net"] = people["gain"].sub(people["loss"])
people["log_net"] = np.sign(people["net"]) * np.log1p(people["net"].abs())
print(people["log_net"].round(6).mode().head(1).tolist())
rich = people[people["net"] == people["net"].max()]
print(len(rich), rich["occupation"].value_counts().head(3).to_dict())

# %% Hours
print(people.groupby(["sex", "married"])["hours"].describe().round(2))
standard = people.groupby("occupation")["hours"].transform(lambda s: (s - s.mean()) / s.std())
print(standard.abs().gt(2).sum(), standard.round(6).max())
long_hours = people["hours"].ge(60) & people["workclass"].isin(["Private", "Self-emp-inc"])
print(people[long_hours].groupby("workclass").agg({"income": "mean", "age": ["min", "median", "max"]}).round(3))
hours_rank = people["hours"].rank(pct=True)
print(hours_rank.describe().round(4))

# %% Countries
abroad = people.loc[people["country"] != "United-States"]
counts = abroad["country"].value_counts()
print(counts.head(6))
common = counts[counts >= counts.median()].index
people["region"] = np.select(
    [people["country"].eq("United-States"), people["country"].isin(common)], ["home", "common"], default="rare"
)
print(people.groupby("region")["income"].mean().round(4))
print(abroad.groupby("country").filter(lambda g: len(g) > len(abroad) / 20)["country"].unique())
first = people.sort_values(["country", "age", "weight"], ascending=[True, False, False]).groupby("country").first()
print(first[["age", "occupation", "hours"]].head())

# %% Long form
means = people.groupby("education", observed=False)[["age", "hours", "income"]].mean().reset_index()
long = means.melt(id_vars="education", var_name="measure", value_name="value")
print(long.head(8).round(3))
print(long.pivot(index="measure", columns="education", values="value").round(2))

# %% Features
numbers = people[["age", "education_years", "hours", "log_net"]]
scaled = (numbers - numbers.mean()) / numbers.std()
print(scaled.agg(["mean", "std"]).abs().round(6))
dummies = pd.get_dummies(people[["sex", "race", "workclass"]], drop_first=True, dtype=int)
features = pd.concat([scaled, dummies, people[["income"]]], axis=1)
print(features.shape)
print(features.corr()["income"].drop("income").sort_values(ascending=False).round(4))
print(features.head(3).T)

# %% Writing
features.to_parquet("features.parquet")
people.groupby(["occupation", "sex"]).agg(n=("age", "size"), income=("income", "mean")).to_csv("occupations.csv")
