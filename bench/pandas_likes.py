"""Engines with a pandas API: the module that a program uses as ``pd``, and the call that computes a lazy result.

Only calls that an engine's own documentation requires are added to a pandas program here. The benchmark reports
features that an engine does not support.
"""

from __future__ import annotations

import functools
import importlib
import os
import sys
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

__all__ = ["PANDAS_LIKES", "PandasLike", "cores", "spark_session"]


def cores() -> int:
    """Return the number of cores, for engines that must be given it: ``BENCH_CORES``, or all cores of the machine."""
    return int(os.environ.get("BENCH_CORES") or os.cpu_count() or 2)


_CACHED = type(functools.lru_cache(cores))
"""The type of functions with a cache. Craton's other caches are ordered dictionaries, because they have a size limit."""


class Namespace:
    """A module that returns pandas' own objects for names that the wrapped module lacks or has only as placeholders."""

    def __init__(self, module: Any, pandas: Any, **given: Any) -> None:
        self._module = module
        self._pandas = pandas
        self._given = {"Timestamp": pandas.Timestamp, **given}

    def __getattr__(self, name: str) -> Any:
        if name in self._given:
            return self._given[name]
        try:
            return getattr(self._module, name)
        except AttributeError:
            return getattr(self._pandas, name)


class PandasLike:
    """pandas itself, and the base class of the other engines.

    Attributes
    ----------
    pd : module or Namespace
        The module that a pandas program imports as ``pd``.
    """

    packages: tuple[str, ...] = ("pandas",)

    def __init__(self) -> None:
        self.pd: Any = importlib.import_module("pandas")

    def versions(self) -> dict[str, str]:
        """Return the versions of the packages that determine the engine's speed."""
        return {name: importlib.import_module("importlib.metadata").version(name) for name in self.packages}

    def forget(self) -> None:
        """Clear the engine's caches of results, so that a repeated run computes them again."""

    def materialise(self, result: Any) -> Any:
        """Compute a lazy result, and return it in memory in the engine's own format. This is timed."""
        return result

    def to_pandas(self, result: Any) -> Any:
        """Convert a materialised result to pandas. This is not timed."""
        return result

    def from_pandas(self, frame: Any) -> Any:
        """Convert a pandas frame to the engine's own format, in memory."""
        return frame


class Craton(PandasLike):
    """Craton itself."""

    packages = ("polars", "pandas", "pyarrow")

    def __init__(self) -> None:
        self.pd = importlib.import_module("craton.pandas")
        self._pandas = importlib.import_module("pandas")
        self._clear_memory = importlib.import_module("craton.memory").clear_memory

    def versions(self) -> dict[str, str]:
        """Return the versions of Craton and of its dependencies."""
        return {
            "craton": getattr(importlib.import_module("craton"), "__version__", "development"),
            **super().versions(),
        }

    def from_pandas(self, frame: Any) -> Any:
        """Return a frame over the same arrays."""
        return self.pd.DataFrame({name: frame[name].to_numpy() for name in frame.columns}, copy=False)

    def forget(self) -> None:
        """Drop the results of earlier plans, and clear every cache of Craton's modules: footers, schemas, templates, functions."""
        self._clear_memory()
        for module in [module for name, module in sys.modules.items() if name.split(".")[0] == "craton"]:
            for value in vars(module).values():
                if isinstance(value, _CACHED):
                    value.cache_clear()
                elif isinstance(value, OrderedDict):
                    value.clear()

    def materialise(self, result: Any) -> Any:
        """Run the plan. The result stays a frame of Craton's class, which is pandas' own in memory."""
        getattr(result, "_mgr", None)
        return result


class Modin(PandasLike):
    """Modin on Ray."""

    packages = ("modin", "ray", "pandas")

    def __init__(self) -> None:
        os.environ.setdefault("MODIN_ENGINE", "ray")
        ray = importlib.import_module("ray")
        ray.init(num_cpus=cores(), include_dashboard=False, log_to_driver=False, logging_level="error")
        self.pd = importlib.import_module("modin.pandas")

    def from_pandas(self, frame: Any) -> Any:
        """Convert the frame to Modin's."""
        return self.pd.DataFrame(frame)

    def materialise(self, result: Any) -> Any:
        """Convert the result to pandas, because Modin's results are futures until then."""
        return result.modin.to_pandas()


