"""Aggregation of a rank's own rows before the rows of a group meet, so that one row for each group is sent instead of all.

Only aggregates whose result is the same, bit for bit, however the rows are divided: numbers of rows and of values, least and greatest
values, sums of integers, and means of integers whose sums are exact as floats.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from craton.records import dataclass
from craton.spmd.frames.parts import local, plain, with_unique_columns

if TYPE_CHECKING:
    from craton.spmd.environment import Environment

__all__ = ["PartialAggregates", "named_pair", "partial_aggregates"]

#: The rows of a part whose groups are counted, and the largest share of groups among them with which aggregation is worthwhile.
_COUNTED, _MOST_GROUPS = 50_000, 0.5
#: Integers up to it are exact as floats.
_EXACT = 1 << 53
#: How the aggregates of parts are combined.
_COMBINED = {"count": "sum", "size": "sum", "sum": "sum", "min": "min", "max": "max"}

Pair = tuple[Hashable, str]
"""A column and the name of an aggregate."""


@dataclass(frozen=True, slots=True)
class PartialAggregates:
    """Aggregates that are computed from those of the ranks' own rows.

    Parameters
    ----------
    keys
        The columns of the groups.
    wanted
        The aggregates of the result, in the order of its columns.
    names
        The aggregates that each rank computes, with the names of their columns.
    dropna
        Whether groups with a missing key are left out.
    """

    keys: list[Hashable]
    wanted: list[Pair]
    names: dict[Pair, str]
    dropna: bool

    def of_rows(self, rows: pd.DataFrame, place: str | None) -> pd.DataFrame:
        """Return a row for each group: its keys, its aggregates, and the least value of the column `place`, if there is one."""
        named: dict[str, Any] = {name: pair for pair, name in self.names.items()}
        if place is not None:
            named[place] = (place, "min")
        (one,) = local(rows)
        groups = one.groupby(self.keys, sort=False, as_index=False, dropna=self.dropna, observed=True)
        return plain(groups.agg(**named))

    def combined(self, groups: Any, columns: pd.Index) -> pd.DataFrame:
        """Return the aggregates of all rows.

        Parameters
        ----------
        groups
            The groups of rows that `of_rows` has returned.
        columns
            The labels of the result's columns.
        """
        found = plain(groups.agg(**{name: (name, _COMBINED[how]) for (_, how), name in self.names.items()}))
        others = [
            found.iloc[:, at] for at in range(found.shape[1] - len(self.names))
        ]  # the keys, unless they are the index
        made = pd.concat([*others, *(self._result(found, *pair) for pair in self.wanted)], axis=1)
        made.columns = columns
        return made

    def _result(self, found: pd.DataFrame, column: Hashable, how: str) -> pd.Series:
        if how == "mean":
            return found[self.names[column, "sum"]] / found[self.names[column, "count"]]
        return found[self.names[column, how]]


def partial_aggregates(
    env: Environment,
    part: pd.DataFrame,
    keys: list[Hashable],
    func: Any,
    named: Mapping[str, Any],
    *,
    dropna: bool,
) -> PartialAggregates | None:
    """Return how to aggregate the rank's own rows first; None, on all ranks, if that is not exact, or not worthwhile.

    All ranks call it.
    """
    if env.world_size == 1:
        return None
    wanted = _wanted(part, keys, func, named)
    if not wanted or not part.columns.is_unique or not all(_is_exact(part, keys, *pair) for pair in wanted):
        return None
    head = part.iloc[:_COUNTED]
    groups = head.groupby(keys, sort=False, dropna=False, observed=True).ngroups
    largest = max((_largest(part[column]) for column, how in wanted if how == "mean"), default=0)
    counted = env.comm.allgather((groups, len(head), len(part), largest))
    if sum(one for one, *_ in counted) > _MOST_GROUPS * sum(rows for _, rows, *_ in counted):
        return None
    if sum(rows for *_, rows, _ in counted) * max(one for *_, one in counted) > _EXACT:
        return None
    pairs = [(column, one) for column, how in wanted for one in (("sum", "count") if how == "mean" else (how,))]
    distinct = list(dict.fromkeys(pairs))
    names = with_unique_columns(part, len(distinct) + 1)[1:]  # the first is that of places
    return PartialAggregates(keys, wanted, dict(zip(distinct, names, strict=True)), dropna)


def _wanted(part: pd.DataFrame, keys: list[Hashable], func: Any, named: Mapping[str, Any]) -> list[Pair] | None:
    """Return the aggregates by column, in the order of pandas' result; None if one is not given by its name."""
    found = list(_given([column for column in part.columns if column not in keys], func, named))
    return found if all(isinstance(how, str) for _, how in found) else None


def _given(columns: list[Hashable], func: Any, named: Mapping[str, Any]) -> Iterator[tuple[Hashable, Any]]:
    if func is None:
        yield from map(named_pair, named.values())
    elif named or func == "size":
        yield None, None
    else:
        by_column = func.items() if isinstance(func, Mapping) else ((column, func) for column in columns)
        for column, hows in by_column:
            for how in hows if isinstance(hows, (list, tuple)) else [hows]:
                yield column, how


def named_pair(given: Any) -> tuple[Hashable, Any]:
    """Return the column and the aggregate of a named aggregation; no aggregate if it has arguments of its own."""
    if not isinstance(given, pd.NamedAgg):
        column, how = given
        return column, how
    more = getattr(given, "args", ()) or getattr(given, "kwargs", {})
    return given.column, None if more else given.aggfunc


def _is_exact(part: pd.DataFrame, keys: list[Hashable], column: Hashable, how: str) -> bool:
    if column in keys or column not in part.columns:
        return False
    dtype = part[column].dtype
    if isinstance(dtype, pd.StringDtype):
        return how in ("count", "size", "min", "max")
    if not isinstance(dtype, np.dtype):
        return False
    if dtype.kind in "biu":
        return how in ("count", "size", "min", "max", "sum", "mean")
    return how in (("count", "size", "min", "max") if dtype.kind in "fmM" else ("count", "size"))


def _largest(column: pd.Series) -> int:
    """Return the largest magnitude among integers."""
    return max(abs(int(column.min())), abs(int(column.max()))) if len(column) else 0
