"""Functions of the user over moving windows: ``apply``, and ``agg`` with functions.

pandas calls the function for each window of the selected columns. The results become columns of the plan
(:mod:`craton.pandas.values.whole_results`).
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from craton.errors import Unsupported
from craton.pandas.values.whole_results import computed_by_pandas
from craton.refusals import Refusal

__all__ = ["apply_function", "has_functions"]


def has_functions(func: Any, named: dict[str, Any]) -> bool:
    """Whether an argument of ``agg`` has functions besides names."""
    if func is None:
        return any(callable(one[-1]) for one in named.values() if isinstance(one, tuple) and one)
    items = list(func.values()) if isinstance(func, dict) else [func]
    return any(callable(one) for item in items for one in (item if isinstance(item, list) else [item]))


def apply_function(window: Any, call: Callable[[Any], Any]) -> Any:
    """The result of a call of pandas that calls a function for each window.

    Parameters
    ----------
    window
        The window object, each of whose windows belongs to one row.
    call
        Calls pandas' own method for a window object.

    Raises
    ------
    Unsupported
        If the windows are in a column of the frame.
    """
    own = window.__dict__
    if getattr(window, "on", None) is not None:
        raise Unsupported(Refusal.PARAMETER, "on")

    def of_object(obj: Any) -> Any:
        made = copy.copy(window)
        made.obj, made._selection = obj, None
        return call(made)

    return computed_by_pandas(window._selected_obj if own.get("_selection") is not None else own["obj"], of_object)
