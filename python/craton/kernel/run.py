"""Runs LazyFrames on Polars' streaming engine, with progress and Ctrl-C.

The run stays in the calling thread, where the kernel checks for Ctrl-C, stops at its next batch and raises
``KeyboardInterrupt``. (Polars' background mode runs on the in-memory engine instead.) Another thread draws the progress.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any

import polars as pl

from craton import _native, forks
from craton.errors import Unsupported
from craton.kernel import interrupts as _interrupts  # noqa: F401  installs the hooks
from craton.kernel.progress import progress
from craton.refusals import Refusal
from craton.store.process import current_store

#: Runs that are estimated to read fewer rows than this show no progress.
SHORT_RUN_ROWS = 200_000
#: Runs that are estimated to read fewer bytes than this reserve no memory in the store.
SMALL_RUN_BYTES = 16 << 20
#: The kernel's optimiser must not decide where row order matters. It considers rows unordered if only independent columns are
#: computed from them, and windows (``over``) then return values in other rows. Lowered plans say where order does not matter.
KEPT_ORDER = pl.QueryOptFlags(check_order_observe=False)


def collect(frame: pl.LazyFrame) -> pl.DataFrame:
    """The rows of a frame, in order."""
    return frame.collect(engine="streaming", optimizations=KEPT_ORDER)


def run_all(
    frames: list[pl.LazyFrame], *, expected_rows: int, expected_bytes: int = 0, describe: Callable[[], str]
) -> list[pl.DataFrame]:
    """Collect lowered plans in one run; common parts are computed once.

    Parameters
    ----------
    frames
        Results of :func:`craton.lower.lower`.
    expected_rows
        The estimated rows that the run reads; short runs show no progress.
    expected_bytes
        The estimated bytes that the run reads; the store reserves as much memory, as far as it can.
    describe
        Returns a short description of the run; called once, when progress is first shown.

    Raises
    ------
    KeyboardInterrupt
        If the user interrupts; the run is cancelled.
    Unsupported
        If the kernel was lost in a fork, where the run would block for ever.
    """
    if forks.kernel_lost():
        raise Unsupported(Refusal.FORKED)
    shown = progress(functools.cache(describe)) if expected_rows >= SHORT_RUN_ROWS else contextlib.nullcontext()
    _native.watch_interrupts()
    with _reserved_memory(expected_bytes), shown:
        try:
            if len(frames) == 1:
                return [collect(frames[0])]
            return pl.collect_all(frames, engine="streaming", optimizations=KEPT_ORDER)
        except KeyboardInterrupt:
            _absorb_second_interrupt()
            raise


def _reserved_memory(nbytes: int) -> contextlib.AbstractContextManager[Any]:
    """A reservation of the store's memory for a run; none if no store is open."""
    store = current_store()
    if store is None or nbytes < SMALL_RUN_BYTES:
        return contextlib.nullcontext()
    try:
        return store.reserve(nbytes, at_least=0)
    except (OSError, ValueError):  # the store was closed or its process ended, so it holds no memory
        return contextlib.nullcontext()


def _absorb_second_interrupt() -> None:
    """Swallow the interrupt that Python's handler raises after the kernel has raised one for the same Ctrl-C."""
    with contextlib.suppress(KeyboardInterrupt):
        for _ in range(1000):
            pass
