//! Stable hashing of rows, and partitioning of batches by hash, by range or by given numbers.
//!
//! - [`hash_rows`] gives every row 64 bits that depend on its values alone: not on their width, representation or
//!   encoding, nor on the process, the machine or the version. [`hash`] defines it completely.
//! - [`partition`] distributes the rows of Arrow batches in one pass, on many threads, into memory that the caller
//!   provides ([`Memory`]): one region a partition, exactly as long as it has to be.
//! - [`append`] does so too, but adds the rows to pages that others add to at the same time ([`Pages`]).
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

pub use error::{Error, Result};
pub use hash::hash_rows;
pub use memory::{Heap, Memory, MemoryError, Region};
pub use partition::{Form, Granted, Lost, MOST_PARTITIONS, Pages, Partition, Route, append, partition};
pub use range::{Order, Ranges};

/// Run `work` on `threads` threads; 0 means as many as rayon's own pool has.
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
