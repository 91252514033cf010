"""Recognises the differences that ``docs/known-differences.md`` documents. Keep this list short.

The last digits of float sums need no entry, because :mod:`tests.fuzz.compare` has tolerances.
"""

from __future__ import annotations

import ast
import contextlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas

from tests.fuzz.compare import difference
from tests.fuzz.consequences import (
    concatenates_with_ranges,
    equal_with_copied_tables,
    equal_with_copying_astype,
    equal_without_failing_steps,
    raised_with_separate_columns,
    raised_with_separate_labels,
    raised_without_failing_steps,
)
from tests.fuzz.execution import closeness, pandas_copy

if TYPE_CHECKING:
    from tests.fuzz.execution import Difference, RunResult
    from tests.fuzz.programs import Program


@dataclass(frozen=True, slots=True)
class Explained:
    """A documented difference.

    Parameters
    ----------
    section
        The heading in ``docs/known-differences.md``.
    applies
        A function that decides whether a found difference is of this kind.
    """

    section: str
    applies: Callable[[Program, RunResult, RunResult, Difference], bool]


def _raised_late(program: Program, expected: RunResult, got: RunResult, found: Difference) -> bool:
    """An overflow in one row, which Craton raises when the rows are computed, or not at all if the column is not needed."""
    if found.kind != "no error" or found.step < 0:
        return False
    error, step = expected.errors.get(found.step), program.steps[found.step]
    node = ast.parse(step.code).body[-1]
    if isinstance(node, ast.Assign) and isinstance(node.value, ast.BinOp) and step.target not in got.late:
        return False  # the column that overflows has been computed
    names = ("OutOfBoundsDatetime", "OutOfBoundsTimedelta", "OverflowError", "ArrowInvalid")
    return type(error).__name__ in names


def _partial_step(program: Program, expected: RunResult, got: RunResult, found: Difference) -> bool:
    """A step that raises in the middle: pandas has done part of it by then, Craton nothing."""
    if found.kind == "error":
        own = found.raised.startswith("IndexError") and found.where.endswith("loc.__setitem__")
        return own or raised_without_failing_steps(program, got, found)
    return equal_without_failing_steps(program, expected, got, found)


def _no_groups(program: Program, expected: RunResult, got: RunResult, found: Difference) -> bool:
    """A transform of rows that are all in no group, for which pandas raises an internal error."""
    error = expected.errors.get(found.step)
    texts = ("non-empty take from an empty axes", "Index -1 out of bounds")
    return found.kind == "no error" and any(text in str(error) for text in texts)


def _freq(program: Program, expected: RunResult, got: RunResult, found: Difference) -> bool:
    """A frequency that pandas infers again after a selection, or loses."""
    table = expected.values.get(found.variable)
    return found.kind == "freq" and ("None" in found.what or (hasattr(table, "__len__") and len(table) == 0))


def _divided_by_zero(program: Program, expected: RunResult, got: RunResult, found: Difference) -> bool:
    """A division of integers by zero in one column, after which pandas converts all columns of its block to floats."""
    if found.kind != "dtype" or re.search(r" (u?int\d+|float32), not float64$", found.what.lower()) is None:
        return False
    if not any(re.search(r"floordiv|mod\b|//|%", step.code) for step in program.steps):
        return False
    if not _equal_up_to_dtypes(expected, got, found):
        return False
    table = expected.values.get(found.variable)
    # For masked dtypes, the zero may be the hidden value of a missing divisor.
    if re.search(r"(Int|Float)\d+, not Float64$", found.what):
        return isinstance(table, (pandas.DataFrame, pandas.Series)) and bool(table.isna().to_numpy().any())
    tables = [one for one in expected.values.values() if isinstance(one, pandas.DataFrame)]
    floats = [one.select_dtypes(["float64", "Float64"]).to_numpy(dtype=float, na_value=np.nan) for one in tables]
    return any(not np.isfinite(one).all() for one in floats)


