"""Distributed frames as sets of rows: duplicates, union, intersection, difference, equality."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from craton.spmd.frames.hashing import ranks_by_hash
from craton.spmd.frames.parts import (
    agreed,
    default_index,
    exchange,
    finished,
    local,
    moved_to,
    offset_of,
    owners,
    plain,
    with_unique_columns,
)  # fmt: skip
from craton.spmd.frames.sorting import concat

if TYPE_CHECKING:
    from craton.spmd.environment import Environment

__all__ = ["difference", "drop_duplicates", "equals", "intersection", "union"]

Keep = Literal["first", "last", False]


def drop_duplicates(
    frame: pd.DataFrame,
    subset: Hashable | list[Hashable] | None = None,
    *,
    keep: Keep = "first",
    ignore_index: bool = False,
    env: Environment,
) -> Any:
    """Remove duplicate rows, as :meth:`pandas.DataFrame.drop_duplicates` does. All ranks call it.

    Only the columns that are compared are sent. The rows that are kept stay on their ranks, in their order.

    Parameters
    ----------
    frame
        The rank's part.
    subset
        The column, or a list of columns, to compare; by default all.
    keep
        Which of equal rows to keep; False for none of them.
    ignore_index
        Number the rows instead of keeping their labels.
    env
        The environment of the rank.
    """
    (part,) = agreed(env, plain(frame))
    keys = list(part.columns) if subset is None else subset if isinstance(subset, list) else [subset]
    kept = _kept(env, part[keys], keep)
    result = part[kept]
    return finished(default_index(env, result) if ignore_index else result, frame)


def union(left: pd.DataFrame, right: pd.DataFrame, *, env: Environment) -> Any:
    """Return the distinct rows of two frames with the same columns, those of the left one first, numbered. All ranks call it."""
    both = concat([plain(left), plain(right)], env=env, ordered=True)
    return finished(drop_duplicates(both, ignore_index=True, env=env), left, right)


def intersection(left: pd.DataFrame, right: pd.DataFrame, *, env: Environment) -> Any:
    """Return the distinct rows of the left frame that are in the right one, in their order, numbered. All ranks call it."""
    return _selected(env, left, right, wanted=True)


def difference(left: pd.DataFrame, right: pd.DataFrame, *, env: Environment) -> Any:
    """Return the distinct rows of the left frame that are not in the right one, in their order, numbered. All ranks call it."""
    return _selected(env, left, right, wanted=False)


def equals(left: pd.DataFrame, right: pd.DataFrame, *, env: Environment) -> bool:
    """Whether two frames are equal, as :meth:`pandas.DataFrame.equals` compares them. All ranks call it, and get the same answer.

    The rows may be divided among the ranks in different ways.
    """
    one, other = agreed(env, plain(left), plain(right))
    _, lengths = offset_of(env, len(one))
    _, others = offset_of(env, len(other))
    if sum(lengths) != sum(others):
        return False
    same = one.equals(moved_to(env, other, lengths))
    return bool(same) if env.world_size == 1 else all(env.comm.allgather(bool(same)))


def _selected(env: Environment, left: pd.DataFrame, right: pd.DataFrame, *, wanted: bool) -> Any:
    one, other = agreed(env, plain(left), plain(right))
    if not one.columns.equals(other.columns):
        raise ValueError(f"the frames must have the same columns, not {list(one.columns)} and {list(other.columns)}")
    kept = _kept(env, one, "first", other, wanted)
    return finished(default_index(env, one[kept]), left, right)


def _kept(
    env: Environment, rows: pd.DataFrame, keep: Keep, others: pd.DataFrame | None = None, wanted: bool = True
) -> npt.NDArray[np.bool_]:
    """Return which of the rank's rows are kept; of those, if there are other rows, which are among these, or are not."""
    columns = list(rows.columns)
    rows = rows.reset_index(drop=True)
    if not columns:
        offset, lengths = offset_of(env, len(rows))
        return np.arange(offset, offset + len(rows)) < (keep == "first")
    offset, lengths = offset_of(env, len(rows))
    (place,) = with_unique_columns(rows, 1)
    sent = rows.assign(**{place: np.arange(offset, offset + len(rows))})
    sent = exchange(env, sent, ranks_by_hash(rows, columns, env.world_size))
    (compared,) = local(sent)
    distinct = plain(compared.drop_duplicates(columns, keep=keep))
    if others is not None:
        others = exchange(env, others, ranks_by_hash(others, columns, env.world_size)).drop_duplicates()
        found = distinct.merge(others, on=columns, how="left", indicator=True)["_merge"].to_numpy() == "both"
        distinct = distinct[found == wanted]
    places = distinct[place].to_numpy(np.int64)
    if env.world_size > 1:
        to = owners(places, lengths)
        places = np.concatenate(env.comm.alltoall([places[to == rank] for rank in range(env.world_size)]))
    kept = np.zeros(len(rows), bool)
    kept[places - offset] = True
    return kept
