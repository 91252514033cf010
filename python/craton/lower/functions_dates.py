"""Date and time functions as Polars expressions."""

from __future__ import annotations
