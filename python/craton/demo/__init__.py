"""The demo: TPC-H under pandas and under Craton, compared and reported; `python -m craton demo` runs it.

`data` makes the files, `queries` holds the pandas code that both run, `measure` times it, `compare` says whether the
results are equal, `report` writes chart and page, and `run` is the command line.
"""
