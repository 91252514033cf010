"""CylonFlow's operators in SPMD programs: each rank has its part of the frames, and results stay on the ranks."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from typing import Any

from bench.cylon.contestants import ORDERED_BY, SCALAR, digest

__all__ = ["RankOperators", "digest_part", "merged"]


def digest_part(columns: dict[str, Any], ordered_by: str | None) -> dict[str, Any]:
    """Return the digest of some rows of a result, in a form that can be combined with digests of other rows."""
    found = digest(columns, ordered_by)
    if ordered_by is not None and found["rows"]:
        found["ends"] = [int(columns[ordered_by][0]), int(columns[ordered_by][-1])]
    return found


def merged(parts: Iterable[dict[str, Any]], ordered_by: str | None) -> dict[str, Any]:
    """Combine the digests of the parts of a result, in row order."""
    rows, tied, in_order = 0, 0, True
    sums: dict[str, int] = {}
    before: int | None = None
    for part in parts:
        rows += part["rows"]
        tied = (tied + int(part["rows_mixed"])) % 2**64
        for name, number in part["sums"].items():
            sums[name] = sums.get(name, 0) + number
        if ordered_by is not None and part["rows"]:
            in_order &= part["in_order"] and (before is None or before <= part["ends"][0])
            before = part["ends"][1]
    found: dict[str, Any] = {"rows": rows, "sums": sums, "rows_mixed": str(tied)}
    return found if ordered_by is None else {**found, "in_order": in_order}


class RankOperators:
    """The operators on an executor's ranks.

    Parameters
    ----------
    folder
        The folder of the Parquet files.
    ranks
        The number of ranks, which share the machine's processors.
    source
        ``"memory"`` if the files are read before the runs, ``"parquet"`` if each run reads them.
    """

    def __init__(self, folder: str, ranks: int, source: str) -> None:
        spmd = importlib.import_module("craton.spmd")
        self._executor: Any = spmd.Executor(ranks)
        self._executor.start(_Rank, folder, source)

    def versions(self) -> dict[str, str]:
        """Return Craton's version."""
        return {"craton": importlib.import_module("craton").__version__}

    def forget(self) -> None:
        """Drop the last result."""
        self._executor.execute("forget").results()

    def run(self, case: str) -> Any:
        """Run an operator; its result stays on the ranks."""
        return self._executor.execute("run", case).results()

    def answer(self, case: str, _result: Any) -> Any:
        """Return the digest of the result, computed on the ranks."""
        return merged(self._executor.execute("digest", case).results(), ORDERED_BY.get(case))


class _Rank:
    def __init__(self, folder: str, source: str, env: Any) -> None:
        self._folder, self._env, self._result = folder, env, None
        sides = ("left", "right") if source == "memory" else ()
        self._frames = {side: self._read(side) for side in sides}

    def _read(self, side: str) -> Any:
        return importlib.import_module("pandas").DataFrame(self._env.read_parquet(f"{self._folder}/{side}.parquet"))

    def _frame(self, side: str) -> Any:
        return self._frames.get(side) if self._frames else self._read(side)

    def forget(self) -> None:
        self._result = None

    def run(self, case: str) -> None:
        frames, env = importlib.import_module("craton.spmd.frames"), self._env
        self._result = None
        left = self._frame("left")
        if case == "join":
            result = frames.merge(left, self._frame("right"), on="key", env=env)
        elif case == "groupby":
            result = frames.groupby(left, "key", as_index=False, env=env).agg({"value": "sum"})
        elif case == "sort":
            result = frames.sort_values(left, "key", env=env)
        else:
            joined = frames.merge(left, self._frame("right"), on="key", env=env)
            groups = frames.groupby(joined, "key", sort=False, as_index=False, env=env)
            result = frames.sort_values(groups.agg({"value": "sum", "other": "sum"}), "value", env=env) + SCALAR
        _ = result._mgr
        self._result = result

    def digest(self, case: str) -> dict[str, Any]:
        assert self._result is not None
        columns = {str(name): self._result[name].to_numpy() for name in self._result.columns}
        return digest_part(columns, ORDERED_BY.get(case))
