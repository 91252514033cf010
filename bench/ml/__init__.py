"""Benchmarks of craton.ml."""
