"""Rows that runs compute again for an object that the program holds are kept, and never differ from new ones."""

from __future__ import annotations

import gc
import threading

import numpy as np
import pandas
import pytest

import craton
import craton.pandas as pd
from craton.engine import repeated_runs
from craton.engine.live_objects import live_objects
from craton.engine.result_cache import results
from craton.pandas.core.lazy import view
from craton.plan import build
from craton.plan.operators import Filter, Join
from craton.plan.visit import topological

ROWS = 5_000


@pytest.fixture(autouse=True)
def planned():
    with craton.option_context(small_rows=0):
        results.clear()
        yield


def numbers() -> pandas.DataFrame:
    rng = np.random.default_rng(1)
    return pandas.DataFrame({
        "k": rng.integers(0, 50, ROWS),
        "x": np.where(rng.random(ROWS) < 0.1, np.nan, rng.normal(size=ROWS)),
        "s": [f"name {i % 700}" for i in range(ROWS)],
    })  # fmt: skip


@pytest.fixture(params=["memory", "file"])
def frames(request, tmp_path):
    """The same frame of Craton and of pandas, in memory or in a file."""
    expected = numbers()
    if request.param == "memory":
        return pd.DataFrame(numbers()), expected
    expected.to_parquet(tmp_path / "f.parquet")
    return pd.read_parquet(tmp_path / "f.parquet"), expected


def kept(obj, columns: set[str]) -> bool:
    return results.covers(view(obj).base, columns)


def test_the_second_number_keeps_the_rows(frames):
    ours, theirs = frames
    few, expected = ours[ours["x"] > 0], theirs[theirs["x"] > 0]
    assert few["x"].max() == expected["x"].max()
    assert not kept(few, {"x"})
    assert few["x"].min() == expected["x"].min()
    assert kept(few, {"x"})
    assert not kept(few, {"s"})
    assert few["k"].max() == expected["k"].max()
    assert few["k"].min() == expected["k"].min()
    assert kept(few, {"k"})


def test_kept_rows_are_not_computed_again(frames):
    ours, _ = frames
    few = ours[ours["k"] > 10]
    assert few["x"].count() > 0
    assert few["x"].sum() != 0
    base = view(few).base
    plan = build.project(base, (("x", base.column("x")),))
    assert any(isinstance(op, Filter) for op in topological(plan))
    assert not any(isinstance(op, Filter) for op in topological(results.substitute(plan)))


def test_rows_of_a_frame_that_was_changed_in_place_are_kept(frames):
    ours, theirs = frames
    made, expected = pd.DataFrame(numbers()), numbers()
    made["total"], expected["total"] = (
        ours.groupby("k")["x"].transform("sum"),
        theirs.groupby("k")["x"].transform("sum"),
    )
    assert made["total"].max() == expected["total"].max()
    assert made["total"].nunique() == expected["total"].nunique()
    assert made[made["total"] == made["total"].max()]["k"].nunique() == 1
    assert any(obj is made for obj, _ in live_objects())


def test_an_object_of_one_number_is_not_kept(frames):
    ours, _ = frames
    before = results.digests()
    for least in range(5):
        assert ours[ours["x"] > least]["k"].count() >= 0
    new = results.digests() - before
    assert not any(isinstance(op, Filter) and op.digest in new for op in topological(view(ours[ours["x"] > 0]).base))


def test_the_columns_of_a_file_are_decoded_once(tmp_path):
    numbers().to_parquet(tmp_path / "f.parquet")
    ours = pd.read_parquet(tmp_path / "f.parquet")
    means = [ours["x"].mean(), ours["x"].median(), ours[ours["k"] > 3]["x"].sum()]
    assert kept(ours, {"x"})
    assert not kept(ours, {"s"})
    theirs = numbers()
    assert means == pytest.approx([theirs["x"].mean(), theirs["x"].median(), theirs[theirs["k"] > 3]["x"].sum()])


def test_a_changed_file_is_read_again(tmp_path):
    path = tmp_path / "f.parquet"
    first = numbers()
    first.to_parquet(path)
    ours = pd.read_parquet(path)
    assert [ours["k"].sum(), ours["k"].max()] == [first["k"].sum(), first["k"].max()]
    second = first.assign(k=first["k"] + 1)
    second.to_parquet(path)
    again = pd.read_parquet(path)
    assert [again["k"].sum(), again["k"].max(), again["k"].min()] == [
        second["k"].sum(),
        second["k"].max(),
        second["k"].min(),
    ]


