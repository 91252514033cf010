"""From objects to parts."""

from __future__ import annotations

import importlib
import pickle
import struct
import sys
from collections.abc import Callable
from typing import Any

__all__ = ["PLACE", "Encoder", "Handler", "Parts", "encode"]

VERSION = 1
PLAIN_MEMORY = b"\0"

PLACE = pickle.PickleBuffer(bytearray())
"""Pickled where an array's memory is to be asked for. Being writable, it is followed by no request to make the memory
read-only, which pickle would answer by a memoryview in place of the array."""

_HEAD = struct.Struct("<4sIQIQ")
_NO_BUFFERS = _HEAD.pack(b"COBM", VERSION, 0, 0, 0)
_NUMBERS = frozenset({int, float, bool, type(None)})
_MOST_DTYPES = 1 << 16

Handler = Callable[["Encoder", Any], Any]
"""Returns what ``__reduce__`` returns, or NotImplemented for what pickle does by itself."""

ADAPTERS = {
    "builtins": "craton.serialize.standard",
    "numpy": "craton.serialize.numpy_arrays",
    "pandas": "craton.serialize.pandas_frames",
    "polars": "craton.serialize.polars_frames",
    "pyarrow": "craton.serialize.arrow_tables",
    "torch": "craton.serialize.torch_tensors",
}
"""Package to the module that knows its types: its function ``find`` returns the handler of a type, or None."""

STANDARD = frozenset({"_io", "_weakrefset", "array", "mmap", "types", "typing"})
"""Modules of the standard library whose types `craton.serialize.standard` knows too."""


class Parts:
    """An encoded object: meta, and buffers that still are the object's own memory.

    Attributes
    ----------
    buffers : list of memoryview
        Flat, contiguous. Whoever changes the object before they are written changes what is written.
    chunks : list of bytes-like
        The meta, in pieces as they were made; large ``bytes`` of the object are pieces by themselves, and not copied.
    """

    __slots__ = ("buffers", "chunks")

    def __init__(self, chunks: list[Any], buffers: list[memoryview]) -> None:
        self.chunks = chunks
        self.buffers = buffers

    @property
    def meta(self) -> bytes:
        """The meta in one piece."""
        if len(self.chunks) != 1 or not isinstance(self.chunks[0], bytes):
            self.chunks = [b"".join(self.chunks)]
        meta: bytes = self.chunks[0]
        return meta

    @property
    def nbytes(self) -> int:
        """Bytes of meta and buffers together."""
        return sum(map(len, self.chunks)) + sum(map(len, self.buffers))

    def __repr__(self) -> str:
        return f"<Parts: {sum(map(len, self.chunks))} bytes of meta, {len(self.buffers)} buffers, {self.nbytes} bytes>"


class _Sink:
    """A file that keeps what is written to it in pieces."""

    __slots__ = ("write",)

    def __init__(self, chunks: list[Any]) -> None:
        self.write = chunks.append


class Encoder(pickle.Pickler):
    """A pickler that knows how to leave memory out.

    Built-in containers, text and numbers never come here: pickle's own code has written them before it asks.

    Attributes
    ----------
    shared : dict
        For handlers: what they have met, by keys of their own.
    """

    def __init__(self) -> None:
        self._chunks: list[Any] = []
        self._buffers: list[pickle.PickleBuffer] = []
        self._described: dict[int, tuple[bytes, Any]] = {}
        self._dtypes: dict[Any, int] = {}
        self._names: list[bytes] = []
        self._handlers: dict[type, Handler | None] = {}
        self.shared: dict[Any, Any] = {}
        super().__init__(_Sink(self._chunks), 5, buffer_callback=self._buffers.append)

    def reducer_override(self, obj: Any) -> Any:
        kind = type(obj)
        try:
            handler = self._handlers[kind]
        except KeyError:
            handler = self._handlers[kind] = _find(kind)
        return NotImplemented if handler is None else handler(self, obj)

    def encode(self, obj: Any) -> Parts:
        """Encode one object; an encoder is used once."""
        if "numpy" in sys.modules:
            # Arrays in lists and dicts alone need no more than their place in the stream.
            obj = _adapter("numpy").unnested(self, obj)
        self.dump(obj)
        count = len(self._buffers)
        if len(self._described) == count:
            pairs = list(self._described.values())
        else:
            pairs = [self._described.get(number, (PLAIN_MEMORY, buffer)) for number, buffer in enumerate(self._buffers)]
        names = b"".join([len(name).to_bytes(1, "little") + name for name in self._names])
        described = b"".join([description for description, _ in pairs])
        head = _HEAD.pack(b"COBM", VERSION, count, len(self._names), len(names) + len(described))
        chunks = [b"".join((head, names, described, *self._chunks[:1])), *self._chunks[1:]]
        return Parts(chunks, [pickle.PickleBuffer(memory).raw() for _, memory in pairs])

    def number_of(self, dtype: Any) -> int | None:
        """Return the number of a dtype that goes by a name; None when there are too many."""
        number = self._dtypes.get(dtype)
        if number is None:
            number = len(self._names)
            name = dtype.str.encode()
            if number >= _MOST_DTYPES or len(name) > 255:
                return None
            self._dtypes[dtype] = number
            self._names.append(name)
        return number

    def describe(self, description: bytes, memory: Any, ahead: int = 0) -> None:
        """Say what the next `PLACE` that is pickled stands for, or the one that comes ``ahead`` buffers later."""
        self._described[len(self._buffers) + ahead] = description, memory


def encode(obj: Any) -> Parts:
    """Encode an object without copying its memory.

    Parameters
    ----------
    obj : object
        Anything that pickle or cloudpickle take. Shared references and cycles are kept; two arrays over the same
        memory become two memories.

    Returns
    -------
    Parts
        What `craton.serialize.decode` takes.

    Raises
    ------
    pickle.PicklingError, TypeError, …
        What pickling meets, as `pickle.dumps` raises it.

    Examples
    --------
    >>> import numpy as np
    >>> from craton.serialize import decode, encode
    >>> parts = encode({"name": "x", "values": np.arange(3.0)})
    >>> parts.buffers[0].nbytes
    24
    >>> decode(parts.meta, parts.buffers)
    {'name': 'x', 'values': array([0., 1., 2.])}
    """
    if type(obj) in _NUMBERS:
        return Parts([_NO_BUFFERS + pickle.dumps(obj, 5)], [])
    return Encoder().encode(obj)


def _find(kind: type) -> Handler | None:
    """Return the handler of a type, from the adapter of the first of its bases that has one."""
    if issubclass(kind, type):
        return _adapter("builtins").find(kind)
    for base in kind.__mro__:
        module = getattr(base, "__module__", None)
        if not isinstance(module, str):
            continue
        package = module.partition(".")[0]
        if package in STANDARD or package == "builtins":
            package = "builtins"
        if package in ADAPTERS:
            handler = _adapter(package).find(kind)
            if handler is not None:
                return handler
    return None


def _adapter(package: str) -> Any:
    return importlib.import_module(ADAPTERS[package])
