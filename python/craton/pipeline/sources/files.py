"""Sources that are files: Parquet and CSV."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from craton._native import content_hash
from craton.errors import SourceChanged
from craton.lower.file_versions import settled_version
from craton.pipeline.pandas_tables import joined
from craton.pipeline.sources.base import Loaded, TableSource, only_output, store_tables
from craton.pipeline.sources.decoding import MOST_OF_LIMIT, decoded, decoded_whole
from craton.pipeline.sources.selection import columns_read, selected, taken_names
from craton.pipeline.steps.conditions import bound, condition, condition_bytes
from craton.pipeline.tasks import Form
from craton.store.decoded import DecodedFile
from craton.store.store import Store

__all__ = ["CSV", "Parquet"]

Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


class _Files(TableSource):
    """Files of one table, in the order in which they are read."""

    form: Form

    def __init__(self, path: Paths, suffix: str, name: str | None) -> None:
        single = isinstance(path, (str, os.PathLike))
        super().__init__(name or (Path(os.fspath(path)).name.partition(".")[0] if single else None))  # type: ignore[arg-type]
        self.path, self._suffix = path, suffix
        self._given = [os.fspath(path)] if single else [os.fspath(one) for one in path]  # type: ignore[union-attr,arg-type]

    def files(self) -> list[str]:
        """The paths of the files: of a folder and of a pattern in the order of their names."""
        return [file for one in self._given for file in _expanded(one, self._suffix)]

    def problems(self) -> list[str]:
        """See :meth:`TableSource.problems`."""
        files = self.files()
        if not files:
            return [f"there are no {self._suffix} files at {', '.join(self._given) or 'no path'}"]
        return [f"there is no file {file}" for file in files if not os.path.isfile(file)]

    def detail(self) -> str:
        """See :meth:`TableSource.detail`."""
        more = f" and {len(self._given) - 1} more" if len(self._given) > 1 else ""
        return f"{Path(self._given[0]).name}{more}" if self._given else ""

    def version(self, store: Store) -> bytes | None:
        """See :meth:`TableSource.version`."""
        try:
            return (
                repr([(os.path.realpath(one), settled_version(one)) for one in self.files()]).encode() + self._options()
            )
        except OSError:
            return None

    def _options(self) -> bytes:
        return b""


def _expanded(path: str, suffix: str) -> list[str]:
    if os.path.isdir(path):
        found = (
            one
            for one in Path(path).rglob(f"*{suffix}")
            if not any(p.startswith((".", "_")) for p in one.relative_to(path).parts)
        )
        return sorted(map(str, found))
    if glob.has_magic(path) and not os.path.exists(path):
        return sorted(glob.glob(path, recursive=True))
    return [path]


class Parquet(_Files):
    """Parquet files of one table, as `pyarrow.parquet.read_table` and `pandas.read_parquet` read them.

    Decoded columns stay in the store as long as there is memory, so that all pipelines of the store share them.

    Parameters
    ----------
    path
        A path, a folder, a pattern such as ``"sales/*.parquet"``, or a list of paths.
    columns
        The columns that the table has for pipelines; by default all.
    where
        The rows that it has, as in :class:`~craton.pipeline.Input`.
    name
        Its name in pipelines; by default the file's, without its suffix.
    form
        The form in which steps take it that ask for none.
    """

    def __init__(
        self,
        path: Paths,
        columns: Sequence[str] | None = None,
        where: Any = None,
        *,
        name: str | None = None,
        form: Form = "arrow",
    ) -> None:
        super().__init__(path, ".parquet", name)
        self.columns, self.where, self.form = None if columns is None else list(columns), condition(where), form

    def schema(self) -> pa.Schema | None:
        """See :meth:`TableSource.schema`."""
        schema = pq.read_schema(self.files()[0])
        if self.columns is None:
            return schema
        return pa.schema([schema.field(name) for name in self.columns], metadata=schema.metadata)

    def problems(self) -> list[str]:
        """See :meth:`TableSource.problems`."""
        found = super().problems()
        if found:
            return found
        files = self.files()
        try:
            schemas = [pq.read_schema(file) for file in files]
        except (OSError, pa.ArrowInvalid) as error:
            return [f"a file cannot be read: {error}"]
        for name in self.columns or ():
            if name not in schemas[0].names:
                return [f"{files[0]} has no column {name!r}; it has {', '.join(schemas[0].names)}"]
        for file, schema in zip(files[1:], schemas[1:], strict=True):
            if not schema.equals(schemas[0]):
                return [f"the columns of {file} are not those of {files[0]}: {_difference(schemas[0], schema)}"]
        try:
            columns_read(schemas[0], bound(schemas[0], self.where))
        except (KeyError, TypeError) as error:
            return [str(error.args[0])]
        return []

    def partitions(self) -> list[TableSource]:
        """See :meth:`TableSource.partitions`: the files."""
        return [Parquet(file, self.columns, self.where, name=self.name, form=self.form) for file in self.files()]

    def memory(self) -> int:
        """See :meth:`TableSource.memory`: the largest row group."""
        most = 0
        for file in self.files():
            metadata = pq.read_metadata(file)
            most = max([most, *(metadata.row_group(i).total_byte_size for i in range(metadata.num_row_groups))])
        return most

    def _options(self) -> bytes:
        return repr(self.columns).encode() + condition_bytes(self.where)

    def load(self, store: Store, columns: Sequence[str] | None, where: Any, index: bool) -> Loaded:
        """See :meth:`TableSource.load`."""
        files = self.files()
        whole = pq.read_schema(files[0])
        taken = taken_names(whole, self.columns if columns is None else columns, index)
        where = bound(whole, self.where, where)
        read = [*dict.fromkeys([*taken, *columns_read(whole, where)])]
        schema = pa.schema([whole.field(name) for name in taken], metadata=whole.metadata)
        counts = {"decoded": 0, "stored": True}

        def tables() -> Iterator[pa.Table]:
            for file in files:
                yield from _tables(store, file, whole, read, where, counts)

        parts = [part.select(taken).replace_schema_metadata(whole.metadata) for part in tables()]
        parts = [part for part in parts if part.num_rows] or parts[:1] or [_without_rows(files[0], schema)]
        return store_tables(store, self.form, parts, stored=bool(counts["stored"]), decoded=int(counts["decoded"]))


def _tables(
    store: Store, file: str, schema: pa.Schema, read: Sequence[str], where: Any, counts: dict[str, Any]
) -> Iterator[pa.Table]:
    """The rows of a file for which a condition is true."""
    version = settled_version(file)
    metadata = pq.read_metadata(file)
    groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
    known = DecodedFile(
        f"{os.path.realpath(file)} as Arrow",
        repr(version),
        metadata.num_rows,
        max((group.num_rows for group in groups[:1]), default=1),
    )
    needed = _groups_needed(file, where) if where is not None else list(range(len(groups)))
    size = sum(_bytes(group, read) for group in groups)
    if metadata.num_rows and 2 * len(needed) > len(groups) and size <= store.limit * MOST_OF_LIMIT:
        columns = [(name, str(schema.field(name).type)) for name in read]
        found = decoded(store, known, columns, lambda names, start, rows: _rows(file, names, start, rows))
        if settled_version(file) != version:
            raise SourceChanged(f"{file} was changed while it was read")
        if found is not None:
            counts["decoded"] += found[1]
            counts["stored"] &= where is None
            yield selected(pa.Table.from_batches(found[0]), "arrow", None, where)
            return
    counts["stored"] = False
    for group in needed:
        with pq.ParquetFile(file) as opened:
            table = opened.read_row_groups([group], columns=list(read), use_pandas_metadata=False)
        yield selected(table, "arrow", None, where)
    if settled_version(file) != version:
        raise SourceChanged(f"{file} was changed while it was read")


def _without_rows(file: str, schema: pa.Schema) -> pa.Table:
    """The columns of a file, with their categories."""
    table = _rows(file, schema.names, 0, 1).slice(0, 0)
    return table.replace_schema_metadata(schema.metadata)


def _groups_needed(file: str, where: Any) -> list[int]:
    """The row groups that may have rows for which a condition is true, by their statistics."""
    (fragment,) = ds.dataset(file, format="parquet").get_fragments()
    return [group.id for part in fragment.split_by_row_group(where) for group in part.row_groups]


def _bytes(group: Any, names: Sequence[str]) -> int:
    wanted = set(names)
    columns = (group.column(i) for i in range(group.num_columns))
    return sum(one.total_uncompressed_size for one in columns if one.path_in_schema.partition(".")[0] in wanted)


def _rows(file: str, names: Sequence[str], start: int, rows: int | None) -> pa.Table:
    """Columns of a range of rows."""
    with pq.ParquetFile(file) as opened:
        metadata = opened.metadata
        end = metadata.num_rows if rows is None else start + rows
        groups: list[int] = []
        first = at = 0
        for number in range(metadata.num_row_groups):
            count = metadata.row_group(number).num_rows
            if at < end and at + count > start:
                first = at if not groups else first
                groups.append(number)
            at += count
        table = opened.read_row_groups(groups, columns=list(names), use_pandas_metadata=False)
    return table.slice(start - first, end - start).select(list(names))


def _difference(first: pa.Schema, other: pa.Schema) -> str:
    for name in first.names:
        if name not in other.names:
            return f"it has no column {name!r}"
        if first.field(name).type != other.field(name).type:
            return f"{name!r} is {other.field(name).type} and not {first.field(name).type}"
    more = [name for name in other.names if name not in first.names]
    return f"it has more columns: {', '.join(more)}" if more else "their order or their row labels differ"


class CSV(_Files):
    """CSV files of one table, as `pandas.read_csv` reads them.

    Parameters
    ----------
    path
        A path, a folder, a pattern or a list of paths.
    name
        Its name in pipelines; by default the file's, without its suffix.
    form
        The form in which steps take it that ask for none.
    **options
        Options of `pandas.read_csv`, except ``index_col``, ``usecols``, ``chunksize`` and ``iterator``.
    """

    def __init__(self, path: Paths, *, name: str | None = None, form: Form = "pandas", **options: Any) -> None:
        super().__init__(path, ".csv", name)
        for option in ("index_col", "usecols", "chunksize", "iterator"):
            if option in options:
                raise TypeError(f"CSV has no option {option}; steps say which columns they need by inputs=")
        self.form, self.options = form, options

    def schema(self) -> pa.Schema | None:
        """See :meth:`TableSource.schema`."""
        return None

    def column_names(self) -> list[str] | None:
        """See :meth:`TableSource.column_names`."""
        if self.problems():
            return None
        import pandas as pd

        return [str(name) for name in pd.read_csv(self.files()[0], **{**self.options, "nrows": 0}).columns]

    def partitions(self) -> list[TableSource]:
        """See :meth:`TableSource.partitions`: the files."""
        return [CSV(file, name=self.name, form=self.form, **self.options) for file in self.files()]

    def _options(self) -> bytes:
        return repr(sorted(self.options.items())).encode()

    def load(self, store: Store, columns: Sequence[str] | None, where: Any, index: bool) -> Loaded:
        """See :meth:`TableSource.load`."""
        parts = [self._read(store, file) for file in self.files()]
        for file, (part, _) in zip(self.files(), parts, strict=True):
            if not part.schema.equals(parts[0][0].schema, check_metadata=False):
                raise ValueError(
                    f"the columns of {file} are not those of the first file: {_difference(parts[0][0].schema, part.schema)}"
                )
        frames = [part for part, _ in parts]
        tables = [selected(one, "pandas", columns, where) for one in (frames if len(frames) == 1 else joined(frames))]
        return store_tables(store, self.form, tables, stored=where is None and all(stored for _, stored in parts))

    def _read(self, store: Store, file: str) -> tuple[pa.Table, bool]:
        """The rows of a file, and whether they are in the store's memory."""
        version = settled_version(file)
        name = f"{os.path.realpath(file)} as pandas reads it with {content_hash(self._options()).hex()}"

        def read() -> pa.Table:
            import craton.pandas as pd

            (table,) = only_output(pd.read_csv(file, **self.options)).tables
            if settled_version(file) != version:
                raise SourceChanged(f"{file} was changed while it was read")
            return table

        return decoded_whole(store, DecodedFile(name, repr(version), None, 1), read)
