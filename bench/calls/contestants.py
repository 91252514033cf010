"""How each contestant runs the calls. The module is imported in the contestant's own environment.

Answers are digests: for each column its dtype, the number of missing values, and a sum in which each value is weighted
by its row number, so that the order of rows matters.
"""

from __future__ import annotations

import atexit
import importlib
import shutil
import tempfile
from typing import Any

from bench.calls import groups as _groups  # noqa: F401  registers its families
from bench.calls import rows as _rows  # noqa: F401
from bench.calls import values as _values  # noqa: F401
from bench.calls.registry import FAMILIES, Call, Given
from bench.calls.session import polars_session, session
from bench.harness import answers
from bench.harness.worker import Contestant
from bench.pandas_likes import PANDAS_LIKES, PandasLike

__all__ = ["CALLS", "CONTESTANTS", "SESSION", "digest", "open_contestant"]

#: The name of the case that runs the session instead of a single call.
SESSION = "session of 30 steps"
CALLS: dict[str, Call] = {f"{family.name}: {name}": call for family in FAMILIES for name, call in family.calls.items()}
CONTESTANTS = (*PANDAS_LIKES, "polars")
"""The valid names for ``--contestants``."""

NAMES = ("df", "few", "many")


def digest(value: Any) -> Any:
    """Reduce a result to plain values that differ if results differ by more than the last digits of floats."""
    pandas = importlib.import_module("pandas")
    if isinstance(value, pandas.DataFrame):
        labels = value.index.to_frame() if value.index.nlevels > 1 else value.index.to_series()
        columns = [_column(value.iloc[:, i]) for i in range(value.shape[1])]
        return {
            "shape": list(value.shape),
            "names": [str(name) for name in value.columns],
            "columns": columns,
            "index": _labels(labels),
        }
    if isinstance(value, pandas.Series):
        labels = value.index.to_frame() if value.index.nlevels > 1 else value.index.to_series()
        return {"name": str(value.name), "values": _column(value), "index": _labels(labels)}
    if isinstance(value, (tuple, list)):
        return [digest(one) for one in value]
    if isinstance(value, dict):
        return {str(key): digest(one) for key, one in value.items()}
    if hasattr(value, "dtype") and getattr(value, "ndim", 0) > 0:
        flat = value.reshape(-1) if getattr(value, "ndim", 1) > 1 else value
        return _column(pandas.Series(flat))
    return answers.plain(value)


def _labels(labels: Any) -> list[Any]:
    if labels.ndim == 1:
        return [_column(labels)]
    return [_column(labels.iloc[:, i]) for i in range(labels.shape[1])]


def _column(series: Any) -> dict[str, Any]:
    numpy, pandas = importlib.import_module("numpy"), importlib.import_module("pandas")
    dtype = str(series.dtype)
    if isinstance(series.dtype, pandas.DatetimeTZDtype):
        series = series.dt.tz_convert(None)  # times in a zone would become objects
    missing = series.isna().to_numpy()
    places = numpy.arange(len(series)) % 1009 + 1
    if series.dtype.kind in "fiub":
        values = series.to_numpy(dtype="float64", na_value=numpy.nan)
        finite = numpy.isfinite(values)
        total: Any = [float((values * places)[finite].sum()), float(numpy.abs(values[finite]).sum())]
    else:
        given = series.astype(object) if series.dtype.kind == "O" and series.dtype != object else series
        try:
            hashes = pandas.util.hash_array(given.to_numpy(), categorize=False)
        except TypeError:
            hashes = pandas.util.hash_array(given.astype(str).to_numpy(), categorize=False)
        hashes = numpy.where(missing, numpy.uint64(0), hashes)
        total = str(int((hashes * places.astype("uint64")).sum(dtype="uint64")))
    return {"dtype": dtype, "missing": int(missing.sum()), "total": total}


class PandasCalls:
    """An engine with pandas' API.

    Parameters
    ----------
    engine : PandasLike
        The engine.
    folder : str
        The folder of the Parquet files.
    source : str
        ``"memory"``: the frames are in memory before a call. ``"file"``: each call reads them from Parquet.
    """

    def __init__(self, engine: PandasLike, folder: str, source: str) -> None:
        self._engine, self._folder = engine, folder
        self._written = tempfile.mkdtemp(prefix="bench-calls-")
        atexit.register(shutil.rmtree, self._written, ignore_errors=True)
        self._frames: dict[str, Any] = {}
        self.versions, self.forget = engine.versions, engine.forget
        if source == "memory":
            pandas = importlib.import_module("pandas")
            self._frames = {name: engine.pd.DataFrame(pandas.read_parquet(self._path(name))) for name in NAMES}

    def _path(self, name: str) -> str:
        return f"{self._folder}/{name}.parquet"

    def run(self, case: str) -> Any:
        """Run a call, or the session, until its result is in memory."""
        frames = self._frames or {name: self._engine.pd.read_parquet(self._path(name)) for name in NAMES}
        given = Given(self._engine.pd, **frames, folder=self._written)
        return session(given) if case == SESSION else self._materialised(CALLS[case].run(given))

    def _materialised(self, result: Any) -> Any:
        pandas = importlib.import_module("pandas")
        if isinstance(result, tuple):
            return tuple(map(self._materialised, result))
        if isinstance(result, pandas.Series):
            return pandas.Series(result)
        if isinstance(result, pandas.DataFrame) or hasattr(result, "_evaluate"):
            return self._engine.materialise(result)
        return result

    def answer(self, case: str, result: Any) -> Any:
        """Return the digest of a result."""
        if case == SESSION:
            return result
        return digest(self._engine.to_pandas(result) if hasattr(result, "to_pandas") else result)


class PolarsCalls:
    """Polars' equivalent calls on lazy frames, with the streaming engine. Their results have other forms and are not compared."""

    def __init__(self, folder: str, source: str) -> None:
        self._pl = pl = importlib.import_module("polars")
        self._scans = [pl.scan_parquet(f"{folder}/{name}.parquet") for name in NAMES]
        if source == "memory":
            self._scans = [scan.collect().rechunk().lazy() for scan in self._scans]

    def versions(self) -> dict[str, str]:
        """Return Polars' version."""
        return {"polars": self._pl.__version__}

    def run(self, case: str) -> Any:
        """Run a call until its result is in memory."""
        run = polars_session if case == SESSION else CALLS[case].polars
        if run is None:
            raise NotImplementedError("Polars has no such call")
        result = run(self._pl, *self._scans)
        return result.collect(engine="streaming") if isinstance(result, self._pl.LazyFrame) else result

    def answer(self, case: str, result: Any) -> Any:
        """Return None, so that the answer is not compared."""
        return None


def open_contestant(name: str, options: dict[str, Any]) -> Contestant:
    """Return a contestant.

    Parameters
    ----------
    name : str
        One of `CONTESTANTS`.
    options : dict
        ``folder``: the folder of the Parquet files; ``source``: ``"memory"`` or ``"file"``.
    """
    folder, source = str(options["folder"]), str(options["source"])
    return PolarsCalls(folder, source) if name == "polars" else PandasCalls(PANDAS_LIKES[name](), folder, source)
