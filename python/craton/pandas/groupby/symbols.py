"""Symbolic groups: a user's function is called once with a symbol of a group, and the result is the expression that it computes.

Most functions for groups are arithmetic on reductions, as ``lambda s: s.max() - s.min()``. :func:`trace` runs such a function
with a :class:`Rows` or a :class:`Table` in place of the group. The function's globals are replaced by symbols too, so it can reach
nothing else. An operation that a symbol does not have raises an error, and the function is then called for each group as in pandas.
A function is only traced if its code cannot change anything: it assigns no variable of others, and handles no errors.
"""

from __future__ import annotations

import dis
import functools
import inspect
from collections.abc import Callable, Hashable, Mapping
from types import CellType, CodeType, FunctionType
from typing import Any

import numpy as np
import pandas as pd

from craton.errors import Unsupported
from craton.pandas.core.dtypes import BOOL, FLOAT64, INT64, STR, DtypeObj, physical
from craton.pandas.core.native import getattr_static
from craton.pandas.core.numpy_errors import reported_kinds
from craton.pandas.core.view import Value
from craton.pandas.values.operands import ARITHMETIC, COMPARISON, LOGIC, probe
from craton.pandas.window.moving import STATISTICS, window_options
from craton.plan.expr import Column
from craton.refusals import Refusal

#: Times without a zone, and the differences of two.
TIME, DURATION = np.dtype("datetime64[us]"), np.dtype("timedelta64[us]")
#: The dtypes of columns that symbols stand for.
DTYPES = (INT64, FLOAT64, STR, TIME)

#: The reductions of a Series, and the dtype of their results; None for the dtype of the column, or of sums of it.
_REDUCTIONS: dict[str, DtypeObj | None] = {
    **dict.fromkeys(("sum", "prod", "min", "max")),
    **dict.fromkeys(("mean", "median", "std", "var"), FLOAT64),
    **dict.fromkeys(("count", "nunique"), INT64),
}
_OF_TEXTS: dict[str, DtypeObj] = {"count": INT64, "nunique": INT64}
_OF_TIMES: dict[str, DtypeObj] = {"min": TIME, "max": TIME}
_OF_BOOLEANS: dict[str, DtypeObj] = {"sum": INT64, "mean": FLOAT64, "any": BOOL, "all": BOOL, "count": INT64}
#: Reductions whose results are Python integers, with which Python divides by zero differently than NumPy.
_PYTHON_INTEGERS = frozenset(["size", "nunique"])
_BY_DTYPE: dict[Any, Any] = {BOOL: _OF_BOOLEANS, STR: _OF_TEXTS, TIME: _OF_TIMES}
_NOT_EXACT = frozenset(["sum", "prod", "mean", "std", "var"])


class NotTraced(Exception):
    """The function does something that symbols do not have."""


def _refuse(*_: Any, **__: Any) -> Any:
    raise NotTraced


def _require_numbers(*symbols: Symbol) -> None:
    if any(one.dtype not in (INT64, FLOAT64) for one in symbols):
        raise NotTraced


class Symbol:
    """An operation on symbols and numbers, whose result is a value for each row or for each group.

    Parameters
    ----------
    operation
        ``column``, ``reduce``, ``end``, ``pair``, ``isna``, ``days``, ``moving``, or the name of an operator.
    operands
        Symbols and numbers.
    dtype
        The dtype of the result.
    details
        Further arguments of the operation.
    """

    def __init__(self, operation: str, operands: tuple[Any, ...], dtype: Any, **details: Any) -> None:
        self.operation, self.operands, self.dtype, self.details = operation, operands, dtype, details

    __hash__ = None  # type: ignore[assignment]
    __bool__ = __str__ = __repr__ = __format__ = __contains__ = __iter__ = __index__ = __int__ = __float__ = _refuse
    __getitem__ = __len__ = _refuse

    def __abs__(self) -> Symbol:
        _require_numbers(self)
        return type(self)("abs", (self,), self.dtype)

    def __neg__(self) -> Symbol:
        _require_numbers(self)
        return type(self)("neg", (self,), self.dtype)

    @property
    def exact(self) -> bool:
        """Whether the result has no rounding errors of sums."""
        if self.operation == "pair":
            return False
        own = self.operation != "reduce" or self.dtype != FLOAT64 or self.details["how"] not in _NOT_EXACT
        return own and all(one.exact for one in self.operands if isinstance(one, Symbol))


