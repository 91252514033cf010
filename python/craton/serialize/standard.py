"""Encodes types of the standard library that own memory, and functions and classes, with cloudpickle."""

from __future__ import annotations

import _collections_abc
import array
import io
import mmap
import sys
import types
import typing
import weakref
from pickle import PickleBuffer
from typing import Any

from craton.serialize.encoding import Encoder, Handler

__all__ = ["find"]


def find(kind: type) -> Handler | None:
    """Return the handler of a type, or None if pickle handles it."""
    if issubclass(kind, type):
        return _code
    return _HANDLERS.get(kind)


def _importable(obj: Any) -> bool:
    """Whether a function or class can be imported by its qualified name in another process."""
    name, module = getattr(obj, "__qualname__", None), getattr(obj, "__module__", None)
    if module in (None, "__main__", "__mp_main__") or module not in sys.modules or not isinstance(name, str):
        return False
    found: Any = sys.modules[module]
    for part in name.split("."):
        found = getattr(found, part, None)
    return found is obj


def _code(encoder: Encoder, obj: Any) -> Any:
    """Encode a function or class: by name if it is importable, otherwise by value."""
    if obj in (type(None), type(...), type(NotImplemented)):
        return NotImplemented
    # If cloudpickle is imported, the program may have registered modules to be pickled by value, which cloudpickle checks.
    if "cloudpickle" not in sys.modules and _importable(obj):
        return NotImplemented
    return _cloud(encoder).reducer_override(obj)


def _by_table(encoder: Encoder, obj: Any) -> Any:
    """Encode a type that cloudpickle's dispatch table handles, such as code objects and what functions refer to."""
    return _cloud(encoder).dispatch_table[type(obj)](obj)


def _cloud(encoder: Encoder) -> Any:
    """Return the encoder's cloudpickle pickler: one for each encoder, because it tracks the globals that functions share."""
    pickler = encoder.shared.get("cloudpickle")
    if pickler is None:
        import cloudpickle

        pickler = encoder.shared["cloudpickle"] = cloudpickle.Pickler(io.BytesIO(), protocol=5)
    return pickler


def _memoryview(encoder: Encoder, view: memoryview) -> Any:
    import numpy as np

    if len(view.format) == 1 or (view.format[0] == "@" and len(view.format) == 2):
        # A buffer of an array or of bytes: Python before 3.11.8 and 3.12.2 crashes when it collects a PickleBuffer of a memoryview.
        flat = view if view.c_contiguous and view.nbytes else view.tobytes()
        memory: Any = np.frombuffer(flat, np.uint8) if view.nbytes else flat
        return _viewed, (PickleBuffer(memory), view.format, view.shape)
    return _of_array, (np.ascontiguousarray(np.asarray(view)),)


def _viewed(memory: Any, form: Any, shape: tuple[int, ...]) -> memoryview:
    flat = memoryview(memory).cast("B")
    return flat.cast(form) if 0 in shape else flat.cast(form, shape)


def _of_array(items: Any) -> memoryview:
    return memoryview(items)


def _numbers(encoder: Encoder, numbers: array.array[Any]) -> Any:
    return _array_of, (numbers.typecode, PickleBuffer(numbers))


def _array_of(typecode: str, memory: Any) -> array.array[Any]:
    made = array.array(typecode)
    made.frombytes(memory)
    return made


def _mapping(encoder: Encoder, mapping: mmap.mmap) -> Any:
    return _mapped, (PickleBuffer(mapping),)


def _mapped(memory: Any) -> mmap.mmap:
    """Return an anonymous mapping of the same bytes, because the file may not exist where this is decoded."""
    view = memoryview(memory)
    mapping = mmap.mmap(-1, len(view))
    mapping[:] = view  # type: ignore[assignment]
    return mapping


_HANDLERS: dict[type, Handler] = {
    memoryview: _memoryview,
    array.array: _numbers,
    mmap.mmap: _mapping,
    types.FunctionType: _code,
    **dict.fromkeys(
        (
            types.CodeType,
            types.CellType,
            types.ModuleType,
            types.MappingProxyType,
            types.GetSetDescriptorType,
            property,
            staticmethod,
            classmethod,
            io.TextIOWrapper,
            weakref.WeakSet,
            typing.TypeVar,
            _collections_abc.dict_keys,
            _collections_abc.dict_values,
            _collections_abc.dict_items,
        ),
        _by_table,
    ),
}
