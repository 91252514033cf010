"""Counts the calls that ran in plain pandas instead of in the engine, with their reasons.

Calls that the front end does not plan still work, because its classes inherit from pandas' own. Users would not notice
such a call although it may be slow, so every one is counted here, and ``craton.options.fallback`` says what
else happens: nothing ("silent"), a `FallbackWarning` at the user's line ("warn"), or a `FallbackError` ("error").
"""

from __future__ import annotations

from collections import Counter

import pandas as pd

from craton import forks
from craton.advice import INSTEAD
from craton.callers import warn
from craton.config import options
from craton.errors import FallbackError, FallbackWarning
from craton.refusals import Reason

__all__ = ["count", "explain_fallbacks", "reset"]

_counts: Counter[tuple[str, Reason]] = Counter()
_lock = forks.lock()


def count(name: str, reason: Reason) -> None:
    """Count that the call `name` ran in pandas, and warn or raise as ``options.fallback`` says.

    Parameters
    ----------
    name
        The call, by its public name: ``"DataFrame.merge"``.
    reason
        Why it was not planned.

    Raises
    ------
    craton.errors.FallbackError
        If ``options.fallback`` is "error". The call is counted nevertheless.
    """
    with _lock:
        _counts[name, reason] += 1
    mode = options.fallback
    if mode == "silent":
        return
    message = f"{name} runs in pandas, not in the engine: {reason}"
    if (instead := INSTEAD.get(reason.refusal)) is not None:
        message = f"{message}; instead, {instead}"
    if mode == "error":
        raise FallbackError(f'{message}. Rewrite the call, or set craton.options.fallback to "warn" or "silent".')
    warn(message, FallbackWarning)


def explain_fallbacks() -> pd.DataFrame:
    """The calls that ran in pandas since the start, or since `reset`, the most frequent first.

    Returns
    -------
    pandas.DataFrame
        Columns ``method``, ``reason``, ``count``, and ``instead``: what to write instead, or "" if there is no planned equivalent.

    Examples
    --------
    >>> import craton.fallbacks
    >>> craton.fallbacks.reset()
    >>> from craton.refusals import Reason, Refusal
    >>> craton.fallbacks.count("DataFrame.sample", Reason(Refusal.PARAMETER, "weights"))
    >>> craton.fallbacks.explain_fallbacks().to_dict("records")
    [{'method': 'DataFrame.sample', 'reason': 'the parameter weights', 'count': 1, 'instead': ''}]
    """
    with _lock:
        counted = [((name, str(reason), INSTEAD.get(reason.refusal, "")), n) for (name, reason), n in _counts.items()]
    rows = sorted(counted, key=lambda item: (-item[1], item[0]))
    return pd.DataFrame(
        {
            "method": pd.Series([name for (name, _, _), _ in rows], dtype="str"),
            "reason": pd.Series([reason for (_, reason, _), _ in rows], dtype="str"),
            "count": pd.Series([number for _, number in rows], dtype="int64"),
            "instead": pd.Series([instead for (_, _, instead), _ in rows], dtype="str"),
        }
    )


def reset() -> None:
    """Set all counts to zero."""
    with _lock:
        _counts.clear()
