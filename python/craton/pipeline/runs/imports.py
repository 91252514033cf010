"""Modules that a function imports when it is called."""

from __future__ import annotations

import dis
import hashlib
import importlib.util
import sys
import types
from collections.abc import Iterator
from pathlib import Path

from craton.callers import is_user

__all__ = ["Unknown", "imported_modules", "source_of_package"]


class Unknown(Exception):
    """A value has no hash: it cannot be pickled, or what it depends on is unknown."""


def imported_modules(function: types.FunctionType) -> dict[str, types.ModuleType | None]:
    """The modules that a function imports, by name; None for one that is not loaded yet.

    Examples
    --------
    >>> def read():
    ...     import json
    >>> list(imported_modules(read))
    ['json']
    """
    package = function.__globals__.get("__package__") or ""
    found: dict[str, types.ModuleType | None] = {}
    for name, level, members in _imports(function.__code__):
        whole = importlib.util.resolve_name("." * level + name, package) if level else name
        for one in (whole, *(f"{whole}.{member}" for member in members)):
            if one in sys.modules or one == whole:
                found[one] = sys.modules.get(one)
    return found


def _imports(code: types.CodeType) -> Iterator[tuple[str, int, tuple[str, ...]]]:
    """Name, level and names of each import statement."""
    before: list[dis.Instruction] = []
    for one in dis.get_instructions(code):
        if one.opname == "IMPORT_NAME":
            level, members = (before[-2].argval, before[-1].argval) if len(before) > 1 else (0, None)
            yield str(one.argval), level if isinstance(level, int) else 0, members if isinstance(members, tuple) else ()
        if one.opname not in ("CACHE", "EXTENDED_ARG"):
            before.append(one)
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            yield from _imports(inner)


def source_of_package(name: str, *, loaded: bool) -> bytes:
    """A hash of the sources of the user's package or module; empty for a library.

    Parameters
    ----------
    name
        The module's name.
    loaded
        Whether the module is loaded, so that it may have no file.

    Raises
    ------
    Unknown
        If it is not found, since nobody knows what a call would import.
    """
    root = name.partition(".")[0]
    if root in sys.stdlib_module_names:
        return b""
    try:
        spec = importlib.util.find_spec(root)
    except (ImportError, ValueError):
        spec = None
    if spec is None:
        if loaded:
            return b""
        raise Unknown(f"it imports {name}, which is not found")
    if not is_user({"__name__": root, "__file__": spec.origin}):
        return b""
    folders = [Path(folder) for folder in spec.submodule_search_locations or ()]
    files = sorted(file for folder in folders for file in folder.rglob("*.py")) or [Path(spec.origin or "")]
    digest = hashlib.blake2b(digest_size=16)
    for file in files:
        digest.update(file.name.encode())
        if file.is_file():
            digest.update(file.read_bytes())
    return digest.digest()
