"""Sorting of distributed frames, by samples, and the distribution of their rows."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd

from craton.spmd.frames.hashing import ranks_by_hash
from craton.spmd.frames.overlap import Parts, in_rounds, number_of_rounds
from craton.spmd.frames.parts import (
    Places,
    agreed,
    default_index,
    exchange,
    finished,
    in_order,
    joined,
    local,
    moved_to,
    offset_of,
    plain,
    split_evenly,
    with_unique_columns,
)  # fmt: skip
from craton.spmd.frames.ranges import in_ranges

if TYPE_CHECKING:
    from craton.spmd.environment import Environment

__all__ = ["by_range", "concat", "head", "rebalance", "repartition", "sort_values", "sorted_whole", "tail"]

#: Rows that each rank contributes to the choice of the ranges, for each range.
_SAMPLE = 64
NaPosition = Literal["first", "last"]


def sort_values(
    frame: pd.DataFrame,
    by: Hashable | list[Hashable],
    *,
    ascending: bool | Sequence[bool] = True,
    na_position: NaPosition = "last",
    ignore_index: bool = False,
    env: Environment,
) -> Any:
    """Sort a frame, as :meth:`pandas.DataFrame.sort_values` does with ``kind="stable"``. All ranks call it.

    The ranks agree on ranges of the keys, from a sample of their rows. Each rank gets one range, so that the whole is in order;
    the parts have nearly equal numbers of rows, unless one key has more rows on one rank than a part.

    Parameters
    ----------
    frame
        The rank's part.
    by
        The column, or a list of columns.
    ascending
        The direction, for all columns or for each.
    na_position
        Where missing values come.
    ignore_index
        Number the rows instead of keeping their labels.
    env
        The environment of the rank.

    Returns
    -------
    DataFrame
        The rank's part of the sorted frame.

    Raises
    ------
    KeyError, ValueError
        As in pandas.
    """
    keys = by if isinstance(by, list) else [by]
    up = (
        [bool(ascending)] * len(keys)
        if isinstance(ascending, (bool, np.bool_, int))
        else [bool(one) for one in ascending]
    )
    (part,) = agreed(env, plain(frame))
    part.iloc[:0].sort_values(keys, ascending=up, na_position=na_position)  # pandas checks the arguments
    part = sorted_whole(env, part, keys, up, na_position)
    return finished(default_index(env, part) if ignore_index else part, frame)


def sorted_whole(
    env: Environment, part: pd.DataFrame, keys: list[Hashable], up: list[bool], na_position: NaPosition
) -> pd.DataFrame:
    """Sort parts that have the same dtypes."""
    if env.world_size == 1:
        return _sorted(part, keys, up, na_position)
    columns = part[list(dict.fromkeys(keys))].reset_index(drop=True)
    rounds = number_of_rounds(env, part)
    ranges = env.world_size * rounds
    found_bounds = _bounds_between(env, columns, ranges, keys, up, na_position)
    if found_bounds is None:
        return part
    bounds, owners = found_bounds
    # Rows that are equal to a bound come before it on ranks up to the one that the bound is of, so that ties keep their order.
    found = in_ranges(columns, bounds, owners, env.rank, up[0], na_position == "last")
    if found is None:
        (source,) = with_unique_columns(columns, 1)
        own = columns.assign(**{source: np.arange(len(part))})
        pieces = [bounds[each].assign(**{source: -1}) for each in (owners < env.rank, owners >= env.rank)]
        merged = _sorted(pd.concat([pieces[0], own, pieces[1]]), keys, up, na_position)[source].to_numpy()
        ends = np.flatnonzero(merged < 0)
        order = merged[merged >= 0]
        starts = np.concatenate([[0], ends - np.arange(len(ends)), [len(order)]])
    else:
        order, starts = found
    sent = _parts(part, order, starts, rounds)
    return joined([_sorted(rows, keys, up, na_position) for (rows,) in in_rounds(env, rounds, sent)])


def _bounds_between(
    env: Environment,
    columns: pd.DataFrame,
    ranges: int,
    keys: list[Hashable],
    up: list[bool],
    na_position: NaPosition,
) -> tuple[pd.DataFrame, np.ndarray[Any, Any]] | None:
    """Agree on the bounds between ranges with nearly equal numbers of rows; None if there are no rows. All ranks call it.

    Parameters
    ----------
    env
        The environment of the rank.
    columns
        The keys of the rank's rows.
    ranges
        The number of ranges.
    keys, up, na_position
        The order.

    Returns
    -------
    DataFrame and array of int
        The keys of the bounds, in order, and the rank whose row each bound is.
    """
    of_rank, weight = with_unique_columns(columns, 2)
    count = min(_SAMPLE * ranges, len(columns))
    chance = np.random.default_rng(len(columns))
    picked = chance.choice(len(columns), count, replace=False) if count else np.empty(0, np.int64)
    sample = columns.take(picked).assign(**{of_rank: env.rank, weight: len(columns) / max(count, 1)})
    samples = _sorted(joined(env.comm.allgather(sample)), keys, up, na_position)
    if not len(samples):
        return None
    passed = np.cumsum(samples[weight].to_numpy())
    at = np.searchsorted(passed, passed[-1] * np.arange(1, ranges) / ranges)
    bounds = samples.take(at)
    return bounds[list(columns.columns)], bounds[of_rank].to_numpy()


def by_range(env: Environment, frame: pd.DataFrame, keys: list[Hashable], rounds: int) -> Parts | None:
    """Divide rows by ranges of a key that `in_ranges` knows: equal keys come to one rank, in one round. All ranks call it.

    None if there are no rows.
    """
    columns = frame[keys].reset_index(drop=True)
    found = _bounds_between(env, columns, env.world_size * rounds, keys, [True], "last")
    if found is None:
        return None
    bounds, owners = found
    ranges = in_ranges(columns, bounds, np.full_like(owners, env.rank), env.rank, up=True, missing_last=True)
    assert ranges is not None
    return _parts(frame, *ranges, rounds)


def _parts(frame: pd.DataFrame, order: Places, starts: Places, rounds: int) -> Parts:
    """What is sent in each round: one range of each rank's."""

    def parts(number: int) -> list[pd.DataFrame]:
        places = range(number, len(starts) - 1, rounds)
        return [frame.take(order[starts[place] : starts[place + 1]]) for place in places]

    return parts


