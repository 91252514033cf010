"""The keys of a group-by, and the state of a lazy group-by object: the grouped view, its keys and its options."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from dataclasses import astuple, replace
from typing import Any

import pandas as pd
from pandas.api.types import is_hashable, is_scalar

from craton.errors import Unsupported
from craton.pandas.core.align import aligned
from craton.pandas.core.data_checks import has_odd_floats
from craton.pandas.core.dtypes import OBJECT, STR, family, is_carried
from craton.pandas.core.execute import count_rows, resolved
from craton.pandas.core.lazy import casts_memory_of, identities, identities_of_memory, shares_column, view
from craton.pandas.core.routing import plain_pandas
from craton.pandas.core.stand_ins import frame_like, index_like, probe, series_like, values
from craton.pandas.core.view import Value, View
from craton.pandas.groupby.key_arrays import KeyArray, attach_key, attach_objects, is_row_values
from craton.pandas.groupby.key_origins import KeyOrigin, RowLabels, TimeBins
from craton.pandas.groupby.times.bins import bins_of
from craton.pandas.values.lists.text_objects import any_string, as_strings, holds_text
from craton.records import dataclass
from craton.refusals import Refusal


@dataclass(frozen=True, slots=True)
class GroupByOptions:
    """The parameters of ``groupby``."""

    as_index: bool = True
    sort: bool = True
    group_keys: bool = True
    observed: bool = True
    dropna: bool = True


@dataclass(frozen=True, slots=True)
class GroupKey:
    """A group key: its values, its name, its number if it is a column or an index level, and the origin of values that are numbers.

    ``given`` is the user's key if it has a value for each row.
    """

    value: Value
    name: Hashable
    column: int | None = None
    level: int | None = None
    origin: KeyOrigin | None = None
    given: KeyArray | None = None


@dataclass(frozen=True, slots=True)
class Grouped:
    """A grouped view.

    Parameters
    ----------
    held
        The view of the grouped DataFrame or Series.
    keys
        The group keys, over ``held.base``.
    options
        The parameters of ``groupby``.
    positions
        The columns of ``held`` that methods aggregate: all columns that are not keys, or those that the user selected.
    single
        Whether results are Series: a Series was grouped, or one column was selected.
    of_series
        Whether a Series was grouped.
    """

    held: View
    keys: tuple[GroupKey, ...]
    options: GroupByOptions
    positions: tuple[int, ...]
    single: bool = False
    of_series: bool = False

    @property
    def values(self) -> tuple[Value, ...]:
        """The columns that methods aggregate."""
        return tuple(self.held.values[i] for i in self.positions)

    @property
    def completes(self) -> bool:
        """Whether the result has groups without rows, or labels that plans do not hold (:mod:`.completion`)."""
        return any(
            key.origin is not None or (not self.options.observed and family(key.value.dtype) == "category")
            for key in self.keys
        )

    @property
    def labels(self) -> pd.Index:
        """The labels of the columns that methods aggregate."""
        return self.held.labels.take(list(self.positions))

    def selecting(self, positions: Sequence[int], single: bool) -> Grouped:
        """The same group-by of other columns."""
        return replace(self, positions=tuple(positions), single=single)

    def with_decided_dtypes(self) -> Grouped:
        """The same group-by after a query has decided the dtypes of its columns and keys that depend on the data."""
        keys = tuple(key.value for key in self.keys)
        subset = View(self.held.base, (*self.values, *keys), self.held.labels[:0])
        values = resolved(subset).values
        columns = list(self.held.values)
        for position, value in zip(self.positions, values, strict=False):
            columns[position] = value
        decided_keys = values[len(self.positions) :]
        for key, value in zip(self.keys, decided_keys, strict=True):
            if key.column is not None and self._is_column_itself(key):
                columns[key.column] = value
        return replace(
            self,
            held=self.held.with_values(columns),
            keys=tuple(replace(key, value=value) for key, value in zip(self.keys, decided_keys, strict=True)),
        )

    def _is_column_itself(self, key: GroupKey) -> bool:
        """Whether a key is a column itself, not a cast of it."""
        return key.origin is None and key.column is not None and key.value.dtype == self.held.values[key.column].dtype

    def stand_in_key(self, selection: Any) -> list[Any]:
        """Everything on which the stand-in depends: the key under which pandas' results for it are cached."""
        held, labels, index = self.held, self.held.labels, self.held.index
        return [
            [type(labels), labels.dtype, getattr(labels, "freq", None), *labels, *labels.names],
            [value.dtype for value in held.values],
            [index.kind, *index.names, *(value.dtype for value in index.values)],
            [
                (key.name, key.column, key.value.dtype, None if key.origin is None else key.origin.cache_key)
                for key in self.keys
            ],
            list(astuple(self.options)),
            self.of_series,
            selection,
        ]

    def stand_in_groupby(self, selection: Any, needed: Collection[int] | None = None, as_texts: bool = False) -> Any:
        """A pandas group-by of the stand-in, a small object with the labels and dtypes of the grouped one.

        Columns of Python objects are left out unless they are selected, or without a selection, ``needed``; None: all are. They are
        texts in the stand-in if ``as_texts`` is true, for methods whose results have the values of the column.
        """
        held = self.held
        if selection is not None or as_texts:
            needed = self.positions
        if needed is not None and not self.of_series:
            several = range(len(held.values))
            held = held.take([i for i in several if i in needed or family(held.values[i].dtype) != "object"])
        if as_texts:
            held = held.with_values([replace(v, dtype=STR) if v.dtype == OBJECT else v for v in held.values])
        frame: Any = series_like(held) if self.of_series else frame_like(held)
        frame.attrs = {"grouped": True}  # a result has it if the method propagates attributes and flags
        by = [
            key.origin.stand_in(key.name, frame.index)
            if key.origin is not None
            else pd.Series(values(key.value.dtype), index=frame.index, name=key.name)
            if key.column is None or family(self.held.values[key.column].dtype) == "object"
            else key.name
            if self._is_column_itself(key)
            else frame[key.name].astype(key.value.dtype)
            for key in self.keys
        ]
        groups = frame.groupby(
            by,
            as_index=self.options.as_index,
            sort=self.options.sort,
            group_keys=self.options.group_keys,
            observed=self.options.observed or self.completes,  # categories without rows may change dtypes
            dropna=self.options.dropna,
        )
        return groups if selection is None else groups[selection]


