"""A survey of developers: cleaning of answers, languages, salaries and satisfaction."""

# %% Imports
import numpy as np
import pandas as pd

# %% Reading
survey = pd.read_csv("survey.csv", index_col="ResponseId")
schema = pd.read_csv("questions.csv").set_index("column")["question"]
print(survey.shape)
print(survey.head(3).T)
for column in survey.columns[:5]:
    print(f"{column}: {schema.get(column, 'no question')} ({survey[column].nunique()} answers)")
answered = survey.notna().sum(axis=1)
print(answered.value_counts().sort_index())
survey = survey[answered >= 8].rename(columns=str.strip)

# %% Salaries
survey["Salary"] = survey["Salary"].str.replace(r"[$,]", "", regex=True)
survey["Salary"] = pd.to_numeric(survey["Salary"], errors="coerce")
print(survey["Salary"].describe().round(1))
survey.loc[survey["Salary"] > 1_000_000, "Salary"] = np.nan
survey.loc[survey["SalaryPer"].eq("month"), "Salary"] *= 12
limits = survey["Salary"].quantile([0.01, 0.99])
survey["Salary"] = survey["Salary"].mask(~survey["Salary"].between(*limits))
print(survey["Salary"].isna().sum(), survey["Salary"].median())
median = survey.groupby("Country")["Salary"].transform("median")
survey["SalaryFilled"] = survey["Salary"].fillna(median).fillna(survey["Salary"].median())
print(survey["SalaryFilled"].isna().sum(), round(survey["SalaryFilled"].mean(), 2))

# %% Experience
years = survey["YearsCode"].replace({"Less than 1 year": "0.5", "More than 50 years": "51"})
survey["Years"] = pd.to_numeric(years)
print(survey["Years"].value_counts(bins=[0, 2, 5, 10, 20, 60], sort=False))
survey["Level"] = pd.cut(survey["Years"], [0, 2, 5, 10, 100], labels=["junior", "regular", "senior", "veteran"])
print(survey.groupby("Level", observed=False)["Salary"].agg(["count", "median", "mean"]).round(0))
ages = survey["Age"].str.extract(r"(?P<low>\d+)\D+(?P<high>\d+)?").astype(float)
survey["AgeMid"] = ages.mean(axis=1)
print(survey["AgeMid"].value_counts(dropna=False).sort_index())
print(survey[["Years", "AgeMid", "Salary"]].corr(method="spearman").round(4))

# %% Languages
languages = survey["Languages"].str.split(";").explode()
counts = languages.value_counts()
print(counts)
print((counts / len(survey)).round(3).head())
used = survey["Languages"].str.get_dummies(sep=";")
print(used.shape, used.sum().idxmax())
print(used.T.dot(used).iloc[:5, :5])
survey["HowMany"] = used.sum(axis=1)
print(survey.groupby("HowMany")["Salary"].median().head(6))
paid = survey[["Salary", "Country"]].join(languages.rename("Language")).dropna()
by_language = paid.groupby("Language")["Salary"].agg(["median", "count"]).sort_values("median", ascending=False)
print(by_language.head(8))
wants = survey["Wants"].str.split(";").explode().to_frame("Language").assign(wants=True)
has = languages.to_frame("Language").assign(has=True)
both = has.reset_index().merge(wants.reset_index(), on=["ResponseId", "Language"], how="outer")
both = both.dropna(subset=["Language"])
loved = both.groupby("Language")[["has", "wants"]].count()
kept = both[both["has"].notna() & both["wants"].notna()].groupby("Language").size()
loved["loved"] = (kept / loved["has"]).round(4)
print(loved.sort_values("loved", ascending=False).head())

# %% Opinions
scale = ["Strongly disagree", "Disagree", "Neutral", "Agree", "Strongly agree"]
opinions = [name for name in survey.columns if name.startswith("Q")]
numbers = survey[opinions].apply(lambda c: c.map({text: i + 1 for i, text in enumerate(scale)}))
print(numbers.agg(["mean", "std", "count"]).round(3))
print(numbers.corr().round(3))
long = survey[opinions].melt(ignore_index=False, var_name="question", value_name="answer").dropna()
long["answer"] = pd.Categorical(long["answer"], categories=scale, ordered=True)
shares = long.groupby("question")["answer"].value_counts(normalize=True, sort=False).unstack()
print(shares.round(3))
survey["Score"] = numbers.mean(axis=1).round(2)
print(survey["Score"].describe())
print(survey.nsmallest(3, ["Score", "HowMany"])[["Country", "Score", "HowMany"]])

# %% Countries
countries = survey["Country"].value_counts()
big = countries[countries > countries.mean()].index
survey["Place"] = survey["Country"].where(survey["Country"].isin(big), "Other")
print(
    survey.pivot_table(
        index="Place",
        columns="Level",
        values="Salary",
        aggfunc="median",
        margins=True,
        margins_name="All",
        observed=False,
    ).round(0)
)
print(pd.crosstab(survey["Place"], survey["Remote"], normalize="index").round(3))
top = survey.groupby("Place")["Languages"].apply(lambda s: s.str.split(";").explode().value_counts().index[0])
print(top)
summary = survey.groupby("Place").agg(
    people=("Age", "size"),
    remote=("Remote", lambda s: (s == "Remote").mean()),
    spread=("Salary", lambda s: s.quantile(0.9) / s.quantile(0.1)),
    countries=("Country", "unique"),
)
print(summary.drop(columns="countries").round(3))
print(summary["countries"].str.len().to_dict())

# %% Education and work
survey["Education"] = survey["Education"].str.replace(r"\s*\(.*\)", "", regex=True).str.strip().str.capitalize()
print(survey["Education"].value_counts(dropna=False))
survey["Employment"] = survey["Employment"].astype("category")
print(survey["Employment"].cat.categories.tolist(), survey["Employment"].cat.codes.max())
wide = survey.set_index(["Education", "Employment"], append=True)["Salary"].dropna()
print(wide.groupby(level=["Education", "Employment"], observed=True).median().unstack())
print(survey.groupby(["Education", "Remote"], dropna=False).size().sort_values(ascending=False, kind="stable").head(6))
full = survey.loc[survey["Employment"].astype(str).str.contains("full", case=False)]
print(len(full), full["Salary"].sem().round(3))

# %% Comments
comments = survey["Comment"].dropna()
print(len(comments), comments.str.len().mean())
words = comments.str.lower().str.findall(r"[a-z']{4,}").explode()
print(words.value_counts().head(6))
print(comments[comments.str.contains(r"\b(?:love|great)\b", case=False)].count(), comments.str.isupper().sum())

# %% Writing
survey.drop(columns=["Comment", *opinions]).to_parquet("answers.parquet")
paid.groupby(["Country", "Language"])["Salary"].median().unstack().round(2).to_csv("salaries.csv")
