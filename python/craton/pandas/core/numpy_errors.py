"""The user's settings for floating point errors (``np.errstate``), such as overflow and division by zero.

A plan does not report these errors. So where NumPy would raise an exception, print, or call a function of the user, pandas
computes the result. Where NumPy would only warn, the plan computes it without the warning, unless a filter turns it into an error.
"""

from __future__ import annotations

import numpy as np

from craton import warning_filters

#: Methods in which pandas applies the user's settings. In operators and windows it ignores them.
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
    """Whether the settings make NumPy raise, print, or call a function for any kind of error."""
    return not _QUIET.issuperset(np.geterr().values())


def reported_kinds() -> list[str]:
    """The kinds of errors for which NumPy raises, prints, calls a function, or emits a warning that a filter turns into an error."""
    quiet = {"ignore"} if warning_filters.may_raise(RuntimeWarning) else _QUIET
    return [kind for kind, action in np.geterr().items() if action not in quiet]
