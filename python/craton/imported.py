"""Libraries that are looked at only where the process has imported them: else nobody has values of their classes."""

from __future__ import annotations

import sys
from types import ModuleType


def imported_pandas() -> ModuleType | None:
    """pandas, if it has been imported. Workers that compute tiles have not: it takes 28 MB of memory.

    While another thread is importing it, this waits until that is done: until then the module lacks most of its names.
    """
    module = sys.modules.get("pandas")
    if module is not None and getattr(module.__spec__, "_initializing", False):
        import pandas

        return pandas
    return module
