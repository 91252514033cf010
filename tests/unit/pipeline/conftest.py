"""Makes ``sandboxed`` and ``stores`` importable by the tests beside them, and has their fixtures."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from sandboxed import opened, steps
from stores import store

__all__ = ["opened", "steps", "store"]
