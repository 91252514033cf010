"""Writes the rows of a table as files of a durable set, in one or more organisations."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from typing import Any, Literal

import pandas as pd
import pyarrow as pa

from craton.config import options
from craton.pandas.core.axes import current_view
from craton.pandas.io.sets.keys import boundaries_of, check_keys, parts_for
from craton.pandas.io.sets.scans import schema_as_text
from craton.plan.size import estimated_rows, row_bytes
from craton.store.durable import NextPath, Version
from craton.store.durable_files import (
    POSITION,
    Format,
    SetPartitioning,
    WrittenFile,
    write_file,
    write_partitions,
)
from craton.store.places import COLLIDING, Colliding, Places, write_colliding
from craton.store.process import default_store
from craton.store.sets import as_batches
from craton.store.statistics import Statistics

__all__ = ["EXTENSIONS", "SetWriting", "as_table"]

#: The extension of the files of each format.
EXTENSIONS: dict[Format, str] = {"arrow": "arrow", "parquet": "parquet"}

#: The rows of a plan are not saved from memory if they take more than one of this many parts of the memory limit.
_SHARE = 8

_Batches = Callable[[], Iterator[pa.RecordBatch]]


class SetWriting:
    """The rows that a version adds to those of another, and what the manifest says of it.

    Attributes
    ----------
    about
        What the manifest says. It is complete once the files are written.
    form
        The format of the files.
    kept
        The files of the version before, if the rows are appended.
    places
        The places that the files are spread over; None if there are none.
    """

    def __init__(self, table: Any, about: dict[str, Any], base: Version | None, places: Places | None = None) -> None:
        self._table = table
        self._base = base
        self._known = () if base is None else base.organisations
        self._wanted: list[list[str]] = []
        self._kind: Literal["hash", "range"] = "hash"
        self._partitions: int | None = None
        self.about = about
        self.form: Format = about["format"]
        self.kept = () if base is None else base.files
        self.places = places
        if places is not None:
            about["places"] = places.as_json()

    @classmethod
    def new(
        cls,
        table: Any,
        form: Format,
        wanted: list[list[str]],
        kind: Literal["hash", "range"],
        partitions: int | None,
        places: Places | None = None,
    ) -> SetWriting:
        """The rows of a version that has no others.

        Parameters
        ----------
        wanted
            The keys of each organisation; none if the rows stay in order.
        places
            The places that the files are to be spread over.

        Raises
        ------
        KeyError, ValueError
            If keys are not valid, or there are places and no organisations.
        """
        about = _about(table) | {"format": form, "schemas": [], "organisations": []}
        writing = cls(table, about, None, places)
        writing._wanted = wanted if wanted != [[]] else []
        for keys in writing._wanted:
            check_keys(keys, kind, partitions, table)
        writing._kind, writing._partitions = kind, partitions
        if places is not None and not writing._wanted:
            raise ValueError("a set that is spread over places needs partition_by or replicate_by")
        return writing

    @classmethod
    def appended(
        cls, base: Version, table: Any, wanted: list[list[str]], evolve: bool, places: Places | None = None
    ) -> SetWriting:
        """Rows that are appended to those of a version, in the same places.

        Raises
        ------
        ValueError
            If they do not fit to them.
        """
        about = _about(table)
        _check_appended(base, about, wanted, evolve)
        about["columns"] = _merged(base.about["columns"], about["columns"])
        about |= {name: base.about[name] for name in ("format", "organisations")}
        about["range_index"] = bool(about.get("range_index") and base.about.get("range_index"))
        about["schemas"] = list(base.about["schemas"])
        return cls(table, about, base, places)

    def write(self, next_path: NextPath) -> Iterator[WrittenFile]:
        """Write the files one by one."""
        in_order = not self._wanted and not self._known
        labels = not in_order and not self.about["default_index"]
        with _arrow_of(self._table, labels) as (schema, batches):
            _check_format(self.form, schema)
            if not in_order:
                yield from self._write_organisations(next_path, schema, batches)
                return
            path = next_path(None)
            file = write_file(path, pa.Table.from_batches(batches(), schema), schema, self.form)
            yield self._numbered(file, schema, 0)

    def _write_organisations(self, next_path: NextPath, schema: pa.Schema, batches: _Batches) -> Iterator[WrittenFile]:
        chosen = self._known or tuple(self._partitioning(keys, schema, batches) for keys in self._wanted)
        self.about["organisations"] = [how.as_json() for how in chosen]
        first = 0 if self._base is None else self._base.rows
        stored = schema.append(pa.field(POSITION, pa.int64(), nullable=False))
        written: list[dict[str, Any]] = []
        for number, how in enumerate(chosen):

            def path_of(part: int, number: int = number) -> str:
                return next_path(self._place(number, part, len(chosen)))

            statistics: Statistics = (
                "pages" if number else "all"
            )  # the distinct values of all organisations are the same
            store = default_store()
            for file in write_partitions(store, batches(), stored, how, path_of, first, self.form, statistics):
                file = self._numbered(file, stored, number, self._place(number, file.about["part"], len(chosen)))
                written.append(file.as_json())
                yield file
        if self.places is not None:
            colliding = Colliding(self.places, chosen, [*self.kept, *written])
            for file in write_colliding(default_store(), batches(), stored, colliding, next_path, first, self.form):
                yield self._numbered(file, stored, COLLIDING, file.about["part"])

    def _place(self, organisation: int, part: int, organisations: int) -> int | None:
        return None if self.places is None else self.places.place(organisation, part, organisations)

    def _partitioning(self, keys: list[str], schema: pa.Schema, batches: _Batches) -> SetPartitioning:
        count = self._partitions or parts_for(sum(batch.nbytes for batch in batches()))
        if not keys:
            return SetPartitioning((), "rows", count)
        if self._kind == "hash":
            return SetPartitioning(tuple(keys), "hash", count)
        return SetPartitioning.by_ranges(boundaries_of(batches(), schema, keys, count))

    def _numbered(self, file: WrittenFile, schema: pa.Schema, of: int, place: int | None = None) -> WrittenFile:
        """A file with the number of its schema among those of the version, to which it is added, of its organisation, and of its place."""
        if self.about["default_index"]:
            schema = _without_range(schema)
        schemas, text = self.about["schemas"], schema_as_text(schema)
        if text not in schemas:
            schemas.append(text)
        where = {} if place is None else {"place": place}
        return file.with_more(schema=schemas.index(text), of=of, **where)


def _without_range(schema: pa.Schema) -> pa.Schema:
    """The schema without a description of default row labels without a name, which would differ from part to part."""
    about = schema.pandas_metadata
    ranges = [entry for entry in (about or {}).get("index_columns", ()) if isinstance(entry, dict)]
    if about is None or any(entry.get("name") is not None for entry in ranges):
        return schema
    text = json.dumps({**about, "index_columns": []})
    return schema.with_metadata({**schema.metadata, b"pandas": text.encode()})


@contextlib.contextmanager
def _arrow_of(table: Any, labels: bool) -> Iterator[tuple[pa.Schema, _Batches]]:
    """The columns of a table with pandas' metadata, and a function that returns its batches. A large plan is computed into a file first.

    Parameters
    ----------
    labels
        Whether the row labels become a column, also if they are a range.
    """
    if not labels and _is_large_plan(table):
        with tempfile.TemporaryDirectory(prefix="craton-save-") as folder:
            path = os.path.join(folder, "rows")
            table.to_feather(path, compression="uncompressed")
            with pa.memory_map(path) as file, pa.ipc.open_file(file) as reader:
                if found := [reader.get_batch(i) for i in range(reader.num_record_batches)]:
                    yield reader.schema, lambda: iter(found)
                    del found
                    return  # a file without batches has no categories
    if not isinstance(table, pa.Table):
        table = pa.Table.from_pandas(pd.DataFrame(table), preserve_index=True if labels else None)
    yield table.schema, lambda: iter(as_batches(table))


def _is_large_plan(table: Any) -> bool:
    """Whether a table is a plan with default row labels whose rows take a large share of the memory."""
    if isinstance(table, pa.Table) or (held := current_view(table.__dict__)) is None or held.index.kind != "default":
        return False
    return estimated_rows(held.base) * row_bytes(held.base) > options.memory_limit // _SHARE


def as_table(frame: Any) -> Any:
    """What a set is saved from: a frame of pandas, or an Arrow table.

    Raises
    ------
    TypeError
        If it is neither.
    """
    if isinstance(frame, pd.DataFrame):
        return frame
    if hasattr(frame, "__arrow_c_stream__") and not isinstance(frame, pd.Series):
        return pa.table(frame)
    raise TypeError(f"a set is saved from a table, not from {type(frame).__name__}")


def _about(table: Any) -> dict[str, Any]:
    labels = table.column_names if isinstance(table, pa.Table) else list(table.columns)
    if not all(isinstance(label, str) for label in labels) or len(set(labels)) != len(labels):
        raise ValueError("the columns of a set have different texts as labels")
    if POSITION in labels:
        raise ValueError(f"a column of a set cannot have the name {POSITION!r}")
    if isinstance(table, pa.Table):
        return {"columns": [[field.name, str(field.type)] for field in table.schema], "default_index": True}
    ranged = isinstance(table.index, pd.RangeIndex)
    default = ranged and (table.index.start, table.index.step) == (0, 1)
    columns = [[label, _described(dtype)] for label, dtype in table.dtypes.items()]
    levels = [] if default else list(enumerate(table.index.names))
    named = [[str(name), _described(table.index.get_level_values(i).dtype)] for i, name in levels]
    return {"columns": columns, "default_index": default, "labels": named, "range_index": ranged}


def _described(dtype: Any) -> str:
    if isinstance(dtype, pd.CategoricalDtype):
        return f"category of {dtype.categories.tolist()!r}{', ordered' if dtype.ordered else ''}"
    return str(dtype)


def _check_format(form: Format, schema: pa.Schema) -> None:
    if form == "parquet" and (odd := [field.name for field in schema if pa.types.is_dictionary(field.type)]):
        raise ValueError(
            f"column {odd[0]!r} has categories, which sets of Parquet files cannot have; use format='arrow'"
        )


def _check_appended(before: Version, about: dict[str, Any], wanted: list[list[str]], evolve: bool) -> None:
    """Refuse to append rows whose columns or labels do not fit to those of a version.

    Raises
    ------
    ValueError
        If they do not.
    """
    if wanted != [[]] and wanted != [list(how.by) for how in before.organisations]:
        raise ValueError(f"version {before.number} is {_organised(before)}")
    if about["default_index"] != before.about["default_index"]:
        raise ValueError(
            f"the row labels differ from those of version {before.number}: one of the two has a default index"
        )
    if evolve and before.organisations:
        raise ValueError(f"the columns of a partitioned set cannot change; overwrite {before.number} instead")
    for what in ("columns", "labels"):
        ours, theirs = about.get(what, []), before.about.get(what, [])
        if ours == theirs:
            continue
        odd = [one for one in ours if one not in theirs] or [one for one in theirs if one not in ours] or ours
        if not evolve or what == "labels":
            raise ValueError(
                f"the {what} differ from those of version {before.number}, for example {odd[0][0]!r} of {odd[0][1]}"
            )
        known = dict(theirs)
        for name, dtype in ours:
            if name in known and _family(dtype) != _family(known[name]):
                raise ValueError(f"column {name!r} of {known[name]} cannot be continued with {dtype}")


def _organised(version: Version) -> str:
    return (
        f"partitioned by {'; '.join(map(str, version.organisations))}" if version.organisations else "not partitioned"
    )


def _family(dtype: str) -> str:
    """The first word of a dtype, which columns that are continued share; one for all numbers."""
    word = dtype.lower().split("[")[0].rstrip("0123456789")
    return (
        "number"
        if word in ("int", "uint", "float", "double", "halffloat")
        else dtype
        if word == "category of "
        else word
    )


def _merged(before: list[list[str]], ours: list[list[str]]) -> list[list[str]]:
    """The columns of a set after rows with other columns were appended."""
    known = {name for name, _ in before}
    return [*before, *(column for column in ours if column[0] not in known)]
