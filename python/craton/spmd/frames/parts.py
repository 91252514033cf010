"""The parts of a distributed frame: what ranks must agree on, the places of rows in the whole, and exchanges.

The *whole* of a frame is the concatenation of the ranks' parts, by rank. The functions of this package take the rank's part of each
frame, and return its part of the result. Each part has the columns and dtypes of the whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt
import pandas as pd

from craton.pandas.core.counterparts import as_pandas

if TYPE_CHECKING:
    from craton.spmd.environment import Environment

__all__ = [
    "Places", "agreed", "default_index", "exchange", "finished", "local", "offset_of", "owners", "plain", "split_evenly",
    "with_unique_columns", "without",
]  # fmt: skip

_F = TypeVar("_F", pd.DataFrame, pd.Series)
Places = npt.NDArray[np.int64]

#: Rows from which the local operators run as plans.
_PLANNED = 20_000


def plain(frame: Any) -> pd.DataFrame:
    """Return a part as a plain pandas frame.

    Raises
    ------
    TypeError
        If it is not a frame.
    """
    if not isinstance(frame, pd.DataFrame):
        raise TypeError(f"expected a DataFrame with the rank's rows, not {type(frame).__name__}")
    return as_pandas(frame)


def finished(result: pd.DataFrame, *given: Any) -> Any:
    """Return a result in the class of the frames that were given."""
    if any(type(one).__module__.startswith("craton.") for one in given):
        import craton.pandas as cpd

        return cpd.DataFrame(result)
    return result


def local(frame: pd.DataFrame, *others: pd.DataFrame) -> list[Any]:
    """Return frames for the local operator: as Craton's, which run it as a plan, if they are large."""
    frames = [frame, *others]
    if sum(map(len, frames)) < _PLANNED:
        return frames
    import craton.pandas as cpd

    return [cpd.DataFrame(one) for one in frames]


def agreed(env: Environment, *frames: pd.DataFrame, computed: bool = False) -> list[pd.DataFrame]:
    """Return the parts with the dtypes that the wholes have.

    Parameters
    ----------
    env
        The environment of the rank.
    *frames
        The rank's parts.
    computed
        Whether they are results, whose dtypes follow from their values: then parts without rows do not count.

    Raises
    ------
    ValueError
        On all ranks, if the parts of a frame do not have the same columns.
    """
    if env.world_size == 1:
        return list(frames)
    heads = env.comm.allgather([(frame.iloc[:0], len(frame) > 0 or not computed) for frame in frames])
    return [_agreed(frame, _counting([each[number] for each in heads])) for number, frame in enumerate(frames)]


def _counting(heads: list[tuple[_F, bool]]) -> list[_F]:
    """Return the heads of the parts whose dtypes count; all, if none has rows."""
    return [head for head, counts in heads if counts] or [head for head, _ in heads]


def _agreed(frame: _F, heads: list[_F]) -> _F:
    if isinstance(frame, pd.DataFrame):
        for rank, head in enumerate(heads):
            if not head.columns.equals(heads[0].columns):
                raise ValueError(
                    f"the parts of a frame must have the same columns: rank 0 has {list(heads[0].columns)}, rank {rank} has "
                    f"{list(head.columns)}"
                )
        if all(_same_dtypes(head, frame) for head in heads):
            return frame
        target = pd.concat(heads)
        columns = [
            frame.iloc[:, at] if frame.dtypes.iloc[at] == dtype else frame.iloc[:, at].astype(dtype)
            for at, dtype in enumerate(target.dtypes)
        ]
        result = pd.concat(columns, axis=1) if columns else frame
        result.columns, result.index = frame.columns, _agreed_index(frame.index, target.index)
        return result
    if any(head.dtype != frame.dtype for head in heads):
        frame = frame.astype(pd.concat(heads).dtype)
    return frame


def _same_dtypes(one: pd.DataFrame, other: pd.DataFrame) -> bool:
    return bool((one.dtypes.to_numpy() == other.dtypes.to_numpy()).all()) and _index_dtypes(one) == _index_dtypes(other)