class Group(Symbol):
    """A number for each group."""

    @property
    def is_python_number(self) -> bool:
        """Whether pandas' result is a number of Python, not of NumPy."""
        if self.operation in ("reduce", "end", "pair"):
            return self.details["how"] in _PYTHON_INTEGERS
        if self.operation == "days":
            return True
        symbols = [one for one in self.operands if isinstance(one, Symbol)]
        return all(isinstance(one, Group) and one.is_python_number for one in symbols)

    @property
    def days(self) -> Group:
        """The whole days of a duration."""
        if self.dtype != DURATION:
            raise NotTraced
        return Group("days", self.operands, INT64)


class Rows(Symbol):
    """A column of a group: a value for each row."""

    def _reduce(self, how: str, **options: Any) -> Group:
        known: dict[str, Any] = _BY_DTYPE.get(self.dtype, _REDUCTIONS)
        if how not in known:
            raise NotTraced
        return Group("reduce", (self,), known[how] or self.dtype, how=how, parameters=options)

    def var(self, *, ddof: int = 1) -> Group:
        return self._moment("var", ddof)

    def std(self, *, ddof: int = 1) -> Group:
        return self._moment("std", ddof)

    def _moment(self, how: str, ddof: int) -> Group:
        if type(ddof) is not int or ddof < 0:
            raise NotTraced
        return self._reduce(how, ddof=ddof)

    def abs(self) -> Any:
        return abs(self)

    def __invert__(self) -> Rows:
        if self.dtype != BOOL:
            raise NotTraced
        return Rows("invert", (self,), BOOL)

    def corr(self, other: Any) -> Group:
        return self._with_other("corr", other)

    def cov(self, other: Any) -> Group:
        return self._with_other("cov", other)

    def _with_other(self, how: str, other: Any) -> Group:
        if not isinstance(other, Rows):
            raise NotTraced
        _require_numbers(self, other)
        return Group("pair", (self, other), FLOAT64, how=how)

    def quantile(self, q: float = 0.5) -> Group:
        if type(q) not in (int, float) or not 0 <= q <= 1 or self.operation != "column":
            raise NotTraced
        _require_numbers(self)
        low, high = (
            Group("reduce", (self,), self.dtype, how="quantile", parameters={"q": q, "interpolation": how})
            for how in ("lower", "higher")
        )
        place = Group("mul", (Group("sub", (self._reduce("count"), 1), INT64), float(q)), FLOAT64)
        return Group("between", (low, high, place), FLOAT64)

    def fillna(self, value: Any) -> Rows:
        _require_numbers(self)
        if isinstance(value, Group):
            _require_numbers(value)
        elif type(value) not in (int, float) or value != value:
            raise NotTraced
        return self if self.dtype == INT64 else Rows("fillna", (self, value), FLOAT64)

    def shift(self, periods: int = 1) -> Rows:
        if type(periods) is not int or not periods:
            raise NotTraced
        _require_numbers(self)
        return Rows("shift", (self,), FLOAT64, periods=periods)

    def diff(self, periods: int = 1) -> Rows:
        if self.dtype != FLOAT64:
            raise NotTraced  # pandas subtracts integers in 64 bits, where they may overflow, and converts the differences to floats
        return Rows("sub", (self, self.shift(periods)), FLOAT64)

    def rolling(self, *args: Any, **kwargs: Any) -> _Windows:
        return _Windows(self, "rolling", args, kwargs)

    def expanding(self, *args: Any, **kwargs: Any) -> _Windows:
        return _Windows(self, "expanding", args, kwargs)

    def ewm(self, *args: Any, **kwargs: Any) -> _Windows:
        return _Windows(self, "ewm", args, kwargs)

    def isna(self) -> Rows:
        return Rows("isna", (self,), BOOL)

    def notna(self) -> Rows:
        return Rows("notna", (self,), BOOL)

    isnull, notnull = isna, notna

    @property
    def iloc(self) -> _Ends:
        return _Ends(self)

    @property
    def size(self) -> Group:
        return _length(self)

    @property
    def shape(self) -> tuple[Group]:
        return (_length(self),)


def _reduction(how: str) -> Callable[[Rows], Group]:
    def reduction(self: Rows) -> Group:
        return self._reduce(how)

    return reduction


for _how in {*_REDUCTIONS, *_OF_BOOLEANS} - {"var", "std"}:
    setattr(Rows, _how, _reduction(_how))


class _Ends:
    """``iloc`` of a column, which has the first and the last row."""

    __hash__ = None  # type: ignore[assignment]
    __bool__ = __str__ = __repr__ = __format__ = __contains__ = __iter__ = _refuse

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    def __getitem__(self, place: Any) -> Group:
        if type(place) is not int or place not in (0, -1):
            raise NotTraced
        _require_numbers(self._rows)
        return Group("end", (self._rows,), self._rows.dtype, how="first" if place == 0 else "last")


