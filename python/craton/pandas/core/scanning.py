"""Scans of pandas' own memory: which memory a plan may read without a copy, and which must be copied first.

A plan runs later than the call that built it, but must give the result that the call would have given. So nothing may write to the
memory that it reads.

- *pandas* copies a block before a write if other blocks share its memory. Plans are registered like such a block
  (:func:`copy_before_writes`).
- *Users* can write without pandas: through the array that was passed to ``Series(array, copy=False)``, or through
  ``Series.array``. Memory to which anything but pandas refers is copied when it is scanned. Each later call compares it with the
  copy, and scans it again if it differs. Arrays that users get after a scan are views of a copy (:func:`unshare`).

Other references are found by counting: pandas lists the blocks and Indexes that share memory, and Python counts all references.
Arrow arrays and the labels of an Index are immutable.
"""

from __future__ import annotations

import sys
import weakref
from collections import Counter
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from pandas.arrays import ArrowExtensionArray

from craton.errors import Unsupported
from craton.pandas.core.align import memory_of, same_index
from craton.pandas.core.dtypes import OBJECT
from craton.pandas.core.view import Value, View, frequency
from craton.records import dataclass
from craton.refusals import Refusal

#: The number of values in one comparison.
_COMPARED_VALUES = 1 << 20
#: Packages whose objects own memory that is never written to.
_IMMUTABLE_OWNERS = ("polars", "pyarrow", "craton")


#: Arrays that users may write to, each with the copy that a view reads instead.
Watched: TypeAlias = "tuple[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]], ...]"


class _Plan:
    """Represents all plans in the lists of references that pandas keeps for each block."""


_PLANS = _Plan()


def copy_before_writes(manager: Any) -> None:
    """Make pandas copy the blocks of a manager before a write, for the lifetime of the blocks.

    Plans read the blocks without a copy, and results may share their memory after the plans and the scanned object are gone. So
    each block gets a reference that is never removed.
    """
    for block in manager.blocks:
        if not _is_kept(block):
            block.refs.referenced_blocks.append(weakref.ref(_PLANS))


def _is_kept(block: Any) -> bool:
    return any(reference() is _PLANS for reference in block.refs.referenced_blocks)


@dataclass(frozen=True, slots=True)
class Scanned:
    """A view that scans the memory of a manager.

    Parameters
    ----------
    fingerprint
        The fingerprint of the manager when it was scanned.
    snapshot
        A shallow copy of the manager, which keeps the memory alive.
    view
        The view that scans it.
    watched
        Arrays that users may write to, each with the copy that the view reads instead.
    before
        The scan of the same columns under the row labels that they had before.
    """

    fingerprint: tuple[Any, ...]
    snapshot: Any
    view: View
    watched: Watched = ()
    before: Scanned | None = None

    def matches(self, manager: Any) -> bool:
        """Whether the view still has the content of a manager."""
        return fingerprint(manager) == self.fingerprint and unwritten(self.watched)

    def matches_but_labels(self, manager: Any) -> bool:
        """Whether the view still has the columns of a frame's manager, which has got other row labels."""
        if manager.ndim != 2 or len(manager.axes[1]) != len(self.snapshot.axes[1]):
            return False
        known = len(manager.blocks) + 1  # the blocks, and the axis of the columns
        return fingerprint(manager)[:known] == self.fingerprint[:known] and unwritten(self.watched)


def unwritten(watched: Watched) -> bool:
    """Whether the arrays that users may write to still equal the copies that a view reads."""
    return all(_equal(*pair) for pair in watched)


def snapshot_of(manager: Any) -> tuple[Any, list[Any], Watched]:
    """A manager's columns in memory that is not written to.

    Returns
    -------
    tuple of (manager, list of arrays, watched arrays)
        A shallow copy of the manager; its columns, copied where users may write to them; the arrays as in :class:`Scanned`.

    Raises
    ------
    Unsupported
        If users may write to an array of arrays, or to the objects of an object that has no other columns. pandas' own results share
        them, those of a plan cannot.
    """
    foreign = [not _is_kept(block) and not _has_only_pandas_references(block) for block in manager.blocks]
    only_objects = all(block.dtype == OBJECT for block in manager.blocks)
    for block, shared in zip(manager.blocks, foreign, strict=True):
        if shared and (only_objects or _is_nested(block.values)):
            raise Unsupported(Refusal.SHARED_ARRAY, block.dtype)
    foreign = [shared or _is_nested(block.values) for block, shared in zip(manager.blocks, foreign, strict=True)]
    snapshot = manager.copy(deep=False)
    columns: list[Any] = [None] * (len(snapshot.axes[0]) if snapshot.ndim == 2 else 1)
    watched = []
    for block, shared in zip(snapshot.blocks, foreign, strict=True):
        values = block.values
        if shared:
            values = values.copy()
            watched += list(zip(_memory(block.values), _memory(values), strict=True))
        else:
            block.refs.referenced_blocks.append(weakref.ref(_PLANS))
        for row, position in enumerate(block.mgr_locs if snapshot.ndim == 2 else [0]):
            columns[position] = values[row] if values.ndim == 2 else values
    return snapshot, columns, tuple(watched)


