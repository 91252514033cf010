"""The definition of a call, and the families into which calls are grouped."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

__all__ = ["FAMILIES", "Call", "Family", "Given"]


@dataclass(frozen=True)
class Given:
    """The arguments of a call.

    Attributes
    ----------
    pd : module
        pandas, or the module that a program imports in its place.
    df : DataFrame
        The large frame.
    few, many : DataFrame
        Frames to join with: one row for each value of ``k``, and rows for a tenth of the values of ``id``.
    folder : str
        An empty folder for files that the call writes.
    """

    pd: Any
    df: Any
    few: Any
    many: Any
    folder: str


@dataclass(frozen=True)
class Call:
    """An everyday call of pandas.

    Attributes
    ----------
    name, family : str
        The name within the family, and the name of the family.
    run : callable
        Runs the call with a pandas API.
    polars : callable or None
        Runs the equivalent with Polars; its arguments are the module and lazy frames. None if Polars has no equivalent.
    rows : int or None
        The benchmark leaves out the call if the large frame has more rows. Set for calls that take minutes in pandas.
    """

    name: str
    family: str
    run: Callable[[Given], Any]
    polars: Callable[[Any, Any, Any, Any], Any] | None = None
    rows: int | None = None


class Family:
    """A family of calls, by name."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.calls: dict[str, Call] = {}
        FAMILIES.append(self)

    def add(
        self,
        name: str,
        run: Callable[[Given], Any],
        polars: Callable[[Any, Any, Any, Any], Any] | None = None,
        *,
        rows: int | None = None,
    ) -> None:
        """Add a call; its parameters are those of `Call`."""
        if name in self.calls:
            raise ValueError(f"{self.name} has two calls named {name}")
        self.calls[name] = Call(name, self.name, run, polars, rows)


FAMILIES: list[Family] = []
"""All families, in the order in which they are listed."""
