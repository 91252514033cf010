"""A line that says what runs and for how long, for anything over a second, in a terminal or a notebook.

Off in scripts: ``craton.options.progress`` is ``auto`` (only where somebody watches), ``on`` or ``off``.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import psutil

from craton.config import options

DELAY = 1.0
_INTERVAL = 0.1
_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


def _notebook() -> Any:
    """IPython's shell if it is one that shows rich output, else ``None``."""
    shell = sys.modules.get("IPython") and sys.modules["IPython"].get_ipython()
    return shell if shell is not None and hasattr(shell, "kernel") else None


def _watched() -> bool:
    if options.progress != "auto":
        return options.progress == "on"
    interactive = hasattr(sys, "ps1") or sys.flags.interactive or "IPython" in sys.modules
    return _notebook() is not None or (bool(interactive) and sys.stderr.isatty())


class Progress:
    """Shows a run's progress from its second second on; a context manager.

    Parameters
    ----------
    describe
        Called once for a few words on the run.
    """

    def __init__(self, describe: Callable[[], str]) -> None:
        self._describe = describe
        self._started = self._last = time.monotonic()
        self._text = ""
        self._handle: Any = None
        self._shown = 0

    def __enter__(self) -> Progress:
        return self

    def tick(self) -> None:
        """Called often; draws at most ten times a second."""
        now = time.monotonic()
        if now - self._started < DELAY or now - self._last < _INTERVAL:
            return
        self._last = now
        if not self._text:
            if not _watched():
                self._started = float("inf")
                return
            self._text = self._describe()
        self._draw(self._line(now - self._started))

    def _line(self, seconds: float) -> str:
        memory = psutil.Process().memory_info().rss / 2**30
        spin = _FRAMES[self._shown % len(_FRAMES)]
        return f"{spin} craton: {self._text} · {seconds:.1f} s · {memory:.1f} GiB"

    def _draw(self, line: str) -> None:
        self._shown += 1
        if _notebook() is not None:
            from IPython.display import display

            content = {"text/plain": line}
            if self._handle is None:
                self._handle = display(content, raw=True, display_id=True)
            else:
                self._handle.update(content, raw=True)
        else:
            sys.stderr.write(f"\r\x1b[2K{line}")
            sys.stderr.flush()

    def __exit__(self, *_: object) -> None:
        if not self._shown:
            return
        if self._handle is not None:
            self._handle.update({"text/plain": ""}, raw=True)
        else:
            sys.stderr.write("\r\x1b[2K")
            sys.stderr.flush()
