"""Craton's sessions and the clusters that they are compared with. The module is imported in the contestant's own environment.

``embedded`` is Craton without a session; ``local``, ``on-ray`` and ``on-dask`` are Craton on a session of that host; ``tiles``
runs plans in a given number of tiles in one process; ``ranks`` is an SPMD program. ``dask`` is Dask's data frames on a cluster of
processes, ``modin`` is Modin on Ray, ``pyspark`` is Spark's pandas API, and ``spark`` is Spark's SQL or its own data frames.

Results of CylonFlow's operators stay on Dask's and Spark's workers, and in Craton's store.
"""

from __future__ import annotations

import functools
import importlib
import json
import os
import re
from collections.abc import Iterator
from typing import Any

from bench.clusters.ranks import RankOperators, digest_part, merged
from bench.cylon.contestants import ORDERED_BY, SCALAR, PandasOperators
from bench.harness import answers
from bench.harness.worker import Contestant
from bench.pandas_likes import PANDAS_LIKES, Craton, Dask, PandasLike, cores, spark_session
from bench.tpch.contestants import TABLES, PandasQueries

__all__ = ["HOSTS", "OURS", "PEERS", "digest_part", "exact_table", "merged", "open_contestant"]

HOSTS = {"local": "local", "on-ray": "ray", "on-dask": "dask"}
"""The contestants that run Craton on a session, with the session's host."""

OURS = ("embedded", *HOSTS)

PEERS = {"dask": "dask", "modin": "modin", "pyspark": "pyspark", "spark": "pyspark"}
"""The contestants other than Craton, with the names of their environments."""


# ---- Craton ----


class OnSession(Craton):
    """Craton on a session.

    Parameters
    ----------
    host : str
        See ``craton.init``.
    workers, threads : int
        The number of workers, and the threads of each.
    least : int or None
        Bytes that a plan must read to run on the session; None for Craton's default.
    persists : bool
        Whether results stay in the session's store.
    """

    def __init__(self, host: str, workers: int, threads: int, least: int | None, *, persists: bool = False) -> None:
        super().__init__()
        importlib.import_module("craton").init(host, workers=workers, threads=threads)
        self.tiled: Any = importlib.import_module("craton.engine.tiled").current_engine()
        if least is not None:
            self.tiled.least_bytes = least
        self._persists = persists

    def materialise(self, result: Any) -> Any:
        """Run the plan; the result becomes pandas data or, with `persists`, stays in the store."""
        return result.persist() if self._persists else super().materialise(result)


class InTiles(Craton):
    """Craton in one process, with every plan in a given number of tiles.

    Parameters
    ----------
    tiles : int
        The number of tiles.
    broadcast : int or None
        A side of a join with at most so many bytes is broadcast to all tiles of the other side. Small tiles are combined up
        to the same size, at most 4 MiB. None for Craton's defaults.
    """

    def __init__(self, tiles: int, broadcast: int | None) -> None:
        super().__init__()
        running, tiled = map(importlib.import_module, ("craton.engine.tiled", "craton.lower.tiled"))
        inline = importlib.import_module("craton.schedule.inline")
        given = {} if broadcast is None else {"broadcast_bytes": broadcast, "collapse_bytes": min(broadcast, 4 << 20)}
        settings = tiled.Settings(tiles=tiles, **given)
        self.tiled: Any = running.TiledEngine(inline.InlineRunner(), settings=settings, least_bytes=0)
        running.set_engine(self.tiled)


class Queries(PandasQueries):
    """TPC-H under an engine, with an exact comparison of the results.

    Parameters
    ----------
    engine : PandasLike
        The engine that runs the queries.
    folder : str
        The folder of the Parquet files.
    exact : bool
        Whether answers include types and the index.
    every : bool
        Raise an error if a query ran none of its plans in tiles.
    """

    def __init__(self, engine: PandasLike, folder: str, *, exact: bool, every: bool) -> None:
        super().__init__(engine, folder)
        self._exact, self._every = exact, every

    def run(self, case: str) -> Any:
        """Run a query to a result in memory."""
        tiled = getattr(self._engine, "tiled", None)
        before = 0 if tiled is None else tiled.runs
        result = super().run(case)
        if self._every and tiled is not None and tiled.runs == before:
            raise RuntimeError("the query ran none of its plans in tiles")
        return result

    def answer(self, case: str, result: Any) -> Any:
        """Return the result as a table."""
        return exact_table(self._engine.to_pandas(result)) if self._exact else super().answer(case, result)