def _equal_up_to_dtypes(expected: RunResult, got: RunResult, found: Difference) -> bool:
    """Whether tables differ only in dtypes: they are equal after a cast to the expected dtypes."""
    name = found.variable
    one, other = pandas_copy(expected.values.get(name)), pandas_copy(got.values.get(name))
    with contextlib.suppress(Exception):
        if isinstance(one, pandas.Series) and isinstance(other, pandas.Series):
            return difference(one, other.astype(one.dtype), closeness(expected.values, [name])) is None
        if isinstance(one, pandas.DataFrame) and isinstance(other, pandas.DataFrame) and one.shape == other.shape:
            columns = [other.iloc[:, i].astype(one.dtypes.iloc[i]) for i in range(one.shape[1])]
            cast = pandas.concat(columns, axis=1) if columns else other
            cast.columns = other.columns
            return difference(one, cast, closeness(expected.values, [name])) is None
    return False


def _label_of_range(program: Program, expected: RunResult, got: RunResult, found: Difference) -> bool:
    """A label or name from a RangeIndex, where the other side has an Index."""
    code = program.steps[found.step].code if found.step >= 0 else ""
    what = found.what.partition(": ")[2]
    if what.startswith("class: "):
        taken = re.search(r"\b(idxm(in|ax)\(|(first|last)_valid_index\(|index\b)", code) is not None
        return (
            taken
            and re.search(
                r"class: (int (-?\d+), not int64 np.int64\(\2\)|int64 np.int64\((-?\d+)\), not int \3)$", what
            )
            is not None
        )
    number = r"(?:np\.int64\()?(-?\d+)\)?"
    if named := re.search(rf"\bnames?: .*\[{number}\], not \[{number}\]$", found.what):
        return named[1] == named[2]
    if what.startswith("shape: "):  # a file without columns has rows only if labels are stored
        return (
            "read_parquet" in code
            and re.search(r"\((\d+), 0\), not \(0, 0\)|\(0, 0\), not \(\d+, 0\)", what) is not None
        )
    if found.kind == "index":  # stored labels are a column, which gets the requested dtype
        classes = re.search(r"are a (\w*Index), not (\w*Index)$", what)
        stored = classes is not None and not {"RangeIndex", "MultiIndex"}.isdisjoint(classes.groups())
        return stored and ("dtype_backend" in code or "filters" in code)
    if what.startswith("name: "):
        one, _, other = what.removeprefix("name: ").partition(", not ")
        return one != other and _as_index(one) == _as_index(other)
    if what.startswith("text: "):
        name = found.variable
        return _as_index(str(expected.values.get(name))) == _as_index(str(got.values.get(name)))
    return False


def _as_index(text: str) -> str:
    """Rewrite a text so that a RangeIndex and its labels look like those of an Index."""
    return re.sub(r"np\.int64\((-?\d+)\)", r"\1", text).replace("RangeIndex: ", "Index: ")


def _other_cause_in_message(program: Program, expected: RunResult, got: RunResult, found: Difference) -> bool:
    """An error that several rows or columns cause, where the two sides name different ones of them."""
    if found.kind not in ("message", "error"):
        return False
    one, _, other = found.what.removeprefix("message: ").removeprefix("error: ").partition(", not ")
    same = re.sub(r"'[^']*'", "''", one) == re.sub(r"'[^']*'", "''", other)
    of_rows = same and one.startswith(("Failed to parse string", "could not convert", "Unable to parse", "time data"))
    of_columns = ("does not support operation", "Invalid value")
    unsupported = re.compile(
        r"not supported for|agg function failed|cannot perform|does not support|unsupported operand|not implemented for|no longer supported"
        r"|Transform function failed|did not contain a loop|not implemented\b"
        r"|Cannot setitem|Invalid value",
        re.IGNORECASE,
    )
    of_several = unsupported.search(one) is not None and unsupported.search(other) is not None
    if of_rows or of_several or any(words in one and words in other for words in of_columns):
        return True
    return raised_with_separate_columns(program, expected, got, found)


def _read_only(program: Program, expected: RunResult, got: RunResult, found: Difference) -> bool:
    """Read-only arrays, which pandas takes from Arrow without copying and cannot write to."""
    refusals = [step for step, error in expected.errors.items() if "read-only" in f"{error} {error.__cause__}"]
    if found.kind == "no error":
        return found.step in refusals
    return bool(refusals) and equal_with_copied_tables(program, expected, got, found)


