"""Runs plans: takes cached results, and computes all missing ones in one run."""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import polars as pl

from craton import events, forks, locks
from craton.engine.choice import chosen_engine
from craton.engine.kept_columns import with_kept_columns
from craton.engine.repeated import without_repeated_parts
from craton.engine.result_cache import reads_memory, results
from craton.errors import SourceChanged, Unsupported
from craton.kernel.run import run_all
from craton.lower.file_versions import check_held, in_place
from craton.plan.expr import Column
from craton.plan.operators import Aggregate, Operator, Project, Scan, schema
from craton.plan.rules.prune import prune_columns
from craton.plan.size import estimated_rows, scanned_bytes
from craton.plan.sources import FileSource, MemorySource, SharedSource, Source
from craton.plan.stages import optimize
from craton.plan.visit import topological
from craton.refusals import Refusal

if TYPE_CHECKING:
    from craton.engine.tiled import TiledEngine

_T = TypeVar("_T")

#: How the kernel's error messages contain an error of the operating system.
_SYSTEM_ERROR = re.compile(r"\(os error (\d+)\)")


def _prepare(plans: list[Operator]) -> None:
    from craton.lower.decoded import prepare

    prepare(plans)


def _lower(plan: Operator, ordered: bool = True) -> pl.LazyFrame:
    # Imported when the first plan runs, since programs on small frames never run one.
    from craton.lower import lower

    return lower(plan, ordered=ordered)


def sink(plan: Operator, attach: Callable[[pl.LazyFrame], pl.LazyFrame]) -> None:
    """Run a plan into a sink, with its rows in order.

    Parameters
    ----------
    plan
        The plan, before the rewrite rules.
    attach
        Adds a lazy sink to the lowered plan.
    """
    if forks.kernel_lost():
        raise Unsupported(Refusal.FORKED_WITHOUT_KERNEL)
    started = time.perf_counter()
    wanted = without_repeated_parts(results.substitute(with_kept_columns(plan)), _rows)
    optimized = optimize(wanted)
    _prepare([optimized])
    scanned = _scanned_rows([optimized])
    try:
        with _tiled_rows(wanted, optimized) as rows:
            if rows is None:
                _run([attach(_lower(optimized))], [optimized], lambda: f"writing, from ~{scanned:,} rows")
            else:
                run_all([attach(rows)], expected_rows=0, describe=str)
                check_held(op.source for op in _scans([optimized]))
    except pl.exceptions.PolarsError as error:
        if code := _SYSTEM_ERROR.search(str(error)):
            raise OSError(int(code[1]), os.strerror(int(code[1]))) from error
        raise
    if events.active:
        operators = len(topological(plan))
        events.emit("run", seconds=time.perf_counter() - started, rows=scanned, operators=operators)


def execute(
    plans: list[Operator],
    *,
    ordered: bool = True,
    beside: tuple[Operator, Operator, int] | None = None,
    remember: bool = True,
    before: Callable[[list[Operator]], None] | None = None,
) -> list[pl.DataFrame]:
    """Run plans together; plans whose results are cached are not run.

    Parameters
    ----------
    plans
        The plans, before the rewrite rules.
    ordered
        Whether the row order of the results is observed.
    beside
        An operator within the plans, a projection of it to some columns, and a number of rows. The projection is computed
        once, the plans read it in place of the operator, and it is cached if it has at most that many rows.
    remember
        Whether the results are cached.
    before
        Called before the run with the plans whose results are not cached.
    """

    def run() -> list[pl.DataFrame]:
        if before is not None:
            before(_without_result(plans, ordered))
        return _execute(plans, ordered, beside, remember)

    wanted = [plan.digest for plan in _without_result(plans, ordered) if not reads_memory(plan)]
    if not remember or not wanted:
        return run()
    with locks.plans.hold(*wanted):  # another thread that is running one of them will have cached its result
        return run()


def _without_result(plans: list[Operator], ordered: bool) -> list[Operator]:
    return [plan for plan in plans if not results.covers(plan, set(schema(plan)), ordered)]


