"""What the footers of local Parquet files tell, read once for each state of a file."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import polars as pl
import pyarrow as pa

from craton.errors import Unsupported
from craton.lower.held import Version, settled_version
from craton.pandas.core.memo import memoised
from craton.plan.size import TEXT_BYTES
from craton.records import dataclass
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
    written
        The schema that the writer stored beside, as it stored it; empty if there is none.
    version
        Of the local file that it was read from.
    """

    rows: int
    schema: pa.Schema
    missing: dict[str, int | None]
    sizes: dict[str, int]
    written: bytes = b""
    version: Version | None = None

    @classmethod
    def of(cls, metadata: Any) -> Footer:
        """Take what is needed out of pyarrow's metadata."""
        written = (metadata.metadata or {}).get(b"ARROW:schema", b"")
        return cls(metadata.num_rows, metadata.schema.to_arrow_schema(), *_columns(metadata), written)


def local_footer(path: str) -> Footer:
    """The footer of a local file, kept for as long as the file stays as it is."""
    import pyarrow.parquet as pq

    version = settled_version(path)
    footer = memoised(
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


def _columns(metadata: Any) -> tuple[dict[str, int | None], dict[str, int]]:
    """Missing values and bytes of each column over all row groups.

    pyarrow makes an object of each column of each row group, and one of its statistics, so each is asked for once.
    """
    names = [metadata.schema.column(i).path for i in range(metadata.num_columns)]
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
        before = missing.setdefault(name, 0)
        missing[name] = None if before is None or count is None else before + count
        sizes[name] = sizes.get(name, 0) + size
    return missing, sizes
