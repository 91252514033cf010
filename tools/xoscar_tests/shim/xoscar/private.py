"""Placeholders for internal names of Xoscar: importing them succeeds, as test files need, and using them raises an error."""

from collections.abc import Callable
from typing import Any


class Private(NotImplementedError):
    """A test uses something that is not part of Xoscar's public API."""


class _Refuses(type):
    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__") or name == "_pytestfixturefunction":
            raise AttributeError(name)
        raise Private(f"{cls.__name__}.{name} is not part of Xoscar's public API")

    def __call__(cls, *_args: Any, **_kwargs: Any) -> Any:
        raise Private(f"{cls.__name__} is not part of Xoscar's public API")


def names_of(module: str) -> Callable[[str], Any]:
    """Return a ``__getattr__`` for a module that provides a placeholder for every name."""

    def get(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Refuses(f"{module}.{name}", (), {"__test__": False})

    return get
