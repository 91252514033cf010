"""Pools: processes, or parts of them, in which actors live."""
