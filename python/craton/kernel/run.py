"""Runs LazyFrames on Polars' streaming engine, so that a user can watch and interrupt them.

Long runs go on in the background while this thread polls: Ctrl-C cancels the run and returns at once (the kernel stops at
its next batch), and a line of progress is shown.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator

import polars as pl

from craton.kernel.progress import Progress

#: Runs that are expected to read fewer rows than this are awaited without polling.
SHORT_RUN_ROWS = 200_000


def run_all(frames: list[pl.LazyFrame], *, expected_rows: int, describe: Callable[[], str]) -> list[pl.DataFrame]:
    """Collect lowered plans in one run, shared parts once.

    Parameters
    ----------
    frames
        What :func:`craton.lower.lower` returned.
    expected_rows
        Rows that the run is expected to read; decides whether to poll.
    describe
        Called for a few words on the run when progress is first shown.

    Raises
    ------
    KeyboardInterrupt
        If the user interrupts; the run is cancelled.
    """
    if len(frames) == 1:
        return [_watch(frames[0], expected_rows, describe)]
    if expected_rows < SHORT_RUN_ROWS:
        return pl.collect_all(frames, engine="streaming")
    # Polars runs several plans together only in the foreground, where it ends at Ctrl-C itself; progress is a thread's.
    with Progress(describe) as progress, _ticking(progress):
        return pl.collect_all(frames, engine="streaming")


@contextlib.contextmanager
def _ticking(progress: Progress) -> Iterator[None]:
    """Tick from a thread while the block runs."""
    done = threading.Event()

    def tick() -> None:
        while not done.wait(0.1):
            progress.tick()

    thread = threading.Thread(target=tick, name="craton-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _watch(frame: pl.LazyFrame, expected_rows: int, describe: Callable[[], str]) -> pl.DataFrame:
    query = frame.collect(engine="streaming", background=True)
    try:
        if expected_rows < SHORT_RUN_ROWS:
            return query.fetch_blocking()
        pause = 0.001
        with Progress(describe) as progress:
            while (result := query.fetch()) is None:
                time.sleep(pause)
                pause = min(pause * 1.3, 0.02)
                progress.tick()
        return result
    except KeyboardInterrupt:
        query.cancel()
        raise
