"""Runs LazyFrames on Polars' streaming engine, so that a user can watch and interrupt them.

The run stays in the calling thread: that is where the kernel looks for Ctrl-C, stops at its next batch and raises
``KeyboardInterrupt``. (Its background mode would return at once, but runs on the in-memory engine.) Progress is drawn from
a thread of its own meanwhile.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any

import polars as pl

from craton import _native, forks
from craton.errors import Unsupported
from craton.kernel import interrupts as _interrupts  # noqa: F401  is in place from now on
from craton.kernel.progress import progress
from craton.refusals import Refusal
from craton.store.process import current_store

#: Runs that are expected to read fewer rows than this show no progress.
SHORT_RUN_ROWS = 200_000
#: Runs that are expected to read fewer bytes than this ask the store for no memory.
SMALL_RUN_BYTES = 16 << 20
#: What the kernel's optimiser may do: not decide who sees the order of rows. It takes a result's rows for unordered where only
#: single columns are computed of them, and windows (``over``) then put their rows elsewhere. Plans say themselves where no order
#: is wanted.
KEPT_ORDER = pl.QueryOptFlags(check_order_observe=False)


def collected(frame: pl.LazyFrame) -> pl.DataFrame:
    """The rows of a frame, in their order."""
    return frame.collect(engine="streaming", optimizations=KEPT_ORDER)


def run_all(
    frames: list[pl.LazyFrame], *, expected_rows: int, expected_bytes: int = 0, describe: Callable[[], str]
) -> list[pl.DataFrame]:
    """Collect lowered plans in one run, shared parts once.

    Parameters
    ----------
    frames
        What :func:`craton.lower.lower` returned.
    expected_rows
        Rows that the run is expected to read; decides whether progress may be shown.
    expected_bytes
        Bytes that it is expected to read; the store keeps as much memory free of pages meanwhile, as far as it can.
    describe
        Called once for a few words on the run, when progress is first shown.

    Raises
    ------
    KeyboardInterrupt
        If the user interrupts; the run is cancelled.
    Unsupported
        If the kernel was lost in a fork: here the run would wait for ever.
    """
    if forks.kernel_lost():
        raise Unsupported(Refusal.FORKED)
    shown = progress(functools.cache(describe)) if expected_rows >= SHORT_RUN_ROWS else contextlib.nullcontext()
    _native.watch_interrupts()
    with _lent(expected_bytes), shown:
        try:
            if len(frames) == 1:
                return [collected(frames[0])]
            return pl.collect_all(frames, engine="streaming", optimizations=KEPT_ORDER)
        except KeyboardInterrupt:
            _absorb_second_interrupt()
            raise


def _lent(nbytes: int) -> contextlib.AbstractContextManager[Any]:
    """Memory that the store lends to a run. A store that nobody has opened has none to lend."""
    store = current_store()
    if store is None or nbytes < SMALL_RUN_BYTES:
        return contextlib.nullcontext()
    try:
        return store.reserve(nbytes, at_least=0)
    except (OSError, ValueError):  # the store was closed, or its process died: the run needs none of it
        return contextlib.nullcontext()


def _absorb_second_interrupt() -> None:
    """Take the interrupt that Python's own handler raises after the kernel has raised one for the same Ctrl-C."""
    with contextlib.suppress(KeyboardInterrupt):
        for _ in range(1000):
            pass
