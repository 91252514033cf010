"""The ``index`` and ``columns`` of a lazy object: Index objects whose name and frequency users may set, and lazy row labels.

``df.index`` must return the same object each time, and ``df.index.name = "x"`` must rename the axis of ``df``. So the Index is
stored beside the view (:func:`row_axis`, :func:`column_axis`), and :func:`current_view` applies its present name to the view.
``df.index.freq = None`` is handled in the same way; pandas itself sets it in some alignments.

Row labels whose class is known beforehand are computed when their values are first read. Until then they are a true pandas
Index without data, and a descriptor that is added to pandas' classes computes the data (:class:`_LazyData`). Python uses the
descriptor only for an Index that has no data in its ``__dict__``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pandas as pd

from craton import locks
from craton.pandas.core import stand_ins
from craton.pandas.core.dtypes import DtypeObj, is_carried
from craton.pandas.core.execute import count_rows, materialise
from craton.pandas.core.identities import with_identity
from craton.pandas.core.view import IndexSpec, View


class _LazyData:
    """Computes the data of an Index from :func:`_lazy_index` when it is first read."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, obj: Any, owner: type | None = None) -> Any:
        held = None if obj is None else obj.__dict__.get("_craton_view")
        if held is None:
            raise AttributeError(self._name)
        state = obj.__dict__
        with locks.objects.hold(id(state)):
            if self._name in state:  # another thread has just computed it
                pass
            elif self._name == "_range":
                state["_range"] = range(count_rows(held))
            else:
                _fill(state, _compute_labels(held))
        return state[self._name]


def _fill(state: dict[str, Any], index: Any) -> None:
    """Give a lazy Index, by its ``__dict__``, the data of one that has been computed."""
    if isinstance(index, pd.RangeIndex):
        state["_range"] = index._range  # type: ignore[attr-defined]
        return
    state.setdefault("_freq", getattr(index, "_freq", None))  # a user may have set it
    state["_data"] = index._data


class _LazyFreq(_LazyData):
    """The frequency of a lazy Index, which is computed with its data. For any other Index: None, as in pandas."""

    def __get__(self, obj: Any, owner: type | None = None) -> Any:
        lazy = obj is not None and "_craton_view" in obj.__dict__
        return super().__get__(obj, owner) if lazy else None


pd.Index._data = _LazyData("_data")
pd.DatetimeIndex._freq = _LazyFreq("_freq")
pd.TimedeltaIndex._freq = _LazyFreq("_freq")
pd.RangeIndex._range = _LazyData("_range")


def planned_labels(index: Any) -> View | None:
    """The row labels of a lazy Index as a view of one column; None if the Index has been computed."""
    state = getattr(index, "__dict__", {})
    held: View | None = state.get("_craton_view")
    if held is None or "_data" in state or "_range" in state:
        return None
    held = held.numbered()
    return replace(held, values=held.index.values, labels=pd.Index(held.index.names), index=IndexSpec())


def _compute_labels(held: View) -> pd.Index:
    return materialise(View(held.base, (), held.labels[:0], held.index, held.rows))[1]


def labels_of(held: View) -> pd.Index:
    """The row labels as an Index, which is lazy where its class is known beforehand."""
    if not _has_known_class(held.index):
        return _compute_labels(held)
    if held.index.kind == "labels":
        return with_identity(held, _lazy_index(held, _empty(held.index.values[0].dtype)))
    if held.rows is None:
        return with_identity(held, _lazy_index(held, pd.RangeIndex(0)))
    return with_identity(held, pd.RangeIndex(held.rows, name=held.index.names[0]))


def _has_known_class(index: IndexSpec) -> bool:
    """Whether the class of an Index does not depend on the values."""
    if index.kind != "labels":
        return index.kind == "default"
    value = index.values[0]
    return value.definite and index.freq is None and not is_carried(value.dtype)


def _empty(dtype: DtypeObj) -> pd.Index:
    """An empty Index of the class that pandas uses for a dtype."""
    return pd.Index(stand_ins.column(dtype).array, copy=False)


def _lazy_index(held: View, like: pd.Index) -> pd.Index:
    index: Any = object.__new__(type(like))
    index.__dict__.update({key: item for key, item in like.__dict__.items() if key not in ("_data", "_range", "_freq")})
    index._cache = {}
    index._reset_identity()
    index._name = held.index.names[0]
    index.__dict__["_craton_view"] = held
    if "_references" in like.__dict__:
        index._references = type(like._references)()  # type: ignore[attr-defined]
        index._references.add_index_reference(index)
    return index  # type: ignore[no-any-return]


