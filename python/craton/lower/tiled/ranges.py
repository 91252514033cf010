"""Cuts scans of clustered files into common ranges of a key, so that joins and group-bys on it need no exchange.

In files that were written in the order of a key, or nearly, each row group contains a narrow range of its values. All scans
with that key are cut at the same values. A tile then has all rows of the keys in its range.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from craton.lower.tiled.sources import covers, extremes_of, row_groups
from craton.lower.tiled.tiles import KeyRanges
from craton.plan.expr import Column, Expr
from craton.plan.operators import Aggregate, Distinct, Join, Operator, Scan, schema
from craton.plan.origin import origin
from craton.plan.size import scanned_bytes
from craton.plan.visit import topological

#: A scan, and one of its columns.
Key = tuple[Scan, str]

# The largest range of the heaviest scan may have at most this many times the mean number of rows.
_UNEVEN = 3.0
# At most this many times the scans' bytes may be read: a row group with values of several ranges is read for each of them.
_TWICE = 1.6
# At least this share of the wanted number of ranges must be found.
_ENOUGH = 0.7


def common_ranges(
    root: Operator, observed: Mapping[Operator, bool], *, least_tiles: int, tile_bytes: int, exactly: int | None
) -> dict[Scan, tuple[str, KeyRanges]]:
    """The columns and ranges by which to cut scans of a plan, where it is worth it.

    Parameters
    ----------
    root
        The plan.
    observed
        Whether the row order of each operator is observed; scans in observed order are cut by rows instead.
    least_tiles, tile_bytes
        The least number of tiles, and the target size in bytes of a tile of all scans with the same key.
    exactly
        The number of tiles; ``None`` to choose it by size.
    """
    found: dict[Scan, tuple[str, KeyRanges]] = {}
    classes = _classes(root, observed)
    for keys in sorted(classes, key=lambda keys: -sum(scanned_bytes(scan) for scan, _ in keys)):
        free = {scan: name for scan, name in keys if scan not in found}
        nbytes = sum(map(scanned_bytes, free))
        if not free or (exactly is None and max(map(scanned_bytes, free)) < tile_bytes):
            continue
        ranges = _ranges(free, exactly or max(least_tiles, -(-nbytes // tile_bytes)))
        if ranges is not None:
            found |= {scan: (name, ranges) for scan, name in free.items()}
    return found


def _classes(root: Operator, observed: Mapping[Operator, bool]) -> list[list[Key]]:
    """Classes of key columns of scans that are equal in joins, or that are keys of group-bys."""
    same: dict[Key, set[Key]] = {}

    def clustered(op: Operator, expr: Expr) -> Key | None:
        if not isinstance(expr, Column):
            return None
        key = origin(op, expr.name, joins=("inner", "left", "semi", "anti"), groups=True, positions=True)
        if key is None or observed.get(key[0], True) or key[1] not in dict(key[0].source.columns):
            return None
        return None if extremes_of(key[0].source, key[1]) is None else key

    for op in topological(root):
        met: list[list[Key | None]] = []
        if isinstance(op, Join):
            pairs = zip(op.left_on, op.right_on, strict=True)
            met = [[clustered(op.left, ours), clustered(op.right, theirs)] for ours, theirs in pairs]
        elif isinstance(op, Aggregate):
            met = [[clustered(op.input, expr)] for _, expr in op.keys]
        elif isinstance(op, Distinct):
            met = [[clustered(op.input, op.input.column(name))] for name in op.subset or tuple(schema(op.input))]
        for keys in met:
            there = [key for key in keys if key is not None]
            if len(there) == len(keys) and len(set(map(_dtype_of, there))) == 1:
                together = set(there).union(*(same.get(key, ()) for key in there))
                same |= dict.fromkeys(together, together)
    return [list(keys) for keys in {id(keys): keys for keys in same.values()}.values()]


def _dtype_of(key: Key) -> pl.DataType:
    return dict(key[0].source.columns)[key[1]]


def _ranges(keys: Mapping[Scan, str], wanted: int) -> KeyRanges | None:
    """Values that cut scans into about ``wanted`` tiles of about equal rows; None if the row groups do not allow it."""
    groups = {scan: extremes_of(scan.source, name) or [] for scan, name in keys.items()}
    rows = {scan: [number for file in row_groups(scan.source) or [] for number in file] for scan in keys}
    if not groups or not all(groups.values()):
        return None
    # The candidates are from the scan with the widest row groups; the row groups of the other scans end near them.
    enough = [scan for scan in keys if len(groups[scan]) >= wanted]
    pattern = (
        min(enough, key=lambda scan: len(groups[scan])) if enough else max(keys, key=lambda scan: len(groups[scan]))
    )
    heaviest = max(keys, key=scanned_bytes)
    ascending = sorted(zip(groups[heaviest], rows[heaviest], strict=True))
    before = list(itertools.accumulate((number for _, number in ascending), initial=0))
    lows = [low for (low, _), _ in ascending]
    candidates = sorted({low for low, _ in groups[pattern]})[1:]
    starts = _even(candidates, [before[bisect.bisect_left(lows, value)] for value in candidates], before[-1], wanted)
    if len(starts) + 1 < max(_ENOUGH * wanted, 2):
        return None
    ranges = KeyRanges(tuple(starts))
    read, all_read = 0, 0
    for scan in keys:
        ends = list(itertools.accumulate(rows[scan], initial=0))
        of_each = [ends[last] - ends[first] for first, last, *_ in covers(groups[scan], ranges)]
        if scan is heaviest and max(of_each) > _UNEVEN * ends[-1] / len(of_each):
            return None
        row_bytes = scanned_bytes(scan) // max(ends[-1], 1) + 1
        read, all_read = read + sum(of_each) * row_bytes, all_read + ends[-1] * row_bytes
    return ranges if read <= _TWICE * all_read else None


def _even(candidates: Sequence[Any], rows: Sequence[int], total: int, wanted: int) -> list[Any]:
    """The values, given the number of rows before each, that cut all rows into parts of about equal size."""
    if not candidates:
        return []
    ideals = (total * number / wanted for number in range(1, wanted))
    return sorted({candidates[min(range(len(rows)), key=lambda i: abs(rows[i] - ideal))] for ideal in ideals})
