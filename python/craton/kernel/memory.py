"""Configures how long allocators keep freed memory: not at all if memory is scarce, longer if there is plenty."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os

#: With a memory limit below this many bytes, freed memory is returned to the system immediately.
SHORT = 1 << 30
#: With a memory limit of at least this many bytes, freed memory is kept for some time.
AMPLE = 4 << 30

# The configuration variable of Polars' jemalloc, which reads it when it is loaded. By default it keeps freed memory for half a
# second, in four arenas a core, and does not keep allocations of 8 MiB or more.
_KERNEL_ALLOCATOR = "_RJEM_MALLOC_CONF"
# Half a second is longer than a small tile takes, so a task's peak would include the freed memory of earlier tasks.
_KEEP_LITTLE = "dirty_decay_ms:0,muzzy_decay_ms:0,narenas:2"
# The system zeroes pages before it hands them out again, which took a third of the run time with large columns.
_KEEP_MUCH = "dirty_decay_ms:10000,oversize_threshold:0"

#: glibc's malloc parameters and their values: the sizes in bytes from which freed memory is returned, and the number of arenas.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8
_THRESHOLD = 1 << 20
_ARENAS = 2
#: With ample memory: the free bytes at the end of the heap from which they are returned, and the size from which an array lies outside
#: of the heap, and is returned when it is freed; glibc accepts no larger one. Else glibc returns most arrays of a frame when it is dropped.
KEPT_HEAP, KEPT_BLOCK = 512 << 20, 32 << 20
#: Variables by which a user configures glibc's malloc.
_GLIBC = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TOP_PAD_", "MALLOC_MMAP_MAX_", "GLIBC_TUNABLES")


def configure_allocator(limit: int) -> None:
    """Configure the allocators for a memory limit: the kernel's in this process and its child processes, glibc's in this process.

    A configuration that is in the environment already takes precedence. The kernel's has no effect once Polars has been imported.

    Parameters
    ----------
    limit
        The memory limit in bytes.
    """
    if limit < SHORT:
        os.environ.setdefault(_KERNEL_ALLOCATOR, _KEEP_LITTLE)
    elif limit >= AMPLE:
        ours = os.environ.setdefault(_KERNEL_ALLOCATOR, _KEEP_MUCH) == _KEEP_MUCH
        if ours and not any(name in os.environ for name in _GLIBC):
            _set_parameters({_M_TRIM_THRESHOLD: KEPT_HEAP, _M_MMAP_THRESHOLD: KEPT_BLOCK})


@functools.cache
def _libc() -> ctypes.CDLL | None:
    """The C library, configured to keep little freed memory; None if it is not glibc."""
    return _set_parameters({_M_TRIM_THRESHOLD: _THRESHOLD, _M_MMAP_THRESHOLD: _THRESHOLD, _M_ARENA_MAX: _ARENAS})


def _set_parameters(parameters: dict[int, int]) -> ctypes.CDLL | None:
    """Set parameters of glibc's malloc, and return the C library; None if it is not glibc."""
    with contextlib.suppress(OSError, AttributeError):
        libc = ctypes.CDLL(None)
        libc.malloc_trim  # noqa: B018
        for parameter, value in parameters.items():
            libc.mallopt(parameter, value)
        return libc
    return None


def release_freed_memory() -> None:
    """Return to the system the freed memory that the C library and Arrow keep."""
    import pyarrow as pa

    pa.default_memory_pool().release_unused()
    libc = _libc()
    if libc is not None:
        libc.malloc_trim(0)
