"""``Series.str`` over a plan.

Each method is first called on a one-row stand-in, with pandas' own accessor, to learn the result's dtype and to raise
pandas' errors and warnings. The most used methods become expressions of the kernel. Other row-wise methods run pandas' code
batch by batch (:mod:`craton.pandas.values.batches`), and the rest runs in pandas on the materialised column.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any

import pandas as pd
import polars as pl
from pandas.core.accessor import Accessor
from pandas.core.strings.accessor import StringMethods as PandasStringMethods

from craton.engine import collect_rows, may_keep
from craton.errors import Unsupported
from craton.pandas.core import stand_ins
from craton.pandas.core.align import aligned, attached
from craton.pandas.core.data_checks import any_row
from craton.pandas.core.dtypes import BOOL, INT64, OBJECT, DtypeObj, family, kind_of, physical
from craton.pandas.core.execute import has_rows, scalar
from craton.pandas.core.inherit import counterpart
from craton.pandas.core.lazy import lazy, view
from craton.pandas.core.native import Native
from craton.pandas.core.routing import stays_in_pandas
from craton.pandas.core.view import Value, View
from craton.pandas.values.accessors import LazyAccessor, member
from craton.pandas.values.text.string_functions import ARGUMENTS, BATCHED, EXPRESSIONS, string_literal
from craton.plan import build
from craton.plan.expr import Call, Expr, Literal
from craton.plan.operators import AggregateCall
from craton.refusals import Refusal


def _result(name: str, held: View, value: Value, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Value:
    """The column that a method returns.

    Raises
    ------
    Unsupported
        If the dtype of the input or of the result depends on the data, or pandas refuses the arguments.
    """
    from craton.pandas.values.batches import COLUMN, batched
    from craton.pandas.values.text.regex_engines import refuse_engine_of_data

    if not value.definite:
        raise Unsupported(Refusal.DTYPE_OF_DATA)
    dtype = _probe_dtype(name, value.dtype, args, kwargs)
    refuse_engine_of_data(name, value.dtype, args, kwargs)
    fill = _fill_value(args, kwargs, name)
    builder = EXPRESSIONS.get(name)
    expr: Expr | None = None
    if (
        builder is not None
        and family(value.dtype) != "category"
        and getattr(value.dtype, "storage", "pyarrow") == "pyarrow"
    ):
        try:
            expr = builder(value, *args, **kwargs)
        except (Unsupported, TypeError):
            expr = None
    if expr is None:
        result = batched("method", f"str.{name}", [value], dtype, (COLUMN, *args), **kwargs)
        if family(dtype) != "numpy" or dtype.kind == "b":
            result = Value(result.expr, dtype, nulls=value.nulls or name == "get")
    else:
        result = Value(expr, dtype, nulls=value.nulls)
        if dtype == BOOL and value.nulls:
            filled = Call("fill_null", (expr, Literal(bool(fill), pl.Boolean())), pl.Boolean())
            result = Value(filled, dtype, nulls=False)
        elif fill is not None and kind_of(dtype) == "b" and value.nulls:
            result = Value(
                Call("fill_null", (expr, Literal(bool(fill), pl.Boolean())), pl.Boolean()), dtype, nulls=False
            )
    if dtype == INT64 and value.nulls:
        source = build.project(held.base, (("text", value.expr),)), "text"
        return Value(result.expr, dtype, nulls=True, source=source)
    if dtype == BOOL:
        return Value(result.expr, dtype, nulls=False)
    return result


def _fill_value(args: tuple[Any, ...], kwargs: dict[str, Any], name: str) -> bool | None:
    """The ``na`` argument of a call, or ``None`` if there is none; refused unless it is a boolean."""
    position = {"contains": 3, "match": 3, "fullmatch": 3, "startswith": 1, "endswith": 1}.get(name)
    if position is None:
        return None
    value = kwargs.get("na", args[position] if len(args) > position else None)
    if value is None and "na" not in kwargs and len(args) <= position:
        return None
    if not isinstance(value, bool):
        raise Unsupported(Refusal.PARAMETER, f"na={value!r}")
    return value


def _probe_dtype(name: str, dtype: DtypeObj, args: tuple[Any, ...], kwargs: dict[str, Any]) -> DtypeObj:
    for item in (*args, *kwargs.values()):
        if not isinstance(item, ARGUMENTS):
            raise Unsupported(Refusal.ARGUMENT_TYPE, type(item).__name__)
    result = stand_ins.probe(getattr(stand_ins.column(dtype, 1).str, name), *args, warned=True, **kwargs)
    if not isinstance(result, pd.Series) or result.dtype == object:
        raise Unsupported(Refusal.OBJECT_RESULT)
    physical(result.dtype)
    return result.dtype  # type: ignore[no-any-return]


def _method(name: str) -> Callable[..., Any]:
    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        from craton.pandas.values.batches import computed_if_in_memory

        held, value = self._held
        return self._series_of(*computed_if_in_memory(held, _result(name, held, value, args, kwargs)))

    return run


def _expanded(self: Any, name: str, frame: pd.DataFrame, args: tuple[Any, ...], kwargs: dict[str, Any]) -> View:
    """The view of a frame of string columns, taken from pandas' results for batches; ``frame`` has the labels and dtypes."""
    from craton.pandas.values.batches import COLUMN, batched, computed_together

    held, value = self._held
    if any(kind_of(dtype) != "T" for dtype in frame.dtypes):
        raise Unsupported(Refusal.OBJECT_RESULT)
    values = [
        batched("method", f"str.{name}", [value], dtype, (COLUMN, *args), pick=position, **kwargs)
        for position, dtype in enumerate(frame.dtypes)
    ]
    if len(values) > 1 and may_keep(held.base):
        held, values = computed_together(held, values)
    return held.with_values(values, frame.columns)


