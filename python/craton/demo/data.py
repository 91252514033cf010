"""TPC-H data for the demo: generated with `tpchgen-cli`, converted to dtypes that pandas users have, and kept for later runs.

The generator writes decimals and dates, which pandas would read as Python objects. Nobody analyses data in that form
with pandas, so every file is converted once: decimals become float64, dates become microsecond timestamps. pandas and
Craton then read the same files. Tables are converted batch by batch, so memory use does not grow with the scale. A file
gets its final name only when it is complete, and a marker file is written last, when the folder is complete.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

TABLES = ("region", "nation", "supplier", "part", "customer", "partsupp", "orders", "lineitem")
"""The eight tables, smallest first, so that a broken set-up fails within a second."""

GROUPS = (TABLES[:6], TABLES[6:7], TABLES[7:])
"""The tables of each run of the generator. A run takes most of a second to start, and needs the disk space of its tables twice."""

MARKER = "_complete.json"
"""The name of the marker file of a complete folder."""

FORMAT = 1
"""Version of the converted files. Raise it when they change, so that older folders are generated again."""

ROWS_PER_GROUP = 250_000

T = TypeVar("T")

Report = Callable[[str, int, int], None]
"""Called as `report(step, done, total)`: with rows while a table is converted, with bytes and a total of 0 while it is generated."""


def folder_for(scale: float, build: Path | None = None) -> Path:
    """Return the folder for the data of a scale.

    Parameters
    ----------
    scale
        TPC-H scale factor.
    build
        The build folder; `build` under the current folder when not given.

    Examples
    --------
    >>> folder_for(0.1, Path("build")).as_posix()
    'build/tpch/sf0.1'
    >>> folder_for(10, Path("build")).as_posix()
    'build/tpch/sf10'
    """
    return (build or Path("build")) / "tpch" / f"sf{scale:g}"


def is_complete(folder: Path, scale: float) -> bool:
    """Say whether `folder` holds all tables of `scale`, as this version writes them."""
    marker = _marker(folder)
    if marker.get("format") != FORMAT or marker.get("scale") != scale:
        return False
    return all((folder / f"{table}.parquet").is_file() for table in TABLES)


def ensure(scale: float, folder: Path | None = None, *, report: Report | None = None) -> Path:
    """Return a folder with the TPC-H tables of `scale`; generate them if necessary.

    Parameters
    ----------
    scale
        TPC-H scale factor: 1 is about 1 GB as text, 350 MB as Parquet.
    folder
        Where the files go; `folder_for(scale)` when not given. Other files there are left alone.
    report
        Called after each batch of rows; see `Report`.

    Returns
    -------
    Path
        The folder, holding `<table>.parquet` for each of `TABLES`.

    Raises
    ------
    FileNotFoundError
        The `tpchgen-cli` program is not installed.
    RuntimeError
        The generator failed; the message has its output.
    ValueError
        `scale` is not positive, or `folder` holds the data of another one.
    """
    if not scale > 0:
        raise ValueError(f"the TPC-H scale factor is {scale!r}; give a number above 0, such as 0.1, 1 or 10")
    folder = folder_for(scale) if folder is None else Path(folder)
    if is_complete(folder, scale):
        return folder
    other = _marker(folder).get("scale", scale)
    if other != scale:
        raise ValueError(f"{folder} holds TPC-H data of scale factor {other:g}, not {scale:g}; name another folder")
    generator = find_generator()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MARKER).unlink(missing_ok=True)
    rows: dict[str, int] = {}
    with tempfile.TemporaryDirectory(prefix=".making-", dir=folder) as scratch:
        for group in GROUPS:
            raw = _generate(generator, group, scale, Path(scratch), report)
            for table, path in raw.items():
                rows[table] = convert(path, folder / f"{table}.parquet", report=report)
                path.unlink()
    marker = {"format": FORMAT, "scale": scale, "rows": rows}
    _publish(folder / MARKER, lambda path: path.write_text(json.dumps(marker, indent=2) + "\n", encoding="utf-8"))
    return folder


def find_generator() -> str:
    """Return the path of `tpchgen-cli`: beside this interpreter, in its scripts folder, or on the PATH."""
    name = "tpchgen-cli"
    for place in (Path(sys.executable).parent, Path(sysconfig.get_path("scripts"))):
        found = shutil.which(name, path=str(place))
        if found is not None:
            return found
    found = shutil.which(name)
    if found is None:
        raise FileNotFoundError(
            f"the TPC-H generator {name!r} was found neither beside {sys.executable} nor on the PATH; "
            f"install it with `{sys.executable} -m pip install tpchgen-cli`, or name a folder that holds the data"
        )
    return found


def convert(source: Path, target: Path, *, report: Report | None = None) -> int:
    """Rewrite one generated table for pandas and return its number of rows.

    Decimals become float64, dates become timestamps in microseconds, string views become strings.

    Parameters
    ----------
    source, target
        The Parquet files to read and to publish.
    report
        As in `ensure`.
    """
    table = target.name.removesuffix(".parquet")

    def write(path: Path) -> int:
        reader = pq.ParquetFile(source)
        total = reader.metadata.num_rows
        schema = pa.schema([pa.field(field.name, _pandas_type(field.type)) for field in reader.schema_arrow])
        done = 0
        with pq.ParquetWriter(path, schema, compression="snappy") as writer:
            for batch in reader.iter_batches(batch_size=ROWS_PER_GROUP):
                columns = [_converted(column, field.type) for column, field in zip(batch.columns, schema, strict=True)]
                writer.write_batch(pa.record_batch(columns, schema=schema), row_group_size=ROWS_PER_GROUP)
                done += batch.num_rows
                if report is not None:
                    report(table, done, total)
        reader.close()
        if done != total:
            raise RuntimeError(
                f"the metadata of {source} says {total} rows, but it has {done}; delete and generate it again"
            )
        return done

    return _publish(target, write)


def _marker(folder: Path) -> dict[str, Any]:
    try:
        marker = json.loads((folder / MARKER).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return marker if isinstance(marker, dict) else {}


def _pandas_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_decimal(kind):
        return pa.float64()
    if pa.types.is_date(kind):
        return pa.timestamp("us")
    if pa.types.is_string_view(kind) or pa.types.is_large_string(kind):
        return pa.string()
    return kind


def _converted(column: pa.Array, kind: pa.DataType) -> pa.Array:
    if pa.types.is_decimal(column.type):
        # For one value in ten, the cast differs by a bit from the double nearest to the decimal. Dividing whole numbers
        # gives the nearest double, and the queries compare with literals such as 0.07.
        factor = float(10**column.type.scale)
        return pc.divide(pc.round(pc.multiply(column.cast(kind), factor)), factor)
    return column.cast(kind)


def _generate(
    generator: str, tables: Sequence[str], scale: float, folder: Path, report: Report | None
) -> dict[str, Path]:
    command = [generator, "parquet", "-s", f"{scale:g}", "-T", ",".join(tables), "-o", str(folder), "--quiet"]
    paths = {table: folder / f"{table}.parquet" for table in tables}
    label = f"generating {' '.join(tables)}"
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as output,
        subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT) as process,
    ):
        try:
            while process.poll() is None:
                if report is not None:
                    report(label, sum(path.stat().st_size for path in folder.iterdir() if path.is_file()), 0)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(timeout=0.5)
        except BaseException:
            process.kill()
            raise
        if process.returncode != 0 or not all(path.is_file() for path in paths.values()):
            output.seek(0)
            message = output.read().strip() or "(no output)"
            raise RuntimeError(f"`{' '.join(command)}` exited with status {process.returncode}: {message}")
    return paths


def _publish(target: Path, write: Callable[[Path], T]) -> T:
    """Call `write` with the path of a temporary file next to `target`, then rename it; after an error no file remains."""
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        result = write(partial)
        os.replace(partial, target)
    finally:
        partial.unlink(missing_ok=True)
    return result
