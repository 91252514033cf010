"""An online shop: revenue, customers by recency and frequency, cohorts, baskets, returns and stock."""

# %% Imports
import pandas as pd

# %% Reading
items = pd.read_csv("order_items.csv")
orders = pd.read_csv("orders.csv", dtype={"customer_id": "Int64"})
customers = pd.read_csv("customers.csv", parse_dates=["signed_up"])
products = pd.read_csv("products.csv")
returned = pd.read_csv("returns.csv")
for name, frame in {"items": items, "orders": orders, "customers": customers, "products": products}.items():
    print(name, frame.shape, frame.isna().sum().to_dict())
print(orders.head(3))

# %% Cleaning
orders["ordered_at"] = pd.to_datetime(orders["ordered_at"], format="%m/%d/%Y %H:%M")
orders["status"] = orders["status"].str.strip().str.lower().replace({"canceled": "cancelled", "complete": "completed"})
print(orders["status"].value_counts())
orders["channel"] = orders["channel"].fillna("unknown").astype("category")
orders["country"] = orders["country"].str.upper().str.slice(0, 2)
products["price"] = products["price"].str.lstrip("€").str.replace(",", "").astype(float)
products[["department", "line"]] = products["category"].str.split(" > ", expand=True)
print(products.head(3))
valid = orders[orders["status"].ne("cancelled") & orders["customer_id"].notna()].copy()
valid["customer_id"] = valid["customer_id"].astype("int64")
print(len(orders), len(valid))

# %% Revenue
sales = items.merge(valid, on="order_id").merge(products, on="product_id", how="left", suffixes=("", "_list"))
sales["amount"] = sales["quantity"] * sales["price"] * (1 - sales["discount"].fillna(0))
print(sales[["order_id", "product_id", "quantity", "price", "amount"]].head())
print(round(sales["amount"].sum(), 4))
monthly = sales.groupby(sales["ordered_at"].dt.to_period("M"))["amount"].sum()
print(monthly.round(4))
print(monthly.pct_change().round(4).tail(4))
totals = sales.groupby(["department", "channel"], observed=True)["amount"].sum().unstack()
print(totals.round(4))
print((totals / totals.sum()).round(3))
print(totals.stack().nlargest(3).round(4))

# %% Products
by_product = sales.groupby("product_id").agg(
    sold=("quantity", "sum"), revenue=("amount", "sum"), buyers=("customer_id", "nunique")
)
by_product = by_product.sort_values("revenue", ascending=False, kind="stable")
by_product["share"] = by_product["revenue"].cumsum() / by_product["revenue"].sum()
by_product["class"] = pd.cut(by_product["share"], [0, 0.8, 0.95, 1.01], labels=list("ABC"))
print(by_product.head(5).round(4))
print(by_product["class"].value_counts().sort_index())
never = products[~products["product_id"].isin(by_product.index)]
print(len(never), never["department"].value_counts().to_dict())
best = by_product.join(products.set_index("product_id")[["title", "department"]]).groupby("department").head(2)
print(best[["title", "department", "revenue"]].round(4))

# %% Customers
now = valid["ordered_at"].max() + pd.Timedelta(days=1)
rfm = sales.groupby("customer_id").agg(
    recency=("ordered_at", lambda s: (now - s.max()).days),
    frequency=("order_id", "nunique"),
    money=("amount", "sum"),
)
print(rfm.describe().round(2))
rfm["r"] = pd.qcut(rfm["recency"], 4, labels=[4, 3, 2, 1]).astype(int)
rfm["f"] = pd.qcut(rfm["frequency"].rank(method="first"), 4, labels=[1, 2, 3, 4]).astype(int)
rfm["m"] = pd.qcut(rfm["money"], 4, labels=[1, 2, 3, 4]).astype(int)
rfm["score"] = rfm[["r", "f", "m"]].sum(axis=1)
rfm["segment"] = "regular"
rfm.loc[rfm["score"] >= 10, "segment"] = "best"
rfm.loc[rfm["score"] <= 4, "segment"] = "lost"
rfm.loc[(rfm["r"] == 4) & (rfm["f"] == 1), "segment"] = "new"
print(rfm.groupby("segment").agg(["mean", "count"])["money"].round(2))
print(rfm["segment"].value_counts(normalize=True).round(3))

