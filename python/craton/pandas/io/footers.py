"""Footers of Parquet files, and a cache of those of local files, by path and version."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import polars as pl
import pyarrow as pa

from craton.errors import Unsupported
from craton.lower.file_versions import Version, settled_version
from craton.pandas.core.file_cache import memoised
from craton.plan.size import TEXT_BYTES
from craton.records import dataclass
from craton.refusals import Refusal

#: Bytes of a string view.
_VIEW = 16


@dataclass(frozen=True, slots=True)
class ParquetFooter:
    """The parts of one file's footer that plans need.

    Parameters
    ----------
    rows
        The number of rows.
    groups
        The number of row groups.
    schema
        The columns as Arrow types, with the writer's metadata.
    missing
        The number of missing values by column; ``None`` if a row group has no null count.
    sizes
        Encoded bytes by column, uncompressed.
    written
        The writer's serialized Arrow schema; empty if it stored none.
    version
        The version of the local file from which the footer was read; ``None`` for other files.
    """

    rows: int
    groups: int
    schema: pa.Schema
    missing: dict[str, int | None]
    sizes: dict[str, int]
    written: bytes = b""
    version: Version | None = None

    @classmethod
    def of(cls, metadata: Any) -> ParquetFooter:
        """Convert pyarrow's ``FileMetaData``."""
        written = (metadata.metadata or {}).get(b"ARROW:schema", b"")
        schema = metadata.schema.to_arrow_schema()
        return cls(metadata.num_rows, metadata.num_row_groups, schema, *_columns(metadata), written)


def local_footer(path: str) -> ParquetFooter:
    """The footer of a local file, cached until the file changes.

    Raises
    ------
    Unsupported
        If the file changes while its footer is read.
    """
    import pyarrow.parquet as pq

    version = settled_version(path)
    footer = memoised(
        ("footer", os.path.abspath(path), version),
        lambda: replace(ParquetFooter.of(pq.read_metadata(path)), version=version),
    )
    if settled_version(path) != version:
        raise Unsupported(Refusal.FILE_LOST)
    return footer


def text_bytes(footers: Sequence[ParquetFooter], columns: Mapping[str, pl.DataType]) -> tuple[tuple[str, int], ...]:
    """Estimated bytes in memory of one value of each column of strings or bytes: a view, and the characters it points to.

    A column with few distinct values is stored in fewer bytes, and its values share characters in memory, too.
    """
    rows = sum(footer.rows for footer in footers)
    texts = [name for name, dtype in columns.items() if dtype in (pl.String(), pl.Binary())]
    stored = {name: sum(footer.sizes.get(name, 0) for footer in footers) for name in texts}
    return tuple((name, max(TEXT_BYTES, _VIEW + nbytes // max(rows, 1))) for name, nbytes in stored.items())


def _columns(metadata: Any) -> tuple[dict[str, int | None], dict[str, int]]:
    """The missing values and the bytes of each column, over all row groups; of nested columns, of each leaf by its path.

    A leaf is left out if its path is also the name of a column.
    pyarrow creates an object for each column of each row group, and one for its statistics, so each is read only once.
    """
    leaves = [metadata.schema.column(i) for i in range(metadata.num_columns)]
    columns = {leaf.name for leaf in leaves if leaf.name == leaf.path}
    names = [None if leaf.name != leaf.path and leaf.path in columns else leaf.path for leaf in leaves]
    counts: list[int | None] = [0] * len(names)
    nbytes = [0] * len(names)
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        filled = group.num_rows > 0
        for i, column in enumerate(map(group.column, range(len(names)))):
            nbytes[i] += column.total_uncompressed_size
            known = counts[i]
            if known is not None and filled:
                statistics = column.statistics
                counts[i] = (
                    known + statistics.null_count if statistics is not None and statistics.has_null_count else None
                )
    missing: dict[str, int | None] = {}
    sizes: dict[str, int] = {}
    for name, count, size in zip(names, counts, nbytes, strict=True):
        if name is None:
            continue
        before = missing.setdefault(name, 0)
        missing[name] = None if before is None or count is None else before + count
        sizes[name] = sizes.get(name, 0) + size
    return missing, sizes
