"""Connects methods that call a Python function for each row, element or group to :mod:`craton.remote`, which runs the calls.

pandas checks the arguments and combines the results of the calls, so that dtypes, index and names are inferred as in pandas.
Only its loop over the rows is replaced, by :func:`craton.remote.parallel_calls.run`. The functions get objects of pandas'
own classes, whose calls are not planned; but columns, and large groups where that is faster, are objects of Craton's.
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
    from craton.remote.functions import UserFunction
    from craton.remote.parallel_calls import Job, Results


def require_python_function(obj: Any, function: Any) -> None:
    """Raise Unsupported unless the function is a Python function, and the object is of a class that can be planned."""
    if not callable(function) or isinstance(function, (np.ufunc, type, dict, pd.Series)):
        raise Unsupported(Refusal.NOT_A_FUNCTION)
    if not plannable(type(obj)):
        raise Unsupported(Refusal.CLASS_OF_USER, type(obj).__name__)


def run_job(job: Job, label: str) -> Results:
    """Run all calls of a job; count a fallback if they took long but could not run in workers."""
    from craton.remote.parallel_calls import run

    with plain_pandas():
        results = run(job, label)
    if results.refused is not None:
        count_fallback(label, results.refused)
    return results


def bound_function(function: UserFunction) -> Callable[[Any], Any]:
    """A function of one argument that calls the user's function; the user's function itself if there are no other arguments."""
    return function if function.args or function.kwargs else function.call
