"""Checks which Arrow types the kernel supports, and gives their dtypes in the kernel.

Files may contain types that the kernel does not support; if it reads the schema of such a file, it may panic or end the
process. So the schema that pyarrow reads is checked before the kernel opens the file.
"""

from __future__ import annotations

import base64
import functools

import polars as pl
import pyarrow as pa
import pyarrow.types as kinds

from craton.errors import Unsupported
from craton.refusals import Refusal

_PLAIN = (
    *(kinds.is_null, kinds.is_boolean, kinds.is_integer, kinds.is_floating, kinds.is_date, kinds.is_time),
    *(kinds.is_duration, kinds.is_string, kinds.is_large_string, kinds.is_string_view, kinds.is_binary),
    *(kinds.is_large_binary, kinds.is_binary_view, kinds.is_fixed_size_binary),
    *(kinds.is_decimal32, kinds.is_decimal64, kinds.is_decimal128),
)
_LISTS = (kinds.is_list, kinds.is_large_list, kinds.is_fixed_size_list)


def kernel_dtypes(schema: pa.Schema) -> dict[str, pl.DataType]:
    """The kernel's dtype of each column of a schema that has been checked, as pyarrow's rows are converted."""
    empty = pl.from_arrow(schema.empty_table())
    assert isinstance(empty, pl.DataFrame)
    return dict(zip(schema.names, empty.dtypes, strict=True))  # the kernel renames a column without a name


def check_kernel_types(schema: pa.Schema) -> None:
    """Refuse a schema with a type that the kernel does not support, at any depth.

    Raises
    ------
    Unsupported
        For the first such column.
    """
    for field in schema:
        if not _is_supported(field.type):
            raise Unsupported(Refusal.FILE_COLUMN, f"{field.name!r} of {field.type}")


def check_writer_schema(written: bytes) -> None:
    """Check the Arrow schema that the writer stored in a Parquet file; the kernel prefers it to the Parquet schema.

    Raises
    ------
    Unsupported
        If it has a type that the kernel does not support, or cannot be decoded.
    """
    if not written:
        return
    try:
        schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(written)))
    except (ValueError, OSError, pa.ArrowException) as error:
        raise Unsupported(Refusal.FILE_KERNEL, error) from error
    check_kernel_types(schema)


def _is_supported(kind: pa.DataType) -> bool:
    if isinstance(kind, pa.BaseExtensionType):
        return _is_supported(kind.storage_type)
    if kinds.is_timestamp(kind):
        return kind.tz is None or _supports_zone(kind.tz)
    if kinds.is_dictionary(kind):
        return not kinds.is_nested(kind.value_type) and _is_supported(kind.value_type)
    if any(test(kind) for test in _LISTS):
        return _is_supported(kind.value_type)
    if kinds.is_map(kind):
        return _is_supported(kind.key_type) and _is_supported(kind.item_type)
    if kinds.is_struct(kind):
        return all(_is_supported(kind.field(i).type) for i in range(kind.num_fields))
    return any(test(kind) for test in _PLAIN)


def has_views(schema: pa.Schema) -> bool:
    """Whether a column has a type of views (``string_view``, ``binary_view``), at any depth."""
    return any(_contains_view(field.type) for field in schema)


def _contains_view(kind: pa.DataType) -> bool:
    if isinstance(kind, pa.BaseExtensionType):
        return _contains_view(kind.storage_type)
    if kinds.is_string_view(kind) or kinds.is_binary_view(kind):
        return True
    return any(_contains_view(kind.field(i).type) for i in range(kind.num_fields))


@functools.lru_cache(maxsize=256)
def _supports_zone(zone: str) -> bool:
    """Whether the kernel supports a time zone: names of the tz database, and offsets of whole hours."""
    try:
        pl.Series([0], dtype=pl.Datetime("us", zone)).dt.hour()
    except pl.exceptions.PolarsError:
        return False
    return True
