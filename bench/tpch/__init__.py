"""The 22 queries of TPC-H over Parquet files."""
