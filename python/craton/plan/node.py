"""Content hashes of plan nodes, by which results are cached and common subplans are shared.

Every expression and operator is a frozen, slotted dataclass that derives from :class:`Node`. Its identity is a 128-bit
digest of its content, which is computed once, when it is built, from its fields and the digests of its children. Equal plans
have equal digests in every process.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import enum
import functools
import hashlib
import pickle
import struct
from typing import Any

import numpy as np
import polars as pl

from craton.errors import PlanError
from craton.imported import imported_pandas

#: The length of an encoded item, in four bytes.
_LENGTH = struct.Struct("<I").pack


class Node:
    """A frozen value with a content digest.

    Attributes
    ----------
    digest : bytes
        16 bytes, equal for equal content, independent of the process.
    """

    __slots__ = ("__weakref__", "digest")

    digest: bytes

    def __post_init__(self) -> None:
        self._validate()
        object.__setattr__(self, "digest", _digest(self))

    def _validate(self) -> None:
        """Check the invariants of a subclass; raise :class:`PlanError` if one does not hold."""

    def __eq__(self, other: object) -> bool:
        return self is other or (type(self) is type(other) and self.digest == other.digest)  # type: ignore[attr-defined]

    def __reduce__(self) -> Any:
        values = tuple(getattr(self, field.name) for field in dataclasses.fields(self))  # type: ignore[arg-type]
        return _restored, (type(self), values, self.digest)

    def __hash__(self) -> int:
        return int.from_bytes(self.digest[:8], "little", signed=True)


def _restored(cls: type[Node], values: tuple[Any, ...], digest: bytes) -> Node:
    """Unpickle a node, without validating it again."""
    node = cls.__new__(cls)
    for field, value in zip(dataclasses.fields(cls), values, strict=True):  # type: ignore[arg-type]
        object.__setattr__(node, field.name, value)
    object.__setattr__(node, "digest", digest)
    return node


def _compared_fields(kind: type[Node]) -> tuple[bytes, tuple[str, ...]]:
    """The name of a class, and the fields by which its nodes are compared."""
    return kind.__name__.encode(), tuple(field.name for field in dataclasses.fields(kind) if field.compare)  # type: ignore[arg-type]


_compared: Any = functools.cache(_compared_fields)


def _digest(node: Node) -> bytes:
    kind, names = _compared(type(node))
    return hashlib.blake2b(kind + b"".join([encode(getattr(node, name)) for name in names]), digest_size=16).digest()


def encode(value: Any) -> bytes:
    """Encode a field's value as bytes, which are equal exactly if the values are.

    Parameters
    ----------
    value
        A node, a tuple of values, or a scalar.

    Raises
    ------
    PlanError
        If the value's type has no stable encoding.
    """
    if isinstance(value, Node):
        return b"N" + value.digest
    if type(value) is str:  # the most frequent type first
        return b"s" + value.encode("utf-8", "surrogatepass")
    if isinstance(value, tuple):
        return b"(" + b"".join([_LENGTH(len(part)) + part for part in map(encode, value)]) + b")"
    if isinstance(value, enum.Enum):
        return f"E{type(value).__name__}.{value.name}".encode()
    found = _encode_scalar(value)
    if found is None:
        found = _encode_dtype(value)
    if found is None:
        raise PlanError(f"a plan cannot contain a value of type {type(value).__name__}: {value!r}")
    return found


def _encode_scalar(value: Any) -> bytes | None:
    if value is None or isinstance(value, (bool, np.bool_)):
        return f"b{value}".encode()
    if isinstance(value, np.timedelta64):
        return f"t{type(value).__name__}{value!r}".encode()
    if isinstance(value, (int, np.integer)):
        return f"i{type(value).__name__}{int(value)}".encode()
    if isinstance(value, (float, np.floating)):
        return b"f" + type(value).__name__.encode() + struct.pack("<d", float(value))
    if isinstance(value, str):
        return b"s" + value.encode("utf-8", "surrogatepass")
    if isinstance(value, bytes):
        return b"y" + value
    if isinstance(value, (dt.datetime, dt.date, dt.time, dt.timedelta, np.datetime64, np.timedelta64, decimal.Decimal)):
        unit, count = getattr(value, "unit", ""), getattr(value, "_value", None)
        # pandas cannot format its timestamps beyond the year 9999, so the count of units is encoded.
        text = repr(value) if count is None else f"{count} {getattr(value, 'tz', None)}"
        return f"t{type(value).__name__}{text}{unit}".encode()
    if (pandas := imported_pandas()) is not None and value is pandas.NA:
        return f"t{type(value).__name__}{value!r}".encode()
    return None


def _encode_dtype(value: Any) -> bytes | None:
    if isinstance(value, pl.DataType) or (isinstance(value, type) and issubclass(value, pl.DataType)):
        return f"d{value!r}".encode()
    if isinstance(value, np.dtype):
        return f"p{value!r}".encode()
    if (pandas := imported_pandas()) is not None:
        if isinstance(value, pandas.CategoricalDtype):  # its repr abbreviates the categories
            return b"c" + hashlib.blake2b(pickle.dumps((value.categories, value.ordered)), digest_size=16).digest()
        if isinstance(value, pandas.api.extensions.ExtensionDtype):
            return f"p{value!r}".encode()
    return None
