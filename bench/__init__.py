"""The benchmarks of Craton: one module a benchmark, contestants alternating in one run.

Run ``python -m bench`` from the root of the repository to see what there is.
"""
