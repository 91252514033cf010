"""Rules of windows: values on a row that depend on other rows.

Windows are taken out of their expressions, innermost first, and become hidden columns, each by what it needs: the rows of its
partition in one tile, one value of all rows, what comes of the tiles before (a running sum), or some rows of them (a shift).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import polars as pl

from craton.lower.tiled.aggregates import aggregated
from craton.lower.tiled.planner import Tiling, kept
from craton.lower.tiled.stage import Keep
from craton.lower.tiled.tiles import (
    Leaf,
    Tiles,
    columns_of,
    hidden_name,
    keyed,
    new_leaf,
    order_columns,
    selected,
    sorted_by,
)
from craton.plan.expr import Call, Column, Expr, Literal, Window, dtype_of, has_window, rebuild, roots, walk
from craton.plan.functions import FUNCTIONS, Kind
from craton.plan.operators import (
    Aggregate,
    AggregateCall,
    Filter,
    Join,
    Operator,
    Project,
    Union,
    schema,
)
from craton.schedule.tasks import Part, Read

Named = tuple[str, Window]

_RUNNING = ("row_number", "cum_sum", "cum_prod", "cum_min", "cum_max", "cum_count", "forward_fill", "backward_fill")
_NEAR = ("shift", "diff", "forward_fill", "backward_fill")
_EQUAL = ("is_first_distinct", "is_last_distinct", "is_duplicated")


async def without_windows(tiling: Tiling, op: Project, tiles: Tiles) -> tuple[tuple[tuple[str, Expr], ...], Tiles]:
    """The columns of a projection that are wanted, without windows, and the tiles that they are of, with more columns."""
    wanted = set(tiling.columns(op))
    columns = [(name, expr) for name, expr in op.columns if name in wanted]
    while windows := _innermost([expr for _, expr in columns]):
        names = {window: hidden_name() for window in windows}
        reads = set().union(*(roots(expr) for _, expr in columns))
        needed = [name for name in tiles.schema if name in reads.union(order_columns(tiles.order))]
        needed = needed or list(tiles.schema)[:1]
        tiles = tiles.then(lambda plan, needed=needed: selected(plan, needed))  # type: ignore[misc]
        tiles = await _computed(tiling, op, tiles, [(name, window) for window, name in names.items()])
        replaced = {window: Column(name, window.dtype) for window, name in names.items()}
        columns = [(name, _without(expr, replaced)) for name, expr in columns]
    return tuple(columns), tiles


def _innermost(exprs: Sequence[Expr]) -> list[Window]:
    found = dict.fromkeys(
        node
        for expr in exprs
        for node in walk(expr)
        if isinstance(node, Window) and not any(has_window(child) for child in node.children)
    )
    return list(found)


def _without(expr: Expr, replaced: dict[Window, Column]) -> Expr:
    if isinstance(expr, Window) and expr in replaced:
        return replaced[expr]
    return rebuild(expr, lambda child: _without(child, replaced))


async def _computed(tiling: Tiling, op: Project, tiles: Tiles, windows: list[Named]) -> Tiles:
    """Tiles with windows as more columns."""
    ways: dict[tuple[str, tuple[Expr, ...]], list[Named]] = {}
    for name, window in windows:
        ways.setdefault((_way(window), window.partition or _values(window)), []).append((name, window))
    order = ("running", "near", "gather", "one", "equal", "keyed")
    for way, by in sorted(ways, key=lambda key: order.index(key[0])):
        tiles = await _WAYS[way](tiling, op, tiles, ways[way, by])
    return tiles


def _values(window: Window) -> tuple[Expr, ...]:
    return window.args if window.function in _EQUAL else ()


def _way(window: Window) -> str:
    if window.partition:
        return "keyed"
    if window.function in _EQUAL:
        return "equal"
    if FUNCTIONS[window.function].kind is Kind.AGGREGATE:
        return "one"
    if window.function in _RUNNING and window.option("limit") is None:
        return "running"
    return "near" if window.function in _NEAR else "gather"


def _grown(windows: list[Named]) -> Callable[[Operator], Operator]:
    return lambda plan: Project(plan, (*columns_of(plan, schema(plan)), *windows))


# ---- rows of a partition in one tile ----


async def _keyed(tiling: Tiling, op: Project, tiles: Tiles, windows: list[Named]) -> Tiles:
    return await _by_keys(tiling, op, tiles, windows, windows[0][1].partition)


async def _equal(tiling: Tiling, op: Project, tiles: Tiles, windows: list[Named]) -> Tiles:
    return await _by_keys(tiling, op, tiles, windows, windows[0][1].args)


async def _by_keys(tiling: Tiling, op: Project, tiles: Tiles, windows: list[Named], keys: tuple[Expr, ...]) -> Tiles:
    by_order = any(window.ordered for _, window in windows)
    in_place = not tiles.order  # then rows of a part stay in order
    if tiling.observed(op):
        tiles = tiling.spelled(tiles)
    names, tiles = keyed(tiles, keys)
    if tiles.hashed is None or not set(tiles.hashed[0]) <= set(names):
        parts = tiling.parts(tiling.expected_bytes(op.input, tiles))
        columns, outputs = await tiling.by_hash(op.input, tiles, names, parts, tuple(tiles.schema))
        groups = tiling.grouped(outputs)
        hashed = (names, parts) if len(groups) == parts else None
        tiles = tiling.partitions(columns, outputs, groups, order=tiles.order, hashed=hashed)
    order = tiles.order

    def build(plan: Operator) -> Operator:
        if by_order and order and not in_place:
            plan = sorted_by(plan, order)
        return _grown(windows)(plan)

    return tiles.then(build, order=order if tiling.observed(op) else ())


# ---- one value of all rows ----


async def _one(tiling: Tiling, op: Project, tiles: Tiles, windows: list[Named]) -> Tiles:
    tiles = await _at_rest(tiling, op, tiles)
    calls = tuple((name, AggregateCall(w.function, w.args, w.dtype, w.options)) for name, w in windows)
    total = Aggregate(tiles.segments[0].plan, (), calls)
    found = await aggregated(tiling, total, kept(tiles), ordered=tiling.observed(op.input))
    outputs = await tiling.run_all(op, found, Keep(), ordered=False)
    value = tiling.resting(dict(found.schema), outputs)
    return _beside(tiles, dict(found.schema), [value.reads[0]] * len(tiles), [Part(1, value.nbytes)] * len(tiles))


async def _at_rest(tiling: Tiling, op: Project, tiles: Tiles) -> Tiles:
    """Tiles at rest with all their columns, each one read."""
    if tiles.sizes is not None and all(len(reads) == 1 for reads in tiles.reads):
        return tiles
    ordered = tiling.observed(op.input) and not tiles.order
    outputs = await tiling.run_all(op, tiles, Keep(), ordered=ordered)
    return tiling.resting(dict(tiles.schema), outputs, order=tiles.order, hashed=tiles.hashed)


def _beside(
    tiles: Tiles, columns: dict[str, pl.DataType], reads: Sequence[tuple[Read, ...]], sizes: Sequence[Part]
) -> Tiles:
    """Tiles with one row of other tiles beside all rows of each."""
    segments, start = [], 0
    for segment in tiles.segments:
        stop = start + len(segment)
        scan, leaf = new_leaf(columns, reads=tuple(reads[start:stop]), sizes=tuple(sizes[start:stop]), kept=True)
        plan = Join(segment.plan, scan, "cross", (), ())
        segments.append(replace(segment, plan=plan, leaves=(*segment.leaves, leaf)))
        start = stop
    return replace(tiles, segments=tuple(segments))


# ---- what comes of the tiles before ----


@dataclass(frozen=True, slots=True)
class _Running:
    """How a running function goes on from tile to tile.

    Parameters
    ----------
    total
        The aggregate of a tile.
    carry
        What the tiles before come to, of the totals of all tiles, in their order.
    join
        The value, of the value within the tile and what was carried.
    """

    total: Callable[[Window], AggregateCall]
    carry: Callable[[Column], Expr]
    join: Callable[[Expr, Column], Expr]


def _total(function: str) -> Callable[[Window], AggregateCall]:
    return lambda w: AggregateCall(function, w.args, w.dtype)


def _after(value: Expr, periods: int = 1) -> Expr:
    return Window("shift", (value,), dtype_of(value), options=(("periods", periods),))


def _sums(function: str) -> Callable[[Column], Expr]:
    return lambda total: _after(Window(function, (total,), total.dtype))


def _extremes(function: str) -> Callable[[Column], Expr]:
    def carry(total: Column) -> Expr:
        running = Window(function, (total,), total.dtype)
        return _after(Window("forward_fill", (running,), total.dtype))

    return carry


def _add(function: str, neutral: int) -> Callable[[Expr, Column], Expr]:
    def join(value: Expr, carried: Column) -> Expr:
        before = Call("coalesce", (carried, Literal(neutral, carried.dtype)), carried.dtype)
        return Call(function, (value, before), dtype_of(value))

    return join


def _least(function: str) -> Callable[[Expr, Column], Expr]:
    def join(value: Expr, carried: Column) -> Expr:
        better = Call(function, (carried, value), pl.Boolean())
        return Call("when", (better, carried, value), dtype_of(value))

    return join


def _coalesced(value: Expr, carried: Column) -> Expr:
    return Call("coalesce", (value, carried), dtype_of(value))


def _fill(function: str, periods: int) -> Callable[[Column], Expr]:
    return lambda total: _after(Window(function, (total,), total.dtype), periods)


def _rows(window: Window) -> AggregateCall:
    return AggregateCall("len", (), window.dtype)


_RULES = {
    "row_number": _Running(_rows, _sums("cum_sum"), _add("add", 0)),
    "cum_count": _Running(_total("count"), _sums("cum_sum"), _add("add", 0)),
    "cum_sum": _Running(_total("sum"), _sums("cum_sum"), _add("add", 0)),
    "cum_prod": _Running(_total("product"), _sums("cum_prod"), _add("mul", 1)),
    "cum_min": _Running(_total("min"), _extremes("cum_min"), _least("lt")),
    "cum_max": _Running(_total("max"), _extremes("cum_max"), _least("gt")),
    "forward_fill": _Running(_total("last"), _fill("forward_fill", 1), _coalesced),
    "backward_fill": _Running(_total("first"), _fill("backward_fill", -1), _coalesced),
}


async def _running(tiling: Tiling, op: Project, tiles: Tiles, windows: list[Named]) -> Tiles:
    tiles = await _ordered(tiling, op, tiles)
    if len(tiles) == 1:
        return tiles.then(_grown(windows))
    totals = tuple((hidden_name(), _RULES[window.function].total(window)) for _, window in windows)
    each = kept(tiles).then(lambda plan: Aggregate(plan, (), totals))
    outputs = await tiling.run_all(op, each, Keep(), ordered=True)
    gathered = tiling.gathered(tiling.resting(dict(each.schema), outputs))
    carries = tuple(
        (name, _RULES[window.function].carry(Column(name, call.dtype)))
        for (name, call), (_, window) in zip(totals, windows, strict=True)
    )
    (carried,) = await tiling.run_all(op, gathered.then(lambda plan: Project(plan, carries)), Keep(), ordered=True)
    columns = {name: call.dtype for name, call in totals}
    reads = [(Read((carried.key,), rows=(tile, 1)),) for tile in range(len(tiles))]
    tiles = _beside(tiles, columns, reads, [Part(1, 1)] * len(tiles))
    values = [
        (name, _RULES[window.function].join(window, Column(total, call.dtype)))
        for (name, window), (total, call) in zip(windows, totals, strict=True)
    ]
    return tiles.then(lambda plan: Project(plan, (*columns_of(plan, schema(plan)), *values)))


async def _ordered(tiling: Tiling, op: Project, tiles: Tiles) -> Tiles:
    """Tiles in order and at rest, with all their columns."""
    return await _at_rest(tiling, op, await tiling.in_order(op.input, tiles, tiles.schema))


# ---- some rows of the tiles beside ----


async def _near(tiling: Tiling, op: Project, tiles: Tiles, windows: list[Named]) -> Tiles:
    tiles = await _ordered(tiling, op, tiles)
    if len(tiles) == 1:
        return tiles.then(_grown(windows))
    before = max([0, *(_reach(window) for _, window in windows)])
    after = max([0, *(-_reach(window) for _, window in windows)])
    reads, sizes = [read for (read,) in tiles.reads], [size.rows for size in tiles.sizes or ()]
    columns = dict(tiles.schema)
    segments, number, flag = [], 0, hidden_name()
    for segment in tiles.segments:
        places = range(number, number + len(segment))
        head, first = _rows_near(columns, [_last_rows(reads, sizes, i, before) for i in places])
        tail, last = _rows_near(columns, [_first_rows(reads, sizes, i, after) for i in places])
        number += len(segment)

        def marked(plan: Operator, own: bool) -> Operator:
            kept_columns = columns_of(plan, columns)
            return Project(plan, (*kept_columns, (flag, Literal(own, pl.Boolean()))))

        every = Union((marked(head, False), marked(segment.plan, True), marked(tail, False)))
        plan = Filter(_grown(windows)(every), Column(flag, pl.Boolean()))
        wanted = [*columns, *(name for name, _ in windows)]
        segments.append(replace(segment, plan=selected(plan, wanted), leaves=(*segment.leaves, first, last)))
    return kept(replace(tiles, segments=tuple(segments)))


def _reach(window: Window) -> int:
    """How many rows before its own a window sees; less than 0: after."""
    if window.function in ("shift", "diff"):
        return int(window.option("periods", 1))
    limit = int(window.option("limit"))
    return limit if window.function == "forward_fill" else -limit


def _rows_near(columns: dict[str, pl.DataType], reads: list[tuple[Read, ...]]) -> tuple[Operator, Leaf]:
    return new_leaf(columns, reads=tuple(reads), sizes=(Part(0, 0),) * len(reads))


def _last_rows(reads: list[Read], sizes: list[int], tile: int, rows: int) -> tuple[Read, ...]:
    """The last rows of what is before a tile."""
    found: list[Read] = []
    for i in range(tile - 1, -1, -1):
        if rows <= 0:
            break
        taken = min(rows, sizes[i])
        if taken:
            found.insert(0, _part(reads[i], sizes[i] - taken, taken))
        rows -= taken
    return tuple(found) or (replace(reads[tile], rows=(0, 0)),)


def _part(read: Read, first: int, rows: int) -> Read:
    return replace(read, rows=((0 if read.rows is None else read.rows[0]) + first, rows))


def _first_rows(reads: list[Read], sizes: list[int], tile: int, rows: int) -> tuple[Read, ...]:
    """The first rows of what is after a tile."""
    found: list[Read] = []
    for i in range(tile + 1, len(reads)):
        if rows <= 0:
            break
        taken = min(rows, sizes[i])
        if taken:
            found.append(_part(reads[i], 0, taken))
        rows -= taken
    return tuple(found) or (replace(reads[tile], rows=(0, 0)),)


# ---- all rows at once ----


async def _gather(tiling: Tiling, op: Project, tiles: Tiles, windows: list[Named]) -> Tiles:
    names = ", ".join(sorted({window.function for _, window in windows}))
    tiling.decide(op, f"by one task: {names} over all rows")
    tiles = tiling.gathered(await _at_rest(tiling, op, tiles))
    return tiling.sorted_within(op.input, tiles, tiles.schema).then(_grown(windows))


_WAYS = {
    "keyed": _keyed,
    "equal": _equal,
    "one": _one,
    "running": _running,
    "near": _near,
    "gather": _gather,
}
