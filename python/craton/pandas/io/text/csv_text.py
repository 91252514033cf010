"""Checks the bytes of a CSV file: whether pandas' tokenizer and the kernel's split them into the same fields.

The two agree on well-formed text. They differ on blank lines, quotes within a field, bare carriage returns, and text that
is not UTF-8; pandas reads files that have any of these. The check is one pass over the bytes, mostly at memory speed.
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
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_BLANK = re.compile(rb"\n[ \t\r]*\n")
_FIRST_BLANK = re.compile(rb"(?:\A|\n)[ \t\r]*\n")
_NEWLINE, _RETURN, _SPACE, _TAB = 0x0A, 0x0D, 0x20, 0x09


@dataclass(frozen=True, slots=True)
class TextProperties:
    """The result of a check that found nothing to refuse.

    Parameters
    ----------
    quotes
        Whether the file has quote characters; if so, all of them enclose fields or are escaped by doubling.
    blank_fields
        Whether a field may consist of blanks. pandas reads it as text; the kernel's parser of numbers reads a missing value.
    is_ascii
        Whether all characters are ASCII.
    """

    quotes: bool
    blank_fields: bool
    is_ascii: bool


def check_text(path: str, separator: str, quote: str | None = '"', comment: str | None = None) -> TextProperties:
    """Check every byte of a file.

    Parameters
    ----------
    quote
        The character that encloses fields; None if none does.
    comment
        A character that may occur only in lines at the start of the file that begin with it.

    Raises
    ------
    Unsupported
        If the kernel may split it into other fields than pandas.
    """
    check = _ByteCheck(ord(separator), None if quote is None else quote.encode())
    mark = None if comment is None else comment.encode()
    at_start = mark is not None
    for block in text_blocks(path):
        if mark is not None and mark in block:
            if not at_start:
                raise Unsupported(Refusal.CSV_COMMENTS)
            behind = block
            while behind.startswith(mark) and b"\n" in behind:
                behind = behind.partition(b"\n")[2]
            if mark in behind or (quote or '"').encode() in block[: len(block) - len(behind)]:
                raise Unsupported(Refusal.CSV_COMMENTS)
        at_start = False
        check.feed(block)
    check.finish()
    return TextProperties(check.quotes > 0, check.blank_fields, check.is_ascii)


def check_blank_lines(path: str) -> None:
    """Refuse a file that has blank lines, which pandas skips and the kernel does not.

    Raises
    ------
    Unsupported
        If a line is empty or consists of blanks.
    """
    tail = b""
    pattern = _FIRST_BLANK
    for block in text_blocks(path):
        data = tail + block
        if pattern.search(data):
            raise Unsupported(Refusal.CSV_BLANK_LINES)
        cut = data.rfind(b"\n")
        tail = data[cut:] if cut >= 0 else b"\n" + data[-1:]
        pattern = _BLANK
    if tail[1:] and not tail.strip():
        raise Unsupported(Refusal.CSV_BLANK_LINES)


def text_blocks(path: str, size: int = _BLOCK) -> Iterator[bytes]:
    """The bytes of a file, decompressed, in blocks of at most `size`, without a byte order mark at the start.

    Raises
    ------
    Unsupported
        As :func:`open_text`.
    """
    with open_text(path) as file:
        mark = BYTE_ORDER_MARK
        while block := file.read(size):
            yield block.removeprefix(mark)
            mark = b""


@contextlib.contextmanager
def open_text(path: str) -> Iterator[Any]:
    """Open a file for reading bytes; a file with the suffix of a compression is decompressed.

    Raises
    ------
    Unsupported
        If opening the file, or reading from it within the block, fails: pandas raises the error.
    """
    import pyarrow as pa

    try:
        with pa.input_stream(path, compression=compression_of(path)) as file:
            yield file
    except (OSError, pa.ArrowException) as error:
        raise Unsupported(Refusal.FILE_FOR_PANDAS, error) from error


def compression_of(path: str) -> str | None:
    """The compression that a file name's suffix stands for; ``None`` for none.

    Raises
    ------
    Unsupported
        If the kernel does not read that compression.
    """
    name = path.lower()
    for suffix, method in ((".gz", "gzip"), (".zst", "zstd")):
        if name.endswith(suffix):
            return method
    if name.endswith((".bz2", ".zip", ".xz", ".tar", ".tgz", ".tbz", ".tar.gz", ".tar.bz2", ".tar.xz")):
        raise Unsupported(Refusal.FILE_COMPRESSION)
    return None


class _ByteCheck:
    """The state of the pass over the bytes: the number of quotes so far, and whether a field so far may consist of blanks."""

    def __init__(self, separator: int, quote: bytes | None) -> None:
        self.quotes = 0
        self.blank_fields = False
        self.is_ascii = True
        self._quote = quote
        self._quote_byte = _NEWLINE if quote is None else quote[0]
        self._separator = separator
        self._decoder = codecs.getincrementaldecoder("utf-8")("strict")
        self._last_byte = _NEWLINE  # the last byte of the previous block
        self._quote_at_end = False  # whether the previous block ended with a closing quote

    def feed(self, block: bytes) -> None:
        """Check the next block."""
        try:
            if not block.isascii() or self._decoder.getstate()[0]:
                self.is_ascii = False
                self._decoder.decode(block)
        except UnicodeDecodeError as error:
            raise Unsupported(Refusal.CSV_NOT_UTF8) from error
        if b"\0" in block:
            raise Unsupported(Refusal.CSV_NUL)
        if b"\r" in block or self._last_byte == _RETURN:
            self._check_returns(block)
        if self._quote_at_end and block:
            self._check_after_quote(block[0])
        if not self.blank_fields and (b" " in block or b"\t" in block):
            self.blank_fields = self._has_blank_field(np.frombuffer(block, dtype=np.uint8))
        if self._quote is not None and (count := block.count(self._quote)):
            positions = _quote_positions(block, count, self._quote)
            self._check_quotes(np.frombuffer(block, dtype=np.uint8), positions)
        self._last_byte = block[-1] if block else self._last_byte

    def finish(self) -> None:
        """Check how the file ends."""
        if self._decoder.getstate()[0]:
            raise Unsupported(Refusal.CSV_CUT_CHARACTER)
        if self.quotes % 2:
            raise Unsupported(Refusal.CSV_OPEN_QUOTE)
        if self._last_byte == _RETURN:
            raise Unsupported(Refusal.CSV_CARRIAGE_RETURNS)
        if self._last_byte == self._separator:  # the kernel accepts one field too many here
            raise Unsupported(Refusal.CSV_SEPARATOR_AT_END)

    def _has_blank_field(self, data: np.ndarray[Any, Any]) -> bool:
        """Whether a field in a block may consist of blanks. Blanks at an end of the block count, although the field may continue."""
        blank = data == _SPACE
        if self._separator != _TAB:
            blank |= data == _TAB
        around = np.zeros(256, dtype=bool)  # whether a byte ends a field
        around[[self._separator, _NEWLINE, _RETURN, self._quote_byte]] = True
        starts, ends = np.flatnonzero(blank[1:] > blank[:-1]) + 1, np.flatnonzero(blank[:-1] > blank[1:]) + 1
        opens, closes = around[data[starts - 1]], around[data[ends]]  # for each run of blanks
        if blank[0]:
            opens = np.concatenate(([True], opens))
        if blank[-1]:
            closes = np.concatenate((closes, [True]))
        return bool((opens & closes).any())

    def _check_returns(self, block: bytes) -> None:
        first = 1 if self._last_byte == _RETURN and block[:1] == b"\n" else 0
        held = 1 if block.endswith(b"\r") else 0
        if (self._last_byte == _RETURN and not first) or block.count(b"\r") - held != block.count(b"\r\n"):
            raise Unsupported(Refusal.CSV_CARRIAGE_RETURNS)

    def _check_after_quote(self, byte: int) -> None:
        self._quote_at_end = False
        if byte not in (self._separator, _NEWLINE, _RETURN, self._quote_byte):
            raise Unsupported(Refusal.CSV_BEHIND_QUOTE)

    def _check_quotes(self, data: np.ndarray[Any, Any], found: np.ndarray[Any, Any]) -> None:
        """Check that each opening quote begins a field and each closing quote ends one, or that both escape a quote."""
        opening = found[self.quotes % 2 :: 2]
        closing = found[1 - self.quotes % 2 :: 2]
        before = np.where(opening > 0, data[opening - 1], self._last_byte)
        begins = (before == self._separator) | (before == _NEWLINE) | (before == self._quote_byte)
        if not begins.all():
            raise Unsupported(Refusal.CSV_QUOTE_INSIDE)
        inner = closing[closing + 1 < len(data)]
        after = data[inner + 1]
        ends = (after == self._separator) | (after == _NEWLINE) | (after == _RETURN) | (after == self._quote_byte)
        if not ends.all():
            raise Unsupported(Refusal.CSV_BEHIND_QUOTE)
        self._quote_at_end = len(inner) < len(closing)
        self.quotes += len(found)


def _quote_positions(block: bytes, count: int, quote: bytes) -> np.ndarray[Any, Any]:
    """The positions of the quotes. A regular expression finds few quotes fastest, a vectorised comparison many."""
    if count * 200 < len(block):
        return np.fromiter((match.start() for match in re.finditer(re.escape(quote), block)), np.intp, count=count)
    return np.flatnonzero(np.frombuffer(block, dtype=np.uint8) == quote[0])
