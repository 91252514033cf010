"""Reads the row and null counts of an Arrow IPC file from its metadata alone.

pyarrow reports these counts only after it has decompressed the batches. The metadata are flatbuffers, of which this module
decodes the few fields that it needs (Arrow columnar format, ``File.fbs`` and ``Message.fbs``).
"""

from __future__ import annotations

import struct
from typing import Any, BinaryIO

MAGIC = b"ARROW1"
#: The largest footer or batch header that is read, in bytes.
_MAX_BYTES = 64 << 20


class Malformed(ValueError):
    """The file's metadata violate the format."""


class _Table:
    """A flatbuffer table at a position of a buffer."""

    def __init__(self, data: bytes, position: int) -> None:
        self._data = data
        self._at = position
        self._fields = position - self._read("<i", position)
        self._size = self._read("<H", self._fields)

    def _read(self, code: str, position: int) -> int:
        if not 0 <= position <= len(self._data) - struct.calcsize(code):
            raise Malformed("an offset points beyond the metadata")
        value: int = struct.unpack_from(code, self._data, position)[0]
        return value

    def _place(self, field: int) -> int | None:
        slot = 4 + 2 * field
        if slot + 2 > self._size:
            return None
        offset = self._read("<H", self._fields + slot)
        return self._at + offset if offset else None

    def number(self, field: int, code: str) -> int:
        """A scalar field; 0 if it is absent."""
        place = self._place(field)
        return 0 if place is None else self._read(code, place)

    def table(self, field: int) -> _Table:
        """A field that is a table."""
        place = self._place(field)
        if place is None:
            raise Malformed("a required table is missing")
        return _Table(self._data, place + self._read("<I", place))

    def structs(self, field: int, layout: str) -> list[tuple[Any, ...]]:
        """A field that is a vector of structs."""
        place = self._place(field)
        if place is None:
            return []
        start = place + self._read("<I", place)
        count, size = self._read("<I", start), struct.calcsize(layout)
        if start + 4 + count * size > len(self._data):
            raise Malformed("a vector extends beyond the metadata")
        return list(struct.iter_unpack(layout, self._data[start + 4 : start + 4 + count * size]))


def row_and_null_counts(file: BinaryIO, fields: int) -> tuple[int, list[int]]:
    """The number of rows, and of nulls in each column, of an IPC file without nested columns.

    Parameters
    ----------
    file
        The file, open for reading.
    fields
        The number of columns.

    Raises
    ------
    Malformed
        If the file is not an IPC file, or if it has nested columns.
    """
    size = file.seek(0, 2)
    if size < 2 * len(MAGIC) + 6:
        raise Malformed("the file is too short for an IPC file")
    file.seek(size - len(MAGIC) - 4)
    tail = file.read(len(MAGIC) + 4)
    length = struct.unpack("<i", tail[:4])[0]
    if tail[4:] != MAGIC or not 0 < length <= min(_MAX_BYTES, size):
        raise Malformed("the file does not end like an IPC file")
    file.seek(size - len(MAGIC) - 4 - length)
    footer = file.read(length)
    root = _Table(footer, struct.unpack_from("<I", footer)[0])
    rows, nulls = 0, [0] * fields
    for offset, _, _ in root.structs(3, "<qi4xq"):
        file.seek(offset)
        head = file.read(8)
        marker, length = struct.unpack("<Ii", head)
        start = 4
        if marker == 0xFFFFFFFF:
            start = 0
        else:  # files of Arrow before version 0.15 have no marker
            length = marker
        if not 0 < length <= _MAX_BYTES:
            raise Malformed("a batch header has an impossible length")
        data = head[8 - start :] + file.read(length - start)
        message = _Table(data, struct.unpack_from("<I", data)[0])
        batch = message.table(2)
        nodes = batch.structs(1, "<qq")
        if len(nodes) != fields:
            raise Malformed("the file has nested columns")
        rows += batch.number(0, "<q")
        for i, (_, missing) in enumerate(nodes):
            nulls[i] += missing
    return rows, nulls
