"""How each contestant runs CylonFlow's operators. The module is imported in the contestant's own environment.

Results are compared by a digest: the number of rows, the sum of each column, a sum of hashes of whole rows and, if the operator
sorts, whether the rows are sorted. Engines that guarantee no row order in joins and group-bys may return rows in any
order; the pandas APIs must return them in pandas' order. There are two contestants for Polars: ``polars`` may return any
order, and ``polars-ordered`` must return pandas'. The difference between them is the cost of that order.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, ClassVar

from bench.harness.worker import Contestant
from bench.pandas_likes import PANDAS_LIKES, PandasLike, cores

__all__ = ["CASES", "CONTESTANTS", "open_contestant"]

CASES = ("join", "groupby", "sort", "pipeline")

ORDERED_BY = {"sort": "key", "pipeline": "value"}

SCALAR = 7

CHUNK = 1 << 20


def digest(columns: dict[str, Any], ordered_by: str | None) -> dict[str, Any]:
    """Reduce the columns of a result, as int64 arrays, to values that differ if the results differ."""
    numpy = importlib.import_module("numpy")
    names = sorted(columns)
    rows = len(columns[names[0]])
    sums = dict.fromkeys(names, 0)
    tied, in_order = 0, True
    for start in range(0, rows, CHUNK):
        part = {name: numpy.asarray(columns[name][start : start + CHUNK + 1]).astype("int64") for name in names}
        if ordered_by is not None:
            in_order &= bool((numpy.diff(part[ordered_by]) >= 0).all())
        mixed = numpy.zeros(min(CHUNK, rows - start), dtype="uint64")
        for name in names:
            values = part[name][:CHUNK].view("uint64")
            sums[name] += int(part[name][:CHUNK].sum())
            mixed = (mixed ^ values) * numpy.uint64(0x9E3779B97F4A7C15)
            mixed ^= mixed >> numpy.uint64(29)
        tied = (tied + int(mixed.sum())) % 2**64
    found: dict[str, Any] = {"rows": rows, "sums": sums, "rows_mixed": str(tied)}
    return found if ordered_by is None else {**found, "in_order": in_order}


class PandasOperators:
    """An engine with pandas' API."""

    def __init__(self, engine: PandasLike, folder: str, source: str) -> None:
        self._engine = engine
        self._folder = folder
        self._frames: dict[str, Any] = {}
        if source == "memory":
            pandas = importlib.import_module("pandas")
            for side in ("left", "right"):
                self._frames[side] = engine.from_pandas(pandas.read_parquet(f"{folder}/{side}.parquet"))

    def versions(self) -> dict[str, str]:
        """Return the engine's versions."""
        return self._engine.versions()

    def _frame(self, side: str) -> Any:
        return self._frames[side] if self._frames else self._engine.pd.read_parquet(f"{self._folder}/{side}.parquet")

    def forget(self) -> None:
        """Clear the engine's caches of results."""
        self._engine.forget()

    def run(self, case: str) -> Any:
        """Run an operator to a result in memory."""
        left = self._frame("left")
        if case == "join":
            result = left.merge(self._frame("right"), on="key")
        elif case == "groupby":
            result = left.groupby("key", as_index=False).agg({"value": "sum"})
        elif case == "sort":
            result = left.sort_values("key")
        else:
            joined = left.merge(self._frame("right"), on="key")
            totals = joined.groupby("key", as_index=False).agg({"value": "sum", "other": "sum"})
            result = totals.sort_values("value") + SCALAR
        return self._engine.materialise(result)

    def answer(self, case: str, result: Any) -> Any:
        """Return the digest of the result."""
        frame = self._engine.to_pandas(result)
        return digest({name: frame[name].to_numpy() for name in frame.columns}, ORDERED_BY.get(case))


class PolarsOperators:
    """Polars' lazy API.

    Parameters
    ----------
    folder, source : str
        The folder of the Parquet files; ``"memory"`` if they are read before the runs, ``"parquet"`` if each run reads them.
    ordered : bool
        Whether rows must be in pandas' order.
    engine : str
        The engine, as Polars names it.
    """

    def __init__(self, folder: str, source: str, *, ordered: bool = False, engine: str = "streaming") -> None:
        self._engine = engine
        self._pl = importlib.import_module("polars")
        self._ordered = ordered
        self._frames = {side: self._pl.scan_parquet(f"{folder}/{side}.parquet") for side in ("left", "right")}
        if source == "memory":
            self._frames = {side: frame.collect().rechunk().lazy() for side, frame in self._frames.items()}

    def versions(self) -> dict[str, str]:
        """Return Polars' version."""
        return {"polars": self._pl.__version__}

    def run(self, case: str) -> Any:
        """Run an operator."""
        left, right, col = self._frames["left"], self._frames["right"], self._pl.col
        if case == "join":
            order = "left_right" if self._ordered else "none"
            plan = left.join(right, on="key", maintain_order=order)
        elif case == "groupby":
            plan = left.group_by("key").agg(col("value").sum())
            plan = plan.sort("key") if self._ordered else plan
        elif case == "sort":
            plan = left.sort("key")
        else:
            totals = left.join(right, on="key").group_by("key").agg(col("value").sum(), col("other").sum())
            plan = totals.sort("value").select(self._pl.all() + SCALAR)
        return plan.collect(engine=self._engine)

    def answer(self, case: str, result: Any) -> Any:
        """Return the digest of the result."""
        return digest({name: result[name].to_numpy() for name in result.columns}, ORDERED_BY.get(case))


