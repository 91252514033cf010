"""Determines whether the calling code belongs to the user's program or to a library.

Three parts of Craton need this. The accelerator gives ``craton.pandas`` to the imports of the user's modules,
and pandas itself to all other imports. The profiler and the fallback warnings name the line of the user's
program, not the line in pandas that made the call.

A module is a library when its file is in a directory where Python keeps installed code (the standard
library, ``site-packages``, ``dist-packages``), or when it is pandas or Craton. All other modules are the user's:
``__main__``, notebook cells, modules next to the script, packages installed in editable mode. pandas' own
tests count as the user's, because they are programs that use pandas.
"""

from __future__ import annotations

import os
import site
import sys
import sysconfig
import warnings
from collections.abc import Iterable, Mapping
from functools import cache
from types import FrameType
from typing import Any

__all__ = ["Location", "configure", "is_user", "user_frame", "user_location", "warn"]

Location = tuple[str, int]

_MAIN_NAMES = frozenset({"__main__", "__mp_main__", "__console__"})
_ALWAYS_USER = ("pandas.tests", "pandas.conftest")
_NEVER_USER = ("pandas", "craton")

_include: tuple[str, ...] = _ALWAYS_USER
_exclude: tuple[str, ...] = _NEVER_USER
_classified: dict[tuple[Any, Any], bool] = {}


@cache
def _library_roots() -> tuple[str, ...]:
    """The directories that hold installed code, each with its trailing separator, symlinks resolved too."""
    found = [sysconfig.get_paths().get(key) for key in ("stdlib", "platstdlib", "purelib", "platlib")]
    found += [*site.getsitepackages(), site.getusersitepackages()] if hasattr(site, "getsitepackages") else []
    roots = {os.path.join(form(path), "") for path in found if path for form in (os.path.abspath, os.path.realpath)}
    return tuple(sorted(roots))


_LIBRARY_FOLDERS = tuple(f"{os.sep}{name}{os.sep}" for name in ("site-packages", "dist-packages"))


def configure(include: Iterable[str] = (), exclude: Iterable[str] = ()) -> None:
    """Name modules that the rules would classify wrongly.

    Parameters
    ----------
    include
        Dotted module names that count as the user's code, with everything below them.
    exclude
        Dotted module names that count as libraries, with everything below them. If a module matches both lists, the
        longer name decides.
    """
    global _include, _exclude
    _include = (*_ALWAYS_USER, *include)
    _exclude = (*_NEVER_USER, *exclude)
    _classified.clear()


def is_user(namespace: Mapping[str, Any]) -> bool:
    """Whether code with these globals belongs to the user's program.

    Parameters
    ----------
    namespace
        A module's ``__dict__``, or the globals of a frame.
    """
    name = namespace.get("__name__")
    file = namespace.get("__file__")
    key = (name, file)
    try:
        found = _classified.get(key)
    except TypeError:  # the names are set to unhashable values, so this is no module's namespace
        return True
    if found is None:
        found = _classified[key] = _is_user_module(name, file)
    return found


def _is_user_module(name: Any, file: Any) -> bool:
    if not isinstance(name, str) or name in _MAIN_NAMES:
        return True
    included, excluded = _longest_match(name, _include), _longest_match(name, _exclude)
    if included or excluded:
        return included > excluded
    if not isinstance(file, str):
        root = sys.modules.get(name.partition(".")[0])
        file = getattr(root, "__file__", None)
        if not isinstance(file, str):
            return name.partition(".")[0] not in sys.stdlib_module_names
    if file.startswith("<frozen"):
        return False
    file = os.path.abspath(file)
    return not file.startswith(_library_roots()) and not any(part in file for part in _LIBRARY_FOLDERS)


def _longest_match(name: str, prefixes: Iterable[str]) -> int:
    return max((len(prefix) for prefix in prefixes if name == prefix or name.startswith(prefix + ".")), default=0)


def user_frame(depth: int = 1) -> FrameType | None:
    """The innermost frame of the user's program above the caller, or None if there is none, as in a library's thread.

    Parameters
    ----------
    depth
        How many frames to skip first; 1 starts at the caller of this function.
    """
    frame: FrameType | None = sys._getframe(depth)
    while frame is not None and not is_user(frame.f_globals):
        frame = frame.f_back
    return frame


def warn(message: str, category: type[Warning]) -> None:
    """Warn at the user's line or, if no frame is the user's, at the line that called the caller."""
    frame = user_frame()
    if frame is None:
        warnings.warn(message, category, stacklevel=3)
        return
    warnings.warn_explicit(
        message,
        category,
        filename=frame.f_code.co_filename,
        lineno=frame.f_lineno,
        module=frame.f_globals.get("__name__", "<string>"),  # with None, Python would suppress the warning
        registry=frame.f_globals.setdefault("__warningregistry__", {}),
    )


def user_location(depth: int = 1) -> Location | None:
    """File and line of `user_frame`, as ``(filename, line)``."""
    frame = user_frame(depth + 1)
    return None if frame is None else (frame.f_code.co_filename, frame.f_lineno)
