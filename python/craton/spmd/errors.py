"""The errors of executors."""

from __future__ import annotations

from craton.errors import CratonError

__all__ = ["ExecutorClosed", "ResultLost"]


class ExecutorClosed(CratonError, RuntimeError):
    """The executor was shut down, or has lost a rank that it may not start again."""


class ResultLost(CratonError, LookupError):
    """The result was in a rank's process, which has ended."""
