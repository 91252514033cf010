"""Stand-in until the engine's own module is merged."""

import os


class _Options:
    fallback = "silent"
    small_rows = int(os.environ.get("CRATON_SMALL_ROWS", "10000"))


options = _Options()