def _concatenated_ranges(program: Program, expected: RunResult, got: RunResult, found: Difference) -> bool:
    """A concat of columns by labels that are a RangeIndex here and an Index in pandas, which refuses to unite repeated ones."""
    raised = expected.errors.get(found.step)
    return (
        found.kind == "no error"
        and isinstance(raised, pandas.errors.InvalidIndexError)
        and "concat(" in program.steps[found.step].code
        and concatenates_with_ranges(program, expected, got, found)
    )


def _stored_without_columns(program: Program, expected: RunResult, got: RunResult, found: Difference) -> bool:
    """A Parquet file of a frame without columns, which has rows only if their labels are stored (not a RangeIndex)."""
    if found.where not in ("pandas.read_parquet", "pandas.read_feather") or found.step < 0:
        return False
    written = [expected.values.get(name) for name in program.steps[found.step].uses]
    return any(isinstance(one, pandas.DataFrame) and not one.shape[1] for one in written)


def _downcast_products(program: Program, expected: RunResult, got: RunResult, found: Difference) -> bool:
    """Products of small integers, which pandas casts back to the small dtype if the results of all columns of a block fit."""
    small = re.search(r"dtype: .*\bu?int(8|16|32), not u?int64$", found.what) is not None
    code = program.steps[found.step].code if found.step >= 0 else ""
    of_totals = re.search(r"\b(cum)?(prod|sum)\b", f"{found.where} {code}") is not None
    return found.kind == "dtype" and small and of_totals and _equal_up_to_dtypes(expected, got, found)


def _rounded_out_of_range(program: Program, expected: RunResult, got: RunResult, found: Difference) -> bool:
    """Integers near the limits of their dtype, rounded to tens: NumPy's cast back overflows."""
    if found.kind != "values" or not found.where.endswith(".round") or found.step < 0:
        return False
    tens = re.search(r"round\((decimals=)?-\d|: -\d", program.steps[found.step].code) is not None
    tables = [expected.values.get(name) for name in program.steps[found.step].uses]
    columns = [one.iloc[:, i] for one in tables if isinstance(one, pandas.DataFrame) for i in range(one.shape[1])]
    columns += [one for one in tables if isinstance(one, pandas.Series)]
    integers = [one for one in columns if isinstance(one.dtype, np.dtype) and one.dtype.kind in "iu" and len(one)]
    return tens and any(_near_limits(one) for one in integers)


def _near_limits(integers: pandas.Series) -> bool:
    """Whether some of the integers are within a thousand of the limits of their dtype."""
    limits = np.iinfo(integers.dtype)
    low = limits.min < 0 and int(integers.min()) < limits.min + 1000
    return limits.bits >= 32 and (low or int(integers.max()) > limits.max - 1000)


def _memory_of_strings(program: Program, expected: RunResult, got: RunResult, found: Difference) -> bool:
    """The memory usage of strings, which depends on Arrow's layout."""
    return found.kind in ("value", "values") and found.where.endswith(".memory_usage")


def _float32_overflow(program: Program, expected: RunResult, got: RunResult, found: Difference) -> bool:
    """A sum of 32-bit floats whose partial sums overflow, although the sum is in range."""
    table = expected.values.get(found.variable)
    columns = table.to_frame() if isinstance(table, pandas.Series) else table
    if found.kind != "values" or not isinstance(columns, pandas.DataFrame):
        return False
    small = any(str(dtype).lower().startswith(("float32", "float[")) for dtype in columns.dtypes)
    summed = any(re.search(r"\b(cumsum|sum|mean)\b", step.code) for step in program.steps)
    return small and summed and re.search(r", not .*\b(nan|inf)\b", found.what) is not None


def _shared_timestamps(program: Program, expected: RunResult, got: RunResult, found: Difference) -> bool:
    """Timestamps that changed because integers were written to: pandas' ``astype`` to integers shares the array."""
    casts = any(re.search(r"\.astype\(.*int64", step.code) for step in program.steps)
    return (
        found.kind == "values"
        and "Time" in found.what
        and casts
        and equal_with_copying_astype(program, expected, got, found)
    )


