"""Groups of a distributed frame."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from craton.spmd.frames.overlap import by_hash, in_rounds, number_of_rounds
from craton.spmd.frames.partial import named_pair, partial_aggregates
from craton.spmd.frames.parts import (
    Places,
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
from craton.spmd.frames.ranges import have_ranges
from craton.spmd.frames.sorting import by_range, sorted_whole

if TYPE_CHECKING:
    from craton.spmd.environment import Environment

__all__ = ["Groups", "groupby"]


def groupby(
    frame: pd.DataFrame,
    by: Hashable | list[Hashable],
    *,
    sort: bool = True,
    as_index: bool = True,
    dropna: bool = True,
    env: Environment,
    ordered: bool = False,
) -> Groups:
    """Divide a frame into groups, as :meth:`pandas.DataFrame.groupby` does.

    Parameters
    ----------
    frame
        The rank's part.
    by
        The column, or a list of columns.
    sort
        Sort the groups by their keys.
    as_index
        Return the keys as the index; else as columns.
    dropna
        Leave out groups with a missing key.
    env
        The environment of the rank.
    ordered
        With ``sort=False``: return the groups in the order in which they occur, as pandas does; else they come in any order.

    Returns
    -------
    Groups
        Its method `agg` computes.
    """
    keys = by if isinstance(by, list) else [by]
    return Groups(frame, keys, (sort, as_index, dropna, isinstance(by, list)), env, ordered)


class Groups:
    """The groups of a distributed frame, which :func:`groupby` returns."""

    def __init__(
        self,
        frame: pd.DataFrame,
        keys: list[Hashable],
        how: tuple[bool, bool, bool, bool],
        env: Environment,
        ordered: bool,
    ) -> None:
        self._frame, self._keys, self._env, self._ordered = frame, keys, env, ordered
        self._sort, self._as_index, self._dropna, self._listed = how

    def agg(self, func: Any = None, **named: Any) -> Any:
        """Aggregate each group, as :meth:`pandas.api.typing.DataFrameGroupBy.agg` does. All ranks call it.

        The rows of a group meet on one rank, in the order of the whole; only the columns that are needed are sent. If all aggregates are
        numbers of rows or values, least or greatest values, or sums or means of integers, and groups have many rows, each rank
        aggregates its own rows first, and sends one row for each group.

        Parameters
        ----------
        func
            The name of an aggregate or a function, for all columns; several; or a dict of them by column.
        **named
            Columns of the result, each a pair of a column and an aggregate.

        Returns
        -------
        DataFrame
            The rank's part of the result.

        Raises
        ------
        KeyError, TypeError, ValueError
            As in pandas.
        """
        env = self._env
        (part,) = agreed(env, plain(self._frame))
        part = part[[*self._keys, *self._needed(part, func, named)]].reset_index(drop=True)
        offset, lengths = offset_of(env, len(part))
        places = with_unique_columns(part, 1)
        by_place = self._ordered and not self._sort
        moved = part.assign(**{places[0]: np.arange(offset, offset + len(part))}) if by_place else part
        results = self._aggregated(part, moved, places[0] if by_place else None, func, named)
        firsts = [first for result, first in results if first is not None and len(first)]
        result = joined([result for result, _ in results])
        first = (np.concatenate(firsts) if firsts else np.empty(0, np.int64)) if by_place else None
        return finished(self._arranged(result, first, lengths, self._are_ranges(part)), self._frame)

    def _aggregated(
        self, part: pd.DataFrame, moved: pd.DataFrame, place: str | None, func: Any, named: Mapping[str, Any]
    ) -> list[tuple[pd.DataFrame, Places | None]]:
        """Return the aggregates of the groups that come here, in each round, and the least value of the column `place` in each."""
        found = partial_aggregates(self._env, part, self._keys, func, named, dropna=self._dropna)
        if found is not None:
            labels = self._grouped(part.iloc[:0]).agg(func, **named).columns
            moved = found.of_rows(moved, place)
        results: list[tuple[pd.DataFrame, Places | None]] = []
        for rows in self._arriving(moved):
            first = None
            if place is not None:
                groups = rows.groupby(self._keys, sort=False, dropna=self._dropna, observed=True)
                first = groups[place].min().to_numpy(np.int64)
                rows = without(rows, place)
            groups = self._grouped(*local(rows))
            made = plain(groups.agg(func, **named)) if found is None else found.combined(groups, labels)
            results.append((made, first))
        if not self._as_index and not self._dropna:
            self._infer_keys(part, [result for result, _ in results])
        return results

    def _infer_keys(self, part: pd.DataFrame, results: list[pd.DataFrame]) -> None:
        """Give keys of objects the dtype that pandas infers from the groups of all ranks, also where all keys are missing."""
        for at, key in enumerate(self._keys):
            if part[key].dtype != object:
                continue
            columns = [result.iloc[:, at] for result in results]
            known = {column.dtype for column in columns if column.notna().any()}
            every = set().union(*self._env.comm.allgather(known))
            if len(every) == 1:
                for result, column in zip(results, columns, strict=True):
                    if column.dtype == np.float64 and column.isna().all():
                        result.isetitem(at, column.astype(*every))

    def _arriving(self, part: pd.DataFrame) -> Iterator[pd.DataFrame]:
        """Send rows to the ranks of their groups; yield those that come here, whole groups at once."""
        env = self._env
        if env.world_size == 1:
            yield part
            return
        rounds = number_of_rounds(env, part)
        sent = (
            by_range(env, part, self._keys, rounds)
            if self._are_ranges(part)
            else by_hash(env, part, self._keys, rounds)
        )
        if sent is None:
            yield part
            return
        for (rows,) in in_rounds(env, rounds, sent):
            yield rows

    def _are_ranges(self, part: pd.DataFrame) -> bool:
        """Whether each rank gets the groups of a range of keys: their results are sorted then, and are not exchanged again."""
        return self._sort and len(self._keys) == 1 and have_ranges(part[self._keys])

    def _grouped(self, frame: pd.DataFrame) -> Any:
        by = self._keys if self._listed else self._keys[0]
        return frame.groupby(by, sort=self._sort, as_index=self._as_index, dropna=self._dropna, observed=True)

    def _needed(self, part: pd.DataFrame, func: Any, named: Mapping[str, Any]) -> list[Hashable]:
        if named and func is None:
            wanted: list[Hashable] = [named_pair(one)[0] for one in named.values()]
        elif isinstance(func, Mapping):
            wanted = list(func)
        else:
            wanted = list(part.columns)
        return [column for column in dict.fromkeys(wanted) if column not in self._keys]

    def _arranged(self, result: pd.DataFrame, first: Any, lengths: Sequence[int], ranges: bool) -> pd.DataFrame:
        """Put the groups of all ranks into order; those of ranges are in order."""
        env = self._env
        (result,) = agreed(env, result, computed=True)
        if env.world_size == 1:
            return result
        if first is not None:
            result = in_order(env, result, first, lengths)
        elif self._sort and not ranges:
            result = self._sorted(result)
        return result if self._as_index else default_index(env, result)

    def _sorted(self, result: pd.DataFrame) -> pd.DataFrame:
        env = self._env
        if not self._as_index:
            return sorted_whole(env, result, self._keys, [True] * len(self._keys), "last")
        names = with_unique_columns(result, len(self._keys))
        index, columns = result.index, result.columns
        flat = result.copy(deep=False)
        flat.columns, flat.index = [f"column {n}" for n in range(len(columns))], pd.RangeIndex(len(flat))
        keys = {name: index.get_level_values(n).array for n, name in enumerate(names)}
        both = sorted_whole(env, flat.assign(**keys), list(names), [True] * len(names), "last")
        made = both[list(flat.columns)]
        made.columns = columns
        if not isinstance(index, pd.MultiIndex):
            made.index = pd.Index(both[names[0]].array, name=index.name, dtype=index.dtype)
        else:
            made.index = pd.MultiIndex.from_arrays([both[name].array for name in names], names=index.names)
        return made

    def sum(self) -> Any:
        """Return the sums; see :meth:`agg`."""
        return self.agg("sum")

    def mean(self) -> Any:
        """Return the means; see :meth:`agg`."""
        return self.agg("mean")

    def min(self) -> Any:
        """Return the least values; see :meth:`agg`."""
        return self.agg("min")

    def max(self) -> Any:
        """Return the greatest values; see :meth:`agg`."""
        return self.agg("max")

    def count(self) -> Any:
        """Return the numbers of values that are not missing; see :meth:`agg`."""
        return self.agg("count")

    def nunique(self) -> Any:
        """Return the numbers of distinct values; see :meth:`agg`."""
        return self.agg("nunique")
