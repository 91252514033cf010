"""Ctrl-C wherever it arrives: what would lose it passes it on.

An interrupt that arrives while Python calls back for an object that goes (a weak reference, ``__del__``) has nowhere to be raised:
Python prints "Exception ignored" and the program runs on. Frames, plans and their caches make many such callbacks.
"""

from __future__ import annotations

import _thread
import signal
import sys
import threading
from typing import Any

#: Seconds after which an interrupt is raised again: the callback that it met is over by then.
_AGAIN = 0.005

# Polars' handler of Ctrl-C, in place since its import, has the system go on with a call that the signal interrupts: a thread
# that waits for a lock, a queue or a pipe would never hear of it, be it in Craton or in the program.
signal.siginterrupt(signal.SIGINT, True)

_others = sys.unraisablehook


def _raised_again(lost: Any) -> None:
    """Interrupt the main thread again if what was lost is an interrupt; all else is told as before."""
    if not issubclass(lost.exc_type, KeyboardInterrupt):
        _others(lost)
        return
    try:
        timer = threading.Timer(_AGAIN, _thread.interrupt_main)
        timer.daemon = True
        timer.start()
    except RuntimeError:  # the interpreter ends
        _others(lost)


sys.unraisablehook = _raised_again
