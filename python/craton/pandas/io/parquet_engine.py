"""The parameter ``engine`` of pandas' Parquet functions: native calls read and write as the engine pyarrow does."""

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
def require_pyarrow_engine(engine: Any) -> Iterator[None]:
    """Check that pandas would use the engine pyarrow, and give its warning about ``engine="auto"`` after the block.

    The warning is given if the block succeeds or raises an error. It is not given if the block refuses the call, because pandas
    then gives it.

    Raises
    ------
    Unsupported
        If pandas would use another engine, or reject the argument.
    """
    by_default = engine is no_default or (isinstance(engine, str) and engine == "auto")
    engine_name = pd.get_option("io.parquet.engine") if by_default else engine
    if not (isinstance(engine_name, str) and (engine_name == "pyarrow" or (by_default and engine_name == "auto"))):
        raise Unsupported(Refusal.PARQUET_ENGINE)
    try:
        yield
    except Unsupported:
        raise
    except Exception:
        warn_of_auto_engine(engine)
        raise
    warn_of_auto_engine(engine)
