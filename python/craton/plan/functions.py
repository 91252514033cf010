"""The functions an expression can call, with what the planner must know of each.

Null semantics are Polars': arithmetic and comparisons return null when an operand is null, aggregates skip nulls.
The front end asks for anything else explicitly (``fill_null``). Families add their functions with :func:`declare`;
each declared function has one implementation, registered in :mod:`craton.lower`.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass


class Kind(enum.Enum):
    """What a function's value on a row depends on."""

    ROWWISE = "row-wise"
    AGGREGATE = "an aggregate"
    WINDOW = "a window function"


@dataclass(frozen=True, slots=True)
class Function:
    """What the planner knows of a function.

    Parameters
    ----------
    kind
        Row-wise, aggregate (many rows to one value) or window (many rows to as many).
    ordered
        Whether its value depends on the order of rows (within the group).
    scalars
        Which arguments, by position, are one value for all rows and not a column.
    """

    kind: Kind
    ordered: bool = False
    scalars: frozenset[int] = frozenset()


FUNCTIONS: dict[str, Function] = {}


def declare(kind: Kind, *names: str, ordered: bool = False, scalars: Iterable[int] = ()) -> None:
    """Add functions of one kind; a name is declared once."""
    for name in names:
        if name in FUNCTIONS:
            raise ValueError(f"function {name!r} is declared twice")
        FUNCTIONS[name] = Function(kind, ordered, frozenset(scalars))


# Arithmetic, comparison, logic
declare(Kind.ROWWISE, "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "neg", "abs")
declare(Kind.ROWWISE, "eq", "ne", "lt", "le", "gt", "ge", "and", "or", "xor", "not")
declare(Kind.ROWWISE, "is_null", "fill_null", "fill_nan", "is_nan", "is_not_nan", "coalesce", "cast", "when")
declare(Kind.ROWWISE, "is_in", "is_between", "clip", "round", "map_values")
# Aggregates
declare(Kind.AGGREGATE, "sum", "mean", "min", "max", "count", "len", "n_unique", "var", "std", "sem", "median")
declare(Kind.AGGREGATE, "quantile", "product", "skew", "kurtosis", "any", "all", "null_count")
declare(Kind.AGGREGATE, "first", "last", "nth", "arg_min", "arg_max", ordered=True)
# Windows
declare(Kind.WINDOW, "row_number", "cum_sum", "cum_prod", "cum_min", "cum_max", "cum_count", ordered=True)
declare(Kind.WINDOW, "shift", ordered=True, scalars=[1])
declare(Kind.WINDOW, "diff", "forward_fill", "backward_fill", ordered=True)
declare(Kind.WINDOW, "rank", "rank_max", "rank_min", "rank_dense", "rank_average")
declare(Kind.WINDOW, "rank_ordinal", "is_first_distinct", "is_last_distinct", ordered=True)
declare(Kind.WINDOW, "is_duplicated")

# --- more of cells (fillna, where, replace, casts, masked and Arrow dtypes)
declare(Kind.ROWWISE, "batch", "concat_str")

# --- strings and dates
declare(Kind.ROWWISE, "str_contains", "str_starts_with", "str_ends_with", "str_slice", "str_len", "str_replace")
declare(Kind.ROWWISE, "dt_part", "dt_parse")

# --- more aggregates (reductions, value_counts, describe)
declare(Kind.AGGREGATE, "order_statistics")

# --- more of group-by
declare(Kind.AGGREGATE, "label_of_min", "label_of_max", ordered=True)

# --- more windows
