"""Exceptions and warnings of Craton's own. What pandas would raise is raised as pandas raises it."""

from __future__ import annotations


class CratonError(Exception):
    """The base of Craton's own exceptions."""


class PlanError(CratonError):
    """A plan that would be malformed: a bug in whatever built it."""


class Unsupported(CratonError):
    """Raised by a native implementation when pandas must do the work; the reason is counted and shown."""


class FallbackError(CratonError, NotImplementedError):
    """A call that is not native, under ``craton.options.fallback = "error"``."""


class FallbackWarning(UserWarning):
    """A call that is not native, under ``craton.options.fallback = "warn"``."""


class SourceChanged(CratonError, OSError):
    """A file that a lazy frame was read from is no longer what it was, and its rows are needed."""
