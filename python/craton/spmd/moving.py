"""Frames between the program and its ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd

from craton.pandas.core.counterparts import as_pandas
from craton.spmd.environment import Environment
from craton.spmd.futures import RankFutures

if TYPE_CHECKING:
    from craton.spmd.executor import Executor

__all__ = ["gather", "scatter", "to_session"]


def scatter(frame: pd.DataFrame, ex: Executor) -> RankFutures:
    """Divide a frame among the ranks of an executor: nearly equal numbers of rows, in their order.

    On one machine the ranks get views of one copy in the store.

    Parameters
    ----------
    frame
        A pandas or Craton frame.
    ex
        The executor.

    Returns
    -------
    RankFutures
        The parts, for calls of the executor.

    Examples
    --------
    >>> import pandas as pd
    >>> from craton.spmd import Executor, gather, scatter
    >>> with Executor(2) as ex:
    ...     parts = scatter(pd.DataFrame({"x": [1, 2, 3, 4]}), ex)
    ...     gather(ex.run(lambda part: part * 10, parts))["x"].tolist()
    [10, 20, 30, 40]
    """
    whole = as_pandas(frame) if isinstance(frame, pd.DataFrame) else frame
    return ex.run(_part, whole)


def _part(frame: Any, env: Environment) -> Any:
    rows = len(frame)
    return frame.iloc[env.rank * rows // env.world_size : (env.rank + 1) * rows // env.world_size]


def gather(parts: RankFutures) -> pd.DataFrame:
    """Return the whole of a frame whose parts are the results of a call, as a pandas frame.

    Raises
    ------
    Exception
        The exception of the call.
    """
    return pd.concat([as_pandas(part) for part in parts.results()])


def to_session(parts: RankFutures) -> Any:
    """Return the whole of a frame whose parts are the results of a call, as a frame of `craton.pandas`.

    Raises
    ------
    Exception
        The exception of the call.
    """
    import craton.pandas as cpd

    return cpd.DataFrame(gather(parts))
