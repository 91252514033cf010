"""What the bytes of a CSV file are like: whether pandas' tokenizer and the kernel's cut them into the same fields.

Both agree on well-formed text. They differ on blank lines, on quotes that stand within a field, on bare carriage
returns and on text that is not UTF-8; a file with such is left to pandas. One pass over the bytes, mostly at memory
speed.
"""

from __future__ import annotations

import codecs
import contextlib
import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from craton.errors import Unsupported
from craton.records import dataclass
from craton.refusals import Refusal

_BLOCK = 4 << 20
_BLANK = re.compile(rb"\n[ \t\r]*\n")
_FIRST_BLANK = re.compile(rb"(?:\A|\n)[ \t\r]*\n")
_QUOTE, _NEWLINE, _RETURN = 0x22, 0x0A, 0x0D


@dataclass(frozen=True, slots=True)
class Text:
    """What is known of a file's text.

    Parameters
    ----------
    quotes
        Whether there are quote characters; they are well placed then.
    """

    quotes: bool


def check_text(path: str, separator: str) -> Text:
    """Look at every byte of a file.

    Raises
    ------
    Unsupported
        If the kernel may cut it into other fields than pandas.
    """
    check = _Check(ord(separator))
    with open_text(path) as file:
        while block := file.read(_BLOCK):
            check.feed(block)
    check.finish()
    return Text(check.quotes > 0)


def check_blank_lines(path: str) -> None:
    """Refuse a file that has lines of nothing but blanks: pandas skips these, the kernel does not.

    Raises
    ------
    Unsupported
        If there is one.
    """
    tail = b""
    pattern = _FIRST_BLANK
    with open_text(path) as file:
        while block := file.read(_BLOCK):
            data = tail + block
            if pattern.search(data):
                raise Unsupported(Refusal.CSV_BLANK_LINES)
            cut = data.rfind(b"\n")
            tail = data[cut:] if cut >= 0 else b"\n" + data[-1:]
            pattern = _BLANK
    if tail[1:] and not tail.strip():
        raise Unsupported(Refusal.CSV_BLANK_LINES)


@contextlib.contextmanager
def open_text(path: str) -> Iterator[Any]:
    """Open a file for its bytes, decompressed if its name says that it is compressed.

    Raises
    ------
    Unsupported
        If it cannot be opened, or if reading in the block fails: pandas raises the error.
    """
    import pyarrow as pa

    try:
        with pa.input_stream(path, compression=compression_of(path)) as file:
            yield file
    except (OSError, pa.ArrowException) as error:
        raise Unsupported(Refusal.FILE_FOR_PANDAS, error) from error


def compression_of(path: str) -> str | None:
    """The compression that a file name tells, of those that the kernel reads too.

    Raises
    ------
    Unsupported
        For those that it does not.
    """
    name = path.lower()
    for suffix, method in ((".gz", "gzip"), (".zst", "zstd")):
        if name.endswith(suffix):
            return method
    if name.endswith((".bz2", ".zip", ".xz", ".tar", ".tgz", ".tbz", ".tar.gz", ".tar.bz2", ".tar.xz")):
        raise Unsupported(Refusal.FILE_COMPRESSION)
    return None


class _Check:
    """The pass over the bytes; ``quotes`` counts the quote characters so far."""

    def __init__(self, separator: int) -> None:
        self.quotes = 0
        self._separator = separator
        self._decoder = codecs.getincrementaldecoder("utf-8")("strict")
        self._before = _NEWLINE  # the byte before what comes
        self._open = False  # whether the last byte was a closing quote whose follower is not seen yet
        self._start = True

    def feed(self, block: bytes) -> None:
        """Look at more bytes."""
        if self._start:
            block = block.removeprefix(b"\xef\xbb\xbf")
            self._start = False
        try:
            if not block.isascii() or self._decoder.getstate()[0]:
                self._decoder.decode(block)
        except UnicodeDecodeError as error:
            raise Unsupported(Refusal.CSV_NOT_UTF8) from error
        if b"\0" in block:
            raise Unsupported(Refusal.CSV_NUL)
        if b"\r" in block or self._before == _RETURN:
            self._returns(block)
        if self._open and block:
            self._follows(block[0])
        if count := block.count(b'"'):
            self._placed(np.frombuffer(block, dtype=np.uint8), _positions(block, count))
        self._before = block[-1] if block else self._before

    def finish(self) -> None:
        """Look at the end."""
        if self._decoder.getstate()[0]:
            raise Unsupported(Refusal.CSV_CUT_CHARACTER)
        if self.quotes % 2:
            raise Unsupported(Refusal.CSV_OPEN_QUOTE)
        if self._before == _RETURN:
            raise Unsupported(Refusal.CSV_CARRIAGE_RETURNS)

    def _returns(self, block: bytes) -> None:
        first = 1 if self._before == _RETURN and block[:1] == b"\n" else 0
        held = 1 if block.endswith(b"\r") else 0
        if (self._before == _RETURN and not first) or block.count(b"\r") - held != block.count(b"\r\n"):
            raise Unsupported(Refusal.CSV_CARRIAGE_RETURNS)

    def _follows(self, byte: int) -> None:
        self._open = False
        if byte not in (self._separator, _NEWLINE, _RETURN, _QUOTE):
            raise Unsupported(Refusal.CSV_BEHIND_QUOTE)

    def _placed(self, data: np.ndarray[Any, Any], found: np.ndarray[Any, Any]) -> None:
        """An opening quote begins a field, a closing one ends it, or both are one escaped quote."""
        opening = found[self.quotes % 2 :: 2]
        closing = found[1 - self.quotes % 2 :: 2]
        before = np.where(opening > 0, data[opening - 1], self._before)
        begins = (before == self._separator) | (before == _NEWLINE) | (before == _QUOTE)
        if not begins.all():
            raise Unsupported(Refusal.CSV_QUOTE_INSIDE)
        inner = closing[closing + 1 < len(data)]
        after = data[inner + 1]
        ends = (after == self._separator) | (after == _NEWLINE) | (after == _RETURN) | (after == _QUOTE)
        if not ends.all():
            raise Unsupported(Refusal.CSV_BEHIND_QUOTE)
        self._open = len(inner) < len(closing)
        self.quotes += len(found)


def _positions(block: bytes, count: int) -> np.ndarray[Any, Any]:
    """Where the quotes are: one by one if they are rare, else all bytes compared."""
    if count * 200 < len(block):
        return np.fromiter((match.start() for match in re.finditer(b'"', block)), dtype=np.intp, count=count)
    return np.flatnonzero(np.frombuffer(block, dtype=np.uint8) == _QUOTE)
