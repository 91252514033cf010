"""Reviews of products: cleaning of text, words, features, duplicates and ratings."""

# %% Imports
import numpy as np
import pandas as pd

# %% Reading
reviews = pd.read_json("reviews.jsonl", lines=True)
products = pd.read_parquet("products.parquet")
print(reviews.shape, products.shape)
print(reviews.head(3))
print(reviews.dtypes)
print(reviews["rating"].value_counts().sort_index())

# %% Cleaning
reviews["text"] = reviews["text"].fillna("").str.strip()
reviews["title"] = reviews["title"].str.replace(r"\s+", " ", regex=True).str.title()
reviews["clean"] = (
    reviews["text"].str.lower().str.replace(r"<[^>]+>", " ", regex=True).str.replace(r"[^a-z\s']", " ", regex=True)
)
reviews["clean"] = reviews["clean"].str.split().str.join(" ")
print(reviews[["title", "clean"]].head(4))
empty = reviews["clean"].eq("")
print(empty.sum())
reviews = reviews[~empty]
copies = reviews.duplicated(["product", "clean"], keep=False)
print(copies.sum(), reviews[copies]["user"].nunique())
reviews = reviews.drop_duplicates(["product", "clean"]).reset_index(drop=True)
print(len(reviews))

# %% Features of a text
reviews["characters"] = reviews["text"].str.len()
reviews["words"] = reviews["clean"].str.count(r"\S+")
reviews["exclaims"] = reviews["text"].str.count("!")
reviews["capitals"] = reviews["text"].str.findall(r"[A-Z]{2,}").str.len()
reviews["html"] = reviews["text"].str.contains("<br>", regex=False)
reviews["first_word"] = reviews["clean"].str.partition(" ")[0]
reviews["mean_word"] = reviews["clean"].str.replace(" ", "").str.len() / reviews["words"]
features = ["characters", "words", "exclaims", "capitals", "html", "mean_word"]
print(reviews[features].describe().round(3))
print(reviews.groupby("rating")[features].mean().round(3))
print(reviews[[*features, "rating"]].corr()["rating"].round(4))
print(reviews["first_word"].value_counts().head(5))
print(reviews.loc[reviews["words"].idxmax(), ["product", "words"]].to_dict())

# %% Words
tokens = reviews[["clean", "rating"]].assign(word=reviews["clean"].str.split()).explode("word").drop(columns="clean")
print(len(tokens), tokens["word"].nunique())
stop = {"the", "a", "is", "and", "it", "this", "i", "to", "of"}
tokens = tokens[~tokens["word"].isin(stop)]
frequency = tokens["word"].value_counts()
print(frequency.head(10))
print(frequency.rank(method="first").tail(3), (frequency.cumsum() / frequency.sum()).searchsorted(0.5))
mean_rating = tokens.groupby("word")["rating"].agg(["mean", "count"])
telling = mean_rating[mean_rating["count"] >= mean_rating["count"].quantile(0.25)].sort_values(["mean", "count"])
print(telling.head(5).round(3), telling.tail(5).round(3))
by_rating = tokens.groupby(["rating", "word"]).size().rename("n").reset_index()
by_rating["place"] = by_rating.groupby("rating")["n"].rank(method="first", ascending=False)
print(by_rating[by_rating["place"] <= 2].sort_values(["rating", "place"]))

# %% Pairs of words
tokens["next"] = tokens.groupby(level=0)["word"].shift(-1)
pairs = tokens.dropna(subset=["next"])
bigrams = (pairs["word"] + " " + pairs["next"]).value_counts()
print(bigrams.head(6))
print(bigrams[bigrams.index.str.startswith("not ")].head(4))

# %% Term weights
tf = tokens.reset_index(names="document").groupby(["document", "word"]).size().rename("n").reset_index()
df = tf.groupby("word")["document"].nunique().rename("documents")
tf = tf.merge(df, on="word")
tf["weight"] = tf["n"] * np.log(len(reviews) / tf["documents"])
tf["norm"] = np.sqrt(tf["weight"].pow(2).groupby(tf["document"]).transform("sum"))
tf["weight"] = (tf["weight"] / tf["norm"].where(tf["norm"] > 0)).fillna(0)
print(tf.head().round(4))
key = tf.sort_values(["document", "weight", "word"], ascending=[True, False, True]).groupby("document").head(3)
keywords = key.groupby("document")["word"].agg(", ".join)
print(keywords.head())
reviews["keywords"] = keywords
print(reviews["keywords"].isna().sum())

# %% Users
users = reviews.groupby("user").agg(
    n=("rating", "size"),
    mean=("rating", "mean"),
    spread=("rating", "std"),
    longest=("words", "max"),
    said=("title", list),
)
print(users.drop(columns="said").describe().round(3))
print(users["said"].str.len().max(), users["said"].str[0].head(3).tolist())
strict = users.query("n >= 3 and mean < 2.5")
print(len(strict))
bias = reviews["rating"] - reviews.groupby("product")["rating"].transform("mean")
print(bias.groupby(reviews["user"]).mean().describe().round(4))

# %% Products
rated = reviews.merge(products, left_on="product", right_on="asin", how="left")
print(rated["brand"].isna().sum(), rated["category"].cat.categories.tolist())
rated["depth"] = rated["tags"].map(len, na_action="ignore")
print(rated["depth"].value_counts().sort_index())
tagged = rated[["tags", "rating"]].explode("tags").groupby("tags")["rating"].agg(["mean", "size"])
print(tagged.sort_values("size", ascending=False, kind="stable").head().round(3))
by_brand = rated.groupby("brand")["rating"].agg(["mean", "count"])
overall = rated["rating"].mean()
by_brand["shrunk"] = (by_brand["mean"] * by_brand["count"] + overall * 20) / (by_brand["count"] + 20)
print(by_brand.sort_values("shrunk", ascending=False).head(4).round(4))
stars = rated.groupby("category", observed=True)["rating"].value_counts(normalize=True).unstack().round(3)
print(stars)

# %% Time
reviews["date"] = pd.to_datetime(reviews["unix_time"], unit="s")
monthly = reviews.groupby(reviews["date"].dt.to_period("M"))["rating"].agg(["size", "mean"])
print(monthly.head(4).round(3))
reviews["quarter"] = reviews["date"].dt.year.astype(str) + "Q" + reviews["date"].dt.quarter.astype(str)
print(reviews.pivot_table(index="quarter", columns="rating", values="user", aggfunc="nunique").tail(3))
print(reviews["helpful"].str.extract(r"(\d+)/(\d+)").astype(int).sum().to_list())

# %% A model by hand
positive = set(telling.tail(10).index)
reviews["positive"] = reviews["clean"].map(lambda text: sum(word in positive for word in text.split()))
reviews["guess"] = np.where(reviews["positive"] > reviews["positive"].median(), "good", "bad")
reviews["truth"] = pd.cut(reviews["rating"], [0, 3, 5], labels=["bad", "good"]).astype(str)
print(pd.crosstab(reviews["truth"], reviews["guess"], margins=True))
print((reviews["truth"] == reviews["guess"]).mean().round(4))
print(pd.get_dummies(reviews["quarter"]).sum().head(3))

# %% Writing
reviews.drop(columns=["text", "clean"]).to_csv("features.csv", index=False)
tf.to_parquet("weights.parquet", index=False)
