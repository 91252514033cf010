"""Runs a LazyFrame on Polars' streaming engine."""

from __future__ import annotations

import polars as pl


def run(frame: pl.LazyFrame) -> pl.DataFrame:
    """Collect a lowered plan.

    Parameters
    ----------
    frame
        What :func:`craton.lower.lower` returned.
    """
    return frame.collect(engine="streaming")


def run_all(frames: list[pl.LazyFrame]) -> list[pl.DataFrame]:
    """Collect several lowered plans in one run, shared parts once."""
    if len(frames) == 1:
        return [run(frames[0])]
    return pl.collect_all(frames, engine="streaming")
