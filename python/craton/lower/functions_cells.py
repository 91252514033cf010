"""Row-wise functions on cells as Polars expressions."""

from __future__ import annotations
