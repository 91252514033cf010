"""Where tasks run: on local processes, on Ray, on Dask."""
