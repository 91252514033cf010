"""The methods that write files: to_parquet, to_csv, to_feather and to_json, and those that only pandas implements; and from_arrow.

Every file at a local path is published by rename (:mod:`craton.pandas.io.atomic_writes`), both if a plan is streamed into it and if
pandas writes it, because the frame is small or the call falls back.
"""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Mapping
from typing import Any

import pandas as pd

from craton.engine import may_keep
from craton.errors import Unsupported
from craton.pandas.core.counterparts import as_pandas
from craton.pandas.core.lazy import view
from craton.pandas.core.native import Native, by_callback, native
from craton.pandas.core.routing import inside_pandas, is_lazy, plain_pandas, stays_in_pandas
from craton.refusals import Reason, Refusal


def _sink(base: type, name: str) -> Callable[[Callable[..., Any]], Any]:
    """Decorate the native implementation of a method whose first argument is the path to write to.

    Parameters
    ----------
    base
        The pandas class that has the method.
    name
        The method's name.
    """
    signature = inspect.signature(getattr(base, name))
    first = list(signature.parameters)[1]

    def around(entry: Native, self: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if inside_pandas() or not _binds(signature, (self, *args), kwargs):
            return entry.theirs(self, *args, **kwargs)
        args = (kwargs.pop(first), *args) if not args and first in kwargs else args or (None,)
        path, *rest = args

        def write(target: Any, reason: Reason | None = None) -> Any:
            if stays_in_pandas(self):
                with plain_pandas():
                    return entry.theirs(self, target, *rest, **kwargs)
            return entry.run(self, (target, *rest), kwargs, reason)

        return _to_path(path, kwargs.get("mode", "w"), write, in_folder=bool(kwargs.get("partition_cols")))

    theirs = getattr(base, name)

    def fallback(self: Any, *args: Any, **kwargs: Any) -> Any:
        if is_lazy(self) and may_keep(view(self).base):
            _ = self._mgr  # pandas writes the rows in parts, each of which would run a plan
        return theirs(self, *args, **kwargs)

    return native(base, name, route=by_callback(around), fallback=fallback)


def _written_by_pandas(base: type, name: str, source: Callable[[Any], Any] | None = None) -> Callable[..., Any]:
    """A method that only pandas implements, and whose first argument is the path to write to; `source` gives the object for pandas.

    It only reads the object, which is no fallback (:mod:`craton.pandas.core.lazy`).
    """

    def around(entry: Native, self: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        parameters = _parameters(entry.theirs)
        first = list(parameters)[1]
        path = args[0] if args else kwargs.get(first)
        if inside_pandas() or not _is_path(path):
            return entry.theirs(self if source is None else source(self), *args, **kwargs)

        def write(target: Any, reason: Reason | None = None) -> Any:
            obj = self if source is None else source(self)
            if args:
                return entry.theirs(obj, target, *args[1:], **kwargs)
            return entry.theirs(obj, **{**kwargs, first: target})

        usual = parameters["mode"].default if "mode" in parameters else "w"
        return _to_path(path, kwargs.get("mode", usual), write)

    return native(base, name, route=by_callback(around))(None)


def _writable_copy(obj: Any) -> Any:
    """A frame of pandas' class with a copy of the data: the writer of Stata files writes into the columns of its copy."""
    made = as_pandas(obj)
    made._mgr = made._mgr.copy(deep=True)
    return made


def _is_path(target: Any) -> bool:
    """Whether a target is a path. ``ExcelWriter`` and ``HDFStore`` have one, but are open files."""
    return isinstance(target, (str, os.PathLike)) and not isinstance(target, (pd.ExcelWriter, pd.HDFStore))


@functools.cache
def _parameters(function: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    return inspect.signature(function).parameters


def _to_path(path: Any, mode: Any, write: Callable[..., Any], *, in_folder: bool = False) -> Any:
    """Write to a path. Plans that read the existing file, such as that of the object itself, keep the rows that it has now.

    Parameters
    ----------
    path, mode
        The path or object that the user gave, and the mode in which files are opened.
    write
        Writes to a path, its first argument. A second argument that is not None is the reason why no plan is streamed into this
        path, which is then the one that the user gave.
    in_folder
        Whether several files are written into a folder.
    """
    if mode not in ("w", "wt"):
        _keep_rows(path)
        return write(path)
    from craton.pandas.io.atomic_writes import staged_file, staged_folder

    if in_folder:
        with staged_folder(path) as written:
            return write(written)
    with staged_file(path) as written:
        in_place = written is path and isinstance(path, (str, os.PathLike))
        if in_place:
            _keep_rows(path)
        return write(written, Reason(Refusal.WRITE_NOT_FILE) if in_place else None)


def _keep_rows(path: Any) -> None:
    """Keep the present rows of a file or object that is about to be written in place, for plans that read it."""
    if isinstance(path, (str, os.PathLike)) and isinstance(name := os.fspath(path), str):
        if "://" in name and not name.startswith("file://"):
            from craton.pandas.io.remote_targets import evaluate_readers

            evaluate_readers(name)
            return
        from craton.lower.file_versions import keep_rows

        keep_rows(os.path.expanduser(name.removeprefix("file://")))


def _binds(signature: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    try:
        signature.bind(*args, **kwargs)
    except TypeError:
        return False
    return True


def _local(path: Any) -> str:
    """The path of a local file.

    Raises
    ------
    Unsupported
        For URLs, open files and other objects.
    """
    if not isinstance(path, (str, os.PathLike)):
        raise Unsupported(Refusal.WRITE_NOT_PATH)
    name = os.fspath(path)
    if not isinstance(name, str) or "://" in name:
        raise Unsupported(Refusal.WRITE_NOT_LOCAL)
    return name


def _from_arrow(base: Any) -> Any:
    """``from_arrow`` of a class; its implementation is imported at the first call."""
    plain = base.from_arrow

    def theirs(cls: type, data: Any) -> Any:
        return cls(plain(data))

    def planned(cls: type, data: Any) -> Any:
        from craton.pandas.io.memory_data import lazy_data

        return lazy_data(cls, data)

    def around(entry: Native, cls: type, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        from craton.pandas.io.memory_data import read_arrow_data

        if len(args) + len(kwargs) != 1 or (kwargs and "data" not in kwargs):
            return plain(*args, **kwargs)  # raises
        data, small = read_arrow_data(base, kwargs.get("data", *args))
        return theirs(cls, data) if small else entry.run(cls, (data,), {})

    return native(base, "from_arrow", theirs=theirs, like=plain.__func__, route=by_callback(around))(planned)


class FrameSinks:
    """Methods of DataFrame."""

    from_arrow: Any = classmethod(_from_arrow(pd.DataFrame))

    @_sink(pd.DataFrame, "to_parquet")
    def to_parquet(
        self: Any,
        path: Any = None,
        *,
        engine: Any = pd.api.extensions.no_default,
        compression: Any = "snappy",
        index: bool | None = None,
        partition_cols: Any = None,
        storage_options: Any = None,
        filesystem: Any = None,
        **kwargs: Any,
    ) -> None:
        group = kwargs.pop("row_group_size", None)
        if storage_options or filesystem is not None or kwargs:
            raise Unsupported(Refusal.PARAMETERS, "storage_options, filesystem and parameters of the engine")
        if partition_cols is not None and not (isinstance(partition_cols, list) and partition_cols):
            raise Unsupported(Refusal.PARAMETER, "partition_cols")
        from craton.pandas.io.parquet_engine import require_pyarrow_engine
        from craton.pandas.io.sink_arrow import write_parquet

        with require_pyarrow_engine(engine):
            write_parquet(self, _local(path), compression, index, partition_cols, group)

    @_sink(pd.DataFrame, "to_feather")
    def to_feather(self: Any, path: Any, **kwargs: Any) -> None:
        compression, size = kwargs.pop("compression", None), kwargs.pop("chunksize", None)
        if kwargs:
            raise Unsupported(Refusal.PARAMETER, ", ".join(sorted(kwargs)))
        from craton.pandas.io.sink_arrow import write_feather

        write_feather(self, _local(path), compression, size)

    @_sink(pd.DataFrame, "to_csv")
    def to_csv(self: Any, path_or_buf: Any = None, **kwargs: Any) -> str | None:
        from craton.pandas.io.sink_text import write_csv

        return write_csv(self, path_or_buf if path_or_buf is None else _local(path_or_buf), kwargs)

    @_sink(pd.DataFrame, "to_json")
    def to_json(self: Any, path_or_buf: Any = None, **kwargs: Any) -> str | None:
        if not kwargs.get("lines") or kwargs.get("orient") != "records" or kwargs.get("mode", "w") != "w":
            raise Unsupported(Refusal.WRITE_JSON)
        if kwargs.get("storage_options"):
            raise Unsupported(Refusal.PARAMETER, "storage_options")
        from craton.pandas.io.sink_text import write_json_lines

        return write_json_lines(self, path_or_buf if path_or_buf is None else _local(path_or_buf), kwargs)

    to_excel = _written_by_pandas(pd.DataFrame, "to_excel")
    to_hdf = _written_by_pandas(pd.DataFrame, "to_hdf")
    to_html = _written_by_pandas(pd.DataFrame, "to_html")
    to_latex = _written_by_pandas(pd.DataFrame, "to_latex")
    to_markdown = _written_by_pandas(pd.DataFrame, "to_markdown")
    to_orc = _written_by_pandas(pd.DataFrame, "to_orc")
    to_pickle = _written_by_pandas(pd.DataFrame, "to_pickle")
    to_stata = _written_by_pandas(pd.DataFrame, "to_stata", source=_writable_copy)
    to_string = _written_by_pandas(pd.DataFrame, "to_string")
    to_xml = _written_by_pandas(pd.DataFrame, "to_xml")


class SeriesSinks:
    """Methods of Series."""

    from_arrow: Any = classmethod(_from_arrow(pd.Series))

    @_sink(pd.Series, "to_csv")
    def to_csv(self: Any, path_or_buf: Any = None, **kwargs: Any) -> str | None:
        from craton.pandas.io.sink_text import write_csv

        frame = self.to_frame() if self.name is not None else self.to_frame(0)
        return write_csv(frame, path_or_buf if path_or_buf is None else _local(path_or_buf), kwargs)

    to_excel = _written_by_pandas(pd.Series, "to_excel")
    to_hdf = _written_by_pandas(pd.Series, "to_hdf")
    to_json = _written_by_pandas(pd.Series, "to_json")
    to_latex = _written_by_pandas(pd.Series, "to_latex")
    to_markdown = _written_by_pandas(pd.Series, "to_markdown")
    to_pickle = _written_by_pandas(pd.Series, "to_pickle")
    to_string = _written_by_pandas(pd.Series, "to_string")
