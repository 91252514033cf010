"""Differences that are known and have a reason, each of them in ``docs/known-differences.md``. Keep this short.

Ties in sorts need no entry: :func:`tests.fuzz.oracle.quiet` makes pandas' sorts stable. Last digits of floating sums neither:
:mod:`tests.fuzz.compare` is given how close floats must be.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas

if TYPE_CHECKING:
    from tests.fuzz.oracle import Difference, Outcome
    from tests.fuzz.programs import Program


@dataclass(frozen=True, slots=True)
class Explained:
    """A known difference.

    Parameters
    ----------
    section
        The heading in ``docs/known-differences.md``.
    applies
        Whether a difference is of this kind.
    """

    section: str
    applies: Callable[[Program, Outcome, Outcome, Difference], bool]


def _late(program: Program, expected: Outcome, got: Outcome, found: Difference) -> bool:
    """An overflow that one row brings up is raised when the rows are computed, or not at all."""
    error = expected.errors.get(found.step)
    names = ("OutOfBoundsDatetime", "OutOfBoundsTimedelta", "OverflowError", "ArrowInvalid")
    return found.kind == "no error" and type(error).__name__ in names


def _freq(program: Program, expected: Outcome, got: Outcome, found: Difference) -> bool:
    """The frequency that pandas infers anew after a selection."""
    return found.kind == "freq" and "is None" in found.what


def _divided_by_zero(program: Program, expected: Outcome, got: Outcome, found: Difference) -> bool:
    """pandas makes floats of all columns beside the one whose integers are divided by zero."""
    if found.kind != "dtype" or re.search(r" u?int\d+, not float64$", found.what) is None:
        return False
    if re.search(r"floordiv|mod\b|//|%", found.where) is None:
        return False
    table = expected.values.get(found.what.partition(":")[0])
    floats = table.select_dtypes("float64") if isinstance(table, pandas.DataFrame) else pandas.DataFrame()
    return not bool(np.isfinite(floats.to_numpy()).all())


def _label_of_range(program: Program, expected: Outcome, got: Outcome, found: Difference) -> bool:
    """A label taken out of a RangeIndex, which pandas has turned into an Index on the way."""
    code = program.steps[found.step].code if found.step >= 0 else ""
    same = re.search(r"class: int (-?\d+), not int64 np.int64\(\1\)$", found.what) is not None
    return same and re.search(r"\b(idxm(in|ax)\(|(first|last)_valid_index\(|index\b)", code) is not None


def _bytes_of_text(program: Program, expected: Outcome, got: Outcome, found: Difference) -> bool:
    """How many bytes Arrow takes for strings."""
    return found.kind in ("value", "values") and found.where.endswith(".memory_usage")


def _range_of_32_bits(program: Program, expected: Outcome, got: Outcome, found: Difference) -> bool:
    """A sum of 32-bit floats that leaves their range and comes back."""
    table = expected.values.get(found.what.partition(":")[0])
    columns = table.to_frame() if isinstance(table, pandas.Series) else table
    if found.kind != "values" or not isinstance(columns, pandas.DataFrame):
        return False
    small = any(str(dtype).lower().startswith(("float32", "float[")) for dtype in columns.dtypes)
    summed = any(re.search(r"\b(cumsum|sum|mean)\b", step.code) for step in program.steps)
    return small and summed and re.search(r", not .*\b(nan|inf)\b", found.what) is not None


EXPLAINED: tuple[Explained, ...] = (
    Explained("Errors that rows bring up", _late),
    Explained("Index or RangeIndex", _label_of_range),
    Explained("Blocks", _bytes_of_text),
    Explained("The last digits of floating sums", _range_of_32_bits),
    Explained("freq of a DatetimeIndex", _freq),
    Explained("The dtype of integers divided by zero", _divided_by_zero),
)


def explanation(program: Program, expected: Outcome, got: Outcome, found: Difference) -> str | None:
    """The section that explains a difference; None if none does."""
    return next((one.section for one in EXPLAINED if one.applies(program, expected, got, found)), None)
