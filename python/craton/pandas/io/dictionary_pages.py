"""The dictionary of a column chunk of a Parquet file, read without the values.

pyarrow offers a column's dictionary only with all of its values, and says of a chunk's data pages only which encodings occur in the
chunk. So the headers of the pages are read here; they are structures in Thrift's compact protocol, as in ``parquet.thrift`` of the
`format <https://github.com/apache/parquet-format>`_.
"""

from __future__ import annotations

import struct
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
        data = file.read(most)
        try:
            header, length = _structure(data, 0)
        except IndexError:
            if most >= _LONGEST_HEADER:
                raise EOFError("no page header") from None
            most *= 16
            continue
        if header.keys() < {_TYPE, _SIZE}:
            raise ValueError("not a page header")
        return header, length


def _structure(data: bytes, at: int) -> tuple[dict[int, Any], int]:
    """The fields, by number, of a structure in Thrift's compact protocol, and the position behind it.

    Like the functions below, it raises IndexError at the end of the bytes.
    """
    fields: dict[int, Any] = {}
    number = 0
    while kind := data[at]:
        at += 1
        if kind >> 4:
            number += kind >> 4
        else:
            number, at = _zigzag(data, at)
        kind &= 15
        if kind in (1, 2):  # a Boolean, whose value is in its type
            fields[number] = kind == 1
        else:
            fields[number], at = _value(data, at, kind)
    return fields, at + 1


def _value(data: bytes, at: int, kind: int) -> tuple[Any, int]:
    if kind in (4, 5, 6):
        return _zigzag(data, at)
    if kind == 12:
        return _structure(data, at)
    if kind == 8:
        count, at = _varint(data, at)
        return _bytes(data, at, count), at + count
    if kind in (1, 2, 3):  # a byte; a Boolean of a list
        return data[at], at + 1
    if kind == 7:
        return struct.unpack("<d", _bytes(data, at, 8))[0], at + 8
    if kind in (9, 10):
        return _items(data, at)
    raise ValueError(f"an unknown type of Thrift: {kind}")


def _items(data: bytes, at: int) -> tuple[list[Any], int]:
    """The items of a list or set."""
    head, at = data[at], at + 1
    count = head >> 4
    if count == 15:
        count, at = _varint(data, at)
    items = []
    for _ in range(count):
        item, at = _value(data, at, head & 15)
        items.append(item)
    return items, at


def _zigzag(data: bytes, at: int) -> tuple[int, int]:
    value = data[at]
    at += 1
    if value > 127:
        value, at = _varint(data, at - 1)
    return (value >> 1) ^ -(value & 1), at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7


def _bytes(data: bytes, at: int, count: int) -> bytes:
    if at + count > len(data):
        raise IndexError(at + count)
    return data[at : at + count]
