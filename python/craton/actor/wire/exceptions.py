"""Exceptions on their way: they arrive with their class and what they hold, as far as that can be sent.

Pickle makes an exception by calling its class with its ``args``, which many classes do not accept, or do not take for
what they are. What would not come back as it is, is made without its class's own ``__init__``; and what it holds that
cannot be sent arrives as the text that stands for it: then it is a `SendMessageFailed` beside what it was.
"""

from __future__ import annotations

import functools
from typing import Any

from craton.actor.errors import SendMessageFailed
from craton.actor.wire import frames
from craton.serialize import decode, encode

__all__ = ["Raised", "sendable"]

# Characters of what stands for a value that cannot be sent.
_LONG = 500


class Raised:
    """An exception as a value, and the text of its traceback.

    Within a process it is the very exception; on its way to another one it becomes what can be sent.
    """

    __slots__ = ("error", "text")

    def __init__(self, error: BaseException, text: str) -> None:
        self.error, self.text = error, text

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (sendable(self.error), self.text)


def sendable(error: BaseException) -> Any:
    """Return what arrives as the exception: itself, if it comes back as it is.

    Returns
    -------
    object
        To be packed. It is read as an exception of the same class; as a `SendMessageFailed` too if something that it holds
        cannot be sent, and as that alone if its class cannot.
    """
    if isinstance(error, StopIteration):
        # Nobody could get it: it cannot be raised where something is awaited.
        return RuntimeError(f"a method raised {error!r}")
    if _comes_back(error):
        return error
    for made in [_Made(error, True)] if isinstance(error, _Unsent) else [_Made(error), _Made(error, True)]:
        try:
            parts = encode(made)
            if isinstance(decode(parts.meta, parts.buffers), _kind(error)):
                return made
        except Exception:
            continue
    return SendMessageFailed(f"the exception {type(error).__name__}: {_text(error)} cannot be sent")


def _comes_back(error: BaseException) -> bool:
    kind = type(error)
    if isinstance(error, BaseExceptionGroup):
        if not all(_comes_back(one) for one in error.exceptions):
            return False
    elif kind.__module__ == "builtins" and not error.__dict__ and frames.is_plain_value(error.args):
        return True
    try:
        parts = encode(error)
        made = decode(parts.meta, parts.buffers)
        return type(made) is kind and str(made) == str(error)
    except Exception:
        return False


class _Made:
    """Stands for an exception, and is read as one that was made without its class's own ``__init__``."""

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
            return _make_unsent, (_kind(error), args, found)
        return _make, (type(error), args, found)


class _Unsent:
    """Of what exceptions are that arrive without something that they held."""

    def __init_subclass__(cls) -> None:
        """Keep from telling the exception's own class, which may take note of those that are derived from it."""


def _kind(error: BaseException) -> type[BaseException]:
    """The class that an exception had where it was raised."""
    return type(error).__bases__[1] if isinstance(error, _Unsent) else type(error)


@functools.lru_cache(256)
def _unsent(kind: Any) -> Any:
    """A class as another, and `SendMessageFailed` too; it looks like the other one in a traceback."""
    bases = (_Unsent, kind) if issubclass(kind, SendMessageFailed) else (_Unsent, kind, SendMessageFailed)
    return type(kind)(kind.__name__, bases, {"__module__": kind.__module__, "__qualname__": kind.__qualname__})


def _make_unsent(kind: Any, args: tuple[Any, ...], state: dict[str, Any]) -> BaseException:
    try:
        found: type[BaseException] = _unsent(kind)
    except TypeError:  # nothing can be derived from it
        found = kind
    return _make(found, args, state)


def _make(kind: type[BaseException], args: tuple[Any, ...], state: dict[str, Any]) -> BaseException:
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
