"""Group-by: keys, aggregations, and window functions over groups."""
