"""Executors of SPMD programs: their start, their calls, and distributed frames."""
