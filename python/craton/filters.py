"""Python's warnings, raised or ignored in one thread.

``warnings.catch_warnings`` changes the filters of the whole process: what another thread warns of meanwhile is raised there or
lost, and where two threads leave in the order in which they came, the filters stay as the first had made them. The filters here
are in place all the time, and match in the threads that are inside one of the blocks.
"""

from __future__ import annotations

import contextlib
import re
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any, Literal

Action = Literal["error", "ignore"]

_inside = threading.local()


#: A regular expression that matches nothing.
_NOTHING = "(?!)"


class _InsideOnly:
    """What a filter asks whether it matches a text, in the place of a regular expression.

    To others that look at the filters, or send them to another process, it is an expression that matches nothing.
    """

    pattern, flags = _NOTHING, 0

    def __init__(self, action: Action) -> None:
        self._action = action

    def match(self, text: str) -> bool:
        """Whether this thread is inside a block of the action."""
        inside = getattr(_inside, "action", None) == self._action
        if inside:
            _inside.told = True
        return inside

    def __reduce__(self) -> tuple[Any, ...]:
        return re.compile, (_NOTHING,)


_OWN: list[Any] = [(action, _InsideOnly(action), Warning, None, 0) for action in ("error", "ignore")]


@contextlib.contextmanager
def _block(action: Action) -> Iterator[None]:
    before = getattr(_inside, "action", None)
    found: list[Any] = warnings.filters  # type: ignore[assignment]
    if found[:2] != _OWN:  # before the user's: blocks of hers may have put others in front, or taken these away
        found[:] = [*_OWN, *(one for one in found if one not in _OWN)]
    _inside.action = action
    try:
        yield
    finally:
        _inside.action = before


def raised() -> contextlib.AbstractContextManager[None]:
    """A block in which what this thread warns of is raised."""
    return _block("error")


def listened(call: Callable[[], Any]) -> tuple[Any, bool]:
    """What a call returns, and whether it warned of something in this thread, of which nothing is told."""
    before = getattr(_inside, "told", False)
    _inside.told = False
    try:
        with ignored():
            result = call()
        return result, _inside.told
    finally:
        _inside.told = before or _inside.told  # who listens around this has heard it, too


def makes_error(category: type[Warning]) -> bool:
    """Whether a filter of the user's may raise warnings of a category."""
    for action, text, kind, module, line in warnings.filters:
        if issubclass(category, kind) and not isinstance(text, _InsideOnly):
            if action == "error":
                return True
            if text is None and module is None and not line:
                return False
    return False


def ignored() -> contextlib.AbstractContextManager[None]:
    """A block in which nothing that this thread warns of is told."""
    return _block("ignore")
