"""Tables of steps that outlive a run: sets with names in the store, and Parquet files.

Each has the hash of what it was made from, so that what is there already is not written again.
"""

from __future__ import annotations

import json
import os

import pyarrow as pa
import pyarrow.parquet as pq

from craton.pandas.io.atomic_writes import staged_file
from craton.pipeline.conversion import given
from craton.pipeline.runs.cache import reference
from craton.pipeline.tasks import StepError, Stored
from craton.store.store import Store

__all__ = ["publish"]

#: The key of a file's schema metadata for the hash.
_KEY = b"craton.pipeline"


def publish(
    store: Store, step: str, stored: Stored, *, set_name: str | None, file: str | None, key: bytes | None
) -> None:
    """Keep a table as a set, as a file, or as both.

    Parameters
    ----------
    store, step, stored
        The store, the step's name and its table.
    set_name, file
        The set's name and the file's path; None for none.
    key
        The hash of what the table was made from; None if it is unknown, so that it is always written.

    Raises
    ------
    StepError
        If it cannot be written.
    """
    if set_name is not None:
        _as_set(store, stored, set_name, key)
    if file is not None:
        try:
            _as_file(stored, file, key)
        except (OSError, pa.ArrowException, TypeError, ValueError) as error:
            raise StepError(step, "output", f"its table cannot be written to {file}: {error}") from error


def _as_set(store: Store, stored: Stored, name: str, key: bytes | None) -> None:
    """Keep a table as the set of that name, in place of the one that has it."""
    tag = json.dumps({"form": stored.form, "key": None if key is None else key.hex()}).encode()
    if name in store:
        earlier = store.get_set(name)
        if key is not None and earlier.tag == tag:
            return
        earlier.drop()
    reference(stored.pages, store.create_set(name, tag=tag))


def _as_file(stored: Stored, file: str, key: bytes | None) -> None:
    """Write a file; readers find the old one or the new one, but no part of it."""
    if (
        key is not None
        and os.path.isfile(file)
        and (pq.read_schema(file).metadata or {}).get(_KEY) == key.hex().encode()
    ):
        return
    os.makedirs(os.path.dirname(os.path.abspath(file)), exist_ok=True)
    table = stored.pages.to_arrow()
    if stored.form in ("pandas", "craton"):
        frame = given(table, stored.form, "pandas")
        table = pa.Table.from_pandas(frame.to_frame() if frame.ndim == 1 else frame)
    else:
        table = given(table, stored.form, "arrow")
    if key is not None:
        table = table.replace_schema_metadata({**(table.schema.metadata or {}), _KEY: key.hex().encode()})
    with staged_file(file) as path:
        pq.write_table(table, path)
