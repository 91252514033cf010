"""Ctrl-C wherever it arrives: what would lose it passes it on, and what is lost all the same is raised again.

An interrupt is raised by the interpreter between two steps of the main thread, whatever code that is. Three kinds lose it:

- A callback for an object that goes (a weak reference, ``__del__``) has nowhere to raise it: Python prints "Exception ignored".
- NumPy asks Python a question whenever it compares dtypes, and takes any error for "no"; so do others.
- The kernel panics where Python's answer is an error that it did not think of.

The first two are told by counting: each interrupt that arrives during a call of Craton's must leave it as an exception.
The kernel itself looks for interrupts while it runs, by an action of its own on the signal. ``signal.signal``, which notebooks
call before each cell, drops that action: it is put back before each run.
"""

from __future__ import annotations

import signal
import sys
import threading
from typing import Any

import polars as pl

from craton import _native

#: Seconds after which an interrupt is raised again: the callback that it met is over by then.
_AGAIN = 0.005

_others = sys.unraisablehook
_timer: threading.Timer | None = None


def _watch() -> bool:
    """Have interrupts counted, where they are raised at all; the kernel's action goes on hearing of them."""
    handler = signal.getsignal(signal.SIGINT)
    if not callable(handler) or threading.current_thread() is not threading.main_thread():
        return False
    if not _native.keep_interrupt_action():
        return False
    signal.signal(signal.SIGINT, handler)
    return _native.watch_interrupts()


def _raised_again(lost: Any) -> None:
    """Interrupt the main thread again if what was lost is an interrupt; all else is told as before."""
    global _timer
    if not issubclass(lost.exc_type, KeyboardInterrupt):
        _others(lost)
        return
    try:
        _timer = threading.Timer(_AGAIN, signal.pthread_kill, (threading.main_thread().ident, signal.SIGINT))
        _timer.daemon = True
        _timer.start()
    except RuntimeError:  # the interpreter ends
        _others(lost)


class Heard:
    """A context of the main thread that no interrupt is lost in: one that arrived and did not leave it is raised at its end.

    A function of the user's that catches an interrupt within it is interrupted once more, when the call that called it ends.

    Raises
    ------
    KeyboardInterrupt
        In the main thread, unless the program has a handler of its own.
    """

    __slots__ = ("_before",)

    def __enter__(self) -> None:
        self._before = _native.interrupts_seen()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: Any) -> None:
        if kind is pl.exceptions.PanicException and "KeyboardInterrupt" in str(error):
            raise KeyboardInterrupt from None
        if _native.interrupts_seen() != self._before and not isinstance(error, KeyboardInterrupt) and _raised_here():
            if _timer is not None:
                _timer.cancel()
            raise KeyboardInterrupt


def _raised_here() -> bool:
    """Whether this is where interrupts are raised: the main thread of a program without a handler of its own."""
    in_main = threading.current_thread() is threading.main_thread()
    return in_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler


if not _watch():
    # Polars' action, in place since its import, has the system go on with a call that the signal interrupts: a thread that
    # waits for a lock, a queue or a pipe would never hear of it, be it in Craton or in the program.
    signal.siginterrupt(signal.SIGINT, True)
sys.unraisablehook = _raised_again
