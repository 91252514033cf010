"""The frequency of a DatetimeIndex: kept or dropped by row selections as in pandas."""

from __future__ import annotations

import itertools

import numpy as np
import pandas
import pytest
from support import check

FRAME = pandas.DataFrame(
    {"a": [3.0, 1.0, 2.0, 5.0], "b": [1, 2, 3, 4]}, index=pandas.date_range("2020-01-01", periods=4, freq="D")
)


@pytest.mark.parametrize(
    "program",
    [
        lambda df: df[["a"]],
        lambda df: df["a"] + df["b"],
        lambda df: df.assign(c=df.a * 2),
        lambda df: df.head(2),
        lambda df: df.iloc[1:3],
        lambda df: df[df.a > 1],
        lambda df: df[::2],
        lambda df: df[::-1],
        lambda df: df.take([0, 2]),
        lambda df: df.loc[df.b % 2 == 1],
        lambda df: df.loc["2020-01-02":],
        lambda df: df[df.a > 1].iloc[[1, 2]],
        lambda df: df[df.b == 2],
        lambda df: df[df.b > 9],
        lambda df: df.dropna(),
        lambda df: df[df.a > 0],
        lambda df: df.sort_values("b", kind="stable"),
        lambda df: df.sort_values("a", kind="stable"),
        lambda df: df.reset_index(drop=True).set_axis(df.index),
        lambda df: df.sort_values("a").set_axis(df.index).head(2),
        lambda df: df.loc[list(df.index)],
        lambda df: df[::2].truncate(),
        lambda df: df[::2].truncate(before=df.index[1]),
        lambda df: df.sort_index(ascending=False).truncate(after="2020-01-02"),
    ],
)
def test_freq(program):
    def run(pd, df):
        result = program(df)
        return result, str(result.index.freq)

    check(run, FRAME, native=None)


def test_setting_the_freq_is_seen():
    def run(pd, df):
        first = df[["a"]]
        df.index.freq = None
        return first, str(df[["b"]].index.freq)

    check(run, FRAME, native=None)


@pytest.mark.parametrize("freq", ["D", "B", "2h", "-1D", "ME"])
@pytest.mark.parametrize("rows", [1, 2, 3, 5])
def test_the_freq_of_rows_that_a_mask_chooses(rows, freq):
    """A Series keeps the frequency if the selected rows are consecutive, a frame also if they are every k-th row."""

    def run(pd):
        results = []
        for chosen in itertools.product([False, True], repeat=rows):
            mask = np.array(chosen)
            index = pd.date_range("2020-01-03", periods=rows, freq=freq)
            series = pd.Series(np.where(mask, 1.0, np.nan), index=index)
            frame = series.to_frame("a")
            tables = [
                series.dropna(),
                series[mask],
                series[pd.Series(mask, index=index)],
                series.loc[mask],
                series[series > 0],
                frame["a"][mask],
                frame[mask],
                frame.loc[mask],
                frame.dropna(),
                frame[frame["a"].notna()],
                frame.query("a > 0"),
            ]
            results += [str(table.index.freq) for table in tables]
        return results

    check(run, native=None)


@pytest.mark.parametrize("method", ["size", "nunique", "first", "std"])
@pytest.mark.parametrize("keys", [{"level": 0}, {"level": 0, "sort": False}, {"by": "d"}, {"by": ["d"]}], ids=str)
@pytest.mark.parametrize(
    "choose",
    [lambda df: df, lambda df: df[::2], lambda df: df[::-1], lambda df: df[df.b > 2], lambda df: df[df.b != 2]],
    ids=["all", "every other", "backwards", "behind", "with a gap"],
)
def test_groups_by_the_labels_keep_it(choose, keys, method):
    def run(pd, df):
        result = getattr(choose(df).groupby(**keys), method)()
        return result, str(result.index.freq)

    check(run, FRAME.rename_axis("d"), native=None)


