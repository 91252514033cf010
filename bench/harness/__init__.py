"""The benchmark harness: runs the contestants in turn, each in its own process, and compares their answers."""
