"""What the functions of a program get as `env`: the rank's number, its communicator, store, random numbers and log."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from craton.comm.base import Communicator
from craton.spmd.connecting import Connector
from craton.spmd.messages import decoded, encoded, error_of
from craton.spmd.named import NamedFrames
from craton.store.objects import Ref, get, put

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Environment"]


class Environment:
    """The environment of a rank; a function or constructor with a parameter `env` gets it.

    Attributes
    ----------
    rank : int
        The number of this rank, from 0.
    world_size : int
        The number of ranks.
    local_rank : int
        Its number among the ranks of its machine, from 0.
    machine : str
        The name of its machine.
    name : str
        The name of the executor.
    spans_machines : bool
        Whether the ranks are on several machines.
    store : NamedFrames
        Frames by name, which all executors of the program share.
    rng : numpy.random.Generator
        A random generator, seeded by the executor's seed and the rank: each rank has other numbers, and each run the same ones.
    logger : logging.Logger
        A log, which is shown like all output of the rank.
    restored : object
        What this rank passed to the last complete :meth:`checkpoint`, after the executor has started its ranks again, or if it
        continues from a folder of checkpoints. None if there is none, or if it is of another number of ranks: see :meth:`all_restored`.
    """

    def __init__(
        self,
        given: dict[str, Any],
        connector: Connector,
        request: Callable[..., Any],
        sequence: np.random.SeedSequence,
        restored: Any,
    ) -> None:
        self.rank: int = given["rank"]
        self.world_size: int = given["world_size"]
        self.local_rank: int = given["local_rank"]
        self.machine: str = given["machine"]
        self.name: str = given["name"]
        self.rng = np.random.default_rng(sequence)
        self.logger = _logger(self.name)
        self.restored = get(restored) if isinstance(restored, Ref) else restored
        self.store = NamedFrames(request, self.rank, self.world_size, given["shares_store"])
        self.spans_machines: bool = bool(given["host"])
        self._shares_store: bool = given["shares_store"]
        self._connector, self._request = connector, request

    @property
    def comm(self) -> Communicator:
        """The communicator of the executor's ranks.

        After a call that failed or was cancelled it is another one, so do not keep it between calls.
        """
        return self._connector.communicator

    def barrier(self, *, timeout: float | None = None) -> None:
        """Return when all ranks have called it.

        Parameters
        ----------
        timeout
            Seconds to wait; by default without end.

        Raises
        ------
        TimeoutError
            If not all ranks have called it in time.
        craton.comm.errors.RankFailed, craton.comm.errors.CommunicatorClosed
            If a rank has ended, or has raised an exception.
        """
        self.comm.barrier(timeout=timeout)

    def checkpoint(self, state: Any) -> None:
        """Keep a state of all ranks, from which they begin if they are started again. All ranks call it.

        It returns on all ranks when the states of all ranks are kept, so what is restored is always of one call. Only the last
        complete checkpoint is kept: in the store on the executor's machine, else in its process, and in the executor's folder of
        checkpoints if it has one.

        Parameters
        ----------
        state
            Any object that can be pickled; :attr:`restored` is a copy of it.

        Raises
        ------
        Exception
            Any exception of pickling.
        OSError
            If the checkpoint cannot be written to the folder; the one before is kept.
        """
        kept = put(state) if self._shares_store else state
        answer, error = self._request(("checkpoint", self._shares_store), encoded(kept), None)
        if answer == "failed":
            raise error_of(error)

    def all_restored(self) -> list[Any]:
        """Return the states of the last complete checkpoint, by the ranks that made it; empty if there is none.

        For programs that continue with another number of ranks than before. Any rank may call it.
        """
        answer, buffers = self._request(("all_states", self._shares_store), [], None)
        states = []
        for state, is_encoded in zip(decoded(buffers), answer[1], strict=True):
            states.append(decoded(state) if is_encoded else get(state) if isinstance(state, Ref) else state)
        return states

    def read_parquet(
        self,
        path: str | PathLike[str] | Sequence[str | PathLike[str]],
        columns: Sequence[str] | None = None,
    ) -> pd.DataFrame:
        """Read this rank's part of Parquet files. All ranks call it.

        The row groups are divided into as many runs as there are ranks, of nearly equal numbers of rows, in the order of the files:
        the parts of rank 0, 1, … one after another are the whole table. A rank may get no rows.

        Parameters
        ----------
        path
            A file, a folder of files, a pattern such as ``"part-*.parquet"``, or several of these. Files of a folder or a pattern
            come in the order of their names.
        columns
            The columns to read; by default all.

        Returns
        -------
        pandas.DataFrame
            Its rows, with the index that pandas gives them in the whole table, and with the dtypes of the whole.

        Raises
        ------
        FileNotFoundError
            If there are no such files.
        """
        from craton.spmd.frames.reading import read_part

        return read_part(self, path, columns)

    def __repr__(self) -> str:
        return f"<Environment: rank {self.rank} of {self.world_size} on {self.machine}>"

    def __reduce__(self) -> Any:
        raise TypeError("the environment of a rank cannot be pickled: it belongs to the rank's process")


def _logger(name: str) -> logging.Logger:
    logger = logging.getLogger(f"craton.spmd.{name}")
    if not logger.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
        logger.propagate = False
    return logger
