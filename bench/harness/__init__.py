"""The harness of the benchmarks: contestants in processes of their own, taking turns, their answers compared."""
