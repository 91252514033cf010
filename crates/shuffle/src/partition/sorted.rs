//! The rows of a chunk, sorted by partition.

use std::ops::Range;

/// Rows of one batch, sorted by partition.
pub(super) struct Chunk {
    pub batch: usize,
    pub start: usize,
    /// Row numbers, counted from `start`, stably sorted by partition.
    pub order: Vec<u16>,
    /// The end of each partition's rows in `order`.
    pub ends: Vec<u32>,
    /// For each leaf of varying size and each partition: the units (see `plan::Leaf`) of the chunk's rows; after the prefix sum, those
    /// of the rows of the group's earlier chunks.
    pub sizes: Vec<Vec<u64>>,
    /// For each partition: the rows of the group's earlier chunks.
    pub before: Vec<u64>,
}

impl Chunk {
    fn range(&self, partition: usize) -> Range<usize> {
        let start = if partition == 0 { 0 } else { self.ends[partition - 1] };
        start as usize..self.ends[partition] as usize
    }

    /// The rows of a partition, counted from `start`.
    pub fn run(&self, partition: usize) -> &[u16] {
        &self.order[self.range(partition)]
    }
}