class _Windows:
    """``rolling``, ``expanding`` or ``ewm`` of a column of numbers, with pandas' arguments."""

    __hash__ = None  # type: ignore[assignment]
    __bool__ = __str__ = __repr__ = __format__ = __contains__ = __iter__ = __getitem__ = _refuse

    def __init__(self, rows: Rows, kind: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        _require_numbers(rows)
        if not all(type(one) in (int, float, bool, str) for one in (*args, *kwargs.values())):
            raise NotTraced
        self.__rows, self.__kind = rows, kind
        # pandas checks the arguments; without times, it refuses windows of time
        self.__window = window_options(getattr(pd.Series([1.0]), kind)(*args, **kwargs), kind)

    def __getattr__(self, name: str) -> Callable[[], Rows]:
        if name not in STATISTICS[self.__kind] or name not in (
            "mean",
            "sum",
            "min",
            "max",
            "std",
            "var",
            "median",
            "count",
        ):
            raise NotTraced
        return lambda: Rows("moving", (self.__rows,), FLOAT64, kind=self.__kind, window=self.__window, how=name)


def _length(of: Any) -> Group:
    if isinstance(of, Table):
        return of.size_of_group()
    if not isinstance(of, Rows):
        raise NotTraced
    return Group("reduce", (of,), INT64, how="size", parameters={})


class Table:
    """A group of rows of a frame.

    Parameters
    ----------
    columns
        The symbol of each column, by label; None for columns whose dtype symbols do not have.
    numbers
        The symbols of all columns if all are numbers, for correlations; otherwise None.
    """

    __hash__ = None  # type: ignore[assignment]
    __bool__ = __str__ = __repr__ = __format__ = __contains__ = __iter__ = __eq__ = __ne__ = _refuse  # type: ignore[assignment]

    def __init__(self, columns: Mapping[Hashable, Rows | None], numbers: Mapping[Hashable, Rows] | None = None) -> None:
        self.__columns, self.__numbers = columns, numbers

    def corr(self, *, numeric_only: bool = False) -> _Correlations:
        if self.__numbers is None or type(numeric_only) is not bool:
            raise NotTraced
        return _Correlations(self.__numbers)

    def size_of_group(self) -> Group:
        return Group("reduce", (), INT64, how="size", parameters={})

    @property
    def shape(self) -> tuple[Group, int]:
        return self.size_of_group(), len(self.__columns)

    def __getitem__(self, label: Any) -> Rows:
        found = self.__columns.get(label) if type(label) in (str, int) else None
        if found is None:
            raise NotTraced
        return found

    def __getattr__(self, label: str) -> Rows:
        try:
            getattr_static(pd.DataFrame, label)
        except AttributeError:
            return self[label]
        raise NotTraced


class _Correlations:
    """The matrix of a group's correlations, or one of its columns."""

    __hash__ = None  # type: ignore[assignment]
    __bool__ = __str__ = __repr__ = __format__ = __contains__ = __iter__ = __eq__ = __ne__ = _refuse  # type: ignore[assignment]

    def __init__(self, columns: Mapping[Hashable, Rows], chosen: Hashable = None) -> None:
        self.__columns, self.__chosen = columns, chosen

    def __getitem__(self, label: Any) -> Any:
        if type(label) is not str or label not in self.__columns or label == self.__chosen:
            raise NotTraced
        if self.__chosen is None:
            return _Correlations(self.__columns, label)
        pair = self.__columns[self.__chosen], self.__columns[label]
        return Group("pair", pair, FLOAT64, how="corr", of_frame=True)


# -- operators --------------------------------------------------------------------------------------------------------


def _operator(name: str, reflected: bool) -> Callable[[Any, Any], Any]:
    def operator(self: Symbol, other: Any) -> Any:
        left, right = (other, self) if reflected else (self, other)
        timed = any(isinstance(item, Symbol) and item.dtype in (TIME, DURATION) for item in (left, right))
        return (_of_times if timed else _combined)(name, left, right)

    return operator


def _of_times(name: str, left: Any, right: Any) -> Group:
    if name != "sub" or not all(map(_is_time, (left, right))):
        raise NotTraced
    return Group("sub", (left, right), DURATION)


def _stand_in(item: Any) -> Any:
    return Value(Column("x", physical(item.dtype)), item.dtype, nulls=False) if isinstance(item, Symbol) else item


def _combined(name: str, left: Any, right: Any) -> Symbol:
    symbols = [item for item in (left, right) if isinstance(item, Symbol)]
    if any(item.dtype == STR for item in symbols):
        if name not in ("eq", "ne") or not isinstance(left, Rows) or type(right) is not str:
            raise NotTraced
        return Rows(name, (left, right), BOOL)
    if any(not isinstance(item, Symbol) and type(item) not in (int, float) for item in (left, right)):
        raise NotTraced
    if any(type(item) is int and abs(item) > 2**53 for item in (left, right)):
        raise NotTraced
    booleans = [item.dtype == BOOL for item in symbols]
    if name in LOGIC:
        if len(symbols) < 2 or not all(booleans):
            raise NotTraced
    elif any(booleans) or name in ("floordiv", "mod"):
        raise NotTraced
    if name == "pow":
        if type(right) is not int or right != 2 or (isinstance(left, Group) and left.dtype == FLOAT64 and left.exact):
            raise NotTraced  # NumPy computes the square of a number by another routine than that of a column
        name, right = "mul", left
    of_rows = any(isinstance(item, Rows) for item in symbols)
    if not of_rows and name in ARITHMETIC and reported_kinds():
        raise NotTraced  # NumPy reports, for example, a division of numbers by zero
    if name == "truediv" and not of_rows and all(_is_python_number(item) for item in (left, right)):
        divisor = right if isinstance(right, Symbol) else None
        if right == 0 if divisor is None else divisor.details.get("how") != "size":
            raise NotTraced  # Python raises for zero
    dtype = probe(name, _stand_in(left), _stand_in(right))
    return (Rows if of_rows else Group)(name, (left, right), dtype)


def _is_time(item: Any) -> bool:
    """Whether an operand is a time for each group, or one in whole microseconds."""
    if isinstance(item, Group):
        return bool(item.dtype == TIME)
    return type(item) is pd.Timestamp and item.tzinfo is None and not item.nanosecond and 0 < item.year < 10_000


def _is_python_number(item: Any) -> bool:
    return item.is_python_number if isinstance(item, Group) else not isinstance(item, Symbol)


for _name, _function in (ARITHMETIC | COMPARISON | LOGIC).items():
    _suffix = _function.__name__.strip("_")
    setattr(Symbol, f"__{_suffix}__", _operator(_name, False))
    if _name not in COMPARISON:
        setattr(Symbol, f"__r{_suffix}__", _operator(_name, True))


# -- tracing ----------------------------------------------------------------------------------------------------------


#: The functions of NumPy for each row; their results for one number may have other last digits, except for the root.
UFUNCS = ("sqrt", "exp", "log", "log1p", "log2", "log10")


def _ufunc(name: str, of: Any) -> Symbol:
    if not isinstance(of, Symbol) or (isinstance(of, Group) and name != "sqrt") or reported_kinds():
        raise NotTraced
    _require_numbers(of)
    return type(of)(name, (of,), FLOAT64)


class _Numpy:
    """The functions of NumPy that call a method of a Series."""

    __hash__ = None  # type: ignore[assignment]
    __bool__ = __str__ = __repr__ = __format__ = _refuse

    def __init__(self, reductions: bool) -> None:
        self.__reductions = reductions

    @staticmethod
    def _method(name: str) -> Callable[[Any], Any]:
        def call(rows: Any) -> Any:
            if not isinstance(rows, Rows):
                raise NotTraced
            _require_numbers(rows)
            return getattr(rows, name)()

        return call

    def __getattr__(self, name: str) -> Any:
        if name == "abs":
            return abs
        if name in UFUNCS:
            return functools.partial(_ufunc, name)
        if name not in ("sum", "mean", "min", "max") or not self.__reductions:
            raise NotTraced
        return self._method(name)


class Record:
    """A Series that a function makes for each group, with a number for each label."""

    __hash__ = None  # type: ignore[assignment]
    __bool__ = __str__ = __repr__ = __format__ = __contains__ = __iter__ = __eq__ = __ne__ = _refuse  # type: ignore[assignment]

    def __init__(self, numbers: Any, index: Any = None) -> None:
        if type(numbers) is list and type(index) is list and len(index) == len(numbers):
            numbers = dict(zip(index, numbers, strict=True)) if len(set(index)) == len(index) else None
        elif index is not None:
            raise NotTraced
        if type(numbers) is not dict or not numbers:
            raise NotTraced
        if not all(type(label) is str and isinstance(one, Group) for label, one in numbers.items()):
            raise NotTraced
        if any(one.dtype not in (INT64, FLOAT64) for one in numbers.values()):
            raise NotTraced
        self.numbers: dict[str, Group] = numbers

    def in_one_dtype(self) -> list[Group]:
        """The numbers in the dtype that a Series of them has: floats if any is a float."""
        numbers = list(self.numbers.values())
        if all(one.dtype == INT64 for one in numbers):
            return numbers
        return [one if one.dtype == FLOAT64 else Group("mul", (one, 1.0), FLOAT64) for one in numbers]


class _Pandas:
    """The functions of the pandas module that symbols have."""

    __hash__ = None  # type: ignore[assignment]
    __bool__ = __str__ = __repr__ = __format__ = _refuse
    Series = Record


_BUILTINS: dict[str, Any] = {"len": _length, "abs": abs}
_CHANGES = (
    *("STORE_GLOBAL", "STORE_DEREF", "STORE_ATTR", "STORE_SUBSCR", "STORE_SLICE"),
    *("DELETE_", "IMPORT_", "YIELD", "SEND"),
)
_DEPTH = 5
_RESUMED = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
#: Attributes of symbols that groups do not have.
_OWN = frozenset(
    ["operation", "operands", "details", "exact", "is_python_number", "size_of_group", "numbers", "in_one_dtype"]
)


def _traceable(function: Any, numpy: bool, depth: int = 0) -> Any:
    """A copy of a function whose globals and enclosing variables are symbols, numbers, texts and traceable functions."""
    if type(function) is not FunctionType or depth > _DEPTH or function.__kwdefaults__:
        raise NotTraced
    code: CodeType = function.__code__
    if code.co_flags & _RESUMED or code.co_exceptiontable:  # a table for errors that the function handles
        raise NotTraced
    for step in dis.get_instructions(code):
        if (
            step.opcode in dis.hasname
            and step.opname != "LOAD_GLOBAL"
            and (step.argval[:1] == "_" or step.argval in _OWN)
        ):
            raise NotTraced
        if step.opname.startswith(_CHANGES) or (step.opname == "LOAD_CONST" and isinstance(step.argval, CodeType)):
            raise NotTraced
    own: dict[str, Any] = {"__builtins__": {}}
    for name in code.co_names:
        if name in function.__globals__:
            found = _as_symbol(function.__globals__[name], numpy, depth)
            if found is not None:
                own[name] = found
        elif name in _BUILTINS:
            own[name] = _BUILTINS[name]
    cells = []
    for cell in function.__closure__ or ():
        found = _as_symbol(cell.cell_contents, numpy, depth)
        if found is None:
            raise NotTraced
        cells.append(CellType(found))
    defaults = function.__defaults__ or ()
    if not all(type(one) in (int, float, str) for one in defaults):
        raise NotTraced
    return FunctionType(code, own, function.__name__, function.__defaults__, tuple(cells))


def _as_symbol(given: Any, numpy: bool, depth: int) -> Any:
    """What a traced function sees of a global or of a variable of an enclosing function; None if nothing."""
    if type(given) in (int, float, str, pd.Timestamp):
        return given
    if given is np:
        return _Numpy(numpy)
    if given is abs:
        return abs
    if given is len:
        return _length
    if getattr(given, "__name__", None) in ("pandas", "craton.pandas") and getattr(given, "Series", None) is not None:
        return _Pandas()
    if type(given) is FunctionType:
        return _traceable(given, numpy, depth + 1)
    return None


def trace(function: Any, group: Rows | Table, *, numpy: bool = True) -> Symbol | Record:
    """What a function computes of a group.

    Parameters
    ----------
    function
        The function.
    group
        The symbol that it gets.
    numpy
        Whether it may use reductions of NumPy.

    Raises
    ------
    Unsupported
        If the function does something that symbols do not have.
    """
    try:
        result = _traceable(function, numpy)(group)
    except Exception as error:
        raise Unsupported(Refusal.AGGREGATION_FUNCTION) from error
    if not isinstance(result, (Symbol, Record)) or (isinstance(result, Symbol) and result.dtype in (TIME, DURATION)):
        raise Unsupported(Refusal.AGGREGATION_FUNCTION)
    return result


def column(position: int, dtype: DtypeObj) -> Rows:
    """The symbol of a column.

    Raises
    ------
    Unsupported
        If it is not of 64-bit numbers, texts or times.
    """
    if dtype not in DTYPES:
        raise Unsupported(Refusal.FUNCTION_DTYPE)
    return Rows("column", (), dtype, position=position)
