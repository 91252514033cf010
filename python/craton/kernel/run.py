"""Runs LazyFrames on Polars' streaming engine, so that a user can watch and interrupt them.

The kernel runs in the calling thread, where it answers to Ctrl-C itself (a query in Polars' background mode would leave
the streaming engine); a line of progress is drawn by another thread meanwhile.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

import polars as pl

from craton.kernel.progress import DELAY, Progress

#: Runs that are expected to read fewer rows than this are not watched.
SHORT_RUN_ROWS = 200_000


def run_all(frames: list[pl.LazyFrame], *, expected_rows: int, describe: Callable[[], str]) -> list[pl.DataFrame]:
    """Collect lowered plans in one run, shared parts once.

    Parameters
    ----------
    frames
        What :func:`craton.lower.lower` returned.
    expected_rows
        Rows that the run is expected to read; decides whether to show progress.
    describe
        Called for a few words on the run when progress is first shown.

    Raises
    ------
    KeyboardInterrupt
        If the user interrupts; the run is cancelled.
    """
    if expected_rows < SHORT_RUN_ROWS:
        return _collect(frames)
    done = threading.Event()
    watcher = threading.Thread(target=_watch, args=(done, describe), daemon=True, name="craton-progress")
    watcher.start()
    try:
        return _collect(frames)
    finally:
        done.set()
        watcher.join()


def _collect(frames: list[pl.LazyFrame]) -> list[pl.DataFrame]:
    if len(frames) == 1:
        return [frames[0].collect(engine="streaming")]
    return pl.collect_all(frames, engine="streaming")


def _watch(done: threading.Event, describe: Callable[[], str]) -> None:
    with Progress(describe) as progress:
        if done.wait(DELAY):
            return
        while not done.wait(0.05):
            progress.tick()
