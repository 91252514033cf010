"""Compares results by everything that users can observe: class, values, dtypes, labels, order, names. It is fast if they are equal.

Floats may differ by the rounding that depends on the order of additions: by 1e-9 of the value, or by 1e-12 of the largest number in
the program (1e-5 and 1e-6 for 32-bit floats). Everything else must be equal.
"""

from __future__ import annotations

import collections.abc
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas

#: Indexers and group-bys, for which Craton has subclasses of pandas' classes.
_SUBCLASSED = {"LocIndexer", "iLocIndexer", "DataFrameGroupBy", "SeriesGroupBy", "AtIndexer", "iAtIndexer"}
#: Types for which Python's equality is exact, so that a list of one of them is compared as a whole.
_PLAIN = {int, str, float, bool}
#: By bits of the float: the tolerances relative to the value, and to the largest number.
TOLERANCE = {64: (1e-9, 1e-12), 32: (1e-5, 1e-6)}


@dataclass(frozen=True, slots=True)
class Closeness:
    """The tolerance with which floats are compared.

    Parameters
    ----------
    magnitude
        The largest number of the program, of which the absolute tolerance is a fraction.
    bits
        32 if the program computes with 32-bit floats.
    exact
        Whether floats must be equal.
    signs
        Whether 0.0 and -0.0 are distinguished.
    """

    magnitude: float = 1.0
    bits: int = 64
    exact: bool = False
    signs: bool = False

    def __call__(self, one: float, other: float, bits: int) -> bool:
        if self.signs and one == 0 == other:
            return math.copysign(1.0, one) == math.copysign(1.0, other)
        if one == other or (one != one and other != other):
            return True
        if self.exact or not (math.isfinite(one) and math.isfinite(other)):
            return False
        relative, absolute = TOLERANCE[min(bits, self.bits)]
        return abs(one - other) <= max(relative * abs(one), absolute * max(self.magnitude, 1.0))


DEFAULT_CLOSENESS = Closeness()


def difference(expected: Any, got: Any, close: Closeness = DEFAULT_CLOSENESS) -> str | None:
    """A short description of the first difference, which starts with its kind; None if there is none.

    Parameters
    ----------
    expected, got
        The results of pandas and of Craton.
    close
        The tolerance for floats.
    """
    if expected is got:
        return None
    if isinstance(expected, pandas.DataFrame):
        return _frames(expected, got, close)
    if isinstance(expected, pandas.Series):
        if not isinstance(got, pandas.Series):
            return f"class: {type(got).__name__}, not Series"
        if not _label_equal(expected.name, got.name):
            return f"name: {got.name!r}, not {expected.name!r}"
        labels = _index(expected.index, got.index, "row labels", close)
        if labels is not None and not labels.startswith("freq"):
            return labels
        return _arrays(expected._values, got._values, "values", close) or labels  # type: ignore[attr-defined]
    if isinstance(expected, pandas.Index):
        return _index(expected, got, "index", close)
    if isinstance(expected, (np.ndarray, pandas.api.extensions.ExtensionArray)):
        if type(expected).__name__ != type(got).__name__:
            return f"class: {type(got).__name__}, not {type(expected).__name__}"
        return _arrays(expected, got, "array", close)
    if type(expected).__module__ in ("pandas.core.indexes.accessors", "pandas.core.strings.accessor"):
        return None
    if isinstance(expected, tuple) and hasattr(expected, "_fields"):
        expected, got = tuple(expected), tuple(got) if isinstance(got, tuple) else got
    if type(expected) is not type(got):
        if type(expected).__name__.strip("_") == type(got).__name__.strip("_") in _SUBCLASSED:
            return None  # Craton's subclass of the same pandas class
        return f"class: {type(got).__name__} {_short(got)}, not {type(expected).__name__} {_short(expected)}"
    if isinstance(expected, (tuple, list)):
        if len(expected) != len(got):
            return f"length: {len(got)}, not {len(expected)}"
        kinds = set(map(type, expected))
        if kinds <= _PLAIN and kinds == set(map(type, got)) and len(kinds) <= 1 and expected == got:
            return None
        for one, other in zip(expected, got, strict=True):
            if (found := difference(one, other, close)) is not None:
                return found
        return None
    if isinstance(expected, dict):
        return difference(list(expected.items()), list(got.items()), close)
    if isinstance(expected, (float, np.floating)):
        bits = 32 if isinstance(expected, (np.float32, np.float16)) else 64
        return None if close(float(expected), float(got), bits) else f"value: {got!r}, not {expected!r}"
    if isinstance(expected, str) and expected != got:
        return None if _same_text(expected, got) else f"text: {_short(got)}, not {_short(expected)}"
    if isinstance(expected, collections.abc.Hashable) and isinstance(
        expected, (str, bytes, int, bool, np.generic, pandas.Timestamp, pandas.Timedelta, type(pandas.NA), type(None))
    ):
        same = expected is got or (pandas.isna(expected) and pandas.isna(got)) or expected == got
        if same and isinstance(expected, (pandas.Timestamp, pandas.Timedelta)) and expected is not pandas.NaT:
            same = expected.unit == got.unit and getattr(expected, "tz", None) == getattr(got, "tz", None)
        return None if same else f"value: {got!r}, not {expected!r}"
    return None  # group-bys, accessors, functions


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 160 else text[:75] + " … " + text[-75:]


