"""The standard library: memory of its types, and code, which cloudpickle encodes."""

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
    """Return the handler of a type; None for what pickle does well."""
    if issubclass(kind, type):
        return _code
    return _HANDLERS.get(kind)


def _importable(obj: Any) -> bool:
    """Whether any process finds a function or class by its name."""
    name, module = getattr(obj, "__qualname__", None), getattr(obj, "__module__", None)
    if module in (None, "__main__", "__mp_main__") or module not in sys.modules or not isinstance(name, str):
        return False
    found: Any = sys.modules[module]
    for part in name.split("."):
        found = getattr(found, part, None)
    return found is obj


def _code(encoder: Encoder, obj: Any) -> Any:
    """A function or a class: by its name, if others find it, and by value otherwise."""
    if obj in (type(None), type(...), type(NotImplemented)):
        return NotImplemented
    # Whoever has imported cloudpickle may have registered modules whose code goes by value.
    if "cloudpickle" not in sys.modules and _importable(obj):
        return NotImplemented
    return _cloud(encoder).reducer_override(obj)


def _by_table(encoder: Encoder, obj: Any) -> Any:
    """What code consists of, or has beside it."""
    return _cloud(encoder).dispatch_table[type(obj)](obj)


def _cloud(encoder: Encoder) -> Any:
    """Return the pickler of cloudpickle that is asked how to reduce things; it keeps the globals that functions share."""
    pickler = encoder.shared.get("cloudpickle")
    if pickler is None:
        import cloudpickle

        pickler = encoder.shared["cloudpickle"] = cloudpickle.Pickler(io.BytesIO(), protocol=5)
    return pickler


def _memoryview(encoder: Encoder, view: memoryview) -> Any:
    import numpy as np

    if len(view.format) == 1 or (view.format[0] == "@" and len(view.format) == 2):
        # Of an array, or of bytes: Python before 3.11.8 and 3.12.2 crashes when it collects a buffer of a memoryview.
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
    """An anonymous mapping of the same bytes: the file is not there where this is read."""
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
