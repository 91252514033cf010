"""The modes in which Craton runs programs: as one query, in tiles, without remembered results, on workers."""

from __future__ import annotations

import contextlib
import functools
import glob
import itertools
import random
import shutil
import tempfile
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any
from unittest import mock

import fsspec
import pandas

import craton
import craton.pandas as pd
from craton.engine.tiled import TiledEngine, using
from craton.lower import algorithms, ordering, packed_keys, skipping
from craton.lower.tiled import Settings, stage
from craton.pandas.udf import groups, known_functions
from craton.pandas.values import mapping, membership, repeated_values
from craton.plan.functions import ranks
from craton.plan.rules import eager, late_materialisation, semi_join_reduction
from craton.schedule.inline import InlineRunner
from craton.store import close_store, durable_files


@functools.lru_cache(1)
def _runner() -> InlineRunner:
    return InlineRunner()


@contextlib.contextmanager
def _single_node() -> Iterator[None]:
    with craton.option_context(small_rows=0):
        yield


@contextlib.contextmanager
def _default() -> Iterator[None]:
    yield


@contextlib.contextmanager
def _in_memory() -> Iterator[None]:
    """Frames of two rows and more are planned, except for calls that pandas computes at once on data in memory."""
    with craton.option_context(small_rows=1):
        yield


@contextlib.contextmanager
def _no_memory() -> Iterator[None]:
    with craton.option_context(small_rows=0, result_memory=0):
        yield


def _tiles(count: int, broadcast: int = 1) -> Callable[[], contextlib.AbstractContextManager[None]]:
    @contextlib.contextmanager
    def mode() -> Iterator[None]:
        settings = Settings(tiles=count, broadcast_bytes=broadcast, collapse_bytes=0)
        engine = TiledEngine(_runner(), settings=settings, least_bytes=0)
        with craton.option_context(small_rows=0), using(engine):
            yield

    return mode


#: Constants that choose algorithms by size, set so that the algorithms for large tables are used from the first row.
_SIZES: tuple[tuple[ModuleType, dict[str, float]], ...] = (
    (semi_join_reduction, {"LARGE_ROWS": 0, "SMALL_SHARE": float("inf"), "FILTERED_SHARE": 1.0}),
    (eager, {"LARGE_ROWS": 0, "ROWS_A_PARTNER": 0, "FILTERED_SHARE": 1.0}),
    (late_materialisation, {"LARGE_TABLE": 0, "LEAST_STRINGS": 1}),
    (algorithms, {"MANY_ROWS": 0, "MANY_GROUPS": 0.0}),
    (ordering, {"FEWEST_ROWS": 0}),
    (ranks, {"FEW_TEXTS": 100}),
    (packed_keys, {"FEWEST_ROWS": 0, "FEW_TEXTS": 100, "MOST_GROUPS": 0}),
    (membership, {"JOIN_FROM": 1}),
    (mapping, {"MAX_MAPPING_VALUES": 1}),
    (stage, {"_FEWEST_ROWS": 16}),
    (repeated_values, {"_FEWEST_ROWS": 1, "_ROWS_PER_VALUE": 0}),
    (known_functions, {"_FEWEST_ROWS": 1}),
    (groups, {"_LARGE": 1}),
)


def _large(
    below: Callable[[], contextlib.AbstractContextManager[None]],
) -> Callable[[], contextlib.AbstractContextManager[None]]:
    """Another mode in which every table counts as large, so that all rewrite rules and sort algorithms for large tables apply."""

    @contextlib.contextmanager
    def mode() -> Iterator[None]:
        with contextlib.ExitStack() as stack:
            for module, values in _SIZES:
                stack.enter_context(mock.patch.multiple(module, **values))
            yield stack.enter_context(below())

    return mode


#: The store's memory limit in bytes in the mode ``spill``, whose tables are larger.
SPILL_LIMIT = 4 << 20


@contextlib.contextmanager
def _spill() -> Iterator[None]:
    """Run plans with a store that has room for only a few pages, and without broadcasts or merged tiles.

    The engine is `bounded`, like the one for plans larger than the memory limit: a plan that does not fit beside the rows that
    the program holds runs on a single node.
    """
    settings = Settings(tiles=3, broadcast_bytes=1, collapse_bytes=0, pinned_bytes=1)
    engine = TiledEngine(_runner(), settings=settings, least_bytes=0, bounded=True)
    craton.shutdown()  # because a session does not survive the closing of its store
    close_store()
    try:
        with craton.option_context(small_rows=0, memory_limit=SPILL_LIMIT), using(engine):
            yield
            craton.clear_memory()
    finally:
        close_store()


