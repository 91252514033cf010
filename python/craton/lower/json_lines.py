"""Scans of JSON lines with exactly the numbers that pandas reads.

The kernel rounds decimal numbers correctly. pandas' default parser does not: it adds the integer part to the first fifteen
decimals times a power of ten. For columns with such numbers, their text is extracted from the lines and parsed by pandas.
"""

from __future__ import annotations

import glob
from collections.abc import Collection, Mapping, Sequence

import numpy as np
import polars as pl

_LINE = "line"


def scan_json_lines(
    path: str, columns: Mapping[str, pl.DataType], parsed: Collection[str], wanted: Collection[str]
) -> pl.LazyFrame:
    """A lazy scan of a file that has one flat object on each line, and nothing else.

    Parameters
    ----------
    path
        The file.
    columns
        The dtype of each key in the file.
    parsed
        The keys whose numbers pandas' parser reads.
    wanted
        The keys that are needed; others are not parsed.
    """
    kept = {name: dtype for name, dtype in columns.items() if name in wanted} or dict(columns)
    plain = {name: dtype for name, dtype in kept.items() if name not in parsed}
    texts = [name for name in kept if name in parsed]
    sides = []
    if plain:
        sides.append(pl.scan_ndjson(literal(path), schema=plain))
    if texts:
        sides.append(scan_numbers(path, texts))
    return pl.concat(sides, how="horizontal") if len(sides) > 1 else sides[0]


def literal(path: str) -> str:
    """A path escaped for scans that interpret paths as glob patterns."""
    return glob.escape(path)


def scan_numbers(path: str, names: Sequence[str]) -> pl.LazyFrame:
    """A scan of the numbers of some keys as pandas' parser reads them."""
    return pl.scan_lines(literal(path), name=_LINE).select(
        number_text(name).map_batches(_numbers, return_dtype=pl.Float64(), is_elementwise=True).alias(name)
        for name in names
    )


def scan_number_texts(path: str, names: Sequence[str]) -> pl.LazyFrame:
    """A scan of the numbers of some keys as text."""
    return pl.scan_lines(literal(path), name=_LINE).select(number_text(name).alias(name) for name in names)


def number_text(name: str) -> pl.Expr:
    """An expression that extracts the text of a key's number from a line."""
    return pl.col(_LINE).str.extract(rf'"{pl.escape_regex(name)}"[ \t\r]*:[ \t\r]*([-+0-9.eE]+)')


def _numbers(texts: pl.Series) -> pl.Series:
    import pandas as pd  # it takes tens of megabytes, and most workers do not need it

    listed = ",".join(texts.fill_null("null").to_list())
    values = np.array(pd.io.json.ujson_loads(f"[{listed}]"), dtype="float64")
    return pl.Series(texts.name, values, dtype=pl.Float64, nan_to_null=True)
