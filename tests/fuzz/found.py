"""Programs in which the fuzzer found differences, kept as tests. ``OPEN`` are those that still differ.

Each is the text that was printed, without its imports.
"""

from __future__ import annotations

FOUND: dict[str, str] = {}

OPEN: dict[str, str] = {}
