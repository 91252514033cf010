"""Machine set-up for the store's benchmarks: memory limits, swap, a cold page cache, and the speed of the disk.

Memory limits are Linux control groups (version 1) below this process's own group. They and the swap file need root. Each
``with`` block undoes its changes when it ends, even if the benchmark fails.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

__all__ = ["ControlGroup", "disk_speed", "drop_caches", "swap_file", "swapped", "why_not"]

MEMORY = Path("/sys/fs/cgroup/memory")
PAGE_CLUSTER = Path("/proc/sys/vm/page-cluster")
MIB = 1 << 20


def why_not() -> str | None:
    """Return None if memory limits, swap and a cold page cache are available, and otherwise the reason why they are not."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        return "limiting memory, using a swap file and dropping the page cache need root"
    if not (_own_group() / "memory.limit_in_bytes").exists():
        return f"there is no memory controller of control groups, version 1, in {MEMORY}"
    return None


def _own_group() -> Path:
    for line in Path("/proc/self/cgroup").read_text(encoding="ascii").splitlines():
        _, controllers, path = line.split(":", 2)
        if "memory" in controllers.split(","):
            return MEMORY / path.lstrip("/")
    return MEMORY


class ControlGroup:
    """A control group, below that of this process, that limits the memory of its processes, page cache included.

    Parameters
    ----------
    name : str
        A name that is unique on the machine.
    limit : int
        Bytes of memory.
    swap : int
        Bytes of swap in addition to the memory.
    """

    def __init__(self, name: str, limit: int, swap: int = 0) -> None:
        self.path = _own_group() / name
        self.path.mkdir()
        try:
            self._write("memory.limit_in_bytes", limit)
            if (self.path / "memory.memsw.limit_in_bytes").exists():
                self._write("memory.memsw.limit_in_bytes", limit + swap)
        except OSError:
            self.close()
            raise

    def _write(self, what: str, value: int) -> None:
        (self.path / what).write_text(str(value), encoding="ascii")

    def command(self, *arguments: str) -> list[str]:
        """Return a command line that joins the group and then executes the given program."""
        return ["/bin/sh", "-c", f'echo $$ > "{self.path}/cgroup.procs" && exec "$@"', "sh", *arguments]

    @property
    def peak(self) -> int:
        """The peak memory use of the group so far in bytes, page cache included."""
        return int((self.path / "memory.max_usage_in_bytes").read_text())

    def close(self) -> None:
        """Remove the group. First kill its remaining processes, and reclaim the page cache that is charged to it."""
        deadline = time.monotonic() + 10
        while True:
            with contextlib.suppress(OSError):
                for pid in (self.path / "cgroup.procs").read_text().split():
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(int(pid), signal.SIGKILL)
                self._write("memory.force_empty", 0)
            try:
                self.path.rmdir()
                return
            except OSError:
                # The kernel removes an ended process from the group shortly after its exit status was collected, so try again.
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.01)

    def __enter__(self) -> ControlGroup:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


def drop_caches() -> None:
    """Write dirty pages to disk and drop the page cache."""
    os.sync()
    Path("/proc/sys/vm/drop_caches").write_text("3", encoding="ascii")


@contextlib.contextmanager
def swap_file(folder: Path, size: int, read_ahead: int) -> Iterator[Path]:
    """Swap to a file in a folder until the ``with`` block ends, and then remove the file.

    Parameters
    ----------
    folder : path
        A folder on the measured disk.
    size : int
        Bytes of the swap file.
    read_ahead : int
        The kernel reads ``2**read_ahead`` memory pages from swap at once; its default is 3.
    """
    path = folder / "craton-bench-swap"
    tools = {tool: shutil.which(tool, path="/usr/sbin:/sbin:/usr/bin:/bin") for tool in ("mkswap", "swapon", "swapoff")}
    missing = [tool for tool, place in tools.items() if place is None]
    if missing:
        raise RuntimeError(f"{', '.join(missing)} not found; a swap file needs the util-linux package")
    if path.exists():  # left by a run that was killed
        subprocess.run([str(tools["swapoff"]), str(path)], capture_output=True, check=False)
        path.unlink()
    usual = PAGE_CLUSTER.read_text(encoding="ascii")
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        PAGE_CLUSTER.write_text(str(read_ahead), encoding="ascii")
        try:
            os.posix_fallocate(handle, 0, size)
        finally:
            os.close(handle)
        subprocess.run([str(tools["mkswap"]), str(path)], capture_output=True, check=True)
        subprocess.run([str(tools["swapon"]), str(path)], capture_output=True, check=True)
        try:
            yield path
        finally:
            subprocess.run([str(tools["swapoff"]), str(path)], capture_output=True, check=True)
    finally:
        PAGE_CLUSTER.write_text(usual, encoding="ascii")
        path.unlink()


def swapped() -> tuple[int, int]:
    """Return the bytes that the machine has read from swap and written to swap since it was started."""
    counts = dict(line.split() for line in Path("/proc/vmstat").read_text(encoding="ascii").splitlines())
    return int(counts["pswpin"]) * mmap.PAGESIZE, int(counts["pswpout"]) * mmap.PAGESIZE


def disk_speed(folder: Path, size: int = 256 * MIB, block: int = 16 * MIB) -> dict[str, float]:
    """Measure sequential direct I/O, one request at a time.

    Returns
    -------
    dict
        ``write`` and ``read`` in bytes per second.
    """
    path = folder / "craton-bench-disk"
    buffer = mmap.mmap(-1, block)  # direct I/O needs page-aligned memory
    buffer.write(os.urandom(block))
    speeds: dict[str, float] = {}
    try:
        for what, flags in (("write", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), ("read", os.O_RDONLY)):
            handle = os.open(path, flags | os.O_DIRECT, 0o600)
            try:
                began = time.perf_counter()
                for at in range(0, size, block):
                    done = os.pwrite(handle, buffer, at) if what == "write" else os.preadv(handle, [buffer], at)
                    if done != block:
                        raise OSError(f"{what} of {block} bytes at {at} in {path} moved {done}")
                speeds[what] = size / (time.perf_counter() - began)
            finally:
                os.close(handle)
    finally:
        path.unlink(missing_ok=True)
        buffer.close()
    return speeds
