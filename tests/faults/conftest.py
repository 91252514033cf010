"""Makes ``children`` and ``served`` importable by the tests beside them, also in the processes that these start."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
