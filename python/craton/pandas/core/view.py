"""The plan behind a lazy pandas object: columns with pandas dtypes, and an index, over an operator.

A :class:`View` is immutable. Its ``base`` is an operator, and each :class:`Value` is an expression over the base. Two objects whose
views have the same base have the same rows in the same order, so their columns can be combined without alignment. So
``df[df.a > 5]`` and ``df["c"] = df.a + df.b`` become one plan.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import field, replace
from typing import Any
from typing import Literal as OneOf

import numpy as np
import pandas as pd
import polars as pl
from pandas.api.types import is_scalar
from pandas.errors import InvalidIndexError

from craton.errors import Unsupported
from craton.pandas.core.dtypes import BOOL, INT64, DtypeObj, distinguishes_nan, same_dtype
from craton.plan import build
from craton.plan.expr import Call, Column, Expr, Literal, conjunction, conjuncts, dtype_of, has_window, roots
from craton.plan.names import HIDDEN, column_names
from craton.plan.operators import Attach, Filter, Operator, Project, RowNumber, Scan, Slice, Window, schema
from craton.records import dataclass
from craton.refusals import Refusal

ROW = f"{HIDDEN}row"


class ObjectColumn(Expr):
    """A column of Python objects, or of another dtype without a physical form, which a view can select rows of but cannot compute with.

    When the view is materialised, it becomes an array of the objects. It has no digest, so that any operator that would be built from
    it raises Unsupported.

    Parameters
    ----------
    column
        The column of the base from which the objects are made, or another expression over the base.
    objects
        If given, `column` has positions in this array. A missing position is NaN, which joins add.
    text
        If the objects are lists of parts of a text: the text, as an expression over the base.
    nan
        Whether a null of `column` is NaN, and not None.
    source
        If given, the objects are the values of `column`, which has this dtype, as ``astype(object)`` returns them.
    """

    __slots__ = ("column", "nan", "objects", "source", "text")

    column: Expr
    objects: Any
    text: Expr | None
    nan: bool
    source: DtypeObj | None

    def __init__(
        self,
        column: Expr,
        objects: Any = None,
        text: Expr | None = None,
        nan: bool = False,
        source: DtypeObj | None = None,
    ) -> None:
        object.__setattr__(self, "column", column)
        object.__setattr__(self, "objects", objects)
        object.__setattr__(self, "text", text)
        object.__setattr__(self, "nan", nan)
        object.__setattr__(self, "source", source)

    def over(self, column: Expr, text: Expr | None = None) -> ObjectColumn:
        """The same objects, with other expressions over another base."""
        return ObjectColumn(column, self.objects, text, self.nan, self.source)

    @property
    def dtype(self) -> pl.DataType:
        return dtype_of(self.column)

    @property
    def in_memory(self) -> bool:
        """Whether the objects are those of an array in memory, at the positions that the column has."""
        return isinstance(self.objects, (np.ndarray, pd.api.extensions.ExtensionArray))

    @property
    def digest(self) -> bytes:  # type: ignore[override]
        """Not available: an object column cannot be part of a plan."""
        raise Unsupported(Refusal.OBJECT_COLUMN, repr(self.column))

    def check_missing(self) -> None:
        """Check that the column can hold missing values that an operation adds: NaN, which a file's column cannot distinguish from None.

        Raises
        ------
        Unsupported
            If the objects come from a file or from values of another dtype, or are values of another dtype.
        """
        if not self.nan and (self.objects is None or self.objects.dtype != object):
            raise Unsupported(Refusal.OBJECT_COLUMN, repr(self.column))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ObjectColumn) or self.nan is not other.nan or self.source != other.source:
            return False
        return self.column == other.column and self.objects is other.objects

    def __hash__(self) -> int:
        return hash(self.column)


@dataclass(frozen=True, slots=True)
class Value:
    """One column: an expression, its pandas dtype, and whether it may have missing values.

    Parameters
    ----------
    expr
        An expression over the columns of the view's base.
    dtype
        The pandas dtype. If it depends on the data (``source``), it is the dtype *without* missing values; with missing values,
        the dtype is :func:`~craton.pandas.core.dtypes.with_missing` of it.
    nulls
        Whether the expression may be null.
    nans
        Whether a float expression may hold NaN for a missing value; :meth:`clean` converts NaN to null.
    source
        For an integer or boolean NumPy dtype that depends on the data: the operator and column whose missing values decide it.
    """

    expr: Expr
    dtype: DtypeObj
    nulls: bool = True
    nans: bool = False
    source: tuple[Operator, str] | None = None

    def __post_init__(self) -> None:
        """Convert NaN for missing values to null if the dtype distinguishes NaN from missing values."""
        if self.nans and distinguishes_nan(self.dtype):
            clean = self.clean
            for name in ("expr", "nulls", "nans"):
                object.__setattr__(self, name, getattr(clean, name))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Value):
            return NotImplemented
        same = (self.expr, self.nulls, self.nans, self.source) == (other.expr, other.nulls, other.nans, other.source)
        return same and same_dtype(self.dtype, other.dtype)

    @property
    def physical(self) -> pl.DataType:
        return dtype_of(self.expr)

    @property
    def read(self) -> Expr:
        """The expression, or the column that objects are read from."""
        return self.expr.column if isinstance(self.expr, ObjectColumn) else self.expr

    @property
    def clean(self) -> Value:
        """The same column with null for every missing value."""
        if not self.nans:
            return self
        expr = Call("fill_nan", (self.expr, Literal(None, self.physical)), self.physical)
        return replace(self, expr=expr, nulls=True, nans=False)

    @property
    def definite(self) -> bool:
        """Whether the dtype is known without reading the data."""
        return self.source is None

    @property
    def may_round(self) -> bool:
        """Whether the dtype may turn out to be float64, in which different large integers may become equal."""
        return not self.definite and self.dtype in (np.dtype("int64"), np.dtype("uint64"))

    def at(self, name: str) -> Value:
        """The same column with a column of the base as its expression, which holds the same values."""
        return self.over(Column(name, self.physical))

    def over(self, column: Expr) -> Value:
        """The same column with another expression that holds the same values, or the same positions of values."""
        return replace(self, expr=self.expr.over(column) if isinstance(self.expr, ObjectColumn) else column)


@dataclass(frozen=True, slots=True)
class LevelSource:
    """The source and the order of the labels of a MultiIndex level.

    Parameters
    ----------
    base
        The operator whose rows have the labels.
    expr
        The labels, as an expression over the base.
    ordered
        Whether the labels are sorted, missing ones last; otherwise they are in order of first appearance.
    missing
        Whether a missing label is an entry of the level; otherwise rows with a missing label have a missing code.
    additional
        An operator with one column, ``label``, whose values are labels of the level as well.
    ranged
        Whether the level is a RangeIndex if the labels of the rows are evenly spaced, as for an index that became a level.
    """

    base: Operator
    expr: Expr
    ordered: bool
    missing: bool
    additional: Operator | None = None
    ranged: bool = False


@dataclass(frozen=True, slots=True)
class IndexSpec:
    """The row labels.

    Parameters
    ----------
    kind
        ``default``: a RangeIndex from 0, not stored. ``range``: labels selected from a RangeIndex, which pandas makes a RangeIndex
        again if they are evenly spaced. ``labels``: one column. ``multi``: a MultiIndex.
    values
        The label columns; none for ``default``.
    names
        The names of the levels (one for ``default``).
    freq
        The frequency of the DatetimeIndex or TimedeltaIndex in memory from which the labels were selected. The result has k times
        this frequency if the rows are every k-th row.
    consecutive_only
        Whether the result has the frequency only if the rows are consecutive, as after selection from a Series by a mask.
    regular_rows
        The operator whose rows certainly have labels with the frequency: a slice of rows in memory. None: only those in memory.
    levels
        The levels, in order, of the MultiIndex in memory from which the labels were selected; empty if new levels are made.
    sources
        The sources of the levels, if these are not known yet and may differ from the labels of the remaining rows.
    """

    kind: OneOf["default", "range", "labels", "multi"] = "default"
    values: tuple[Value, ...] = ()
    names: tuple[Hashable, ...] = (None,)
    freq: Any = None
    consecutive_only: bool = False
    regular_rows: Operator | None = field(default=None, compare=False)
    levels: tuple[pd.Index, ...] = field(default=(), compare=False)
    sources: tuple[LevelSource, ...] = field(default=(), compare=False)

    def __post_init__(self) -> None:
        for value in self.values:
            expr = getattr(value, "expr", None)  # values without an expression are placeholders
            if isinstance(expr, ObjectColumn) and (self.kind != "labels" or not expr.in_memory):
                raise Unsupported(Refusal.OBJECT_LABELS)

    @property
    def has_frequency(self) -> bool:
        """Whether the labels or one of the levels have a frequency."""
        return self.freq is not None or any(frequency(level) is not None for level in self.levels)

    def refuse_frequency(self) -> None:
        """Refuse labels with a frequency that become levels, or labels of other rows: their new frequency depends on the data.

        Raises
        ------
        Unsupported
            If the labels or a level have a frequency.
        """
        if self.has_frequency:
            raise Unsupported(Refusal.LABELS_WITH_FREQUENCY)

    def levels_named(self, label: Hashable) -> list[int]:
        """The numbers of the levels that have a name.

        Raises
        ------
        Unsupported
            If the name of a level is a boolean: it would equal the number 0 or 1, but not in pandas. If the label or a name is
            a missing value other than None: whether it equals itself depends on the method, and on which object it is.
        """
        if any(isinstance(name, (bool, np.bool_)) for name in self.names):
            raise Unsupported(Refusal.LEVEL_NAMES)
        if label is None:
            return []
        given = [name for name in self.names if name is not None]
        if given and any(map(is_missing_label, [label, *given])):
            raise Unsupported(Refusal.LABEL_MISSING)
        # NumPy would compare a NumPy scalar with each element of a tuple.
        same_kind = [isinstance(name, tuple) == isinstance(label, tuple) for name in self.names]
        return [i for i, name in enumerate(self.names) if name is not None and same_kind[i] and name == label]

    def refuse_non_string_names(self) -> None:
        """Refuse keys that are levels if pandas could mistake the name of one level for the number of another.

        Raises
        ------
        Unsupported
            If the name of a level is not a string.
        """
        if any(name is not None and not isinstance(name, str) for name in self.names):
            raise Unsupported(Refusal.LEVEL_NAMES)

    def renamed(self, names: Sequence[Hashable]) -> IndexSpec:
        """The same labels with other level names."""
        return replace(self, names=tuple(names))

    def select_levels(self, order: Sequence[int], multi: bool = False) -> IndexSpec:
        """Some of the levels of a MultiIndex, at least one, in a given order; with ``multi``, a MultiIndex even of one level.

        Raises
        ------
        Unsupported
            If only one level is selected, and it has a frequency.
        """
        several = multi or len(order) > 1
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
        """Whether a missing label may be an entry of a MultiIndex level, where it is the last one."""
        if self.sources:
            return self.sources[level].missing and self.values[level].clean.nulls
        return bool(self.levels) and bool(self.levels[level].hasnans)


@dataclass(frozen=True, slots=True)
class View:
    """The immutable state of a lazy DataFrame or Series. The view of a Series has one value, and its label is the name.

    Parameters
    ----------
    base
        The operator that produces the rows.
    values
        The columns, in order.
    labels
        The column labels, a pandas Index as long as ``values``.
    index
        The row labels.
    rows
        The number of rows, if it is known without running the plan.
    """

    base: Operator
    values: tuple[Value, ...]
    labels: pd.Index
    index: IndexSpec = field(default_factory=IndexSpec)
    rows: int | None = None

    @property
    def exprs(self) -> tuple[Expr, ...]:
        """The expressions of all columns and index levels; object columns as the columns that they are read from."""
        return tuple(value.read for value in (*self.values, *self.index.values))

    # -- columns -----------------------------------------------------------------------------------------------------

    def positions(self, label: Hashable) -> list[int]:
        """The positions of the columns with a label: several for duplicates, none if it is unknown.

        Raises
        ------
        Unsupported
            If the label is a string and the labels are dates: some methods of pandas parse it as a date, others do not. If the
            label is a missing value, and one of the labels is, or they have several levels: which are equal depends on the method.
        """
        if isinstance(label, str) and isinstance(self.labels, (pd.DatetimeIndex, pd.TimedeltaIndex, pd.PeriodIndex)):
            raise Unsupported(Refusal.TEXT_BESIDE_DATES)
        if is_missing_label(label):
            if isinstance(self.labels, pd.MultiIndex) or self.labels.hasnans:
                raise Unsupported(Refusal.LABEL_MISSING)
            return []
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
        """The position of the only column with a label.

        Raises
        ------
        KeyError
            As pandas raises it, if there is none.
        Unsupported
            If several columns have it.
        """
        found = self.positions(label)
        if not found:
            raise KeyError(label)
        if len(found) > 1:
            raise Unsupported(Refusal.COLUMNS_OF_ONE_LABEL, repr(label))
        return found[0]

    def take(self, positions: Sequence[int]) -> View:
        """The view of some of the columns."""
        return replace(self, values=tuple(self.values[i] for i in positions), labels=self.labels.take(list(positions)))

    def with_values(self, values: Sequence[Value], labels: pd.Index | None = None) -> View:
        """Other columns over the same rows."""
        return replace(self, values=tuple(values), labels=self.labels if labels is None else labels)

    def series(self, value: Value, name: Hashable) -> View:
        """A one-column view of the same rows."""
        return replace(self, values=(value,), labels=name_index(name))

    # -- rows --------------------------------------------------------------------------------------------------------

    def numbered(self) -> View:
        """The same view with default row labels as a column, so that a selection of rows keeps their labels.

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
        """The view from which rows can be selected.

        Later selections keep the present levels of a MultiIndex. The frequency of the index is removed if the rows are already a
        selection: whether the first selection kept it depends on the data, and a second selection cannot restore it.
        """
        if self.index.kind == "multi":
            return self.with_levels()
        if self.index.freq is None or (self.rows is not None and self.rows < 2):
            return self  # any selection from so few rows is evenly spaced
        base, labels = self.base, roots(self.index.values[0].expr)
        while isinstance(base, (Project, Window, RowNumber, Slice, Attach)):
            if base is self.index.regular_rows:
                return self
            if isinstance(base, Attach) and labels <= set(base.columns):
                return self  # the labels were attached to these rows
            base = base.input
        regular = isinstance(base, Scan) or base is self.index.regular_rows
        return self if regular else replace(self, index=replace(self.index, freq=None))

    def keep_frequency_if_consecutive(self) -> View:
        """The view that keeps its frequency only if its rows are consecutive, as after a selection from a Series by a mask."""
        return self if self.index.freq is None else replace(self, index=replace(self.index, consecutive_only=True))

    def with_levels(self) -> View:
        """The view whose MultiIndex keeps its present levels in later selections: pandas keeps labels that no row has."""
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
        """The rows for which a predicate over the base is true."""
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
        """The view over an operator with other rows: fewer, more, or in another order.

        Values that depend on other rows (windows) are computed before the rows change.

        Parameters
        ----------
        rule
            Makes the new operator, with all columns of the base, from the base and from ``exprs`` without windows.
        exprs
            Expressions over the present base, which ``rule`` needs.
        rows
            The new number of rows, if it is known.
        """
        held = self
        if self.windowed or any(map(has_window, exprs)):
            held, exprs = self.projected_with(exprs)
        return replace(held, base=rule(held.base, exprs), rows=rows)

    @property
    def windowed(self) -> bool:
        """Whether a column or a label depends on other rows."""
        return any(map(has_window, self.exprs))

    def projected(self) -> View:
        """The same view over a projection to exactly its own columns, so that each value is a plain column of the base."""
        return self.projected_with([])[0]

    def projected_with(self, extra: Sequence[Expr]) -> tuple[View, list[Expr]]:
        """As :meth:`projected`, with more expressions over the base, which are returned as columns of the new base."""
        every = [*self.index.values, *self.values]
        texts = [value.expr.text for value in self.values if isinstance(value.expr, ObjectColumn) and value.expr.text]
        given, extra = len(extra), [*extra, *texts]
        names = column_names([*index_labels(self.index), *self.labels])
        taken = set(names)
        extra_names = []
        for i in range(len(extra)):
            name = f"__key{i}__"
            while name in taken:
                name += "_"
            taken.add(name)
            extra_names.append(name)
        exprs = [value.read for value in every] + list(extra)
        all_names = names + extra_names
        columns = tuple(zip(all_names, exprs, strict=True))
        if not columns:
            return self, []
        identity = tuple((name, Column(name, dtype)) for name, dtype in schema(self.base).items())
        base = self.base if columns == identity else build.project(self.base, columns)
        count = len(self.index.values)
        added = [Column(name, dtype_of(expr)) for name, expr in zip(extra_names, extra, strict=True)]
        moved = iter(added[given:])
        return (
            replace(
                self,
                base=base,
                values=tuple(
                    replace(value, expr=value.expr.over(Column(name, value.physical), next(moved)))
                    if isinstance(value.expr, ObjectColumn) and value.expr.text
                    else value.at(name)
                    for value, name in zip(self.values, names[count:], strict=True)
                ),
                index=replace(
                    self.index,
                    values=tuple(v.at(name) for v, name in zip(self.index.values, names[:count], strict=True)),
                ),
            ),
            list(added[:given]),
        )


