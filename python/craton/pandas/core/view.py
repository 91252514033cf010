"""What a lazy pandas object is: columns with pandas dtypes, and an index, over a plan.

A :class:`View` never changes. ``base`` is an operator; each :class:`Value` is an expression over its rows. Two objects
whose views have the same base have the same rows in the same order, so their values can be put together without any
alignment: that is how ``df[df.a > 5]`` and ``df["c"] = df.a + df.b`` become one plan.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import field, replace
from typing import Any
from typing import Literal as OneOf

import numpy as np
import pandas as pd
import polars as pl
from pandas.errors import InvalidIndexError

from craton.errors import Unsupported
from craton.pandas.core.dtypes import BOOL, INT64, DtypeObj, distinguishes_nan
from craton.plan import build
from craton.plan.expr import Call, Column, Expr, Literal, conjunction, conjuncts, dtype_of, has_window, roots
from craton.plan.names import HIDDEN, visible
from craton.plan.operators import Attach, Filter, Operator, Project, RowNumber, Scan, Slice, Window, schema
from craton.records import dataclass
from craton.refusals import Refusal

ROW = f"{HIDDEN}row"


class ObjectColumn(Expr):
    """A column of Python objects, that a view hands through and no plan holds.

    The rows of it are chosen with the others, and it becomes an array when a frame is looked at. It has no digest, so
    that whatever would compute with it, or put it beside other rows, refuses.
    """

    __slots__ = ("column",)

    column: Column

    def __init__(self, column: Column) -> None:
        object.__setattr__(self, "column", column)

    @property
    def dtype(self) -> pl.DataType:
        """The physical dtype."""
        return self.column.dtype

    @property
    def digest(self) -> bytes:  # type: ignore[override]
        """Refused."""
        raise Unsupported(Refusal.OBJECT_COLUMN, repr(self.column.name))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ObjectColumn) and self.column == other.column

    def __hash__(self) -> int:
        return hash(self.column)


@dataclass(frozen=True, slots=True)
class Value:
    """One column: an expression, the pandas dtype that it has for the user, and what is known of missing values.

    Parameters
    ----------
    expr
        Over the columns of the view's base.
    dtype
        The pandas dtype.
    nulls
        Whether the expression may be null. For an integer or boolean NumPy dtype that may: the dtype is what it is
        *without* missing values; with some, it is :func:`~craton.pandas.core.dtypes.with_missing` of it, decided by ``source``.
    nans
        Whether a float expression may hold NaN where pandas means a missing value; :meth:`clean` turns them to null.
    source
        For a dtype that depends on the data: the operator and column whose missing values decide.
    """

    expr: Expr
    dtype: DtypeObj
    nulls: bool = True
    nans: bool = False
    source: tuple[Operator, str] | None = None

    def __post_init__(self) -> None:
        """Make null of NaN that means a missing value, in a dtype in which NaN is a number: what is put together keeps them apart."""
        if self.nans and distinguishes_nan(self.dtype):
            clean = self.clean
            for name in ("expr", "nulls", "nans"):
                object.__setattr__(self, name, getattr(clean, name))

    @property
    def physical(self) -> pl.DataType:
        """The physical dtype."""
        return dtype_of(self.expr)

    @property
    def clean(self) -> Value:
        """The same column with every missing value as null."""
        if not self.nans:
            return self
        expr = Call("fill_nan", (self.expr, Literal(None, self.physical)), self.physical)
        return replace(self, expr=expr, nulls=True, nans=False)

    @property
    def definite(self) -> bool:
        """Whether the dtype is known without looking at the data."""
        return self.source is None

    @property
    def may_round(self) -> bool:
        """Whether neighbours among its integers are one number, if the data make a column of floats of it."""
        return not self.definite and self.dtype in (np.dtype("int64"), np.dtype("uint64"))

    def at(self, name: str) -> Value:
        """The same column, when its expression has become a column of the base."""
        if isinstance(self.expr, ObjectColumn):
            raise Unsupported(Refusal.OBJECT_COLUMN, repr(self.expr.column.name))
        return replace(self, expr=Column(name, self.physical))


@dataclass(frozen=True, slots=True)
class LevelSource:
    """Where the labels of a level of a MultiIndex come from, and how they are ordered.

    Parameters
    ----------
    base
        The rows.
    expr
        The level's labels over them.
    ordered
        Whether the labels are sorted, missing ones last; else they come by first appearance.
    missing
        Whether a missing label is one like others; else rows that have it have none.
    besides
        Rows, of one column, whose labels are among those of the level too, if there may be any.
    """

    base: Operator
    expr: Expr
    ordered: bool
    missing: bool
    additional: Operator | None = None


@dataclass(frozen=True, slots=True)
class IndexSpec:
    """The row labels.

    Parameters
    ----------
    kind
        ``default``: RangeIndex from 0, not stored. ``range``: taken from a RangeIndex, so pandas makes it a RangeIndex again
        where the labels are evenly spaced. ``labels``: one column. ``multi``: a MultiIndex.
    values
        The label columns; none for ``default``.
    names
        The names of the levels (one for ``default``).
    freq
        The frequency that a DatetimeIndex or TimedeltaIndex in memory had; given back, times k, where the rows are every
        k-th of it.
    consecutive_only
        Whether the frequency is given back only where the rows are neighbours: a Series' rows chosen by a mask.
    levels
        The levels that a MultiIndex in memory had, in the order that it had them; none where they are made anew.
    sources
        Where the levels come from instead, if they are not known yet and not those of the rows that are left.
    """

    kind: OneOf["default", "range", "labels", "multi"] = "default"
    values: tuple[Value, ...] = ()
    names: tuple[Hashable, ...] = (None,)
    freq: Any = None
    consecutive_only: bool = False
    levels: tuple[pd.Index, ...] = field(default=(), compare=False)
    sources: tuple[LevelSource, ...] = field(default=(), compare=False)

    def __post_init__(self) -> None:
        for value in self.values:
            if isinstance(
                getattr(value, "expr", None), ObjectColumn
            ):  # before the labels are known, there are places only
                raise Unsupported(Refusal.OBJECT_LABELS)

    @property
    def has_frequency(self) -> bool:
        """Whether the labels have a frequency, or a level has one that their MultiIndex had in memory."""
        return self.freq is not None or any(frequency(level) is not None for level in self.levels)

    def refuse_frequency(self) -> None:
        """Leave labels to pandas where these become levels, or labels of other rows: it decides by the data which frequency they have.

        Raises
        ------
        Unsupported
            If they have one.
        """
        if self.has_frequency:
            raise Unsupported(Refusal.LABELS_WITH_FREQUENCY)

    def levels_named(self, label: Hashable) -> list[int]:
        """The numbers of the levels that have a label for a name.

        Raises
        ------
        Unsupported
            If a level is named by a boolean, which equals a number and is none to pandas.
        """
        if any(isinstance(name, (bool, np.bool_)) for name in self.names):
            raise Unsupported(Refusal.LEVEL_NAMES)
        if label is None:
            return []
        # A scalar of NumPy's would be compared with each part of a tuple.
        alike = [isinstance(name, tuple) == isinstance(label, tuple) for name in self.names]
        return [i for i, name in enumerate(self.names) if name is not None and alike[i] and name == label]

    def refuse_non_string_names(self) -> None:
        """Leave keys that are levels to pandas where it may take the name of a level for the number of another.

        Raises
        ------
        Unsupported
            If the name of a level is no text.
        """
        if any(name is not None and not isinstance(name, str) for name in self.names):
            raise Unsupported(Refusal.LEVEL_NAMES)

    def renamed(self, names: Sequence[Hashable]) -> IndexSpec:
        """The same labels under other names."""
        return replace(self, names=tuple(names))

    def select_levels(self, order: Sequence[int]) -> IndexSpec:
        """Some of the levels of a MultiIndex, at least one, in some order.

        Raises
        ------
        Unsupported
            If one is left, and has a frequency.
        """
        several = len(order) > 1
        if not several and self.levels and frequency(self.levels[order[0]]) is not None:
            raise Unsupported(Refusal.LABELS_WITH_FREQUENCY)
        return IndexSpec(
            "multi" if several else "labels",
            tuple(self.values[i] for i in order),
            tuple(self.names[i] for i in order),
            levels=tuple(self.levels[i] for i in order) if several and self.levels else (),
            sources=tuple(self.sources[i] for i in order) if several and self.sources else (),
        )

    def has_missing_label(self, level: int) -> bool:
        """Whether missing is a label like others in a level of a MultiIndex, and comes after all others."""
        if self.sources:
            return self.sources[level].missing and self.values[level].clean.nulls
        return bool(self.levels) and bool(self.levels[level].hasnans)


@dataclass(frozen=True, slots=True)
class View:
    """The immutable state of a lazy DataFrame or Series (one value; its name is the label).

    Parameters
    ----------
    base
        The rows.
    values
        The columns, in order.
    labels
        The column labels, a pandas Index as long as ``values``.
    index
        The row labels.
    rows
        The number of rows, where known without running anything.
    """

    base: Operator
    values: tuple[Value, ...]
    labels: pd.Index
    index: IndexSpec = field(default_factory=IndexSpec)
    rows: int | None = None

    @property
    def exprs(self) -> tuple[Expr, ...]:
        """The expressions of all columns and levels of the index, those of Python objects as the columns that they are read from."""
        exprs = (value.expr for value in (*self.values, *self.index.values))
        return tuple(expr.column if isinstance(expr, ObjectColumn) else expr for expr in exprs)

    # -- columns -----------------------------------------------------------------------------------------------------

    def positions(self, label: Hashable) -> list[int]:
        """Where a label stands among the columns; several for duplicates, empty if it is unknown.

        Raises
        ------
        Unsupported
            If the label is a text and the columns are dates: some methods of pandas take it for a date, others do not.
        """
        if isinstance(label, str) and isinstance(self.labels, (pd.DatetimeIndex, pd.TimedeltaIndex, pd.PeriodIndex)):
            raise Unsupported(Refusal.TEXT_BESIDE_DATES)
        try:
            found = self.labels.get_loc(label)
        except (KeyError, TypeError, InvalidIndexError):
            return []
        if isinstance(found, slice):
            return list(range(len(self.values)))[found]
        if isinstance(found, (int, np.integer)):
            return [int(found)]
        return [i for i, hit in enumerate(found) if hit]

    def position(self, label: Hashable) -> int:
        """Where exactly one column has the label.

        Raises
        ------
        KeyError
            As pandas raises it, if there is none.
        Unsupported
            If there are several.
        """
        found = self.positions(label)
        if not found:
            raise KeyError(label)
        if len(found) > 1:
            raise Unsupported(Refusal.COLUMNS_OF_ONE_LABEL, repr(label))
        return found[0]

    def take(self, positions: Sequence[int]) -> View:
        """Some of the columns."""
        return replace(self, values=tuple(self.values[i] for i in positions), labels=self.labels.take(list(positions)))

    def with_values(self, values: Sequence[Value], labels: pd.Index | None = None) -> View:
        """Other columns over the same rows."""
        return replace(self, values=tuple(values), labels=self.labels if labels is None else labels)

    def series(self, value: Value, name: Hashable) -> View:
        """A one-column view of the same rows."""
        return replace(self, values=(value,), labels=name_index(name))

    # -- rows --------------------------------------------------------------------------------------------------------

    def numbered(self) -> View:
        """The same, with default row labels made into a column: what a selection of rows leaves behind.

        Expressions over the base stay valid.
        """
        if self.index.kind != "default":
            return self
        name, taken = ROW, schema(self.base)
        while name in taken:
            name += "_"
        label = Value(Call("cast", (Column(name, pl.UInt32()),), pl.Int64()), INT64, nulls=False)
        return replace(self, base=RowNumber(self.base, name), index=IndexSpec("range", (label,), self.index.names))

    def before_selection(self) -> View:
        """The view before rows of it are chosen.

        A MultiIndex keeps its levels from now on. A frequency goes, if rows of an index that had it were chosen before:
        whether it is still there after the first choice depends on the data, and a later choice can't bring it back.
        """
        if self.index.kind == "multi":
            return self.with_levels()
        if self.index.freq is None or (self.rows is not None and self.rows < 2):
            return self  # no choice among so few is uneven
        base, labels = self.base, roots(self.index.values[0].expr)
        while isinstance(base, (Project, Window, RowNumber, Slice, Attach)):
            if isinstance(base, Attach) and labels <= set(base.columns):
                return self  # the labels were given to these rows
            base = base.input
        return self if isinstance(base, Scan) else replace(self, index=replace(self.index, freq=None))

    def keep_frequency_if_consecutive(self) -> View:
        """The view whose frequency is left only where its rows are neighbours, as pandas chooses rows of a Series."""
        return self if self.index.freq is None else replace(self, index=replace(self.index, consecutive_only=True))

    def with_levels(self) -> View:
        """The view whose MultiIndex has the levels that it has now whatever rows are chosen: pandas keeps those that no row has."""
        if self.index.levels or self.index.sources:
            return self
        sources = tuple(self._level(value.clean.expr) for value in self.index.values)
        return replace(self, index=replace(self.index, sources=sources))

    def _level(self, labels: Expr) -> LevelSource:
        base = self.base
        if has_window(labels):
            base = build.project(base, (("label", labels),))
            labels = base.column("label")
        return LevelSource(base, labels, True, False)

    def filtered(self, predicate: Expr) -> View:
        """The rows where a predicate over the base holds."""
        return (
            self.numbered()
            .before_selection()
            .with_rows_from(lambda base, exprs: Filter(base, conjunction(conjuncts(exprs[0]))), [predicate])
        )

    def with_rows_from(
        self,
        rule: Callable[[Operator, Sequence[Expr]], Operator],
        exprs: Sequence[Expr] = (),
        *,
        rows: int | None = None,
    ) -> View:
        """The view over other rows than its base has: fewer, more, or in another order.

        Whatever depends on other rows is computed of the rows as they were, and stays what it was.

        Parameters
        ----------
        rule
            Given the base and expressions over it, without windows: the operator with the other rows, and all columns.
        exprs
            What it is given.
        rows
            Their number, if it is known.
        """
        held = self
        if self.windowed or any(map(has_window, exprs)):
            held, exprs = self.projected_with(exprs)
        return replace(held, base=rule(held.base, exprs), rows=rows)

    @property
    def windowed(self) -> bool:
        """Whether a column or a label depends on other rows than its own."""
        return any(has_window(value.expr) for value in (*self.values, *self.index.values))

    def projected(self) -> View:
        """The same view over a projection to exactly its own columns, so that every value is a bare column."""
        return self.projected_with([])[0]

    def projected_with(self, extra: Sequence[Expr]) -> tuple[View, list[Expr]]:
        """Seal the view together with more expressions over its base; they come back as columns of the new base."""
        every = [*self.index.values, *self.values]
        names = column_names([*index_labels(self.index), *self.labels])
        taken = set(names)
        extra_names = []
        for i in range(len(extra)):
            name = f"__key{i}__"
            while name in taken:
                name += "_"
            taken.add(name)
            extra_names.append(name)
        exprs = [value.expr for value in every] + list(extra)
        all_names = names + extra_names
        columns = tuple(zip(all_names, exprs, strict=True))
        if not columns:
            return self, []
        identity = tuple((name, Column(name, dtype)) for name, dtype in schema(self.base).items())
        base = self.base if columns == identity else build.project(self.base, columns)
        count = len(self.index.values)
        return (
            replace(
                self,
                base=base,
                values=tuple(value.at(name) for value, name in zip(self.values, names[count:], strict=True)),
                index=replace(
                    self.index,
                    values=tuple(v.at(name) for v, name in zip(self.index.values, names[:count], strict=True)),
                ),
            ),
            [Column(name, dtype_of(expr)) for name, expr in zip(extra_names, extra, strict=True)],
        )


def frequency(index: pd.Index) -> Any:
    """The frequency of an Index of dates or spans of time, which says how they are spaced; a PeriodIndex has it as its dtype."""
    return index.freq if isinstance(index, (pd.DatetimeIndex, pd.TimedeltaIndex)) else None


def name_index(name: Hashable) -> pd.Index:
    """An Index with one label, whatever it is (a tuple is one label)."""
    values = pd.Index([None], dtype=object).to_numpy().copy()
    values[0] = name
    return pd.Index(values, dtype=object, tupleize_cols=False)


def index_labels(index: IndexSpec) -> list[str]:
    """Readable plan names for the index columns."""
    if not index.values:
        return []
    return [f"index:{name}" if name is not None else f"index{i}" for i, name in enumerate(index.names)]


def column_names(labels: Sequence[Hashable]) -> list[str]:
    """Unique, readable plan names for labels."""
    names: list[str] = []
    taken: set[str] = set()
    for label in labels:
        stem = name = visible(label) if isinstance(label, str) else repr(label)
        count = 1
        while name in taken:
            count += 1
            name = f"{stem}#{count}"
        taken.add(name)
        names.append(name)
    return names


def condition(value: Value) -> Expr:
    """A boolean value as a predicate: missing is false.

    Raises
    ------
    Unsupported
        If it is not boolean.
    """
    if value.dtype != BOOL and str(value.dtype) not in ("boolean", "bool[pyarrow]"):
        raise Unsupported(Refusal.MASK_OF_DTYPE, value.dtype)
    if value.source is not None:
        raise Unsupported(Refusal.MASK_DTYPE_OF_DATA)
    return value.expr


def as_frame(held: View, name: Hashable) -> View:
    """A Series' view as a frame's of one column."""
    return replace(held, labels=pd.Index([name]))
