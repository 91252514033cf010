"""Warning filters that apply to one thread only: blocks in which Python's warnings are raised or ignored.

``warnings.catch_warnings`` changes the filters of the whole process. Meanwhile, warnings of other threads are raised or lost, too,
and if two threads leave their blocks in the order in which they entered them, the filters of the first remain in place. The filters here
are installed permanently, and match only in threads that are inside one of the blocks.
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


class _InsideBlock:
    """Takes the place of the regular expression in a warning filter: matches in threads that are inside a block.

    Code that inspects or pickles the filters gets an expression that matches nothing.
    """

    pattern, flags = _NOTHING, 0

    def __init__(self, action: Action) -> None:
        self._action = action

    def match(self, text: str) -> bool:
        """Whether this thread is inside a block of the action, whatever the text."""
        inside = getattr(_inside, "action", None) == self._action
        if inside:
            _inside.warned = True
        return inside

    def __reduce__(self) -> tuple[Any, ...]:
        return re.compile, (_NOTHING,)


_OWN: list[Any] = [(action, _InsideBlock(action), Warning, None, 0) for action in ("error", "ignore")]


@contextlib.contextmanager
def _block(action: Action) -> Iterator[None]:
    before = getattr(_inside, "action", None)
    found: list[Any] = warnings.filters  # type: ignore[assignment]
    # Ours must come first. The user's ``catch_warnings`` may have put others in front, or removed ours.
    if found[:2] != _OWN:
        found[:] = [*_OWN, *(one for one in found if one not in _OWN)]
    _inside.action = action
    try:
        yield
    finally:
        _inside.action = before


def raising() -> contextlib.AbstractContextManager[None]:
    """A block in which warnings of this thread are raised as exceptions."""
    return _block("error")


def detect_warnings(call: Callable[[], Any]) -> tuple[Any, bool]:
    """Call a function without showing its warnings; return its result, and whether it warned in this thread."""
    before = getattr(_inside, "warned", False)
    _inside.warned = False
    try:
        with ignoring():
            result = call()
        return result, _inside.warned
    finally:
        _inside.warned = before or _inside.warned  # an enclosing call of this function counts it, too


def may_raise(category: type[Warning]) -> bool:
    """Whether one of the user's filters may turn warnings of a category into exceptions."""
    for action, text, kind, module, line in warnings.filters:
        if issubclass(category, kind) and not isinstance(text, _InsideBlock):
            if action == "error":
                return True
            if text is None and module is None and not line:
                return False
    return False


def ignoring() -> contextlib.AbstractContextManager[None]:
    """A block in which warnings of this thread are ignored."""
    return _block("ignore")
