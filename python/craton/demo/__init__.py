"""The demo: TPC-H under pandas and under Craton, compared and reported; `python -m craton demo` runs it.

`data` generates the files, `queries` has the pandas code that both run, `measure` times it, `compare` compares the
results, `report` writes chart and page, and `run` is the command line.
"""
