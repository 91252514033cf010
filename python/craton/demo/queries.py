"""The 22 TPC-H queries as ordinary pandas code.

Every function takes the module to run under, `pandas` or `craton.pandas`, and the folder of the Parquet files. The code
is the same for both: it has no column lists, no hints and no lazy variants. A result has the columns and the row order of
the query's SQL text, with the specification's validation parameters, and a default index.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def q01(pd: Any, data: str) -> Any:
    """Pricing summary report."""
    lineitem = pd.read_parquet(f"{data}/lineitem.parquet")
    shipped = lineitem[lineitem["l_shipdate"] <= pd.Timestamp("1998-09-02")]
    shipped["disc_price"] = shipped["l_extendedprice"] * (1 - shipped["l_discount"])
    shipped["charge"] = shipped["disc_price"] * (1 + shipped["l_tax"])
    summary = shipped.groupby(["l_returnflag", "l_linestatus"], as_index=False).agg(
        sum_qty=("l_quantity", "sum"),
        sum_base_price=("l_extendedprice", "sum"),
        sum_disc_price=("disc_price", "sum"),
        sum_charge=("charge", "sum"),
        avg_qty=("l_quantity", "mean"),
        avg_price=("l_extendedprice", "mean"),
        avg_disc=("l_discount", "mean"),
        count_order=("l_orderkey", "count"),
    )
    return summary.sort_values(["l_returnflag", "l_linestatus"]).reset_index(drop=True)


def q02(pd: Any, data: str) -> Any:
    """Minimum cost supplier."""
    region = pd.read_parquet(f"{data}/region.parquet")
    nation = pd.read_parquet(f"{data}/nation.parquet")
    supplier = pd.read_parquet(f"{data}/supplier.parquet")
    part = pd.read_parquet(f"{data}/part.parquet")
    partsupp = pd.read_parquet(f"{data}/partsupp.parquet")

    part = part[(part["p_size"] == 15) & part["p_type"].str.endswith("BRASS")]
    europe = nation.merge(region[region["r_name"] == "EUROPE"], left_on="n_regionkey", right_on="r_regionkey")
    offers = (
        part.merge(partsupp, left_on="p_partkey", right_on="ps_partkey")
        .merge(supplier, left_on="ps_suppkey", right_on="s_suppkey")
        .merge(europe, left_on="s_nationkey", right_on="n_nationkey")
    )
    cheapest = offers.groupby("p_partkey")["ps_supplycost"].transform("min")
    best = offers[offers["ps_supplycost"] == cheapest]
    best = best.sort_values(["s_acctbal", "n_name", "s_name", "p_partkey"], ascending=[False, True, True, True])
    columns = ["s_acctbal", "s_name", "n_name", "p_partkey", "p_mfgr", "s_address", "s_phone", "s_comment"]
    return best[columns].head(100).reset_index(drop=True)


def q03(pd: Any, data: str) -> Any:
    """Shipping priority."""
    customer = pd.read_parquet(f"{data}/customer.parquet")
    orders = pd.read_parquet(f"{data}/orders.parquet")
    lineitem = pd.read_parquet(f"{data}/lineitem.parquet")

    day = pd.Timestamp("1995-03-15")
    customer = customer[customer["c_mktsegment"] == "BUILDING"]
    orders = orders[orders["o_orderdate"] < day]
    lineitem = lineitem[lineitem["l_shipdate"] > day]
    items = customer.merge(orders, left_on="c_custkey", right_on="o_custkey").merge(
        lineitem, left_on="o_orderkey", right_on="l_orderkey"
    )
    items["revenue"] = items["l_extendedprice"] * (1 - items["l_discount"])
    unshipped = items.groupby(["l_orderkey", "o_orderdate", "o_shippriority"], as_index=False)["revenue"].sum()
    unshipped = unshipped.sort_values(["revenue", "o_orderdate"], ascending=[False, True]).head(10)
    return unshipped[["l_orderkey", "revenue", "o_orderdate", "o_shippriority"]].reset_index(drop=True)


def q04(pd: Any, data: str) -> Any:
    """Order priority checking."""
    orders = pd.read_parquet(f"{data}/orders.parquet")
    lineitem = pd.read_parquet(f"{data}/lineitem.parquet")

    orders = orders[
        (orders["o_orderdate"] >= pd.Timestamp("1993-07-01")) & (orders["o_orderdate"] < pd.Timestamp("1993-10-01"))
    ]
    late = lineitem[lineitem["l_commitdate"] < lineitem["l_receiptdate"]]
    delayed = orders[orders["o_orderkey"].isin(late["l_orderkey"])]
    counts = delayed.groupby("o_orderpriority").size().reset_index(name="order_count")
    return counts.sort_values("o_orderpriority").reset_index(drop=True)


def q05(pd: Any, data: str) -> Any:
    """Local supplier volume."""
    region = pd.read_parquet(f"{data}/region.parquet")
    nation = pd.read_parquet(f"{data}/nation.parquet")
    customer = pd.read_parquet(f"{data}/customer.parquet")
    supplier = pd.read_parquet(f"{data}/supplier.parquet")
    orders = pd.read_parquet(f"{data}/orders.parquet")
    lineitem = pd.read_parquet(f"{data}/lineitem.parquet")

    region = region[region["r_name"] == "ASIA"]
    orders = orders[
        (orders["o_orderdate"] >= pd.Timestamp("1994-01-01")) & (orders["o_orderdate"] < pd.Timestamp("1995-01-01"))
    ]
    sales = (
        region.merge(nation, left_on="r_regionkey", right_on="n_regionkey")
        .merge(customer, left_on="n_nationkey", right_on="c_nationkey")
        .merge(orders, left_on="c_custkey", right_on="o_custkey")
        .merge(lineitem, left_on="o_orderkey", right_on="l_orderkey")
        .merge(supplier, left_on=["l_suppkey", "c_nationkey"], right_on=["s_suppkey", "s_nationkey"])
    )
    sales["revenue"] = sales["l_extendedprice"] * (1 - sales["l_discount"])
    revenue = sales.groupby("n_name", as_index=False)["revenue"].sum()
    return revenue.sort_values("revenue", ascending=False).reset_index(drop=True)


def q06(pd: Any, data: str) -> Any:
    """Forecasting revenue change."""
    lineitem = pd.read_parquet(f"{data}/lineitem.parquet")
    chosen = lineitem[
        (lineitem["l_shipdate"] >= pd.Timestamp("1994-01-01"))
        & (lineitem["l_shipdate"] < pd.Timestamp("1995-01-01"))
        & lineitem["l_discount"].between(0.05, 0.07)
        & (lineitem["l_quantity"] < 24)
    ]
    revenue = (chosen["l_extendedprice"] * chosen["l_discount"]).sum()
    return pd.DataFrame({"revenue": [revenue]})


def q07(pd: Any, data: str) -> Any:
    """Volume shipping."""
    nation = pd.read_parquet(f"{data}/nation.parquet")
    supplier = pd.read_parquet(f"{data}/supplier.parquet")
    customer = pd.read_parquet(f"{data}/customer.parquet")
    orders = pd.read_parquet(f"{data}/orders.parquet")
    lineitem = pd.read_parquet(f"{data}/lineitem.parquet")

    nation = nation[nation["n_name"].isin(["FRANCE", "GERMANY"])]
    suppliers = supplier.merge(nation, left_on="s_nationkey", right_on="n_nationkey")
    suppliers = suppliers.rename(columns={"n_name": "supp_nation"})[["s_suppkey", "supp_nation"]]
    customers = customer.merge(nation, left_on="c_nationkey", right_on="n_nationkey")
    customers = customers.rename(columns={"n_name": "cust_nation"})[["c_custkey", "cust_nation"]]
    lineitem = lineitem[lineitem["l_shipdate"].between(pd.Timestamp("1995-01-01"), pd.Timestamp("1996-12-31"))]

    shipping = (
        lineitem.merge(suppliers, left_on="l_suppkey", right_on="s_suppkey")
        .merge(orders, left_on="l_orderkey", right_on="o_orderkey")
        .merge(customers, left_on="o_custkey", right_on="c_custkey")
    )
    shipping = shipping[shipping["supp_nation"] != shipping["cust_nation"]]
    shipping["l_year"] = shipping["l_shipdate"].dt.year
    shipping["revenue"] = shipping["l_extendedprice"] * (1 - shipping["l_discount"])
    keys = ["supp_nation", "cust_nation", "l_year"]
    return shipping.groupby(keys, as_index=False)["revenue"].sum().sort_values(keys).reset_index(drop=True)


def q08(pd: Any, data: str) -> Any:
    """National market share."""
    region = pd.read_parquet(f"{data}/region.parquet")
    nation = pd.read_parquet(f"{data}/nation.parquet")
    part = pd.read_parquet(f"{data}/part.parquet")
    supplier = pd.read_parquet(f"{data}/supplier.parquet")
    customer = pd.read_parquet(f"{data}/customer.parquet")
    orders = pd.read_parquet(f"{data}/orders.parquet")
    lineitem = pd.read_parquet(f"{data}/lineitem.parquet")

    part = part[part["p_type"] == "ECONOMY ANODIZED STEEL"]
    america = nation.merge(region[region["r_name"] == "AMERICA"], left_on="n_regionkey", right_on="r_regionkey")
    customer = customer[customer["c_nationkey"].isin(america["n_nationkey"])]
    orders = orders[orders["o_orderdate"].between(pd.Timestamp("1995-01-01"), pd.Timestamp("1996-12-31"))]
    sales = (
        part.merge(lineitem, left_on="p_partkey", right_on="l_partkey")
        .merge(orders, left_on="l_orderkey", right_on="o_orderkey")
        .merge(customer, left_on="o_custkey", right_on="c_custkey")
        .merge(supplier, left_on="l_suppkey", right_on="s_suppkey")
        .merge(nation, left_on="s_nationkey", right_on="n_nationkey")
    )
    sales["o_year"] = sales["o_orderdate"].dt.year
    sales["volume"] = sales["l_extendedprice"] * (1 - sales["l_discount"])
    sales["brazil"] = sales["volume"].where(sales["n_name"] == "BRAZIL", 0.0)
    years = sales.groupby("o_year", as_index=False)[["brazil", "volume"]].sum()
    years["mkt_share"] = years["brazil"] / years["volume"]
    return years[["o_year", "mkt_share"]].sort_values("o_year").reset_index(drop=True)


def q09(pd: Any, data: str) -> Any:
    """Product type profit measure."""
    nation = pd.read_parquet(f"{data}/nation.parquet")
    part = pd.read_parquet(f"{data}/part.parquet")
    supplier = pd.read_parquet(f"{data}/supplier.parquet")
    partsupp = pd.read_parquet(f"{data}/partsupp.parquet")
    orders = pd.read_parquet(f"{data}/orders.parquet")
    lineitem = pd.read_parquet(f"{data}/lineitem.parquet")

    green = part[part["p_name"].str.contains("green")]
    sales = (
        green.merge(lineitem, left_on="p_partkey", right_on="l_partkey")
        .merge(partsupp, left_on=["l_partkey", "l_suppkey"], right_on=["ps_partkey", "ps_suppkey"])
        .merge(supplier, left_on="l_suppkey", right_on="s_suppkey")
        .merge(orders, left_on="l_orderkey", right_on="o_orderkey")
        .merge(nation, left_on="s_nationkey", right_on="n_nationkey")
        .rename(columns={"n_name": "nation"})
    )
    sales["o_year"] = sales["o_orderdate"].dt.year
    earned = sales["l_extendedprice"] * (1 - sales["l_discount"])
    sales["sum_profit"] = earned - sales["ps_supplycost"] * sales["l_quantity"]
    profit = sales.groupby(["nation", "o_year"], as_index=False)["sum_profit"].sum()
    return profit.sort_values(["nation", "o_year"], ascending=[True, False]).reset_index(drop=True)


def q10(pd: Any, data: str) -> Any:
    """Returned item reporting."""
    nation = pd.read_parquet(f"{data}/nation.parquet")
    customer = pd.read_parquet(f"{data}/customer.parquet")
    orders = pd.read_parquet(f"{data}/orders.parquet")
    lineitem = pd.read_parquet(f"{data}/lineitem.parquet")

    orders = orders[
        (orders["o_orderdate"] >= pd.Timestamp("1993-10-01")) & (orders["o_orderdate"] < pd.Timestamp("1994-01-01"))
    ]
    returned = lineitem[lineitem["l_returnflag"] == "R"]
    lost = (
        customer.merge(orders, left_on="c_custkey", right_on="o_custkey")
        .merge(returned, left_on="o_orderkey", right_on="l_orderkey")
        .merge(nation, left_on="c_nationkey", right_on="n_nationkey")
    )
    lost["revenue"] = lost["l_extendedprice"] * (1 - lost["l_discount"])
    keys = ["c_custkey", "c_name", "c_acctbal", "c_phone", "n_name", "c_address", "c_comment"]
    customers = lost.groupby(keys, as_index=False)["revenue"].sum()
    customers = customers.sort_values("revenue", ascending=False).head(20)
    columns = ["c_custkey", "c_name", "revenue", "c_acctbal", "n_name", "c_address", "c_phone", "c_comment"]
    return customers[columns].reset_index(drop=True)


def q11(pd: Any, data: str) -> Any:
    """Important stock identification."""
    nation = pd.read_parquet(f"{data}/nation.parquet")
    supplier = pd.read_parquet(f"{data}/supplier.parquet")
    partsupp = pd.read_parquet(f"{data}/partsupp.parquet")

    german = supplier.merge(nation[nation["n_name"] == "GERMANY"], left_on="s_nationkey", right_on="n_nationkey")
    stock = partsupp.merge(german, left_on="ps_suppkey", right_on="s_suppkey")
    stock["value"] = stock["ps_supplycost"] * stock["ps_availqty"]
    fraction = 1 / len(supplier)  # 0.0001 at scale factor 1, and less in proportion at larger ones.
    values = stock.groupby("ps_partkey", as_index=False)["value"].sum()
    values = values[values["value"] > stock["value"].sum() * fraction]
    return values.sort_values("value", ascending=False).reset_index(drop=True)


def q12(pd: Any, data: str) -> Any:
    """Shipping modes and order priority."""
    orders = pd.read_parquet(f"{data}/orders.parquet")
    lineitem = pd.read_parquet(f"{data}/lineitem.parquet")

    received = lineitem[
        lineitem["l_shipmode"].isin(["MAIL", "SHIP"])
        & (lineitem["l_commitdate"] < lineitem["l_receiptdate"])
        & (lineitem["l_shipdate"] < lineitem["l_commitdate"])
        & (lineitem["l_receiptdate"] >= pd.Timestamp("1994-01-01"))
        & (lineitem["l_receiptdate"] < pd.Timestamp("1995-01-01"))
    ]
    lines = received.merge(orders, left_on="l_orderkey", right_on="o_orderkey")
    urgent = lines["o_orderpriority"].isin(["1-URGENT", "2-HIGH"])
    lines = lines.assign(high_line_count=urgent, low_line_count=~urgent)
    counts = lines.groupby("l_shipmode", as_index=False)[["high_line_count", "low_line_count"]].sum()
    return counts.sort_values("l_shipmode").reset_index(drop=True)


def q13(pd: Any, data: str) -> Any:
    """Customer distribution."""
    customer = pd.read_parquet(f"{data}/customer.parquet")
    orders = pd.read_parquet(f"{data}/orders.parquet")

    orders = orders[~orders["o_comment"].str.contains("special.*requests")]
    placed = customer.merge(orders, how="left", left_on="c_custkey", right_on="o_custkey")
    counts = placed.groupby("c_custkey", as_index=False).agg(c_count=("o_orderkey", "count"))
    distribution = counts.groupby("c_count", as_index=False).agg(custdist=("c_custkey", "count"))
    return distribution.sort_values(["custdist", "c_count"], ascending=False).reset_index(drop=True)


def q14(pd: Any, data: str) -> Any:
    """Promotion effect."""
    part = pd.read_parquet(f"{data}/part.parquet")
    lineitem = pd.read_parquet(f"{data}/lineitem.parquet")

    month = lineitem[
        (lineitem["l_shipdate"] >= pd.Timestamp("1995-09-01")) & (lineitem["l_shipdate"] < pd.Timestamp("1995-10-01"))
    ]
    sales = month.merge(part, left_on="l_partkey", right_on="p_partkey")
    revenue = sales["l_extendedprice"] * (1 - sales["l_discount"])
    promoted = revenue.where(sales["p_type"].str.startswith("PROMO"), 0.0)
    return pd.DataFrame({"promo_revenue": [100.0 * promoted.sum() / revenue.sum()]})


def q15(pd: Any, data: str) -> Any:
    """Top supplier."""
    supplier = pd.read_parquet(f"{data}/supplier.parquet")
    lineitem = pd.read_parquet(f"{data}/lineitem.parquet")

    quarter = lineitem[
        (lineitem["l_shipdate"] >= pd.Timestamp("1996-01-01")) & (lineitem["l_shipdate"] < pd.Timestamp("1996-04-01"))
    ]
    quarter["total_revenue"] = quarter["l_extendedprice"] * (1 - quarter["l_discount"])
    revenue = quarter.groupby("l_suppkey", as_index=False)["total_revenue"].sum()
    top = revenue[revenue["total_revenue"] == revenue["total_revenue"].max()]
    top = supplier.merge(top, left_on="s_suppkey", right_on="l_suppkey").sort_values("s_suppkey")
    return top[["s_suppkey", "s_name", "s_address", "s_phone", "total_revenue"]].reset_index(drop=True)


def q16(pd: Any, data: str) -> Any:
    """Parts/supplier relationship."""
    part = pd.read_parquet(f"{data}/part.parquet")
    supplier = pd.read_parquet(f"{data}/supplier.parquet")
    partsupp = pd.read_parquet(f"{data}/partsupp.parquet")

    part = part[
        (part["p_brand"] != "Brand#45")
        & ~part["p_type"].str.startswith("MEDIUM POLISHED")
        & part["p_size"].isin([49, 14, 23, 45, 19, 3, 36, 9])
    ]
    complaints = supplier[supplier["s_comment"].str.contains("Customer.*Complaints")]
    partsupp = partsupp[~partsupp["ps_suppkey"].isin(complaints["s_suppkey"])]
    offers = part.merge(partsupp, left_on="p_partkey", right_on="ps_partkey")
    keys = ["p_brand", "p_type", "p_size"]
    counts = offers.groupby(keys)["ps_suppkey"].nunique().reset_index(name="supplier_cnt")
    return counts.sort_values(["supplier_cnt", *keys], ascending=[False, True, True, True]).reset_index(drop=True)


def q17(pd: Any, data: str) -> Any:
    """Small-quantity-order revenue."""
    part = pd.read_parquet(f"{data}/part.parquet")
    lineitem = pd.read_parquet(f"{data}/lineitem.parquet")

    part = part[(part["p_brand"] == "Brand#23") & (part["p_container"] == "MED BOX")]
    items = part.merge(lineitem, left_on="p_partkey", right_on="l_partkey")
    average = items.groupby("p_partkey")["l_quantity"].transform("mean")
    small = items[items["l_quantity"] < 0.2 * average]
    return pd.DataFrame({"avg_yearly": [small["l_extendedprice"].sum() / 7.0]})


def q18(pd: Any, data: str) -> Any:
    """Large volume customer."""
    customer = pd.read_parquet(f"{data}/customer.parquet")
    orders = pd.read_parquet(f"{data}/orders.parquet")
    lineitem = pd.read_parquet(f"{data}/lineitem.parquet")

    quantity = lineitem.groupby("l_orderkey")["l_quantity"].sum()
    large = quantity[quantity > 300]
    items = (
        orders[orders["o_orderkey"].isin(large.index)]
        .merge(customer, left_on="o_custkey", right_on="c_custkey")
        .merge(lineitem, left_on="o_orderkey", right_on="l_orderkey")
    )
    keys = ["c_name", "c_custkey", "o_orderkey", "o_orderdate", "o_totalprice"]
    totals = items.groupby(keys, as_index=False).agg(total_qty=("l_quantity", "sum"))
    totals = totals.sort_values(["o_totalprice", "o_orderdate"], ascending=[False, True])
    return totals.head(100).reset_index(drop=True)


def q19(pd: Any, data: str) -> Any:
    """Discounted revenue."""
    part = pd.read_parquet(f"{data}/part.parquet")
    lineitem = pd.read_parquet(f"{data}/lineitem.parquet")

    delivered = lineitem[
        lineitem["l_shipmode"].isin(["AIR", "AIR REG"]) & (lineitem["l_shipinstruct"] == "DELIVER IN PERSON")
    ]
    items = delivered.merge(part, left_on="l_partkey", right_on="p_partkey")
    small = (
        (items["p_brand"] == "Brand#12")
        & items["p_container"].isin(["SM CASE", "SM BOX", "SM PACK", "SM PKG"])
        & items["l_quantity"].between(1, 11)
        & items["p_size"].between(1, 5)
    )
    medium = (
        (items["p_brand"] == "Brand#23")
        & items["p_container"].isin(["MED BAG", "MED BOX", "MED PKG", "MED PACK"])
        & items["l_quantity"].between(10, 20)
        & items["p_size"].between(1, 10)
    )
    large = (
        (items["p_brand"] == "Brand#34")
        & items["p_container"].isin(["LG CASE", "LG BOX", "LG PACK", "LG PKG"])
        & items["l_quantity"].between(20, 30)
        & items["p_size"].between(1, 15)
    )
    chosen = items[small | medium | large]
    return pd.DataFrame({"revenue": [(chosen["l_extendedprice"] * (1 - chosen["l_discount"])).sum()]})


def q20(pd: Any, data: str) -> Any:
    """Potential part promotion."""
    nation = pd.read_parquet(f"{data}/nation.parquet")
    part = pd.read_parquet(f"{data}/part.parquet")
    supplier = pd.read_parquet(f"{data}/supplier.parquet")
    partsupp = pd.read_parquet(f"{data}/partsupp.parquet")
    lineitem = pd.read_parquet(f"{data}/lineitem.parquet")

    forest = part[part["p_name"].str.startswith("forest")]
    year = lineitem[
        (lineitem["l_shipdate"] >= pd.Timestamp("1994-01-01")) & (lineitem["l_shipdate"] < pd.Timestamp("1995-01-01"))
    ]
    shipped = year.groupby(["l_partkey", "l_suppkey"], as_index=False)["l_quantity"].sum()
    stock = partsupp[partsupp["ps_partkey"].isin(forest["p_partkey"])].merge(
        shipped, left_on=["ps_partkey", "ps_suppkey"], right_on=["l_partkey", "l_suppkey"]
    )
    excess = stock[stock["ps_availqty"] > 0.5 * stock["l_quantity"]]
    canada = supplier.merge(nation[nation["n_name"] == "CANADA"], left_on="s_nationkey", right_on="n_nationkey")
    chosen = canada[canada["s_suppkey"].isin(excess["ps_suppkey"])]
    return chosen[["s_name", "s_address"]].sort_values("s_name").reset_index(drop=True)


def q21(pd: Any, data: str) -> Any:
    """Suppliers who kept orders waiting."""
    nation = pd.read_parquet(f"{data}/nation.parquet")
    supplier = pd.read_parquet(f"{data}/supplier.parquet")
    orders = pd.read_parquet(f"{data}/orders.parquet")
    lineitem = pd.read_parquet(f"{data}/lineitem.parquet")

    late = lineitem[lineitem["l_receiptdate"] > lineitem["l_commitdate"]]
    suppliers = lineitem.groupby("l_orderkey")["l_suppkey"].nunique()
    late_suppliers = late.groupby("l_orderkey")["l_suppkey"].nunique()
    shared = suppliers[suppliers > 1].index
    one_late = late_suppliers[late_suppliers == 1].index

    saudi = supplier.merge(nation[nation["n_name"] == "SAUDI ARABIA"], left_on="s_nationkey", right_on="n_nationkey")
    waiting = (
        late[late["l_orderkey"].isin(shared) & late["l_orderkey"].isin(one_late)]
        .merge(saudi, left_on="l_suppkey", right_on="s_suppkey")
        .merge(orders[orders["o_orderstatus"] == "F"], left_on="l_orderkey", right_on="o_orderkey")
    )
    counts = waiting.groupby("s_name", as_index=False).agg(numwait=("l_orderkey", "count"))
    return counts.sort_values(["numwait", "s_name"], ascending=[False, True]).head(100).reset_index(drop=True)


def q22(pd: Any, data: str) -> Any:
    """Global sales opportunity."""
    customer = pd.read_parquet(f"{data}/customer.parquet")
    orders = pd.read_parquet(f"{data}/orders.parquet")

    customer["cntrycode"] = customer["c_phone"].str[:2]
    customer = customer[customer["cntrycode"].isin(["13", "31", "23", "29", "30", "18", "17"])]
    average = customer.loc[customer["c_acctbal"] > 0, "c_acctbal"].mean()
    rich = customer[customer["c_acctbal"] > average]
    idle = rich[~rich["c_custkey"].isin(orders["o_custkey"])]
    sales = idle.groupby("cntrycode", as_index=False).agg(
        numcust=("c_custkey", "count"), totacctbal=("c_acctbal", "sum")
    )
    return sales.sort_values("cntrycode").reset_index(drop=True)


QUERIES: dict[str, Callable[[Any, str], Any]] = {
    query.__name__: query
    for query in (
        q01, q02, q03, q04, q05, q06, q07, q08, q09, q10, q11,
        q12, q13, q14, q15, q16, q17, q18, q19, q20, q21, q22,
    )
}  # fmt: skip
"""Query name to function, in the order of the specification."""
