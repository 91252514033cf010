"""Craton's own exceptions and warnings. Errors that pandas would raise are raised as pandas' own."""

from __future__ import annotations

from craton.refusals import Reason, Refusal


class CratonError(Exception):
    """The base of Craton's own exceptions."""


class PlanError(CratonError):
    """A plan is malformed: a bug in the code that built it."""


class Unsupported(CratonError):
    """Raised by a native implementation so that pandas runs the call; the reason is counted and shown.

    Parameters
    ----------
    refusal
        The feature that is not planned.
    detail
        The value for the placeholder in the refusal's text, if it has one.
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
        # If a function that the kernel calls raises this, the kernel creates a new error, with the text in place of the refusal.
        return str(self.refusal if isinstance(self.refusal, str) else self.reason)


class FallbackError(CratonError, NotImplementedError):
    """Raised for a call that is not native, under ``craton.options.fallback = "error"``."""


class FallbackWarning(UserWarning):
    """Issued for a call that is not native, under ``craton.options.fallback = "warn"``."""


class SourceChanged(CratonError, OSError):
    """A file has changed since a lazy frame was read from it, and the rows that it had are needed now."""
