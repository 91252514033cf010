"""Tiled lowering: a plan becomes stages, and stages tasks, for clusters and for what does not fit."""

from craton.lower.tiled import aggregates, joins, rows, sorts, windows
from craton.lower.tiled.planner import Settings, Stage, Tiling

__all__ = ["Settings", "Stage", "Tiling", "aggregates", "joins", "rows", "sorts", "windows"]
