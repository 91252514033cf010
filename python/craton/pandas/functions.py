"""pandas' top-level functions that return frames or columns and are not native.

They are counted as fallbacks, and return Craton's objects.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Generator
from types import FunctionType
from typing import Any

import pandas as pd

from craton.pandas.core.counterparts import as_craton
from craton.pandas.core.native import is_file_pattern, native_function
from craton.pandas.core.routing import inside_pandas, stays_in_pandas

_RETURNING_DATA = frozenset(
    [
        "eval",
        "factorize",
        "from_dummies",
        "json_normalize",
        "lreshape",
        "to_datetime",
        "to_numeric",
        "unique",
    ]
)

#: Readers that may return several frames: a list, a dict of them, or a generator of chunks.
_RETURNING_SEVERAL = frozenset(["read_excel", "read_html", "read_sql", "read_sql_query", "read_sql_table"])


def is_counted(name: str) -> bool:
    """Whether pandas' function of a name returns frames or columns, so that its calls are counted."""
    return name in _RETURNING_DATA or name.startswith("read_")


def counted_function(name: str) -> Callable[..., Any] | None:
    """Pandas' function of a name, wrapped; None if there is no such function or it returns no frames or columns."""
    theirs = getattr(pd, name, None)
    if not isinstance(theirs, FunctionType) or not is_counted(name):
        return None
    always = name.startswith("read_")

    def prepare(*args: Any, **kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        if name == "eval":
            with contextlib.suppress(TypeError):  # pandas raises it again, with its own message
                args, kwargs = (), _with_variables(theirs, args, kwargs)
        return args, kwargs

    def stays(*args: Any, **kwargs: Any) -> bool:
        return inside_pandas() or not (always or any(_planned(value) for value in (*args, *kwargs.values())))

    made = _converting(theirs) if name in _RETURNING_SEVERAL else theirs
    return native_function(made, prepare=prepare, stays=stays, elsewhere=is_file_pattern)(None)  # type: ignore[no-any-return]


def _converting(theirs: Callable[..., Any]) -> Callable[..., Any]:
    """A reader of pandas, all of whose frames have Craton's class."""

    def read(*args: Any, **kwargs: Any) -> Any:
        result = theirs(*args, **kwargs)
        if isinstance(result, dict):
            return {key: as_craton(value) for key, value in result.items()}
        if isinstance(result, list):
            return [as_craton(value) for value in result]
        return _converted_chunks(result) if isinstance(result, Generator) else result

    for attribute in ("__name__", "__qualname__", "__doc__", "__module__", "__annotations__"):
        setattr(read, attribute, getattr(theirs, attribute))
    read.__signature__ = inspect.signature(theirs)  # type: ignore[attr-defined]
    return read


def _converted_chunks(chunks: Generator[Any]) -> Generator[Any]:
    """The frames of a reader in chunks. Closing it closes the reader, which ends a transaction of a database."""
    with contextlib.closing(chunks):
        for chunk in chunks:
            yield as_craton(chunk)


def _with_variables(theirs: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments of ``eval`` with the caller's variables. pandas would count stack frames to find them, and Craton adds some."""
    from craton.pandas.computation.query import variables

    named = dict(inspect.signature(theirs).bind(*args, **kwargs).arguments)
    return {**named, "local_dict": variables(dict(named)), "global_dict": {}}


def _planned(value: Any) -> bool:
    return isinstance(value, (pd.DataFrame, pd.Series)) and not stays_in_pandas(value)
