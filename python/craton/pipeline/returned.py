"""What a function returned, as Arrow tables that can be stored."""

from __future__ import annotations

from typing import Any

from craton.pipeline.tasks import Form
from craton.records import dataclass

__all__ = ["RESTORE", "NotATable", "Returned"]

#: The key of schema metadata that says how an array or a pandas object is restored. Only the form that wrote it reads it.
RESTORE = b"craton"


class NotATable(Exception):
    """What a function returned is not a table."""


@dataclass(frozen=True, slots=True)
class Returned:
    """A table, in parts of equal schema, what it was, and its rows."""

    form: Form
    tables: list[Any]
    rows: int
