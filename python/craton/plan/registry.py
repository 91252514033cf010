"""The registry of functions: everything the planner knows of a function of the plan is one record.

The records are in :mod:`craton.plan.functions`, one module a family, and are registered when :mod:`craton.plan` is
imported. Expressions are checked against them when they are built, :mod:`craton.lower` computes by them, and the passes
over plans (order, memory, tiles) ask them. What every function needs is in its record and nowhere else.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import Any

import polars as pl

from craton.errors import PlanError
from craton.records import dataclass

Dtypes = tuple[pl.DataType, ...]
#: ``lower(arguments, call)``: the Polars expression. The call is a ``Call``, a ``WindowCall`` or an ``AggregateCall``.
Lowering = Callable[[list[pl.Expr], Any], pl.Expr]


class Kind(enum.Enum):
    """Which rows a function's value depends on."""

    ROWWISE = "row-wise"
    AGGREGATE = "an aggregate"
    WINDOW = "a window function"


class Nulls(enum.Enum):
    """What a function makes of nulls in its columns."""

    PROPAGATED = "the value is null where a column is null"
    SKIPPED = "as if the row were not there; the value of a window there is null"
    LOGIC = "unknown, in three-valued logic"
    VALUES = "a value like others, or what the function is about"


class NaNs(enum.Enum):
    """What a function makes of NaNs in its columns of floats. Where they mean missing, the front end makes them null before."""

    PROPAGATED = "the value is NaN where a column is NaN, or a row of the group"
    SKIPPED = "ignored beside numbers"
    GREATEST = "equal to itself, and greater than every number"
    VALUES = "a value like others"
    MISSING = "there are none: the front end has made them null"
    NOT_ACCEPTED = "no column is of floats"


class Order(enum.Enum):
    """Whether the order of the rows (of a group) matters."""

    ANY = "no"
    ROWS = "yes: the rows have to be in order"
    NUMBERED = "yes: in order, or the lowering takes the rows' numbers as one more argument"


