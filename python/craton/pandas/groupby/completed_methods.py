"""Which methods are native for group-bys whose results :mod:`.completion` completes."""

from __future__ import annotations

from craton.errors import Unsupported
from craton.pandas.groupby.functions import LABELS, NAMES
from craton.pandas.groupby.key_origins import TimeBins
from craton.pandas.groupby.keys import Grouped
from craton.refusals import Refusal

#: Methods that aggregate, and those that return values of single rows, for keys whose groups or labels the plan does not hold.
_COMPLETED = frozenset([*(NAMES - LABELS), "ohlc", "agg", "aggregate", "__getitem__", "apply"])
_BY_ROWS = frozenset(
    [
        *(
            "cumsum",
            "cumprod",
            "cummin",
            "cummax",
            "ffill",
            "bfill",
            "head",
            "tail",
            "cumcount",
            "shift",
            "diff",
            "rank",
        ),
        *("pct_change", "transform", "nth"),
    ]
)


def refuse_unless_completed(plan: Grouped, method: str) -> None:
    """Refuse a method that needs all groups or their labels, if the plan does not hold them (``Grouped.completes``)."""
    if not plan.completes or method in _COMPLETED:
        return
    if method not in _BY_ROWS or any(isinstance(key.origin, TimeBins) for key in plan.keys):
        raise Unsupported(Refusal.GROUP_WITHOUT_ROWS)