def exact_table(frame: Any) -> dict[str, Any]:
    """Return a pandas frame as an answer that includes types and the index."""
    index = frame.index
    names = [f"{name}: {dtype}" for name, dtype in zip(frame.columns, frame.dtypes, strict=True)]
    columns = [frame.iloc[:, at].tolist() for at in range(frame.shape[1])]
    label = f"{index.names!r}: {type(index).__name__} of {index.dtype}"
    return answers.table([*names, label], zip(*columns, [str(value) for value in index], strict=True))


# ---- CylonFlow's operators elsewhere ----


class DaskCluster(Dask):
    """Dask's data frames on a cluster of processes of this machine."""

    packages: tuple[str, ...] = ("dask", "distributed", "pandas")

    def __init__(self, workers: int, threads: int) -> None:
        distributed = importlib.import_module("distributed")
        cluster = distributed.LocalCluster(
            n_workers=workers, threads_per_worker=threads, processes=True, dashboard_address=None
        )
        self.client: Any = distributed.Client(cluster)
        self.wait: Any = distributed.wait
        super().__init__()


class SessionOperators(PandasOperators):
    """CylonFlow's operators on a session. Frames and results stay in its store, as they stay on the workers of other clusters."""

    def __init__(self, engine: OnSession, folder: str, source: str) -> None:
        super().__init__(engine, folder, "parquet")
        self._result: Any = None
        if source == "memory":
            self._frames = {side: self._frame(side).persist() for side in ("left", "right")}

    def run(self, case: str) -> Any:
        """Run an operator to a result in the store."""
        if self._result is not None:
            self._result.unpersist()
        self._result = super().run(case)
        return self._result


class DaskOperators(PandasOperators):
    """CylonFlow's operators on Dask's workers, where frames and results stay."""

    def __init__(self, engine: DaskCluster, folder: str, source: str, partitions: int) -> None:
        super().__init__(engine, folder, "parquet")
        self._cluster, self._partitions = engine, partitions
        if source == "memory":
            self._frames = {side: self._kept(self._frame(side)) for side in ("left", "right")}

    def _kept(self, frame: Any) -> Any:
        kept = frame.persist()
        self._cluster.wait(kept)
        return kept

    def run(self, case: str) -> Any:
        """Run an operator. Aggregates get the number of output partitions that is fastest here; Dask's default is one."""
        left, parts = self._frame("left"), self._partitions
        if case == "join":
            result = left.merge(self._frame("right"), on="key")
        elif case == "groupby":
            result = left.groupby("key").agg({"value": "sum"}, split_out=parts).reset_index()
        elif case == "sort":
            result = left.sort_values("key")
        else:
            joined = left.merge(self._frame("right"), on="key")
            totals = joined.groupby("key").agg({"value": "sum", "other": "sum"}, split_out=parts).reset_index()
            result = totals.sort_values("value") + SCALAR
        return self._kept(result)

    def answer(self, case: str, result: Any) -> Any:
        """Return the digest of the result, computed on the workers that hold its partitions."""
        order = ORDERED_BY.get(case)
        delayed = importlib.import_module("dask").delayed(_digest_of_frame)
        found = self._cluster.client.compute([delayed(part, order) for part in result.to_delayed()])
        return merged(self._cluster.client.gather(found), order)


def _digest_of_frame(frame: Any, ordered_by: str | None) -> dict[str, Any]:
    return digest_part({str(name): frame[name].to_numpy() for name in frame.columns}, ordered_by)


class SparkQueries:
    """TPC-H in Spark's SQL. The texts are changed where Spark's parser lacks a feature."""

    DIALECT = ((r"as materialized \(", "as ("), (r"1\.0::double", "cast(1.0 as double)"))

    def __init__(self, folder: str) -> None:
        self._sql: dict[str, str] = dict(importlib.import_module("bench.tpch.sql").SQL)
        for ours, theirs in self.DIALECT:
            self._sql = {name: re.sub(ours, theirs, text) for name, text in self._sql.items()}
        self._session = spark_session()
        for table in TABLES:
            self._session.read.parquet(f"{folder}/{table}.parquet").createOrReplaceTempView(table)

    def versions(self) -> dict[str, str]:
        """Return Spark's version."""
        return {"pyspark": importlib.import_module("pyspark").__version__}

    def run(self, case: str) -> Any:
        """Run a query."""
        return self._session.sql(self._sql[case]).toPandas()

    def answer(self, case: str, result: Any) -> Any:
        """Return the result as a table."""
        columns = [result.iloc[:, at].tolist() for at in range(result.shape[1])]
        return answers.table(result.columns, zip(*columns, strict=True))