def _index_dtypes(frame: pd.DataFrame) -> tuple[Any, ...]:
    index = frame.index
    if isinstance(index, pd.MultiIndex):
        return (*index.names, *index.dtypes)
    return index.name, index.dtype


def _agreed_index(index: pd.Index, target: pd.Index) -> pd.Index:
    if isinstance(index, pd.MultiIndex) or index.dtype == target.dtype:
        return index
    return index.astype(target.dtype)


# ---- places of rows in the whole ----


def offset_of(env: Environment, rows: int) -> tuple[int, list[int]]:
    """Return the place of the rank's first row in the whole, and the numbers of rows of all ranks."""
    lengths = [rows] if env.world_size == 1 else env.comm.allgather(rows)
    return sum(lengths[: env.rank]), lengths


def default_index(env: Environment, frame: _F) -> _F:
    """Number the rows as pandas numbers those of the whole."""
    offset, _ = offset_of(env, len(frame))
    frame = frame.copy(deep=False)
    frame.index = pd.RangeIndex(offset, offset + len(frame))
    return frame


def owners(places: Places, lengths: Sequence[int]) -> Places:
    """Return the ranks that have the rows at some places of a whole, whose parts have these lengths."""
    return np.searchsorted(np.cumsum(lengths), places, side="right").astype(np.int64)


def split_evenly(rows: int, size: int) -> list[int]:
    """Return the lengths of nearly equal parts of a whole."""
    return [(rank + 1) * rows // size - rank * rows // size for rank in range(size)]


# ---- exchanges ----


def exchange(env: Environment, frame: pd.DataFrame, ranks: Places) -> pd.DataFrame:
    """Send each row to a rank; return the rows for this one, by the rank that sent them, and then in its order."""
    if env.world_size == 1:
        return frame
    order = np.argsort(ranks.astype(np.uint16), kind="stable")
    ends = np.searchsorted(ranks[order], np.arange(env.world_size + 1))
    parts = [frame.take(order[ends[each] : ends[each + 1]]) for each in range(env.world_size)]
    return joined(env.comm.alltoall(parts))


def joined(parts: list[pd.DataFrame]) -> pd.DataFrame:
    """Concatenate parts of the same dtypes."""
    filled = [part for part in parts if len(part)]
    if len(filled) <= 1:
        return filled[0] if filled else parts[0]
    return pd.concat(filled)


def moved_to(env: Environment, frame: pd.DataFrame, lengths: Sequence[int]) -> pd.DataFrame:
    """Divide the whole, in its order, into parts of these lengths."""
    offset, before = offset_of(env, len(frame))
    if list(before) == list(lengths):
        return frame
    return exchange(env, frame, owners(np.arange(offset, offset + len(frame)), lengths))


def in_order(env: Environment, frame: pd.DataFrame, places: Places, lengths: Sequence[int]) -> pd.DataFrame:
    """Send rows to the ranks of other rows, and put them into their order.

    Parameters
    ----------
    frame
        Rows, in an order in which those with equal places keep theirs.
    places
        For each row, the place in another whole of the row that it belongs to.
    lengths
        The lengths of the parts of that whole.
    """
    column = with_unique_columns(frame, 1)[0]
    moved = exchange(env, frame.assign(**{column: places}), owners(places, lengths))
    order = np.argsort(moved[column].to_numpy(), kind="stable")
    return without(moved, column).take(order)


def without(frame: pd.DataFrame, *columns: str) -> pd.DataFrame:
    """Return a frame without columns that `with_unique_columns` has named, whose labels are in the first of several levels."""
    levels = frame.columns.nlevels > 1
    names = [name[0] if levels else name for name in frame.columns]
    return frame.iloc[:, [at for at, name in enumerate(names) if name not in columns]]


def with_unique_columns(frame: pd.DataFrame, count: int, *others: pd.DataFrame) -> list[str]:
    """Return names that no column of some frames has."""
    taken = {str(name) for each in (frame, *others) for name in each.columns}
    names = (f"__{number}" for number in range(len(taken) + count))
    return [name for name in names if name not in taken][:count]
