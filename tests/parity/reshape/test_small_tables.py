"""``unstack``, ``pivot``, ``stack``, ``T``, ``wide_to_long``, and pivot tables with margins, after plans."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas
import pytest
from support import check, check_sources

import craton
import craton.pandas
from craton import fallbacks
from craton.pandas.reshape import small_tables

ROWS = 80


def data() -> pandas.DataFrame:
    rng = np.random.default_rng(4)
    frame = pandas.DataFrame(
        {
            "k": rng.choice(["a", "b", "c", None], ROWS),
            "j": rng.integers(0, 5, ROWS),
            "b": rng.random(ROWS) < 0.5,
            "x": np.where(rng.random(ROWS) < 0.2, np.nan, rng.normal(size=ROWS)),
            "y": rng.integers(0, 100, ROWS),
            "t": pandas.date_range("2024", periods=ROWS, freq="h"),
        }
    )
    return frame.assign(c=pandas.Categorical(frame["k"]))


NATIVE = """
df.groupby(["k", "j"])["x"].sum().unstack()
df.groupby(["k", "j"])["y"].max().unstack(0)
df.groupby(["k", "j"])["y"].max().unstack("j", fill_value=0)
df.groupby(["k", "j"])[["x", "y"]].mean().unstack()
df.groupby(["k", "j"])[["x", "y"]].mean().unstack(level="k", fill_value=-1)
df.groupby(["k", "j", "b"])["y"].sum().unstack([1, 2])
df.groupby(["k", "j"], sort=False)["y"].sum().unstack(sort=False)
df.groupby(["k", "j"], dropna=False).size().unstack()
df.groupby(["c", "j"], observed=True)["t"].min().unstack()
df.groupby(["k", "j"])["y"].sum().unstack().fillna(0).sum()
df[df.y > 1000].groupby(["k", "j"])["y"].sum().unstack()
df.drop_duplicates(["k", "j"]).pivot(index="k", columns="j", values="x")
df.drop_duplicates(["k", "j"]).pivot(index="k", columns="j", values=["x", "t"])
df.drop_duplicates(["k", "j"]).pivot(index="k", columns="j")
df.drop_duplicates(["k", "j", "b"]).pivot(index=["k", "b"], columns="j", values="y")
df.drop_duplicates("j").set_index("y").pivot(columns="j", values="x")
pd.pivot(df.drop_duplicates(["k", "j"]), index="k", columns="j", values="x")
df.groupby("k")[["x", "y"]].mean().T
df[["x", "y"]].describe().T
df.head(4).transpose()
df[df.y > 1000].T
df[["x", "y"]].stack()
df[["x", "y"]].stack(future_stack=True)
df.groupby("k")[["x", "y"]].agg(["min", "max"]).stack()
df.groupby("k")[["x", "y"]].sum().stack().reset_index()
pd.wide_to_long(df.assign(i=df.index, z1=df.x, z2=df.y)[["i", "z1", "z2"]], "z", i="i", j="n")
df.pivot_table(index="k", columns="j", values="x", aggfunc="sum", margins=True)
df.pivot_table(index="k", columns="j", values="y", margins=True, margins_name="total")
df.pivot_table(index=["k", "b"], columns="j", values=["x", "y"], aggfunc="max", margins=True)
df.pivot_table(index="k", values=["x", "y"], aggfunc="sum", margins=True)
df.pivot_table(index="k", columns=["j", "b"], values="y", aggfunc=["sum", "count"], margins=True, fill_value=0)
df.pivot_table(index="j", columns="b", values="y", aggfunc={"y": "mean"}, margins=True, dropna=False)
df.pivot_table(index="c", columns="b", values="y", aggfunc="min", margins=True)
df.pivot_table(index="k", columns="j", values="x", sort=False)
pd.pivot_table(df, index="k", columns="j", values="x", margins=True)
pd.crosstab(df.k, df.j)
pd.crosstab(df.k, df.j, margins=True, normalize=True)
pd.crosstab(df.k, [df.j, df.b], margins=True)
pd.crosstab([df.k, df.c], df.b, rownames=["p", "q"], colnames=["r"])
pd.crosstab(df.k, df.j, values=df.x, aggfunc="mean", margins=True, margins_name="m")
pd.crosstab(df.k, df.y > 50, normalize="columns", margins=True)
pd.crosstab(df.j, df.b, dropna=False)
pd.crosstab(df.k, df.k)
pd.crosstab(df.k, "count")
pd.crosstab(df.k, np.arange(len(df)) % 3, margins=True)
pd.crosstab(df.k, [df.j, np.arange(len(df)) > 40], values=np.arange(len(df)), aggfunc="sum")
pd.crosstab(df.k, df.j, values=df.y, aggfunc=np.mean, margins=True)
pd.crosstab(df.j, df.t.dt.hour > 5, dropna=False, margins=True)
pd.crosstab(pd.cut(df.y, 3), pd.qcut(df.y, 2, labels=["low", "high"]))
df.pivot_table(index="k", columns="j", values="y", aggfunc=[np.sum, len], margins=True)
df.pivot_table(index="k", columns="j", values="x").reset_index().melt(id_vars="k")
df.groupby(["k", "j"])["x"].sum().unstack().melt(ignore_index=False)
df.groupby("k")[["x", "y"]].agg(["min", "max"]).melt(col_level=1)
df.groupby("k")[["x", "y"]].agg(["min", "max"]).melt(var_name=["p", "q"])
df[["x", "y"]].set_axis([3, 1], axis=1).melt()
df[["j", "x", "y"]].set_axis(range(3), axis=1).melt(id_vars=0, value_vars=[2], var_name="n")
df[["j", "x", "y"]].set_axis(range(3), axis=1).melt(id_vars=[0], ignore_index=False).sort_values("value", kind="stable")
""".strip().splitlines()

REFUSED = """
df.groupby(["k", "j"])["x"].sum().unstack("nothing")
df.groupby(["k", "j"])["x"].sum().unstack([0, 0])
df.pivot(index="k", columns="j", values="x")
df.pivot(index="k", columns="nothing", values="x")
df.pivot_table(index="k", columns="j", values="nothing", margins=True)
df.pivot_table(index="k", columns="j", values="x", margins=True, margins_name=3)
df.pivot_table(index="k", columns="j", values="x", margins=True, margins_name="a")
df.pivot_table(index="k", columns="j", margins=True, aggfunc="count")
df.pivot_table(index="k", columns="j", values="x", margins=True, dropna=False)
df.pivot_table(index=df.y > 50, columns="j", values="x", margins=True)
df.pivot_table(index="c", columns="j", values="x", margins=True, observed=False, dropna=False)
df.pivot_table(index="k", columns="j", values="x", aggfunc=lambda s: s.max(), margins=True)
pd.crosstab(df.k, df.j.to_numpy()[:3])
pd.crosstab(df.k.to_numpy(), df.j)
pd.crosstab(df.k, ["p", "q"])
pd.crosstab(df.k, [df.j, "q"])
pd.crosstab("p", df.k)
df[["x", "y"]].set_axis([3, 1], axis=1).melt(id_vars=2)
df[["x", "y"]].set_axis([3, 1], axis=1).melt(value_name=3)
df.melt(col_level=1)
pd.crosstab(df.k, df.j, values=df.x)
pd.crosstab(df.k, df.j, aggfunc="sum")
pd.crosstab(df.k, df.j, normalize="none")
pd.crosstab(df.k, df.j, margins=True, margins_name="a")
pd.crosstab(df.k, df.j, rownames=["p", "q"])
pd.crosstab(df.k, df.j.sort_values())
pd.crosstab(df.k, df.j.iloc[::2].reset_index(drop=True))
pd.wide_to_long(df, "z", i="y", j="n")
pd.crosstab(df[df.y > 1000].k, df[df.y > 1000].j)
df.T.T
""".strip().splitlines()


@pytest.mark.parametrize("call", NATIVE)
def test_native(call, tmp_path):
    program = eval(f"lambda pd, df: {call}", {"np": np})
    check_sources(program, data(), tmp_path, native=True)


@pytest.mark.parametrize("call", REFUSED)
def test_refused_and_errors(call, tmp_path):
    program = eval(f"lambda pd, df: {call}", {"np": np})
    check_sources(program, data(), tmp_path)


def test_only_the_needed_columns_are_computed():
    with craton.option_context(small_rows=0):
        df = craton.pandas.DataFrame(data()).drop_duplicates(["k", "j"])
        chosen = small_tables.with_columns(df, ["j", ["k"], "x"])
        assert list(chosen.columns) == ["k", "j", "x"]
        df.pivot(index="k", columns="j", values="x")
        assert "_view" in df.__dict__  # the frame itself has not run


def test_large_tables_are_counted(monkeypatch):
    monkeypatch.setattr(small_tables, "MOST_ROWS", 20)
    check(lambda pd, df: df[["x", "y"]].stack(), data(), native=False)
    check(lambda pd, df: df[df.y >= 0][["x", "y"]].stack(), data(), native=False)
    check(lambda pd, df: df.groupby(["k", "j"])["y"].sum().unstack(), data(), native=True)


def test_programs():
    def program(pd: Any, df: Any) -> Any:
        names = ["k", "j"]
        sums = df.groupby(names)["y"].sum().unstack(fill_value=0)
        names[0] = "b"
        head = sums.head(2)
        shares = sums.div(sums.sum(axis=1), axis=0)
        table = df.pivot_table(index="k", columns="b", values="y", aggfunc="sum", margins=True)
        table.loc["a"] = 0
        df["y"] = 0
        counts = pd.crosstab(df.k, df.b, margins=True)
        long = counts.stack()
        return head, shares, table, counts, long, float(long.sum()), df["y"].sum()

    check(program, data(), native=None)


def test_calls_in_memory_run_in_pandas():
    frame = data()
    with craton.option_context(small_rows=1):
        df = craton.pandas.DataFrame(frame)
        fallbacks.reset()
        for call in ("unstack", "stack", "transpose"):
            found = getattr(df[["x", "y"]].copy(), call)()
            assert found.equals(getattr(frame[["x", "y"]], call)())
        assert fallbacks.explain_fallbacks().empty
