"""Memory that allocators keep for next time: how to have it back where there is little, and to keep it where there is much."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os

#: Where there is less memory than this, what is freed goes back to the system at once.
SHORT = 1 << 30
#: Where there is as much, what is freed is kept for some time.
AMPLE = 4 << 30

# Of the allocator that the kernel's library comes with; it reads it when it is loaded. Without it, what is freed is kept for half a
# second, in four arenas a core, and what was allocated in pieces of 8 MiB or more is not kept at all.
_KERNEL_ALLOCATOR = "_RJEM_MALLOC_CONF"
# Half a second is longer than a small tile takes, so that a task pays for the memory of those before it.
_LITTLE = "dirty_decay_ms:0,muzzy_decay_ms:0,narenas:2"
# The system clears pages before it hands them out again: where columns are large, that took a third of all time.
_MUCH = "dirty_decay_ms:10000,oversize_threshold:0"

#: glibc's parameters, and what they are set to: from how many bytes on memory goes back at once, and how many arenas there are.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8
_THRESHOLD = 1 << 20
_ARENAS = 2


def keep_for(limit: int) -> None:
    """Have the kernel's allocator give back what is freed, or keep it, in this process and those that it starts.

    Does nothing where the environment says otherwise already, and has no effect once Polars has been imported.

    Parameters
    ----------
    limit
        Bytes of memory that there are.
    """
    if limit < SHORT:
        os.environ.setdefault(_KERNEL_ALLOCATOR, _LITTLE)
    elif limit >= AMPLE:
        os.environ.setdefault(_KERNEL_ALLOCATOR, _MUCH)


@functools.cache
def _libc() -> ctypes.CDLL | None:
    """The C library, told to keep little; None if it is not glibc."""
    with contextlib.suppress(OSError, AttributeError):
        libc = ctypes.CDLL(None)
        for parameter, value in (
            (_M_TRIM_THRESHOLD, _THRESHOLD),
            (_M_MMAP_THRESHOLD, _THRESHOLD),
            (_M_ARENA_MAX, _ARENAS),
        ):
            libc.mallopt(parameter, value)
        libc.malloc_trim  # noqa: B018
        return libc
    return None


def give_back() -> None:
    """Give back to the system what the C library and Arrow have freed and kept."""
    import pyarrow as pa

    pa.default_memory_pool().release_unused()
    libc = _libc()
    if libc is not None:
        libc.malloc_trim(0)
