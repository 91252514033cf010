"""Calls that align rows by label or by the nearest key: programs with missing, repeated and unordered labels, and empty operands."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas
import pytest
from support import check

ROWS = 30


def table(seed: int, rows: int = ROWS) -> pandas.DataFrame:
    """A table with a column of each kind of dtype."""
    rng = np.random.default_rng(seed)
    nullable = pandas.array(rng.integers(0, 5, rows), dtype="Int64")
    nullable[::7] = pandas.NA
    return pandas.DataFrame(
        {
            "i": rng.integers(-5, 5, rows),
            "f": np.where(rng.random(rows) < 0.3, np.nan, rng.normal(size=rows)),
            "s": rng.choice(["a", "b", None], rows),
            "t": pandas.Timestamp("2024") + pandas.to_timedelta(rng.integers(0, 99, rows), unit="h"),
            "c": pandas.Categorical(rng.choice(list("uvw"), rows)),
            "n": nullable,
            "u": rng.integers(0, 9, rows).astype("uint8"),
        }
    )


@pytest.fixture
def plain() -> pandas.DataFrame:
    """Default labels."""
    return table(0)


@pytest.fixture
def labelled() -> pandas.DataFrame:
    """Labels in no order, half of which are those of `plain`."""
    return table(1).set_index(pandas.Index(np.random.default_rng(5).permutation(ROWS) * 2, name="key"))


@pytest.fixture
def timed() -> tuple[pandas.DataFrame, pandas.DataFrame]:
    """Two tables that are sorted by time."""
    one, other = table(2), table(3, 24)
    return (
        one.sort_values("t", kind="stable", ignore_index=True),
        other.sort_values("t", kind="stable", ignore_index=True),
    )


# -- reindex -----------------------------------------------------------------------------------------------------------


LABELS: dict[str, Any] = {
    "more": range(10, 50),
    "fewer": range(10, 20),
    "repeated": [3, 1, 99, 1],
    "none": [],
    "reversed": pandas.RangeIndex(29, -1, -1),
    "floats": [1.0, 2.5],
    "named": pandas.Index([2, 4, 5, 0], name="n"),
}


@pytest.mark.parametrize("labels", LABELS.values(), ids=LABELS)
def test_reindex_chooses_rows(plain: Any, labelled: Any, labels: Any) -> None:
    def program(pd: Any, one: Any, other: Any) -> Any:
        wanted = list(labels)
        first = one.reindex(labels)
        seen = first["f"].sum()
        second = other.reindex(wanted)
        wanted.append(7)  # the result does not follow
        third = one[one["f"] > 0].reindex(one.index)
        return first, seen, second, third, third["i"].sum(), one["s"].reindex(labels), one["u"].reindex(labels)

    check(program, plain, labelled)


def test_reindex_fills(plain: Any) -> None:
    def program(pd: Any, df: Any) -> Any:
        numbers = df[["i", "f", "u", "n"]].reindex([2, 77, 3], fill_value=0)
        days = df.assign(d=pandas.date_range("2024", periods=len(df))).set_index("d")[["i", "f", "s"]]
        half = pd.date_range("2024-01-01 12:00", periods=9, freq="36h")
        return (
            numbers,
            numbers["i"].sum(),
            df["s"].reindex([1, 99], fill_value="zz"),
            days.reindex(half, method="ffill"),
            days.reindex(half, method="bfill", limit=1)["i"].sum(),
            days.reindex(half, method="nearest", tolerance="13h"),
        )

    check(program, plain)


def test_reindex_makes_columns(plain: Any) -> None:
    def program(pd: Any, df: Any) -> Any:
        few = df.reindex(columns=["i", "new", "s"])
        few["new"] = few["new"].fillna(1)
        return few, few["new"].sum(), df.reindex(["u", "z"], axis=1, fill_value=0), df.reindex_like(few)

    check(program, plain)


@pytest.mark.parametrize("fill", [1.5, "x", False])
def test_reindex_by_values_of_another_dtype(plain: Any, fill: Any) -> None:
    check(lambda pd, df: df["t"].reindex([], fill_value=fill), plain, native=None)
    check(lambda pd, df: df["s"].reindex([1, 99], fill_value=fill), plain, native=None)


def test_errors_of_reindex_are_those_of_pandas(plain: Any, labelled: Any) -> None:
    check(lambda pd, df: df.set_index("i").reindex([1, 2]), plain)
    check(lambda pd, df: df.reindex([1, 2], method="ffill"), labelled)
    check(lambda pd, df: df.reindex([1], columns=["i"], axis=0), plain, native=None)


# -- align, combine_first, update, arithmetic ---------------------------------------------------------------------------


@pytest.mark.parametrize("join", ["outer", "inner", "left", "right"])
def test_align(plain: Any, labelled: Any, join: str) -> None:
    def program(pd: Any, one: Any, other: Any) -> Any:
        left, right = one.align(other[["i", "t", "s"]], join=join)
        seen = left["i"].sum()
        rows = one.align(other, join=join, axis=0)[0]
        columns = one.align(other[["s", "f"]], join=join, axis=1)[1]
        columns["f"] = 0.0
        return left, seen, right, rows, columns, *one["f"].align(other["i"], join=join)

    check(program, plain, labelled)


@pytest.mark.parametrize("part", ["iloc[::-1]", "head(0)", "iloc[3:9]", "copy()"])
def test_values_of_another_frame_fill_missing_ones(plain: Any, labelled: Any, part: str) -> None:
    def program(pd: Any, one: Any, other: Any) -> Any:
        some = eval(f"other.{part}", {"other": other})
        combined = one.combine_first(some)
        seen = combined["f"].count()
        updated = one.copy()
        updated.update(some[["f", "s"]])
        kept = one.copy()
        kept.update(some[["f"]], overwrite=False)
        series = one["f"].copy()
        series.update(some["f"])
        other["f"] = 0.0
        return combined, seen, updated, kept, series, one["s"].combine_first(some["s"]), updated["f"].sum()

    check(program, plain, labelled, native=None)
    check(lambda pd, one, other: one.combine_first(other)["f"].sum(), plain, labelled)


def test_columns_of_one_frame_only(plain: Any, labelled: Any) -> None:
    check(lambda pd, a, b: a[["f", "i"]].combine_first(b[["f", "t", "u"]]), plain, labelled)
    missing = labelled.assign(q=pandas.array([pandas.NA] * ROWS, dtype="Int64"))
    check(lambda pd, a, b: a.combine_first(b), plain, missing, native=None)


@pytest.mark.parametrize("operator", ["+", "-", "*", "/"])
def test_operands_with_other_labels(plain: Any, labelled: Any, operator: str) -> None:
    def program(pd: Any, one: Any, other: Any) -> Any:
        total = eval(f"one['i'] {operator} other['f']", {"one": one, "other": other})
        seen = total.sum()
        frames = eval(f"one[['i', 'f']] {operator} other[['i', 'f']]", {"one": one, "other": other})
        other["f"] = 1.0
        return total, seen, frames, one["i"].add(other["i"], fill_value=1), one[["i", "f"]].mul(other["f"], axis=0)

    check(program, plain, labelled)


def test_missing_values_are_filled_by_label(plain: Any, labelled: Any) -> None:
    def program(pd: Any, one: Any, other: Any) -> Any:
        filled = one["f"].fillna(other["f"])
        seen = filled.count()
        texts = one["s"].fillna(other["s"].iloc[::-1])
        other["f"] = 0.0
        return filled, seen, texts, one["n"].fillna(other["n"].head(3)), one["f"].fillna(other["f"].head(0))

    check(program, plain, labelled)


@pytest.mark.parametrize("how", ["left", "right", "inner", "outer"])
@pytest.mark.parametrize("sort", [False, True])
def test_merges_of_columns_with_row_labels(plain: Any, how: str, sort: bool) -> None:
    def program(pd: Any, one: Any, other: Any) -> Any:
        right = other.head(9).set_index("i")[["c", "u"]].add_suffix("_o")
        joined = one.merge(right, left_on="i", right_index=True, how=how, sort=sort)
        seen = joined["u_o"].sum()
        turned = right.merge(one, right_on="i", left_index=True, how=how, sort=sort)
        named = one.set_index("i").join(right.rename_axis("other"), how=how, sort=sort)
        return joined, seen, turned, named, joined.groupby("s")["f"].count()

    check(program, plain, table(9))


def test_labels_that_repeat(plain: Any) -> None:
    repeated = plain.set_index("s")
    check(lambda pd, df: df["f"] + df["f"].head(4), repeated, native=None)
    check(lambda pd, df: df[["f"]].mul(df["f"].head(4), axis=0), repeated, native=None)
    check(lambda pd, df: df["f"] == df["f"].head(4), repeated, native=None)
    check(lambda pd, df: df["f"].combine_first(df["f"].head(4)), repeated, native=None)


# -- concat and join ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("join", ["outer", "inner"])
@pytest.mark.parametrize("options", [{}, {"sort": True}, {"sort": False}], ids=str)
def test_columns_with_other_labels_beside_each_other(plain: Any, labelled: Any, join: str, options: Any) -> None:
    def program(pd: Any, one: Any, other: Any) -> Any:
        frames = pd.concat([one, other.add_suffix("_o")], axis=1, join=join, **options)
        seen = frames["f_o"].sum()
        series = pd.concat([one["f"], other["i"], other["s"].head(3)], axis=1, join=join, **options)
        mixed = pd.concat([one, other["f"].rename("z")], axis=1, join=join, **options)
        return frames, seen, series, mixed, mixed["z"].count(), frames.groupby("s")["u_o"].sum()

    check(program, plain, labelled)


@pytest.mark.parametrize("how", ["left", "right", "inner", "outer"])
@pytest.mark.parametrize("sort", [False, True])
def test_join_of_several_frames(plain: Any, labelled: Any, how: str, sort: bool) -> None:
    def program(pd: Any, one: Any, two: Any, three: Any) -> Any:
        frames = [two, three]
        joined = one.join(frames, how=how, sort=sort)
        frames.clear()
        return joined, joined["i"].sum(), joined[joined["f"] > 0]

    few = labelled[["t", "n"]].iloc[3:9]
    check(program, plain[["i", "f"]], labelled[["s", "c"]], few)
    repeated = plain[["i", "f"]].iloc[[1, 1, 2, 4]]
    check(lambda pd, a, b, c: a.join([b, c], how=how), repeated, labelled[["s"]], few.rename_axis("key"), native=None)


# -- merge_asof and merge_ordered ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("direction", ["backward", "forward", "nearest"])
@pytest.mark.parametrize("exact", [True, False])
def test_merge_asof(timed: Any, direction: str, exact: bool) -> None:
    def program(pd: Any, one: Any, other: Any) -> Any:
        options = {"direction": direction, "allow_exact_matches": exact}
        joined = pd.merge_asof(one, other, on="t", **options)
        seen = joined["f_y"].sum()
        near = pd.merge_asof(one, other, on="t", by="s", tolerance=pd.Timedelta("2h"), suffixes=("", "_r"), **options)
        other["f"] = 0.0
        return joined, seen, near, near.groupby("c")["i_r"].sum()

    check(program, *timed)


def test_merge_asof_by_labels(timed: Any) -> None:
    def program(pd: Any, one: Any, other: Any) -> Any:
        by_time, other_by_time = one.set_index("t"), other.set_index("t")
        renamed = other.rename(columns={"t": "when", "s": "kind"})
        return (
            pd.merge_asof(by_time, other_by_time, left_index=True, right_index=True),
            pd.merge_asof(one.set_axis(range(5, 5 + len(one))), other_by_time, left_on="t", right_index=True),
            pd.merge_asof(by_time, other, left_index=True, right_on="t"),
            pd.merge_asof(one, renamed, left_on="t", right_on="when", left_by="s", right_by="kind"),
            pd.merge_asof(one[one["f"] > 0], other[other["i"] > 0], on="t")["f_y"].sum(),
        )

    check(program, *timed)


@pytest.mark.parametrize("direction", ["backward", "forward", "nearest"])
@pytest.mark.parametrize("by", [None, "s"])
@pytest.mark.parametrize("kind", ["int64", "float64", "datetime64[us]"])
def test_merge_asof_of_labels_with_a_column(kind: str, by: str | None, direction: str) -> None:
    ours = pandas.DataFrame({"k": np.array([1, 4, 4, 7, 12]), "s": list("abacb"), "x": range(5)}).astype({"k": kind})
    theirs = pandas.DataFrame({"m": np.array([2, 3, 5, 8]), "s": list("abba"), "y": [0.5, 1.5, 2.5, 3.5]}).astype(
        {"m": kind}
    )
    options = {"direction": direction, "by": by}

    def program(pd: Any, one: Any, other: Any) -> Any:
        labels, made = one.set_index("k"), []
        other_labels = other.set_index("m")
        for left, right, named in (
            (labels, other, {"left_index": True, "right_on": "m"}),
            (labels[["s", "x"]][labels["x"] > 1], other, {"left_index": True, "right_on": "m"}),
            (labels, other.rename(columns={"m": "x", "y": "z"}), {"left_index": True, "right_on": "x"}),
            (labels, other.set_axis([5, 6, 7, 8]), {"left_index": True, "right_on": "m"}),
            (one, other_labels, {"left_on": "k", "right_index": True}),
            (labels, other_labels, {"left_index": True, "right_index": True}),
            (one, other, {"left_on": "k", "right_on": "m"}),
            (labels.head(0), other, {"left_index": True, "right_on": "m"}),
            (labels, other.head(0), {"left_index": True, "right_on": "m"}),
        ):
            try:
                joined = pd.merge_asof(left, right, **named, **options)
            except Exception as error:
                made.append((type(error).__name__, str(error)))
            else:
                made += [joined, joined.count(), joined[joined["y" if "y" in joined else "z"].notna()]]
        return made

    check(program, ours, theirs, native=None)


def test_merge_asof_of_empty_and_unfit_tables(timed: Any) -> None:
    check(lambda pd, a, b: (pd.merge_asof(a, b.head(0), on="t"), pd.merge_asof(a.head(0), b, on="t")), *timed)
    check(lambda pd, a, b: pd.merge_asof(a.iloc[::-1], b, on="t"), *timed)
    check(lambda pd, a, b: pd.merge_asof(a, b, on="f"), *timed)
    check(lambda pd, a, b: pd.merge_asof(a, b, on="missing"), *timed, native=None)
    check(lambda pd, a, b: pd.merge_asof(a, b), *timed, native=None)


@pytest.mark.parametrize("how", ["outer", "left", "right", "inner"])
@pytest.mark.parametrize("fill", [None, "ffill"])
def test_merge_ordered(timed: Any, how: str, fill: Any) -> None:
    def program(pd: Any, one: Any, other: Any) -> Any:
        joined = pd.merge_ordered(one, other, on="t", how=how, fill_method=fill)
        seen = joined["i_y"].sum()
        keyed = pd.merge_ordered(one, other.rename(columns={"i": "j"}), left_on="i", right_on="j", how=how)
        return joined, seen, keyed, pd.merge_ordered(one[["s", "f"]], other[["s", "u"]], fill_method=fill, how=how)

    check(program, *timed)


# -- shift, drop, sample ------------------------------------------------------------------------------------------------


def test_shifts_of_labels_and_several_shifts(timed: Any) -> None:
    def program(pd: Any, one: Any, other: Any) -> Any:
        periods = [1, -1, 0]
        numbers = one[["i", "f"]].shift(periods, suffix="_by")
        periods.append(5)
        days = other.set_index("t")
        moved = days.shift(2, freq="D")
        return numbers, numbers["f_by_1"].sum(), one["f"].shift([1, 2]), moved, days["f"].shift(-1, freq="MS")

    check(program, *timed)


def test_dropped_renamed_and_sampled_rows(plain: Any, labelled: Any) -> None:
    def program(pd: Any, one: Any, other: Any) -> Any:
        labels = [2, 4]
        dropped = other.drop(labels)
        labels.append(6)
        spaced = one.drop(range(1, 30, 2))
        renamed = other.rename(index={2: 99}, columns={"i": "z"})
        weights = one["u"] + 1
        sampled = one.sample(8, weights=weights, random_state=1)
        return (
            dropped,
            dropped["f"].sum(),
            spaced,
            one.drop([2, 77], errors="ignore"),
            one["f"].drop(0),
            renamed,
            sampled,
            one.sample(3, weights="u", random_state=2),
            other.filter(items=[2, 4], axis=0),
            one.drop(index=[1], columns="i"),
        )

    check(program, plain, labelled)
    check(lambda pd, a, b: a.drop([1, 77]), plain, labelled)


def test_rows_at_times_of_day(timed: Any) -> None:
    def program(pd: Any, one: Any, other: Any) -> Any:
        days = one.set_index("t")
        night = days.between_time("22:00", "02:00", inclusive="left")
        return night, night["f"].sum(), days["i"].at_time("03:00")

    check(program, *timed)


@pytest.mark.parametrize("keep", ["first", "last", False])
def test_rows_without_duplicates(plain: Any, keep: Any) -> None:
    def program(pd: Any, df: Any) -> Any:
        last = df.drop_duplicates("s", keep=keep)
        return (
            last,
            last["f"].sum(),
            df.sort_values("f").drop_duplicates(["s", "i"], keep=keep),
            df.head(0).drop_duplicates("s"),
        )

    check(program, plain)
