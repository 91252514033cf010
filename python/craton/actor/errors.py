"""What goes wrong between actors. A method's own exception reaches its caller as it is, with its class."""

from __future__ import annotations

from typing import Any

from craton.errors import CratonError


class ActorError(CratonError):
    """The base of the exceptions that pools and references raise themselves."""


class ActorNotExist(ActorError):
    """No actor of that name lives at that address."""


class ActorAlreadyExist(ActorError):
    """The pool has an actor of that name already."""


class ActorPoolNotStarted(ActorError):
    """The pool does not serve yet."""


class NoIdleSlot(ActorError):
    """Every pool with the label has an actor with the mark."""


class ServerClosed(ActorError, ConnectionError):
    """The process that was called is gone, or cannot be reached any more.

    Attributes
    ----------
    address : str
        Whose it was.
    exitcode : int or None
        As `subprocess.Popen.returncode`: negative for a signal; None if nobody knows.
    """

    def __init__(self, text: str, address: str = "", exitcode: int | None = None) -> None:
        super().__init__(text)
        self.address, self.exitcode = address, exitcode

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (*self.args, self.address, self.exitcode)


class NotAuthenticated(ActorError, ConnectionError):
    """The other side does not have the key, or is no pool."""


class CannotCancelTask(ActorError):
    """The call has ended already, or is not known."""


class SendMessageFailed(ActorError):
    """An argument, a result or an exception cannot be sent."""


class RemoteTraceback(ActorError):
    """Where an exception came from, in another process: the cause of what the caller gets."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}" if self.args else ""


class Return(Exception):
    """Raised by an async-generator method to return a value."""

    def __init__(self, value: Any) -> None:
        super().__init__(value)
        self.value = value
