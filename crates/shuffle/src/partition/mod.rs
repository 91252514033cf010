//! Distributes the rows of batches over partitions, in one pass.
//!
//! 1. **Plan** (`plan`): columns are split into leaves, that is, arrays of one simple layout each.
//! 2. **Route** (`chunk`): the batches are cut into chunks that fit into a core's cache. The rows of each chunk are assigned
//!    to partitions and sorted by them with a counting sort; the bytes of strings are summed up by partition.
//! 3. **Lay out** (`layout`): prefix sums over the chunks give the rows and bytes before each chunk in each partition.
//!    Every partition gets one region of exactly the necessary length.
//! 4. **Scatter** (`scatter`, `cache`): each leaf of a block of chunks is a task. It reads each chunk in the order of
//!    partitions, so that it writes runs, one for each partition; complete cache lines are written by streaming stores. No
//!    memory is reallocated, locked or concatenated.
//!
//! Besides the partitions, this takes two bytes for each row, and four to twelve bytes for each chunk, partition and string column.

mod append;
mod assemble;
mod cache;
mod chunk;
mod dictionary;
mod foreign;
mod layout;
mod plan;
mod scatter;
mod sizes;
mod sorted;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::SchemaRef;
use rayon::prelude::*;

use crate::error::{Error, Result};
use crate::hash::{hash_range, hashables, partition_of};
use crate::memory::Memory;
use crate::range::{Ranges, plain};
use chunk::Piece;
use plan::Plan;
use sorted::Chunk;

pub use append::{Form, Granted, Lost, Pages, append};

/// The most partitions.
pub const MOST_PARTITIONS: usize = 1 << 16;

/// How the partition of a row is determined. Columns are given by position.
pub enum Route<'a> {
    /// The hash of key columns: see [`hash`](crate::hash).
    Hash {
        /// The key columns; their order matters.
        columns: Vec<usize>,
        /// The seed of the hash.
        seed: u64,
    },
    /// The range of the key columns. There must be at least [`Ranges::count`] partitions.
    Ranges {
        /// The key columns; their types must be those of the boundaries.
        columns: Vec<usize>,
        /// The ranges.
        ranges: &'a Ranges,
    },
    /// Given partition numbers, one for each row of all batches.
    Numbers(&'a [u32]),
}

/// The rows of one partition.
#[derive(Debug, Clone)]
pub struct Partition {
    /// The number of rows.
    pub rows: usize,
    /// The bytes that were allocated for them, without buffers shared with the input.
    pub bytes: usize,
    /// The rows, in the order of the input. This is one batch, which may be empty. There are several if a column with 32-bit
    /// offsets, or with string views, would need more than 2 GiB in one batch.
    pub batches: Vec<RecordBatch>,
}

/// Distribute the rows of `batches` over `partitions` partitions.
///
/// The rows of a partition keep their order. All of a partition's buffers are in one region of `memory`, each at a multiple of
/// 64 bytes and padded with zeros; the region lives as long as any of its columns. The following are shared instead:
///
/// - the values of dictionaries (different dictionaries of several batches are united);
/// - the bytes of long strings in views, if so many views share them that copies would be larger than the input, and if
///   [`Memory::shares_strings`] allows it. Otherwise small data buffers are copied whole into each partition, and the strings of
///   larger ones one by one.
///
/// Lists of anything but plain numbers, maps, unions, list views and run-end encoded columns are gathered by Arrow's own
/// routines, and the result is copied into the region; these columns are in memory twice in the meantime.
///
/// Parameters: `schema` is that of all batches, of which there may be none; `threads` is the number of threads, 0 for rayon's
/// global pool.
///
/// # Errors
/// When a batch has another schema, a key column or partition number does not exist, a type cannot be a key, or `memory` fails.
pub fn partition(
    schema: &SchemaRef,
    batches: &[RecordBatch],
    route: &Route,
    partitions: usize,
    memory: &dyn Memory,
    threads: usize,
) -> Result<Vec<Partition>> {
    if !(1..=MOST_PARTITIONS).contains(&partitions) {
        return Err(Error::Partitions { given: partitions, most: MOST_PARTITIONS });
    }
    check_schemas(schema, batches)?;
    let rows = batches.iter().map(RecordBatch::num_rows).sum();
    check_route(schema, route, rows, partitions)?;
    crate::on_threads(threads, || {
        let mut plan = Plan::new(schema, batches)?;
        let chunks = cut(&plan, batches, route, partitions)?;
        plan.settle(&chunks, partitions, memory.shares_strings())?;
        layout::place(schema, &plan, chunks, partitions, memory)
    })
}

