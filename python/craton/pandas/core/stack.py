"""Warnings that pandas raises at the user's line, although calls of Craton lie between.

pandas finds the user by leaving out the frames of its own package, or by counting frames, and tells a chained assignment by
counting the references to the object that is assigned to. A wrapper around pandas' method would mislead all three. So
pandas' functions are taught to leave out Craton's frames too, and the wrapper counts the references itself: being called in the
place of pandas' method, it sees the same number. pandas' own comparisons (``pandas.testing``) are taught about Craton's classes here, too.
"""

from __future__ import annotations

import os
import sys
import warnings
from types import FrameType
from typing import Any

import pandas as pd
from pandas._testing import asserters
from pandas.compat._constants import CHAINED_WARNING_DISABLED, REF_COUNT, REF_COUNT_IDX, REF_COUNT_METHOD
from pandas.core import common
from pandas.core.generic import NDFrame
from pandas.errors import ChainedAssignmentError, cow
from pandas.util import _exceptions

from craton import warning_filters
from craton.pandas.core.counterparts import own_class

_PANDAS = os.path.join(os.path.dirname(pd.__file__), "")
_TESTS = os.path.join(_PANDAS, "tests", "")
_CRATON = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "")


def stack_level() -> int:
    """How many frames to leave out, from the function that calls this one, to come to the user's."""
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
    from craton.pandas.core.stack import stack_level  # runs with the globals of pandas' module

    return stack_level()


_pandas_check: Any = NDFrame._check_inplace_deprecation


def _check_inplace_deprecation(self: Any, inplace: Any, method: str) -> Any:
    """As pandas' own, whose warning counts on being called by the method that the user calls."""
    try:
        with warning_filters.raising():
            return _pandas_check(self, inplace, method)
    except Warning as warning:
        warnings.warn(str(warning), type(warning), stacklevel=_exceptions.find_stack_level())
    return inplace


_pandas_assert_class_equal: Any = asserters.assert_class_equal


def _assert_class_equal(left: Any, right: Any, exact: bool | str = True, obj: str = "Input") -> None:
    """As pandas' own, to which an object of pandas', as libraries return them, is of the same class as one of Craton's."""
    __tracebackhide__ = True
    if own_class(type(left)) is not own_class(type(right)):
        _pandas_assert_class_equal(left, right, exact, obj)


def patch_pandas() -> None:
    """Make pandas' warnings leave out Craton's frames, and its comparisons take Craton's classes for the ones they stand for.

    The warnings are those of ``find_stack_level``, and of the one check that counts frames itself.
    """
    _exceptions.find_stack_level.__code__ = _find_stack_level.__code__
    NDFrame._check_inplace_deprecation = _check_inplace_deprecation  # type: ignore[method-assign]
    asserters.assert_class_equal = _assert_class_equal


#: Methods that assign in place. The limits are those of the same names in pandas, for a function called in their place.
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
    """Whether a method may assign in place, so that its wrapper has references to count."""
    return name in _MESSAGES


def warn_of_chaining(obj: Any, name: str) -> None:
    """Warn as pandas does, unless the user's frame, which called the caller, shows that it is no chain after all."""
    frame = sys._getframe(2)
    if any(value is obj for value in frame.f_locals.values()):
        return
    # Compiled code that sets an item holds one reference less than the interpreter does.
    if name == SETTING_ITEM and frame.f_code.co_code[frame.f_lasti] not in common._SETITEM_OPCODES:
        return
    warnings.warn(_MESSAGES[name], ChainedAssignmentError, stacklevel=3)
