"""Recognition of text columns whose dates all have the same ISO format: those that the kernel parses exactly as pandas does."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Protocol

import polars as pl

from craton.errors import Unsupported
from craton.pandas.core.data_checks import collect
from craton.pandas.core.file_cache import memoised
from craton.refusals import Refusal

#: A pattern of each ISO format, of Python and of the kernel.
PATTERNS = {
    "date": r"[12]\d{3}-\d{2}-\d{2}",
    "minutes": r"[12]\d{3}-\d{2}-\d{2} \d{2}:\d{2}",
    "seconds": r"[12]\d{3}-\d{2}-\d{2} \d{2}:\d{2}:[0-5]\d",
    "minutes T": r"[12]\d{3}-\d{2}-\d{2}T\d{2}:\d{2}",
    "seconds T": r"[12]\d{3}-\d{2}-\d{2}T\d{2}:\d{2}:[0-5]\d",
    "millis": r"[12]\d{3}-\d{2}-\d{2} \d{2}:\d{2}:[0-5]\d\.\d{3}",
    "micros": r"[12]\d{3}-\d{2}-\d{2} \d{2}:\d{2}:[0-5]\d\.\d{6}",
    "millis T": r"[12]\d{3}-\d{2}-\d{2}T\d{2}:\d{2}:[0-5]\d\.\d{3}",
    "micros T": r"[12]\d{3}-\d{2}-\d{2}T\d{2}:\d{2}:[0-5]\d\.\d{6}",
}
#: The kernel's format string for each ISO format.
DATE_FORMATS = {
    "date": "%Y-%m-%d",
    "minutes": "%Y-%m-%d %H:%M",
    "seconds": "%Y-%m-%d %H:%M:%S",
    "minutes T": "%Y-%m-%dT%H:%M",
    "seconds T": "%Y-%m-%dT%H:%M:%S",
    "millis": "%Y-%m-%d %H:%M:%S%.3f",
    "micros": "%Y-%m-%d %H:%M:%S%.6f",
    "millis T": "%Y-%m-%dT%H:%M:%S%.3f",
    "micros T": "%Y-%m-%dT%H:%M:%S%.6f",
}


class TextFieldScan(Protocol):
    """A scan of a file whose fields are text."""

    def frame(self) -> pl.LazyFrame:
        """The scan."""

    def text(self, field: Any) -> pl.Expr:
        """The text of a field."""


def is_date(text: str, form: str) -> bool:
    """Whether a text has the shape of an ISO format."""
    return re.fullmatch(PATTERNS[form], text, re.ASCII) is not None


def date_format_of(values: Sequence[str]) -> str:
    """The ISO format of the first of some dates.

    Raises
    ------
    Unsupported
        If there are no dates, or the first one has none of these formats.
    """
    if values:
        for form in PATTERNS:
            if is_date(values[0], form):
                return form
    raise Unsupported(Refusal.DATES_NOT_ISO)


def all_values_are_dates(scan: TextFieldScan, field: Any, pattern: str, form: str) -> bool:
    """Whether every value of a field is a date; runs a query over the file.

    Parameters
    ----------
    pattern
        The pattern of the whole text of a date.
    form
        The kernel's format.
    """

    def compute() -> bool:
        text = scan.text(field)
        shaped = text.str.contains(f"^{pattern}$").all()
        parsed = text.str.to_datetime(form, strict=False, time_unit="us")
        valid = (parsed.is_not_null() | text.is_null()).all()
        return all(collect(scan.frame().select(shaped.alias("a"), valid.alias("b")), "reading dates").row(0))

    return bool(memoised((scan, field, form), compute))
