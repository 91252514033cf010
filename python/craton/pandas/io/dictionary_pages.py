"""The dictionary of a column chunk of a Parquet file, read without the values.

pyarrow offers a column's dictionary only with all of its values, and says of a chunk's data pages only which encodings occur in the
chunk. So the headers of the pages are read here; they are structures in Thrift's compact protocol, as in ``parquet.thrift`` of the
`format <https://github.com/apache/parquet-format>`_.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, BinaryIO

import pyarrow as pa

#: Numbers of the page types and encodings in the format.
_DATA, _DICTIONARY, _DATA_V2 = 0, 2, 3
_PLAIN_DICTIONARY, _RLE_DICTIONARY = 2, 8
#: Numbers of the fields of a page header: its type, its size in the file, and the header of each type of page.
_TYPE, _SIZE, _OF_DATA, _OF_DICTIONARY, _OF_DATA_V2 = 1, 3, 5, 7, 8
#: The fields of those headers that are the number of values and the encoding.
_VALUES, _ENCODING, _ENCODING_V2 = 1, 2, 4
#: Bytes that are read for a header first. The smallest and the largest value, which it may have, are usually short.
_HEADER = 256
_LONGEST_HEADER = 1 << 20


def dictionary_of(opened: Any, path: str, group: int, name: str, place: int) -> pa.DictionaryArray | None:
    """One value of a column chunk, with the chunk's whole dictionary; None if this does not suffice to know all values.

    Parameters
    ----------
    opened
        The file, as a ``pyarrow.parquet.ParquetFile``.
    path
        Its path.
    group
        The number of the row group.
    name, place
        The name of the column, which is of a dictionary type in the writer's schema; and its number in the file's schema.
    """
    chunk = opened.metadata.row_group(group).column(place)
    if not chunk.has_dictionary_page or chunk.dictionary_page_offset is None:
        return None
    try:
        with open(path, "rb") as file:
            count = _values_if_only_dictionary(file, chunk.dictionary_page_offset, chunk.total_compressed_size)
    except (EOFError, LookupError, TypeError, ValueError, RecursionError):
        return None  # it is encrypted, damaged, or written otherwise than the format says
    if count is None:
        return None
    first = next(opened.iter_batches(batch_size=1, row_groups=[group], columns=[name], use_threads=False), None)
    column = None if first is None else first.column(0)
    return column if isinstance(column, pa.DictionaryArray) and len(column.dictionary) == count else None


def _values_if_only_dictionary(file: BinaryIO, start: int, size: int) -> int | None:
    """The number of values of a chunk's dictionary; None unless all of its data pages refer to the dictionary."""
    position, end, count = start, start + size, None
    while position < end:
        header, length = _page_header(file, position)
        if header[_SIZE] < 0:
            return None
        position += length + header[_SIZE]
        if header[_TYPE] == _DICTIONARY:
            if count is not None:
                return None
            count = int(header[_OF_DICTIONARY][_VALUES])
        elif header[_TYPE] in (_DATA, _DATA_V2):
            older = header[_TYPE] == _DATA
            encoding = header[_OF_DATA][_ENCODING] if older else header[_OF_DATA_V2][_ENCODING_V2]
            if encoding not in (_PLAIN_DICTIONARY, _RLE_DICTIONARY):
                return None
        else:
            return None
    return count if position == end else None


def _page_header(file: BinaryIO, position: int) -> tuple[dict[int, Any], int]:
    """The header of the page at a position, and the header's length in bytes."""
    most = _HEADER
    while True:
        file.seek(position)
        reader = _CompactReader(file.read(most))
        try:
            header = reader.structure()
        except IndexError:
            if most >= _LONGEST_HEADER:
                raise EOFError("no page header") from None
            most *= 16
            continue
        if header.keys() < {_TYPE, _SIZE}:
            raise ValueError("not a page header")
        return header, reader.position


class _CompactReader:
    """Reads values of Thrift's compact protocol. It raises IndexError at the end of the bytes."""

    def __init__(self, data: bytes) -> None:
        self._data, self.position = data, 0

    def structure(self) -> dict[int, Any]:
        """The fields of a structure, by number."""
        fields: dict[int, Any] = {}
        number = 0
        while (kind := self._byte()) != 0:
            number = number + (kind >> 4) if kind >> 4 else self._zigzag()
            fields[number] = self._value(kind & 15)
        return fields

    def _value(self, kind: int) -> Any:
        if kind in (1, 2):  # a Boolean, whose value is in its type
            return kind == 1
        if kind == 3:
            return self._byte()
        if kind in (4, 5, 6):
            return self._zigzag()
        if kind == 7:
            return struct.unpack("<d", self._bytes(8))[0]
        if kind == 8:
            return self._bytes(self._varint())
        if kind in (9, 10):
            return list(self._items())
        if kind == 12:
            return self.structure()
        raise ValueError(f"an unknown type of Thrift: {kind}")

    def _items(self) -> Iterator[Any]:
        head = self._byte()
        count = head >> 4
        if count == 15:
            count = self._varint()
        for _ in range(count):
            yield self._byte() == 1 if head & 15 in (1, 2) else self._value(head & 15)

    def _zigzag(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7

    def _byte(self) -> int:
        self.position += 1
        return self._data[self.position - 1]

    def _bytes(self, count: int) -> bytes:
        self.position += count
        if self.position > len(self._data):
            raise IndexError(self.position)
        return self._data[self.position - count : self.position]
