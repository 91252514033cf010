"""The options: what a user may change, from code, a context manager or the environment.

``craton.options.small_rows = 0`` sets one for the process; ``with craton.option_context(small_rows=0):`` for a block;
``CRATON_SMALL_ROWS=0`` in the environment before the start. All are checked when they are set.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal


@dataclass(slots=True)
class Options:
    """Process-wide options.

    Attributes
    ----------
    small_rows : int
        In-memory frames of at most this many rows stay in plain pandas; 0 sends every frame through the plan.
    fallback : {"silent", "warn", "error"}
        What happens when a call is not native and pandas does it.
    result_memory : int
        Bytes of results of earlier plans that are kept.
    progress : {"auto", "on", "off"}
        Whether runs of over a second show a progress line: in a terminal or notebook, always, never.
    """

    small_rows: int = 100_000
    fallback: Literal["silent", "warn", "error"] = "silent"
    result_memory: int = 1 << 30
    progress: Literal["auto", "on", "off"] = "auto"

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, _checked(name, value))


_CHOICES = {"fallback": ("silent", "warn", "error"), "progress": ("auto", "on", "off")}


def _checked(name: str, value: Any) -> Any:
    known = [field.name for field in dataclasses.fields(Options)]
    if name not in known:
        raise AttributeError(f"no option {name!r}; options are {known}")
    if name in _CHOICES:
        if value not in _CHOICES[name]:
            raise ValueError(f"option {name} is one of {_CHOICES[name]}, not {value!r}")
        return value
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"option {name} is a whole number, 0 or more, not {value!r}")
    return value


def _from_environment() -> Options:
    result = Options()
    for field in dataclasses.fields(Options):
        text = os.environ.get(f"CRATON_{field.name.upper()}")
        if text is not None:
            setattr(result, field.name, text if field.name in _CHOICES else int(text))
    return result


options = _from_environment()


@contextlib.contextmanager
def option_context(**changes: Any) -> Iterator[Options]:
    """Set options for a block.

    Examples
    --------
    >>> import craton
    >>> with craton.option_context(small_rows=0):
    ...     craton.options.small_rows
    0
    """
    before = {name: getattr(options, name) for name in changes}
    try:
        for name, value in changes.items():
            setattr(options, name, value)
        yield options
    finally:
        for name, value in before.items():
            setattr(options, name, value)
