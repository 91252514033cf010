"""Which table a step takes, and which columns and rows of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from craton.pipeline.steps.conditions import condition
from craton.records import dataclass

__all__ = ["Input", "as_input"]


@dataclass(frozen=True, slots=True)
class Input:
    """The table that a parameter of a step stands for.

    Parameters
    ----------
    of : str, optional
        The name of the step or source, or of one of several tables of a step, as ``"step.table"``. By default the parameter's name.
    columns : sequence of str, optional
        The columns that are taken, in this order. By default all.
    where : str, list of tuples, or pyarrow.compute.Expression, optional
        The rows that are taken: a condition such as ``"price > 10 and region in ('EU', 'US')"``; tuples as for
        `pandas.read_parquet`'s ``filters``; or an expression. Rows for which it is null are not taken.

    Examples
    --------
    >>> from craton.pipeline import Input
    >>> Input("orders", columns=["price"], where="price > 10").columns
    ('price',)
    """

    of: str | None = None
    columns: Sequence[str] | None = None
    where: Any = None

    def __post_init__(self) -> None:
        if isinstance(self.columns, str):
            raise TypeError(f"columns is a list of names, not {self.columns!r}")
        object.__setattr__(self, "columns", None if self.columns is None else tuple(self.columns))
        object.__setattr__(self, "where", condition(self.where))


def as_input(parameter: str, given: Any) -> Input:
    """An input from the shorter ways of writing one: the name of a step or source, or columns."""
    if isinstance(given, Input):
        return given
    if isinstance(given, str):
        return Input(given)
    if isinstance(given, Sequence) and all(isinstance(one, str) for one in given):
        return Input(columns=given)
    raise TypeError(
        f"inputs[{parameter!r}] is the name of a step or source, a list of columns, or an Input, not {given!r}"
    )