def _expanded_frame(self: Any, name: str, frame: pd.DataFrame, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A frame of string columns; see :func:`_expanded`."""
    held = _expanded(self, name, frame, args, kwargs)
    return lazy(self._series._constructor_expanddim, held, self._series)


def _extracted(self: Any, frame: pd.DataFrame, pat: str, flags: int) -> View:
    """The view of the groups of the first match; in the kernel, if it certainly matches as Python's :mod:`re` does."""
    from craton.pandas.values.text.regexes import translate_groups

    held, value = self._held
    if not flags and family(value.dtype) == "str" and value.dtype.storage == "pyarrow":
        with contextlib.suppress(Unsupported):
            translated = translate_groups(pat)
            if len(frame.dtypes) > 1 and may_keep(held.base):
                return _extracted_together(held, value, frame, translated)
            pattern = string_literal(translated)
            values = [
                Value(Call("str_extract", (value.expr, pattern), pl.String(), (("group", number),)), dtype)
                for number, dtype in enumerate(frame.dtypes, 1)
            ]
            return held.with_values(values, frame.columns)
    return _expanded(self, "extract", frame, (pat,), {"flags": flags, "expand": True})


def _extracted_together(held: View, value: Value, frame: pd.DataFrame, pattern: str) -> View:
    """The view of all groups of the first match, computed at once for data in memory by one search of each text."""
    from craton.kernel.run import collect

    (rows,) = collect_rows([build.project(held.base, (("text", value.expr),))], ordered=True)
    try:
        found = collect(rows.lazy().select(pl.col("text").str.extract_groups(pattern)).unnest("text"))
    except pl.exceptions.PolarsError as error:  # the kernel limits the size of patterns
        raise Unsupported(Refusal.PATTERN, pattern) from error
    held, exprs = attached(held, found.get_columns())
    values = [Value(expr, dtype) for expr, dtype in zip(exprs, frame.dtypes, strict=True)]
    return held.with_values(values, frame.columns)


def _extract(self: Any, pat: Any, flags: Any = 0, expand: Any = True) -> Any:
    from craton.pandas.values.text.regexes import group_count

    value = self._held[1]
    if not isinstance(pat, str) or type(flags) is not int or not isinstance(expand, bool) or not value.definite:
        raise Unsupported(Refusal.PARAMETERS, "pat, flags and expand")
    frame = stand_ins.probe(stand_ins.column(value.dtype, 1).str.extract, pat, warned=True, flags=flags, expand=True)
    if expand or frame.shape[1] > 1:
        index = self._held[0].index
        if (index.names != (None,) or index.kind == "labels") and not has_rows(self._held[0]):
            raise Unsupported(Refusal.NO_ROWS_LABELS_LOST)
        return lazy(self._series._constructor_expanddim, _extracted(self, frame, pat, flags), self._series)
    named = group_count(pat) and frame.columns[0]
    name = named if isinstance(named, str) else self._series.name
    held = _extracted(self, frame, pat, flags)
    return self._series_of(held, held.values[0]).rename(name)


def _partition(name: str) -> Callable[..., Any]:
    def run(self: Any, sep: Any = " ", expand: Any = True) -> Any:
        from craton.pandas.values.comparison import is_missing

        held, value = self._held
        if not isinstance(sep, str) or not sep or expand is not True or not value.definite:
            raise Unsupported(Refusal.PARAMETERS, "sep and expand")
        present = Call("not", (is_missing(value).expr,), pl.Boolean())
        if family(value.dtype) == "category" or not any_row(held, present):
            raise Unsupported(Refusal.TEXT_PARTITION)
        frame = stand_ins.probe(getattr(stand_ins.column(value.dtype, 1).str, name), sep)
        if name == "partition" and family(value.dtype) == "str" and value.dtype.storage == "pyarrow":
            parts = [
                Call("str_partition", (value.expr, string_literal(sep)), pl.String(), (("part", part),))
                for part in range(3)
            ]
            values = [Value(expr, dtype, value.nulls) for expr, dtype in zip(parts, frame.dtypes, strict=True)]
            return lazy(self._series._constructor_expanddim, held.with_values(values, frame.columns), self._series)
        return _expanded_frame(self, name, frame, (sep,), {"expand": True})

    return run


def _split(name: str) -> Callable[..., Any]:
    def run(self: Any, pat: Any = None, *, n: Any = -1, expand: Any = False, **kwargs: Any) -> Any:
        from craton.pandas.values.batches import COLUMN, batched
        from craton.pandas.values.comparison import is_missing

        held, value = self._held
        if expand is False:
            from craton.pandas.values.lists.splitting import split_lists

            return self._series_of(held, split_lists(held, name, pat, n, kwargs))
        if expand is True:
            from craton.pandas.values.lists.splitting import split_columns

            with contextlib.suppress(Unsupported):
                split = split_columns(held, name, pat, n, kwargs)
                return lazy(self._series._constructor_expanddim, split, self._series)
            if may_keep(held.base):
                return _in_pandas(name)(self, pat, n=n, expand=True, **kwargs)
        if expand is not True or kwargs or not isinstance(pat, (str, type(None))) or type(n) is not int:
            raise Unsupported(Refusal.TEXT_SPLIT)
        if not value.definite or family(value.dtype) != "str":
            raise Unsupported(Refusal.OPERATION, f"str.split of {value.dtype}")
        options: dict[str, Any] = {"pat": pat, "n": n, "expand": False}
        parts = batched("method", f"str.{name}", [value], INT64, (COLUMN,), lengths=True, **options)
        width = scalar(held, AggregateCall("max", (parts.expr,), pl.Int64()))
        if width is None:
            raise Unsupported(Refusal.TEXT_SPLIT_EMPTY)
        if not width and any_row(held, is_missing(value).expr):
            width = 1  # pandas returns one column, in which a missing string is missing
        frame = stand_ins.columns([value.dtype] * int(width))
        frame.columns = pd.RangeIndex(int(width))
        return _expanded_frame(self, name, frame, (), {"pat": pat, "n": n, "expand": True})

    return run


def _findall(self: Any, pat: Any, flags: Any = 0) -> Any:
    from craton.pandas.values.lists.splitting import all_matches

    held = self._held[0]
    return self._series_of(held, all_matches(held, pat, flags))


def _get_dummies(self: Any, sep: Any = "|", dtype: Any = None) -> Any:
    from craton.pandas.values.lists.indicators import indicators_of_items

    held = indicators_of_items(self._held[0], sep, dtype)
    return lazy(self._series._constructor_expanddim, held, self._series)


def _extractall(self: Any, pat: Any, flags: Any = 0) -> Any:
    from craton.pandas.values.lists.all_matches import extract_all

    return lazy(self._series._constructor_expanddim, extract_all(self._held[0], pat, flags))


def _joined(self: Any, sep: Any, na_rep: Any) -> str:
    """All strings of the column as one."""
    if not isinstance(sep, (str, type(None))) or not isinstance(na_rep, (str, type(None))):
        raise Unsupported(Refusal.PARAMETERS, "sep and na_rep")
    held, value = self._held
    if not value.definite or family(value.dtype) != "str":
        raise Unsupported(Refusal.TEXT_JOIN_DTYPES)
    text = value.expr
    if na_rep is not None:
        text = Call("fill_null", (text, Literal(na_rep, pl.String())), pl.String())
    return scalar(held, AggregateCall("str_join", (text,), pl.String(), (("separator", sep or ""),))) or ""


def _cat(self: Any, others: Any = None, sep: Any = None, na_rep: Any = None, join: Any = "left") -> Any:
    if others is None:
        return _joined(self, sep, na_rep)
    others = [others] if isinstance(others, pd.Series) else others
    if not isinstance(others, list) or not others or not all(isinstance(item, pd.Series) for item in others):
        raise Unsupported(Refusal.TEXT_JOIN_SERIES)
    if not isinstance(sep, (str, type(None))) or not isinstance(na_rep, (str, type(None))) or join != "left":
        raise Unsupported(Refusal.PARAMETERS, "sep, na_rep and join")
    held, value = self._held
    sides = []
    for item in others:
        held, other = aligned(held, view(item))
        sides.append(other)
    columns = [held.values[0], *(aligned(held, other)[1].values[0] for other in sides)]
    if any(column.dtype != value.dtype or not column.definite for column in columns) or family(value.dtype) != "str":
        raise Unsupported(Refusal.TEXT_JOIN_DTYPES)
    nulls = any(column.nulls for column in columns)
    exprs = [column.expr for column in columns]
    if na_rep is not None:
        exprs = [Call("fill_null", (expr, Literal(na_rep, pl.String())), pl.String()) for expr in exprs]
        nulls = False
    expr = Call("concat_str", tuple(exprs), pl.String(), (("separator", sep or ""),))
    return self._series_of(held, Value(expr, value.dtype, nulls=nulls))


def _replace(self: Any, pat: Any, *args: Any, **kwargs: Any) -> Any:
    repl = args[0] if args else kwargs.get("repl")
    if callable(repl):
        return _in_pandas("replace")(self, pat, *args, **kwargs)
    return _method("replace")(self, pat, *args, **kwargs)


def _in_pandas(name: str) -> Callable[..., Any]:
    """A method that pandas runs for all rows at once: it calls a function of the user, raises for some texts, or returns bytes."""

    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        from craton.pandas.values.whole_results import computed_by_pandas

        return computed_by_pandas(self._series, lambda column: getattr(column.str, name)(*args, **kwargs))

    return run


_SPECIAL: dict[str, Callable[..., Any]] = {
    **{name: _in_pandas(name) for name in ("encode", "index", "rindex", "join")},
    "replace": _replace,
    "extract": _extract,
    "partition": _partition("partition"),
    "rpartition": _partition("rpartition"),
    "split": _split("split"),
    "rsplit": _split("rsplit"),
    "cat": _cat,
    "extractall": _extractall,
    "findall": _findall,
    "get_dummies": _get_dummies,
}


class StringMethods(LazyAccessor, PandasStringMethods):
    """``Series.str`` of a lazy Series of strings; see :class:`pandas.Series.str`."""

    _pandas_accessor = PandasStringMethods

    def __getitem__(self: Any, key: Any) -> Any:
        if isinstance(key, slice):
            return self.slice(key.start, key.stop, key.step)
        return self.get(key)

    def __iter__(self) -> Any:
        raise TypeError(f"'{type(self).__name__}' object is not iterable")


for _name, _original in list(vars(PandasStringMethods).items()):
    if not _name.startswith("_") and callable(_original):
        _function = _SPECIAL.get(_name) or (_method(_name) if _name in BATCHED else None)
        setattr(StringMethods, _name, member("str", _name, _function, _original))


#: pandas takes several times as long for a text as for a number, so that fewer texts stay in pandas: one part in so many of the limit.
_SMALL_PART = 5


@functools.cache
def _counted_class() -> Any:
    return counterpart(PandasStringMethods, "Series.str")


class StringAccessor(Accessor):
    """``Series.str``: :class:`StringMethods` for a lazy Series of strings, pandas' own accessor for others."""

    def __init__(self) -> None:
        super().__init__("str", PandasStringMethods)
        self.__craton_native__ = Native("Series.str", PandasStringMethods, StringMethods)

    def __get__(self, obj: Any, cls: Any) -> Any:
        if obj is None:
            return PandasStringMethods
        if stays_in_pandas(obj, _SMALL_PART):
            return _counted_class()(obj)
        dtype = obj.dtype
        if kind_of(dtype) == "T" or (isinstance(dtype, pd.CategoricalDtype) and kind_of(dtype.categories.dtype) == "T"):
            return StringMethods(obj)
        if dtype.kind in "biufmM":
            PandasStringMethods(stand_ins.column(dtype))  # raises pandas' error
        if dtype == OBJECT and "_view" in obj.__dict__:
            from craton.pandas.values.lists.accessor import methods_of as methods_of_lists
            from craton.pandas.values.lists.text_objects import methods_of as methods_of_text

            return methods_of_lists(obj) or methods_of_text(obj) or _counted_class()(obj)
        return _counted_class()(obj)