# %% Cohorts
valid = valid.sort_values(["customer_id", "ordered_at", "order_id"])
valid["month"] = valid["ordered_at"].dt.to_period("M")
valid["cohort"] = valid.groupby("customer_id")["ordered_at"].transform("min").dt.to_period("M")
valid["age"] = (
    (valid["month"].dt.year - valid["cohort"].dt.year) * 12 + valid["month"].dt.month - valid["cohort"].dt.month
)
cohorts = valid.groupby(["cohort", "age"])["customer_id"].nunique().unstack("age")
print(cohorts.iloc[:5, :6])
retention = cohorts.divide(cohorts[0], axis=0)
print(retention.iloc[:5, :6].round(3))
print(retention.mean().round(4).head(6))

# %% Between orders
valid["nth"] = valid.groupby("customer_id").cumcount().add(1)
valid["wait"] = valid.groupby("customer_id")["ordered_at"].diff().dt.days
print(valid.groupby("nth")["wait"].agg(["count", "median", "mean"]).head(5).round(2))
second = valid[valid["nth"] == 2].set_index("customer_id")["wait"]
print(second.le(30).mean().round(4))
value = sales.groupby("order_id")["amount"].sum().rename("value")
valid = valid.merge(value, left_on="order_id", right_index=True, how="left")
valid["spent_before"] = valid.groupby("customer_id")["value"].cumsum() - valid["value"]
print(valid[["customer_id", "nth", "value", "spent_before"]].head(6).round(2))
first_channel = valid.groupby("customer_id")["channel"].first()
print(first_channel.value_counts())

# %% Baskets
baskets = items[["order_id", "product_id"]].drop_duplicates()
baskets = baskets[baskets["product_id"].isin(by_product.index[:30])]
pairs = baskets.merge(baskets, on="order_id", suffixes=("_a", "_b")).query("product_id_a < product_id_b")
together = pairs.groupby(["product_id_a", "product_id_b"]).size().rename("n").reset_index()
together = together.sort_values(["n", "product_id_a", "product_id_b"], ascending=[False, True, True])
print(together.head(5))
support = baskets["product_id"].value_counts()
together["lift"] = together["n"] * baskets["order_id"].nunique()
together["lift"] /= together["product_id_a"].map(support) * together["product_id_b"].map(support)
print(together.nlargest(3, "lift").round(4))

# %% Returns
back = returned.merge(items, on=["order_id", "product_id"], how="left", indicator=True)
print(back["_merge"].value_counts().to_dict())
sales = sales.merge(returned.assign(is_returned=True), on=["order_id", "product_id"], how="left")
sales["is_returned"] = sales["is_returned"].eq(True)
print(sales.groupby("department")["is_returned"].mean().round(4))
print(sales.groupby("is_returned")[["amount", "quantity", "discount"]].mean().round(3))
reasons = sales.dropna(subset=["reason"]).groupby("department")["reason"].agg(lambda s: s.mode().iat[0])
print(reasons)

# %% People
buyers = customers.merge(rfm, left_on="customer_id", right_index=True, how="left")
buyers["has_bought"] = buyers["money"].notna()
print(buyers.groupby(buyers["signed_up"].dt.year)["has_bought"].mean().round(4))
buyers["domain"] = buyers["email"].str.split("@").str[-1]
print(buyers.groupby("domain", as_index=False)["money"].sum().sort_values("money", ascending=False).round(4))
print(buyers["segment"].fillna("never").value_counts())
delay = valid.drop_duplicates("customer_id").set_index("customer_id")["ordered_at"]
delay = customers.set_index("customer_id")["signed_up"].rsub(delay).dt.days
print(delay.describe().round(2))

# %% Weeks and hours
weekly = sales.resample("W-MON", on="ordered_at")["amount"].sum()
print(weekly.head(4).round(4), weekly.ewm(span=4).mean().iloc[-1].round(4))
print(
    sales.groupby([sales["ordered_at"].dt.hour // 6, sales["ordered_at"].dt.day_of_week])["amount"]
    .sum()
    .unstack()
    .round(4)
)
first_half = sales[sales["ordered_at"].dt.month <= 6].assign(half="first")
second_half = sales[sales["ordered_at"].dt.month > 6].assign(half="second")
halves = pd.concat([first_half, second_half], ignore_index=True)
print(halves.pivot_table(index="line", columns="half", values="amount", aggfunc=["sum", "mean"]).round(4).head())

# %% Writing
rfm.to_csv("segments.csv")
halves.drop(columns=["category", "title"]).to_parquet("sales.parquet", index=False)
