"""``read_iceberg``: a snapshot of an Apache Iceberg table as a scan, whose needed columns ``pyiceberg`` reads when the plan runs.

The metadata is loaded when the call is made, and the files of a snapshot never change. So a lazy frame keeps its rows while others
write to the table.
"""

from __future__ import annotations

from typing import Any

import pandas as pd
import pyarrow as pa
from pandas.io._util import arrow_table_to_pandas

from craton.errors import Unsupported
from craton.pandas.core.counterparts import frame_class
from craton.pandas.core.native import native_function
from craton.pandas.core.stored import stored_frame, stored_value, stored_view, template_of
from craton.pandas.io.kernel_types import check_kernel_types, kernel_dtypes
from craton.plan.operators import Scan
from craton.plan.sources import FileSource
from craton.refusals import Refusal


@native_function(pd.read_iceberg)
def read_iceberg(
    table_identifier: Any,
    catalog_name: Any = None,
    *,
    catalog_properties: Any = None,
    columns: Any = None,
    row_filter: Any = None,
    case_sensitive: Any = True,
    snapshot_id: Any = None,
    limit: Any = None,
    scan_properties: Any = None,
) -> Any:
    """See :func:`pandas.read_iceberg`."""
    if limit is not None:
        raise Unsupported(Refusal.PARAMETER, "limit")
    try:
        from pyiceberg.catalog import load_catalog

        table = load_catalog(catalog_name, **(catalog_properties or {})).load_table(table_identifier)
        filtered = {} if row_filter is None else {"row_filter": row_filter}
        scan = table.scan(
            selected_fields=("*",) if columns is None else tuple(columns),
            case_sensitive=case_sensitive,
            snapshot_id=snapshot_id,
            options=scan_properties or {},
            **filtered,
        )
        files = list(scan.plan_files())
        fields = scan.projection().fields
    except Exception as error:  # pandas raises it again
        raise Unsupported(Refusal.FILE_FOR_PANDAS, error) from error
    version = (table.metadata_location, snapshot_id, repr(row_filter), case_sensitive, repr(scan_properties))
    return _frame_of(scan, files, fields, table.location(), version)


def _frame_of(scan: Any, files: list[Any], fields: Any, place: str, version: tuple[Any, ...]) -> Any:
    """A lazy frame of a scan of pyiceberg."""
    from pyiceberg.io.pyarrow import schema_to_pyarrow

    schema = schema_to_pyarrow(scan.projection(), include_field_ids=False)
    whole = [task.file for task in files] if all(_is_whole(task) for task in files) else None
    check_kernel_types(schema)
    template = template_of(schema, arrow_table_to_pandas)
    rows = None if whole is None else sum(file.record_count for file in whole)
    source = FileSource(
        tuple(kernel_dtypes(schema).items()),
        "iceberg",
        (place,),
        (version,),
        rows=rows,
        filesystem=scan,
    )
    base = Scan(source, tuple(schema.names))
    missing = {
        field.name: _missing(scan, field, whole)
        for field in fields
        if pa.types.is_boolean(schema.field(field.name).type)
    }
    values = {name: stored_value(base, name, dtype, missing.get(name)) for name, dtype in template.dtypes.items()}
    return stored_frame(frame_class(), stored_view(base, values, template, rows), template)


def _is_whole(task: Any) -> bool:
    """Whether all rows of a file are rows of the result, so that the numbers in the metadata are those of the result."""
    from pyiceberg.expressions import AlwaysTrue

    return task.residual == AlwaysTrue() and not task.delete_files


def _missing(scan: Any, field: Any, files: list[Any] | None) -> int:
    """The number of missing values of a boolean column, which decides its dtype: from the metadata, or else from the column."""
    if field.required:
        return 0
    if files is not None:
        counts = [(file.null_value_counts or {}).get(field.field_id) for file in files]
        known = [count for count in counts if count is not None]
        if len(known) == len(files):
            return sum(known)
    return scan.update(selected_fields=(field.name,)).to_arrow().column(0).null_count
