"""Names of hidden columns, which a plan uses and users do not see.

A hidden name begins with a control character, and no user's column has such a name in a plan: :func:`visible` escapes it
where labels become plan names, and files with such a column are left to pandas. So a hidden name never collides with a
user's.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Hashable, Sequence

#: The first character of every hidden name.
HIDDEN = "\x01"

_numbers = itertools.count()


def hidden_name(purpose: str = "") -> str:
    """A hidden name, unique in this process.

    Parameters
    ----------
    purpose
        A word for the column's purpose, which ``explain`` shows.
    """
    return f"{HIDDEN}{purpose}{next(_numbers)}"


def derived_name(purpose: str, digest: bytes, taken: Collection[str] = ()) -> str:
    """A hidden name that is made from a column's content, and so is the same in every process.

    Parameters
    ----------
    purpose
        A word for the column's purpose, which ``explain`` shows.
    digest
        The digest of the expression that computes the column.
    taken
        Names that are in use already.
    """
    name = f"{HIDDEN}{purpose}:{digest.hex()[:16]}"
    while name in taken:
        name += "'"
    return name


def is_hidden(name: str) -> bool:
    """Whether a column's name is a hidden one."""
    return name.startswith(HIDDEN)


def printable(text: str) -> str:
    """A text in which the control character of hidden names is replaced by ``#``."""
    return text.replace(HIDDEN, "#")


def may_name_a_column(name: str) -> bool:
    """Whether a user's name can be used in a plan unchanged.

    The kernel replaces empty names, and takes ``*`` and ``^…$`` for patterns of names; Arrow truncates names at a null byte, and a lone
    surrogate has no UTF-8; names like hidden ones are reserved.
    """
    if not name.isascii() and any("\ud800" <= character <= "\udfff" for character in name):
        return False
    return bool(name) and not is_kernel_pattern(name) and not is_hidden(name) and "\x00" not in name


def is_kernel_pattern(name: str) -> bool:
    """Whether the kernel takes a name for a pattern of names, and so for other columns, too."""
    return name == "*" or (name.startswith("^") and name.endswith("$"))


def visible(name: str) -> str:
    """The plan name of a user's label: the label itself, or its ``repr`` if a plan cannot use the label."""
    return name if may_name_a_column(name) else repr(name)


def column_names(labels: Sequence[Hashable]) -> list[str]:
    """Unique, readable plan names for labels."""
    names: list[str] = []
    taken: set[str] = set()
    for label in labels:
        stem = name = visible(label) if isinstance(label, str) else repr(label)
        count = 1
        while name in taken:
            count += 1
            name = f"{stem}#{count}"
        taken.add(name)
        names.append(name)
    return names
