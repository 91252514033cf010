"""Durable sets of frames: ``craton.save``, ``craton.read_set`` and ``craton.catalog``."""

from __future__ import annotations

import os
from typing import Any, Literal

import pandas as pd
import pyarrow as pa

from craton.pandas.core.counterparts import as_craton
from craton.pandas.io.feather import read_feather
from craton.pandas.io.ipc_footer import row_and_null_counts
from craton.pandas.reshape.tables import concat
from craton.store.durable import DurableSet, Version, every_set
from craton.store.sets import as_batches

__all__ = ["catalog", "read_set", "save"]

_MODES = ("error", "overwrite", "append")


def save(name: str, frame: Any, *, mode: Literal["error", "overwrite", "append"] = "error") -> int:
    """Save a table as a durable set, from which every program can read it by name (:func:`read_set`).

    The set is below ``craton.options.data``. When this returns, the rows survive crashes of the process and of the machine; before that,
    and after an error, nothing has changed. Other programs that read the set meanwhile see the version before.

    Parameters
    ----------
    name
        The name of the set, or ``database.name``.
    frame
        A frame of Craton or pandas, or a table of Arrow or Polars. A plan is computed while it is written.
    mode
        What happens if there is a set of this name: ``error``, ``overwrite``: a new version has the new rows instead, ``append``: after the
        rows of the newest version, which must have the same columns.

    Returns
    -------
    int
        The number of the new version.

    Raises
    ------
    FileExistsError
        If there is a set of this name, and the mode is ``error``.
    ValueError
        If the name or the mode is not valid, or the rows cannot be appended because their columns differ.
    TypeError
        If ``frame`` is no table.
    craton.store.SetConflict
        If another program has changed the set meanwhile.
    """
    if mode not in _MODES:
        raise ValueError(f"mode is one of {_MODES}, not {mode!r}")
    durable = DurableSet(name)
    before = durable.current()
    if before is not None and mode == "error":
        raise FileExistsError(
            f"there is a set {durable.database}.{durable.name} already; pass mode='overwrite' or 'append'"
        )
    table = _table(frame)
    about = _about(table)
    kept: tuple[dict[str, Any], ...] = ()
    if before is not None and mode == "append":
        _check_columns(before, about)
        kept = before.files

    def write(path: str) -> int:
        if not isinstance(table, pa.Table):
            table.to_feather(path, compression="uncompressed")
            if rows := _rows(path):
                return rows
            os.unlink(path)
        arrow = table if isinstance(table, pa.Table) else pa.Table.from_pandas(pd.DataFrame(table))
        with pa.OSFile(path, "wb") as file, pa.ipc.new_file(file, arrow.schema) as writer:
            for batch in as_batches(arrow):  # one without rows, if there are none, which has the categories
                writer.write_batch(batch)
        return arrow.num_rows

    return durable.publish(write, about, before, kept).number


def read_set(name: str, *, version: int | None = None, columns: list[str] | None = None) -> Any:
    """Read a durable set as a lazy frame.

    Parameters
    ----------
    name
        The name of the set, or ``database.name``.
    version
        The number of the version; by default the newest. The frame stays with this version, whatever is written later.
    columns
        The columns to read, all by default.

    Raises
    ------
    FileNotFoundError
        If there is no such set or version.
    """
    durable = DurableSet(name)
    found = durable.version(version)
    parts = [read_feather(durable.path(file), columns=columns) for file in found.files]
    if len(parts) == 1:
        return parts[0]
    return concat(parts, ignore_index=bool(found.about["default_index"]))


def catalog() -> Any:
    """The durable sets below ``craton.options.data``: their database, name, version, rows, bytes, files, columns, and time (UTC)."""
    rows = []
    for durable in every_set():
        version = durable.version()
        rows.append(
            {
                "database": durable.database,
                "name": durable.name,
                "version": version.number,
                "versions": len(durable.versions()),
                "rows": version.rows,
                "nbytes": version.nbytes,
                "files": len(version.files),
                "columns": len(version.about.get("columns", ())),
                "time": pd.Timestamp(version.time, unit="ms", tz="UTC"),
            }
        )
    names = ["database", "name", "version", "versions", "rows", "nbytes", "files", "columns", "time"]
    return as_craton(pd.DataFrame(rows, columns=names))


def _rows(path: str) -> int:
    """The number of rows of an Arrow file."""
    with open(path, "rb") as file:
        return row_and_null_counts(file, len(pa.ipc.open_file(file).schema))[0]


def _table(frame: Any) -> Any:
    """A frame, or an Arrow table."""
    if isinstance(frame, pd.DataFrame):
        return frame
    if hasattr(frame, "__arrow_c_stream__") and not isinstance(frame, pd.Series):
        return pa.table(frame)
    raise TypeError(f"a set is saved from a table, not from {type(frame).__name__}")


def _about(table: Any) -> dict[str, Any]:
    if isinstance(table, pa.Table):
        return {"columns": [[field.name, str(field.type)] for field in table.schema], "default_index": True}
    if not all(isinstance(label, str) for label in table.columns) or not table.columns.is_unique:
        raise ValueError("the columns of a set have different texts as labels")
    default = isinstance(table.index, pd.RangeIndex) and (table.index.start, table.index.step) == (0, 1)
    columns = [[label, _described(dtype)] for label, dtype in table.dtypes.items()]
    labels = (
        []
        if default
        else [
            [str(name), _described(table.index.get_level_values(i).dtype)] for i, name in enumerate(table.index.names)
        ]
    )
    return {"columns": columns, "default_index": default, "labels": labels}


def _described(dtype: Any) -> str:
    if isinstance(dtype, pd.CategoricalDtype):
        return f"category of {dtype.categories.tolist()!r}{', ordered' if dtype.ordered else ''}"
    return str(dtype)


def _check_columns(before: Version, about: dict[str, Any]) -> None:
    """Refuse to append rows whose columns or labels are others than those of a version."""
    for what in ("columns", "labels"):
        ours, theirs = about.get(what, []), before.about.get(what, [])
        if ours != theirs:
            odd = [one for one in ours if one not in theirs] or [one for one in theirs if one not in ours] or ours
            raise ValueError(
                f"the {what} differ from those of version {before.number}, for example {odd[0][0]!r} of {odd[0][1]}"
            )
    if about["default_index"] != before.about["default_index"]:
        raise ValueError(
            f"the row labels differ from those of version {before.number}: one of the two has a default index"
        )
