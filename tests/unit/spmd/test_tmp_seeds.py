"""Operators on distributed frames, compared with pandas over the whole, for 1 to 4 ranks and frames of all dtypes."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest
from random_frames import KINDS, assert_same, assert_same_rows, cut, random_frame
from waiting import COMMUNICATOR

import craton.pandas as cpd
from craton.spmd import Environment, Executor, frames, gather, scatter, to_session
from craton.spmd.frames import overlap, partial
from craton.spmd.frames.reading import divided

SIZES = [3, "3, in rounds", *(pytest.param(size, marks=pytest.mark.slow) for size in (1, 2, 4, "2, in rounds"))]


@pytest.fixture(scope="module", params=SIZES)
def executor(request: pytest.FixtureRequest) -> Iterator[Executor]:
    with Executor(int(str(request.param)[0]), communicator=COMMUNICATOR) as made:
        if "rounds" in str(request.param):
            made.run(exchange_in_rounds).results()
        yield made


def exchange_in_rounds(env: Environment) -> None:
    """Let a rank exchange as between machines, and small frames in several rounds."""
    overlap._ROUND = 50
    env.spans_machines = True


def on_ranks(ex: Executor, function: Callable[..., Any], *wholes: pd.DataFrame, seed: int = 0) -> list[Any]:
    """Call a function with each rank's parts of some frames and `env`."""
    chance = np.random.default_rng(seed)
    parts = [cut(chance, whole, ex.parallelism) for whole in wholes]

    def call(all_parts: list[list[pd.DataFrame]], env: Environment) -> Any:
        return function(*[one[env.rank] for one in all_parts], env)

    return ex.run(call, parts).results(60)


HOWS = ["inner", "left", "right", "outer"]


@pytest.mark.parametrize("kind", KINDS)
def test_merge_by_each_dtype(executor: Executor, kind: str) -> None:
    chance = np.random.default_rng(len(kind))
    for rows in ((30, 25), (0, 10), (10, 0), (60, 3)):
        left, right = random_frame(chance, rows[0], [kind, "str"]), random_frame(chance, rows[1], [kind, "float64"])
        for how in HOWS:
            expected = left.merge(right, how=how, on=kind)
            for ordered in (True, False):
                found = on_ranks(
                    executor,
                    lambda a, b, env, how=how, ordered=ordered: frames.merge(a, b, how, kind, env=env, ordered=ordered),
                    left,
                    right,
                )
                (assert_same if ordered else assert_same_rows)(found, expected)


@pytest.mark.filterwarnings("ignore:You are merging on int and float")
@pytest.mark.parametrize("how", HOWS)
def test_merge_by_keys_of_other_names_and_dtypes(executor: Executor, how: Any) -> None:
    chance = np.random.default_rng(1)
    left, right = random_frame(chance, 40), random_frame(chance, 30)
    for names in (
        [("int64", "float64")],
        [("int8", "uint32"), ("str", "object")],
        [("int64", "Int64")],
        [("str", "category")],
    ):
        on = {"left_on": [one for one, _ in names], "right_on": [other for _, other in names]}
        expected = left.merge(right, how=how, **on)
        found = on_ranks(executor, lambda a, b, env, on=on: frames.merge(a, b, how, env=env, **on), left, right)
        assert_same_rows(found, expected)
        if how != "outer":
            found = on_ranks(
                executor, lambda a, b, env, on=on: frames.merge(a, b, how, env=env, ordered=True, **on), left, right
            )
            assert_same(found, expected)


def test_cross_merge(executor: Executor) -> None:
    chance = np.random.default_rng(2)
    left, right = random_frame(chance, 7, ["str"]), random_frame(chance, 5, ["category"])
    found = on_ranks(executor, lambda a, b, env: frames.merge(a, b, "cross", suffixes=("", "_r"), env=env), left, right)
    assert_same(found, left.merge(right, how="cross", suffixes=("", "_r")))


