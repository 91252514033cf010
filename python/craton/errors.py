"""Exceptions and warnings of Craton's own. What pandas would raise is raised as pandas raises it."""

from __future__ import annotations

from craton.refusals import Reason, Refusal


class CratonError(Exception):
    """The base of Craton's own exceptions."""


class PlanError(CratonError):
    """A plan that would be malformed: a bug in whatever built it."""


class Unsupported(CratonError):
    """Raised by a native implementation when pandas must do the work; the reason is counted and shown.

    Parameters
    ----------
    refusal
        What is not planned.
    detail
        What its text is filled with, where it has a field.
    """

    def __init__(self, refusal: Refusal, detail: object = "") -> None:
        super().__init__(refusal, detail)
        self.refusal = refusal
        self.detail = detail

    @property
    def reason(self) -> Reason:
        """The refusal and its detail as a text."""
        return Reason(self.refusal, str(self.detail))

    def __str__(self) -> str:
        # The kernel makes an error anew of its text, where one is raised in a function that it calls.
        return str(self.refusal if isinstance(self.refusal, str) else self.reason)


class FallbackError(CratonError, NotImplementedError):
    """A call that is not native, under ``craton.options.fallback = "error"``."""


class FallbackWarning(UserWarning):
    """A call that is not native, under ``craton.options.fallback = "warn"``."""


class SourceChanged(CratonError, OSError):
    """A file that a lazy frame was read from is no longer what it was, and its rows are needed."""
