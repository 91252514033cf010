r"""The standard streams of a rank, which are one connection to the executor, so that output keeps its order.

What a rank and the programs that it starts write is sent as it is. Marks in it begin with a zero byte:

=============  =====================================================
``\0E``        what follows was written to ``sys.stderr``
``\0O``        the end of that
``\0Z``        a zero byte of the output
``\0D`` + u64  the end of the output of a call, with the call's number
=============  =====================================================
"""

from __future__ import annotations

import ctypes
import io
import os
import struct
import sys
import threading
from collections.abc import Callable, Iterator

__all__ = ["OutputReader", "flush", "open_streams", "send_mark"]

_C = ctypes.CDLL(None)
_NUMBER = struct.Struct("<Q")
_writing = threading.Lock()
#: The longest line that is held back until its end is known.
_LINE = 1 << 16


class _Stream(io.RawIOBase):
    """The lower end of ``sys.stdout`` or ``sys.stderr``."""

    def __init__(self, fd: int, before: bytes, after: bytes) -> None:
        self._fd, self._before, self._after = fd, before, after

    def write(self, data: object) -> int:
        text = bytes(data)  # type: ignore[call-overload]
        _write(self._fd, self._before + text.replace(b"\0", b"\0Z") + self._after)
        return len(text)

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._fd


def _write(fd: int, text: bytes) -> None:
    with _writing:
        while text:
            text = text[os.write(fd, text) :]


def open_streams(output: int) -> None:
    """Make a descriptor this process's standard output and error; standard input is empty."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    for fd, target in ((nothing, 0), (output, 1), (output, 2)):
        os.dup2(fd, target, inheritable=True)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 -- it lives as long as the process
    for name, before, after in (("stdout", b"", b""), ("stderr", b"\0E", b"\0O")):
        raw = _Stream(2 if before else 1, before, after)
        stream = io.TextIOWrapper(
            io.BufferedWriter(raw), encoding="utf-8", errors="backslashreplace", line_buffering=True
        )
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def flush() -> None:
    """Send everything that was written."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:  # the program has replaced or closed it
            continue
    _C.fflush(None)


def send_mark(number: int) -> None:
    """Send the end of the output of a call.

    Raises
    ------
    OSError
        If the program has closed the stream.
    """
    _write(1, b"\0D" + _NUMBER.pack(number))


class OutputReader:
    """Divides what comes from a rank into lines and marks.

    Parameters
    ----------
    show
        Called with ``"stdout"`` or ``"stderr"``, and a line or the text that was written of one.
    ended
        Called with the number of a call whose output is complete.
    """

    def __init__(self, show: Callable[[str, str], None], ended: Callable[[int], None]) -> None:
        self._show, self._ended = show, ended
        self._rest = b""
        self._lines = {"stdout": b"", "stderr": b""}
        self._stream = "stdout"

    def feed(self, data: bytes) -> None:
        """Take bytes that were received."""
        for kind, text in self._pieces(self._rest + data):
            if kind == "text":
                self._add(text)
            elif kind == "mark":
                self.finish()
                self._ended(_NUMBER.unpack(text)[0])
            else:
                self._stream = kind

    def _pieces(self, data: bytes) -> Iterator[tuple[str, bytes]]:
        while True:
            text, zero, data = data.partition(b"\0")
            if text:
                yield "text", text
            if not zero:
                self._rest = b""
                return
            code = data[:1]
            if not code or (code == b"D" and len(data) < 1 + _NUMBER.size):
                self._rest = b"\0" + data
                return
            if code == b"D":
                yield "mark", data[1 : 1 + _NUMBER.size]
                data = data[1 + _NUMBER.size :]
            elif code in (b"E", b"O"):
                yield ("stderr" if code == b"E" else "stdout"), b""
                data = data[1:]
            else:  # a zero byte; a program that the rank has started writes one as it is
                yield "text", b"\0"
                data = data[1:] if code == b"Z" else data

    def _add(self, text: bytes) -> None:
        *lines, rest = (self._lines[self._stream] + text).split(b"\n")
        if len(rest) > _LINE:
            lines, rest = [*lines, rest], b""
        for line in lines:
            self._show(self._stream, line.decode(errors="replace"))
        self._lines[self._stream] = rest

    def finish(self) -> None:
        """Show lines that have no end."""
        for stream, text in self._lines.items():
            if text:
                self._show(stream, text.decode(errors="replace"))
                self._lines[stream] = b""
