"""Stand-in for the engine's front end: trivial subclasses. Never to be merged."""

from __future__ import annotations

import pandas as _real
from pandas import *  # noqa: F403


class DataFrame(_real.DataFrame):
    @property
    def _constructor(self):
        return DataFrame

    @property
    def _constructor_sliced(self):
        return Series


class Series(_real.Series):
    @property
    def _constructor(self):
        return Series

    @property
    def _constructor_expanddim(self):
        return DataFrame


def __getattr__(name):
    return getattr(_real, name)


__all__ = _real.__all__