def _same_text(expected: str, got: str) -> bool:
    """Whether two texts (printed frames, files) are equal up to the last digits of floats."""
    if len(expected) > 100_000:
        return False
    one, other = expected.split(), got.split()
    return len(one) == len(other) and all(a == b or _same_word(a, b) for a, b in zip(one, other, strict=True))


def _same_word(one: str, other: str) -> bool:
    ones, others = one.replace(";", ",").split(","), other.replace(";", ",").split(",")
    if len(ones) != len(others):
        return False
    for a, b in zip(ones, others, strict=True):
        if a != b:
            try:
                if "." not in a or not math.isclose(float(a), float(b), rel_tol=1e-9, abs_tol=1e-12):
                    return False
            except ValueError:
                return False
    return True


def _label_equal(one: Any, other: Any) -> bool:
    if one is other:
        return True
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(_label_equal, one, other))
    try:
        missing = pandas.isna(one) and pandas.isna(other)
        return (missing and type(one) is type(other)) or (type(one) is type(other) and bool(one == other))
    except (TypeError, ValueError):
        return False


def _frames(expected: pandas.DataFrame, got: Any, close: Closeness) -> str | None:
    if not isinstance(got, pandas.DataFrame):
        return f"class: {type(got).__name__}, not DataFrame"
    if expected.shape != got.shape:
        return f"shape: {got.shape}, not {expected.shape}"
    freq = None  # reported only if nothing else differs
    for one, other, what in ((expected.columns, got.columns, "columns"), (expected.index, got.index, "row labels")):
        if (found := _index(one, other, what, close)) is not None and not found.startswith("freq"):
            return found
        freq = freq or found
    for i in range(expected.shape[1]):
        one, other = expected._get_column_array(i), got._get_column_array(i)  # type: ignore[attr-defined]
        if (found := _arrays(one, other, f"column {expected.columns[i]!r}", close)) is not None:
            return found
    if expected.attrs != got.attrs:
        return f"attrs: {got.attrs}, not {expected.attrs}"
    return freq


def _index(expected: pandas.Index, got: Any, what: str, close: Closeness) -> str | None:
    kind = "index"
    if not isinstance(got, pandas.Index):
        return f"class: {type(got).__name__}, not Index"
    if _class(expected) != _class(got):
        if (
            {_class(expected), _class(got)} == {"Index", "RangeIndex"}
            and expected.equals(got)
            and expected.dtype == got.dtype
        ):
            return (
                None if _label_equal(expected.name, got.name) else f"names: {what} {got.name!r}, not {expected.name!r}"
            )
        return f"{kind}: {what} are a {_class(got)}, not {_class(expected)}"
    if len(expected) != len(got):
        return f"shape: {len(got)} {what}, not {len(expected)}"
    if len(expected.names) != len(got.names) or not all(map(_label_equal, expected.names, got.names)):
        return f"names: {what} are named {list(got.names)}, not {list(expected.names)}"
    if isinstance(expected, pandas.MultiIndex):
        if expected.nlevels != got.nlevels:
            return f"{kind}: {what} have {got.nlevels} levels, not {expected.nlevels}"
        for level in range(expected.nlevels):
            one, other = expected._get_level_values(level), got._get_level_values(level)  # type: ignore[attr-defined]
            found = _index(one, other, f"level {level} of {what}", close)
            if found is not None and not found.startswith("freq"):
                return found
        # The order of a level's labels determines how rows are sorted. Labels that no row has do not matter.
        for level, (one, other) in enumerate(zip(_used(expected), _used(got), strict=True)):
            if difference(_present(one), _present(other), close) is not None:
                return f"levels: {level} of {what} {_short(_present(other))}, not {_short(_present(one))}"
        return None
    if isinstance(expected, pandas.RangeIndex):
        if expected.equals(got) and len(expected) > 1 and (expected.start, expected.step) != (got.start, got.step):
            return f"{kind}: {what} are {got!r}, not {expected!r}"
        return None if expected.equals(got) else f"{kind}: {what} are {_short(got)}, not {_short(expected)}"
    found = _arrays(expected._values, got._values, what, close)  # type: ignore[attr-defined]
    if found is not None:
        return found.replace("values", "index", 1) if found.startswith("values") else found
    if getattr(expected, "freq", None) != getattr(got, "freq", None):
        return f"freq: of {what} is {got.freq}, not {expected.freq}"
    return None


