"""Runs LazyFrames on Polars' streaming engine, so that a user can watch and interrupt them.

The run stays in the calling thread: that is where the kernel looks for Ctrl-C, stops at its next batch and raises
``KeyboardInterrupt``. (Its background mode would return at once, but runs on the in-memory engine.) Progress is drawn from
a thread of its own meanwhile.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import polars as pl

from craton.kernel.progress import progress

#: Runs that are expected to read fewer rows than this show no progress.
SHORT_RUN_ROWS = 200_000


def run_all(frames: list[pl.LazyFrame], *, expected_rows: int, describe: Callable[[], str]) -> list[pl.DataFrame]:
    """Collect lowered plans in one run, shared parts once.

    Parameters
    ----------
    frames
        What :func:`craton.lower.lower` returned.
    expected_rows
        Rows that the run is expected to read; decides whether progress may be shown.
    describe
        Called for a few words on the run when progress is first shown.

    Raises
    ------
    KeyboardInterrupt
        If the user interrupts; the run is cancelled.
    """
    with progress(describe) if expected_rows >= SHORT_RUN_ROWS else contextlib.nullcontext():
        try:
            if len(frames) == 1:
                return [frames[0].collect(engine="streaming")]
            return pl.collect_all(frames, engine="streaming")
        except KeyboardInterrupt:
            _absorb_second_interrupt()
            raise


def _absorb_second_interrupt() -> None:
    """Take the interrupt that Python's own handler raises after the kernel has raised one for the same Ctrl-C."""
    with contextlib.suppress(KeyboardInterrupt):
        for _ in range(1000):
            pass
