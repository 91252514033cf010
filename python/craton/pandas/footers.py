"""What the footers of local Parquet files tell, read once for each state of a file."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import polars as pl
import pyarrow as pa

from craton.errors import Unsupported
from craton.lower.held import Version, settled_version
from craton.pandas.remembered import remembered
from craton.plan.size import TEXT_BYTES
from craton.refusals import Refusal

#: Bytes of a view of text.
_VIEW = 16


@dataclass(frozen=True, slots=True)
class Footer:
    """The footer of one file.

    Parameters
    ----------
    rows
        The number of rows.
    schema
        The columns in Arrow's types, with the metadata of the writer.
    missing
        Missing values by column; ``None`` where a row group does not tell.
    sizes
        Bytes by column, as it is stored, before it was compressed.
    version
        Of the local file that it was read from.
    """

    rows: int
    schema: pa.Schema
    missing: dict[str, int | None]
    sizes: dict[str, int]
    version: Version | None = None

    @classmethod
    def of(cls, metadata: Any) -> Footer:
        """Take what is needed out of pyarrow's metadata."""
        return cls(metadata.num_rows, metadata.schema.to_arrow_schema(), _missing(metadata), _sizes(metadata))


def local_footer(path: str) -> Footer:
    """The footer of a local file, kept for as long as the file stays as it is."""
    import pyarrow.parquet as pq

    version = settled_version(path)
    footer = remembered(
        ("footer", os.path.abspath(path), version), lambda: replace(Footer.of(pq.read_metadata(path)), version=version)
    )
    if settled_version(path) != version:
        raise Unsupported(Refusal.FILE_LOST)
    return footer


def text_bytes(footers: Sequence[Footer], columns: Mapping[str, pl.DataType]) -> tuple[tuple[str, int], ...]:
    """What a value of each column of text needs in memory, about: a view, and the text beside it.

    Text of which few values are stored again and again is stored in less, and shared in memory as well.
    """
    rows = sum(footer.rows for footer in footers)
    texts = [name for name, dtype in columns.items() if dtype in (pl.String(), pl.Binary())]
    stored = {name: sum(footer.sizes.get(name, 0) for footer in footers) for name in texts}
    return tuple((name, max(TEXT_BYTES, _VIEW + nbytes // max(rows, 1))) for name, nbytes in stored.items())


def _sizes(metadata: Any) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        for column in map(group.column, range(metadata.num_columns)):
            name = column.path_in_schema
            sizes[name] = sizes.get(name, 0) + column.total_uncompressed_size
    return sizes


def _missing(metadata: Any) -> dict[str, int | None]:
    counts: dict[str, int | None] = {metadata.schema.column(i).path: 0 for i in range(metadata.num_columns)}
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        for column in map(group.column, range(metadata.num_columns) if group.num_rows else ()):
            known, statistics = counts[column.path_in_schema], column.statistics
            if known is None or statistics is None or not statistics.has_null_count:
                counts[column.path_in_schema] = None
            else:
                counts[column.path_in_schema] = known + statistics.null_count
    return counts
