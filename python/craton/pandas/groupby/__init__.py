"""Group-by objects: keys, aggregates, windows of groups."""
