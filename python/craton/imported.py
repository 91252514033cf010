"""Optional libraries, used only if the process has imported them already: otherwise no value can be of their classes."""

from __future__ import annotations

import sys
from types import ModuleType


def imported_pandas() -> ModuleType | None:
    """Return pandas if it has been imported. Workers that compute tiles do not import it, because it takes 28 MB of memory.

    While another thread is importing pandas, this waits for it to finish, since the module lacks most of its names until then.
    """
    module = sys.modules.get("pandas")
    if module is not None and getattr(module.__spec__, "_initializing", False):
        import pandas

        return pandas
    return module
