//! Stable hashing of rows, and partitioning of batches by hash or range.
