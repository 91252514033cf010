//! The errors of hashing and partitioning.

use arrow_schema::{ArrowError, DataType};

use crate::memory::MemoryError;

/// The error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There are no key columns.
    #[error("no key columns were given; at least one is needed")]
    NoKeys,
    /// The columns differ in length.
    #[error("column {column} has {found} rows, the first one {expected}")]
    Length {
        /// Its position.
        column: usize,
        /// Its rows.
        found: usize,
        /// The rows of the first column.
        expected: usize,
    },
    /// A key column that the batches do not have.
    #[error("key column {column} does not exist: the batches have {columns} columns")]
    Column {
        /// The position that was given.
        column: usize,
        /// How many there are.
        columns: usize,
    },
    /// The number of partitions is 0 or too large.
    #[error("the number of partitions must be from 1 to {most}, got {given}")]
    Partitions {
        /// The given value.
        given: usize,
        /// The most.
        most: usize,
    },
    /// A partition number is out of range.
    #[error("row {row} has the partition number {partition}, but there are {partitions} partitions")]
    Number {
        /// Counted over all batches.
        row: usize,
        /// The given value.
        partition: u32,
        /// How many there are.
        partitions: usize,
    },
    /// The number of partition numbers is not that of the rows.
    #[error("{given} partition numbers were given for {rows} rows")]
    Numbers {
        /// How many were given.
        given: usize,
        /// The rows of all batches.
        rows: usize,
    },
    /// The boundaries are invalid, for this reason.
    #[error("boundaries: {0}")]
    Boundaries(String),
    /// The schema of a batch differs from the given one.
    #[error("batch {batch} has the column types {found}, expected {expected}")]
    Schema {
        /// The position of the batch.
        batch: usize,
        /// Its types.
        found: String,
        /// Those of the schema.
        expected: String,
    },
    /// The operation does not support the type.
    #[error("{what} is not supported for the type {data_type}")]
    Type {
        /// The operation.
        what: &'static str,
        /// The type.
        data_type: DataType,
    },
    /// The types are nested too deeply.
    #[error("types are nested deeper than {0} levels")]
    Depth(usize),
    /// The united dictionary has more values than the type of its keys can index.
    #[error(
        "the dictionaries of a column have {values} distinct values in total, more than keys of type {key_type} can index"
    )]
    Dictionary {
        /// Distinct values.
        values: usize,
        /// The type of the keys.
        key_type: DataType,
    },
    /// The long strings of a few rows do not fit into one buffer, and cannot be shared with the input.
    #[error("the strings of a few rows of one partition have {bytes} bytes; a buffer of views has 2 GiB at most")]
    Strings {
        /// Their bytes.
        bytes: u64,
    },
    /// The caller's [`Memory`](crate::Memory) failed to allocate a region.
    #[error("no memory for a partition of {bytes} bytes: {source}")]
    Memory {
        /// The requested bytes.
        bytes: usize,
        /// The error of the memory.
        source: MemoryError,
    },
    /// Threads could not be started.
    #[error("{threads} threads could not be started: {source}")]
    Threads {
        /// The requested number.
        threads: usize,
        /// The error of the system.
        source: MemoryError,
    },
    /// An error of Arrow.
    #[error(transparent)]
    Arrow(#[from] ArrowError),
}

/// The result of this crate.
pub type Result<T> = std::result::Result<T, Error>;
