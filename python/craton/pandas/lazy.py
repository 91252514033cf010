"""The lazy state of DataFrame and Series: a view instead of a manager, until pandas asks for the manager.

pandas keeps an object's data in ``_mgr``. A lazy object has none in its ``__dict__``; :class:`LazyManager` is found on the
class instead, runs the view and stores what pandas expects. From then on the object is an ordinary pandas object.
"""

from __future__ import annotations

import sys
import weakref
from typing import Any

import pandas as pd
from pandas._config import is_nan_na
from pandas.core.flags import Flags

from craton import events, fallbacks
from craton.errors import Unsupported
from craton.pandas.axes import current
from craton.pandas.counterparts import own_class, plannable
from craton.pandas.execute import block_manager, materialise, series_manager, view_of
from craton.pandas.native import inside_pandas
from craton.pandas.sharing import register
from craton.pandas.view import Carried, View, name_index


class LazyManager:
    """The class-level ``_mgr``: reached only while an instance has none, which is while it is lazy."""

    def __get__(self, obj: Any, owner: type | None = None) -> Any:
        if obj is None:
            return self
        if "_view" not in obj.__dict__:
            raise AttributeError("_mgr")
        view = current(obj.__dict__)
        arrays, index = materialise(view)
        if isinstance(obj, pd.Series):
            manager = series_manager(arrays[0], index)
        else:
            manager = block_manager(arrays, index, view.labels)
        obj.__dict__["_mgr"] = manager
        del obj.__dict__["_view"]
        obj.__dict__["_origin"] = (_fingerprint(manager), _identities(view))
        keep_unchanged(manager)  # the buffers are shared with the result that is remembered
        obj.__dict__["_shared"] = manager.copy(deep=False)
        if not inside_pandas():
            _report(type(obj).__name__)
        return manager


#: What only asks for the data; ``__init__`` is that of the object which is made of it.
_SINKS = frozenset(
    [
        "__init__",
        "__repr__",
        "_repr_html_",
        "to_string",
        "info",
        "to_numpy",
        "values",
        "__array__",
        "to_dict",
        "to_list",
        "tolist",
        "item",
        "items",
        "iterrows",
        "itertuples",
        "__iter__",
        "__len__",
        "__reduce__",
        "__getstate__",
        "__reduce_ex__",
        "copy",
        "to_pandas",
        "__arrow_c_stream__",
        "__dataframe__",
        "equals",
        "_repr_fits_horizontal_",
        "to_html",
        "to_markdown",
        "to_latex",
        "to_json",
        "to_excel",
        "to_pickle",
        "to_sql",
        "to_records",
        "__deepcopy__",
        "__copy__",
        "array",
        "index",
    ]
)


def _report(kind: str) -> None:
    """Count the pandas method, not native, that asked for the data; asking for the data itself is no fallback."""
    frame = sys._getframe(2)
    name = None
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module == "pandas._testing" or module.startswith("pandas._testing."):
            return  # a comparison
        if module.startswith("pandas.") and not module.startswith("pandas.tests"):
            name = name if module == "pandas.util._decorators" else frame.f_code.co_name
        elif not module.startswith("craton."):
            break
        frame = frame.f_back  # type: ignore[assignment]
    if name is None or name in _SINKS:
        return
    label = f"{kind}.{name}"
    fallbacks.count(label, "not native")
    if events.active:
        events.emit("call", name=label, native=False, reason="not native", seconds=0.0, rows=None)


def lazy(cls: type, view: View, like: Any = None) -> Any:
    """A lazy DataFrame or Series over a view.

    Parameters
    ----------
    cls
        The class of the result, Craton's or the one of pandas' that it stands for; a Series takes its name from the view's label.
    view
        What it holds.
    like
        Where ``attrs`` and flags come from, as pandas' ``__finalize__`` does.
    """
    obj: Any = object.__new__(own_class(cls))
    state = obj.__dict__
    state["_view"] = view
    state["_attrs"] = {}
    state["_flags"] = Flags(obj, allows_duplicate_labels=True)
    if issubclass(cls, pd.Series):
        state["_name"] = view.labels[0]
    register(obj)
    if like is not None and (like._attrs or not like._flags._allows_duplicate_labels):
        obj.__finalize__(like)
    return obj


