"""Values on their way: any object as pieces of memory that are sent one after another, and back without a copy."""

from __future__ import annotations

from typing import Any

from craton.serialize.container import container_pieces, deserialize
from craton.serialize.encoding import encode

__all__ = ["decoded", "pieces"]


def pieces(value: Any) -> list[Any]:
    """Return the container of a value in pieces; its arrays and tables are not copied."""
    return container_pieces(encode(value))


def decoded(memory: Any) -> Any:
    """Make the value of a container that was received; its arrays and tables are views of the memory."""
    return deserialize(memory)
