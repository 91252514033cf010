"""File sources as Polars scans."""

from __future__ import annotations

from typing import Any

import polars as pl

from craton.plan.sources import FileSource


def scan_files(source: FileSource, row_number: str | None) -> pl.LazyFrame:
    """A lazy scan of a file source with the columns that the source declares."""
    options: dict[str, Any] = dict(source.options)
    paths = list(source.paths)
    match source.format:
        case "parquet":
            return pl.scan_parquet(
                paths,
                row_index_name=row_number,
                glob=False,
                storage_options=source.storage_options,
                **options,
            )
        case "ipc":
            return pl.scan_ipc(paths, row_index_name=row_number, storage_options=source.storage_options, **options)
        case _:
            raise NotImplementedError(f"no scan of {source.format} files")
