"""Durable checkpoints: the states of all ranks as one file of a folder, which programs that begin later continue from.

====================  ===========================================
8 bytes               ``CRATONCP``
u32                   version, 1
u32                   CRC-32C of all that follows
u64                   length of the head
bytes                 the head, JSON: for each rank the lengths of the buffers of its encoded state
bytes                 the buffers
====================  ===========================================

A file is published by renaming it when it is complete and synced, so a crash leaves the one before.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import mmap
import os
import re
import struct
import threading
from collections.abc import Sequence
from typing import Any

from craton import _native

__all__ = ["CheckpointFolder", "DamagedCheckpoint"]

_MAGIC, _VERSION = b"CRATONCP", 1
_START = struct.Struct("<8sIIQ")
_NAME = re.compile(r"checkpoint-(\d{9})\.craton")
_PART = ".part"
#: What part of a file is checked and written at a time, in bytes.
_PIECE = 1 << 24


class DamagedCheckpoint(ValueError):
    """A file is not a checkpoint, or its bytes have changed."""


class CheckpointFolder:
    """The folder of an executor's checkpoints, which nobody else uses meanwhile. Only the last complete one is kept.

    Parameters
    ----------
    path
        The folder; it is made if there is none.

    Raises
    ------
    BlockingIOError
        If another executor uses it.
    OSError
        If it cannot be made, or is a file.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.path.abspath(os.fspath(path))
        self._saving = threading.Lock()
        os.makedirs(self.path, exist_ok=True)
        self._folder = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(self._folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self.close()
            raise BlockingIOError(error.errno, "another executor keeps its checkpoints there", self.path) from None
        for name in os.listdir(self.path):
            if name.endswith(_PART) and _NAME.fullmatch(name.removesuffix(_PART)):  # of a program that was killed
                os.remove(os.path.join(self.path, name))

    def close(self) -> None:
        """Let others use the folder."""
        with self._saving:
            if self._folder >= 0:
                os.close(self._folder)
                self._folder = -1

    def load(self) -> list[list[memoryview]]:
        """Return the encoded states of the last checkpoint, by rank; empty if there is none. They are views of the file.

        Raises
        ------
        DamagedCheckpoint
            If the last one is damaged, or a newer version of Craton has written it.
        """
        numbers = self._numbers()
        if not numbers:
            return []
        path = self._file(numbers[-1])
        with open(path, "rb") as file:
            whole = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if os.path.getsize(path) else b"")
        try:
            magic, version, checksum, length = _START.unpack_from(whole)
            if magic != _MAGIC:
                raise ValueError
            if version != _VERSION:
                raise DamagedCheckpoint(
                    f"{path} has version {version}; this version of Craton reads version {_VERSION}"
                )
            rest = whole[_START.size :]
            if _checksum([rest]) != checksum:
                raise ValueError
            sizes: list[list[int]] = json.loads(bytes(rest[:length]))
        except DamagedCheckpoint:
            raise
        except (ValueError, struct.error):
            raise DamagedCheckpoint(f"{path} is not a complete checkpoint: remove it to begin anew") from None
        states, at = [], length
        for lengths in sizes:
            buffers = []
            for size in lengths:
                buffers.append(rest[at : at + size])
                at += size
            states.append(buffers)
        return states

    def save(self, states: Sequence[Sequence[Any]]) -> None:
        """Keep the encoded states of all ranks, by rank, and remove the checkpoint before.

        Raises
        ------
        OSError
            If they cannot be written; the checkpoint before is still there.
        """
        views = [[memoryview(one).cast("B") for one in state] for state in states]
        head = json.dumps([[len(view) for view in state] for state in views]).encode()
        parts = [memoryview(head), *(view for state in views for view in state)]
        with self._saving:
            if self._folder < 0:
                raise OSError(errno.EBADF, "the executor has ended", self.path)
            before = self._numbers()
            target = self._file(before[-1] + 1 if before else 1)
            temporary = target + _PART
            try:
                with open(temporary, "wb") as file:
                    file.write(_START.pack(_MAGIC, _VERSION, _checksum(parts), len(head)))
                    for part in parts:
                        file.write(part)
                    file.flush()
                    os.fsync(file.fileno())
                os.rename(temporary, target)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.remove(temporary)
                raise
            os.fsync(self._folder)
            for number in before:
                with contextlib.suppress(OSError):
                    os.remove(self._file(number))

    def _numbers(self) -> list[int]:
        return sorted(int(found[1]) for name in os.listdir(self.path) if (found := _NAME.fullmatch(name)))

    def _file(self, number: int) -> str:
        return os.path.join(self.path, f"checkpoint-{number:09}.craton")


def _checksum(parts: Sequence[memoryview]) -> int:
    found = 0
    for part in parts:
        for start in range(0, len(part), _PIECE):
            found = _native.checksum(part[start : start + _PIECE], found)
    return found