@contextlib.contextmanager
def _session() -> Iterator[None]:
    """Two local workers run every plan, however small."""
    from craton.cluster.sessions import current

    session = current()
    if session is None or session.host == "embedded":
        session = craton.init("local", workers=2, threads=1)
    settings = Settings(tiles=3, broadcast_bytes=1, collapse_bytes=0)
    engine = TiledEngine(session.runner, session.call, settings, least_bytes=0, where="on the session")
    with craton.option_context(small_rows=0), using(engine):
        yield


def _read_set(path: Any, *args: Any, **named: Any) -> Any:
    """Save the rows of a Parquet file as a durable set, and read that: in order, or partitioned by one of its columns, or appended.

    Sets with partitions may be spread over places, of which as many as they survive are lost before the set is read.
    """
    if args or named or not str(path).endswith(".parquet"):
        return _READ_PARQUET(path, *args, **named)
    rows = pandas.read_parquet(path)
    rng = random.Random(f"{rows.shape} {list(rows.columns)}")
    name = f"set{next(_numbers)}"
    how: dict[str, Any] = {}
    names = [label for label in rows.columns if isinstance(label, str)]
    if names and rng.random() < 0.7:
        how = {"partition_by": rng.choice(names), "kind": rng.choice(["hash", "range"]), "partitions": 3}
    if names and rng.random() < 0.4:
        how |= {"replicate_by": [rng.choice(names)], "partitions": 3}
    places = list(craton.options.data_places)
    if how and places and rng.random() < 0.5:
        how["losses"] = rng.choice([1, 2])
    default = rows.index.equals(pandas.RangeIndex(len(rows))) and rows.index.name is None
    in_parts = default and len(rows) > 4 and rng.random() < 0.5
    first = rows.iloc[: len(rows) // 3] if in_parts else rows
    for layout in (how, {}):
        try:
            craton.save(name, first, **layout)
        except ValueError:  # a column that is no key; labels that are no texts
            continue
        if in_parts:
            craton.save(name, rows.iloc[len(first) :].reset_index(drop=True), mode="append")
        for place in rng.sample(places, layout.get("losses", 0)):
            for lost in glob.glob(f"{place}/default/{name}-*"):
                shutil.rmtree(lost)
        return craton.read_set(name)
    return _READ_PARQUET(path)


_READ_PARQUET = pd.read_parquet
_numbers = itertools.count()


def _sets(
    below: Callable[[], contextlib.AbstractContextManager[None]],
) -> Callable[[], contextlib.AbstractContextManager[None]]:
    """Another mode in which Parquet files are saved as durable sets, with pages of a few rows, and read from these."""

    @contextlib.contextmanager
    def mode() -> Iterator[None]:
        with (
            tempfile.TemporaryDirectory(prefix="fuzz-sets-") as folder,
            mock.patch.object(pd, "read_parquet", _read_set),
            mock.patch.object(durable_files, "PAGE_ROWS", 3),
            mock.patch.object(skipping, "_WORTHWHILE", 1.0),
            craton.option_context(data=folder, data_places=[f"{folder}/{i}" for i in range(4)]),
            below(),
        ):
            yield

    return mode


@contextlib.contextmanager
def _sets_of_objects() -> Iterator[None]:
    """The durable sets are in an object store."""
    url = "memory://fuzz/sets"
    with (
        tempfile.TemporaryDirectory(prefix="fuzz-copies-") as folder,
        craton.option_context(data=url, data_places=(), data_cache=folder),
        _single_node(),
    ):
        yield
        with contextlib.suppress(FileNotFoundError):
            fsspec.filesystem("memory").rm("/fuzz/sets", recursive=True)


#: Modes that change the program (:mod:`tests.fuzz.metamorphic`). The changed program runs on a single node.
CHANGED = (
    "evaluations",
    "evaluations-bits",
    "reordered",
    "reordered-bits",
    "split",
    "renamed",
    "spill",
    "sets",
    "sets-tiles3",
    "sets-objects",
)
#: Modes that must give the same bits as a single-node run, with the option ``reproducible``.
SAME_BITS = ("bits-tiles2", "bits-tiles3", "bits-tiles17", "bits-session")

MODES: dict[str, Callable[[], contextlib.AbstractContextManager[None]]] = {
    "single-node": _single_node,
    "default": _default,
    "in-memory": _in_memory,
    "no-memory": _no_memory,
    "tiles1": _tiles(1),
    "tiles2": _tiles(2),
    "tiles3": _tiles(3),
    "tiles3-broadcast": _tiles(3, 1 << 20),
    "tiles17": _tiles(17),
    "large": _large(_single_node),
    "large-tiles3": _large(_tiles(3)),
    "session": _session,
    **dict.fromkeys(CHANGED, _single_node),
    "spill": _spill,
    "sets": _sets(_single_node),
    "sets-tiles3": _sets(_tiles(3)),
    "sets-objects": _sets(_sets_of_objects),
}
MODES |= {name: MODES[name.removeprefix("bits-")] for name in SAME_BITS}
