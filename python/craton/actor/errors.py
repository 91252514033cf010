"""The exceptions of the actor framework. Exceptions that a method raises reach its caller with their own class."""

from __future__ import annotations

from typing import Any

from craton.errors import CratonError


class ActorError(CratonError):
    """The base of the exceptions that pools and references raise."""


class ActorNotExist(ActorError):
    """The pool at that address has no actor of that uid."""


class ActorAlreadyExist(ActorError):
    """The pool already has an actor of that uid."""


class ActorPoolNotStarted(ActorError):
    """The pool has not started, is being restarted, or has stopped."""


class NoIdleSlot(ActorError):
    """Every pool with the label already has an actor with the mark."""


class ServerClosed(ActorError, ConnectionError):
    """The process of the pool that was called has ended, or cannot be reached.

    Attributes
    ----------
    address : str
        The pool's address.
    exitcode : int or None
        As `subprocess.Popen.returncode`: negative for a signal; None if unknown.
    """

    def __init__(self, text: str, address: str = "", exitcode: int | None = None) -> None:
        super().__init__(text)
        self.address, self.exitcode = address, exitcode

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (*self.args, self.address, self.exitcode)


class NotAuthenticated(ActorError, ConnectionError):
    """The peer did not authenticate: it has another key, other TLS settings, or is not a pool."""


class CannotCancelTask(ActorError):
    """The call has already ended, or is unknown."""


class SendMessageFailed(ActorError):
    """An argument, a result or an exception cannot be serialized."""


class RemoteTraceback(ActorError):
    """The traceback of an exception in the process that raised it; the ``__cause__`` of the exception at the caller."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}" if self.args else ""


class Return(Exception):
    """Raised by an async generator method to return a value."""

    def __init__(self, value: Any) -> None:
        super().__init__(value)
        self.value = value
