"""Registers methods as data: the parameters of each, and how their values are drawn.

A function ``(builder, receiver) -> text`` draws a value; None means that the parameter is not given.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import Any

import pandas

from tests.fuzz.building import Builder, Statement, register

Draw = Callable[[Builder, str], "str | None"]


def of(*texts: str) -> Draw:
    """Draw one of the texts."""
    return lambda g, v: g.pick(texts)


def ints(least: int, most: int) -> Draw:
    """Draw an integer."""
    return lambda g, v: g.integer(least, most)


def maybe(draw: Draw | str, share: float = 0.5) -> Draw:
    """Draw a value with a probability, else none."""
    if isinstance(draw, str):
        draw = of(draw)
    return lambda g, v: draw(g, v) if g.chance(share) else None


FLAG = of("True", "False")
NUMBER = of("0", "1", "2", "-1", "0.5", "3", "-2.25", "4")


def near(g: Builder, v: str) -> str:
    """A value like those of the receiver."""
    value = g.value(v)
    return g.similar_value(value) if hasattr(value, "iloc") and getattr(value, "ndim", 0) == 1 else g.constant("number")


def near_list(g: Builder, v: str) -> str:
    """A list of values like those of the receiver."""
    return f"[{', '.join(near(g, v) for _ in range(g.rng.randint(0, 3)))}]"


def label(g: Builder, v: str) -> str | None:
    """A column label."""
    return g.column(v)


def labels(g: Builder, v: str) -> str | None:
    """A column label, or a list of them."""
    return g.column(v) if g.chance(0.4) else g.column_list(v)


def label_list(g: Builder, v: str) -> str | None:
    """A list of column labels."""
    return g.column_list(v)


def series_or_number(g: Builder, v: str) -> str | None:
    """A series with the same row labels, or a number."""
    return (g.aligned_series(v, "number", "bool") if g.chance(0.45) else None) or NUMBER(g, v)


def series_or_value(g: Builder, v: str) -> str | None:
    """A series with the same row labels, or a value like those of the receiver."""
    return (g.aligned_series(v) if g.chance(0.3) else None) or near(g, v)


def mapping(g: Builder, v: str) -> str:
    """A dictionary from values to values."""
    return "{" + ", ".join(f"{near(g, v)}: {near(g, v)}" for _ in range(g.rng.randint(0, 3))) + "}"


#: How parameters with common names are drawn.
COMMON: dict[str, Draw] = {
    "ascending": maybe(FLAG, 0.35),
    "axis": maybe(of("0", "1"), 0.08),
    "ddof": maybe(of("0", "1", "2"), 0.25),
    "dropna": maybe(FLAG, 0.35),
    "ignore_index": maybe(FLAG, 0.3),
    "inclusive": maybe(of('"both"', '"left"', '"right"', '"neither"'), 0.4),
    "interpolation": maybe(of('"lower"', '"higher"', '"nearest"', '"midpoint"', '"linear"'), 0.3),
    "keep": maybe(of('"first"', '"last"', "False"), 0.45),
    "limit": maybe(of("1", "2"), 0.3),
    "min_count": maybe(of("0", "1", "3"), 0.2),
    "normalize": maybe(FLAG, 0.2),
    "numeric_only": maybe(of("True", "True", "False"), 0.3),
    "periods": maybe(ints(-3, 3), 0.6),
    "pct": maybe(FLAG, 0.2),
    "skipna": maybe(FLAG, 0.25),
    "sort": maybe(FLAG, 0.35),
    "na_option": maybe(of('"keep"', '"top"', '"bottom"'), 0.15),
    "method": maybe(of('"average"', '"min"', '"max"', '"first"', '"dense"'), 0.6),
    "na": maybe(of("True", "False"), 0.3),
    "case": maybe(FLAG, 0.2),
    "regex": maybe(FLAG, 0.4),
}


def arguments(g: Builder, name: str, v: str, drawn: dict[str, Any]) -> str | None:
    """The text of a call's arguments; None if a required one has no value."""
    parts = []
    for parameter, draw in drawn.items():
        needed = parameter.endswith("!")
        parameter = parameter.rstrip("!")
        text = draw(g, v) if callable(draw) else draw
        if text is None:
            if needed:
                return None
            continue
        if not parameter.startswith("_"):
            g.note_parameter(name, parameter)
            parts.append(f"{parameter}={text}")
        else:
            g.note_parameter(name, parameter.lstrip("_"))
            parts.insert(0, text)
    return ", ".join(parts)


def method(
    name: str,
    on: str,
    parameters: str = "",
    /,
    weight: float = 1.0,
    through: Callable[[Builder, str], str | None] | None = None,
    wants: Callable[[Any], bool] | None = None,
    **drawn: Draw,
) -> None:
    """Register a method.

    Parameters
    ----------
    name
        The name with its family: ``DataFrame.shift``. The part after the last dot is called.
    on
        The type of its receiver.
    parameters
        Names from :data:`COMMON`, separated by spaces.
    through
        A function from the variable to the text of the receiver.
    wants
        A function that decides whether the method applies to a value.
    drawn
        Other parameters. A name that ends with ``_`` is required; one that begins with ``_`` is passed by position.
    """
    kind, _, attribute = name.rpartition(".")
    has_inplace = (
        kind in ("DataFrame", "Series") and "inplace" in signature(getattr(getattr(pandas, kind), attribute)).parameters
    )
    every = {key[:-1] + "!" if key.endswith("_") else key: draw for key, draw in drawn.items()}
    every |= {key: COMMON[key] for key in parameters.split()}

    def make(g: Builder, v: str) -> str | None:
        receiver = through(g, v) if through is not None else v
        if receiver is None or (wants is not None and not wants(g.value(receiver))):
            return None
        text = arguments(g, name, receiver, every)
        if text is None:
            return None
        if receiver.isidentifier() and has_inplace and "axis=" not in text and g.chance(0.15):
            g.note_parameter(name, "inplace")
            return Statement(f"{receiver}.{attribute}({text}{', ' if text else ''}inplace=True)")
        return f"{receiver}.{attribute}({text})"

    register(name, on, make, weight)


def attribute(
    name: str, on: str, weight: float = 0.5, through: Callable[[Builder, str], str | None] | None = None
) -> None:
    """Register a property."""

    def make(g: Builder, v: str) -> str | None:
        receiver = through(g, v) if through is not None else v
        return None if receiver is None else f"{receiver}.{name.rpartition('.')[2]}"

    register(name, on, make, weight)


def numeric(g: Builder, v: str) -> str | None:
    """Usually some numeric columns of a frame, else the frame itself."""
    if g.chance(0.12):
        return v
    found = g.column_list(v, "number", "bool" if g.chance(0.2) else "number", most=3)
    return None if found is None else f"{v}[{found}]"


def with_levels(g: Builder, v: str) -> str | None:
    """A frame with a MultiIndex: the frame itself, or with a column appended to its index."""
    if g.value(v).index.nlevels > 1:
        return v
    key = g.key(v)
    return None if key is None else f"{v}.set_index({key}, append=True)"


def one_with_levels(g: Builder, v: str) -> str | None:
    """A column of a frame with a MultiIndex."""
    frame, label = with_levels(g, v), g.column(v)
    return None if frame is None or label is None or label in frame[len(v) :] else f"{frame}[{label}]"
