"""Tracebacks as short as pandas': the user's line is followed by the call's own frames, and then by pandas' and the user's."""

from __future__ import annotations

import os
from types import TracebackType

from craton.config import options

_OWN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "")


def shorten(error: BaseException) -> None:
    """Remove the frames of Craton's own code from an exception, except the frame that raised it.

    Does nothing if :data:`craton.options.tracebacks` is ``"full"``.
    """
    if options.tracebacks == "full":
        return
    frames = []
    at = error.__traceback__
    while at is not None:
        if at.tb_next is None or not at.tb_frame.f_code.co_filename.startswith(_OWN):
            frames.append(at)
        at = at.tb_next
    kept: TracebackType | None = None
    for frame in reversed(frames):
        kept = TracebackType(kept, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
    error.__traceback__ = kept
