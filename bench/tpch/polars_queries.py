"""The 22 TPC-H queries in Polars' lazy API, written by hand: what Craton's plans are measured against.

They are as good as we can make them, and that is their purpose: filters and semi-joins are applied before anything is
grouped or joined, the small side of a join comes from the most selective tables, and no column is named that the query
does not need (Polars prunes the rest). They expect the layout that ``craton.demo.data`` writes: floats for decimals
and timestamps for dates.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Literal

import polars as pl
from polars import col

__all__ = ["QUERIES", "Tables", "run"]


class Tables:
    """The eight tables of TPC-H as lazy scans of the Parquet files in one folder.

    Parameters
    ----------
    folder : path
        Holds ``lineitem.parquet`` and its seven siblings.
    """

    def __init__(self, folder: Path | str) -> None:
        self._folder = Path(folder)

    def __getattr__(self, name: str) -> pl.LazyFrame:
        return pl.scan_parquet(self._folder / f"{name}.parquet")


def _revenue() -> pl.Expr:
    return col("l_extendedprice") * (1 - col("l_discount"))


def _nations_of(t: Tables, region: str) -> pl.LazyFrame:
    return t.nation.join(
        t.region.filter(col("r_name") == region),
        left_on="n_regionkey",
        right_on="r_regionkey",
        how="semi",
    )


def q01(t: Tables) -> pl.LazyFrame:
    discounted = _revenue()
    return (
        t.lineitem.filter(col("l_shipdate") <= datetime(1998, 9, 2))
        .group_by("l_returnflag", "l_linestatus")
        .agg(
            sum_qty=col("l_quantity").sum(),
            sum_base_price=col("l_extendedprice").sum(),
            sum_disc_price=discounted.sum(),
            sum_charge=(discounted * (1 + col("l_tax"))).sum(),
            avg_qty=col("l_quantity").mean(),
            avg_price=col("l_extendedprice").mean(),
            avg_disc=col("l_discount").mean(),
            count_order=pl.len(),
        )
        .sort("l_returnflag", "l_linestatus")
    )


def q02(t: Tables) -> pl.LazyFrame:
    suppliers = t.supplier.join(_nations_of(t, "EUROPE"), left_on="s_nationkey", right_on="n_nationkey")
    return (
        t.partsupp.join(
            t.part.filter(col("p_size") == 15, col("p_type").str.ends_with("BRASS")),
            left_on="ps_partkey",
            right_on="p_partkey",
        )
        .join(suppliers, left_on="ps_suppkey", right_on="s_suppkey")
        .filter(col("ps_supplycost") == col("ps_supplycost").min().over("ps_partkey"))
        .select(
            "s_acctbal",
            "s_name",
            "n_name",
            p_partkey="ps_partkey",
            p_mfgr="p_mfgr",
            s_address="s_address",
            s_phone="s_phone",
            s_comment="s_comment",
        )
        .sort(
            "s_acctbal",
            "n_name",
            "s_name",
            "p_partkey",
            descending=[True, False, False, False],
        )
        .head(100)
    )


def q03(t: Tables) -> pl.LazyFrame:
    day = datetime(1995, 3, 15)
    orders = t.orders.filter(col("o_orderdate") < day).join(
        t.customer.filter(col("c_mktsegment") == "BUILDING"),
        left_on="o_custkey",
        right_on="c_custkey",
        how="semi",
    )
    return (
        t.lineitem.filter(col("l_shipdate") > day)
        .join(orders, left_on="l_orderkey", right_on="o_orderkey")
        .group_by("l_orderkey", "o_orderdate", "o_shippriority")
        .agg(revenue=_revenue().sum())
        .select("l_orderkey", "revenue", "o_orderdate", "o_shippriority")
        .sort("revenue", "o_orderdate", descending=[True, False])
        .head(10)
    )


def q04(t: Tables) -> pl.LazyFrame:
    return (
        t.orders.filter(col("o_orderdate").is_between(datetime(1993, 7, 1), datetime(1993, 10, 1), closed="left"))
        .join(
            t.lineitem.filter(col("l_commitdate") < col("l_receiptdate")),
            left_on="o_orderkey",
            right_on="l_orderkey",
            how="semi",
        )
        .group_by("o_orderpriority")
        .agg(order_count=pl.len())
        .sort("o_orderpriority")
    )


def q05(t: Tables) -> pl.LazyFrame:
    nations = _nations_of(t, "ASIA").select("n_nationkey", "n_name")
    customers = t.customer.join(nations, left_on="c_nationkey", right_on="n_nationkey")
    orders = t.orders.filter(
        col("o_orderdate").is_between(datetime(1994, 1, 1), datetime(1995, 1, 1), closed="left")
    ).join(customers, left_on="o_custkey", right_on="c_custkey")
    return (
        t.lineitem.join(orders, left_on="l_orderkey", right_on="o_orderkey")
        .join(
            t.supplier,
            left_on=["l_suppkey", "c_nationkey"],
            right_on=["s_suppkey", "s_nationkey"],
        )
        .group_by("n_name")
        .agg(revenue=_revenue().sum())
        .sort("revenue", descending=True)
    )


def q06(t: Tables) -> pl.LazyFrame:
    return t.lineitem.filter(
        col("l_shipdate").is_between(datetime(1994, 1, 1), datetime(1995, 1, 1), closed="left"),
        col("l_discount").is_between(0.05 - 1e-9, 0.07 + 1e-9),
        col("l_quantity") < 24,
    ).select(revenue=(col("l_extendedprice") * col("l_discount")).sum())


def q07(t: Tables) -> pl.LazyFrame:
    nations = t.nation.filter(col("n_name").is_in(["FRANCE", "GERMANY"])).select("n_nationkey", "n_name")
    suppliers = t.supplier.join(nations, left_on="s_nationkey", right_on="n_nationkey").select(
        "s_suppkey", supp_nation="n_name"
    )
    customers = t.customer.join(nations, left_on="c_nationkey", right_on="n_nationkey").select(
        "c_custkey", cust_nation="n_name"
    )
    orders = t.orders.join(customers, left_on="o_custkey", right_on="c_custkey")
    return (
        t.lineitem.filter(col("l_shipdate").is_between(datetime(1995, 1, 1), datetime(1996, 12, 31)))
        .join(suppliers, left_on="l_suppkey", right_on="s_suppkey")
        .join(orders, left_on="l_orderkey", right_on="o_orderkey")
        .filter(col("supp_nation") != col("cust_nation"))
        .group_by("supp_nation", "cust_nation", l_year=col("l_shipdate").dt.year())
        .agg(revenue=_revenue().sum())
        .sort("supp_nation", "cust_nation", "l_year")
    )


def q08(t: Tables) -> pl.LazyFrame:
    customers = t.customer.join(
        _nations_of(t, "AMERICA"),
        left_on="c_nationkey",
        right_on="n_nationkey",
        how="semi",
    )
    orders = t.orders.filter(col("o_orderdate").is_between(datetime(1995, 1, 1), datetime(1996, 12, 31))).join(
        customers, left_on="o_custkey", right_on="c_custkey", how="semi"
    )
    parts = t.part.filter(col("p_type") == "ECONOMY ANODIZED STEEL")
    suppliers = t.supplier.join(t.nation, left_on="s_nationkey", right_on="n_nationkey").select("s_suppkey", "n_name")
    volume = _revenue()
    return (
        t.lineitem.join(parts, left_on="l_partkey", right_on="p_partkey", how="semi")
        .join(orders, left_on="l_orderkey", right_on="o_orderkey")
        .join(suppliers, left_on="l_suppkey", right_on="s_suppkey")
        .group_by(o_year=col("o_orderdate").dt.year())
        .agg(mkt_share=pl.when(col("n_name") == "BRAZIL").then(volume).otherwise(0.0).sum() / volume.sum())
        .sort("o_year")
    )


def q09(t: Tables) -> pl.LazyFrame:
    parts = t.part.filter(col("p_name").str.contains("green", literal=True))
    costs = t.partsupp.join(parts, left_on="ps_partkey", right_on="p_partkey", how="semi")
    suppliers = t.supplier.join(t.nation, left_on="s_nationkey", right_on="n_nationkey").select("s_suppkey", "n_name")
    return (
        t.lineitem.join(
            costs,
            left_on=["l_partkey", "l_suppkey"],
            right_on=["ps_partkey", "ps_suppkey"],
        )
        .join(suppliers, left_on="l_suppkey", right_on="s_suppkey")
        .join(t.orders, left_on="l_orderkey", right_on="o_orderkey")
        .group_by(nation="n_name", o_year=col("o_orderdate").dt.year())
        .agg(sum_profit=(_revenue() - col("ps_supplycost") * col("l_quantity")).sum())
        .sort("nation", "o_year", descending=[False, True])
    )


def q10(t: Tables) -> pl.LazyFrame:
    orders = t.orders.filter(
        col("o_orderdate").is_between(datetime(1993, 10, 1), datetime(1994, 1, 1), closed="left")
    ).select("o_orderkey", "o_custkey")
    top = (
        t.lineitem.filter(col("l_returnflag") == "R")
        .join(orders, left_on="l_orderkey", right_on="o_orderkey")
        .group_by("o_custkey")
        .agg(revenue=_revenue().sum())
        .sort("revenue", descending=True)
        .head(20)
    )
    return (
        t.customer.join(top, left_on="c_custkey", right_on="o_custkey")
        .join(t.nation, left_on="c_nationkey", right_on="n_nationkey")
        .select(
            "c_custkey",
            "c_name",
            "revenue",
            "c_acctbal",
            "n_name",
            "c_address",
            "c_phone",
            "c_comment",
        )
        .sort("revenue", descending=True)
    )


def q11(t: Tables) -> pl.LazyFrame:
    suppliers = t.supplier.join(
        t.nation.filter(col("n_name") == "GERMANY"),
        left_on="s_nationkey",
        right_on="n_nationkey",
        how="semi",
    )
    return (
        t.partsupp.join(suppliers, left_on="ps_suppkey", right_on="s_suppkey", how="semi")
        .group_by("ps_partkey")
        .agg(value=(col("ps_supplycost") * col("ps_availqty")).sum())
        .join(t.supplier.select(fraction=1 / pl.len()), how="cross")
        .filter(col("value") > col("value").sum() * col("fraction"))
        .select("ps_partkey", "value")
        .sort("value", descending=True)
    )


def q12(t: Tables) -> pl.LazyFrame:
    lines = t.lineitem.filter(
        col("l_receiptdate").is_between(datetime(1994, 1, 1), datetime(1995, 1, 1), closed="left"),
        col("l_shipmode").is_in(["MAIL", "SHIP"]),
        col("l_commitdate") < col("l_receiptdate"),
        col("l_shipdate") < col("l_commitdate"),
    )
    urgent = col("o_orderpriority").is_in(["1-URGENT", "2-HIGH"])
    return (
        t.orders.join(lines, left_on="o_orderkey", right_on="l_orderkey")
        .group_by("l_shipmode")
        .agg(high_line_count=urgent.sum(), low_line_count=(~urgent).sum())
        .sort("l_shipmode")
    )


def q13(t: Tables) -> pl.LazyFrame:
    counts = (
        t.orders.filter(~col("o_comment").str.contains("special.*requests")).group_by("o_custkey").agg(c_count=pl.len())
    )
    return (
        t.customer.join(counts, left_on="c_custkey", right_on="o_custkey", how="left")
        .group_by(col("c_count").fill_null(0))
        .agg(custdist=pl.len())
        .sort("custdist", "c_count", descending=True)
    )


def q14(t: Tables) -> pl.LazyFrame:
    revenue = _revenue()
    return (
        t.lineitem.filter(col("l_shipdate").is_between(datetime(1995, 9, 1), datetime(1995, 10, 1), closed="left"))
        .join(t.part, left_on="l_partkey", right_on="p_partkey")
        .select(
            promo_revenue=100
            * pl.when(col("p_type").str.starts_with("PROMO")).then(revenue).otherwise(0.0).sum()
            / revenue.sum()
        )
    )


def q15(t: Tables) -> pl.LazyFrame:
    best = (
        t.lineitem.filter(col("l_shipdate").is_between(datetime(1996, 1, 1), datetime(1996, 4, 1), closed="left"))
        .group_by("l_suppkey")
        .agg(total_revenue=_revenue().sum())
        .filter(col("total_revenue") == col("total_revenue").max())
    )
    return (
        t.supplier.join(best, left_on="s_suppkey", right_on="l_suppkey")
        .select("s_suppkey", "s_name", "s_address", "s_phone", "total_revenue")
        .sort("s_suppkey")
    )


def q16(t: Tables) -> pl.LazyFrame:
    parts = t.part.filter(
        col("p_brand") != "Brand#45",
        ~col("p_type").str.starts_with("MEDIUM POLISHED"),
        col("p_size").is_in([49, 14, 23, 45, 19, 3, 36, 9]),
    )
    complained = t.supplier.filter(col("s_comment").str.contains("Customer.*Complaints"))
    return (
        t.partsupp.join(parts, left_on="ps_partkey", right_on="p_partkey")
        .join(complained, left_on="ps_suppkey", right_on="s_suppkey", how="anti")
        .group_by("p_brand", "p_type", "p_size")
        .agg(supplier_cnt=col("ps_suppkey").n_unique())
        .sort(
            "supplier_cnt",
            "p_brand",
            "p_type",
            "p_size",
            descending=[True, False, False, False],
        )
    )


def q17(t: Tables) -> pl.LazyFrame:
    parts = t.part.filter(col("p_brand") == "Brand#23", col("p_container") == "MED BOX")
    return (
        t.lineitem.join(parts, left_on="l_partkey", right_on="p_partkey", how="semi")
        .filter(col("l_quantity") < 0.2 * col("l_quantity").mean().over("l_partkey"))
        .select(avg_yearly=col("l_extendedprice").sum() / 7.0)
    )


def q18(t: Tables) -> pl.LazyFrame:
    large = t.lineitem.group_by("l_orderkey").agg(total_qty=col("l_quantity").sum()).filter(col("total_qty") > 300)
    orders = t.orders.join(large, left_on="o_orderkey", right_on="l_orderkey")
    return (
        t.customer.join(orders, left_on="c_custkey", right_on="o_custkey")
        .select(
            "c_name",
            "c_custkey",
            "o_orderkey",
            "o_orderdate",
            "o_totalprice",
            "total_qty",
        )
        .sort("o_totalprice", "o_orderdate", descending=[True, False])
        .head(100)
    )


def q19(t: Tables) -> pl.LazyFrame:
    def kind(brand: str, containers: list[str], size: int) -> pl.Expr:
        return (col("p_brand") == brand) & col("p_container").is_in(containers) & col("p_size").is_between(1, size)

    first = kind("Brand#12", ["SM CASE", "SM BOX", "SM PACK", "SM PKG"], 5)
    second = kind("Brand#23", ["MED BAG", "MED BOX", "MED PKG", "MED PACK"], 10)
    third = kind("Brand#34", ["LG CASE", "LG BOX", "LG PACK", "LG PKG"], 15)
    parts = t.part.filter(first | second | third).select(
        "p_partkey", least=pl.when(first).then(1).when(second).then(10).otherwise(20)
    )
    return (
        t.lineitem.filter(
            col("l_shipinstruct") == "DELIVER IN PERSON",
            col("l_shipmode").is_in(["AIR", "AIR REG"]),
            col("l_quantity").is_between(1, 30),
        )
        .join(parts, left_on="l_partkey", right_on="p_partkey")
        .filter(col("l_quantity").is_between(col("least"), col("least") + 10))
        .select(revenue=_revenue().sum())
    )


def q20(t: Tables) -> pl.LazyFrame:
    parts = t.part.filter(col("p_name").str.starts_with("forest"))
    suppliers = t.supplier.join(
        t.nation.filter(col("n_name") == "CANADA"),
        left_on="s_nationkey",
        right_on="n_nationkey",
        how="semi",
    )
    offers = t.partsupp.join(parts, left_on="ps_partkey", right_on="p_partkey", how="semi").join(
        suppliers, left_on="ps_suppkey", right_on="s_suppkey", how="semi"
    )
    keys = ["l_partkey", "l_suppkey"]
    shipped = (
        t.lineitem.filter(col("l_shipdate").is_between(datetime(1994, 1, 1), datetime(1995, 1, 1), closed="left"))
        .join(offers, left_on=keys, right_on=["ps_partkey", "ps_suppkey"])
        .group_by(*keys)
        .agg(half=0.5 * col("l_quantity").sum(), available=col("ps_availqty").first())
        .filter(col("available") > col("half"))
    )
    return (
        t.supplier.join(shipped, left_on="s_suppkey", right_on="l_suppkey", how="semi")
        .select("s_name", "s_address")
        .sort("s_name")
    )


def q21(t: Tables) -> pl.LazyFrame:
    late = col("l_receiptdate") > col("l_commitdate")
    suppliers = t.supplier.join(
        t.nation.filter(col("n_name") == "SAUDI ARABIA"),
        left_on="s_nationkey",
        right_on="n_nationkey",
        how="semi",
    ).select("s_suppkey", "s_name")
    waits = (
        t.lineitem.filter(late)
        .join(suppliers, left_on="l_suppkey", right_on="s_suppkey")
        .join(
            t.orders.filter(col("o_orderstatus") == "F"),
            left_on="l_orderkey",
            right_on="o_orderkey",
            how="semi",
        )
        .select("l_orderkey", "s_name")
    )
    late_supplier = pl.when(late).then(col("l_suppkey"))
    blamed = (
        t.lineitem.join(waits, on="l_orderkey", how="semi")
        .group_by("l_orderkey")
        .agg(
            several=col("l_suppkey").min() != col("l_suppkey").max(),
            one_late=late_supplier.min() == late_supplier.max(),
        )
        .filter(col("several") & col("one_late"))
    )
    return (
        waits.join(blamed, on="l_orderkey", how="semi")
        .group_by("s_name")
        .agg(numwait=pl.len())
        .sort("numwait", "s_name", descending=[True, False])
        .head(100)
    )


def q22(t: Tables) -> pl.LazyFrame:
    customers = t.customer.select("c_custkey", "c_acctbal", cntrycode=col("c_phone").str.slice(0, 2)).filter(
        col("cntrycode").is_in(["13", "31", "23", "29", "30", "18", "17"]),
        col("c_acctbal") > 0,
    )
    return (
        customers.filter(col("c_acctbal") > col("c_acctbal").mean())
        .join(t.orders, left_on="c_custkey", right_on="o_custkey", how="anti")
        .group_by("cntrycode")
        .agg(numcust=pl.len(), totacctbal=col("c_acctbal").sum())
        .sort("cntrycode")
    )


QUERIES: dict[str, Callable[[Tables], pl.LazyFrame]] = {
    function.__name__: function
    for function in (
        *(q01, q02, q03, q04, q05, q06, q07, q08, q09, q10, q11),
        *(q12, q13, q14, q15, q16, q17, q18, q19, q20, q21, q22),
    )
}


def run(name: str, folder: Path | str, engine: Literal["streaming", "in-memory"] = "streaming") -> pl.DataFrame:
    """Run one query and return its result.

    Parameters
    ----------
    name : str
        ``"q01"`` to ``"q22"``.
    folder : path
        The folder of the Parquet files.
    engine : str
        Polars' name of the engine that runs it.
    """
    return QUERIES[name](Tables(folder)).collect(engine=engine)
