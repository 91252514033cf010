"""A progress line for runs of more than a second, in a terminal or a notebook.

``craton.options.progress`` is ``on``, ``off``, or ``auto``, which shows the line in a notebook, and in the program's own process if
its standard error is a terminal.
"""

from __future__ import annotations

import contextlib
import itertools
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

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
    return _notebook() is not None or (sys.stderr is not None and sys.stderr.isatty() and not _in_child())


def _in_child() -> bool:
    """Whether this is a child process of ``multiprocessing``, whose line would overwrite its parent's."""
    processes = sys.modules.get("multiprocessing.process")
    return processes is not None and processes.parent_process() is not None


@contextlib.contextmanager
def progress(describe: Callable[[], str], memory: bool = True) -> Iterator[None]:
    """Show a progress line while the context runs, after its first second.

    Parameters
    ----------
    describe
        Returns a short description of the run; called in another thread whenever the line is drawn.
    memory
        Whether the line includes this process's resident memory.
    """
    if not _watched():
        yield
        return
    done = threading.Event()
    display = _Notebook() if _notebook() is not None else _Terminal()
    drawing = (describe, memory, display, done)
    thread = threading.Thread(target=_show, args=drawing, name="craton-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _show(describe: Callable[[], str], memory: bool, display: _Terminal | _Notebook, done: threading.Event) -> None:
    started = time.monotonic()
    if done.wait(DELAY):
        return
    import psutil

    process = psutil.Process()
    for shown in itertools.count():
        seconds = time.monotonic() - started
        line = f"{_FRAMES[shown % len(_FRAMES)]} craton: {describe()} · {seconds:.1f} s"
        display.draw(f"{line} · {process.memory_info().rss / 2**30:.1f} GiB" if memory else line)
        if done.wait(_INTERVAL):
            break
    display.clear()


class _Terminal:
    """One line on standard error, which is redrawn in place."""

    def draw(self, line: str) -> None:
        sys.stderr.write(f"\r\x1b[2K{line}")
        sys.stderr.flush()

    def clear(self) -> None:
        sys.stderr.write("\r\x1b[2K")
        sys.stderr.flush()


class _Notebook:
    """One output cell, updated in place."""

    def __init__(self) -> None:
        self._handle: Any = None

    def draw(self, line: str) -> None:
        from IPython.display import display

        if self._handle is None:
            self._handle = display({"text/plain": line}, raw=True, display_id=True)
        else:
            self._handle.update({"text/plain": line}, raw=True)

    def clear(self) -> None:
        if self._handle is not None:
            self._handle.update({"text/plain": ""}, raw=True)