# -- objects that share columns of a frame ----------------------------------------------------------------------------


class SharedColumns:
    """A frame in memory, of which other objects share columns, and the view of its latest scan.

    pandas' own selection of columns returns views of the frame's memory. A plan over them reads the scan of the frame, so that plans
    over a frame and over its columns have one source, and each column is scanned once. The objects refer to this one, which keeps
    neither the frame nor its memory alive.
    """

    __slots__ = ("_addresses", "_base", "_values", "_watched", "frame")

    def __init__(self, frame: Any) -> None:
        self.frame = weakref.ref(frame)
        self._base: weakref.ref[Any] | None = None
        self._values: tuple[Value, ...] = ()
        self._watched: Watched = ()
        self._addresses: list[Any] = []

    def record(self, scan: Scanned) -> None:
        """Record a scan of the frame."""
        self._base, self._values, self._watched = weakref.ref(scan.view.base), scan.view.values, scan.watched
        self._addresses = addresses_of(scan.snapshot)  # this memory exists as long as the scan, or is watched

    def view_of(self, manager: Any, labels: pd.Index) -> tuple[View, Watched] | None:
        """The view of a manager over the scan, and the arrays that users may write to.

        None if the manager has other memory or other row labels, or if the scan has been freed.
        """
        base: Any = None if self._base is None else self._base()
        memory = None if base is None else memory_of(base.source)
        if memory is None or not unwritten(self._watched):
            return None
        index = manager.axes[-1]
        if not same_index(index, memory.index) or frequency(index) != memory.spec.freq:
            return None
        places = places_of(addresses_of(manager), self._addresses)
        if places is None:
            return None
        spec = replace(memory.spec, names=tuple(index.names))
        return View(base, tuple(self._values[place] for place in places), labels, spec, len(index)), self._watched


def share_columns(made: Any, frame: Any) -> Any:
    """Record that an object shares columns of a frame in memory, and return the object."""
    state = frame.__dict__
    shared = state.get("_shared")
    if shared is None:
        shared = state["_shared"] = SharedColumns(frame)
        if "_scan" in state:
            shared.record(state["_scan"])
    made.__dict__["_shared_from"] = shared
    return made


def addresses_of(manager: Any) -> list[Any]:
    """For each column of a manager, a value that is equal for two columns that share all of their memory, while both exist."""
    if manager.ndim == 1:
        return [_address(manager.blocks[0].values)]
    found: list[Any] = [None] * len(manager.axes[0])
    for block in manager.blocks:
        values = block.values
        for row, position in enumerate(block.mgr_locs):
            found[position] = _address(values[row] if values.ndim == 2 else values)
    return found


def places_of(addresses: list[Any], others: list[Any]) -> list[int] | None:
    """The position of each address among others; None if one of them is not there."""
    known = {address: place for place, address in reversed(list(enumerate(others)))}
    places = [known.get(address) for address in addresses]
    return None if None in places else places  # type: ignore[return-value]


def _address(values: Any) -> Any:
    arrow = getattr(values, "_pa_array", None)
    if arrow is not None:
        return id(arrow), values.dtype
    memory = _memory(values)
    if not memory:
        return object()  # unequal to all others
    return (values.dtype, *((array.ctypes.data, array.shape, array.strides, array.dtype.str) for array in memory))


# -- fingerprints -----------------------------------------------------------------------------------------------------


class _ById:
    """Compares an object by identity, and keeps it alive so that its id is not reused."""

    __slots__ = ("held",)

    def __init__(self, held: object) -> None:
        self.held = held

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ById) and self.held is other.held

    def __hash__(self) -> int:
        return id(self.held)


def fingerprint(manager: Any) -> tuple[Any, ...]:
    """A value that changes when a manager's data or labels are replaced: its arrays and axes by identity, and the axes' names and
    frequencies.
    """
    return (
        *(_ById(getattr(block.values, "_pa_array", block.values)) for block in manager.blocks),
        *(_ById(axis) for axis in manager.axes),
        *(tuple(axis.names) for axis in manager.axes),
        *(getattr(axis, "freq", None) for axis in manager.axes),
    )


def unshare(obj: Any) -> None:
    """Copy the data of a Series that plans read, before the user gets a writeable array of it."""
    manager = obj._mgr
    (block,) = manager.blocks
    if not isinstance(block.values, ArrowExtensionArray) and _is_kept(block):
        state = obj.__dict__
        state.pop("_scan", None)
        state["_mgr"] = manager.copy(deep=True)