class Dask(PandasLike):
    """Dask's data frames on its default scheduler, which uses threads.

    Dask has no ``as_index`` in ``groupby`` and no ``name`` in ``reset_index``, and cannot make a frame of lazy scalars. This
    class adds the calls that users write instead: ``reset_index()``, ``to_frame(name)``, ``compute()``.
    """

    packages: tuple[str, ...] = ("dask", "pandas")

    def __init__(self) -> None:
        self._dask = importlib.import_module("dask")
        frames = importlib.import_module("dask.dataframe")
        pandas = importlib.import_module("pandas")
        self._dask.config.set(num_workers=cores())
        self.pd = Namespace(frames, pandas, DataFrame=lambda data: pandas.DataFrame(*self._dask.compute(data)))
        groupby, reset_index = frames.DataFrame.groupby, frames.Series.reset_index

        def groupby_columns(frame: Any, by: Any, as_index: bool = True, **options: Any) -> Any:
            groups = groupby(frame, by, **options)
            return groups if as_index else ResetGroups(groups)

        def reset_named(series: Any, drop: bool = False, name: str | None = None) -> Any:
            return reset_index(series, drop) if name is None else series.to_frame(name).reset_index()

        frames.DataFrame.groupby = groupby_columns
        frames.Series.reset_index = reset_named

    def materialise(self, result: Any) -> Any:
        """Call ``compute()``."""
        return result.compute() if hasattr(result, "compute") else result

    def from_pandas(self, frame: Any) -> Any:
        """Split the frame into one partition per core, and persist them."""
        return self.pd.from_pandas(frame, npartitions=cores(), sort=False).persist()


class ResetGroups:
    """Dask's groups, with the keys as columns in aggregates, as with ``as_index=False``."""

    def __init__(self, groups: Any) -> None:
        self._groups = groups

    def __getitem__(self, key: Any) -> ResetGroups:
        return ResetGroups(self._groups[key])

    def agg(self, *given: Any, **named: Any) -> Any:
        """Aggregate."""
        return self._groups.agg(*given, **named).reset_index()

    def sum(self) -> Any:
        """Add up."""
        return self._groups.sum().reset_index()


class FireDucks(PandasLike):
    """FireDucks."""

    packages = ("fireducks", "pandas")

    def __init__(self) -> None:
        self.pd = importlib.import_module("fireducks.pandas")

    def from_pandas(self, frame: Any) -> Any:
        """Convert the frame to FireDucks', and evaluate it."""
        held = self.pd.DataFrame(frame)
        held._evaluate()
        return held

    def materialise(self, result: Any) -> Any:
        """Call ``_evaluate()``, which FireDucks' documentation recommends for measurements."""
        result._evaluate()
        return result

    def to_pandas(self, result: Any) -> Any:
        """Return pandas data."""
        return result.to_pandas()


def spark_session() -> Any:
    """Return a Spark session in local mode."""
    sql = importlib.import_module("pyspark.sql")
    return (
        sql.SparkSession.builder.master(f"local[{cores()}]")
        .config("spark.driver.memory", os.environ.get("BENCH_SPARK_MEMORY", "4g"))
        .config("spark.sql.shuffle.partitions", str(2 * cores()))
        .config("spark.sql.execution.arrow.pyspark.enabled", "true")
        .config("spark.ui.enabled", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.sql.ansi.enabled", "false")
        .getOrCreate()
    )


class PySpark(PandasLike):
    """Spark's pandas API in local mode, with operations between frames allowed."""

    packages = ("pyspark", "pandas")

    def __init__(self) -> None:
        self._session = spark_session()
        module = importlib.import_module("pyspark.pandas")
        module.set_option("compute.ops_on_diff_frames", True)
        self.pd = Namespace(module, importlib.import_module("pandas"))

    def materialise(self, result: Any) -> Any:
        """Convert the result to pandas, in the driver."""
        return result.to_pandas() if hasattr(result, "to_pandas") else result

    def from_pandas(self, frame: Any) -> Any:
        """Convert the frame, and cache it in Spark."""
        cached = self.pd.from_pandas(frame).spark.cache()
        len(cached)
        return cached


class Bodo(PandasLike):
    """Bodo's lazy data frames."""

    packages = ("bodo", "pandas")

    def __init__(self) -> None:
        self.pd = Namespace(importlib.import_module("bodo.pandas"), importlib.import_module("pandas"))

    def materialise(self, result: Any) -> Any:
        """Run the plan."""
        if hasattr(result, "execute_plan"):
            result.execute_plan()
        return result

    def from_pandas(self, frame: Any) -> Any:
        """Convert the frame to Bodo's."""
        return self.pd.from_pandas(frame)


PANDAS_LIKES: dict[str, Callable[[], PandasLike]] = {
    "pandas": PandasLike,
    "craton": Craton,
    "modin": Modin,
    "dask": Dask,
    "fireducks": FireDucks,
    "pyspark": PySpark,
    "bodo": Bodo,
}