def test_rows_in_any_order_do_not_serve_a_plan_that_observes_it():
    left, right = numbers(), numbers().drop_duplicates("k")[["k", "s"]].sample(frac=1, random_state=1)
    ours = pd.DataFrame(left).merge(pd.DataFrame(right), on="k")
    theirs = left.merge(right, on="k")
    for _ in range(2):
        assert ours["x"].count() == theirs["x"].count()
    assert ours["x"].shift().sum() == pytest.approx(theirs["x"].shift().sum())
    pandas.testing.assert_series_equal(pandas.Series(ours["x"].to_numpy()), pandas.Series(theirs["x"].to_numpy()))


def test_kept_rows_go_with_the_object():
    ours = pd.DataFrame(numbers())
    few = ours[ours["x"] > 0]
    assert few["x"].max() > few["x"].min()
    digest = view(few).base.digest
    assert digest in results.digests()
    del few
    gc.collect()
    assert ours["x"].max() > 0
    assert digest not in results.digests()


def test_kept_rows_stay_while_an_equal_object_lives():
    ours = pd.DataFrame(numbers())
    few = ours[ours["x"] > 0]
    assert few["x"].max() > few["x"].min()
    digest = view(few).base.digest
    other = ours[ours["x"] > 0]
    del few
    gc.collect()
    assert ours["k"].max() > 0
    assert (digest in results.digests()) == (view(other).base.digest == digest)
    assert other["x"].min() > 0


def test_a_write_after_the_rows_were_kept_is_seen():
    ours, theirs = pd.DataFrame(numbers()), numbers()
    few, expected = ours[ours["k"] > 25], theirs[theirs["k"] > 25]
    for _ in range(3):
        assert few["k"].sum() == expected["k"].sum()
    few["k"] = few["k"] * 2
    expected = expected.assign(k=expected["k"] * 2)
    assert few["k"].sum() == expected["k"].sum()
    ours.loc[0, "k"] = 49
    theirs.loc[0, "k"] = 49
    assert ours[ours["k"] > 25]["k"].sum() == theirs[theirs["k"] > 25]["k"].sum()


def test_results_larger_than_the_limit_are_not_kept():
    with craton.option_context(result_memory=100_000):
        ours = pd.DataFrame(numbers())
        few = ours[ours["x"] > -9]
        counted = [few["s"].count() for _ in range(4)]
        assert len(set(counted)) == 1
        assert not kept(few, {"s"})


