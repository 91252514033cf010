"""The store: paging, passing, decoded columns, partitions, serialization."""
