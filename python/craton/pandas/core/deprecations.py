"""Emits pandas' own warnings about deprecated arguments of native methods, with the user's line as their location."""

from __future__ import annotations

from typing import Any

from pandas.api.extensions import no_default
from pandas.errors import Pandas4Warning

from craton.callers import warn
from craton.errors import Unsupported
from craton.refusals import Refusal


def pop_inplace(obj: Any, named: dict[str, Any], method: str) -> bool:
    """Remove ``inplace`` from a call's arguments, with pandas' deprecation warning if it was given.

    Call it after all other refusals: if the call fell back, pandas would warn a second time.

    Raises
    ------
    Unsupported
        If it is not a bool, or if the object's flags forbid duplicate labels; pandas then raises the error.
    """
    given = named.pop("inplace", no_default)
    if given is no_default:
        return False
    if not obj.flags.allows_duplicate_labels:
        raise Unsupported(Refusal.IN_PLACE_LABELS)
    if not isinstance(given, bool):
        raise Unsupported(Refusal.PARAMETER, f"inplace={given!r}")
    obj._check_inplace_deprecation(given, method)
    return given


def pop_copy(obj: Any, named: dict[str, Any]) -> None:
    """Remove ``copy`` from a call's arguments, with pandas' deprecation warning if it was given."""
    given = named.pop("copy", no_default)
    if given is not no_default:
        obj._check_copy_deprecation(given)


def warn_of_auto_engine(engine: Any) -> None:
    """Warn of ``engine="auto"`` as pandas' Parquet functions do. Call it after all other refusals."""
    if engine is not no_default and engine == "auto":
        warn(
            "engine='auto' is deprecated and will be removed in a future version. Pass engine='pyarrow' or do not pass "
            "'engine' to use the default.",
            Pandas4Warning,
        )