# -- references to memory ---------------------------------------------------------------------------------------------


def _memory(values: Any) -> list[np.ndarray[Any, Any]]:
    """The NumPy arrays that hold the data of an array; none for Arrow arrays."""
    if isinstance(values, np.ndarray):
        return [values]
    names = ("_ndarray", "_data", "_mask", "_codes")
    if isinstance(values, ArrowExtensionArray):
        return []
    if isinstance(values, pd.arrays.IntervalArray):
        return [array for side in (values._left, values._right) for array in _memory(side)]  # type: ignore[attr-defined]
    if isinstance(values, pd.arrays.SparseArray):
        return [values._sparse_values]  # type: ignore[attr-defined]
    return [held for name in names if isinstance(held := getattr(values, name, None), np.ndarray)]


def _has_only_pandas_references(block: Any) -> bool:
    """Whether only pandas' blocks and Indexes that pandas lists for the block refer to its memory."""
    found: dict[int, Any] = {}
    known: Counter[int] = Counter()
    _count_known_references(block, found, known)
    return all(_has_immutable_base(one) for one in found.values()) and not _has_other_references(found, known)


def _count_known_references(block: Any, found: dict[int, Any], known: Counter[int]) -> None:
    """Collect the arrays of a block's memory, and count the references to each that come from pandas."""
    wanted = {id(_root(array)) for array in _memory(block.values)}
    holders = {id(holder): holder for reference in block.refs.referenced_blocks if (holder := reference()) is not None}
    holders[id(block)] = block
    seen: set[int] = set()
    for holder in holders.values():
        if holder is _PLANS:
            continue
        values = holder._data if isinstance(holder, pd.Index) else holder.values
        known[id(values)] += 1
        if id(values) in seen:
            continue
        seen.add(id(values))
        if holder is block:
            found[id(values)] = values
        for array in _memory(values):
            if array is not values:
                known[id(array)] += 1
            if array is not values and id(array) in seen:
                continue
            seen.add(id(array))
            root = _root(array)
            if root is not array:
                known[id(root)] += 1
            if holder is block:
                found[id(array)] = array
            if id(root) in wanted:
                found[id(root)] = root


def _is_nested(values: Any) -> bool:
    """Whether an array consists of arrays, to which users may refer even if they do not refer to the array itself."""
    return isinstance(values, (pd.arrays.IntervalArray, pd.arrays.SparseArray))


def _root(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def _has_immutable_base(array: Any) -> bool:
    """Whether an array owns its memory, or the owner never writes to it."""
    if not isinstance(array, np.ndarray) or isinstance(array.base, np.ndarray):
        return True
    base: Any = array.base
    if base is None:
        return bool(array.flags.owndata)
    if isinstance(base, memoryview):
        base = base.obj
    kind = type(base)
    if kind is bytes or repr(base).startswith('<capsule object "arrow::Buffer"'):
        return True  # pickle and pyarrow allocated it for this array
    return not array.flags.writeable and (
        kind.__module__.partition(".")[0] in _IMMUTABLE_OWNERS or kind.__name__ == "PySeries"
    )


def _references(found: dict[int, Any], key: int) -> int:
    return sys.getrefcount(found[key])


def _counting_overhead() -> int:
    """The number of references that :func:`_references` itself adds to a count."""
    holder = [np.empty(1)]
    found = {id(holder[0]): holder[0]}
    return _references(found, next(iter(found))) - 1


_OVERHEAD = _counting_overhead()


def _has_other_references(found: dict[int, Any], known: Counter[int]) -> bool:
    return any(_references(found, key) - _OVERHEAD > known[key] for key in found)


def _equal(one: np.ndarray[Any, Any], other: np.ndarray[Any, Any]) -> bool:
    """Whether two arrays hold the same bits. Objects are compared by identity, because 1 == True, and NA equals nothing."""
    if one.dtype.kind != "O" and one.dtype.itemsize in (1, 2, 4, 8):
        unsigned = np.dtype(f"u{one.dtype.itemsize}")
        one, other = one.view(unsigned), other.view(unsigned)
    if one.ndim == 2 and one.shape[0] > one.shape[1]:
        one, other = one.T, other.T
    rows = zip(one, other, strict=True) if one.ndim == 2 else [(one, other)]
    same = _same_bytes if one.dtype.kind in "Oc" else np.array_equal
    return all(
        same(mine[start : start + _COMPARED_VALUES], its[start : start + _COMPARED_VALUES])
        for mine, its in rows
        for start in range(0, len(mine), _COMPARED_VALUES)
    )


def _same_bytes(one: np.ndarray[Any, Any], other: np.ndarray[Any, Any]) -> bool:
    return one.tobytes() == other.tobytes()  # the bytes of an object array are the addresses of the objects
