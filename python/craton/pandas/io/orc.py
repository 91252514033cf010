"""``read_orc``: ORC files as scans through pyarrow. Building one reads the footer, and the boolean columns.

The kernel does not read ORC files, so pyarrow reads each stripe, and only the columns that a plan needs.
"""

from __future__ import annotations

from typing import Any

import pandas as pd
import pyarrow as pa
from pandas.io._util import arrow_table_to_pandas

from craton.errors import Unsupported
from craton.lower.remote import opened
from craton.pandas.core.counterparts import frame_class
from craton.pandas.core.native import is_file_pattern, native_function
from craton.pandas.core.stored import (
    refuse_if_changed,
    requested_backend,
    stored_frame,
    stored_value,
    stored_view,
    template_of,
)
from craton.pandas.io.kernel_types import check_kernel_types, kernel_dtypes
from craton.pandas.io.locations import HttpFiles, locate
from craton.plan.operators import Scan
from craton.plan.sources import FileSource
from craton.refusals import Refusal


@native_function(pd.read_orc, elsewhere=is_file_pattern)
def read_orc(
    path: Any,
    columns: Any = None,
    dtype_backend: Any = pd.api.extensions.no_default,
    filesystem: Any = None,
    **kwargs: Any,
) -> Any:
    """See :func:`pandas.read_orc`."""
    if filesystem is not None or kwargs:
        raise Unsupported(Refusal.PARAMETER, ", ".join(["filesystem"] if filesystem is not None else sorted(kwargs)))
    location = locate(path)
    if not isinstance(location.path, str) or isinstance(location.filesystem, HttpFiles):
        if location.filesystem is None:
            raise Unsupported(Refusal.FILE_LIST)
        raise Unsupported(Refusal.FILE_NOT_LOCAL)
    backend = requested_backend(dtype_backend)
    named = {} if backend is None else {"dtype_backend": backend}
    through = location.filesystem
    if through is None:
        from pyarrow.fs import LocalFileSystem

        through = LocalFileSystem()
    held = location.hold([location.path])
    schema, rows, missing = _metadata(through, location.path)
    chosen = _chosen(schema, columns)
    check_kernel_types(chosen)
    template = template_of(chosen, lambda table: arrow_table_to_pandas(table, **named))

    def reopen() -> Any:
        return pd.read_orc(path, columns=columns, **named)

    source = FileSource(
        tuple(kernel_dtypes(chosen).items()),
        "orc",
        (location.path,),
        held.versions,
        rows=rows,
        reopen=reopen if location.filesystem is None else None,
        filesystem=through,
        held=held,
    )
    base = Scan(source, tuple(chosen.names))
    values = {name: stored_value(base, name, dtype, missing.get(name)) for name, dtype in template.dtypes.items()}
    refuse_if_changed(source)
    return stored_frame(frame_class(), stored_view(base, values, template, rows), template)


def _metadata(filesystem: Any, path: str) -> tuple[pa.Schema, int, dict[str, int]]:
    """The schema, the number of rows, and the number of missing values of boolean columns, which decides their dtype.

    Raises
    ------
    Unsupported
        If pyarrow cannot read the file, or labels repeat.
    """
    from pyarrow import orc

    try:
        with opened(filesystem, path) as stream:
            file = orc.ORCFile(stream)
            schema, rows = file.schema, file.nrows
            booleans = [field.name for field in schema if pa.types.is_boolean(field.type)]
            found = file.read(columns=booleans) if booleans else None
    except Exception as error:
        raise Unsupported(Refusal.FILE_FOR_PANDAS, error) from error
    if len(set(schema.names)) != len(schema.names):
        raise Unsupported(Refusal.DUPLICATE_LABELS)
    return schema, rows, {name: found.column(name).null_count for name in booleans} if found is not None else {}


def _chosen(schema: pa.Schema, columns: Any) -> pa.Schema:
    """The part of a schema that pyarrow reads, which is in the order of the file."""
    if columns is None:
        return schema
    if not isinstance(columns, list) or not all(isinstance(name, str) and name in schema.names for name in columns):
        raise Unsupported(Refusal.PARAMETER, "columns")
    if any("." in name for name in schema.names):  # a name may stand for a field within another
        raise Unsupported(Refusal.PARAMETER, "columns")
    return pa.schema([field for field in schema if field.name in columns], metadata=schema.metadata)