def _execute(
    plans: list[Operator], ordered: bool, beside: tuple[Operator, Operator, int] | None, remember: bool
) -> list[pl.DataFrame]:
    found = [results.get(plan, ordered) for plan in plans]
    missing = [i for i, frame in enumerate(found) if frame is None]
    if missing and forks.kernel_lost():
        for i, frame in zip(missing, _run_in_kernel_process([plans[i] for i in missing], ordered), strict=True):
            found[i] = frame
    elif missing:
        started = time.perf_counter()
        reading = [results.substitute(with_kept_columns(plans[i], ordered), ordered) for i in missing]
        wanted = [without_repeated_parts(plan, _rows) for plan in reading]
        shared: list[Operator] = []
        tiled = chosen_engine(wanted, ordered)
        if tiled is not None and tiled.bounded:
            beside = None  # it may be large, so it runs as part of the plans and goes through the store
        more: list[pl.LazyFrame] = []
        if beside is not None:
            core, projection, rows = beside
            shared = [optimize(results.substitute(projection, ordered=False))]
            source: Source
            if tiled is not None:
                digests = [set().union(*(same_rows_digests(core, plan) for plan in plans))]
                (kept,) = with_pandas_errors(partial(tiled.collect, shared, ordered=False, digests=digests), shared)
                source = MemorySource.of(kept)
            else:
                _prepare(shared)
                source = SharedSource.of(_lower(shared[0], ordered=False).cache(), schema(projection))
                more = [source.frame.head(rows + 1)]
            scan = Scan(source, tuple(schema(projection)))
            wanted = [prune_columns(plan, lambda op, _: scan if op == core else None) for plan in wanted]
        optimized = [optimize(plan) for plan in wanted]
        ran = []
        if tiled is not None and (beside is None or tiled.takes(optimized)):
            digests = [same_rows_digests(plans[i], plans[i]) for i in missing]
            _prepare(optimized)
            with single_node_fallback(tiled, optimized):
                ran = with_pandas_errors(partial(tiled.collect, optimized, ordered, digests), optimized)
        if not ran:
            ran = run_on_single_node(optimized, ordered, shared, more)
            if more:
                kept = ran.pop()
        if beside is not None and kept.height <= rows:
            _remember(core, kept)
        for i, read, frame in zip(missing, reading, ran, strict=True):
            found[i] = results.put(plans[i], frame, ordered) if remember and not _is_in_memory(read) else frame
        if events.active:
            operators = sum(len(topological(plans[i])) for i in missing)
            produced = sum(frame.height for frame in found if frame is not None)
            events.emit("run", seconds=time.perf_counter() - started, rows=produced, operators=operators)
    return [frame for frame in found if frame is not None]


def _is_in_memory(plan: Operator) -> bool:
    """Whether a plan only selects columns of rows in memory, so that caching its result would copy them."""
    while isinstance(plan, Project) and all(isinstance(expr, Column) for _, expr in plan.columns):
        plan = plan.input
    return isinstance(plan, Scan) and isinstance(plan.source, MemorySource) and plan.predicate is None


def _rows(plan: Operator) -> pl.DataFrame:
    (frame,) = execute([plan])
    return frame


def _run_in_kernel_process(plans: list[Operator], ordered: bool) -> list[pl.DataFrame]:
    """Run plans in the kernel process, since this process lost its kernel in a fork."""
    from craton.engine.kernel_process import call_in_kernel_process

    started = time.perf_counter()
    frames = call_in_kernel_process(execute, plans, ordered=ordered)
    if events.active:
        operators = sum(len(topological(plan)) for plan in plans)
        rows = sum(frame.height for frame in frames)
        events.emit("run", seconds=time.perf_counter() - started, rows=rows, operators=operators)
    return frames


@contextlib.contextmanager
def _tiled_rows(plan: Operator, optimized: Operator) -> Iterator[pl.LazyFrame | None]:
    """The rows of a plan that runs as tiles; None if it runs on a single node. Raises pandas' errors where pandas would."""
    engine = chosen_engine([plan])
    with contextlib.ExitStack() as stack:
        rows = None
        if engine is not None:
            with single_node_fallback(engine, [optimized]):
                rows = with_pandas_errors(lambda: stack.enter_context(engine.rows(optimized)), [optimized])
        yield rows