def view(obj: Any) -> View:
    """The view of a DataFrame or Series; one that is in memory is scanned.

    Raises
    ------
    Unsupported
        If it holds a dtype that a plan can't carry, or is of a class of the user's; or if pandas is told to tell NaN from NA
        in nullable dtypes, which plans don't.
    """
    if not is_nan_na():
        raise Unsupported("future.distinguish_nan_and_na is set")
    state = obj.__dict__
    if "_view" in state:
        return current(state)
    if not isinstance(obj, (pd.DataFrame, pd.Series)):
        raise Unsupported(f"no view of a {type(obj).__name__}")
    if not plannable(type(obj)):
        raise Unsupported(f"a class of the user's: {type(obj).__name__}")
    manager = obj._mgr
    cached = state.get("_scan")
    if cached is not None and _fingerprint(manager) == cached[0]:
        scanned: View = cached[2]
        if isinstance(obj, pd.Series):
            return View(scanned.base, scanned.values, name_index(obj._name), scanned.index, scanned.rows)  # type: ignore[attr-defined]
        return scanned
    snapshot = manager.copy(deep=False)
    if isinstance(obj, pd.Series):
        scanned = view_of([snapshot.array], snapshot.axes[0], name_index(obj._name))  # type: ignore[attr-defined]
    else:
        arrays = [snapshot.iget_values(i) for i in range(len(snapshot.axes[0]))]
        scanned = view_of(arrays, snapshot.axes[1], snapshot.axes[0])
    keep_unchanged(manager)
    state["_scan"] = (_fingerprint(manager), snapshot, scanned)
    return scanned


class _Plan:
    """Stands for the plans that read pandas' memory, among those who refer to a block."""


_PLANS = _Plan()


def keep_unchanged(manager: Any) -> None:
    """Have pandas copy the blocks of a manager before anything writes to them, for as long as they live.

    Plans read them without a copy, and their results may still be parts of them when the plans, and the object that was
    scanned, are gone. So the blocks count as referred to by one more, who never goes.
    """
    for block in manager.blocks:
        referring = block.refs.referenced_blocks
        if not any(reference() is _PLANS for reference in referring):
            referring.append(weakref.ref(_PLANS))


class _Same:
    """Equal to another exactly if both hold the same object, which stays alive meanwhile."""

    __slots__ = ("held",)

    def __init__(self, held: object) -> None:
        self.held = held

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.held is other.held

    def __hash__(self) -> int:
        return id(self.held)


def _fingerprint(manager: Any) -> tuple[Any, ...]:
    """What changes when a manager's data or labels change: its arrays and axes by identity, the axes' names."""
    return (
        *(_Same(block.values) for block in manager.blocks),
        *(_Same(axis) for axis in manager.axes),
        *(tuple(axis.names) for axis in manager.axes),
        *(getattr(axis, "freq", None) for axis in manager.axes),
    )


def column_identities(obj: Any) -> list[tuple[bytes, bytes]]:
    """What each column is, by content: the same for a column and for the Series that was taken from its frame.

    That holds whether they have been run since or not; what was written to in place is nothing that is known.
    """
    state = obj.__dict__
    if "_view" in state:
        return _identities(current(state))
    origin, scan = state.get("_origin"), state.get("_scan")
    if origin is None and scan is None:
        return []
    now = _fingerprint(obj._mgr)
    if origin is not None and now == origin[0]:
        return origin[1]  # type: ignore[no-any-return]
    return _identities(scan[2]) if scan is not None and now == scan[0] else []


def _identities(held: View) -> list[tuple[bytes, bytes]]:
    return [
        (held.base.digest, (value.expr.column if isinstance(value.expr, Carried) else value.expr).digest)
        for value in held.values
    ]


def replace_state(obj: Any, new: View) -> None:
    """Make an object hold another view: what an assignment in place does."""
    state = obj.__dict__
    for name in ("_mgr", "_scan", "_shared", "_origin", "_peeks"):
        state.pop(name, None)
    state["_view"] = new
    if isinstance(obj, pd.Series):
        state["_name"] = new.labels[0]
