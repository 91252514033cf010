"""Tiled lowering: a plan becomes stages, and stages become tasks, for clusters and for data that exceeds memory."""

from craton.lower.tiled import aggregates, joins, rows, sorts, windows
from craton.lower.tiled.planner import Settings, Stage, Tiling

__all__ = ["Settings", "Stage", "Tiling", "aggregates", "joins", "rows", "sorts", "windows"]
