"""Machine set-up for the store's benchmarks: memory limits, swap, a cold page cache, and the speed of the disk.

Limits are Linux control groups, version 1, made below this process's own; they and the swap file need root. All of it
is undone when the ``with`` block ends, also when the benchmark fails.
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
    """Return the reason why memory limits, swap or a cold cache are not available here, or None if they are."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        return "it takes root to limit memory, to use a swap file and to drop the page cache"
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
    """A group of processes with a limit of memory, page cache included, below the group of this process.

    Parameters
    ----------
    name : str
        Unique on the machine.
    limit : int
        Bytes.
    swap : int
        Bytes of swap that may be used beyond it.
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
        """Return a command that joins the group before it becomes the program that is given."""
        return ["/bin/sh", "-c", f'echo $$ > "{self.path}/cgroup.procs" && exec "$@"', "sh", *arguments]

    @property
    def peak(self) -> int:
        """The most bytes that the group has used so far, page cache included."""
        return int((self.path / "memory.max_usage_in_bytes").read_text())

    def close(self) -> None:
        """Remove the group. Processes that have not ended are killed; what is left of their page cache goes first."""
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
                # The kernel lets go of an ended process a moment after its exit status was collected.
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.01)

    def __enter__(self) -> ControlGroup:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


def drop_caches() -> None:
    """Write dirty pages to disk and forget the page cache."""
    os.sync()
    Path("/proc/sys/vm/drop_caches").write_text("3", encoding="ascii")


@contextlib.contextmanager
def swap_file(folder: Path, size: int, read_ahead: int) -> Iterator[Path]:
    """Swap to a file in a folder until the ``with`` block ends, then remove it.

    Parameters
    ----------
    folder : path
        On the disk that is measured.
    size : int
        Bytes.
    read_ahead : int
        The kernel reads ``2**read_ahead`` pages of memory from swap at once; its own default is 3.
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
    """Return the bytes that the machine has read from swap and written to it since it was started."""
    counts = dict(line.split() for line in Path("/proc/vmstat").read_text(encoding="ascii").splitlines())
    return int(counts["pswpin"]) * mmap.PAGESIZE, int(counts["pswpout"]) * mmap.PAGESIZE


def disk_speed(folder: Path, size: int = 256 * MIB, block: int = 16 * MIB) -> dict[str, float]:
    """Measure sequential direct I/O, one request at a time.

    Returns
    -------
    dict
        ``write`` and ``read`` in bytes a second.
    """
    path = folder / "craton-bench-disk"
    buffer = mmap.mmap(-1, block)  # direct I/O needs memory that begins on a page
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
