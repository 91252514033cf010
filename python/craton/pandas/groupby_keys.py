"""What a group-by groups, and by what: the state of a lazy group-by object."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd
from pandas.api.types import is_hashable, is_scalar

from craton.errors import Unsupported
from craton.pandas.align import aligned
from craton.pandas.dtypes import family
from craton.pandas.groupby_template import ask, definite, frame_like, sample, series_like
from craton.pandas.lazy import view
from craton.pandas.view import Value, View


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
        Whether it is a Series that is grouped.
    """

    held: View
    keys: tuple[Key, ...]
    options: Options
    positions: tuple[int, ...]
    single: bool = False

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


def grouped(obj: Any, by: Any, level: Any, options: Options) -> tuple[Grouped, Any]:
    """Resolve the keys of a group-by.

    Returns
    -------
    tuple of (Grouped, pandas group-by)
        The state, and pandas' own group-by of a template of the object.

    Raises
    ------
    Unsupported
        If a key is nothing that a plan knows.
    KeyError
        As pandas raises it, for an unknown key.
    """
    held = view(obj)
    if not held.labels.is_unique or isinstance(held.labels, pd.MultiIndex):
        raise Unsupported("duplicate or MultiIndex column labels")
    if not all(isinstance(flag, bool) for flag in (options.as_index, options.sort, options.observed, options.dropna)):
        raise Unsupported("a parameter that is no bool")
    single = isinstance(obj, pd.Series)
    template = series_like(held) if single else frame_like(held)
    if level is not None:
        if by is not None:
            raise Unsupported("by and level together")
        levels = level if isinstance(level, (list, tuple)) else [level]
        keys = [_level(held, ask(lambda one=one: template.index._get_level_number(one))) for one in levels]
        template_by: Any = None
    elif isinstance(by, list):
        pairs = []
        for one in by:
            held, pair = _key(held, one, single, template)
            pairs.append(pair)
        keys = [key for key, _ in pairs]
        template_by = [like for _, like in pairs]
    else:
        held, (key, template_by) = _key(held, by, single, template)
        keys = [key]
    if not keys:
        raise Unsupported("no keys")
    for key in keys:
        kind = family(definite(key.value))
        if kind == "object" or (kind == "category" and not options.observed):
            raise Unsupported(f"a key of dtype {key.value.dtype}, observed={options.observed}")
    probe = ask(
        lambda: template.groupby(
            template_by,
            level=level,
            as_index=options.as_index,
            sort=options.sort,
            group_keys=options.group_keys,
            observed=options.observed,
            dropna=options.dropna,
        )
    )
    names = [grouping.name for grouping in probe._grouper.groupings]
    excluded = {key.column for key in keys}
    positions = tuple(i for i in range(len(held.values)) if i not in excluded)
    state = Grouped(
        held,
        tuple(replace(key, name=name) for key, name in zip(keys, names, strict=True)),
        options,
        (0,) if single else positions,
        single,
    )
    return state, probe


def _key(held: View, by: Any, single: bool, template: Any) -> tuple[View, tuple[Key, Any]]:
    if isinstance(by, pd.Series):
        if not is_hashable(by.name):
            raise Unsupported("a key whose name is not hashable")
        held, other = aligned(held, view(by))
        value = other.values[0]
        if not single:
            (found,) = held.positions(by.name) or (None,)
            if found is not None and held.values[found].expr == value.expr and held.values[found].dtype == value.dtype:
                return held, (Key(value, by.name, column=found), template[by.name])
        return held, (Key(value, by.name), pd.Series(sample(definite(value)), index=template.index, name=by.name))
    if not (is_scalar(by) or isinstance(by, tuple)) or callable(by) or not is_hashable(by) or by is None:
        raise Unsupported(f"a key of type {type(by).__name__}")
    names = held.index.names
    found_levels = [i for i, name in enumerate(names) if name is not None and name == by]
    if not single and (positions := held.positions(by)):
        if found_levels:
            raise Unsupported(f"{by!r} is both a column and an index level")
        return held, (Key(held.values[positions[0]], by, column=positions[0]), by)
    if found_levels:
        if len(found_levels) > 1:
            raise Unsupported(f"several index levels are named {by!r}")
        return held, (_level(held, found_levels[0]), by)
    if isinstance(by, tuple):
        raise Unsupported("a tuple that is no label")
    raise KeyError(by)


def _level(held: View, number: int) -> Key:
    if held.index.kind == "default":
        raise Unsupported("a group-by over a default index")
    return Key(held.index.values[number], held.index.names[number], level=number)
