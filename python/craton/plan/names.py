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


def seen(text: str) -> str:
    """A text without the names of columns that no user sees, as they are."""
    return text.replace(HIDDEN, "#")


def may_name_a_column(name: str) -> bool:
    """Whether a user's name may stand in a plan: it is no hidden one, the kernel does not replace it, Arrow does not cut it."""
    return bool(name) and not is_hidden(name) and "\x00" not in name


def visible(name: str) -> str:
    """A plan name for a user's label: itself where that may stand in a plan."""
    return name if may_name_a_column(name) else repr(name)