@contextlib.contextmanager
def single_node_fallback(engine: TiledEngine, plans: list[Operator]) -> Iterator[None]:
    """Suppress errors of a tiled run after which the caller may retry on a single node.

    These are a bounded run that exceeds memory even as tiles, since some inputs cannot be cut, and a run that fails after a
    file was replaced or removed, which this process may still have open.
    """
    try:
        yield
    except MemoryError:
        if not engine.bounded:
            raise
    except (OSError, pl.exceptions.PolarsError):
        if in_place(op.source for op in _scans(plans)):
            raise


def run_on_single_node(
    plans: list[Operator], ordered: bool, shared: list[Operator], more: list[pl.LazyFrame]
) -> list[pl.DataFrame]:
    """Run optimized plans, and frames that are lowered already, in one run of the kernel in this process."""
    _prepare(plans)
    lowered = [*(_lower(plan, ordered=ordered) for plan in plans), *more]
    every = [*plans, *shared]

    def describe() -> str:
        operators = [op for plan in every for op in topological(plan)]
        return f"{len(operators)} operators over ~{_scanned_rows(every):,} rows"

    return _run(lowered, every, describe)


def _scans(plans: list[Operator]) -> list[Scan]:
    return [op for plan in plans for op in topological(plan) if isinstance(op, Scan)]


def _scanned_rows(plans: list[Operator]) -> int:
    """The estimated number of rows that plans read."""
    return sum(map(estimated_rows, _scans(plans)))


def _run(frames: list[pl.LazyFrame], plans: list[Operator], describe: Callable[[], str]) -> list[pl.DataFrame]:
    """Run lowered plans in memory that is reserved in the store, and raise pandas' errors where pandas would.

    Parameters
    ----------
    frames
        The lowered plans, with their sinks if they have any.
    plans
        The optimized plans from which they were lowered.
    describe
        Returns a short description of the run, for the progress line.
    """
    nbytes = sum(scanned_bytes(op) for op in _scans(plans) if isinstance(op.source, FileSource))
    rows = _scanned_rows(plans)
    run = partial(run_all, frames, expected_rows=rows, expected_bytes=nbytes, describe=describe)
    return with_pandas_errors(run, plans)


def with_pandas_errors(run: Callable[[], _T], plans: list[Operator]) -> _T:
    """Call ``run``; raise pandas' errors where pandas would, and SourceChanged if a file changed before or during the run."""
    sources = [op.source for op in _scans(plans)]
    check_held(sources, remote=True)
    try:
        result = run()
    except (pl.exceptions.PolarsError, OSError) as error:
        if not isinstance(error, SourceChanged):
            check_held(sources)
            raise_pandas_error(plans, error)
        raise
    except Exception as error:
        _raise_without_context(error)
        raise
    check_held(sources)
    return result


def _remember(op: Operator, frame: pl.DataFrame) -> None:
    """Cache rows that are in arbitrary order; those of a sorted aggregate are sorted first."""
    keys = [name for name, _ in op.keys] if isinstance(op, Aggregate) and op.sort else []
    if keys and set(keys) <= set(frame.columns):
        results.put(op, frame.sort(keys, nulls_last=True), ordered=True, over_memory=True)
    else:
        results.put(op, frame, ordered=False, over_memory=True)


def _raise_without_context(error: Exception) -> None:
    """Raise an error of Python code in a batch again, without the text that the kernel has appended."""
    text, added, _ = str(error).partition("\n\nThis error occurred in the following expression")
    if added:
        raise type(error)(text) from None


def raise_pandas_error(plans: list[Operator], error: Exception) -> None:
    """After a failed run: if pandas cannot read one of the files either, raise pandas' error."""
    for plan in plans:
        for op in topological(plan):
            if isinstance(op, Scan) and isinstance(op.source, FileSource) and op.source.reopen is not None:
                try:
                    op.source.reopen()
                except Exception as pandas_error:
                    raise pandas_error from error


def same_rows_digests(core: Operator, plan: Operator) -> set[bytes]:
    """The digests of operators with the same rows: an operator, its input if it is a projection, and projections of it."""
    found = {core.digest, core.input.digest} if isinstance(core, Project) else {core.digest}
    for op in reversed(topological(plan)):
        if isinstance(op, Project) and op.input.digest in found:
            found.add(op.digest)
    return found
