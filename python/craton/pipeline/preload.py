"""The allocator of processes that make tables for others: it puts their large blocks into shared memory.

A process has it if it was started with :func:`environment`, or was forked from one that was started with :func:`idle_environment` and
called :func:`start`. See ``crates/preload``.
"""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Mapping
from pathlib import Path

from craton.records import dataclass

#: The library, which exists on Linux only.
LIBRARY = Path(__file__).with_name("_preload.so")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a buffer lies: the descriptor of a memfd, its length, and the buffer's offset in it, in bytes."""

    fd: int
    length: int
    offset: int


@dataclass(frozen=True, slots=True)
class Usage:
    """The number of memfds, and the bytes of memory that they have: in all, and in freed blocks."""

    regions: int
    resident: int
    cached: int


class _Place(ctypes.Structure):
    _fields_ = (
        ("fd", ctypes.c_int),
        ("length", ctypes.c_uint64),
        ("offset", ctypes.c_uint64),
        ("block", ctypes.c_uint64),
        ("block_length", ctypes.c_uint64),
    )


class _Usage(ctypes.Structure):
    _fields_ = (("regions", ctypes.c_uint64), ("resident", ctypes.c_uint64), ("cached", ctypes.c_uint64))


def environment(
    base: Mapping[str, str] | None = None, *, limit: int | None = None, keep: int | None = None
) -> dict[str, str]:
    """Return the environment for a process that is to have the allocator; an unchanged copy on systems that do not support it.

    Parameters
    ----------
    base : mapping, optional
        The environment to extend; by default that of this process.
    limit : int, optional
        Bytes of large blocks that the process may use; beyond them, allocations fail with `MemoryError`.
    keep : int, optional
        Bytes of freed blocks that keep their memory for later blocks.
    """
    made = idle_environment(base)
    if not LIBRARY.exists():
        return made
    made["CRATON_PRELOAD"] = "1"
    for name, value in (("LIMIT", limit), ("KEEP", keep)):
        if value is not None:
            made[f"CRATON_PRELOAD_{name}"] = str(value)
    return made


def idle_environment(base: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment for a process whose forked children may call :func:`start`; it does not use the allocator itself.

    Parameters
    ----------
    base : mapping, optional
        The environment to extend; by default that of this process.
    """
    made = dict(os.environ if base is None else base)
    if LIBRARY.exists():
        made["LD_PRELOAD"] = ":".join(filter(None, (str(LIBRARY), made.get("LD_PRELOAD"))))
    return made


def start(*, limit: int | None = None, keep: int | None = None, cached: int | None = None) -> bool:
    """Use the allocator from now on; False if this process cannot.

    Parameters
    ----------
    limit, keep : int, optional
        As for :func:`environment`.
    cached : int, optional
        The address of eight bytes, to which the allocator writes how many bytes of freed blocks keep their memory.
    """
    library = ctypes.CDLL(None)
    if not hasattr(library, "craton_preload_start"):
        return False
    given = ctypes.c_size_t(limit or 0), ctypes.c_size_t(keep or 0), ctypes.c_void_p(cached)
    if library.craton_preload_start(*given) != 0:
        return False
    _started.append(library)
    _allocator.cache_clear()
    return True


#: The library, after :func:`start`.
_started: list[ctypes.CDLL] = []


@functools.cache
def _allocator() -> ctypes.CDLL | None:
    """The allocator of this process; None if it does not use it."""
    if _started:
        return _started[-1]
    library = ctypes.CDLL(None) if "CRATON_PRELOAD" in os.environ else None
    return library if hasattr(library, "craton_preload_place") else None


def place(address: int, length: int) -> Place | None:
    """Return where a buffer lies; None if it is not in memory that can be shared, or the process does not have the allocator.

    Parameters
    ----------
    address, length
        The first byte of the buffer, and its number of bytes.
    """
    allocator = _allocator()
    if allocator is None:
        return None
    found = _Place()
    if allocator.craton_preload_place(ctypes.c_void_p(address), ctypes.c_size_t(length), ctypes.byref(found)) != 0:
        return None
    return Place(found.fd, found.length, found.offset)


def usage() -> Usage:
    """Return how much memory this process has in memfds; zeros if it does not have the allocator."""
    found = _Usage()
    if (allocator := _allocator()) is not None:
        allocator.craton_preload_usage(ctypes.byref(found))
    return Usage(found.regions, found.resident, found.cached)
