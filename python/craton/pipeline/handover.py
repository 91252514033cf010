"""Tables that a process hands over to a store in another one: by reference where their memory can be shared, else by one copy."""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Iterable, Sequence
from typing import Any

from craton import _native
from craton.pipeline import preload
from craton.records import dataclass

#: Blocks begin at multiples of this many bytes.
ALIGNMENT = 64

Blocks = list[tuple[int, int]]
Reference = tuple[int, int, int]
"""A segment of the store or the number of a memfd, an offset and bytes."""


@dataclass(frozen=True, slots=True)
class Handover:
    """What a process hands over. The objects in ``keep`` must live until the store has taken it over.

    Parameters
    ----------
    memfds
        Descriptor, length, and blocks (offset and bytes) of each memfd.
    pages
        Header, rows and references of the buffers of each page.
    tables
        The number of pages of each table.
    new, copied, shared
        Bytes of buffers: in memory of this process that is handed over; copied, because they were elsewhere; and in memory of the store.
    keep
        The memory.
    """

    memfds: list[tuple[int, int, Blocks]]
    pages: list[tuple[bytes, int, list[Reference]]]
    tables: list[int]
    new: int
    copied: int
    shared: int
    keep: Any


def hand_over(tables: Iterable[Any]) -> Handover:
    """Describe the memory of tables so that :meth:`craton.store.Store.adopt` can take it over, and copy what cannot be shared.

    Parameters
    ----------
    tables : iterable
        Arrow tables or record batches of any library. Nobody may write to their memory any more.

    Raises
    ------
    TypeError
        If one is not Arrow data.
    OSError
        If there is no memory for the copy.
    """
    encoded = [_native.encode_batches(table) for table in tables]
    batches = [batch for one in encoded for batch in one]
    numbers: dict[int, int] = {}  # by descriptor
    memfds: list[tuple[int, int, Blocks]] = []
    loose: list[tuple[int, int]] = []
    pages: list[tuple[bytes, int, list[Reference | int]]] = []
    counts = {"new": 0, "shared": 0}
    for batch in batches:
        references: list[Reference | int] = []
        for address, length, stored in batch.buffers():
            if length == 0:
                references.append((0, 0, 0))
            elif stored is not None:
                references.append((*stored, length))
                counts["shared"] += length
            elif (found := preload.place(address, length)) is not None:
                if found.fd not in numbers:
                    numbers[found.fd] = len(memfds)
                    memfds.append((found.fd, found.length, []))
                memfds[numbers[found.fd]][2].append((found.offset, length))
                references.append((numbers[found.fd], found.offset, length))
                counts["new"] += length
            else:
                references.append(len(loose))
                loose.append((address, length))
        pages.append((batch.header, batch.rows, references))
    copy, places, size = _copied(loose)
    if copy is not None:
        memfds.append((copy, size, list(zip(places, (length for _, length in loose), strict=True))))
    last = len(memfds) - 1
    return Handover(
        [(fd, length, joined(blocks)) for fd, length, blocks in memfds],
        [
            (
                header,
                rows,
                [one if isinstance(one, tuple) else (last, places[one], loose[one][1]) for one in references],
            )
            for header, rows, references in pages
        ],
        [len(one) for one in encoded],
        counts["new"],
        sum(length for _, length in loose),
        counts["shared"],
        (batches, copy),
    )


def joined(ranges: Sequence[tuple[int, int]]) -> Blocks:
    """Join ranges (offset and bytes) that overlap, after rounding their starts and ends to :data:`ALIGNMENT`; in order.

    >>> joined([(64, 10), (0, 64), (200, 1), (70, 200)])
    [(0, 64), (64, 256)]
    """
    made: Blocks = []
    for offset, length in sorted(ranges):
        start = offset // ALIGNMENT * ALIGNMENT
        end = -(-(offset + length) // ALIGNMENT) * ALIGNMENT
        if made and start < sum(made[-1]):
            made[-1] = (made[-1][0], max(end, sum(made[-1])) - made[-1][0])
        else:
            made.append((start, end - start))
    return made


def _copied(loose: Sequence[tuple[int, int]]) -> tuple[int | None, list[int], int]:
    """Copy buffers into a new memfd: its descriptor, the offset of each buffer, and its length. No descriptor if there are none."""
    places: list[int] = []
    size = 0
    for _, length in loose:
        places.append(size)
        size += -(-length // ALIGNMENT) * ALIGNMENT
    if not loose:
        return None, places, 0
    size = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
    fd = os.memfd_create("craton-handover", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(fd, size)
        with mmap.mmap(fd, size) as mapped, memoryview(mapped) as whole:
            targets = [whole[place : place + length] for place, (_, length) in zip(places, loose, strict=True)]
            sources = [(ctypes.c_char * length).from_address(address) for address, length in loose]
            try:
                _native.copy_into(targets, [memoryview(source).cast("B") for source in sources])
            finally:
                for target in targets:
                    target.release()
    except BaseException:
        os.close(fd)
        raise
    return fd, places, size
