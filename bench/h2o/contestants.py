"""How each contestant answers the questions. The module is imported in the contestant's own environment.

Answers are compared by what the benchmark itself checks: the number of rows, and the sum of each column of numbers.
"""

from __future__ import annotations

import importlib
from typing import Any

from bench.h2o.data import TABLES
from bench.h2o.questions import GROUPBY, JOIN, Question
from bench.harness.worker import Contestant
from bench.pandas_likes import PANDAS_LIKES, PandasLike

__all__ = ["CONTESTANTS", "QUESTIONS", "open_contestant"]

QUESTIONS: dict[str, dict[str, Question]] = {"groupby": GROUPBY, "join": JOIN}
CONTESTANTS = (*PANDAS_LIKES, "polars")
"""The valid names for ``--contestants``."""


class PandasQuestions:
    """An engine with pandas' API, over frames in memory."""

    def __init__(self, engine: PandasLike, folder: str, task: str) -> None:
        self._engine, self._questions = engine, QUESTIONS[task]
        self.versions, self.forget = engine.versions, engine.forget
        pandas = importlib.import_module("pandas")
        self._tables = [engine.pd.DataFrame(pandas.read_parquet(f"{folder}/{name}.parquet")) for name in TABLES[task]]

    def run(self, case: str) -> Any:
        """Answer a question; the result is in memory."""
        return self._engine.materialise(self._questions[case].pandas(self._engine.pd, *self._tables))

    def answer(self, case: str, result: Any) -> Any:
        """Return the number of rows and the sums of the columns."""
        frame = self._engine.to_pandas(result)
        numbers = frame.select_dtypes("number")
        return {"rows": len(frame), "sums": [float(total) for total in numbers.sum()]}


class PolarsQuestions:
    """Polars' lazy API with the streaming engine, over frames in memory; rows may be in any order."""

    def __init__(self, folder: str, task: str) -> None:
        self._pl = pl = importlib.import_module("polars")
        self._questions = QUESTIONS[task]
        self._tables = [pl.read_parquet(f"{folder}/{name}.parquet").rechunk().lazy() for name in TABLES[task]]

    def versions(self) -> dict[str, str]:
        """Return Polars' version."""
        return {"polars": self._pl.__version__}

    def run(self, case: str) -> Any:
        """Answer a question."""
        return self._questions[case].polars(self._pl, *self._tables).collect(engine="streaming")

    def answer(self, case: str, result: Any) -> Any:
        """Return the number of rows and the sums of the columns, in the order of pandas' result; pandas leaves out NaN."""
        selectors = importlib.import_module("polars.selectors")
        numbers = result.select(selectors.numeric())
        return {
            "rows": result.height,
            "sums": [float(column.cast(self._pl.Float64).fill_nan(None).sum()) for column in numbers],
        }


def open_contestant(name: str, options: dict[str, Any]) -> Contestant:
    """Return a contestant.

    Parameters
    ----------
    name : str
        One of `CONTESTANTS`.
    options : dict
        ``folder``: the folder of the Parquet files; ``task``: ``"groupby"`` or ``"join"``.
    """
    folder, task = str(options["folder"]), str(options["task"])
    return PolarsQuestions(folder, task) if name == "polars" else PandasQuestions(PANDAS_LIKES[name](), folder, task)