# -- the axes of an object -------------------------------------------------------------------------------------------


def row_axis(state: dict[str, Any]) -> pd.Index | None:
    """The ``index`` of a lazy object, given its ``__dict__``; None if the object has been computed."""
    with locks.objects.hold(id(state)):
        held = current_view(state)
        if held is None:
            return None
        known = state.get("_row_axis")
        if known is None or known[0] != (held.base, held.index):
            known = keep_row_axis(state, held, labels_of(held))
        return known[1]  # type: ignore[no-any-return]


def computes_levels(state: dict[str, Any]) -> bool:
    """Whether reading the ``index`` of a lazy object, given its ``__dict__``, runs a plan for the levels of the row labels."""
    held = current_view(state)
    return held is not None and held.index.kind == "multi" and computed_row_axis(state, held) is None


def keep_row_axis(state: dict[str, Any], held: View, labels: pd.Index) -> tuple[Any, pd.Index, Any]:
    """Store an Index, with its present frequency, as the ``index`` of the object that has this ``__dict__`` and this view."""
    known = state["_row_axis"] = ((held.base, held.index), labels, _frequency_now(labels))
    return known


def computed_row_axis(state: dict[str, Any], held: View) -> pd.Index | None:
    """The ``index`` of an object with this view, if it has several levels and has been computed."""
    rows = state.get("_row_axis")
    if rows is None or held.index.kind != "multi" or rows[0] != (held.base, held.index):
        return None
    return rows[1]  # type: ignore[no-any-return]


def kept_row_axis(state: dict[str, Any], held: View, index: pd.Index) -> pd.Index:
    """The row labels of an object that has been computed: the Index that users already have, if they have one."""
    rows = state.get("_row_axis")
    if rows is None or rows[0] != (held.base, held.index) or type(rows[1]) is not type(index):
        return index
    kept: pd.Index = rows[1]
    data = kept.__dict__
    if "_craton_view" in data and not ("_data" in data or "_range" in data):
        _fill(data, index)
    return kept


def kept_column_axis(state: dict[str, Any], held: View) -> pd.Index:
    """The column labels of a frame that has been computed: the Index that users already have, if they have one.

    Otherwise it is a new one, since other objects share that of the view, and users can rename an Index in place.
    """
    columns = state.get("_column_axis")
    known: pd.Index = columns[1] if columns is not None and columns[0] is held.labels else held.labels.copy()
    return known


def _frequency_now(labels: pd.Index) -> Any:
    """The frequency of row labels, without computing them: a frequency that a user has set is already in their ``__dict__``."""
    return labels.__dict__.get("_freq")


def column_axis(state: dict[str, Any]) -> pd.Index | None:
    """The ``columns`` of a lazy frame, given its ``__dict__``; None if the frame has been computed."""
    with locks.objects.hold(id(state)):
        held = current_view(state)
        if held is None:
            return None
        known = state.get("_column_axis")
        if known is None or known[0] is not held.labels:
            known = state["_column_axis"] = (held.labels, held.labels.view())
        return known[1]  # type: ignore[no-any-return]


def current_view(state: dict[str, Any]) -> View | None:
    """The view of a lazy object, with the present names and frequency of its axes; None if the object has been computed.

    Another thread may compute the object at any moment, so callers must not rely on an earlier check.
    """
    held: View | None = state.get("_view")
    if held is None or ("_row_axis" not in state and "_column_axis" not in state):
        return held
    with locks.objects.hold(id(state)):
        held = state.get("_view")
        return None if held is None else _with_changed_axes(state, held)


def _with_changed_axes(state: dict[str, Any], held: View) -> View:
    """The view with the present names and frequency of the axes."""
    rows, columns = state.get("_row_axis"), state.get("_column_axis")
    if rows is not None and rows[0] == (held.base, held.index):
        labels, freq, index = rows[1], _frequency_now(rows[1]), held.index
        if tuple(labels.names) != index.names:
            index = index.renamed(labels.names)
        if freq != rows[2]:
            index = replace(index, freq=freq, consecutive_only=False)
        if index is not held.index:
            held = state["_view"] = replace(held, index=index)
            keep_row_axis(state, held, labels)
    if columns is not None and columns[0] is held.labels and list(columns[1].names) != list(held.labels.names):
        held = replace(held, labels=columns[1].view())
        state["_column_axis"] = (held.labels, columns[1])
        state["_view"] = held
    return held
