"""The join of two distributed frames."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd

from craton.spmd.frames.overlap import by_hash, in_rounds, number_of_rounds
from craton.spmd.frames.parts import (
    agreed,
    default_index,
    finished,
    in_order,
    joined,
    local,
    offset_of,
    plain,
    with_unique_columns,
    without,
)  # fmt: skip
from craton.spmd.frames.sorting import sorted_whole

if TYPE_CHECKING:
    from craton.spmd.environment import Environment

__all__ = ["merge"]

How = Literal["inner", "left", "right", "outer", "cross"]
Keys = Hashable | Sequence[Hashable] | None


def merge(
    left: pd.DataFrame,
    right: pd.DataFrame,
    how: How = "inner",
    on: Keys = None,
    *,
    left_on: Keys = None,
    right_on: Keys = None,
    suffixes: tuple[str | None, str | None] = ("_x", "_y"),
    env: Environment,
    ordered: bool = False,
) -> Any:
    """Join two frames by columns, as :func:`pandas.merge` does. All ranks call it.

    Rows with equal keys meet on one rank. If one frame is much smaller than the other, it is sent to all ranks instead.

    Parameters
    ----------
    left, right
        The rank's parts.
    how
        Which rows to keep, as in pandas.
    on, left_on, right_on
        The keys: names of columns; by default the columns that both frames have.
    suffixes
        What is added to the names of columns that both frames have.
    env
        The environment of the rank.
    ordered
        Return the rows of the whole in pandas' order; else they come in any order.

    Returns
    -------
    DataFrame
        The rank's part of the result, whose rows are numbered as in the whole.

    Raises
    ------
    ValueError, KeyError
        As in pandas.
    """
    first, second = agreed(env, plain(left), plain(right))
    first, second = first.reset_index(drop=True), second.reset_index(drop=True)
    given: dict[str, Any] = {"how": how, "suffixes": suffixes}
    if how != "cross":
        given |= {"on": on, "left_on": left_on, "right_on": right_on}
        if on is None and (left_on is None) != (right_on is None):
            raise ValueError("pass both left_on and right_on; joins by row labels need reset_index() first")
    # pandas checks the arguments and the dtypes of the keys, also on ranks without rows.
    first.iloc[:0].merge(second.iloc[:0], **given)
    left_keys, right_keys = _keys(first, second, how, on, left_on, right_on)
    if env.world_size == 1:
        one, other = local(first, second)
        return finished(plain(one.merge(other, **given)), left, right)
    (result,) = agreed(env, _joined(env, first, second, how, (left_keys, right_keys), given, ordered), computed=True)
    return finished(default_index(env, result), left, right)


def _joined(
    env: Environment,
    left: pd.DataFrame,
    right: pd.DataFrame,
    how: How,
    keys: tuple[list[Hashable], list[Hashable]],
    given: dict[str, Any],
    ordered: bool,
) -> pd.DataFrame:
    """Join on several ranks; `given` are the arguments of pandas' merge."""
    offsets, lengths = zip(*(offset_of(env, len(part)) for part in (left, right)), strict=True)
    small = _sent_to_all(how, sum(lengths[0]), sum(lengths[1]), env.world_size)
    if small == "right":  # the order of the left rows remains
        one, other = local(left, joined(env.comm.allgather(right)))
        return plain(one.merge(other, **given))
    places = with_unique_columns(left, 2, right)
    if ordered:
        left = left.assign(**{places[0]: np.arange(offsets[0], offsets[0] + len(left))})
        right = right.assign(**{places[1]: np.arange(offsets[1], offsets[1] + len(right))})
    if small == "left":
        one, other = local(joined(env.comm.allgather(left)), right)
        result = plain(one.merge(other, **given))
    else:
        rounds = number_of_rounds(env, left, right)
        sent = by_hash(env, left, keys[0], rounds), by_hash(env, right, keys[1], rounds)
        pairs = (local(*pair) for pair in in_rounds(env, rounds, *sent))
        result = joined([plain(one.merge(other, **given)) for one, other in pairs])
    if not ordered:
        return result
    (result,) = agreed(env, result, computed=True)
    return _ordered(env, result, how, keys[0] if keys[0] == keys[1] else [], places, lengths)


def _keys(
    left: pd.DataFrame, right: pd.DataFrame, how: How, on: Keys, left_on: Keys, right_on: Keys
) -> tuple[list[Hashable], list[Hashable]]:
    if how == "cross":
        return [], []
    if on is None and left_on is None and right_on is None:
        on = [name for name in left.columns if name in right.columns]
    if on is not None:
        return _listed(on), _listed(on)
    return _listed(left_on), _listed(right_on)


def _listed(keys: Keys) -> list[Hashable]:
    return list(keys) if isinstance(keys, (list, pd.Index)) else [keys]


def _sent_to_all(how: How, left: int, right: int, size: int) -> str | None:
    """Return the side that all ranks get: the one that is so small that this moves fewer rows than an exchange of both."""
    if how == "cross" or (how in ("inner", "left") and right * size <= left):
        return "right"
    return "left" if how in ("inner", "right") and left * size <= right else None


def _ordered(
    env: Environment,
    result: pd.DataFrame,
    how: How,
    keys: list[Hashable],
    places: list[str],
    lengths: Sequence[list[int]],
) -> pd.DataFrame:
    """Put the rows into pandas' order."""
    if how == "outer":
        if not keys:
            raise ValueError("ordered=True with how='outer' needs equal names of the keys: pass on=…")
        names = with_unique_columns(result, len(keys))
        result = result.assign(
            **{name: _as_outer_join_sorts(result[key]) for name, key in zip(names, keys, strict=True)}
        )
        by: list[Hashable] = [*names, *places]
        return without(sorted_whole(env, result, by, [True] * len(by), "last"), *names, *places)
    main, minor = places if how != "right" else places[::-1]
    result = result.sort_values(minor, kind="stable")
    at = result[main].to_numpy(np.int64)
    return in_order(env, without(result, *places), at, lengths[how == "right"])


def _as_outer_join_sorts(key: pd.Series) -> pd.Series:
    """Return values with the order in which an outer join of pandas sorts keys: missing categories and times come first."""
    if isinstance(key.dtype, pd.CategoricalDtype):
        return key.cat.codes
    if isinstance(key.dtype, pd.DatetimeTZDtype):
        key = key.dt.tz_convert(None)
    if isinstance(key.dtype, np.dtype) and key.dtype.kind in "mM":
        return pd.Series(key.to_numpy().view(np.int64), index=key.index)
    return key
