"""A function with what it is called with, as it travels to workers.

It is pickled by value where others could not import it: functions and classes of ``__main__``, of notebooks, local ones. The
pickle is made when the first rows were run already, so that what the function keeps, such as a table that it has built,
travels too. A worker unpickles a function once a job, not once a piece.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import warnings
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
import pyarrow as pa

from craton import forks
from craton.remote.modules import Held, process, put_back
from craton.serialize import decode, deserialize, encode, serialize

__all__ = ["Function", "Payload", "Surroundings", "from_table", "loaded", "to_table"]


@dataclass(frozen=True, slots=True, eq=False)
class Function:
    """What is called: a function of one argument, and the other arguments.

    Parameters
    ----------
    call
        The user's function.
    args, kwargs
        What it gets after its first argument.
    """

    call: Callable[..., Any]
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)

    def __call__(self, first: Any) -> Any:
        return self.call(first, *self.args, **self.kwargs)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a function may ask for without naming it; small, and the same in every worker.

    Parameters
    ----------
    path
        Where modules are imported from.
    filters
        The filters of warnings, packed.
    floating
        What NumPy does on division by zero and the like.
    decimals
        How ``decimal`` computes; None where nobody has imported it.
    """

    path: tuple[str, ...]
    filters: bytes
    floating: tuple[tuple[str, Any], ...]
    decimals: Any = None

    @classmethod
    def here(cls) -> Surroundings:
        """Those of this process and thread."""
        try:
            filters = bytes(serialize(list(warnings.filters)))
        except Exception:  # one of a class that cannot be pickled
            filters = bytes(serialize([]))
        path = tuple(entry or os.getcwd() for entry in sys.path)
        module = sys.modules.get("decimal")
        decimals = None if module is None else module.getcontext().copy()
        return cls(path, filters, tuple(np.geterr().items()), decimals)

    def complete_path(self) -> None:
        """Import from where the program imports from, too."""
        sys.path.extend(entry for entry in self.path if entry not in sys.path)

    def arithmetic(self) -> contextlib.AbstractContextManager[Any]:
        """A block in which ``decimal`` computes as in the program."""
        return contextlib.nullcontext() if self.decimals is None else sys.modules["decimal"].localcontext(self.decimals)

    def warning_filters(self) -> list[Any]:
        """The filters of warnings."""
        found: list[Any] = deserialize(self.filters)
        return found


@dataclass(frozen=True, slots=True)
class Payload:
    """A pickled function.

    Parameters
    ----------
    digest
        What tells it from all others.
    table
        The pickle, as a table of one row.
    """

    digest: bytes
    table: pa.Table

    @classmethod
    def of(cls, function: Function, held: list[Held]) -> Payload:
        """Pickle a function, with what it reads of modules and classes that are pickled by their names.

        Raises
        ------
        Exception
            Whatever pickling meets.
        """
        return cls(os.urandom(16), to_table((process(), held, function)))


_loaded: OrderedDict[bytes, Function] = OrderedDict()
_KEPT = 4
_loading = forks.lock()
_turns: WeakValueDictionary[bytes, Any] = WeakValueDictionary()


def loaded(digest: bytes, table: Callable[[], pa.Table]) -> Function:
    """The function of a payload, in a worker; unpickled when it is first met."""
    with _loading:
        if digest not in _loaded:
            program, held, function = from_table(table(), copy=True)
            put_back(held, program)
            _loaded[digest] = function
            while len(_loaded) > _KEPT:
                _loaded.popitem(last=False)
        _loaded.move_to_end(digest)
        return _loaded[digest]


def forget(digest: bytes) -> None:
    """Unpickle a function anew when it is next met: what it captures is not as it was."""
    with _loading:
        _loaded.pop(digest, None)


def turn(digest: bytes) -> contextlib.AbstractContextManager[Any]:
    """One piece at a time calls a function that captures something, in one process."""
    with _loading:
        return _turns.setdefault(digest, threading.RLock())


def to_table(value: Any) -> pa.Table:
    """Any object as a table of one row; large memory that it has is not copied.

    Raises
    ------
    Exception
        Whatever pickling meets.
    """
    parts = encode(value)
    cells = [parts.meta, *parts.buffers]
    return pa.table([_cell(cell) for cell in cells], [str(number) for number in range(len(cells))])


def from_table(table: pa.Table, *, copy: bool = False) -> Any:
    """The object that :func:`to_table` made a table of; it looks into the table's memory unless ``copy``."""
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
