"""What the footers of local Parquet files tell, read once for each state of a file."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from craton.lower.held import version_of
from craton.pandas.remembered import remembered


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
    """

    rows: int
    schema: pa.Schema
    missing: dict[str, int | None]

    @classmethod
    def of(cls, metadata: Any) -> Footer:
        """Take what is needed out of pyarrow's metadata."""
        return cls(metadata.num_rows, metadata.schema.to_arrow_schema(), _missing(metadata))


def local_footer(path: str) -> Footer:
    """The footer of a local file, kept for as long as the file stays as it is."""
    import pyarrow.parquet as pq

    key = ("footer", os.path.abspath(path), version_of(os.stat(path)))
    return remembered(key, lambda: Footer.of(pq.read_metadata(path)))


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