def test_merge_raises_what_pandas_raises(executor: Executor) -> None:
    left, right = pd.DataFrame({"a": [1, 2]}), pd.DataFrame({"b": [1]})
    with pytest.raises(KeyError, match="a"):
        on_ranks(executor, lambda a, b, env: frames.merge(a, b, on="a", env=env), left, right)
    with pytest.raises(pd.errors.MergeError):
        on_ranks(executor, lambda a, b, env: frames.merge(a, b, env=env), left, right)
    with pytest.raises(ValueError, match="reset_index"):
        on_ranks(executor, lambda a, b, env: frames.merge(a, b, left_on="a", env=env), left, right)


@pytest.mark.parametrize("kind", KINDS)
def test_groups_by_each_dtype(executor: Executor, kind: str) -> None:
    chance = np.random.default_rng(len(kind))
    for rows in (40, 1, 0):
        frame = random_frame(chance, rows, list(dict.fromkeys([kind, "int64", "str", "float64"])))
        for dropna in (True, False):
            for named in (
                {"total": ("id", "sum"), "first": ("id", "first"), "n": ("str", "count")},
                {"m": ("float64", "mean")},
            ):
                expected = frame.groupby(kind, dropna=dropna, observed=True).agg(**named)
                found = on_ranks(
                    executor,
                    lambda part, env, dropna=dropna, named=named: frames.groupby(
                        part, kind, dropna=dropna, env=env
                    ).agg(**named),
                    frame,
                )
                assert_same(found, expected)
        by = [kind, "str"] if kind != "str" else ["str", "int64"]
        expected = frame.groupby(by, sort=False, as_index=False, observed=True).agg({"id": "max"})
        found = on_ranks(
            executor,
            lambda part, env, by=by: frames.groupby(part, by, sort=False, as_index=False, env=env, ordered=True).agg(
                {"id": "max"}
            ),
            frame,
        )
        assert_same(found, expected)


def test_groups_with_several_aggregates(executor: Executor) -> None:
    frame = random_frame(np.random.default_rng(5), 50, ["int64", "float64", "bool", "Int64"])
    expected = frame.groupby("int64").agg(["min", "max"])
    assert_same(
        on_ranks(executor, lambda p, env: frames.groupby(p, "int64", env=env).agg(["min", "max"]), frame), expected
    )
    for how in ("sum", "mean", "min", "max", "count", "nunique"):
        expected = getattr(frame.groupby(["bool", "int64"]), how)()
        found = on_ranks(
            executor, lambda p, env, how=how: getattr(frames.groupby(p, ["bool", "int64"], env=env), how)(), frame
        )
        assert_same(found, expected)
    expected = frame.groupby("int64", sort=False).agg({"id": "sum"})
    found = on_ranks(executor, lambda p, env: frames.groupby(p, "int64", sort=False, env=env).agg({"id": "sum"}), frame)
    assert_same_rows([part.reset_index() for part in found], expected.reset_index())


