//! Stable hashing of rows, and partitioning of batches by hash, by range or by given numbers.
//!
//! - [`hash_rows`] computes a 64-bit hash of every row that depends on its values alone: not on their width,
//!   representation or encoding, nor on the process, the machine or the version. [`hash`] defines it completely.
//! - [`partition`] distributes the rows of Arrow batches in one pass, on several threads, into memory that the caller
//!   provides ([`Memory`]): one region for each partition, of exactly the necessary length.
//! - [`append`] does the same, but appends the rows to pages to which other threads append concurrently ([`Pages`]).
//! - [`sketch`](sketch::sketch) adds the values of a column to a sketch of the number of its distinct values;
//!   [`texts`](texts::texts) finds its least, its greatest and its different texts.
//!
//! ```
//! use std::sync::Arc;
//! use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
//! use craton_shuffle::{Heap, Route, partition};
//!
//! let batch = RecordBatch::try_from_iter([
//!     ("key", Arc::new(Int64Array::from(vec![1, 2, 1])) as ArrayRef),
//!     ("text", Arc::new(StringArray::from(vec!["a", "b", "c"])) as ArrayRef),
//! ])?;
//! let route = Route::Hash { columns: vec![0], seed: 0 };
//! let partitions = partition(&batch.schema(), &[batch], &route, 4, &Heap, 0)?;
//! assert_eq!(partitions.iter().map(|partition| partition.rows).sum::<usize>(), 3);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod error;
pub mod hash;
mod memory;
mod partition;
mod range;
pub mod sketch;
pub mod texts;

pub use error::{Error, Result};
pub use hash::hash_rows;
pub use memory::{Heap, Memory, MemoryError, Region};
pub use partition::{Form, Granted, Lost, MOST_PARTITIONS, Pages, Partition, Route, append, partition};
pub use range::{Order, Ranges};

/// Run `work` on `threads` threads; 0 means rayon's global pool.
pub(crate) fn on_threads<T: Send>(threads: usize, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    if threads == 0 {
        return work();
    }
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .build()
        .map_err(|source| Error::Threads { threads, source: Box::new(source) })?;
    pool.install(work)
}