KEYED = pandas.DataFrame(
    {"v": [1.0, 2, 3, 4], "w": [4, 3, 2, 1], "k": list("abab")},
    index=pandas.date_range("2020-01-30", periods=4, freq="D", name="t"),
)
CHOSEN = {
    "all": lambda df: df,
    "two": lambda df: df.iloc[1:3],
    "one": lambda df: df.head(1),
    "every other": lambda df: df[::2],
    "backwards": lambda df: df[::-1],
    "with a gap": lambda df: df[df.w != 3],
    "spans of time": lambda df: df.set_axis(df.index - df.index[0]),
}
LEVELS = {
    "level": lambda pd, df: df.set_index("k", append=True),
    "two levels": lambda pd, df: df.set_index(["k", "w"], append=True),
    "level and back": lambda pd, df: df.set_index("k", append=True).reset_index("k"),
    "level dropped": lambda pd, df: df.set_index("k", append=True).droplevel("k"),
    "level swapped": lambda pd, df: df.set_index("k", append=True).swaplevel(),
    "level chosen": lambda pd, df: df.set_index("k", append=True).iloc[1:].reset_index("k"),
    "unstacked": lambda pd, df: df.set_index("k", append=True)["v"].unstack(),
    "shifted": lambda pd, df: df.set_index("k", append=True)["v"].unstack().shift(1, freq="infer"),
    "grouped": lambda pd, df: df.groupby(["t", "k"])["v"].sum(),
    "grouped the other way": lambda pd, df: df.groupby(["k", "t"])[["v"]].sum().unstack("k"),
    "sizes": lambda pd, df: df.groupby([pd.Grouper(level="t"), "k"], sort=False).size().unstack(),
    "a column grouped": lambda pd, df: df["v"].groupby([df["k"], "t"]).max().unstack(0),
    "counted": lambda pd, df: df.groupby("t")["k"].value_counts().unstack(),
    "pivot table": lambda pd, df: df.pivot_table(index="t", columns="k", values="v"),
    "pivot table's labels": lambda pd, df: df.pivot_table(index="t", columns="k", values="v").index.shift(1),
    "pivoted": lambda pd, df: df.pivot(columns="k", values="v"),
    "keys": lambda pd, df: pd.concat([df, df], keys=["x", "y"]).droplevel(0),
    "stacked": lambda pd, df: df[["v", "w"]].stack().unstack(),
    "melted": lambda pd, df: df.melt(value_vars=["v"], ignore_index=False),
}


def _frequencies(index):
    return [str(getattr(level, "freq", None)) for level in (index.levels if index.nlevels > 1 else [index])]


@pytest.mark.parametrize("choose", CHOSEN.values(), ids=CHOSEN)
@pytest.mark.parametrize("program", LEVELS.values(), ids=LEVELS)
def test_labels_that_become_a_level_keep_it(program, choose):
    def run(pd, df):
        result = program(pd, choose(df).rename_axis("t"))
        return result, _frequencies(getattr(result, "index", result))

    check(run, KEYED, native=None)


STORED = {
    "a level back": lambda m: [m.reset_index(name) for name in m.index.names],
    "a level dropped": lambda m: [m.droplevel(0), m.droplevel(1), m.iloc[:2].droplevel(0), m.iloc[:2].droplevel(1)],
    "a level swapped": lambda m: [m.swaplevel(), m.swaplevel().droplevel(0), m.iloc[1:3].swaplevel().droplevel(1)],
    "grouped by a level": lambda m: [m.groupby("t").sum(), m.groupby(level=[0, 1]).max(), m.groupby("p").cumsum()],
    "grouped rows": lambda m: [m[m.v > 1].groupby("t").sum(), m[m.v > 1].groupby(level=[1, 0])["v"].sum()],
    "unstacked": lambda m: [m.unstack(), m.unstack(0)],
    "rows": lambda m: [m.iloc[::2], m[m.v > 2], m.sort_values("v", ascending=False), m.iloc[::2].droplevel("p")],
    "joined": lambda m: [m.join(m.add_suffix("_r")), m.merge(m, on=["p", "t"]), m.merge(m, on="t")],
    "one more level": lambda m: [
        m.set_index("v", append=True),
        m.assign(q=1).set_index("v", append=True).droplevel("v"),
    ],
}


@pytest.mark.parametrize("names", [["p", "t"], ["t", "p"]], ids=str)
@pytest.mark.parametrize("program", STORED.values(), ids=STORED)
def test_a_level_that_has_it(program, names):
    levels = {"t": pandas.date_range("2020-01-30", periods=3, freq="D"), "p": ["x", "y"]}
    index = pandas.MultiIndex.from_product([levels[name] for name in names], names=names)

    def run(pd, m):
        results = program(m)
        return results, [_frequencies(result.index) for result in results]

    check(run, pandas.DataFrame({"v": range(6)}, index=index), native=None)


PARTS = {
    "all": lambda x: x,
    "head": lambda x: x.head(3),
    "tail": lambda x: x.tail(3),
    "middle": lambda x: x.iloc[1:4],
    "every other": lambda x: x.iloc[::2],
    "every third": lambda x: x.iloc[1::3],
    "behind": lambda x: x[x > 2],
    "with a gap": lambda x: x[x != 2],
    "empty": lambda x: x.iloc[:0],
    "none": lambda x: x[x > 99],
    "backwards": lambda x: x.iloc[::-1],
    "some": lambda x: x.iloc[[0, 2, 3]],
}
TOGETHER = {
    "+": lambda pd, one, other: one + other,
    "mul": lambda pd, one, other: one.mul(other, fill_value=1),
    "==": lambda pd, one, other: one.eq(other),
    "filled": lambda pd, one, other: one.fillna(other),
    "combined": lambda pd, one, other: one.combine_first(other),
    "where": lambda pd, one, other: one.where(other > 2),
    "aligned": lambda pd, one, other: one.align(other)[0],
    "frames": lambda pd, one, other: one.to_frame() + other.to_frame(),
    "assigned": lambda pd, one, other: one.to_frame().assign(q=other),
    "down the columns": lambda pd, one, other: one.to_frame().add(other, axis=0),
    "beside": lambda pd, one, other: pd.concat([one, other], axis=1),
    "joined": lambda pd, one, other: one.to_frame().join(other.rename("q")),
}


