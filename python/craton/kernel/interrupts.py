"""Makes sure that Ctrl-C is never lost: swallowed interrupts are detected and raised again.

The interpreter raises KeyboardInterrupt between two bytecodes of the main thread, in whatever code runs there. Three kinds of
code swallow it:

- Callbacks of object finalisation (weak references, ``__del__``) cannot raise: Python prints "Exception ignored".
- NumPy calls Python when it compares dtypes, and takes any exception for "not equal"; other libraries do the same.
- The kernel panics if a Python callback raises an exception that it does not expect.

The first two are detected by counting: every interrupt that arrives during a call of Craton must leave the call as an
exception. The kernel checks for interrupts while it runs, by its own signal action. ``signal.signal``, which notebooks call
before each cell, removes that action, so it is restored before each run.
"""

from __future__ import annotations

import signal
import sys
import threading
from typing import Any

import polars as pl

from craton import _native

#: Seconds after which an interrupt is raised again, when the callback that swallowed it has returned.
_AGAIN = 0.005

_previous_hook = sys.unraisablehook
_timer: threading.Timer | None = None


def _watch() -> bool:
    """Count interrupts, if this process raises them; the kernel's signal action stays in place."""
    handler = signal.getsignal(signal.SIGINT)
    if not callable(handler) or threading.current_thread() is not threading.main_thread():
        return False
    if not _native.keep_interrupt_action():
        return False
    signal.signal(signal.SIGINT, handler)
    return _native.watch_interrupts()


def _raise_again(lost: Any) -> None:
    """Interrupt the main thread again if the swallowed exception is an interrupt; pass others to the previous hook."""
    global _timer
    if not issubclass(lost.exc_type, KeyboardInterrupt):
        _previous_hook(lost)
        return
    try:
        _timer = threading.Timer(_AGAIN, signal.pthread_kill, (threading.main_thread().ident, signal.SIGINT))
        _timer.daemon = True
        _timer.start()
    except RuntimeError:  # the interpreter is shutting down
        _previous_hook(lost)


class InterruptGuard:
    """A context that raises at its end an interrupt that arrived within it and was swallowed.

    If a user's function within it catches an interrupt on purpose, the interrupt is raised once more at the end.

    Raises
    ------
    KeyboardInterrupt
        In the main thread, unless the program has its own handler.
    """

    __slots__ = ("_before",)

    def __enter__(self) -> None:
        self._before = _native.interrupts_seen()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: Any) -> None:
        if kind is pl.exceptions.PanicException and "KeyboardInterrupt" in str(error):
            raise KeyboardInterrupt from None
        if _native.interrupts_seen() != self._before and not isinstance(error, KeyboardInterrupt) and _raises_here():
            if _timer is not None:
                _timer.cancel()
            raise KeyboardInterrupt


def _raises_here() -> bool:
    """Whether interrupts are raised here: in the main thread of a program without its own handler."""
    in_main = threading.current_thread() is threading.main_thread()
    return in_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler


if not _watch():
    # Polars' signal action, which its import installs, restarts interrupted system calls: a thread that waits for a lock, a
    # queue or a pipe, in Craton or in the program, would never be interrupted.
    signal.siginterrupt(signal.SIGINT, True)
sys.unraisablehook = _raise_again
