"""The form in which a function wants a table, as an annotation names it."""

from __future__ import annotations

import sys
from typing import Any

from craton.pipeline.tasks import Form

__all__ = ["FORMS", "form_named"]

#: All forms.
FORMS = ("arrow", "pandas", "polars", "craton", "numpy")


def form_named(cls: Any) -> Form | None:
    """The form of the tables of a class; None if it is none that is known.

    The class is known by its name, so that no library is imported. Craton's classes have the names of pandas'.

    Examples
    --------
    >>> import pyarrow as pa
    >>> form_named(pa.Table)
    'arrow'
    >>> form_named(int)
    """
    own = sys.modules.get("craton.pandas")
    if own is not None and (cls is own.DataFrame or cls is own.Series):  # they are equal to pandas' classes
        return "craton"
    for base in getattr(cls, "__mro__", ()):
        library, name = base.__module__.partition(".")[0], base.__name__
        if (library, name) in _CLASSES:
            return _CLASSES[library, name]
    return None


_CLASSES: dict[tuple[str, str], Form] = {
    ("pyarrow", "Table"): "arrow",
    ("pyarrow", "RecordBatch"): "arrow",
    ("pandas", "DataFrame"): "pandas",
    ("pandas", "Series"): "pandas",
    ("polars", "DataFrame"): "polars",
    ("numpy", "ndarray"): "numpy",
}
