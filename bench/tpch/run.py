"""TPC-H: the 22 queries over Parquet files, with pandas' API, with Polars' API and in SQL.

python -m bench.tpch.run --scale 10 --contestants craton,polars
python -m bench.tpch.run --dates text --contestants craton,pandas
python -m bench.tpch.run --scale 10 --dtypes pyarrow --contestants craton,polars
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from bench.harness import command
from bench.harness.measure import Benchmark, Case
from bench.tpch.contestants import CONTESTANTS, DATES, OTHERS
from bench.tpch.sql import ORDER, SQL

__all__ = ["main"]

DEFAULT = ("craton", "polars", "duckdb", "pandas")


def main(argv: list[str] | None = None) -> int:
    """Run from the command line; the exit status is 1 if a query failed in Craton or had a wrong result."""
    parser = argparse.ArgumentParser(prog="python -m bench.tpch.run", description=__doc__.splitlines()[0])
    parser.add_argument(
        "--scale",
        type=float,
        default=1,
        help="TPC-H scale factor (default: %(default)g)",
    )
    parser.add_argument(
        "--data",
        type=Path,
        help="folder of the Parquet files (default: made under build/)",
    )
    parser.add_argument("--queries", default="", help="numbers of the queries, such as 1,6,21 (default: all)")
    parser.add_argument(
        "--dates",
        choices=("timestamps", "text"),
        default="timestamps",
        help="text: the files have dates as text, which the pandas queries convert (default: %(default)s)",
    )
    parser.add_argument(
        "--dtypes",
        choices=("numpy", "pyarrow"),
        default="numpy",
        help="dtypes of the pandas queries' frames (default: %(default)s)",
    )
    command.add_options(parser, contestants=DEFAULT)
    given = parser.parse_args(argv)
    names = command.chosen(parser, given.contestants, CONTESTANTS, "contestant")
    queries = list(SQL)
    if given.queries:
        wanted = ",".join(f"q{number.lstrip('q').zfill(2)}" for number in given.queries.split(","))
        queries = command.chosen(parser, wanted, list(SQL), "query")
    folder = (given.data or _data(given.scale)).resolve()
    absent = [table for table in ("lineitem", "orders") if not (folder / f"{table}.parquet").is_file()]
    if absent:
        parser.error(f"--data {folder} holds no {absent[0]}.parquet; give the folder that holds the eight tables")
    if given.dates == "text":
        if others := [name for name in names if name in OTHERS]:
            parser.error(f"--dates text is for engines with a pandas API, not for {', '.join(others)}")
        folder = with_text_dates(folder)
    variant = "".join([", dates as text" * (given.dates == "text"), ", Arrow dtypes" * (given.dtypes == "pyarrow")])
    benchmark = Benchmark(
        name="tpch",
        title=f"TPC-H, scale factor {given.scale:g}, from Parquet{variant}",
        module="bench.tpch.contestants",
        cases=[Case(query, ORDER[query]) for query in queries],
        entries=command.entries(names, {"folder": str(folder), "dates": given.dates, "dtypes": given.dtypes}),
        reference="pandas" if given.dates == "text" else "duckdb",
        settings={"scale": given.scale, "dates": given.dates, "dtypes": given.dtypes},
        **command.limits(given),
    )
    suffix = "".join(["-text-dates" * (given.dates == "text"), "-arrow-dtypes" * (given.dtypes == "pyarrow")])
    report = command.execute(given, benchmark, f"tpch-sf{given.scale:g}{suffix}")
    ours = report["summary"].get("craton")
    return 1 if ours and ours["right"] < ours["cases"] else 0


def with_text_dates(folder: Path) -> Path:
    """Return a folder beside another one, with the same tables and dates as text such as ``1996-03-13``; make it if it does not exist."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    made = folder.with_name(f"{folder.name}-text-dates")
    made.mkdir(exist_ok=True)
    for source in sorted(folder.glob("*.parquet")):
        target = made / source.name
        if target.is_file():
            continue
        columns = DATES.get(source.stem, ())
        if not columns:
            target.symlink_to(source.resolve())
            continue
        file = pq.ParquetFile(source)
        schema = file.schema_arrow.remove_metadata()
        for name in columns:
            schema = schema.set(schema.get_field_index(name), pa.field(name, pa.string()))
        unfinished = target.with_suffix(".part")
        with pq.ParquetWriter(unfinished, schema) as writer:
            for batch in file.iter_batches(1 << 20):
                table = pa.Table.from_batches([batch]).replace_schema_metadata()
                for name in columns:
                    text = table[name].cast(pa.date32()).cast(pa.string())
                    table = table.set_column(table.schema.get_field_index(name), name, text)
                writer.write_table(table)
        unfinished.rename(target)
    return made


def _data(scale: float) -> Path:
    """Return the folder of the demo's data, and generate the data if it does not exist."""
    from craton.demo import data

    ensure: Callable[[float], Path] = data.ensure
    return ensure(scale)


if __name__ == "__main__":
    sys.exit(main())
