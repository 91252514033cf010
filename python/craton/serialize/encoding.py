"""Encodes objects into parts: a pickler that hands the memory of known types out of band."""

from __future__ import annotations

import importlib
import pickle
import struct
import sys
from collections.abc import Callable
from typing import Any

__all__ = ["PLACEHOLDER", "Encoder", "Handler", "Parts", "encode"]

VERSION = 1
PLAIN_MEMORY = b"\0"

PLACEHOLDER = pickle.PickleBuffer(bytearray())
"""The placeholder pickled in place of an array's buffer. It is writable, because for a read-only buffer pickle emits an
additional opcode, which on decoding would replace the array by a memoryview."""

_HEAD = struct.Struct("<4sIQIQ")
_NO_BUFFERS = _HEAD.pack(b"COBM", VERSION, 0, 0, 0)
_NUMBERS = frozenset({int, float, bool, type(None)})
_MAX_DTYPES = 1 << 16

Handler = Callable[["Encoder", Any], Any]
"""A function that returns a ``__reduce__`` value for an object, or NotImplemented to leave it to pickle."""

ADAPTERS = {
    "builtins": "craton.serialize.standard",
    "numpy": "craton.serialize.numpy_arrays",
    "pandas": "craton.serialize.pandas_frames",
    "polars": "craton.serialize.polars_frames",
    "pyarrow": "craton.serialize.arrow_tables",
    "torch": "craton.serialize.torch_tensors",
}
"""The module that handles each package's types; its function ``find`` returns the handler of a type, or None."""

STANDARD = frozenset({"_io", "_weakrefset", "array", "mmap", "types", "typing"})
"""Further modules of the standard library whose types `craton.serialize.standard` handles."""


class Parts:
    """An encoded object: meta, and buffers that are the object's own memory.

    Attributes
    ----------
    buffers : list of memoryview
        One-dimensional and contiguous. Changes of the object before they are written change what is written.
    chunks : list of bytes-like
        The meta in pieces; large ``bytes`` of the object are pieces that are not copied.
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
    """A file that collects what is written to it in a list."""

    __slots__ = ("write",)

    def __init__(self, chunks: list[Any]) -> None:
        self.write = chunks.append


class Encoder(pickle.Pickler):
    """A pickler that hands the memory of known types out of band.

    `reducer_override` is not called for built-in containers, text and numbers: pickle writes them directly.

    Attributes
    ----------
    shared : dict
        For handlers: objects that they have encoded already, by keys that they choose.
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
            # A faster encoding for objects that consist of arrays in lists and dicts.
            obj = _adapter("numpy").extract_arrays(self, obj)
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
        """Return the index of a dtype in the table of dtypes; None if it cannot be added to the table."""
        number = self._dtypes.get(dtype)
        if number is None:
            number = len(self._names)
            name = dtype.str.encode()
            if number >= _MAX_DTYPES or len(name) > 255:
                return None
            self._dtypes[dtype] = number
            self._names.append(name)
        return number

    def describe(self, description: bytes, memory: Any, ahead: int = 0) -> None:
        """Describe the array of the next `PLACEHOLDER` to be pickled, or of the one that is ``ahead`` buffers later."""
        self._described[len(self._buffers) + ahead] = description, memory


def encode(obj: Any) -> Parts:
    """Encode an object without copying its memory.

    Parameters
    ----------
    obj : object
        Any object that pickle or cloudpickle accept. Shared references and cycles are preserved; but two arrays over the
        same memory are encoded as two separate buffers.

    Returns
    -------
    Parts
        The encoded object, for `craton.serialize.decode`.

    Raises
    ------
    pickle.PicklingError, TypeError, …
        Errors of pickling, as `pickle.dumps` raises them.

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
    """Return the handler of a type, from the adapter of the first class in its MRO that has one."""
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
