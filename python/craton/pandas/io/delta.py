"""``craton.read_delta``: a version of a Delta Lake table as a scan of its files, with the rows and dtypes of ``DeltaTable.to_pandas``.

The library ``deltalake`` reads the log and gives a dataset of the files of one version, which never change. pyarrow reads the columns
that a plan needs.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import pandas as pd
import pyarrow as pa

from craton.errors import Unsupported
from craton.pandas.core.counterparts import as_craton, frame_class
from craton.pandas.core.native import count_fallback
from craton.pandas.core.routing import plain_pandas
from craton.pandas.core.stored import stored_frame, stored_value, stored_view, template_of
from craton.pandas.io.kernel_types import check_kernel_types, kernel_dtypes
from craton.plan.operators import Scan
from craton.plan.sources import FileSource
from craton.refusals import Refusal

__all__ = ["read_delta"]


def read_delta(
    path: str | os.PathLike[str],
    *,
    version: int | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> pd.DataFrame:
    """Read a version of a Delta Lake table as a lazy frame.

    Needs the package ``deltalake`` (the extra ``craton[delta]``). Writes to the table do not change the frame.

    Parameters
    ----------
    path
        The path or URL of the table.
    version
        The version; by default the newest.
    storage_options
        Options of ``deltalake`` for URLs.

    Returns
    -------
    DataFrame
        Equal to ``deltalake.DeltaTable(path, version).to_pandas()``.

    Raises
    ------
    ImportError
        If ``deltalake`` is not installed.
    deltalake.exceptions.TableNotFoundError
        If there is no table; other errors of ``deltalake`` and pyarrow are raised as they are.

    Examples
    --------
    >>> import craton
    >>> sales = craton.read_delta("sales", version=3)  # doctest: +SKIP
    >>> sales.groupby("region")["amount"].sum()  # doctest: +SKIP
    """
    from deltalake import DeltaTable

    options = None if storage_options is None else dict(storage_options)
    table = DeltaTable(os.fspath(path), version=version, storage_options=options)
    try:
        return _scan(table)
    except Unsupported as refusal:
        count_fallback("read_delta", refusal.reason, emit=True)
    with plain_pandas():
        return as_craton(table.to_pandas())  # type: ignore[no-any-return]


def _scan(table: Any) -> Any:
    try:
        dataset = table.to_pyarrow_dataset()
    except Exception as error:
        raise Unsupported(Refusal.FILE_FOR_PANDAS, error) from error
    schema = dataset.schema
    if len(set(schema.names)) != len(schema.names):
        raise Unsupported(Refusal.DUPLICATE_LABELS)
    check_kernel_types(schema)
    template = template_of(schema, lambda empty: empty.to_pandas())
    source = FileSource(
        tuple(kernel_dtypes(schema).items()),
        "dataset",
        (table.table_uri,),
        ((table.table_uri, table.metadata().id, table.version()),),
        rows=dataset.count_rows(),
        filesystem=dataset,
    )
    base = Scan(source, tuple(schema.names))
    missing = _missing_booleans(dataset, schema)
    values = {name: stored_value(base, name, dtype, missing.get(name)) for name, dtype in template.dtypes.items()}
    return stored_frame(frame_class(), stored_view(base, values, template, source.rows), template)


def _missing_booleans(dataset: Any, schema: pa.Schema) -> dict[str, int]:
    """The number of missing values of boolean columns, which decides their dtype."""
    names = [field.name for field in schema if pa.types.is_boolean(field.type)]
    return {name: dataset.to_table(columns=[name]).column(0).null_count for name in names}
