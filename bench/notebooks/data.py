"""The files that the notebooks read, generated with a seed.

python -m bench.notebooks.data flights 100000 folder
cd folder && python ../examples/notebooks/flights.py
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

from bench.notebooks import data_tables, data_texts
from bench.notebooks.files import Files, write

__all__ = ["GENERATORS", "make"]

FOLDER = Path(__file__).resolve().parents[2] / "build" / "notebooks"
SEED = 7

#: The generator of each notebook's files, by the notebook's name.
GENERATORS: dict[str, Callable[[int, np.random.Generator], Files]] = {
    "flights": data_tables.flights,
    "taxi": data_tables.taxi,
    "census": data_tables.census,
    "baseball": data_tables.baseball,
    "ticks": data_tables.ticks,
    "logs": data_texts.logs,
    "survey": data_texts.survey,
    "sensors": data_texts.sensors,
    "texts": data_texts.texts_of_reviews,
    "shop": data_texts.shop,
}


def make(name: str, rows: int, folder: Path | None = None) -> Path:
    """Write the files of a notebook unless they exist, and return their folder.

    Parameters
    ----------
    name : str
        The notebook.
    rows : int
        The rows of its largest table, approximately.
    folder : path, optional
        The folder; by default one below ``build``.
    """
    target = folder or FOLDER / f"{name}-{rows}-seed-{SEED}"
    if not target.exists():
        scratch = target.with_name(target.name + ".part")
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir(parents=True)
        write(GENERATORS[name](rows, np.random.default_rng([SEED, *map(ord, name)])), scratch)
        scratch.rename(target)
    return target


if __name__ == "__main__":
    make(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
