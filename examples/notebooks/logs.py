"""A web server's log as lines of text: parsing, errors, slow pages, sessions, robots and campaigns."""

# %% Imports
import pandas as pd

# %% Reading
raw = pd.read_csv("access.log", sep="\t", header=None, names=["line"])
print(len(raw))
print(raw["line"].iloc[0])
pattern = (
    r'^(?P<host>\S+) \S+ (?P<user>\S+) \[(?P<time>[^\]]+)\] "(?P<method>[A-Z]+) (?P<url>\S+) [^"]*" '
    r'(?P<status>\d{3}) (?P<size>\d+|-) "(?P<referrer>[^"]*)" "(?P<agent>[^"]*)"$'
)
log = raw["line"].str.extract(pattern)
print(log.head(3).T)
bad = log["host"].isna()
print("not parsed:", bad.sum())
log = log[~bad].reset_index(drop=True)

# %% Types
log["time"] = pd.to_datetime(log["time"], format="%d/%b/%Y:%H:%M:%S %z", utc=True)
log["status"] = log["status"].astype("int16")
log["size"] = pd.to_numeric(log["size"], errors="coerce").fillna(0).astype("int64")
log["user"] = log["user"].replace("-", pd.NA)
log["method"] = log["method"].astype("category")
print(log.dtypes)
print(log["user"].notna().mean().round(4), log["time"].min(), log["time"].max())

# %% Pages
parts = log["url"].str.split("?", n=1, expand=True)
log["path"], log["query"] = parts[0], parts[1]
log["section"] = log["path"].str.split("/").str[1].replace("", "home")
log["extension"] = log["path"].str.extract(r"\.(\w+)$", expand=False).fillna("page")
print(log["section"].value_counts().head(8))
print(log.groupby("extension")["size"].agg(["count", "sum", "mean"]).round(1).sort_values("sum", ascending=False))
pages = log[log["extension"] == "page"]
print(pages["path"].nunique(), len(pages))
print(pages["path"].value_counts(normalize=True).head(5).round(4))

# %% Status
log["class"] = log["status"].floordiv(100).map({2: "ok", 3: "redirect", 4: "client error", 5: "server error"})
print(log["class"].value_counts())
print(pd.crosstab(log["section"], log["class"]))
errors = log.query("status >= 500")
worst = errors.groupby("path").size().nlargest(5)
print(worst)
rate = log.assign(failed=log["status"].ge(400)).groupby("path")["failed"].agg(["mean", "size"])
print(rate[rate["size"] > 20].sort_values(["mean", "size"], ascending=False).head().round(4))
missing = log.loc[log["status"].eq(404), ["path", "referrer"]].drop_duplicates()
print(len(missing))

# %% Time
by_hour = (
    log.set_index("time").resample("h").agg({"size": "sum", "host": "nunique", "status": lambda s: (s >= 500).sum()})
)
print(by_hour.head())
print(by_hour["host"].rolling(6).max().tail(3))
log["hour"] = log["time"].dt.hour
log["date"] = log["time"].dt.floor("D")
heat = log.pivot_table(index="hour", columns="date", values="size", aggfunc="count", fill_value=0)
print(heat.iloc[:5, :4])
print(heat.sum().idxmax(), heat.sum(axis=1).idxmax())
night = log[(log["hour"] < 6) | (log["hour"] >= 23)]
print(len(night), night["host"].nunique())

# %% Robots
robots = log["agent"].str.contains("bot|crawler|spider", case=False, regex=True)
print(robots.sum(), robots.mean().round(4))
log["agent_name"] = log["agent"].str.extract(r"^(\w+)/[\d.]+", expand=False).fillna("other").str.lower()
print(log.groupby("agent_name")["host"].nunique().sort_values(ascending=False).head())
people = log[~robots].copy()
asked = log.loc[log["path"].str.endswith("robots.txt"), "host"].unique()
print(len(asked), people["host"].isin(asked).sum())
people = people[~people["host"].isin(asked)]

# %% Sessions
people = people.sort_values(["host", "time"], kind="stable")
pause = people.groupby("host")["time"].diff()
people["session"] = (pause.isna() | (pause > pd.Timedelta("30min"))).cumsum()
sessions = people.groupby("session").agg(
    host=("host", "first"),
    start=("time", "min"),
    end=("time", "max"),
    hits=("url", "size"),
    pages=("path", "nunique"),
    entry=("path", "first"),
    exit=("path", "last"),
    bytes=("size", "sum"),
)
sessions["minutes"] = (sessions["end"] - sessions["start"]).dt.total_seconds().div(60)
print(sessions.head())
print(sessions[["hits", "pages", "minutes"]].describe().round(2))
print(sessions["entry"].value_counts().head(3), sessions["exit"].value_counts().head(3))
print("bounced:", sessions["hits"].eq(1).mean().round(4))
print(sessions.groupby("host").size().value_counts().sort_index().head())
people["next"] = people.groupby("session")["section"].shift(-1)
steps = people.dropna(subset=["next"]).groupby(["section", "next"]).size().unstack(fill_value=0)
print(steps.div(steps.sum(axis=1), axis=0).round(3).iloc[:4, :4])

# %% Queries
params = log["query"].dropna().str.split("&").explode()
pairs = params.str.split("=", n=1, expand=True).set_axis(["key", "value"], axis=1)
print(pairs["key"].value_counts())
wide = pairs[~pairs.index.duplicated()].join(log[["hour", "status"]])
print(wide.groupby("key")["status"].mean().round(2))
searched = pairs.loc[pairs["key"] == "q", "value"].str.replace("+", " ", regex=False).str.strip()
print(searched.value_counts().head(5))
print(searched.str.split().str.len().value_counts().sort_index())
campaign = pairs[pairs["key"].str.startswith("utm_")].groupby(["key", "value"]).size()
print(campaign)

# %% Referrers
site = log["referrer"].str.extract(r"https?://([^/]+)", expand=False)
log["site"] = site.str.removeprefix("www.").fillna("direct")
top = log["site"].value_counts().nlargest(4).index
log["source"] = log["site"].where(log["site"].isin(top), "other")
print(
    log.groupby("source")
    .agg(hits=("url", "size"), hosts=("host", "nunique"), failed=("status", lambda s: (s >= 400).mean()))
    .round(4)
)
first_seen = log.sort_values("time").drop_duplicates("host")[["host", "source", "date"]]
print(first_seen.groupby(["date", "source"]).size().unstack().fillna(0).astype(int).head())

# %% Addresses
octets = log["host"].str.split(".", expand=True).iloc[:, :2].astype("Int64")
print(octets.describe().loc[["min", "max"]])
log["network"] = octets[0].astype(str) + "." + octets[1].astype(str)
heavy = log.groupby("network")["size"].sum().sort_values(ascending=False)
print(heavy.head(3), (heavy.cumsum() / heavy.sum()).lt(0.8).sum())

# %% Writing
sessions.reset_index().to_csv("sessions.csv", index=False)
log.drop(columns=["query", "hour"]).to_parquet("log.parquet")
