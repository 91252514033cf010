"""The lazy state of DataFrame and Series: a view instead of a block manager, until the manager is first read.

pandas keeps an object's data in ``_mgr``. A lazy object has no ``_mgr`` in its ``__dict__``, so that Python finds the descriptor
:class:`LazyManager` on the class. It runs the view and stores the manager; from then on the object is an ordinary pandas object.
"""

from __future__ import annotations

import contextlib
import sys
from dataclasses import replace
from typing import Any

import pandas as pd
from pandas._config import is_nan_na
from pandas.core.flags import Flags

from craton import locks
from craton.engine.live_objects import register
from craton.errors import Unsupported
from craton.kernel.interrupts import InterruptGuard
from craton.pandas.core.axes import computed_row_axis, current_view, kept_column_axis, kept_row_axis
from craton.pandas.core.counterparts import counterpart_or_same, plannable
from craton.pandas.core.execute import block_manager, materialise, series_manager, view_of
from craton.pandas.core.identities import Identity, identity
from craton.pandas.core.native import count_fallback
from craton.pandas.core.routing import inside_pandas, is_lazy
from craton.pandas.core.scanning import (
    Scanned,
    SharedColumns,
    addresses_of,
    copy_before_writes,
    fingerprint,
    places_of,
    snapshot_of,
)
from craton.pandas.core.view import IndexSpec, View, name_index
from craton.refusals import Reason, Refusal


class LazyManager:
    """The class-level ``_mgr``, which Python uses only for instances without their own: the lazy ones."""

    def __get__(self, obj: Any, owner: type | None = None) -> Any:
        if obj is None:
            return self
        state = obj.__dict__
        with InterruptGuard(), locks.objects.hold(id(state)):
            if "_mgr" in state:  # another thread has just computed it
                return state["_mgr"]
            view = current_view(state)
            if view is None:
                raise AttributeError("_mgr")
            known = computed_row_axis(state, view) if view.values else None
            if known is None:
                arrays, index = materialise(view)
            else:
                arrays, index = materialise(replace(view, index=IndexSpec()))[0], known
            index = kept_row_axis(state, view, index)
            manager = (
                series_manager(arrays[0], index)
                if isinstance(obj, pd.Series)
                else block_manager(arrays, index, kept_column_axis(state, view))
            )
            copy_before_writes(manager)  # the result cache shares the buffers
            state["_origin"] = (fingerprint(manager), identity(view))
            state["_mgr"] = manager
            del state["_view"]
        if not inside_pandas():
            _count_materialisation(type(obj).__name__)
        return manager


