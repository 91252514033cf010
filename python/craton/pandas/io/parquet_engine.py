"""The parameter ``engine`` of pandas' functions of Parquet: what is planned reads and writes as pyarrow does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pandas as pd
from pandas.api.extensions import no_default

from craton.errors import Unsupported
from craton.pandas.core.deprecations import warn_of_auto_engine
from craton.refusals import Refusal


@contextmanager
def as_pyarrow(engine: Any) -> Iterator[None]:
    """Do in the block what the engine pyarrow does, and warn of ``engine="auto"`` then, or if it raises an error.

    Raises
    ------
    Unsupported
        If pandas takes another engine, or none. No warning is told where the block is refused, too: pandas will.
    """
    chosen = engine is no_default or (isinstance(engine, str) and engine == "auto")
    asked = pd.get_option("io.parquet.engine") if chosen else engine
    if not (isinstance(asked, str) and (asked == "pyarrow" or (chosen and asked == "auto"))):
        raise Unsupported(Refusal.PARQUET_ENGINE)
    try:
        yield
    except Unsupported:
        raise
    except Exception:
        warn_of_auto_engine(engine)
        raise
    warn_of_auto_engine(engine)
