"""The registry of the functions that plans can call; each function has one record.

The records are in :mod:`craton.plan.functions`, one module for each family of functions, and are registered when the first
of them is looked up. They are used to validate expressions, to lower them (:mod:`craton.lower`), and in the passes
over plans (order, memory, tiles). All properties of a function are in its record.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import Any

import polars as pl

from craton.errors import PlanError
from craton.records import dataclass

Dtypes = tuple[pl.DataType, ...]
#: ``lower(arguments, call)`` returns the Polars expression of a ``Call``, a ``WindowCall`` or an ``AggregateCall``.
Lowering = Callable[[list[pl.Expr], Any], pl.Expr]


class Kind(enum.Enum):
    """Which rows a function's value depends on."""

    ROWWISE = "row-wise"
    AGGREGATE = "an aggregate"
    WINDOW = "a window function"


class Nulls(enum.Enum):
    """How a function treats nulls in its columns."""

    PROPAGATED = "the value is null where a column is null"
    SKIPPED = "as if the row were not there; the value of a window there is null"
    LOGIC = "unknown, in three-valued logic"
    VALUES = "a value like others, or what the function tests or fills"


class NaNs(enum.Enum):
    """How a function treats NaNs in its float columns. Where NaN means missing, the front end replaces it by null before."""

    PROPAGATED = "the value is NaN where a column is NaN, or a row of the group"
    SKIPPED = "ignored if there is a number"
    GREATEST = "equal to itself, and greater than every number"
    VALUES = "a value like others"
    MISSING = "there are none: the front end has replaced them by nulls"
    NOT_ACCEPTED = "no column has floats"


class Order(enum.Enum):
    """Whether the order of the rows (of a group) matters."""

    ANY = "no"
    ROWS = "yes: the rows must be in order"
    NUMBERED = "yes: the rows must be in order, or the lowering must be given the row numbers as one more argument"


class Cost(enum.Enum):
    """The cost of computing a function."""

    VALUES = "a pass over the values"
    TABLE = "a sort or a hash table of the values"
    TEXTS = "a search in each text, or a new text for each row"
    PYTHON = "calls of Python functions, which may have side effects"


@dataclass(frozen=True, slots=True)
class Family:
    """A set of dtypes.

    Parameters
    ----------
    words
        The set in words, for error messages.
    kinds
        Classes of Polars dtypes; ``None`` for all.
    """

    words: str
    kinds: frozenset[type[pl.DataType]] | None

    def __contains__(self, dtype: pl.DataType) -> bool:
        return self.kinds is None or dtype.base_type() in self.kinds

    def __or__(self, other: Family) -> Family:
        kinds = None if self.kinds is None or other.kinds is None else self.kinds | other.kinds
        return Family(f"{self.words} or {other.words}", kinds)


def _family(words: str, *kinds: type[pl.DataType]) -> Family:
    return Family(words, frozenset(kinds))


