"""Methods that call a Python function for each row, cell or group: how they come to :mod:`craton.remote`.

pandas does everything but the calls: it checks the arguments, and makes the result of what all calls returned, so that
dtypes, index and names are inferred as ever. Only its loop over the rows is another one: :func:`craton.remote.jobs.run`.

The functions get pandas' own objects, on which nothing is planned.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from craton.errors import Unsupported
from craton.pandas.core.counterparts import plannable
from craton.pandas.core.native import count_fallback
from craton.pandas.core.routing import plain_pandas
from craton.refusals import Refusal

if TYPE_CHECKING:
    from craton.remote.functions import Function
    from craton.remote.jobs import Job, Results


def require_python_function(obj: Any, function: Any) -> None:
    """Raise Unsupported unless this is a call of a Python function with an object whose class is known."""
    if not callable(function) or isinstance(function, (np.ufunc, type, dict, pd.Series)):
        raise Unsupported(Refusal.NOT_A_FUNCTION)
    if not plannable(type(obj)):
        raise Unsupported(Refusal.CLASS_OF_USER, type(obj).__name__)


def run_job(job: Job, label: str) -> Results:
    """Make all calls of a job, and tell it if they could not be spread though they took long."""
    from craton.remote.jobs import run

    with plain_pandas():
        results = run(job, label)
    if results.refused is not None:
        count_fallback(label, results.refused)
    return results


def bound_function(function: Function) -> Callable[[Any], Any]:
    """The user's function itself where it has no other arguments, which is called faster."""
    return function if function.args or function.kwargs else function.call