def _repeated_labels(program: Program, expected: RunResult, got: RunResult, found: Difference) -> bool:
    """A concat of columns of tables with equal, repeated labels, which pandas allows only if they share the index object."""
    code = program.steps[found.step].code if found.step >= 0 else ""
    unequal = found.kind == "error" and found.raised.startswith("InvalidIndexError")
    return unequal and "concat(" in code and raised_with_separate_labels(program, expected, got, found)


def _nan_labels(program: Program, expected: RunResult, got: RunResult, found: Difference) -> bool:
    """Repeated labels of Arrow floats with NaN. Such an index equals only itself, so pandas aligns two of them by lookups, which fail."""
    if found.kind != "error" or not found.raised.startswith("ValueError") or "duplicate labels" not in found.what:
        return False
    tables = [expected.values.get(name) for name in program.steps[found.step].uses] if found.step >= 0 else []
    indexes = [one.index for one in tables if isinstance(one, (pandas.DataFrame, pandas.Series))]
    return any(not one.is_unique and not one.equals(one.copy(deep=True)) for one in indexes)


def _position_message(program: Program, expected: RunResult, got: RunResult, found: Difference) -> bool:
    """The message about a position out of bounds, which depends on the number of blocks."""
    texts = re.compile(r"index \d+ is out of bounds for axis|tuple index out of range")
    both = all(map(texts.search, found.what.split(", not ", 1)))
    return found.kind == "message" and found.where.endswith("iloc.__setitem__") and both


def _none_in_blocks(program: Program, expected: RunResult, got: RunResult, found: Difference) -> bool:
    """``None`` or NaN as the missing value of booleans that were converted to objects."""
    written = re.search(r"(None NoneType, not nan float|nan float, not None NoneType)$", found.what) is not None
    if found.kind not in ("value", "values") or not written:
        return False
    name = found.variable
    one, other = (_without_none(values.get(name)) for values in (expected.values, got.values))
    made = any(re.search(r"\.(where|mask)\(", step.code) for step in program.steps)
    return made and difference(one, other, closeness(expected.values, [name])) is None


def _without_none(value: object) -> object:
    """Replace ``None`` by NaN in columns of objects."""
    if isinstance(value, pandas.Series):
        value = pandas_copy(value)
        return value.where(value.notna(), np.nan) if value.dtype == object else value
    if isinstance(value, pandas.DataFrame):
        value = pandas_copy(value)
        for i in range(value.shape[1]):
            value.isetitem(i, _without_none(value.iloc[:, i]))
    return value


EXPLAINED: tuple[Explained, ...] = (
    Explained("Errors that depend on the data", _raised_late),
    Explained("Errors that depend on the data", _other_cause_in_message),
    Explained("Errors that depend on the data", _no_groups),
    Explained("Errors that depend on the data", _partial_step),
    Explained("Index or RangeIndex", _label_of_range),
    Explained("Index or RangeIndex", _concatenated_ranges),
    Explained("Index or RangeIndex", _stored_without_columns),
    Explained("The dtype of integers divided by zero", _downcast_products),
    Explained("Integers rounded beyond their range", _rounded_out_of_range),
    Explained("crosstab of columns with equal, repeated labels", _repeated_labels),
    Explained("crosstab of columns with equal, repeated labels", _nan_labels),
    Explained("One array, one object", _shared_timestamps),
    Explained("One array, one object", _read_only),
    Explained("Blocks", _memory_of_strings),
    Explained("Blocks", _none_in_blocks),
    Explained("Blocks", _position_message),
    Explained("The last digits of floating sums", _float32_overflow),
    Explained("freq of a DatetimeIndex", _freq),
    Explained("The dtype of integers divided by zero", _divided_by_zero),
)


def explanation(program: Program, expected: RunResult, got: RunResult, found: Difference) -> str | None:
    """The heading of the section that documents a difference; None if there is none."""
    return next((one.section for one in EXPLAINED if one.applies(program, expected, got, found)), None)
