"""Sources that are queries in SQL, which a database or DuckDB runs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from craton.pipeline.sources.base import Loaded, TableSource, store_selected
from craton.pipeline.tasks import Form
from craton.store.store import Store

__all__ = ["SQL"]


class SQL(TableSource):
    """A query in SQL.

    Parameters
    ----------
    query
        The query, which the database runs as it is; rows have its order. Say in it which columns and rows are needed: those that
        a step does not take (``inputs=``) are dropped only after they have been read, except by DuckDB.
    connection
        A URL of SQLAlchemy (``"postgresql://…"``), or a function that opens a connection of SQLAlchemy, ADBC or :mod:`sqlite3`, which
        is closed afterwards. Without it DuckDB runs the query on files: ``SQL("SELECT * FROM 'sales/*.parquet' WHERE paid > 0")``.
    parameters
        Values for the parameters of the query, in the style of the connection's library; for DuckDB a list for ``?`` or a dict for
        ``$name``.
    version
        A text that names these rows, such as the day of a load: when the rows change or another database is meant, change it. Without it
        steps that take the table always run, because databases do not say whether rows have changed.
    name
        Its name in pipelines.
    form
        The form in which steps take it that ask for none; by default pandas, from DuckDB pyarrow.
    """

    def __init__(
        self,
        query: str,
        connection: str | Callable[[], Any] | None = None,
        *,
        parameters: Sequence[Any] | Mapping[str, Any] | None = None,
        version: str | None = None,
        name: str | None = None,
        form: Form | None = None,
    ) -> None:
        super().__init__(name)
        if not isinstance(query, str):
            raise TypeError(f"a query in SQL is a text, not {type(query).__name__}")
        # An open connection of sqlite3 can be called, too.
        opens = callable(connection) and not hasattr(connection, "cursor")
        if not (connection is None or isinstance(connection, str) or opens):
            raise TypeError(
                f"a connection is a URL or a function that opens one, not {type(connection).__name__}; "
                "one that is open cannot be used by several threads"
            )
        self.query, self.connection, self.parameters, self.form = query, connection, parameters, form
        self._version = version

    def schema(self) -> pa.Schema | None:
        """See :meth:`TableSource.schema`."""
        return None

    def detail(self) -> str:
        """See :meth:`TableSource.detail`."""
        line = " ".join(self.query.split())
        return line if len(line) <= 60 else line[:59] + "…"

    def version(self, store: Store) -> bytes | None:
        """See :meth:`TableSource.version`."""
        if self._version is None:
            return None
        opener = self.connection
        place = (
            (opener.__module__, opener.__qualname__) if callable(opener) and hasattr(opener, "__qualname__") else opener
        )
        return repr((self._version, self.query, self.parameters, place)).encode()

    def load(self, store: Store, columns: Sequence[str] | None, where: Any, index: bool) -> Loaded:
        """See :meth:`TableSource.load`."""
        if self.connection is None:
            table = self._from_files(columns if where is None else None)
        else:
            table = self._from_database()
        return store_selected(store, table, self.form, columns, where, index)

    def _from_database(self) -> Any:
        import pandas

        with self._opened() as connection:
            return pandas.read_sql(self.query, connection, params=self.parameters)  # type: ignore[arg-type]

    @contextlib.contextmanager
    def _opened(self) -> Iterator[Any]:
        if not callable(self.connection):
            yield self.connection
            return
        connection = self.connection()
        try:
            yield connection
        finally:
            connection.close()

    def _from_files(self, columns: Sequence[str] | None) -> pa.Table:
        try:
            import duckdb
        except ImportError:
            raise ImportError(
                "a query in SQL without a connection needs the library duckdb; install it, or give a connection"
            ) from None
        with duckdb.connect() as connection:
            rows = connection.sql(self.query, params=self.parameters)
            if rows is None:
                raise ValueError(f"the query returns no table: {self.detail()}")
            if columns is not None and not set(columns) - set(rows.columns):
                rows = rows.select(*map(duckdb.ColumnExpression, dict.fromkeys(columns)))
            return rows.to_arrow_table()
