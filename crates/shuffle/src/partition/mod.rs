//! Distributing the rows of batches over partitions, in one pass.
//!
//! 1. **Plan** (`plan`): columns are taken apart into leaves, arrays of one simple layout each.
//! 2. **Route** (`chunk`): the batches are cut into chunks that fit a core's cache. In each, rows are told their
//!    partitions and sorted by them, counting; the bytes of strings are added up by partition.
//! 3. **Lay out** (`layout`): sums over the chunks say how many rows and bytes come before each chunk in each partition.
//!    Every partition gets one region, exactly as long as it has to be.
//! 4. **Scatter** (`scatter`, `cache`): each leaf of a block of chunks is a task. It reads each chunk in the order of
//!    partitions, so that the writes are runs, one a partition, of whole cache lines that are written past the cache.
//!    Nothing grows, nothing is locked, nothing is concatenated.
//!
//! Beside the partitions themselves it takes two bytes a row, and four to twelve bytes a chunk, partition and string column.

mod append;
mod assemble;
mod cache;
mod chunk;
mod dictionary;
mod foreign;
mod layout;
mod plan;
mod scatter;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::SchemaRef;
use rayon::prelude::*;

use crate::error::{Error, Result};
use crate::hash::{hash_range, hashables, partition_of};
use crate::memory::Memory;
use crate::range::{Ranges, plain};
use chunk::{Chunk, Piece};
use plan::Plan;

pub use append::{Form, Granted, Lost, Pages, append};

/// The most partitions that rows are distributed over at once.
pub const MOST_PARTITIONS: usize = 1 << 16;

/// What decides on a row's partition. Columns are given by their positions.
pub enum Route<'a> {
    /// The hash of key columns: see [`hash`](crate::hash).
    Hash {
        /// The key columns; their order counts.
        columns: Vec<usize>,
        /// The seed of the hash.
        seed: u64,
    },
    /// The range that the key columns lie in; there are as many partitions as [`Ranges::count`] says, or more.
    Ranges {
        /// The key columns, of the types of the boundaries.
        columns: Vec<usize>,
        /// The ranges.
        ranges: &'a Ranges,
    },
    /// Given numbers, one a row, over all batches.
    Numbers(&'a [u32]),
}

/// The rows of one partition.
#[derive(Debug, Clone)]
pub struct Partition {
    /// How many there are.
    pub rows: usize,
    /// The bytes of memory that were allocated for them; what is shared with the input is not counted.
    pub bytes: usize,
    /// The rows, in the order of the input. It is one batch, without rows if need be; there are more where a column
    /// with offsets of 32 bits, or string views, would need more than 2 GiB in one.
    pub batches: Vec<RecordBatch>,
}

/// Distribute the rows of `batches` over `partitions` partitions.
///
/// The rows of a partition keep their order. All its buffers lie in one region of `memory`, each at a multiple of 64
/// bytes, padded with zeros; so a partition lives as long as any of its columns. Only these are not in it, but shared:
///
/// - the values of dictionaries (those of several batches are united where they differ);
/// - bytes of long strings in views, where the views share them so much that copies would be larger than the input;
///   small shared bytes are copied into each partition, all others string by string. [`Memory::shares_strings`] says
///   whether that is allowed.
///
/// Lists of anything but plain numbers, maps, unions, list views and run-end encoded columns are gathered by Arrow's own
/// routines, and their result is copied into the region; these columns are in memory twice meanwhile.
///
/// Parameters: `schema` is that of all batches, which may be none; `threads` is how many to use, 0 for rayon's pool.
///
/// # Errors
/// When a batch has another schema, a key column or number does not exist, a type cannot be a key, or `memory` gives none.
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
                let text = format!("they make {} ranges, there are {partitions} partitions", ranges.count());
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