def _used(index: pandas.MultiIndex) -> list[pandas.Index]:
    """The labels of each level that occur in a row, in the level's order (pandas' own method orders them by appearance)."""
    pairs = zip(index.levels, index.codes, strict=True)
    return [level.take(np.unique(np.asarray(codes)[np.asarray(codes) >= 0])) for level, codes in pairs]


def _present(level: pandas.Index) -> list[Any]:
    return level[~level.isna()].astype(object).tolist()


def _class(index: pandas.Index) -> str:
    return type(index).__name__


def _arrays(expected: Any, got: Any, what: str, close: Closeness) -> str | None:
    if isinstance(expected.dtype, pandas.CategoricalDtype) and isinstance(got.dtype, pandas.CategoricalDtype):
        one, other = expected.dtype, got.dtype
        categories = _index(one.categories, other.categories, "categories", close)
        if one.ordered != other.ordered or (categories is not None and not categories.startswith("freq")):
            return f"dtype: {what} {_short(other)}, not {_short(one)}"
        same = np.array_equal(expected.codes, got.codes)
        return None if same else f"values: {what} {_short(list(got))}, not {_short(list(expected))}"
    if expected.dtype != got.dtype or str(expected.dtype) != str(got.dtype):
        return f"dtype: {what} {got.dtype}, not {expected.dtype}"
    if expected.shape != got.shape:
        return f"shape: {what} {got.shape}, not {expected.shape}"
    if isinstance(expected, np.ndarray):
        return _plain(expected, got, what, close)
    missing, others = np.asarray(expected.isna()), np.asarray(got.isna())
    if not np.array_equal(missing, others):
        return f"values: {what} {_short(list(got))}, not {_short(list(expected))}"
    if hasattr(expected, "_ndarray") and expected.dtype.kind in "mM":
        same = np.array_equal(expected._ndarray.view("i8"), got._ndarray.view("i8"))
        return None if same else f"values: {what} {_short(list(got))}, not {_short(list(expected))}"
    arrow = isinstance(expected, pandas.arrays.ArrowExtensionArray) and isinstance(got, type(expected))
    if arrow and expected._pa_array.equals(got._pa_array):  # type: ignore[attr-defined]
        return None
    kept = ~missing
    if isinstance(expected, pandas.core.arrays.BaseMaskedArray) and expected.dtype.kind in "iub":
        return _plain(expected._data[kept], got._data[kept], what, close)
    one, other = expected[kept], got[kept]
    if expected.dtype.kind == "f":
        # NaN that is a value, which is distinct from NA.
        return _plain(one.to_numpy(dtype=float), other.to_numpy(dtype=float), what, close)
    return _plain(np.asarray(one, dtype=object), np.asarray(other, dtype=object), what, close)


def _plain(expected: np.ndarray[Any, Any], got: np.ndarray[Any, Any], what: str, close: Closeness) -> str | None:
    kind = expected.dtype.kind
    if kind == "f":
        if np.array_equal(expected, got, equal_nan=True) and not close.signs:
            return None
        bits = 32 if expected.dtype.itemsize <= 4 else 64
        for one, other in zip(expected.ravel().tolist(), got.ravel().tolist(), strict=True):
            if not close(one, other, bits):
                return f"values: {what} {_numbers(got, expected)}"
        return None
    if kind == "O":
        for one, other in zip(expected.ravel().tolist(), got.ravel().tolist(), strict=True):
            if one is other or (type(one) is type(other) and type(one) in _PLAIN and one == other):
                continue
            if isinstance(one, type) and isinstance(other, type) and one.__name__ == other.__name__:
                continue  # pandas' class, and Craton's class of the same name
            if type(one) is not type(other) or difference(one, other, close) is not None:
                return f"values: {what} {other!r} {type(other).__name__}, not {one!r} {type(one).__name__}"
        return None
    if kind in "mM":
        expected, got = expected.view("i8"), got.view("i8")
    return None if np.array_equal(expected, got) else f"values: {what} {_numbers(got, expected)}"


def _numbers(got: np.ndarray[Any, Any], expected: np.ndarray[Any, Any]) -> str:
    if expected.ndim == 1 and len(expected) > 8:
        first = next((i for i in range(len(expected)) if not _equal(got[i], expected[i])), 0)
        return f"{got[first]!r} in row {first}, not {expected[first]!r}"
    return f"{got.tolist()}, not {expected.tolist()}"


def _equal(one: Any, other: Any) -> bool:
    return bool(one == other) or (one != one and other != other)