def resolve_group_keys(obj: Any, by: Any, level: Any, options: GroupByOptions) -> Grouped:
    """Resolve the keys of a group-by.

    Raises
    ------
    Unsupported
        If a plan can't group by a key.
    KeyError
        As pandas raises it, for an unknown key.
    """
    held, single = view(obj), isinstance(obj, pd.Series)
    if not held.labels.is_unique or isinstance(held.labels, pd.MultiIndex):
        raise Unsupported(Refusal.DUPLICATE_LABELS)
    if not all(isinstance(flag, bool) for flag in (options.as_index, options.sort, options.observed, options.dropna)):
        raise Unsupported(Refusal.PARAMETER_NOT_BOOL)
    if level is None:
        held, keys = _keys_by(obj, held, by)
    elif by is None:
        keys = _keys_of_levels(held, level)
    else:
        raise Unsupported(Refusal.GROUP_BY_AND_LEVEL)
    if not keys:
        raise Unsupported(Refusal.NO_GROUP_KEYS)
    bins = [key for key in keys if isinstance(key.origin, TimeBins)]
    if bins and not (len(bins) == 1 and options.sort and options.dropna and options.as_index):
        raise Unsupported(Refusal.PARAMETERS, "sort, dropna and as_index of groups of times")
    if any(key.level is not None and key.origin is None for key in keys):
        # In pandas the labels of the groups, or one of their levels, keep the frequency.
        held.index.refuse_frequency()
    keys = [_as_strings(held, key, options) for key in keys]
    for key in keys:
        kind = family(key.value.dtype)
        if kind == "object":
            raise Unsupported(Refusal.GROUP_KEY_DTYPE, key.value.dtype)
        if has_odd_floats(held, key.value):
            raise Unsupported(Refusal.GROUP_KEY_ARROW_FLOATS)
        if isinstance(key.origin, RowLabels) and len(key.origin.missing) and not options.dropna:
            raise Unsupported(Refusal.PARAMETER, "dropna=False")
    excluded = {key.column for key in keys}
    positions = tuple(i for i in range(len(held.values)) if i not in excluded)
    state = Grouped(held, tuple(keys), options, (0,) if single else positions, single, single)
    return state if all(key.value.definite for key in keys) else state.with_decided_dtypes()


