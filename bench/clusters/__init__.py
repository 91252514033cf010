"""Sessions on local processes, Ray and Dask."""
