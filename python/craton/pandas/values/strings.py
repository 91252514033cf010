"""``Series.str`` over a plan.

Each method is first called on a one-row stand-in, with pandas' own accessor, to learn the result's dtype and to raise
pandas' errors and warnings. The most used methods become expressions of the kernel. Other row-wise methods run pandas' code
batch by batch (:mod:`craton.pandas.values.batches`), and the rest runs in pandas on the materialised column.
"""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Callable
from typing import Any

import pandas as pd
import polars as pl
from pandas.core.accessor import Accessor
from pandas.core.strings.accessor import StringMethods as PandasStringMethods

from craton.engine import may_keep
from craton.errors import Unsupported
from craton.pandas.core import stand_ins
from craton.pandas.core.align import aligned
from craton.pandas.core.data_checks import any_row
from craton.pandas.core.dtypes import BOOL, INT64, DtypeObj, family, kind_of, physical
from craton.pandas.core.execute import has_rows, scalar
from craton.pandas.core.inherit import counterpart
from craton.pandas.core.lazy import lazy, view
from craton.pandas.core.native import Native
from craton.pandas.core.routing import stays_in_pandas
from craton.pandas.core.view import Value, View
from craton.pandas.values.accessors import LazyAccessor, member
from craton.plan import build
from craton.plan.expr import Call, Expr, Literal
from craton.plan.operators import AggregateCall
from craton.refusals import Refusal

_BATCHED = [
    "capitalize",
    "casefold",
    "center",
    "contains",
    "count",
    "endswith",
    "find",
    "fullmatch",
    "get",
    "index",
    "isalnum",
    "isalpha",
    "isascii",
    "isdecimal",
    "isdigit",
    "islower",
    "isnumeric",
    "isspace",
    "istitle",
    "isupper",
    "len",
    "ljust",
    "lower",
    "lstrip",
    "match",
    "normalize",
    "pad",
    "removeprefix",
    "removesuffix",
    "repeat",
    "replace",
    "rfind",
    "rindex",
    "rjust",
    "rstrip",
    "slice",
    "slice_replace",
    "startswith",
    "strip",
    "swapcase",
    "title",
    "translate",
    "upper",
    "wrap",
    "zfill",
]
_RAISING = {"index", "rindex"}
_ARGUMENTS = (str, int, bool, float, tuple, dict, re.Pattern, type(None))

ExpressionBuilder = Callable[..., Expr]
_EXPRESSIONS: dict[str, ExpressionBuilder] = {}


def _expression(function: ExpressionBuilder) -> ExpressionBuilder:
    _EXPRESSIONS[function.__name__.strip("_")] = function
    return function


def _string_literal(value: Any) -> Literal:
    if type(value) is not str:
        raise Unsupported(Refusal.TEXT_EXPECTED, type(value).__name__)
    return Literal(value, pl.String())


def _boolean(function: str, value: Value, pattern: Expr, **options: Any) -> Expr:
    return Call(function, (value.expr, pattern), pl.Boolean(), tuple(sorted(options.items())))


@_expression
def _contains(value: Value, pat: Any, case: bool = True, flags: int = 0, na: Any = None, regex: bool = True) -> Expr:
    from craton.pandas.values.regexes import is_literal, translate

    literal = _string_literal(pat)
    if case is not True or flags:
        raise Unsupported(Refusal.PARAMETER, "case")
    if not regex or is_literal(pat):
        return _boolean("str_contains", value, literal, literal=True)
    _refuse_other_reading(value, pat)
    return _boolean("str_contains", value, _string_literal(translate(pat)), literal=False)


def _refuse_other_reading(value: Value, pattern: str, **uses: bool) -> None:
    """Refuse a pattern that pandas may match with RE2, if RE2 may match it differently from Python; see :func:`engines_agree`."""
    from craton.pandas.values.regex_engines import engines_agree, uses_python

    arrow = family(value.dtype) == "arrow"
    if arrow and ("\\" in pattern or "$" in pattern):
        raise Unsupported(Refusal.PATTERN_ARROW)
    if (arrow or not uses_python(pattern)) and not engines_agree(pattern, **uses):
        raise Unsupported(Refusal.PATTERN_ENGINE)


@_expression
def _match(value: Value, pat: Any, case: Any = None, flags: Any = None, na: Any = None) -> Expr:
    from craton.pandas.values.regexes import translate

    if case not in (None, True) or flags:
        raise Unsupported(Refusal.PARAMETER, "case")
    _string_literal(pat)
    _refuse_other_reading(value, pat)
    return _boolean("str_contains", value, _string_literal(rf"\A(?:{translate(pat)})"), literal=False)


@_expression
def _startswith(value: Value, pat: Any, na: Any = None) -> Expr:
    return _boolean("str_starts_with", value, _string_literal(pat))


@_expression
def _endswith(value: Value, pat: Any, na: Any = None) -> Expr:
    return _boolean("str_ends_with", value, _string_literal(pat))


