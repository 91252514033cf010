"""Hashes of functions: of their code and of all that it refers to, so that a step runs again if any of it has changed.

A function's hash covers its instructions and constants, its defaults, the variables that it captures, and the global variables that
it names. Functions and classes of the user's program, and of the package that the step is in, count with all that they refer to; those of
other libraries with their own instructions and the library's version. What a function reads from elsewhere (files, the clock, variables
whose names it computes) is not covered: such steps have ``cache=False``.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import operator
import pickle
import struct
import sys
import types
from collections.abc import Iterable, Iterator
from typing import Any

from craton.callers import is_user
from craton.pipeline.runs.imports import Unknown, imported_modules, source_of_package

__all__ = ["Unknown", "fingerprint"]


def fingerprint(*values: Any) -> bytes:
    """A hash of functions and other values, the same in every process.

    Raises
    ------
    Unknown
        If one of them, or something that it refers to, cannot be pickled.

    Examples
    --------
    >>> fingerprint(lambda x: x + 1) == fingerprint(lambda x: x + 1)
    True
    >>> fingerprint(lambda x: x + 1) == fingerprint(lambda x: x + 2)
    False
    """
    walk = _Walk({_package(value) for value in values if isinstance(value, types.FunctionType)})
    for value in values:
        walk.add(value)
    return walk.digest()


class _Walk:
    """Adds values to a hash; a value that was added before is only counted.

    Parameters
    ----------
    packages
        Packages that are the user's, even if they are installed.
    """

    def __init__(self, packages: set[str]) -> None:
        self._packages = packages
        self._hash = hashlib.blake2b(digest_size=16)
        self._seen: dict[int, tuple[int, Any]] = {}

    def digest(self) -> bytes:
        return self._hash.digest()

    def _mark(self, kind: str, data: bytes = b"") -> None:
        self._hash.update(struct.pack("<Hq", len(kind), len(data)) + kind.encode() + data)

    def add(self, value: Any) -> None:
        """Add a value."""
        if self._plain(value):
            return
        if id(value) in self._seen:
            self._mark("again", struct.pack("<q", self._seen[id(value)][0]))
            return
        self._seen[id(value)] = (len(self._seen), value)
        if isinstance(value, types.CodeType):
            self._code(value)
        elif isinstance(value, types.FunctionType):
            self._function(value)
        elif isinstance(value, type):
            self._class(value)
        elif isinstance(value, types.ModuleType):
            self._mark("module", value.__name__.encode() + _version(value.__name__))
        elif not self._container(value) and not self._callable(value):
            self._object(value)

    def _plain(self, value: Any) -> bool:
        """Add a value without parts; False if it is none."""
        if (
            value is None
            or value is Ellipsis
            or (isinstance(value, (bool, int, str, bytes)) and type(value).__module__ == "builtins")
        ):
            data = value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogatepass")
            self._mark(type(value).__name__, data)
        elif type(value) in (float, complex):
            parts = (value,) if isinstance(value, float) else (value.real, value.imag)
            self._mark(type(value).__name__, struct.pack(f"<{len(parts)}d", *parts))
        else:
            return False
        return True

    def _container(self, value: Any) -> bool:
        """Add a container of Python; False if it is none."""
        kind = type(value)
        if kind in (list, tuple):
            self._mark(kind.__name__, struct.pack("<q", len(value)))
            for one in value:
                self.add(one)
        elif kind is dict:
            self._mark("dict", struct.pack("<q", len(value)))
            for key, one in value.items():
                self.add(key)
                self.add(one)
        elif kind in (set, frozenset):
            self._mark(kind.__name__, b"".join(sorted(map(fingerprint, value))))
        else:
            return False
        return True

    def _callable(self, value: Any) -> bool:
        """Add a method, a property or another wrapper of functions; False if it is none."""
        if isinstance(value, functools.partial):
            parts: tuple[Any, ...] = (value.func, value.args, value.keywords)
        elif isinstance(value, types.MethodType):
            parts = (value.__func__, value.__self__)
        elif isinstance(value, (staticmethod, classmethod)):
            parts = (value.__func__,)
        elif isinstance(value, property):
            parts = (value.fget, value.fset, value.fdel)
        elif isinstance(value, functools.cached_property):
            parts = (value.func,)
        elif isinstance(value, functools._lru_cache_wrapper):
            parts = (value.__wrapped__,)
        elif isinstance(value, (types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType)):
            parts = (value.__qualname__, getattr(value, "__module__", None) or "")
        elif isinstance(value, (types.MemberDescriptorType, types.GetSetDescriptorType)):
            parts = (value.__qualname__,)
        else:
            return False
        self._mark(type(value).__name__)
        for part in parts:
            self.add(part)
        return True

    def _code(self, code: types.CodeType) -> None:
        counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
        self._mark("code", struct.pack("<4q", *counts) + code.co_code)
        self._mark("exceptions", code.co_exceptiontable)
        for part in (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars, code.co_consts):
            self._mark("names", struct.pack("<q", len(part)))
            for one in part:
                self.add(one)

    def _function(self, function: types.FunctionType) -> None:
        if not is_user(function.__globals__) and _package(function) not in self._packages:
            name = f"{function.__module__}.{function.__qualname__}"
            self._mark("library function", name.encode() + _version(function.__module__))
            if "<locals>" not in name:
                self.add(function.__code__)
                return
        self._mark("function", f"{sys.version_info[:2]}".encode())
        for part in (function.__code__, function.__defaults__, function.__kwdefaults__):
            self.add(part)
        captured = dict(_captured(function))
        for name, value in captured.items():
            self._mark("captures", name.encode())
            self.add(value)
        imported = imported_modules(function)
        for name, value in self._read_of_modules([*captured.values(), *imported.values()], function.__code__):
            self._mark("reads", name.encode())
            self.add(value)
        for name, module in imported.items():
            # The process that calls the function imports the file as it is then, also if an older one is loaded here.
            self._mark("imports", name.encode() + source_of_package(name, loaded=module is not None))

    def _read_of_modules(self, values: Iterable[Any], code: types.CodeType) -> list[tuple[str, Any]]:
        """The attributes of the user's modules that code names, with their names."""
        names = sorted(set(_names(code)))
        found: dict[str, Any] = {}
        waiting = [value for value in values if isinstance(value, types.ModuleType)]
        seen: set[int] = set()
        while waiting:
            module = waiting.pop()
            own = module.__name__.partition(".")[0] in self._packages or is_user(vars(module))
            if id(module) in seen or not own or module.__name__ == "__main__":
                continue
            seen.add(id(module))
            for name in names:
                value = vars(module).get(name, _NOTHING)
                if isinstance(value, types.ModuleType):
                    waiting.append(value)
                elif value is not _NOTHING:
                    found[f"{module.__name__}.{name}"] = value
        return sorted(found.items(), key=operator.itemgetter(0))

    def _class(self, cls: type) -> None:
        module = sys.modules.get(cls.__module__)
        name = f"{cls.__module__}.{cls.__qualname__}"
        if module is not None and not is_user(vars(module)) and _package(cls) not in self._packages:
            self._mark("library class", name.encode() + _version(cls.__module__))
            return
        self._mark("class", cls.__qualname__.encode())
        for base in cls.__mro__[1:]:
            self.add(base)
        for key, value in sorted(vars(cls).items()):
            if key not in _SKIPPED:
                self._mark("member", key.encode())
                self.add(value)

    def _object(self, value: Any) -> None:
        self.add(type(value))
        buffers: list[pickle.PickleBuffer] = []
        try:
            data = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
        except Exception as error:
            raise Unknown(f"{type(value).__qualname__} cannot be pickled: {error}") from error
        self._mark("object", data)
        for buffer in buffers:
            with buffer.raw() as raw:
                self._mark("buffer", struct.pack("<q", raw.nbytes))
                self._hash.update(raw)


_NOTHING = object()
_SKIPPED = frozenset(
    [
        "__dict__",
        "__weakref__",
        "__module__",
        "__doc__",
        "__firstlineno__",
        "__static_attributes__",
        "__abstractmethods__",
        "_abc_impl",
    ]
)


def _captured(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    """The names and values of the variables that a function captures, and of the global variables that it names."""
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:  # the variable has no value
            yield name, Ellipsis
    for name in sorted(set(_names(function.__code__))):
        if name in function.__globals__:
            yield name, function.__globals__[name]


def _names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            yield from _names(inner)


def _package(one: Any) -> str:
    """The name of the package that a function or class is in."""
    return (one.__module__ or "").partition(".")[0]


@functools.lru_cache(256)
def _version(module: str | None) -> bytes:
    """The version of the library that a module belongs to; empty for modules of Python and of the user."""
    root = (module or "").partition(".")[0]
    if root in sys.stdlib_module_names or not root:
        return b""
    version = getattr(sys.modules.get(root), "__version__", None)
    if version is None:
        try:
            version = importlib.metadata.version(root)
        except importlib.metadata.PackageNotFoundError:
            version = ""
    return f" {version}".encode()
