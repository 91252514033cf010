"""What NumPy is told to do where floating point numbers overflow, or are divided by zero: ``np.errstate``.

A plan computes without telling. So where NumPy would raise an error, or call a function of the user's, pandas computes. That it
would warn is no reason to: warnings about single values are not shown, except where a filter makes errors of them.
"""

from __future__ import annotations

import numpy as np

from craton import warning_filters

#: Methods that pandas has NumPy compute in the state that the user set; in operators and windows pandas ignores it.
METHODS = frozenset(
    [
        "agg",
        "aggregate",
        "astype",
        "autocorr",
        "corr",
        "cov",
        "cumprod",
        "cumsum",
        "describe",
        "dot",
        "kurt",
        "kurtosis",
        "mean",
        "median",
        "prod",
        "product",
        "quantile",
        "round",
        "sem",
        "skew",
        "std",
        "sum",
        "var",
        "__matmul__",
        "__rmatmul__",
    ]
)


_QUIET = frozenset(["ignore", "warn"])


def reports_errors() -> bool:
    """Whether NumPy raises, prints or calls something on any kind of error."""
    return not _QUIET.issuperset(np.geterr().values())


def reported_kinds() -> list[str]:
    """The kinds of errors on which it does, or warns where a filter makes an error of that."""
    quiet = {"ignore"} if warning_filters.may_raise(RuntimeWarning) else _QUIET
    return [kind for kind, action in np.geterr().items() if action not in quiet]
