"""Makes ``support`` and its neighbours, and what tests of tiles and of values share, importable by the tests below."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = map(str, (HERE, HERE / "engine", HERE / "values"))
