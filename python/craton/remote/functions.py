"""A function and its fixed arguments, and how they are sent to workers.

Functions and classes that workers cannot import are pickled by value: those of ``__main__`` and of notebooks, and local ones. The
function is pickled after the first calls, so that objects which it has built by then, such as lookup tables, are sent as well. A
worker unpickles a function once for each job, not for each piece.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
import pyarrow as pa
from pandas._config import config

from craton import forks, warning_filters
from craton.remote.modules import HeldAttribute, process_identity, set_attributes
from craton.serialize import decode, deserialize, encode, serialize

__all__ = ["CallerSettings", "Payload", "UserFunction", "from_table", "load_function", "to_table"]


@dataclass(frozen=True, slots=True, eq=False)
class UserFunction:
    """A user's function and its fixed arguments.

    Parameters
    ----------
    call
        The user's function.
    args, kwargs
        The arguments that are passed after the first one.
    """

    call: Callable[..., Any]
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)

    def __call__(self, first: Any) -> Any:
        return self.call(first, *self.args, **self.kwargs)


@dataclass(frozen=True, slots=True)
class CallerSettings:
    """Settings of the calling thread that can change a function's result; workers call the function with the same settings.

    Parameters
    ----------
    path
        The entries of ``sys.path``.
    filters
        The warning filters, serialized.
    float_errors
        NumPy's floating-point error handling, as from ``numpy.geterr``.
    decimal_settings
        The ``decimal`` context; None if the module is not imported.
    print_options
        NumPy's print options, as from ``numpy.get_printoptions``.
    display_options
        The options of pandas that begin with ``display.`` and do not have their default values.
    """

    path: tuple[str, ...]
    filters: bytes
    float_errors: tuple[tuple[str, Any], ...]
    decimal_settings: Any = None
    print_options: tuple[tuple[str, Any], ...] = ()
    display_options: tuple[tuple[str, Any], ...] = ()

    @classmethod
    def current(cls) -> CallerSettings:
        """Return the settings of this process and thread."""
        try:
            filters = bytes(serialize(list(warnings.filters)))
        except Exception:  # a filter's warning class cannot be pickled
            filters = bytes(serialize([]))
        path = tuple(entry or os.getcwd() for entry in sys.path)
        module = sys.modules.get("decimal")
        decimal_settings = None if module is None else module.getcontext().copy()
        printing = tuple(np.get_printoptions().items())
        return cls(path, filters, tuple(np.geterr().items()), decimal_settings, printing, _display_options())

    def extend_path(self) -> None:
        """Append the program's entries to this process's ``sys.path``."""
        sys.path.extend(entry for entry in self.path if entry not in sys.path)

    def decimal_context(self) -> contextlib.AbstractContextManager[Any]:
        """Return a context manager that applies the program's ``decimal`` context."""
        return (
            contextlib.nullcontext()
            if self.decimal_settings is None
            else sys.modules["decimal"].localcontext(self.decimal_settings)
        )

    @contextlib.contextmanager
    def formats(self) -> Iterator[None]:
        """Apply the program's options that change how arrays and frames are written as text."""
        printing: Any = dict(self.print_options)
        displayed = [part for option in self.display_options for part in option]
        with np.printoptions(**printing), config.option_context(*displayed) if displayed else contextlib.nullcontext():
            yield

    def warning_filters(self) -> list[Any]:
        found: list[Any] = deserialize(self.filters)
        return found


def changed_options() -> list[tuple[str, Any]]:
    """The options of pandas that do not have their default values."""
    with warning_filters.ignoring():  # some options are deprecated
        values = [(name, config.get_option(name), option.defval) for name, option in config._registered_options.items()]
    return [(name, value) for name, value, default in values if value != default]


def _display_options() -> tuple[tuple[str, Any], ...]:
    return tuple((name, value) for name, value in changed_options() if name.startswith("display."))


@dataclass(frozen=True, slots=True)
class Payload:
    """A pickled function.

    Parameters
    ----------
    digest
        A random identifier.
    table
        The pickle, as a table of one row.
    """

    digest: bytes
    table: pa.Table

    @classmethod
    def of(cls, function: UserFunction, held: list[HeldAttribute]) -> Payload:
        """Pickle a function, with the attributes that it reads from modules and classes that are pickled by name.

        Raises
        ------
        Exception
            Any exception of pickling.
        """
        return cls(os.urandom(16), to_table((process_identity(), held, function)))


_loaded: OrderedDict[bytes, UserFunction] = OrderedDict()
_MAX_LOADED = 4
_loading = forks.lock()
_call_locks: WeakValueDictionary[bytes, Any] = WeakValueDictionary()


def load_function(digest: bytes, table: Callable[[], pa.Table]) -> UserFunction:
    """Return the function of a payload, in a worker; unpickle it at the first call."""
    with _loading:
        if digest not in _loaded:
            program, held, function = from_table(table(), copy=True)
            set_attributes(held, program)
            _loaded[digest] = function
            while len(_loaded) > _MAX_LOADED:
                _loaded.popitem(last=False)
        _loaded.move_to_end(digest)
        return _loaded[digest]


def forget_function(digest: bytes) -> None:
    """Drop an unpickled function whose state has changed, so that the next piece unpickles it again."""
    with _loading:
        _loaded.pop(digest, None)


def call_lock(digest: bytes) -> contextlib.AbstractContextManager[Any]:
    """Return the lock of a function in this process: its pieces run one at a time, so that changes of its state are attributable."""
    with _loading:
        return _call_locks.setdefault(digest, threading.RLock())


def to_table(value: Any) -> pa.Table:
    """Serialize an object to a table of one row; its large buffers are not copied.

    Raises
    ------
    Exception
        Any exception of pickling.
    """
    parts = encode(value)
    cells = [parts.meta, *parts.buffers]
    return pa.table([_cell(cell) for cell in cells], [str(number) for number in range(len(cells))])


def from_table(table: pa.Table, *, copy: bool = False) -> Any:
    """Deserialize an object from a table of :func:`to_table`; its buffers are views of the table's memory unless `copy` is true."""
    cells: list[memoryview] = []
    for column in table.columns:
        (chunk,) = (chunk for chunk in column.chunks if len(chunk))
        _, offsets, data = chunk.buffers()
        start, end = np.frombuffer(offsets, np.int64, 2, 8 * chunk.offset).tolist()
        cells.append(memoryview(b"") if data is None else memoryview(data)[start:end])
    return decode(cells[0], cells[1:], copy=copy)


def _cell(part: Any) -> pa.Array:
    offsets = pa.py_buffer(np.array([0, len(part)], np.int64))
    return pa.Array.from_buffers(pa.large_binary(), 1, [None, offsets, pa.py_buffer(part)])