class Cost(enum.Enum):
    """What it takes to compute a function once more."""

    VALUES = "a pass over the values"
    TABLE = "a sort or a hash table of the values"
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
#: Values of which one is the least.
ORDERED = NUMBERS | DECIMALS | BOOLEANS | TEXTS | BINARIES | TEMPORALS
ANY = Family("any dtype", None)


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument of a function.

    Parameters
    ----------
    name
        What it is.
    accepts
        The dtypes for which the lowering is correct.
    scalar
        Whether it is one value for all rows (or one list of values), and not a column.
    optional
        Whether a call may leave it out. Only the last may be.
    repeated
        Whether any number of them may stand there. Only the last may be.
    """

    name: str
    accepts: Family
    scalar: bool = False
    optional: bool = False
    repeated: bool = False


@dataclass(frozen=True, slots=True)
class Result:
    """The rule of a function's dtype: calls state their dtype, and the rule tells which dtypes are true.

    Parameters
    ----------
    words
        The rule in words, for error messages.
    usual
        The dtype for arguments of some dtypes, unless something else is asked for.
    castable
        The dtypes that a call may state besides: the lowering casts to them.
    """

    words: str
    usual: Callable[[Dtypes], pl.DataType]
    castable: Family

    def allows(self, stated: pl.DataType, arguments: Dtypes) -> bool:
        """Whether a call with arguments of some dtypes may state a dtype."""
        return stated in self.castable or stated == self.usual(arguments)


_NOTHING = Family("nothing", frozenset())


def same(argument: int = 0) -> Result:
    """The dtype of an argument."""
    return Result(f"that of argument {argument + 1}", lambda dtypes: dtypes[argument], _NOTHING)


def agreed(*arguments: int) -> Result:
    """The dtype that some arguments have in common; all, if none are given."""

    def usual(dtypes: Dtypes) -> pl.DataType:
        first, *others = (dtypes[number] for number in arguments) if arguments else dtypes
        return first if all(other == first for other in others) else pl.Unknown()

    return Result("that of its values, which have to agree", usual, _NOTHING)


def derived(words: str, usual: Callable[[Dtypes], pl.DataType]) -> Result:
    """A dtype that follows from those of the arguments."""
    return Result(words, usual, _NOTHING)


def always(dtype: pl.DataType) -> Result:
    """One dtype."""
    return Result(str(dtype), lambda _: dtype, _NOTHING)


def cast_to(castable: Family, usual: pl.DataType | Callable[[Dtypes], pl.DataType]) -> Result:
    """Any dtype of a family, as the caller states it."""
    chosen = usual if callable(usual) and not isinstance(usual, pl.DataType) else lambda _: usual
    return Result(f"any of {castable.words}", chosen, castable)  # type: ignore[arg-type]


class Strategy:
    """How a function is computed of a table in tiles; the strategies are in :mod:`craton.plan.functions.strategies`."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Function:
    """The record of a function. Every field is given: none has a default.

    Parameters
    ----------
    name
        By which calls name it.
    kind
        Row-wise, aggregate (many rows to one value) or window (many rows to as many).
    signature
        Its arguments.
    result
        The rule of its dtype.
    nulls, nans
        What it makes of them.
    order
        Whether the order of rows matters.
    lower
        The Polars expression of a call, given those of its arguments.
    phases
        Of an aggregate: given a call, how partial results of tiles are combined, as
        :class:`~craton.plan.functions.strategies.Phases`, or ``None`` where they cannot be; ``None`` for functions that
        never have phases.
    one_row
        Of an aggregate that is a partial result in phases: given a call, the expression that is its value for a single row.
    tiling
        Given a call: how it is computed of tiles. Over partitions, windows do not need it: the rows of a partition are in
        one tile.
    holds_values
        Whether the kernel holds all values of a group until it has the last.
    cost
        What it takes to compute it once more.
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

    @property
    def ordered(self) -> bool:
        """Whether its value depends on the order of rows (within the group)."""
        return self.order is not Order.ANY

    def argument(self, number: int) -> Argument:
        """The argument at a position of a call."""
        return self.signature[min(number, len(self.signature) - 1)]

    def takes(self, count: int) -> bool:
        """Whether it can be called with so many arguments."""
        last = self.signature[-1] if self.signature else None
        least = len(self.signature) - (last is not None and last.optional)
        return least <= count and (count <= len(self.signature) or (last is not None and last.repeated))

    def check(self, call: Any) -> None:
        """Check the arguments of a call, and the dtype that it states.

        Raises
        ------
        PlanError
            If there are more or fewer arguments, or a dtype is not one that the function accepts or gives.
        """
        dtypes = tuple(arg.dtype for arg in call.args)
        if not self.takes(len(dtypes)):
            names = ", ".join(f"{a.name}{'…' * a.repeated}{'?' * a.optional}" for a in self.signature)
            raise PlanError(f"{self.name}({names}) is called with {len(dtypes)} arguments")
        for number, dtype in enumerate(dtypes):
            argument = self.argument(number)
            if dtype not in argument.accepts:
                raise PlanError(
                    f"{self.name}: argument {argument.name!r} is of {dtype}; it can be of {argument.accepts.words}"
                )
        if not self.result.allows(call.dtype, dtypes):
            given = ", ".join(map(str, dtypes))
            raise PlanError(f"{self.name} of ({given}) is stated to be of {call.dtype}; it is of {self.result.words}")


FUNCTIONS: dict[str, Function] = {}


def function(name: str, kinds: Sequence[Kind]) -> Function:
    """The record of a function that has to be of one of some kinds.

    Raises
    ------
    PlanError
        If there is no such function, or it is of another kind.
    """
    record = FUNCTIONS.get(name)
    if record is None:
        raise PlanError(f"unknown function {name!r}")
    if record.kind not in kinds:
        raise PlanError(f"{name!r} is {record.kind.value}, not {' or '.join(kind.value for kind in kinds)}")
    return record


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
) -> Callable[[Lowering], Lowering]:
    """Decorate the lowering of functions that differ in nothing else: their records go into :data:`FUNCTIONS`."""

    def added(lower: Lowering) -> Lowering:
        for name in names:
            if name in FUNCTIONS:
                raise PlanError(f"function {name!r} is registered twice")
            FUNCTIONS[name] = Function(
                name, kind, signature, result, nulls, nans, order, lower, phases, one_row, tiling, holds_values, cost
            )
        return lower

    return added
