//! Chunks: batches of rows that fit into a core's cache, sorted by partition.

use arrow_array::RecordBatch;
use rayon::prelude::*;

use super::plan::{Leaf, Plan};
use super::sizes::sizes;
use super::sorted::Chunk;
use crate::error::Result;

/// The least and most rows of a chunk. With the least, a column of 8 bytes takes 32 KiB, which fits into the first-level cache.
/// With the most, row numbers fit into 16 bits, and a column of 16 bytes takes 1 MiB, which fits into the second-level cache.
const LEAST: usize = 1 << 12;
const MOST: usize = 1 << 16;

/// The rows of a chunk for each partition, within these bounds. Shorter runs spend more time on lookups and on shared cache lines.
const RUN: usize = 128;

/// Rows of one batch.
pub(super) struct Piece {
    pub batch: usize,
    /// The number of the first row in its batch.
    pub start: usize,
    /// The number of the first row over all batches.
    pub row: usize,
    pub rows: usize,
}

/// Cut batches into pieces, each of which becomes one chunk.
pub(super) fn pieces(batches: &[RecordBatch], partitions: usize) -> Vec<Piece> {
    let most = (RUN * partitions).clamp(LEAST, MOST);
    let mut pieces = Vec::new();
    let mut row = 0;
    for (batch, rows) in batches.iter().map(RecordBatch::num_rows).enumerate() {
        // Pieces of equal size, so that no small one is left at the end.
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

/// Assign each row to a partition by `assign`, and sort the rows of each piece by partition.
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
                let sizes_of = |leaf: &Leaf| sizes(leaf, &leaf.sources[piece.batch], piece.start, numbers, partitions);
                chunk.sizes = varying.map(sizes_of).collect();
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
        // This is the start of the partition first; filling the partition advances it to the end.
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
