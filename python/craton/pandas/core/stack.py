"""Patches of pandas so that its warnings point at the user's line, although Craton's stack frames are in between.

pandas finds the user's line by skipping the frames of its own package, or by counting frames. It detects a chained assignment by
counting the references to the assigned object. Craton's wrapper around a pandas method would break all three. So the patched
functions of pandas skip Craton's frames, too. The wrapper counts the references itself: it is called in place of pandas' method,
and sees the same number.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar

import pandas as pd
from pandas.api.extensions import no_default
from pandas.compat._constants import CHAINED_WARNING_DISABLED, REF_COUNT, REF_COUNT_IDX, REF_COUNT_METHOD
from pandas.core import common
from pandas.core.generic import NDFrame
from pandas.errors import ChainedAssignmentError, cow
from pandas.util import _exceptions

from craton import warning_filters

_T = TypeVar("_T")

_PANDAS = os.path.join(os.path.dirname(pd.__file__), "")
_TESTS = os.path.join(_PANDAS, "tests", "")
#: All of Craton, which calls functions of users outside of its front end, too.
_CRATON = os.path.join(Path(os.path.abspath(__file__)).parents[2], "")


def stack_level() -> int:
    """The number of frames between the function that calls this one and the user's."""
    frame: FrameType | None = sys._getframe(1)
    level = 0
    while frame is not None:
        filename = frame.f_code.co_filename
        if not (filename.startswith(_CRATON) or (filename.startswith(_PANDAS) and not filename.startswith(_TESTS))):
            break
        frame = frame.f_back
        level += 1
    return level


def _find_stack_level() -> int:
    from craton.pandas.core.stack import stack_level  # this code runs with the globals of a pandas module

    return stack_level()


_pandas_check: Any = NDFrame._check_inplace_deprecation


def _check_inplace_deprecation(self: Any, inplace: Any, method: str) -> Any:
    """As pandas' own, whose warning assumes that the user called the calling method directly."""
    if inplace is no_default:
        return False
    return pointing_at_user(lambda: _pandas_check(self, inplace, method))


def pointing_at_user(call: Callable[[], _T]) -> _T:
    """Call code of pandas that warns of its caller: the warning points at the user's line."""
    try:
        with warning_filters.raising():
            return call()
    except Warning as warning:
        warnings.warn(str(warning), type(warning), stacklevel=_exceptions.find_stack_level())
    with warning_filters.ignoring():
        return call()


class _StackLevel:
    """The argument ``stacklevel`` of a warning, computed when the warning is given."""

    def __index__(self) -> int:
        return stack_level()


def patch_pandas() -> None:
    """Patch pandas so that its warnings skip Craton's frames.

    The warnings use ``find_stack_level``, except one check, which counts frames itself, and the decorator of deprecated parameters,
    which has a fixed number of frames.
    """
    _exceptions.find_stack_level()  # it sets variables of its module, which others may read
    _exceptions.find_stack_level.__code__ = _find_stack_level.__code__
    NDFrame._check_inplace_deprecation = _check_inplace_deprecation  # type: ignore[method-assign]
    decorated: Any = NDFrame.reindex_like
    names = decorated.__code__.co_freevars
    if "stacklevel" in names:
        decorated.__closure__[names.index("stacklevel")].cell_contents = _StackLevel()


#: Methods that assign in place. The limits on the number of references are pandas' own. They apply to the wrappers too, which are
#: called in place of these methods.
SETTING_ITEM = "__setitem__"
IN_PLACE = frozenset(["fillna", "replace", "clip", "interpolate", "where", "mask", "ffill", "bfill"])
UPDATE = "update"

SET_LIMIT = -1 if CHAINED_WARNING_DISABLED else REF_COUNT
INDEXER_LIMIT = -1 if CHAINED_WARNING_DISABLED else REF_COUNT_IDX
METHOD_LIMIT = -1 if CHAINED_WARNING_DISABLED else REF_COUNT_METHOD

_MESSAGES = {
    SETTING_ITEM: cow._chained_assignment_msg,
    UPDATE: cow._chained_assignment_method_update_msg,
    **dict.fromkeys(IN_PLACE, cow._chained_assignment_method_msg),
}


def assigns(name: str) -> bool:
    """Whether a method may assign in place, so that its wrapper must count references."""
    return name in _MESSAGES


def warn_of_chaining(obj: Any, name: str) -> None:
    """Warn of a chained assignment as pandas does, unless a local variable of the user's function refers to the object.

    The wrapper of the method must call this directly, because the user's stack frame is found by counting frames.
    """
    frame = sys._getframe(2)
    if any(value is obj for value in frame.f_locals.values()):
        return
    # Compiled code that sets an item holds one reference fewer than the interpreter.
    if name == SETTING_ITEM and frame.f_code.co_code[frame.f_lasti] not in common._SETITEM_OPCODES:
        return
    warnings.warn(_MESSAGES[name], ChainedAssignmentError, stacklevel=3)