def _as_strings(held: View, key: GroupKey, options: GroupByOptions) -> GroupKey:
    """The key; strings as objects are grouped as strings, since pandas infers that dtype for the labels of the groups."""
    if family(key.value.dtype) != "object" or not options.as_index:
        return key
    if not holds_text(key.value) or not any_string(held, key.value):
        return key
    return replace(key, value=as_strings(key.value))


def _keys_by(obj: Any, held: View, by: Any) -> tuple[View, list[GroupKey]]:
    """The keys of the parameter ``by``, and the view over whose base they are."""
    try:
        return _keys_of(obj, held, by if isinstance(by, list) else [by])
    except KeyError:
        if isinstance(by, list) and len(by) == count_rows(held):
            return _keys_of(obj, held, [by])  # a list of values, one for each row
        raise


def _keys_of(obj: Any, held: View, every: list[Any]) -> tuple[View, list[GroupKey]]:
    own = [_position_for_key(obj, one) for one in every]
    found: dict[int, GroupKey] = {}
    # Aligning a later key may change the base; in the second round all keys are over the same one.
    for _ in range(2):
        for i, (one, column) in enumerate(zip(every, own, strict=True)):
            if isinstance(one, pd.Series) and i not in found and not _same_dtype(held, one, column):
                try:
                    held, _other = aligned(held, view(one))
                except Unsupported:
                    if column is not None or not is_hashable(one.name):
                        raise
                    held, found[i] = _attached(obj, held, one)
    for i, one in enumerate(every):
        if is_row_values(one):
            held, found[i] = _attached(obj, held, one)
    for i, one in enumerate(every):
        if isinstance(one, pd.Grouper):
            number, place, bins = bins_of(held, one, isinstance(obj, pd.Series))
            found[i] = GroupKey(number, bins.name, column=place, level=0 if place is None else None, origin=bins)
    keys = [
        found[i]
        if i in found
        else GroupKey(held.values[column], one.name, column=column)
        if column is not None and _same_dtype(held, one, column)
        else _key(held, one, isinstance(obj, pd.Series), column)
        for i, (one, column) in enumerate(zip(every, own, strict=True))
    ]
    for i, key in enumerate(keys):
        if family(key.value.dtype) == "object" and not holds_text(key.value):
            held, value, origin = attach_objects(held, key.value)
            keys[i] = replace(key, value=value, origin=origin)
    return held, keys


def _attached(obj: Any, held: View, one: Any) -> tuple[View, GroupKey]:
    held, key = attach_key(obj, held, one)
    return held, GroupKey(key.value, key.name, origin=key.origin, given=key.given)


def _keys_of_levels(held: View, level: Any) -> list[GroupKey]:
    levels = level if isinstance(level, list) else [level]
    if len(levels) > 1 and held.index.kind != "multi":
        raise Unsupported(Refusal.GROUP_LEVELS_OF_ONE)
    return [_level(held, _level_number(held, one)) for one in levels]


