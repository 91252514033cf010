//! Chunks: rows that fit a core's cache, sorted by partition.

use std::ops::Range;

use arrow_array::RecordBatch;
use rayon::prelude::*;

use super::plan::{Leaf, Plan};
use super::scatter;
use crate::error::Result;

/// The least and most rows of a chunk. At the least, a column of 8 bytes takes 32 KiB, which fits the first cache; rows are
/// numbered with 16 bits, and at the most a column of 16 bytes takes 1 MiB, which fits the second one.
const LEAST: usize = 1 << 12;
const MOST: usize = 1 << 16;

/// Rows that a chunk has for each partition, within these bounds: the shorter runs are, the more of the time goes to finding them
/// and to the lines that they share.
const RUN: usize = 128;

/// Rows of one batch.
pub(super) struct Piece {
    pub batch: usize,
    /// The first one in its batch.
    pub start: usize,
    /// The first one over all batches.
    pub row: usize,
    pub rows: usize,
}

/// Rows of one batch, sorted by partition.
pub(super) struct Chunk {
    pub batch: usize,
    pub start: usize,
    /// Rows, counted from `start`, by partition; those of one partition in their order.
    pub order: Vec<u16>,
    /// Where the rows of each partition end in `order`.
    ends: Vec<u32>,
    /// For each leaf of varying size and each partition: units (see `plan::Leaf`) of the chunk's rows, then, once chunks
    /// are summed up, of the rows of the group's chunks before this one.
    pub sizes: Vec<Vec<u64>>,
    /// For each partition: rows of the group's chunks before this one.
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

/// Cut batches into pieces of one chunk each.
pub(super) fn pieces(batches: &[RecordBatch], partitions: usize) -> Vec<Piece> {
    let most = (RUN * partitions).clamp(LEAST, MOST);
    let mut pieces = Vec::new();
    let mut row = 0;
    for (batch, rows) in batches.iter().map(RecordBatch::num_rows).enumerate() {
        // Pieces of one size, instead of a small one at the end.
        let each = rows.div_ceil(rows.div_ceil(most).max(1));
        let mut start = 0;
        while start < rows {
            let take = each.min(rows - start);
            pieces.push(Piece { batch, start, row, rows: take });
            start += take;
            row += take;
        }
    }
    pieces
}

/// Let `assign` say each row's partition, and sort the rows of each piece by it.
pub(super) fn route(
    plan: &Plan,
    pieces: &[Piece],
    partitions: usize,
    assign: impl Fn(&Piece, &mut Vec<u64>, &mut [u16]) -> Result<()> + Sync,
) -> Result<Vec<Chunk>> {
    pieces
        .par_iter()
        .map_init(
            || (Vec::new(), Vec::new()),
            |(scratch, numbers), piece| {
                numbers.clear();
                numbers.resize(piece.rows, 0_u16);
                assign(piece, scratch, numbers)?;
                let mut chunk = sort(piece, numbers, partitions);
                let varying = plan.leaves.iter().filter(|leaf| leaf.varies());
                let sizes =
                    |leaf: &Leaf| scatter::sizes(leaf, &leaf.sources[piece.batch], piece.start, numbers, partitions);
                chunk.sizes = varying.map(sizes).collect();
                Ok(chunk)
            },
        )
        .collect()
}

fn sort(piece: &Piece, numbers: &[u16], partitions: usize) -> Chunk {
    let mut ends = vec![0_u32; partitions];
    for number in numbers {
        ends[usize::from(*number)] += 1;
    }
    let mut sum = 0;
    for end in &mut ends {
        // First where the partition starts; filling it moves that to its end.
        sum += std::mem::replace(end, sum);
    }
    let mut order = vec![0_u16; numbers.len()];
    for (row, number) in numbers.iter().enumerate() {
        let place = &mut ends[usize::from(*number)];
        order[*place as usize] = row as u16;
        *place += 1;
    }
    Chunk { batch: piece.batch, start: piece.start, order, ends, sizes: Vec::new(), before: Vec::new() }
}
