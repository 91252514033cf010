"""Names of columns that no user sees: one generator for every layer.

A hidden name begins with a control character that no plan name of a user's column begins with: :func:`visible` sees to
that where labels become plan names, and files with such a column are read by pandas. So a hidden column can never meet
a user's.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection

#: What every hidden name begins with.
HIDDEN = "\x01"

_numbers = itertools.count()


def hidden_name(purpose: str = "") -> str:
    """A hidden name, unique in this process.

    Parameters
    ----------
    purpose
        A word that tells a reader of the plan what the column is.
    """
    return f"{HIDDEN}{purpose}{next(_numbers)}"


def derived_name(purpose: str, digest: bytes, taken: Collection[str] = ()) -> str:
    """A hidden name that is the same in every process, for a column that is told by its content.

    Parameters
    ----------
    purpose
        A word that tells a reader of the plan what the column is.
    digest
        What the column is computed of.
    taken
        Names that it must not be.
    """
    name = f"{HIDDEN}{purpose}:{digest.hex()[:16]}"
    while name in taken:
        name += "'"
    return name


def is_hidden(name: str) -> bool:
    """Whether a column is one that no user sees."""
    return name.startswith(HIDDEN)


def visible(name: str) -> str:
    """A plan name for a user's label that cannot be a hidden one, and that Arrow takes (it ends names at a NUL)."""
    return repr(name) if is_hidden(name) or "\x00" in name else name