#: Methods that only read the data, which does not count as a fallback. ``__init__`` makes a new object from the data.
_SINKS = frozenset(
    [
        "__init__",
        "__getattr__",
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
        "factorize",
        "searchsorted",
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


def _count_materialisation(kind: str) -> None:
    """Count a fallback of the pandas method that caused the materialisation, unless it is one of :data:`_SINKS`."""
    frame = sys._getframe(2)
    name = None
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module == "pandas._testing" or module.startswith("pandas._testing."):
            return  # a comparison of pandas.testing
        if module.startswith("pandas.") and not module.startswith("pandas.tests"):
            name = name if module == "pandas.util._decorators" else frame.f_code.co_name
        elif not module.startswith("craton."):
            break
        frame = frame.f_back  # type: ignore[assignment]
    if name is None or name in _SINKS:
        return
    label = f"{kind}.{name}"
    count_fallback(label, Reason(Refusal.METHOD), emit=True)


def lazy(cls: type, view: View, like: Any = None, other: Any = None) -> Any:
    """A lazy DataFrame or Series over a view.

    Parameters
    ----------
    cls
        The class of the result: Craton's or its pandas counterpart. A Series takes its name from the view's label.
    view
        The view of the object.
    like, other
        The objects whose ``attrs`` and flags are copied, one after the other, as by pandas' ``__finalize__``.
    """
    obj: Any = object.__new__(counterpart_or_same(cls))
    become_lazy(obj, view)
    for source in (like, other):
        if source is not None and (source._attrs or not source._flags._allows_duplicate_labels):
            obj.__finalize__(source)
            if isinstance(obj, pd.Series):
                object.__setattr__(obj, "_name", view.labels[0])  # __finalize__ also copies the name
    return obj


def become_lazy(obj: Any, view: View) -> None:
    """Make a new object, which has no data yet, a lazy one over a view."""
    state = obj.__dict__
    state["_view"] = view
    state["_attrs"] = {}
    state["_flags"] = Flags(obj, allows_duplicate_labels=True)
    if isinstance(obj, pd.Series):
        state["_name"] = view.labels[0]
    register(obj)


def refuse_unique_labels_flag(obj: Any) -> None:
    """Refuse an object whose flags forbid duplicate labels, for methods in which pandas checks only some of the new labels.

    Raises
    ------
    Unsupported
        If ``allows_duplicate_labels`` is False.
    """
    if not obj._flags._allows_duplicate_labels:
        raise Unsupported(Refusal.ATTRS_OR_FLAGS)


def view(obj: Any) -> View:
    """The view of a DataFrame or Series. For one that is in memory, it is a scan of its data.

    Raises
    ------
    Unsupported
        If it has a dtype without a physical form, or is of a user's class; or if pandas is set to distinguish NaN and NA in
        nullable dtypes, which plans do not.
    """
    if not is_nan_na():
        raise Unsupported(Refusal.NAN_AND_NA_DISTINGUISHED)
    state = obj.__dict__
    planned = current_view(state)
    if planned is not None:
        return planned
    if not isinstance(obj, (pd.DataFrame, pd.Series)):
        raise Unsupported(Refusal.NO_VIEW, type(obj).__name__)
    if not plannable(type(obj)):
        raise Unsupported(Refusal.CLASS_OF_USER, type(obj).__name__)
    if (shared := state.get("_shared_from")) is not None and not _is_scanned(obj):
        _scan_frame(shared, obj._mgr)
    with locks.objects.hold(id(state)):
        return _scanned(obj)


def _is_scanned(obj: Any) -> bool:
    scan = obj.__dict__.get("_scan")
    return scan is not None and scan.matches(obj._mgr)


def _scan_frame(shared: SharedColumns, manager: Any) -> None:
    """Scan the frame whose columns are those of a manager, if it is in memory and still has them."""
    frame = shared.frame()
    source = None if frame is None else frame.__dict__.get("_mgr")
    if source is not None and places_of(addresses_of(manager), addresses_of(source)) is not None:
        with contextlib.suppress(Unsupported):
            view(frame)


def _scanned(obj: Any) -> View:
    """The view that scans an object's data in memory, cached until the data changes."""
    state, manager = obj.__dict__, obj._mgr
    cached: Scanned | None = state.get("_scan")
    if cached is not None and cached.matches(manager):
        scanned = cached.view
        if isinstance(obj, pd.Series):
            return View(scanned.base, scanned.values, name_index(obj._name), scanned.index, scanned.rows)  # type: ignore[attr-defined]
        return scanned
    before = cached if cached is not None and cached.matches_but_labels(manager) else None
    shared: SharedColumns | None = state.get("_shared_from")
    labels = name_index(obj._name) if isinstance(obj, pd.Series) else manager.axes[0].view()  # type: ignore[attr-defined]
    if shared is not None and (found := shared.view_of(manager, labels)) is not None:
        return _with_scan(state, Scanned(fingerprint(manager), manager.copy(deep=False), *found, before))
    # pandas' pivot_table can leave blocks without columns, whose dtypes take part in the dtype of reductions.
    if isinstance(obj, pd.DataFrame) and not all(len(block.mgr_locs) for block in manager.blocks):
        raise Unsupported(Refusal.DTYPE_WITHOUT_COLUMNS)
    snapshot, columns, watched = snapshot_of(manager)
    if isinstance(obj, pd.Series):
        scanned = view_of(columns, snapshot.axes[0], labels)
    else:
        scanned = view_of(columns, snapshot.axes[1], labels)
    return _with_scan(state, Scanned(fingerprint(manager), snapshot, scanned, watched, before))


def _with_scan(state: dict[str, Any], scan: Scanned) -> View:
    """Store a scan in the ``__dict__`` of its object, and return its view."""
    state["_scan"] = scan
    if "_shared" in state:
        state["_shared"].record(scan)
    return scan.view


def identities(obj: Any) -> list[Identity]:
    """The identities of an object's content, by which a frame and a column that was taken from it are recognised.

    An object that has run may have two: that of its plan, and that of the scan of its rows. A column of it may come from either.
    After a write in place, the object has neither.
    """
    state = obj.__dict__
    planned = current_view(state)
    if planned is not None:
        return [identity(planned)]
    if "_shared_from" in state and "_scan" not in state:
        with contextlib.suppress(Unsupported):
            view(obj)
    origin, scan = state.get("_origin"), state.get("_scan")
    known = []
    if origin is not None and fingerprint(obj._mgr) == origin[0]:
        known.append(origin[1])
    if scan is not None and scan.matches(obj._mgr):
        known.append(identity(scan.view))
    while scan is not None:
        if not scan.matches(obj._mgr) and scan.matches_but_labels(obj._mgr):
            known.append(replace(identity(scan.view), rows=(object(),)))  # other labels than those of any object
        scan = scan.before
    return known


def identities_of_memory(obj: Any) -> list[Identity]:
    """The identities of the data whose memory a Series would share in pandas.

    They are its own, or those of the source of a cast for which pandas may return a view.
    """
    state = obj.__dict__
    shares: list[Identity] | None = state.get("_shares")
    if shares is None:
        return identities(obj)
    return shares if _is_unchanged(obj) else []


def _is_unchanged(obj: Any) -> bool:
    """Whether a Series has not been written to since it was made by a cast."""
    state = obj.__dict__
    if current_view(state) is not None:
        return True
    origin = state.get("_origin")
    memory = state.get("_shares_of") if origin is None else origin[0]
    return memory is not None and bool(fingerprint(obj._mgr) == memory)


def share_memory_of(made: Any, source: Any) -> None:
    """Record that in pandas the result of a cast shares the memory of its source, until one of the two is written to."""
    state = made.__dict__
    state["_shares"] = identities_of_memory(source)
    if "_view" not in state:
        state["_shares_of"] = fingerprint(made._mgr)
    if "_references" in source.__dict__:
        if _is_unchanged(source):
            state["_references"] = source.__dict__["_references"]
    elif "_view" not in source.__dict__:
        state["_references"] = source._mgr.blocks[0].refs


def shares_column(key: Any, frame: Any, place: int) -> bool:
    """Whether a Series is a column of a frame, both in memory, by the memory that they share in pandas."""
    own, source = key.__dict__.get("_mgr"), frame.__dict__.get("_mgr")
    if own is None or source is None or own.blocks[0].refs is not source.blocks[source.blknos[place]].refs:
        return False
    return addresses_of(own) == addresses_of(source)[place : place + 1]


def casts_memory_of(key: Any, frame: Any, place: int) -> bool:
    """Whether a Series is a cast of a column of a frame in memory: pandas lists both as references to the same memory."""
    references = key.__dict__.get("_references")
    if references is None or "_view" in frame.__dict__ or not _is_unchanged(key):
        return False
    manager = frame._mgr
    return manager.blocks[manager.blknos[place]].refs is references


def holds_view(obj: Any, held: View) -> bool:
    """Whether an object still has the content of an earlier view: running the plan preserves it, a write in place does not."""
    state = obj.__dict__
    planned = current_view(state)
    if planned is not None:
        return planned is held
    if isinstance(obj, pd.Series) and not name_index(obj._name).identical(held.labels):  # type: ignore[attr-defined]
        return False
    manager, scan, origin = obj._mgr, state.get("_scan"), state.get("_origin")
    if scan is not None and scan.view.base is held.base:
        return bool(scan.matches(manager))
    return origin is not None and origin[1] == identity(held) and origin[0] == fingerprint(manager)


def consolidated(obj: Any, inplace: bool) -> Any:
    """Consolidate a frame that a plan computed: return a copy, or with ``inplace`` the frame itself, with one block for each dtype.

    Most frames that pandas makes are consolidated, and some of its methods depend on the blocks. A frame that no plan computed is
    returned unchanged.
    """
    if not is_lazy(obj) and "_origin" not in obj.__dict__:
        return obj
    _ = obj._mgr
    if not inplace:
        obj = obj.copy(deep=False)
    obj._consolidate_inplace()
    return obj


def replace_state(obj: Any, new: View) -> None:
    """Replace the view of an object, as an assignment in place does."""
    state = obj.__dict__
    with locks.objects.hold(id(state)):
        state["_view"] = new
        for name in (
            "_mgr",
            "_scan",
            "_origin",
            "_cell_columns",
            "_row_queries",
            "_shares",
            "_shares_of",
            "_references",
            "_shared_from",
        ):
            state.pop(name, None)
        if isinstance(obj, pd.Series):
            state["_name"] = new.labels[0]
    register(obj)  # an object that pandas made has no plan before


def finished(obj: Any, result: View, inplace: bool = False) -> Any:
    """A new lazy object with the result of a method; with ``inplace``, None, after changing the object itself."""
    if inplace:
        replace_state(obj, result)
        return None
    return lazy(type(obj), result, obj)
