"""Functions as keys of ``[]``, ``loc`` and ``iloc``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pandas.core import common
from pandas.core.col import Expression

from craton.errors import Unsupported
from craton.refusals import Refusal


class CallOnce:
    """A function as a key of ``[]``, ``loc`` or ``iloc``, called at most once: later calls return the first result.

    The function may have side effects, and after a refusal pandas calls it as well.
    """

    __slots__ = ("_function", "_result")

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self._function = function
        self._result: list[Any] = []

    def __call__(self, obj: Any) -> Any:
        if not self._result:
            self._result.append(self._function(obj))
        return self._result[0]


def called_once(key: Any) -> Any:
    """A key with its functions wrapped in :class:`CallOnce`; any other key unchanged."""
    if type(key) is tuple and any(map(callable, key)):
        return tuple(map(_once, key))
    return _once(key)


def _once(key: Any) -> Any:
    return CallOnce(key) if callable(key) and not isinstance(key, Expression) else key


def resolve_key(key: Any, obj: Any) -> Any:
    """The result of a key that is a function; any other key unchanged.

    Raises
    ------
    Unsupported
        If it returns a function, dict or set, which pandas treats unlike the same value given as a key.
    """
    if not callable(key):
        return key
    found = common.apply_if_callable(key, obj)
    if callable(found) or isinstance(found, (dict, set)):
        raise Unsupported(Refusal.KEY_TYPE, type(found).__name__)
    return found