fn check_schemas(schema: &SchemaRef, batches: &[RecordBatch]) -> Result<()> {
    for (batch, found) in batches.iter().enumerate() {
        let found = found.schema_ref();
        let same = found.fields().len() == schema.fields().len()
            && found.fields().iter().zip(schema.fields()).all(|(a, b)| a.data_type() == b.data_type());
        if !same {
            let types = |schema: &SchemaRef| {
                let types: Vec<_> = schema.fields().iter().map(|field| field.data_type().to_string()).collect();
                types.join(", ")
            };
            return Err(Error::Schema { batch, found: types(found), expected: types(schema) });
        }
    }
    Ok(())
}

fn check_route(schema: &SchemaRef, route: &Route, rows: usize, partitions: usize) -> Result<()> {
    let check_columns = |columns: &[usize]| match columns.iter().find(|column| **column >= schema.fields().len()) {
        _ if columns.is_empty() => Err(Error::NoKeys),
        Some(column) => Err(Error::Column { column: *column, columns: schema.fields().len() }),
        None => Ok(()),
    };
    match route {
        Route::Hash { columns, .. } => check_columns(columns),
        Route::Ranges { columns, ranges } => {
            check_columns(columns)?;
            let types: Vec<_> = columns.iter().map(|column| schema.field(*column).data_type()).collect();
            ranges.check(&types)?;
            if ranges.count() > partitions {
                let text = format!("they make {} ranges, but there are {partitions} partitions", ranges.count());
                return Err(Error::Boundaries(text));
            }
            Ok(())
        }
        Route::Numbers(numbers) => {
            if numbers.len() != rows {
                return Err(Error::Numbers { given: numbers.len(), rows });
            }
            match numbers.iter().position(|number| *number as usize >= partitions) {
                Some(row) => Err(Error::Number { row, partition: numbers[row], partitions }),
                None => Ok(()),
            }
        }
    }
}

/// Cut the batches into chunks, and sort the rows of each by partition.
fn cut(plan: &Plan, batches: &[RecordBatch], route: &Route, partitions: usize) -> Result<Vec<Chunk>> {
    let pieces = chunk::pieces(batches, partitions);
    let keys = |columns: &[usize]| -> Vec<Vec<ArrayRef>> {
        batches.iter().map(|batch| columns.iter().map(|column| batch.column(*column).clone()).collect()).collect()
    };
    match route {
        Route::Hash { columns, seed } => {
            let keys = keys(columns).par_iter().map(|keys| hashables(keys, *seed)).collect::<Result<Vec<_>>>()?;
            let assign = |piece: &Piece, scratch: &mut Vec<u64>, out: &mut [u16]| {
                let mut hashes = vec![0; piece.rows];
                hash_range(&keys[piece.batch], piece.start, *seed, scratch, &mut hashes)?;
                for (out, hash) in out.iter_mut().zip(hashes) {
                    *out = partition_of(hash, partitions as u64) as u16;
                }
                Ok(())
            };
            chunk::route(plan, &pieces, partitions, assign)
        }
        Route::Ranges { columns, ranges } => {
            let keys = keys(columns)
                .par_iter()
                .map(|keys| keys.iter().map(plain).collect::<Result<Vec<_>>>())
                .collect::<Result<Vec<_>>>()?;
            let assign =
                |piece: &Piece, _: &mut Vec<u64>, out: &mut [u16]| ranges.assign(&keys[piece.batch], piece.start, out);
            chunk::route(plan, &pieces, partitions, assign)
        }
        Route::Numbers(numbers) => {
            let assign = |piece: &Piece, _: &mut Vec<u64>, out: &mut [u16]| {
                for (out, number) in out.iter_mut().zip(&numbers[piece.row..]) {
                    *out = *number as u16;
                }
                Ok(())
            };
            chunk::route(plan, &pieces, partitions, assign)
        }
    }
}
