"""How each contestant runs TPC-H. The module is imported in the contestant's own environment, which may have few other packages.

Engines with a pandas API run the demo's 22 pandas queries unchanged, with the module and the call of `bench.pandas_likes`.
Polars runs queries that were written for it by hand; DuckDB and Daft run SQL. Every run reads the Parquet files.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from bench.harness import answers
from bench.harness.worker import Contestant
from bench.pandas_likes import PANDAS_LIKES, PandasLike, cores

__all__ = ["CONTESTANTS", "open_contestant"]

ROOT = Path(__file__).resolve().parents[2]
DATES = {"orders": ("o_orderdate",), "lineitem": ("l_shipdate", "l_commitdate", "l_receiptdate")}
"""The date columns of each table."""
TABLES = (
    "region",
    "nation",
    "supplier",
    "part",
    "customer",
    "partsupp",
    "orders",
    "lineitem",
)


def pandas_queries() -> dict[str, Callable[[Any, str], Any]]:
    """Return the demo's queries. They are loaded by path, because importing ``craton`` needs Craton's dependencies."""
    path = ROOT / "python" / "craton" / "demo" / "queries.py"
    spec = importlib.util.spec_from_file_location("tpch_pandas_queries", path)
    assert spec is not None
    assert spec.loader is not None
    module: ModuleType = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    queries: dict[str, Callable[[Any, str], Any]] = module.QUERIES
    return queries


class Reading:
    """An engine's module, whose ``read_parquet`` reads as another kind of user would.

    Parameters
    ----------
    pd : module
        The engine's module.
    dates : str
        ``"text"``: the files have dates as text, and every date column is passed to ``to_datetime`` after reading.
    dtypes : str
        ``"pyarrow"``: the columns have Arrow dtypes.
    """

    def __init__(self, pd: Any, dates: str, dtypes: str) -> None:
        self._pd = pd
        self._text = dates == "text"
        self._options = {"dtype_backend": "pyarrow"} if dtypes == "pyarrow" else {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._pd, name)

    def read_parquet(self, path: str) -> Any:
        """Read a table, and convert its dates."""
        frame = self._pd.read_parquet(path, **self._options)
        for column in DATES.get(Path(path).stem, ()) if self._text else ():
            frame[column] = self._pd.to_datetime(frame[column])
        return frame


class PandasQueries:
    """An engine that runs the pandas queries."""

    def __init__(self, engine: PandasLike, folder: str, dates: str = "timestamps", dtypes: str = "numpy") -> None:
        self._engine = engine
        self._folder = folder
        self._queries = pandas_queries()
        self._pd = engine.pd if (dates, dtypes) == ("timestamps", "numpy") else Reading(engine.pd, dates, dtypes)

    def versions(self) -> dict[str, str]:
        """Return the engine's versions."""
        return self._engine.versions()

    def forget(self) -> None:
        """Clear the engine's caches of results."""
        self._engine.forget()

    def run(self, case: str) -> Any:
        """Run a query to a result in memory."""
        return self._engine.materialise(self._queries[case](self._pd, self._folder))

    def answer(self, case: str, result: Any) -> Any:
        """Return the result as a table."""
        frame = self._engine.to_pandas(result)
        return answers.table(
            frame.columns,
            zip(
                *(frame.iloc[:, at].tolist() for at in range(frame.shape[1])),
                strict=True,
            ),
        )


class PolarsQueries:
    """Polars.

    Parameters
    ----------
    folder : str
        The folder of the Parquet files.
    engine : str
        The engine, as Polars names it.
    """

    def __init__(self, folder: str, engine: str = "streaming") -> None:
        self._engine = engine
        self._queries = importlib.import_module("bench.tpch.polars_queries")
        self._folder = folder

    def versions(self) -> dict[str, str]:
        """Return Polars' version."""
        return {"polars": importlib.import_module("polars").__version__}

    def run(self, case: str) -> Any:
        """Run a query."""
        return self._queries.run(case, self._folder, self._engine)

    def answer(self, case: str, result: Any) -> Any:
        """Return the result as a table."""
        return answers.table(result.columns, result.rows())


class DuckDBQueries:
    """DuckDB over views of the files; the result is an Arrow table."""

    def __init__(self, folder: str) -> None:
        duckdb = importlib.import_module("duckdb")
        self._sql: dict[str, str] = importlib.import_module("bench.tpch.sql").SQL
        self._version = duckdb.__version__
        self._connection = duckdb.connect(config={"threads": cores()})
        for table in TABLES:
            path = str(Path(folder) / f"{table}.parquet").replace("'", "''")
            self._connection.execute(f"create view {table} as select * from read_parquet('{path}')")

    def versions(self) -> dict[str, str]:
        """Return DuckDB's version."""
        return {"duckdb": self._version}

    def run(self, case: str) -> Any:
        """Run a query."""
        return self._connection.sql(self._sql[case]).to_arrow_table()

    def answer(self, case: str, result: Any) -> Any:
        """Return the result as a table."""
        return answers.table(
            result.column_names,
            zip(*(column.to_pylist() for column in result.columns), strict=True),
        )


class DaftQueries:
    """Daft, which has no pandas API. It runs the SQL texts, which are changed where its parser lacks a feature."""

    DIALECT = ((r"as materialized \(", "as ("), (r"substring\((\w+) from (\d+) for (\d+)\)", r"substring(\1, \2, \3)"))

    def __init__(self, folder: str) -> None:
        self._daft = importlib.import_module("daft")
        self._sql: dict[str, str] = dict(importlib.import_module("bench.tpch.sql").SQL)
        for ours, theirs in self.DIALECT:
            self._sql = {name: re.sub(ours, theirs, text) for name, text in self._sql.items()}
        self._folder = folder

    def versions(self) -> dict[str, str]:
        """Return Daft's version."""
        return {"daft": self._daft.__version__}

    def run(self, case: str) -> Any:
        """Run a query."""
        tables = {table: self._daft.read_parquet(f"{self._folder}/{table}.parquet") for table in TABLES}
        return self._daft.sql(self._sql[case], **tables).collect()

    def answer(self, case: str, result: Any) -> Any:
        """Return the result as a table."""
        columns = result.to_pydict()
        return answers.table(list(columns), zip(*columns.values(), strict=True))


OTHERS: dict[str, Callable[[str], Contestant]] = {
    "polars": PolarsQueries,
    "polars-in-memory": lambda folder: PolarsQueries(folder, "in-memory"),
    "duckdb": DuckDBQueries,
    "daft": DaftQueries,
}

CONTESTANTS = (
    "craton",
    "polars",
    "polars-in-memory",
    "duckdb",
    "pandas",
    "modin",
    "dask",
    "fireducks",
    "pyspark",
    "bodo",
    "daft",
)
"""The valid names for ``--contestants``."""


def open_contestant(name: str, options: dict[str, Any]) -> Contestant:
    """Return a contestant.

    Parameters
    ----------
    name : str
        One of `CONTESTANTS`.
    options : dict
        ``folder``: the folder of the Parquet files. ``dates`` and ``dtypes``: see `Reading`; only for engines with a pandas API.
    """
    folder = str(options["folder"])
    if name in OTHERS:
        return OTHERS[name](folder)
    dates, dtypes = options.get("dates", "timestamps"), options.get("dtypes", "numpy")
    return PandasQueries(PANDAS_LIKES[name](), folder, str(dates), str(dtypes))