class DuckDBOperators:
    """DuckDB over its own in-memory tables; results are Arrow tables."""

    SQL: ClassVar[dict[str, str]] = {
        "join": "select l.key, value, other from lhs l join rhs r on l.key = r.key",
        "groupby": "select key, sum(value)::bigint as value from lhs group by key",
        "sort": "select * from lhs order by key",
        "pipeline": f"""
            select key + {SCALAR} as key, value + {SCALAR} as value, other + {SCALAR} as other
            from (select l.key as key, sum(value)::bigint as value, sum(other)::bigint as other
                  from lhs l join rhs r on l.key = r.key group by l.key)
            order by value
        """,
    }

    def __init__(self, folder: str, source: str) -> None:
        duckdb = importlib.import_module("duckdb")
        self._version = duckdb.__version__
        self._connection = duckdb.connect(config={"threads": cores()})
        kind = "table" if source == "memory" else "view"
        for side, name in (("left", "lhs"), ("right", "rhs")):
            path = f"{folder}/{side}.parquet".replace("'", "''")
            self._connection.execute(f"create {kind} {name} as select * from read_parquet('{path}')")

    def versions(self) -> dict[str, str]:
        """Return DuckDB's version."""
        return {"duckdb": self._version}

    def run(self, case: str) -> Any:
        """Run an operator."""
        return self._connection.sql(self.SQL[case]).to_arrow_table()

    def answer(self, case: str, result: Any) -> Any:
        """Return the digest of the result."""
        return digest({name: result[name].to_numpy() for name in result.column_names}, ORDERED_BY.get(case))


class DaftOperators:
    """Daft's own data frames."""

    def __init__(self, folder: str, source: str) -> None:
        self._daft = importlib.import_module("daft")
        self._frames = {side: self._daft.read_parquet(f"{folder}/{side}.parquet") for side in ("left", "right")}
        if source == "memory":
            self._frames = {side: frame.collect() for side, frame in self._frames.items()}

    def versions(self) -> dict[str, str]:
        """Return Daft's version."""
        return {"daft": self._daft.__version__}

    def run(self, case: str) -> Any:
        """Run an operator."""
        left, right, col = self._frames["left"], self._frames["right"], self._daft.col
        if case == "join":
            plan = left.join(right, on="key")
        elif case == "groupby":
            plan = left.groupby("key").agg(col("value").sum())
        elif case == "sort":
            plan = left.sort("key")
        else:
            totals = left.join(right, on="key").groupby("key").agg(col("value").sum(), col("other").sum())
            plan = totals.sort("value").select(*(col(name) + SCALAR for name in ("key", "value", "other")))
        return plan.collect()

    def answer(self, case: str, result: Any) -> Any:
        """Return the digest of the result."""
        table = result.to_arrow()
        return digest({name: table[name].to_numpy() for name in table.column_names}, ORDERED_BY.get(case))


OTHERS: dict[str, Callable[[str, str], Contestant]] = {
    "polars": PolarsOperators,
    "polars-in-memory": lambda folder, source: PolarsOperators(folder, source, engine="in-memory"),
    "polars-ordered": lambda folder, source: PolarsOperators(folder, source, ordered=True),
    "duckdb": DuckDBOperators,
    "daft": DaftOperators,
}

CONTESTANTS = (*PANDAS_LIKES, *OTHERS)
"""The valid names for ``--contestants``."""


def open_contestant(name: str, options: dict[str, Any]) -> Contestant:
    """Return a contestant.

    Parameters
    ----------
    name : str
        One of `CONTESTANTS`.
    options : dict
        ``folder``: the folder of the Parquet files; ``source``: ``"memory"`` or ``"parquet"``.
    """
    folder, source = str(options["folder"]), str(options["source"])
    if name in OTHERS:
        return OTHERS[name](folder, source)
    return PandasOperators(PANDAS_LIKES[name](), folder, source)