INTEGERS = _family(
    "integers", pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64, pl.Int128
)
FLOATS = _family("floats", pl.Float32, pl.Float64)
DECIMALS = _family("decimals", pl.Decimal)
NUMBERS = INTEGERS | FLOATS
BOOLEANS = _family("booleans", pl.Boolean)
TEXTS = _family("text", pl.String)
BINARIES = _family("bytes", pl.Binary)
DATETIMES = _family("dates and times", pl.Date, pl.Datetime, pl.Time)
DURATIONS = _family("durations", pl.Duration)
TEMPORALS = DATETIMES | DURATIONS
LISTS = _family("lists", pl.List)
#: Values that have a total order.
ORDERED = NUMBERS | DECIMALS | BOOLEANS | TEXTS | BINARIES | TEMPORALS
ANY = Family("any dtype", None)


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument of a function.

    Parameters
    ----------
    name
        Its name, for error messages.
    accepts
        The dtypes for which the lowering is correct.
    scalar
        Whether it is one value for all rows (or one list of values), and not a column.
    optional
        Whether a call may omit it. Only the last argument may be optional.
    repeated
        Whether a call may give it any number of times. Only the last argument may be repeated.
    """

    name: str
    accepts: Family
    scalar: bool = False
    optional: bool = False
    repeated: bool = False


@dataclass(frozen=True, slots=True)
class Result:
    """The rule for a function's result dtype. A call declares its dtype, and the rule says which dtypes are valid.

    Parameters
    ----------
    words
        The rule in words, for error messages.
    usual
        The default dtype, given the dtypes of the arguments.
    castable
        The other dtypes that a call may declare; the lowering casts to them.
    """

    words: str
    usual: Callable[[Dtypes], pl.DataType]
    castable: Family

    def allows(self, stated: pl.DataType, arguments: Dtypes) -> bool:
        """Whether a call with arguments of these dtypes may declare a dtype."""
        return stated in self.castable or stated == self.usual(arguments)


_NOTHING = Family("nothing", frozenset())


def same(argument: int = 0) -> Result:
    """The dtype of an argument."""
    return Result(f"that of argument {argument + 1}", lambda dtypes: dtypes[argument], _NOTHING)


def agreed(*arguments: int) -> Result:
    """The common dtype of some arguments, or of all if no numbers are given."""

    def usual(dtypes: Dtypes) -> pl.DataType:
        first, *others = (dtypes[number] for number in arguments) if arguments else dtypes
        return first if all(other == first for other in others) else pl.Unknown()

    return Result("that of its values, which must agree", usual, _NOTHING)


def derived(words: str, usual: Callable[[Dtypes], pl.DataType]) -> Result:
    """A dtype that is computed from those of the arguments."""
    return Result(words, usual, _NOTHING)


def always(dtype: pl.DataType) -> Result:
    """The same dtype for all arguments."""
    return Result(str(dtype), lambda _: dtype, _NOTHING)


def cast_to(castable: Family, usual: pl.DataType | Callable[[Dtypes], pl.DataType]) -> Result:
    """Any dtype of a family, as the call declares; ``usual`` is the default."""
    chosen = usual if callable(usual) and not isinstance(usual, pl.DataType) else lambda _: usual
    return Result(f"any of {castable.words}", chosen, castable)  # type: ignore[arg-type]


class Strategy:
    """How a function is computed over a table in tiles; the strategies are in :mod:`craton.plan.functions.strategies`."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Function:
    """The record of a function. No field has a default, so that each function declares all of them.

    Parameters
    ----------
    name
        The name in calls.
    kind
        Row-wise, aggregate (many rows to one value) or window (one value for each of many rows).
    signature
        Its arguments.
    result
        The rule for its dtype.
    nulls, nans
        How it treats them.
    order
        Whether the order of rows matters.
    lower
        Makes the Polars expression of a call from those of its arguments.
    phases
        For an aggregate: given a call, how partial results of tiles are combined, as
        :class:`~craton.plan.functions.strategies.Phases`, or ``None`` if this call's cannot be. ``None`` for functions that
        never have phases.
    one_row
        For an aggregate that computes partial results: given a call, the expression of its value for a single row.
    tiling
        Given a call: how it is computed over tiles. Not used for windows with a partition: the rows of a partition are in
        one tile.
    holds_values
        Whether the kernel holds all values of a group in memory until it has the last one.
    cost
        The cost of computing it.
    raises
        Given a call: whether it may raise an error because of a value, so that it must not see rows that pandas has dropped before.
    """

    name: str
    kind: Kind
    signature: tuple[Argument, ...]
    result: Result
    nulls: Nulls
    nans: NaNs
    order: Order
    lower: Lowering
    phases: Callable[[Any], Any] | None
    one_row: Callable[[Any], Any] | None
    tiling: Callable[[Any], Strategy]
    holds_values: bool
    cost: Cost
    raises: Callable[[Any], bool]

    @property
    def ordered(self) -> bool:
        """Whether its value depends on the order of the rows (within the group)."""
        return self.order is not Order.ANY

    def argument(self, number: int) -> Argument:
        """The argument at a position of a call."""
        return self.signature[min(number, len(self.signature) - 1)]

    def takes(self, count: int) -> bool:
        """Whether it can be called with this number of arguments."""
        last = self.signature[-1] if self.signature else None
        least = len(self.signature) - (last is not None and last.optional)
        return least <= count and (count <= len(self.signature) or (last is not None and last.repeated))

    def check(self, call: Any) -> None:
        """Check the arguments of a call and the dtype that it declares.

        Raises
        ------
        PlanError
            If the number of arguments, the dtype of an argument or the declared dtype is wrong.
        """
        dtypes = tuple(arg.dtype for arg in call.args)
        if not self.takes(len(dtypes)):
            names = ", ".join(f"{a.name}{'…' * a.repeated}{'?' * a.optional}" for a in self.signature)
            raise PlanError(f"{self.name}({names}) cannot be called with {len(dtypes)} arguments")
        for number, dtype in enumerate(dtypes):
            argument = self.argument(number)
            if dtype not in argument.accepts:
                raise PlanError(
                    f"{self.name}: argument {argument.name!r} has dtype {dtype}; it must be {argument.accepts.words}"
                )
        if not self.result.allows(call.dtype, dtypes):
            given = ", ".join(map(str, dtypes))
            raise PlanError(
                f"{self.name} of ({given}) cannot have dtype {call.dtype}; its dtype is {self.result.words}"
            )


class Registry(dict[str, Function]):
    """The records by name. The first look-up by ``[]`` registers them.

    Attributes
    ----------
    register
        Imports the modules with the records; set by :mod:`craton.plan`.
    """

    register: Callable[[], None]

    def __missing__(self, name: str) -> Function:
        self.register()
        if name in self:
            return self[name]
        raise KeyError(name)


FUNCTIONS = Registry()


def function(name: str, kinds: Sequence[Kind]) -> Function:
    """The record of a function, which must be of one of the kinds.

    Raises
    ------
    PlanError
        If the function is unknown or of another kind.
    """
    try:
        record = FUNCTIONS[name]
    except KeyError:
        raise PlanError(f"unknown function {name!r}") from None
    if record.kind not in kinds:
        raise PlanError(f"{name!r} is {record.kind.value}, not {' or '.join(kind.value for kind in kinds)}")
    return record


def never(call: Any) -> bool:
    """The ``raises`` of a function that has a value for all arguments of its dtypes."""
    return False


def register(
    *names: str,
    kind: Kind,
    signature: tuple[Argument, ...],
    result: Result,
    nulls: Nulls,
    nans: NaNs,
    order: Order,
    phases: Callable[[Any], Any] | None,
    one_row: Callable[[Any], Any] | None,
    tiling: Callable[[Any], Strategy],
    holds_values: bool,
    cost: Cost,
    raises: Callable[[Any], bool] = never,
) -> Callable[[Lowering], Lowering]:
    """Decorate the lowering of one or more functions, and add their records to :data:`FUNCTIONS`."""

    def added(lower: Lowering) -> Lowering:
        for name in names:
            if name in FUNCTIONS:
                raise PlanError(f"function {name!r} is registered twice")
            FUNCTIONS[name] = Function(
                name,
                kind,
                signature,
                result,
                nulls,
                nans,
                order,
                lower,
                phases,
                one_row,
                tiling,
                holds_values,
                cost,
                raises,
            )
        return lower

    return added
