"""Sketches of the number of distinct values of a column: HyperLogLog registers, as texts that manifests have.

``crates/shuffle/src/sketch.rs`` defines the registers, and computes them. The sketch of the values of several files has the greatest of
their registers, whichever programs wrote them.
"""

from __future__ import annotations

import base64
import binascii
import functools
import math
import zlib
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["REGISTERS", "as_text", "estimated_count", "estimated_distinct", "merged", "registers_of"]

#: The number of registers. The standard error of the estimated number is 1.04 / sqrt(REGISTERS), which is 3.25 %.
REGISTERS = 1024
#: The greatest value of a register.
_GREATEST = 55

Registers = NDArray[np.uint8]


def merged(sketches: Sequence[bytes | Registers]) -> Registers:
    """The sketch of the values of several sketches."""
    found = np.zeros(REGISTERS, np.uint8)
    for one in sketches:
        np.maximum(found, np.frombuffer(one, np.uint8) if isinstance(one, bytes) else one, out=found)
    return found


def as_text(registers: Registers) -> str:
    """A sketch as a text, in general of less than 700 characters."""
    return base64.b64encode(zlib.compress(registers.tobytes())).decode()


def registers_of(text: Any) -> Registers | None:
    """The sketch that a text has; None if it is none of this kind."""
    try:
        packed = base64.b64decode(text, validate=True)
        found = np.frombuffer(zlib.decompressobj().decompress(packed, REGISTERS + 1), np.uint8)
    except (TypeError, ValueError, binascii.Error, zlib.error):
        return None
    return found if len(found) == REGISTERS and found.max() <= _GREATEST else None


def estimated_count(registers: Registers) -> float:
    """The estimated number of distinct values of a sketch.

    It is the improved estimator of O. Ertl, "New cardinality estimation algorithms for HyperLogLog sketches" (2017), algorithm 6, which
    needs no corrections for small or large numbers.

    Examples
    --------
    >>> import numpy as np
    >>> estimated_count(np.zeros(1024, np.uint8))
    0.0
    """
    counts = np.bincount(registers, minlength=_GREATEST + 1).tolist()
    total = REGISTERS * _tau(1 - counts[_GREATEST] / REGISTERS)
    for count in counts[_GREATEST - 1 : 0 : -1]:
        total = (total + count) / 2
    total += REGISTERS * _sigma(counts[0] / REGISTERS)
    return REGISTERS**2 / (2 * math.log(2) * total)


def _sigma(share: float) -> float:
    """``x + sum of x^(2^k) * 2^(k-1)`` for k from 1 on."""
    if share == 1:
        return math.inf
    factor, total, before = 1.0, share, -1.0
    while total != before:
        share, before = share * share, total
        total += share * factor
        factor *= 2
    return total


def _tau(share: float) -> float:
    """``(1 - x - sum of (1 - x^(2^-k))^2 * 2^-k) / 3`` for k from 1 on."""
    if share in (0, 1):
        return 0.0
    factor, total, before = 1.0, 1 - share, -1.0
    while total != before:
        share, before = math.sqrt(share), total
        factor /= 2
        total -= (1 - share) ** 2 * factor
    return total / 3


@functools.lru_cache(1024)
def _of_texts(texts: tuple[str, ...]) -> float | None:
    found = [registers_of(text) for text in texts]
    known = [one for one in found if one is not None]
    return estimated_count(merged(known)) if len(known) == len(found) else None


def estimated_distinct(texts: Iterable[str]) -> float | None:
    """The estimated number of distinct values in several files, from the sketches of a column; None if one of these is not readable."""
    return _of_texts(tuple(texts))