def test_threads_keep_the_same_rows():
    ours, theirs = pd.DataFrame(numbers()), numbers()
    few, expected = ours[ours["x"] > 0], theirs[theirs["x"] > 0]["x"].max()
    found: list[float] = []
    threads = [threading.Thread(target=lambda: found.extend(few["x"].max() for _ in range(5))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 40


def test_joined_rows_are_kept(frames):
    ours, theirs = frames
    other = numbers().drop_duplicates("k")[["k", "s"]]
    joined, expected = ours.merge(pd.DataFrame(other), on="k"), theirs.merge(other, on="k")
    assert joined["x"].max() == expected["x"].max()
    assert joined["k"].nunique() == expected["k"].nunique()
    assert joined["k"].max() == expected["k"].max()
    plan = results.substitute(view(joined).base, ordered=False)
    assert not any(isinstance(op, Join) for op in topological(plan)) or kept(joined, {"k"})


def test_a_plan_of_few_rows_is_computed_once():
    ours = pd.DataFrame(numbers())
    base = view(ours[ours["x"] > 0]).base
    assert not repeated_runs.best_computed_once(base, 200)
    assert repeated_runs.best_computed_once(view(ours.head(7)).base, 200)
    assert repeated_runs.best_computed_once(view(ours.sort_values("x")).base, 200)


def test_a_plan_of_a_file_is_not_computed_for_a_few_rows(tmp_path):
    numbers().to_parquet(tmp_path / "f.parquet")
    ours = pd.read_parquet(tmp_path / "f.parquet")
    assert not repeated_runs.best_computed_once(view(ours.sort_values("x")).base, 200)
    assert repeated_runs.best_computed_once(view(ours.sort_values("x").head(9)).base, 200)


def test_a_small_file_in_use_is_treated_like_data_in_memory(tmp_path):
    numbers().to_parquet(tmp_path / "f.parquet")
    ours, theirs = pd.read_parquet(tmp_path / "f.parquet"), numbers()
    assert not repeated_runs.may_keep(view(ours).base)
    assert ours["k"].max() == theirs["k"].max()
    assert repeated_runs.may_keep(view(ours).base)
    ours["t"] = pd.to_datetime("2024-01-" + (ours["k"] % 28 + 1).astype(str).str.zfill(2))
    theirs["t"] = pandas.to_datetime("2024-01-" + (theirs["k"] % 28 + 1).astype(str).str.zfill(2))
    few, expected = ours.drop_duplicates("k"), theirs.drop_duplicates("k")
    assert few["x"].count() == expected["x"].count()
    assert few["t"].max() == expected["t"].max()
    pandas.testing.assert_frame_equal(pandas.DataFrame(few), expected)
    pandas.testing.assert_frame_equal(pandas.DataFrame(ours), theirs)


def test_a_large_file_in_use_is_not(tmp_path):
    numbers().to_parquet(tmp_path / "f.parquet")
    ours = pd.read_parquet(tmp_path / "f.parquet")
    with craton.option_context(result_memory=100_000):
        assert [ours["k"].max(), ours["k"].min()] == [49, 0]
        assert not repeated_runs.may_keep(view(ours).base)


def test_a_file_that_changes_while_it_is_in_use(tmp_path):
    path = tmp_path / "f.parquet"
    numbers().to_parquet(path)
    ours, theirs = pd.read_parquet(path), numbers()
    assert [ours["k"].max(), ours["k"].min(), ours["k"].sum()] == [49, 0, theirs["k"].sum()]
    ours["n"] = ours["s"].str.slice(5).astype("int64")
    numbers().assign(k=0, s="name 1").to_parquet(path)
    assert ours["k"].sum() == theirs["k"].sum()  # kept
    with pytest.raises(craton.errors.SourceChanged):
        ours.groupby("s")["x"].sum().sum()


def test_columns_that_were_kept_stay_when_others_are_added(frames):
    ours, theirs = frames
    few, expected = ours[ours["x"] > 0], theirs[theirs["x"] > 0]
    assert [few["k"].sum(), few["k"].max()] == [expected["k"].sum(), expected["k"].max()]
    assert few["s"].max() == expected["s"].max()
    assert kept(few, {"k"})
    assert kept(few, {"k", "s"})
    pandas.testing.assert_frame_equal(pandas.DataFrame(few), expected)


def test_a_few_rows_of_a_file_do_not_keep_all(tmp_path):
    numbers().to_parquet(tmp_path / "f.parquet")
    ours = pd.read_parquet(tmp_path / "f.parquet")
    for _ in range(3):
        assert len(repr(ours).splitlines()) > 10
        assert ours.head()["x"].count() >= 0
        assert ours.iloc[5:9]["k"].sum() >= 0
    assert not kept(ours, {"x"})
    assert not kept(ours, {"k"})


@pytest.mark.parametrize("whole", [False, True])
def test_only_columns_that_an_object_can_read_are_kept_beside_the_needed_ones(tmp_path, whole):
    numbers().to_parquet(tmp_path / "f.parquet")
    ours, theirs = pd.read_parquet(tmp_path / "f.parquet").sort_values("x"), numbers().sort_values("x")
    ranked, expected = (ours, theirs) if whole else (ours["k"], theirs["k"])
    del ours
    gc.collect()
    # Each number needs the order of the rows.
    assert int((ranked["k"] if whole else ranked).diff().sum()) == int(theirs["k"].diff().sum())
    assert int((ranked["k"] if whole else ranked).shift().sum()) == int(theirs["k"].shift().sum())
    assert int((ranked["k"] if whole else ranked).diff(2).sum()) == int(theirs["k"].diff(2).sum())
    assert kept(ranked, {"k"})
    assert kept(ranked, {"s"}) == whole
    compare = pandas.testing.assert_frame_equal if whole else pandas.testing.assert_series_equal
    compare((pandas.DataFrame if whole else pandas.Series)(ranked), expected)


def runs_of(monkeypatch):
    """The operators of each run of the kernel from now on, by the names of their classes."""
    from craton.engine import run

    seen: list[list[str]] = []
    original = run.run_on_single_node

    def spy(plans, *args):
        seen.append([type(op).__name__ for plan in plans for op in topological(plan)])
        return original(plans, *args)

    monkeypatch.setattr(run, "run_on_single_node", spy)
    return seen


def test_a_frame_below_results_that_are_kept_is_computed_once(monkeypatch):
    texts = [" ".join(f"w{(i * j) % 7}" for j in range(1, 5)) for i in range(ROWS)]
    seen = []
    runs = runs_of(monkeypatch)
    for library in (pd, pandas):
        frame = library.DataFrame({"s": texts, "n": range(ROWS)})
        words = frame.assign(w=frame["s"].str.split()).explode("w").drop(columns="s")
        words = words[words["w"] != "w0"]
        counts = words["w"].value_counts()
        found = [counts.head(3).tolist()]
        means = words.groupby("w")["n"].agg(["mean", "count"])
        found.append(means["count"].tolist())
        runs.clear()
        sizes = words.groupby(["w", "n"]).size()
        found += [len(sizes), int(sizes.max())]
        if library is pd:
            assert not any("Explode" in names for names in runs)
        words["n"] = words["n"] * 2
        found.append(int(words["n"].sum()))
        seen.append(found)
    assert seen[0] == seen[1]


def test_rows_below_a_cached_group_by_are_not_kept(monkeypatch):
    left, right = numbers(), numbers().drop_duplicates("k")
    seen = []
    for library in (pd, pandas):
        both = library.DataFrame(left).merge(library.DataFrame(right), on="k", how="outer")
        both = both.dropna(subset=["x_x"])
        table = both.groupby("k")[["x_x", "x_y"]].count()
        first = table["x_x"].tolist()
        table["share"] = table["x_x"] / table["x_y"]
        runs = runs_of(monkeypatch)
        seen.append([first, table.sort_values("share", kind="stable")["share"].tolist(), len(both)])
        if library is pd:
            assert not any("Join" in names for names in runs[:1])
    assert seen[0] == seen[1]


def test_a_merge_of_nearest_keys_computes_each_table_once(tmp_path, monkeypatch):
    rng = np.random.default_rng(2)
    for name, rows in (("left", ROWS), ("right", ROWS // 2)):
        made = pandas.DataFrame(
            {"t": rng.permutation(rows) * 3, "k": rng.integers(0, 9, rows), f"v_{name}": rng.random(rows)}
        )
        made.to_parquet(tmp_path / f"{name}.parquet")
    seen = []
    for library in (pd, pandas):
        sides = [library.read_parquet(tmp_path / f"{name}.parquet").sort_values("t") for name in ("left", "right")]
        runs = runs_of(monkeypatch)
        joined = library.merge_asof(*sides, on="t", by="k", tolerance=6)
        found = [joined["v_right"].isna().sum(), joined["v_right"].sum(), joined.head(3).to_dict("list")]
        joined["d"] = joined["v_left"] - joined["v_right"]
        found += [joined["d"].describe().round(9).tolist(), joined["t"].iloc[-1]]
        if library is pd:
            assert sum("Sort" in names for names in runs) == 2
            assert sum("Join" in names for names in runs) == 1
        found += [sides[0]["t"].iloc[-1], sides[1].index[0]]
        seen.append(found)
    numbers_of = [[str(one) for one in found] for found in seen]
    assert numbers_of[0] == numbers_of[1]


def test_the_length_of_distinct_rows_keeps_all_columns(monkeypatch):
    given = pandas.concat([numbers(), numbers().head(40)], ignore_index=True)
    seen = []
    for library in (pd, pandas):
        few = library.DataFrame(given).drop_duplicates(keep="last")
        runs = runs_of(monkeypatch)
        found = [len(few), few["x"].sum(), few["s"].iloc[-1], few.index[-1]]
        if library is pd:
            assert sum("Distinct" in names for names in runs) == 1
        seen.append(found)
    assert list(map(str, seen[0])) == list(map(str, seen[1]))
