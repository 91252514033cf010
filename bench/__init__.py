"""Craton's benchmarks: one module per benchmark, whose contestants take turns in one run.

Run ``python -m bench --list`` from the root of the repository to list them.
"""
