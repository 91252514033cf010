"""A process-wide cache of results about files and schemas."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import TypeVar

from craton import forks

T = TypeVar("T")

#: The least recently used entry beyond this number is dropped.
MAX_ENTRIES = 256

_known: OrderedDict[Hashable, object] = OrderedDict()
_lock = forks.lock()


def memoised(key: Hashable, compute: Callable[[], T]) -> T:
    """The cached result for a key, computed by ``compute()`` if there is none.

    Parameters
    ----------
    key
        Identifies the computation, the file or schema, and the state of the file.
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
