"""Whether the buffers of encoded values may change before they are sent or written, and copies of those."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

__all__ = ["may_change", "unchanging"]


def may_change(memory: memoryview) -> bool:
    """Whether somebody may change memory: that of arrays and bytearrays; not of ``bytes``, Arrow's buffers and the store's pages."""
    owner: Any = memory.obj
    while True:
        kind = type(owner)
        if kind is bytes or kind.__module__.partition(".")[0] in ("pyarrow", "craton"):
            return False
        if kind is memoryview:
            owner = owner.obj
        elif (flags := getattr(owner, "flags", None)) is not None and hasattr(flags, "writeable"):  # an array
            if flags.writeable:
                return True
            if owner.base is None:
                return False
            owner = owner.base
        else:
            return not memoryview(owner).readonly


def unchanging(buffers: Iterable[Any]) -> list[Any]:
    """Return buffers whose memory nobody changes: those that may change are copied."""
    return [bytes(one) if may_change(memoryview(one)) else one for one in buffers]