def position_in_frame(obj: Any, key: Any) -> tuple[int, bool] | None:
    """The position of a Series among a frame's columns, if it was taken from that frame; otherwise ``None``.

    A group-by excludes a key from its results only if the key is a column of the grouped frame itself. If the user has since
    set row labels of the frame or the Series, pandas aligns the two by them.

    Returns
    -------
    tuple of (int, bool) or None
        The position, and whether both still have the same row labels.
    """
    if not isinstance(obj, pd.DataFrame) or not isinstance(key, pd.Series) or not is_hashable(key.name):
        return None
    labels = obj.columns
    found = labels.get_indexer_for([key.name]) if key.name in labels else []
    if len(found) != 1:
        return None
    place = int(found[0])
    if shares_column(key, obj, place):
        return place, bool(key.index.equals(obj.index))
    same = [
        mine.rows == theirs.rows
        for mine in identities(obj)
        for theirs in identities_of_memory(key)
        if mine.has_column(place, theirs)
    ]
    if not same and casts_memory_of(key, obj, place):
        return place, bool(key.index.equals(obj.index))
    return (place, any(same)) if same else None


def _position_for_key(obj: Any, key: Any) -> int | None:
    own = position_in_frame(obj, key)
    if own is not None and not own[1]:
        raise Unsupported(Refusal.GROUP_KEY_OTHER_LABELS)
    return None if own is None else own[0]


def _same_dtype(held: View, key: pd.Series, column: int | None) -> bool:
    return column is not None and ("_shares" not in key.__dict__ or held.values[column].dtype == key.dtype)


def with_frame_columns(obj: Any, by: Any) -> Any:
    """The keys for pandas. The frame's own columns are taken from it again, because pandas recognises them by shared memory."""
    every = by if isinstance(by, list) else [by]
    own = [position_in_frame(obj, one) for one in every]
    _ = obj._mgr
    taken = []
    for one, column in zip(every, own, strict=True):
        if column is None:
            taken.append(one)
        else:
            with plain_pandas():
                mine = obj[one.name].astype(one.dtype)
                taken.append(mine if column[1] else mine.set_axis(one.index))
    return taken if isinstance(by, list) else taken[0]


def _key(held: View, by: Any, single: bool, own: int | None = None) -> GroupKey:
    if isinstance(by, pd.Series):
        if not is_hashable(by.name):
            raise Unsupported(Refusal.LABEL_NOT_HASHABLE)
        (value,) = aligned(held, view(by))[1].values
        if own is not None:
            return GroupKey(value, by.name, column=own)
        return GroupKey(value, by.name)
    if not (is_scalar(by) or isinstance(by, tuple)) or callable(by) or not is_hashable(by) or by is None:
        raise Unsupported(Refusal.GROUP_KEY_TYPE, type(by).__name__)
    levels = held.index.levels_named(by)
    if not single and (positions := held.positions(by)):
        if levels:
            raise Unsupported(Refusal.GROUP_KEY_AMBIGUOUS, repr(by))
        return GroupKey(held.values[positions[0]], held.labels[positions[0]], column=positions[0])
    held.index.refuse_non_string_names()
    if levels:
        if len(levels) > 1:
            raise Unsupported(Refusal.LEVEL_AMBIGUOUS, repr(by))
        return _level(held, levels[0])
    if isinstance(by, tuple):
        raise Unsupported(Refusal.GROUP_KEY_TUPLE)
    raise KeyError(by)


def _level_number(held: View, level: Any) -> int:
    if held.index.kind != "multi":
        if level in (0, -1):
            return 0
        if not (is_hashable(level) and held.index.levels_named(level)):
            raise Unsupported(Refusal.GROUP_LEVEL_UNKNOWN)
    held.index.refuse_non_string_names()
    return int(probe(index_like(held)._get_level_number, level))


def _level(held: View, number: int) -> GroupKey:
    if held.index.kind == "default":
        raise Unsupported(Refusal.GROUP_DEFAULT_INDEX)
    if is_carried(held.index.values[number].dtype):
        raise Unsupported(Refusal.OBJECT_LABELS)
    return GroupKey(held.index.values[number], held.index.names[number], level=number)
