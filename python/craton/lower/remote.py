"""Lazy scans through pyarrow, for file systems that the kernel cannot open, and formats and tables that it does not read.

Any file system of fsspec or pyarrow can be used. Batches are read when the kernel requests them, and only the columns that
it needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import polars as pl

from craton.lower.file_versions import HeldFiles
from craton.plan.sources import FileSource


def scan_remote(source: FileSource) -> pl.LazyFrame:
    """A lazy scan of files in ``source.filesystem``, or of that dataset of pyarrow or scan of pyiceberg."""
    read = _READERS[source.format]
    dtypes = dict(source.columns)

    def batches(
        with_columns: list[str] | None, predicate: pl.Expr | None, n_rows: int | None, batch_size: int | None
    ) -> Iterator[pl.DataFrame]:
        names = list(dtypes)[:1] if with_columns == [] else with_columns or list(dtypes)
        left = n_rows
        for path in source.held.readable() if isinstance(source.held, HeldFiles) else source.paths:
            for batch in read(source.filesystem, path, names):
                if left is not None:
                    batch = batch.head(left)
                    left -= batch.height
                batch = batch.select(pl.col(name).cast(dtypes[name]) for name in names)
                yield batch if predicate is None else batch.filter(predicate)
                if left == 0:
                    return

    return pl.io.plugins.register_io_source(batches, schema=dtypes)


def opened(filesystem: Any, path: str) -> Any:
    """Open a file of a file system of pyarrow or fsspec for reading."""
    return filesystem.open_input_file(path) if hasattr(filesystem, "open_input_file") else filesystem.open(path, "rb")


def _parquet_batches(filesystem: Any, path: str, columns: list[str]) -> Iterator[pl.DataFrame]:
    import pyarrow.parquet as pq

    with opened(filesystem, path) as file:
        reader = pq.ParquetFile(file)
        for group in range(reader.num_row_groups):
            yield _frame(reader.read_row_group(group, columns=columns))


def _ipc_batches(filesystem: Any, path: str, columns: list[str]) -> Iterator[pl.DataFrame]:
    import pyarrow as pa

    with opened(filesystem, path) as file:
        schema = pa.ipc.open_file(file).schema
        chosen = [schema.get_field_index(name) for name in columns]
        reader = pa.ipc.open_file(file, options=pa.ipc.IpcReadOptions(included_fields=chosen))
        for i in range(reader.num_record_batches):
            yield _frame(pa.Table.from_batches([reader.get_batch(i)]))


def _orc_batches(filesystem: Any, path: str, columns: list[str]) -> Iterator[pl.DataFrame]:
    import pyarrow as pa
    from pyarrow import orc

    with opened(filesystem, path) as file:
        reader = orc.ORCFile(file)
        for i in range(reader.nstripes):
            yield _frame(pa.Table.from_batches([reader.read_stripe(i, columns=columns)]))


def _dataset_batches(dataset: Any, _path: str, columns: list[str]) -> Iterator[pl.DataFrame]:
    import pyarrow as pa
    import pyarrow.dataset as ds

    # An expression is a whole name; a string with a point would be a field within another.
    for batch in dataset.to_batches(columns={name: ds.field(name) for name in columns}):
        yield _frame(pa.Table.from_batches([batch]))


def _iceberg_batches(scan: Any, _path: str, columns: list[str]) -> Iterator[pl.DataFrame]:
    import pyarrow as pa

    for batch in scan.update(selected_fields=tuple(columns)).to_arrow_batch_reader():
        yield _frame(pa.Table.from_batches([batch]))


def _frame(table: Any) -> pl.DataFrame:
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    frame.columns = table.column_names  # Polars replaces empty column names
    return frame


_READERS: dict[str, Callable[[Any, str, list[str]], Iterator[pl.DataFrame]]] = {
    "parquet": _parquet_batches,
    "ipc": _ipc_batches,
    "orc": _orc_batches,
    "dataset": _dataset_batches,
    "iceberg": _iceberg_batches,
}
