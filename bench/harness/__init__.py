"""The harness of the benchmarks: runs contestants in turn, each in its own process, and compares their answers."""
