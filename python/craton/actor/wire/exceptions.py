"""Serializes exceptions so that they arrive with their own class and as much of their state as can be sent.

Pickle rebuilds an exception by calling its class with ``args``, which fails or gives wrong results for classes whose
``__init__`` has other parameters. An exception that does not survive pickling is rebuilt without calling its class's
``__init__``. Values in it that cannot be serialized are replaced by their ``repr``, and the exception that arrives is
then also a `SendMessageFailed`.
"""

from __future__ import annotations

import functools
from typing import Any

from craton.actor.errors import SendMessageFailed
from craton.actor.wire import frames
from craton.serialize import decode, encode

__all__ = ["Raised", "sendable"]

# The most characters of the text that replaces a value that cannot be serialized.
_LONG = 500


class Raised:
    """An exception that is returned as a value, with the text of its traceback.

    Within a process it holds the original exception; pickling replaces that by what `sendable` returns.
    """

    __slots__ = ("error", "text")

    def __init__(self, error: BaseException, text: str) -> None:
        self.error, self.text = error, text

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (sendable(self.error), self.text)


def sendable(error: BaseException) -> Any:
    """Return an object to serialize in place of an exception: the exception itself, if it survives pickling.

    Returns
    -------
    object
        It is read back as an exception of the same class; as a subclass of that class and `SendMessageFailed` if a value
        in it cannot be serialized; and as a plain `SendMessageFailed` if its class cannot be.
    """
    if isinstance(error, StopIteration):
        # A future cannot raise StopIteration.
        return RuntimeError(f"a method raised {error!r}")
    if _survives_pickling(error):
        return error
    for made in [_Rebuilt(error, True)] if isinstance(error, _Incomplete) else [_Rebuilt(error), _Rebuilt(error, True)]:
        try:
            parts = encode(made)
            if isinstance(decode(parts.meta, parts.buffers), _kind(error)):
                return made
        except Exception:
            continue
    return SendMessageFailed(f"the exception {type(error).__name__}: {_text(error)} cannot be serialized")


def _survives_pickling(error: BaseException) -> bool:
    kind = type(error)
    if isinstance(error, BaseExceptionGroup):
        if not all(_survives_pickling(one) for one in error.exceptions):
            return False
    elif kind.__module__ == "builtins" and not error.__dict__ and frames.is_plain_value(error.args):
        return True
    try:
        parts = encode(error)
        made = decode(parts.meta, parts.buffers)
        return type(made) is kind and str(made) == str(error)
    except Exception:
        return False


class _Rebuilt:
    """Wraps an exception; it is read back as one that was rebuilt without its class's ``__init__``."""

    def __init__(self, error: BaseException, as_text: bool = False) -> None:
        self._error, self._as_text = error, as_text

    def __reduce__(self) -> tuple[Any, ...]:
        error = self._error
        _, args, *state = _native(type(error)).__reduce__(error)
        if isinstance(error, BaseExceptionGroup):
            args = (error.message, [sendable(one) for one in error.exceptions])
        found = dict(state[0]) if state and state[0] else {}
        if self._as_text:
            args = tuple(map(_or_text, args))
            found = {name: _or_text(value) for name, value in found.items()}
            return _rebuild_incomplete, (_kind(error), args, found)
        return _rebuild, (type(error), args, found)


class _Incomplete:
    """Marks the classes of exceptions in which values were replaced by text."""

    def __init_subclass__(cls) -> None:
        """Do not call the ``__init_subclass__`` of the exception's class, which may register its subclasses."""


def _kind(error: BaseException) -> type[BaseException]:
    """Return the class that an exception had when it was raised."""
    return type(error).__bases__[1] if isinstance(error, _Incomplete) else type(error)


@functools.lru_cache(256)
def _incomplete_class(kind: Any) -> Any:
    """Return a subclass of an exception class and `SendMessageFailed`, with the exception class's name."""
    bases = (_Incomplete, kind) if issubclass(kind, SendMessageFailed) else (_Incomplete, kind, SendMessageFailed)
    return type(kind)(kind.__name__, bases, {"__module__": kind.__module__, "__qualname__": kind.__qualname__})


def _rebuild_incomplete(kind: Any, args: tuple[Any, ...], state: dict[str, Any]) -> BaseException:
    try:
        found: type[BaseException] = _incomplete_class(kind)
    except TypeError:  # the class cannot be subclassed
        found = kind
    return _rebuild(found, args, state)


def _rebuild(kind: type[BaseException], args: tuple[Any, ...], state: dict[str, Any]) -> BaseException:
    native = _native(kind)
    error: BaseException = native.__new__(kind, *args)
    native.__init__(error, *args)
    error.__dict__.update(state)
    return error


def _native(kind: type[BaseException]) -> Any:
    return next(base for base in kind.__mro__ if base.__module__ == "builtins" and issubclass(base, BaseException))


def _or_text(value: Any) -> Any:
    try:
        parts = encode(value)
        decode(parts.meta, parts.buffers)
    except Exception:
        return _text(value)
    return value


def _text(value: Any) -> str:
    try:
        return (str(value) if isinstance(value, BaseException) else repr(value))[:_LONG]
    except Exception as error:
        return f"<{type(value).__name__}, whose text raises {type(error).__name__}>"
