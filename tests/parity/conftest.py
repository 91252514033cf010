"""Makes ``support``, the modules beside it, and the shared modules of subfolders importable by the tests below."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = map(str, (HERE, HERE / "engine", HERE / "libraries", HERE / "statistics", HERE / "values"))
