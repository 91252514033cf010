"""The memory of a step's process, measured from outside."""

from __future__ import annotations

import contextlib
import os
import stat

__all__ = ["Meter"]

_REGION = "/memfd:craton-preload (deleted)"


class Meter:
    """Measures the memory of a process and its descendants that is their own: not their inputs, and not what they were forked with.

    Parameters
    ----------
    pid
        The process.
    base, resident
        Bytes of its anonymous memory, and of all memory that it had mapped, when its function began.
    cached
        The descriptor of a memfd, which `close` closes: the allocator of the process writes to it how many bytes of freed blocks keep
        their memory.
    """

    def __init__(self, pid: int, base: int, resident: int, cached: int) -> None:
        self._pid, self.base, self.resident, self._cached, self.peak = pid, base, resident, cached, 0

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self._cached)

    def measure(self) -> int:
        """Return the bytes that it has now."""
        found = sum(max(_anonymous(pid) - self.base, 0) for pid in _family(self._pid)) + self._regions()
        self.peak = max(self.peak, found)
        return found

    def _regions(self) -> int:
        """The memory of its large blocks, which the allocator places in memfds. Those of inputs can only be read."""
        found = 0
        with contextlib.suppress(OSError):
            place = f"/proc/{self._pid}/fd"
            for name in os.listdir(place):
                with contextlib.suppress(OSError):
                    if os.readlink(f"{place}/{name}") == _REGION and os.lstat(f"{place}/{name}").st_mode & stat.S_IWUSR:
                        found += os.stat(f"{place}/{name}").st_blocks * 512
        # Freed blocks do not count: the allocator gives their memory back before it exceeds the limit.
        return max(found - int.from_bytes(os.pread(self._cached, 8, 0), "little"), 0)


def _anonymous(pid: int) -> int:
    with contextlib.suppress(OSError), open(f"/proc/{pid}/status", "rb") as file:
        for line in file:
            if line.startswith(b"RssAnon:"):
                return int(line.split()[1]) * 1024
    return 0


def _family(pid: int) -> list[int]:
    """A process and its descendants."""
    found = [pid]
    for one in found:
        with contextlib.suppress(OSError):
            for task in os.listdir(f"/proc/{one}/task"):
                with contextlib.suppress(OSError), open(f"/proc/{one}/task/{task}/children") as file:
                    found += map(int, file.read().split())
    return found