@pytest.mark.parametrize("share", [0.0, 1.0, 1e9])
def test_groups_whose_rows_are_aggregated_before_they_meet(executor: Executor, share: float) -> None:
    """With any share of groups among the rows: none, as many as there are rows, more."""
    executor.run(aggregate_first, share).results(60)
    chance = np.random.default_rng(11)
    programs: list[tuple[Any, dict[str, Any]]] = [
        ("count", {}),
        ("max", {}),
        (["min", "count", "size"], {}),
        ({"int8": ["sum", "mean"], "str": "max", "zeros": "min"}, {}),
        ({"uint32": "mean", "bool": ["sum", "mean", "min"], "id": "sum"}, {}),
        ({"huge": "mean"}, {}),
        ({"huge": "sum", "datetime": "min", "timedelta": ["max", "count"]}, {}),
        (None, {"a": ("int64", "sum"), "b": ("int64", "mean"), "c": ("float64", "max"), "d": ("object", "count")}),
        (None, {"a": ("int64", "sum"), "b": ("float64", "sum")}),
        (None, {"p0": ("int64", "size"), "__1": pd.NamedAgg("int64", "max")}),
    ]
    for rows in (300, 40, 1, 0):
        frame = random_frame(chance, rows).assign(huge=chance.integers(-(1 << 62), 1 << 62, rows))
        for number in range(rows > 1 and rows < 100, len(programs), 2):
            func, named = programs[number]
            key = list(KINDS)[(number * 5 + rows) % len(KINDS)]
            by: Any = [key, "k2"] if number % 3 == 0 else key
            columns = (
                {partial.named_pair(one)[0] for one in named.values()}
                if named
                else set(func)
                if isinstance(func, dict)
                else None
            )
            if isinstance(func, (str, list)):
                columns = {"int64", "float32", "str", "datetime"}
            part = frame.assign(k2=frame["int8"])[list(dict.fromkeys([key, "k2", *sorted(columns - {key}), "id"]))]
            if columns and key in columns:
                continue
            ways = [(True, True, True), (False, True, False), (True, False, False), (False, False, True)]
            for sort, as_index, dropna in ways[number // 2 % 2 :: 2]:
                how = {"sort": sort, "as_index": as_index, "dropna": dropna}
                expected = part.groupby(by, observed=True, **how).agg(func, **named)  # type: ignore[call-overload]

                def call(
                    own: pd.DataFrame, env: Environment, by: Any = by, how: Any = how, f: Any = (func, named)
                ) -> Any:
                    return frames.groupby(own, by, **how, ordered=True, env=env).agg(f[0], **f[1])

                assert_same(on_ranks(executor, call, part, seed=number), expected)
    executor.run(aggregate_first, 0.5).results(60)


def aggregate_first(share: float, env: Environment) -> None:
    """Let a rank aggregate its own rows before an exchange if groups have at most a share of the rows."""
    partial._MOST_GROUPS = share


@pytest.mark.parametrize("kind", KINDS)
def test_sort_by_each_dtype(executor: Executor, kind: str) -> None:
    chance = np.random.default_rng(len(kind))
    for rows in (100, 3, 0):
        frame = random_frame(chance, rows, list(dict.fromkeys([kind, "int64"])))
        frame.index = pd.Index(chance.permutation(rows), name="label")
        for by, ascending, na_position in (
            (kind, True, "last"),
            (kind, False, "first"),
            ([kind, "int64"], [False, True], "last"),
        ):
            expected = frame.sort_values(by, ascending=ascending, na_position=na_position, kind="stable")
            found = on_ranks(
                executor,
                lambda p, env, by=by, ascending=ascending, na=na_position: frames.sort_values(
                    p, by, ascending=ascending, na_position=na, env=env
                ),
                frame,
            )
            assert_same(found, expected)


def test_sorted_parts_have_nearly_equal_sizes(executor: Executor) -> None:
    chance = np.random.default_rng(7)
    for values in (chance.random(20_000), np.zeros(20_000), np.sort(chance.random(20_000))):
        frame = pd.DataFrame({"x": values, "n": np.arange(20_000)})
        parts = executor.run(
            lambda whole, env: frames.sort_values(scatter_part(whole, env), "x", ignore_index=True, env=env), frame
        )
        lengths = [len(part) for part in parts.results()]
        assert max(lengths) <= 2 * 20_000 / executor.parallelism
        assert_same(parts.results(), frame.sort_values("x", kind="stable", ignore_index=True))


def scatter_part(whole: pd.DataFrame, env: Environment) -> pd.DataFrame:
    return whole.iloc[env.rank * len(whole) // env.world_size : (env.rank + 1) * len(whole) // env.world_size]


@pytest.mark.parametrize("keep", ["first", "last", False])
def test_duplicates(executor: Executor, keep: Any) -> None:
    chance = np.random.default_rng(3)
    frame = random_frame(chance, 80).drop(columns="id")
    for subset in (["int64", "str"], ["category"], "zeros", ["tz", "timedelta"], ["Int64", "boolean", "ordered"], None):
        expected = frame.drop_duplicates(subset, keep=keep)
        found = on_ranks(
            executor, lambda p, env, subset=subset: frames.drop_duplicates(p, subset, keep=keep, env=env), frame
        )
        assert_same(found, expected)
    found = on_ranks(executor, lambda p, env: frames.drop_duplicates(p, "int64", ignore_index=True, env=env), frame)
    assert_same(found, frame.drop_duplicates("int64", ignore_index=True))


@pytest.mark.parametrize("seed", range(3))
def test_sets_of_rows(executor: Executor, seed: int) -> None:
    chance = np.random.default_rng(seed)
    kinds = [["int64", "str"], ["float64", "boolean"], ["category", "datetime"]][seed]
    left, right = (random_frame(chance, rows, kinds).drop(columns="id") for rows in (30, [20, 0, 5][seed]))
    distinct, other = left.drop_duplicates(), right.drop_duplicates()
    both = distinct.merge(other, how="left", on=kinds, indicator=True)
    within = (both.pop("_merge") == "both").to_numpy()
    for function, expected in (
        (frames.union, pd.concat([left, right]).drop_duplicates(ignore_index=True)),
        (frames.intersection, distinct[within].reset_index(drop=True)),
        (frames.difference, distinct[~within].reset_index(drop=True)),
    ):
        found = on_ranks(executor, lambda a, b, env, function=function: function(a, b, env=env), left, right)
        assert_same(found, expected)


def test_distribution_of_rows(executor: Executor) -> None:
    frame = random_frame(np.random.default_rng(4), 53)
    size = executor.parallelism
    even = on_ranks(executor, lambda p, env: frames.rebalance(p, env=env), frame)
    assert_same(even, frame)
    assert [len(part) for part in even] == [53 * (r + 1) // size - 53 * r // size for r in range(size)]
    wanted = [53 - (size - 1), *[1] * (size - 1)]
    found = on_ranks(executor, lambda p, env: frames.repartition(p, wanted, env=env), frame)
    assert [len(part) for part in found] == wanted
    assert_same(found, frame)
    by_key = on_ranks(executor, lambda p, env: frames.repartition(p, by=["str", "int64"], env=env), frame)
    assert (
        sum(part.groupby(["str", "int64"], dropna=False).ngroups for part in by_key)
        == frame.groupby(["str", "int64"], dropna=False).ngroups
    )
    for n in (0, 5, 40, 100, -3, -100):
        assert_same(on_ranks(executor, lambda p, env, n=n: frames.head(p, n, env=env), frame), frame.head(n))
        assert_same(on_ranks(executor, lambda p, env, n=n: frames.tail(p, n, env=env), frame), frame.tail(n))
    with pytest.raises(ValueError, match="with the sum 53"):
        on_ranks(executor, lambda p, env: frames.repartition(p, [1] * env.world_size, env=env), frame)
    with pytest.raises(ValueError, match="either lengths"):
        on_ranks(executor, lambda p, env: frames.repartition(p, env=env), frame)


def test_concatenation(executor: Executor) -> None:
    chance = np.random.default_rng(6)
    first, second = random_frame(chance, 20, ["int64", "str"]), random_frame(chance, 30, ["float64", "str"])
    expected = pd.concat([first, second])
    found = on_ranks(executor, lambda a, b, env: frames.concat([a, b], env=env, ordered=True), first, second)
    assert_same(found, expected)
    found = on_ranks(
        executor, lambda a, b, env: frames.concat([a, b], ignore_index=True, env=env, ordered=True), first, second
    )
    assert_same(found, expected.reset_index(drop=True))
    assert_same_rows(on_ranks(executor, lambda a, b, env: frames.concat([a, b], env=env), first, second), expected)


def test_equality(executor: Executor) -> None:
    chance = np.random.default_rng(8)
    frame = random_frame(chance, 40)
    other = frame.copy()
    other.loc[other.index[-1], "int64"] += 1

    def compare(a: pd.DataFrame, b: pd.DataFrame, env: Environment) -> bool:
        return frames.equals(a, b, env=env)

    size = executor.parallelism
    assert on_ranks(executor, compare, frame, frame.copy()) == [True] * size
    assert on_ranks(executor, compare, frame, other) == [False] * size
    assert on_ranks(executor, compare, frame, frame.iloc[:-1]) == [False] * size
    assert on_ranks(executor, compare, frame, frame.astype({"int64": float})) == [False] * size


@pytest.mark.parametrize("how", ["sum", "mean", "std", "var", "min", "max", "count", "nunique"])
def test_reductions(executor: Executor, how: str) -> None:
    chance = np.random.default_rng(9)
    for rows in (60, 2, 0):
        frame = random_frame(chance, rows)
        kinds = {"sum": ["id", "int8", "uint32", "float64", "float32", "bool", "Int64", "boolean", "timedelta"]}
        kinds["mean"] = kinds["std"] = kinds["var"] = [kind for kind in kinds["sum"] if kind != "timedelta"]
        kinds["min"] = kinds["max"] = [*kinds["sum"], "zeros", "ordered", "datetime", "tz"]
        wanted = frame[kinds.get(how, list(frame.columns))]
        for column in wanted.columns:
            expected = getattr(wanted[column], how)()
            for found in on_ranks(executor, lambda p, env, name=column: getattr(frames, how)(p[name], env=env), wanted):
                if pd.isna(expected):
                    assert pd.isna(found), column
                elif isinstance(expected, (float, np.floating)):
                    assert found == pytest.approx(expected, rel=1e-6), column
                else:
                    assert found == expected, column
        numbers = frame[["id", "float64", "uint32"]]
        for found in on_ranks(executor, lambda p, env: getattr(frames, how)(p, env=env), numbers):
            pd.testing.assert_series_equal(found, getattr(numbers, how)())
    if how in ("sum", "mean", "std", "var", "min", "max"):
        numbers = random_frame(chance, 20, ["float64", "int64", "str"])
        for found in on_ranks(
            executor, lambda p, env: getattr(frames, how)(p, skipna=False, numeric_only=True, env=env), numbers
        ):
            pd.testing.assert_series_equal(found, getattr(numbers, how)(skipna=False, numeric_only=True))


def test_variances(executor: Executor) -> None:
    chance = np.random.default_rng(12)
    frame = random_frame(chance, 50, ["float64", "Int64", "timedelta"])
    frame["far"] = 1e9 + chance.random(50)  # a sum of squares would lose all digits
    frame["complex"] = chance.random(50) + 1j
    for name in ("far", "Int64", "timedelta"):
        for ddof in (0, 1, 2, 50):
            for how in ("std", "var"):
                if (name, how) == ("timedelta", "var"):
                    continue
                expected = getattr(frame[name], how)(ddof=ddof)
                for found in on_ranks(
                    executor,
                    lambda p, env, name=name, how=how, ddof=ddof: getattr(frames, how)(p[name], ddof=ddof, env=env),
                    frame,
                ):
                    if pd.isna(expected):
                        assert pd.isna(found), (name, how, ddof)
                    elif name == "timedelta":
                        assert abs(found - expected) <= pd.Timedelta(10, "ns"), (name, how, ddof)
                    else:
                        assert found == pytest.approx(expected, rel=1e-9), (name, how, ddof)
    for found in on_ranks(executor, lambda p, env: frames.var(p["complex"], env=env), frame):
        assert found == pytest.approx(frame["complex"].var())


def test_large_frames_are_exchanged_in_rounds_between_machines(executor: Executor) -> None:
    def rounds(part: pd.DataFrame, env: Environment) -> int:
        return overlap.number_of_rounds(env, part)

    frame = pd.DataFrame({"x": range(3000)})
    found = on_ranks(executor, rounds, frame)
    in_rounds = executor.run(lambda env: env.spans_machines).results()[0]
    assert found == [overlap._MOST if in_rounds else 1] * executor.parallelism
    assert on_ranks(executor, rounds, frame.iloc[:0]) == [1] * executor.parallelism


def test_an_error_in_the_midst_of_an_exchange(executor: Executor) -> None:
    def fail(part: pd.DataFrame, env: Environment) -> Any:
        def aggregate(values: Any) -> Any:
            if env.rank == 1 or env.world_size == 1:
                raise ZeroDivisionError("in a group")
            return 0

        return frames.groupby(part, "k", env=env).agg({"x": aggregate})

    frame = pd.DataFrame({"k": np.arange(3000) % 100, "x": range(3000)})
    for _ in range(2):
        with pytest.raises(ZeroDivisionError, match="in a group"):
            on_ranks(executor, fail, frame)
        totals = on_ranks(executor, lambda p, env: frames.groupby(p, "k", env=env).agg({"x": "sum"}), frame)
        assert_same(totals, frame.groupby("k").agg({"x": "sum"}))


def test_parts_of_different_dtypes_get_those_of_the_whole(executor: Executor) -> None:
    def sort(env: Environment) -> pd.DataFrame:
        part = pd.DataFrame({"x": [3, 1] if env.rank == 0 else [2.5, None]})
        return frames.sort_values(part, "x", ignore_index=True, env=env)

    parts = [pd.DataFrame({"x": [3, 1] if rank == 0 else [2.5, None]}) for rank in range(executor.parallelism)]
    assert_same(executor.run(sort).results(), pd.concat(parts).sort_values("x", kind="stable", ignore_index=True))

    def differ(env: Environment) -> pd.DataFrame:
        return frames.rebalance(pd.DataFrame({f"c{min(env.rank, 1)}": [1]}), env=env)

    if executor.parallelism > 1:
        with pytest.raises(ValueError, match="same columns"):
            executor.run(differ).results()


def test_craton_frames_give_craton_frames(executor: Executor) -> None:
    chance = np.random.default_rng(10)
    left, right = random_frame(chance, 30_000, ["int64"]), random_frame(chance, 20_000, ["float64"])

    def join(a: pd.DataFrame, b: pd.DataFrame, env: Environment) -> tuple[bool, pd.DataFrame]:
        result = frames.merge(cpd.DataFrame(a), cpd.DataFrame(b), on="id", env=env, ordered=True)
        totals = frames.groupby(result, "int64", env=env).agg({"id": "sum"})
        return isinstance(result, cpd.DataFrame) and isinstance(totals, cpd.DataFrame), pd.DataFrame(totals)

    found = on_ranks(executor, join, left, right)
    assert all(is_ours for is_ours, _ in found)
    assert_same([part for _, part in found], left.merge(right, on="id").groupby("int64").agg({"id": "sum"}))


def test_parquet_files(executor: Executor, tmp_path: Any) -> None:
    frame = random_frame(np.random.default_rng(11), 100, [kind for kind in KINDS if kind != "timedelta"])
    frame.to_parquet(tmp_path / "one.parquet", row_group_size=7)
    found = executor.run(lambda env: env.read_parquet(str(tmp_path / "one.parquet"))).results()
    assert_same(found, pd.read_parquet(tmp_path / "one.parquet"))
    folder = tmp_path / "many"
    folder.mkdir()
    for number in range(3):
        part = frame.iloc[number * 20 : number * 20 + 20].reset_index(drop=True)
        if number == 2:
            part["int64"] = part["int64"].where(part["int64"] > 0)
        part.to_parquet(folder / f"{number}.parquet", row_group_size=9)
    expected = pd.concat(
        [pd.read_parquet(folder / f"{n}.parquet", columns=["int64", "str"]) for n in range(3)], ignore_index=True
    )
    for path in (str(folder), str(folder / "*.parquet"), [folder / f"{n}.parquet" for n in range(3)]):
        assert_same(executor.run(lambda path, env: env.read_parquet(path, ["int64", "str"]), path).results(), expected)
    with pytest.raises(FileNotFoundError):
        executor.run(lambda env: env.read_parquet(str(tmp_path / "none*.parquet"))).results()


def test_frames_of_the_program(executor: Executor) -> None:
    frame = random_frame(np.random.default_rng(12), 200_000, ["int64", "str", "category"])
    parts = scatter(frame, executor)
    pd.testing.assert_frame_equal(gather(parts), frame)
    doubled = executor.run(lambda part: part.assign(id=part["id"] * 2), parts)
    whole = to_session(doubled)
    assert isinstance(whole, cpd.DataFrame)
    assert int(whole["id"].sum()) == 2 * int(frame["id"].sum())
    pd.testing.assert_frame_equal(gather(scatter(cpd.DataFrame(frame), executor)), frame)


@pytest.mark.parametrize("size", [1, 2, 3, 7])
@pytest.mark.parametrize("rows", [[], [5], [1, 1, 1, 1], [100, 1, 1], [0, 0, 9], [3] * 20], ids=str)
def test_row_groups_are_divided(rows: list[int], size: int) -> None:
    parts = divided(rows, size)
    assert len(parts) == size
    assert [at for first, end in parts for at in range(first, end)] == list(range(len(rows)))


# ---- random programs ----


def _aggregated(part: pd.DataFrame, groups: Any) -> pd.DataFrame:
    return groups.agg(id=("id", "sum"), v=("v", "max"), w=("w", "first"))[["id", "k", "v", "w"]]


def step_on_ranks(name: str, how: str, a: pd.DataFrame, b: pd.DataFrame, env: Environment) -> pd.DataFrame:
    """One step of a random program, on ranks."""
    match name:
        case "merge":
            joined = frames.merge(a, b[["k", "w"]], how, "k", suffixes=("", "_b"), env=env, ordered=True)
            return frames.head(joined, 200, env=env)[["id", "k", "v", "w"]]
        case "groupby":
            return _aggregated(a, frames.groupby(a, "k", sort=how != "left", as_index=False, env=env, ordered=True))
        case "sort":
            return frames.sort_values(a, ["v", "k"], ascending=[how == "left", True], env=env)
        case "distinct":
            return frames.drop_duplicates(a, ["k", "w"], keep="last" if how == "right" else "first", env=env)
        case "concat":
            return frames.concat([a, b], ignore_index=how == "left", env=env, ordered=True)
        case "filter":
            return a[a["v"].isna() if how == "right" else a["v"] > 0]
        case "rebalance":
            return frames.rebalance(a, env=env)
        case "set":
            function = {"inner": frames.intersection, "left": frames.difference}.get(how, frames.union)
            return function(a, b, env=env)
        case _:
            return frames.tail(a, 30, env=env)


def step_in_pandas(name: str, how: str, a: pd.DataFrame, b: pd.DataFrame) -> pd.DataFrame:
    """The same step in pandas."""
    match name:
        case "merge":
            return a.merge(b[["k", "w"]], how=how, on="k", suffixes=("", "_b")).head(200)[["id", "k", "v", "w"]]
        case "groupby":
            return _aggregated(a, a.groupby("k", sort=how != "left", as_index=False, observed=True))
        case "sort":
            return a.sort_values(["v", "k"], ascending=[how == "left", True])
        case "distinct":
            return a.drop_duplicates(["k", "w"], keep="last" if how == "right" else "first")
        case "concat":
            return pd.concat([a, b], ignore_index=how == "left")
        case "filter":
            return a[a["v"].isna() if how == "right" else a["v"] > 0]
        case "set":
            one, other = a.drop_duplicates(), b.drop_duplicates()
            if how not in ("inner", "left"):
                return pd.concat([a, b]).drop_duplicates(ignore_index=True)
            both = one.merge(other, on=list(one.columns), how="left", indicator=True)["_merge"].to_numpy() == "both"
            return one[both == (how == "inner")].reset_index(drop=True)
        case "rebalance":
            return a
        case _:
            return a.tail(30)


STEPS = ["merge", "groupby", "sort", "distinct", "concat", "filter", "rebalance", "set", "tail"]


@pytest.mark.parametrize("seed", [*range(100, 400)])
def test_random_programs(executor: Executor, seed: int) -> None:
    chance = np.random.default_rng(seed)
    key = list(KINDS)[seed % len(KINDS)]

    def made(rows: int) -> pd.DataFrame:
        frame = random_frame(chance, rows, list(dict.fromkeys([key, "float64", "str"])))
        return pd.DataFrame({"id": frame["id"], "k": frame[key], "v": frame["float64"], "w": frame["str"]})

    a, b = made(int(chance.integers(0, 60))), made(int(chance.integers(0, 40)))
    steps = [(str(chance.choice(STEPS)), str(chance.choice(HOWS))) for _ in range(int(chance.integers(2, 7)))]

    def program(one: pd.DataFrame, other: pd.DataFrame, env: Environment) -> list[pd.DataFrame]:
        results = []
        for name, how in steps:
            one = step_on_ranks(name, how, one, other, env)
            results.append(one)
        return results

    found = on_ranks(executor, program, a, b, seed=seed)
    for number, (name, how) in enumerate(steps):
        a = step_in_pandas(name, how, a, b)
        try:
            assert_same([results[number] for results in found], a)
        except AssertionError as error:
            raise AssertionError(f"step {number} of {steps}: {error}") from error


def test_nothing_warns(executor: Executor) -> None:
    def strict(env: Environment) -> int:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            part = pd.DataFrame({"k": [1, 2], "x": [None, 1.5]})
            return len(frames.merge(part, part, on="k", env=env))

    assert sum(executor.run(strict).results()) == 2 * executor.parallelism**2