@_expression
def _slice(value: Value, start: Any = None, stop: Any = None, step: Any = None) -> Expr:
    if step not in (None, 1) or any(item is not None and type(item) is not int for item in (start, stop)):
        raise Unsupported(Refusal.TEXT_SLICE_STEP)
    start = 0 if start is None else start
    if stop is None:
        return _substring(value, start, None)
    if (start < 0) != (stop < 0):
        raise Unsupported(Refusal.TEXT_SLICE_ENDS)
    return _substring(value, start, max(stop - start, 0))


def _substring(value: Value, offset: int, length: int | None) -> Expr:
    return Call("str_slice", (value.expr,), pl.String(), (("length", length), ("offset", offset)))


@_expression
def _len(value: Value) -> Expr:
    return Call("str_len", (value.expr,), pl.Int64())


@_expression
def _replace(
    value: Value, pat: Any, repl: Any = None, n: int = -1, case: Any = None, flags: int = 0, regex: bool = False
) -> Expr:
    from craton.pandas.values.regexes import can_match_empty, is_literal, translate

    if case not in (None, True) or flags or type(n) is not int or n == 0 or pat == "":
        raise Unsupported(Refusal.PARAMETERS, "case, flags, n and pat")
    literal = not regex or is_literal(_string_literal(pat).value)
    text = _string_literal(repl).value
    # In Arrow strings, pandas expands a reference to a group even if the pattern is literal.
    if (regex and "\\" in text) or "\\g<" in text:
        raise Unsupported(Refusal.TEXT_REPLACEMENT)
    if not literal:
        _refuse_other_reading(value, pat, consumes=True, restarts=n > 0)
        if can_match_empty(pat) or _has_dollar(pat):
            raise Unsupported(Refusal.TEXT_REPLACEMENT)
        if n > 1:
            raise Unsupported(Refusal.TEXT_REPLACEMENTS)
    pattern = _string_literal(pat) if literal else _string_literal(translate(pat))
    replacement = _string_literal(repl) if literal else _string_literal(repl.replace("$", "$$"))
    return Call(
        "str_replace",
        (value.expr, pattern, replacement),
        pl.String(),
        (("literal", literal), ("n", -1 if n < 0 else n)),
    )


def _has_dollar(pattern: str) -> bool:
    # "$" may match before a final newline; the kernel's pattern would include that newline in the match.
    return "$" in pattern


def _result(name: str, held: View, value: Value, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Value:
    """The column that a method returns.

    Raises
    ------
    Unsupported
        If the dtype of the input or of the result depends on the data, or pandas refuses the arguments.
    """
    from craton.pandas.values.batches import COLUMN, batched
    from craton.pandas.values.regex_engines import refuse_engine_of_data

    if not value.definite:
        raise Unsupported(Refusal.DTYPE_OF_DATA)
    dtype = _probe_dtype(name, value.dtype, args, kwargs)
    refuse_engine_of_data(name, value.dtype, args, kwargs)
    fill = _fill_value(args, kwargs, name)
    builder = _EXPRESSIONS.get(name)
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
        if not isinstance(item, _ARGUMENTS):
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
    from craton.pandas.values.regexes import translate_groups

    held, value = self._held
    if not flags and family(value.dtype) == "str" and value.dtype.storage == "pyarrow":
        with contextlib.suppress(Unsupported):
            pattern = _string_literal(translate_groups(pat))
            values = [
                Value(Call("str_extract", (value.expr, pattern), pl.String(), (("group", number),)), dtype)
                for number, dtype in enumerate(frame.dtypes, 1)
            ]
            return held.with_values(values, frame.columns)
    return _expanded(self, "extract", frame, (pat,), {"flags": flags, "expand": True})


def _extract(self: Any, pat: Any, flags: Any = 0, expand: Any = True) -> Any:
    from craton.pandas.values.regexes import group_count

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
        return _expanded_frame(self, name, frame, (sep,), {"expand": True})

    return run


def _split(name: str) -> Callable[..., Any]:
    def run(self: Any, pat: Any = None, *, n: Any = -1, expand: Any = False, **kwargs: Any) -> Any:
        from craton.pandas.values.batches import COLUMN, batched
        from craton.pandas.values.comparison import is_missing

        held, value = self._held
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


def _cat(self: Any, others: Any = None, sep: Any = None, na_rep: Any = None, join: Any = "left") -> Any:
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


_SPECIAL: dict[str, Callable[..., Any]] = {
    "extract": _extract,
    "partition": _partition("partition"),
    "rpartition": _partition("rpartition"),
    "split": _split("split"),
    "rsplit": _split("rsplit"),
    "cat": _cat,
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
        _function = _SPECIAL.get(_name) or (_method(_name) if _name in _BATCHED and _name not in _RAISING else None)
        setattr(StringMethods, _name, member("str", _name, _function, _original))


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
        if stays_in_pandas(obj):
            return _counted_class()(obj)
        dtype = obj.dtype
        if kind_of(dtype) == "T" or (isinstance(dtype, pd.CategoricalDtype) and kind_of(dtype.categories.dtype) == "T"):
            return StringMethods(obj)
        if dtype.kind in "biufmM":
            PandasStringMethods(stand_ins.column(dtype))  # raises pandas' error
        return _counted_class()(obj)
