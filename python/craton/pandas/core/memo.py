"""What was found out about files and schemas, kept for the next one who asks."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import TypeVar

from craton import forks

T = TypeVar("T")

#: Findings that are kept, the least recently used dropped first.
MAX_ENTRIES = 256

_known: OrderedDict[Hashable, object] = OrderedDict()
_lock = forks.lock()


def memoised(key: Hashable, compute: Callable[[], T]) -> T:
    """What was found out before, or what ``compute()`` finds now.

    Parameters
    ----------
    key
        Tells one finding from all others: what was asked, and of which state of which file or schema.
    """
    with _lock:
        if key in _known:
            _known.move_to_end(key)
            return _known[key]  # type: ignore[return-value]
    found = compute()
    with _lock:
        _known[key] = found
        while len(_known) > MAX_ENTRIES:
            _known.popitem(last=False)
    return found