def _sorted(frame: pd.DataFrame, keys: list[Hashable], up: list[bool], na_position: NaPosition) -> pd.DataFrame:
    (one,) = local(frame)
    return plain(one.sort_values(keys, ascending=up, na_position=na_position, kind="stable"))


# ---- the distribution of rows ----


def rebalance(frame: pd.DataFrame, *, env: Environment) -> Any:
    """Give all ranks nearly equal numbers of rows, in the order of the whole. All ranks call it."""
    (part,) = agreed(env, plain(frame))
    _, lengths = offset_of(env, len(part))
    return finished(moved_to(env, part, split_evenly(sum(lengths), env.world_size)), frame)


def repartition(
    frame: pd.DataFrame,
    lengths: Sequence[int] | None = None,
    *,
    by: Hashable | list[Hashable] | None = None,
    env: Environment,
) -> Any:
    """Divide the rows among the ranks in another way. All ranks call it.

    Parameters
    ----------
    frame
        The rank's part.
    lengths
        The numbers of rows of all ranks; the whole keeps its order.
    by
        Columns by whose values the rows are divided: rows with equal values come to one rank, by the rank that had them, and then in
        its order. Frames that are divided by equal keys have these on the same ranks.
    env
        The environment of the rank.

    Raises
    ------
    ValueError
        If neither or both of `lengths` and `by` are given, or the lengths are not those of all rows.
    KeyError
        If there is no such column.
    """
    (part,) = agreed(env, plain(frame))
    if (lengths is None) == (by is None):
        raise ValueError("pass either lengths, with a number of rows for each rank, or by, with columns")
    if lengths is None:
        keys = by if isinstance(by, list) else [by]
        return finished(exchange(env, part, ranks_by_hash(part, keys, env.world_size)), frame)
    _, before = offset_of(env, len(part))
    if len(lengths) != env.world_size or sum(lengths) != sum(before) or min(lengths) < 0:
        raise ValueError(f"lengths must be {env.world_size} numbers with the sum {sum(before)}, not {list(lengths)}")
    return finished(moved_to(env, part, lengths), frame)


def head(frame: pd.DataFrame, n: int = 5, *, env: Environment) -> Any:
    """Return the rank's rows among the first `n` of the whole; all but the last |n| if it is negative. All ranks call it."""
    (part,) = agreed(env, plain(frame))
    offset, lengths = offset_of(env, len(part))
    last = n if n >= 0 else sum(lengths) + n
    return finished(part.iloc[: max(last - offset, 0)], frame)


def tail(frame: pd.DataFrame, n: int = 5, *, env: Environment) -> Any:
    """Return the rank's rows among the last `n` of the whole; all but the first |n| if it is negative. All ranks call it."""
    (part,) = agreed(env, plain(frame))
    offset, lengths = offset_of(env, len(part))
    first = sum(lengths) - n if n >= 0 else -n
    return finished(part.iloc[max(first - offset, 0) :], frame)


def concat(
    frames: Sequence[pd.DataFrame], *, ignore_index: bool = False, env: Environment, ordered: bool = False
) -> Any:
    """Concatenate frames, as :func:`pandas.concat` does. All ranks call it.

    Parameters
    ----------
    frames
        The rank's parts of several frames.
    ignore_index
        Number the rows instead of keeping their labels.
    env
        The environment of the rank.
    ordered
        Return the rows of the whole in pandas' order: all of the first frame, and then all of the second; the parts have nearly
        equal numbers of rows then. Else the rank's rows stay on it, and so come in another order.

    Raises
    ------
    ValueError
        If there are no frames.
    """
    parts = agreed(env, *[plain(frame) for frame in frames])
    part = pd.concat(parts)
    if ordered and env.world_size > 1:
        lengths = [offset_of(env, len(one)) for one in parts]
        before = np.cumsum([0, *(sum(each) for _, each in lengths)])
        places = [
            np.arange(len(one)) + offset + start
            for one, (offset, _), start in zip(parts, lengths, before[:-1], strict=True)
        ]
        part = in_order(env, part, np.concatenate(places), split_evenly(int(before[-1]), env.world_size))
    (part,) = agreed(env, part, computed=True)
    return finished(default_index(env, part) if ignore_index else part, *frames)