@pytest.mark.parametrize("program", TOGETHER.values(), ids=TOGETHER)
@pytest.mark.parametrize("left", PARTS.values(), ids=PARTS)
def test_labels_aligned_with_some_of_them(left, program):
    """pandas changes the frequency of an operand's own index if it is the union of all labels, so the operand loses it."""

    def run(pd, df):
        seen = []
        for right in PARTS.values():
            one, other = left(df["v"]), right(df["v"])
            try:
                result = program(pd, one, other)
            except (TypeError, ValueError) as error:
                seen.append(type(error).__name__)
                continue
            seen += [str(x.index.freq) for x in (result, one, other, one + 1, df)]
        return seen

    frame = pandas.DataFrame(
        {"v": np.arange(6.0)}, index=pandas.date_range("2020-01-30", periods=6, freq="D", name="t")
    )
    check(run, frame, native=None)


@pytest.mark.parametrize("freq", [None, "D", "24h"], ids=str)
def test_the_freq_of_a_planned_objects_labels_may_be_set(freq):
    def run(pd, df):
        seen = []
        for planned in (
            df[["a"]] * 2,
            df["a"] + 1,
            df.reset_index(drop=True).set_axis(pd.DatetimeIndex(list(df.index))),
        ):
            labels = planned.index
            labels.freq = freq
            seen += [str(x.index.freq) for x in (planned, planned + 1, planned.head(2), planned[::2], df)]
            seen.append(planned + 1)
        return seen

    check(run, FRAME, native=None)


def test_slices_of_texts_and_with_steps_by_times() -> None:
    times = pandas.to_datetime(["2020-01-03", "2020-01-01", "2020-01-02", "2020-01-03"])
    for labels in (times, times.tz_localize("UTC"), pandas.date_range("2020", periods=4, freq="D")):
        df = pandas.DataFrame({"x": [1, 2, 3, 4]}, index=labels)
        for key in (slice("2020-01-03", None), slice("2020-01-01", "2020-01-03"), slice("2020-01-02", None, 2)):
            check(lambda pd, df, key=key: df.loc[key], df, native=None)
        for step in (2, 3, -2, np.int64(2)):
            check(lambda pd, df, step=step: df.iloc[::step], df, native=None)
            check(lambda pd, df, step=step: df.iloc[1::step].index.freq, df, native=None)


def test_steps_through_selected_rows_give_no_frequency_that_pandas_does_not_give() -> None:
    """The distance of two rows that are left is no frequency if the rows that they were chosen from had none."""
    df = pandas.DataFrame({"x": np.arange(5.0)}, index=pandas.date_range("2020-01-30", periods=5, freq="D"))
    irregular = {
        "mask": lambda df: df[df["x"].isin([0, 3, 4])],
        "positions": lambda df: df.iloc[[0, 3, 4]],
        "labels": lambda df: df.drop(df.index[[1, 2]]),
        "in another order": lambda df: df[df["x"].isin([0, 3, 4])].sort_values("x", ascending=False),
        "column": lambda df: df["x"][df["x"].isin([0, 3, 4])],
    }
    for chosen in irregular.values():
        for key in (
            slice(None, None, 2),
            slice(0, 3, 2),
            slice(None, None, -2),
            slice(1, None, 2),
            slice(-1, None, -2),
        ):
            check(lambda pd, df, chosen=chosen, key=key: chosen(df).iloc[key], df, native=None)
            check(lambda pd, df, chosen=chosen, key=key: chosen(df)[key].iloc[::2], df, native=None)


def test_rows_of_every_nth_row_have_its_frequency() -> None:
    """A slice with a step certainly has its frequency, so the rows that are chosen from it have one as those in memory do."""
    nth = {
        "backwards": lambda x: x.iloc[::-1],
        "every other": lambda x: x.iloc[::2],
        "backwards, every other": lambda x: x[::-2],
    }
    then = {
        "slice": lambda x: x.iloc[1:],
        "step": lambda x: x.iloc[::2],
        "back": lambda x: x.iloc[::-1],
        "mask": lambda x: x[x % 3 != 0],
        "last": lambda x: x[x > 2].tail(2),
        "positions": lambda x: x.iloc[[0, 2]],
        "time": lambda x: x.loc["2020-02-01"],
        "sorted": lambda x: x.sort_values().head(2),
        "column": lambda x: x.to_frame("y").assign(z=1)["z"].iloc[:2],
        "shifted": lambda x: (x.shift() + 1).iloc[1:],
        "sum": lambda x: (x + x.iloc[:2]).iloc[1:],
    }

    def run(pd, x):
        return [
            (result, str(result.index.freq))
            for first, second, third in itertools.product(nth.values(), then.values(), then.values())
            for result in (second(first(x)), third(second(first(x))))
        ]

    for freq in ("D", "h", "-1D"):
        labels = pandas.date_range("2020-01-30", periods=9, freq=freq)
        check(run, pandas.Series(np.arange(9.0), index=labels), native=None)