def frequency(index: pd.Index) -> Any:
    """The frequency of a DatetimeIndex or TimedeltaIndex. None for any other index; that of a PeriodIndex is part of its dtype."""
    return index.freq if isinstance(index, (pd.DatetimeIndex, pd.TimedeltaIndex)) else None


def is_missing_label(label: Hashable) -> bool:
    """Whether a label is None, NaN, NA, NaT or another missing value."""
    return is_scalar(label) and bool(pd.isna(label))


def name_index(name: Hashable) -> pd.Index:
    """An Index with one label, which may be a tuple."""
    values = np.empty(1, dtype=object)
    values[0] = name
    return pd.Index._simple_new(values)  # type: ignore[attr-defined, no-any-return]


def index_labels(index: IndexSpec) -> list[str]:
    """Readable plan names for the index columns."""
    if not index.values:
        return []
    return [f"index:{name}" if name is not None else f"index{i}" for i, name in enumerate(index.names)]


def condition(value: Value) -> Expr:
    """A boolean value as a predicate, in which a missing value counts as false.

    Raises
    ------
    Unsupported
        If the value is not boolean, or its dtype depends on the data.
    """
    if value.dtype != BOOL and str(value.dtype) not in ("boolean", "bool[pyarrow]"):
        raise Unsupported(Refusal.MASK_OF_DTYPE, value.dtype)
    if value.source is not None:
        raise Unsupported(Refusal.MASK_DTYPE_OF_DATA)
    return value.expr


def as_frame(held: View, name: Hashable) -> View:
    """The view of a Series as that of a frame with one column."""
    return replace(held, labels=pd.Index([name]))