class SparkOperators:
    """CylonFlow's operators on Spark's own data frames; results are computed completely and stay on the workers."""

    def __init__(self, folder: str, source: str) -> None:
        self._session = spark_session()
        self._frames = {side: self._session.read.parquet(f"{folder}/{side}.parquet") for side in ("left", "right")}
        if source == "memory":
            for frame in self._frames.values():
                frame.cache().count()

    def versions(self) -> dict[str, str]:
        """Return Spark's version."""
        return {"pyspark": importlib.import_module("pyspark").__version__}

    def run(self, case: str) -> Any:
        """Run an operator."""
        left, right = self._frames["left"], self._frames["right"]
        functions = importlib.import_module("pyspark.sql.functions")
        total = [functions.sum(name).alias(name) for name in ("value", "other")]
        if case == "join":
            result = left.join(right, on="key")
        elif case == "groupby":
            result = left.groupBy("key").agg(total[0])
        elif case == "sort":
            result = left.sort("key")
        else:
            sorted_totals = left.join(right, on="key").groupBy("key").agg(*total).sort("value")
            result = sorted_totals.select(
                *((functions.col(name) + SCALAR).alias(name) for name in sorted_totals.columns)
            )
        result.write.format("noop").mode("overwrite").save()
        return result

    def answer(self, case: str, result: Any) -> Any:
        """Return the digest of the result, computed on the workers that hold its partitions."""
        order = ORDERED_BY.get(case)
        schema = "partition long, batch long, found string"
        rows = result.mapInPandas(functools.partial(_digests_of_frames, ordered_by=order), schema).collect()
        return merged(
            (json.loads(row.found) for row in sorted(rows, key=lambda row: (row.partition, row.batch))), order
        )


def _digests_of_frames(frames: Iterator[Any], ordered_by: str | None) -> Iterator[Any]:
    pandas, context = importlib.import_module("pandas"), importlib.import_module("pyspark").TaskContext.get()
    for number, frame in enumerate(frames):
        found = json.dumps(_digest_of_frame(frame, ordered_by))
        yield pandas.DataFrame({"partition": [context.partitionId()], "batch": [number], "found": [found]})


# ---- what the harness opens ----


def open_contestant(name: str, options: dict[str, Any]) -> Contestant:
    """Return a contestant.

    Parameters
    ----------
    name : str
        Its name in tables.
    options : dict
        ``work``: ``"tpch"`` or ``"cylon"``; ``engine``: one of `OURS` or `PEERS`, ``"tiles"`` or ``"ranks"``; ``folder``: the folder of
        the Parquet files; ``workers`` and ``threads``; ``cores``: the number of cores that it may use; ``exact`` and
        ``every``: see `Queries`; ``least`` and ``broadcast``: bytes, see `OnSession` and `InTiles`; ``tiles``: their number;
        ``source``: ``"memory"`` or ``"parquet"``.
    """
    if options.get("cores"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: options["cores"]])
    engine, folder, work = str(options["engine"]), str(options["folder"]), str(options["work"])
    source = str(options.get("source", "memory"))
    if engine == "spark":
        return SparkQueries(folder) if work == "tpch" else SparkOperators(folder, source)
    if engine == "ranks":
        return RankOperators(folder, options["workers"], source)
    like = _like(engine, options)
    if work == "tpch":
        return Queries(like, folder, exact=bool(options.get("exact")), every=bool(options.get("every")))
    if isinstance(like, DaskCluster):
        return DaskOperators(like, folder, source, 4 * cores())
    if isinstance(like, OnSession):
        return SessionOperators(like, folder, source)
    return PandasOperators(like, folder, source)


def _like(engine: str, options: dict[str, Any]) -> PandasLike:
    if engine in HOSTS:
        persists = options["work"] == "cylon"
        return OnSession(HOSTS[engine], options["workers"], options["threads"], options.get("least"), persists=persists)
    if engine == "tiles":
        return InTiles(options["tiles"], options.get("broadcast"))
    if engine == "dask":
        return DaskCluster(options["workers"], options["threads"])
    return PANDAS_LIKES["craton" if engine == "embedded" else engine]()
