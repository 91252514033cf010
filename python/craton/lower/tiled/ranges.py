"""Scans that are cut alike, by ranges of a key that their files are clustered by: what meets by that key is in one tile then.

Files that were written in the order of a key, or nearly, have row groups that hold few of its values each. Cut by ranges of that
key, all scans of it at the same values, tiles have all rows of a key, and joins and groups by it need no exchange.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from craton.lower.tiled.sources import covers, extremes_of, row_groups
from craton.lower.tiled.tiles import Ranges
from craton.plan.expr import Column, Expr
from craton.plan.operators import Aggregate, Distinct, Join, Operator, Scan, schema
from craton.plan.origin import origin
from craton.plan.size import scanned_bytes
from craton.plan.visit import topological

#: A scan, and one of its columns.
Key = tuple[Scan, str]

# Of the heaviest scan, so many times the rows may be read for a range that it has in the mean.
_UNEVEN = 3.0
# So many times the bytes may be read: row groups that have values of several ranges are read for each of them.
_TWICE = 1.6
# Of the ranges that are wanted, so many have to be found.
_ENOUGH = 0.7


def common_ranges(
    root: Operator, observed: Mapping[Operator, bool], *, least_tiles: int, tile_bytes: int, exactly: int | None
) -> dict[Scan, tuple[str, Ranges]]:
    """For the scans of a plan that are worth it, by which column and at which values they are cut.

    Parameters
    ----------
    root
        The plan.
    observed
        Whether the order of an operator's rows is seen; scans of which it is are cut by rows.
    least_tiles, tile_bytes
        How many tiles there are at least, and how many bytes a tile should have of all scans that it meets.
    exactly
        How many there are to be instead.
    """
    found: dict[Scan, tuple[str, Ranges]] = {}
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
    """Keys of scans that meet each other in joins, or that groups are made by."""
    same: dict[Key, set[Key]] = {}

    def clustered(op: Operator, expr: Expr) -> Key | None:
        if not isinstance(expr, Column):
            return None
        key = origin(op, expr.name, joins=("inner", "left", "semi", "anti"), groups=True)
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


def _ranges(keys: Mapping[Scan, str], wanted: int) -> Ranges | None:
    """Values at which scans are cut into about so many tiles of about as many rows; None where row groups do not allow it."""
    groups = {scan: extremes_of(scan.source, name) or [] for scan, name in keys.items()}
    rows = {scan: [number for file in row_groups(scan.source) or [] for number in file] for scan in keys}
    if not groups or not all(groups.values()):
        return None
    # Of the scan whose row groups hold the most values each: then the others are cut near the ends of theirs.
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
    ranges = Ranges(tuple(starts))
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
    """Of values, with so many rows before each, those that cut all rows into parts of about equal size."""
    if not candidates:
        return []
    ideals = (total * number / wanted for number in range(1, wanted))
    return sorted({candidates[min(range(len(rows)), key=lambda i: abs(rows[i] - ideal))] for ideal in ideals})
