"""What a group-by groups, and by what: the state of a lazy group-by object."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import astuple, replace
from typing import Any

import pandas as pd
from pandas.api.types import is_hashable, is_scalar

from craton.errors import Unsupported
from craton.pandas.core.align import aligned
from craton.pandas.core.dtypes import distinguishes_signed_zeros, family
from craton.pandas.core.execute import count_rows, resolved
from craton.pandas.core.lazy import identities, identities_of_memory, view
from craton.pandas.core.routing import plain_pandas
from craton.pandas.core.stand_ins import frame_like, index_like, probe, series_like, values
from craton.pandas.core.view import Value, View
from craton.records import dataclass
from craton.refusals import Refusal


@dataclass(frozen=True, slots=True)
class Options:
    """The parameters of ``groupby``."""

    as_index: bool = True
    sort: bool = True
    group_keys: bool = True
    observed: bool = True
    dropna: bool = True


@dataclass(frozen=True, slots=True)
class Key:
    """One key: its values, its name, and which column or index level it is, if it is one."""

    value: Value
    name: Hashable
    column: int | None = None
    level: int | None = None


@dataclass(frozen=True, slots=True)
class Grouped:
    """A grouped view.

    Parameters
    ----------
    held
        The frame or series.
    keys
        What it is grouped by, over ``held.base``.
    options
        The parameters.
    positions
        The columns of ``held`` that methods work on: all that are no keys, or those that were selected.
    single
        Whether methods work on a Series.
    whole_series
        Whether it is a Series that was grouped.
    """

    held: View
    keys: tuple[Key, ...]
    options: Options
    positions: tuple[int, ...]
    single: bool = False
    whole_series: bool = False

    @property
    def values(self) -> tuple[Value, ...]:
        """The columns that methods work on."""
        return tuple(self.held.values[i] for i in self.positions)

    @property
    def labels(self) -> pd.Index:
        """Their labels."""
        return self.held.labels.take(list(self.positions))

    def selecting(self, positions: Sequence[int], single: bool) -> Grouped:
        """Work on other columns."""
        return replace(self, positions=tuple(positions), single=single)

    def settled(self) -> Grouped:
        """The same with the dtypes of the columns that are worked on decided, by a query."""
        keys = tuple(key.value for key in self.keys)
        subset = View(self.held.base, (*self.values, *keys), self.held.labels[:0])
        values = resolved(subset).values
        columns = list(self.held.values)
        for position, value in zip(self.positions, values, strict=False):
            columns[position] = value
        settled_keys = values[len(self.positions) :]
        for key, value in zip(self.keys, settled_keys, strict=True):
            if key.column is not None and self._as_it_is(key):
                columns[key.column] = value
        return replace(
            self,
            held=self.held.with_values(columns),
            keys=tuple(replace(key, value=value) for key, value in zip(self.keys, settled_keys, strict=True)),
        )

    def _as_it_is(self, key: Key) -> bool:
        """Whether a key is its column itself, and no cast of it."""
        return key.column is not None and key.value.dtype == self.held.values[key.column].dtype

    def kind(self, selection: Any) -> list[Any]:
        """All that a template is made from."""
        held, labels, index = self.held, self.held.labels, self.held.index
        return [
            [type(labels), labels.dtype, getattr(labels, "freq", None), *labels, *labels.names],
            [value.dtype for value in held.values],
            [index.kind, *index.names, *(value.dtype for value in index.values)],
            [(key.name, key.column, key.value.dtype) for key in self.keys],
            list(astuple(self.options)),
            self.whole_series,
            selection,
        ]

    def template(self, selection: Any) -> Any:
        """The group-by that pandas makes of a template of the object."""
        held = self.held
        if selection is not None and not self.whole_series:  # Python objects that nobody asks for are in nobody's way
            wanted = selection if isinstance(selection, list) else [selection]
            held = held.take(
                [
                    i
                    for i, value in enumerate(held.values)
                    if family(value.dtype) != "object" or held.labels[i] in wanted
                ]
            )
        frame: Any = series_like(held) if self.whole_series else frame_like(held)
        frame.attrs = {"grouped": True}  # seen in the results of methods that hand attributes and flags on
        by = [
            pd.Series(values(key.value.dtype), index=frame.index, name=key.name)
            if key.column is None
            else key.name
            if self._as_it_is(key)
            else frame[key.name].astype(key.value.dtype)
            for key in self.keys
        ]
        groups = frame.groupby(
            by,
            as_index=self.options.as_index,
            sort=self.options.sort,
            group_keys=self.options.group_keys,
            observed=self.options.observed,
            dropna=self.options.dropna,
        )
        return groups if selection is None else groups[selection]


def grouped(obj: Any, by: Any, level: Any, options: Options) -> Grouped:
    """Resolve the keys of a group-by.

    Raises
    ------
    Unsupported
        If a key is nothing that a plan knows.
    KeyError
        As pandas raises it, for an unknown key.
    """
    held, single = view(obj), isinstance(obj, pd.Series)
    if not held.labels.is_unique or isinstance(held.labels, pd.MultiIndex):
        raise Unsupported(Refusal.DUPLICATE_LABELS)
    if not all(isinstance(flag, bool) for flag in (options.as_index, options.sort, options.observed, options.dropna)):
        raise Unsupported(Refusal.PARAMETER_NOT_BOOL)
    if level is not None:
        if by is not None:
            raise Unsupported(Refusal.GROUP_BY_AND_LEVEL)
        levels = level if isinstance(level, list) else [level]
        if len(levels) > 1 and held.index.kind != "multi":
            raise Unsupported(Refusal.GROUP_LEVELS_OF_ONE)
        keys = [_level(held, _level_number(held, one)) for one in levels]
    else:
        every = by if isinstance(by, list) else [by]
        own = [_own_place(obj, one) for one in every]
        for _ in range(2):  # the second time all are over one base
            for one, column in zip(every, own, strict=True):
                if isinstance(one, pd.Series) and not _same_dtype(held, one, column):
                    held, _other = aligned(held, view(one))
        try:
            keys = [
                Key(held.values[column], one.name, column=column)
                if column is not None and _same_dtype(held, one, column)
                else _key(held, one, single, column)
                for one, column in zip(every, own, strict=True)
            ]
        except KeyError:
            if isinstance(by, list) and len(by) == count_rows(held):
                raise Unsupported(Refusal.GROUP_KEY_VALUES) from None
            raise
    if not keys:
        raise Unsupported(Refusal.NO_GROUP_KEYS)
    if any(key.level is not None for key in keys):
        # The groups, or a level of theirs, have the frequency, too. By such labels alone there are as many groups as rows.
        held.index.refuse_frequency()
    for key in keys:
        kind = family(key.value.dtype)
        if kind == "object" or (kind == "category" and not options.observed):
            raise Unsupported(Refusal.GROUP_KEY_DTYPE, f"{key.value.dtype}, observed={options.observed}")
        if distinguishes_signed_zeros(key.value.dtype):
            raise Unsupported(Refusal.GROUP_KEY_ARROW_FLOATS)
    excluded = {key.column for key in keys}
    positions = tuple(i for i in range(len(held.values)) if i not in excluded)
    state = Grouped(held, tuple(keys), options, (0,) if single else positions, single, single)
    return state if all(key.value.definite for key in keys) else state.settled()


def own_column(obj: Any, key: Any) -> tuple[int, bool] | None:
    """Where a Series stands among the columns of the frame that it was taken from; None if it is of something else.

    A group-by leaves its frame's own column out of the results, and no other Series. The rows of either may have other
    labels by now, by which pandas aligns also a frame's own column: whether they are the same is told beside the place.
    """
    if not isinstance(obj, pd.DataFrame) or not isinstance(key, pd.Series) or not is_hashable(key.name):
        return None
    labels = obj.columns
    found = labels.get_indexer_for([key.name]) if key.name in labels else []
    if len(found) != 1:
        return None
    place = int(found[0])
    same = [
        mine.rows == theirs.rows
        for mine in identities(obj)
        for theirs in identities_of_memory(key)
        if mine.has_column(place, theirs)
    ]
    return (place, any(same)) if same else None


def _own_place(obj: Any, key: Any) -> int | None:
    own = own_column(obj, key)
    if own is not None and not own[1]:
        raise Unsupported(Refusal.GROUP_KEY_OTHER_LABELS)
    return None if own is None else own[0]


def _same_dtype(held: View, key: pd.Series, column: int | None) -> bool:
    return column is not None and ("_shares" not in key.__dict__ or held.values[column].dtype == key.dtype)


def with_own_columns(obj: Any, by: Any) -> Any:
    """Keys that are columns of a frame, taken from it once more: pandas knows them by their memory."""
    every = by if isinstance(by, list) else [by]
    own = [own_column(obj, one) for one in every]
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


def _key(held: View, by: Any, single: bool, own: int | None = None) -> Key:
    if isinstance(by, pd.Series):
        if not is_hashable(by.name):
            raise Unsupported(Refusal.LABEL_NOT_HASHABLE)
        (value,) = aligned(held, view(by))[1].values
        if own is not None:
            return Key(value, by.name, column=own)
        if not single and by.__dict__.get("_shares") != []:
            (found,) = held.positions(by.name) or (None,)
            if found is not None and held.values[found].expr == value.expr and held.values[found].dtype == value.dtype:
                return Key(value, by.name, column=found)
        return Key(value, by.name)
    if not (is_scalar(by) or isinstance(by, tuple)) or callable(by) or not is_hashable(by) or by is None:
        raise Unsupported(Refusal.GROUP_KEY_TYPE, type(by).__name__)
    levels = held.index.levels_named(by)
    if not single and (positions := held.positions(by)):
        if levels:
            raise Unsupported(Refusal.GROUP_KEY_AMBIGUOUS, repr(by))
        return Key(held.values[positions[0]], held.labels[positions[0]], column=positions[0])
    held.index.refuse_non_string_names()
    if levels:
        if len(levels) > 1:
            raise Unsupported(Refusal.GROUP_LEVEL_AMBIGUOUS, repr(by))
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


def _level(held: View, number: int) -> Key:
    if held.index.kind == "default":
        raise Unsupported(Refusal.GROUP_DEFAULT_INDEX)
    return Key(held.index.values[number], held.index.names[number], level=number)
