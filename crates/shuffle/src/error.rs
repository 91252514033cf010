//! What can go wrong.

use arrow_schema::{ArrowError, DataType};

use crate::memory::MemoryError;

/// The error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is nothing to hash or to compare by.
    #[error("no key columns were given; a row's hash or range needs one at least")]
    NoKeys,
    /// Columns that belong together differ in length.
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
    #[error("key column {column} was asked for, the batches have {columns}")]
    Column {
        /// The position that was given.
        column: usize,
        /// How many there are.
        columns: usize,
    },
    /// The number of partitions is 0 or too large.
    #[error("{given} partitions were asked for; 1 to {most} are possible")]
    Partitions {
        /// What was given.
        given: usize,
        /// The most.
        most: usize,
    },
    /// A partition number is not one.
    #[error("row {row} is given the partition {partition}, there are {partitions}")]
    Number {
        /// Counted over all batches.
        row: usize,
        /// What was given.
        partition: u32,
        /// How many there are.
        partitions: usize,
    },
    /// There are not as many partition numbers as rows.
    #[error("{given} partition numbers were given for {rows} rows")]
    Numbers {
        /// How many were given.
        given: usize,
        /// The rows of all batches.
        rows: usize,
    },
    /// Boundaries that are not what ranges need.
    #[error("boundaries: {0}")]
    Boundaries(String),
    /// A batch whose schema is not the one that was given.
    #[error("batch {batch} has the column types {found}, expected {expected}")]
    Schema {
        /// Its position.
        batch: usize,
        /// Its types.
        found: String,
        /// Those of the schema.
        expected: String,
    },
    /// A type with which the operation is not possible.
    #[error("{what} is not possible for the type {data_type}")]
    Type {
        /// The operation.
        what: &'static str,
        /// The type.
        data_type: DataType,
    },
    /// Types nested deeper than is looked at.
    #[error("types are nested deeper than {0} levels")]
    Depth(usize),
    /// The distinct values of dictionaries are more than the type of their keys counts.
    #[error("the dictionaries of a column hold {values} distinct values together, more than keys of {key_type} count")]
    Dictionary {
        /// Distinct values.
        values: usize,
        /// The type of the keys.
        key_type: DataType,
    },
    /// Long strings of few rows that do not fit one buffer, and cannot be shared with the input.
    #[error("the strings of a few rows of one partition have {bytes} bytes; a buffer of views has 2 GiB at most")]
    Strings {
        /// Their bytes.
        bytes: u64,
    },
    /// The caller's memory gave none.
    #[error("no memory for a partition of {bytes} bytes: {source}")]
    Memory {
        /// What was asked for.
        bytes: usize,
        /// What the memory said.
        source: MemoryError,
    },
    /// Threads could not be started.
    #[error("{threads} threads could not be started: {source}")]
    Threads {
        /// How many were asked for.
        threads: usize,
        /// What the system said.
        source: MemoryError,
    },
    /// Arrow refused something.
    #[error(transparent)]
    Arrow(#[from] ArrowError),
}

/// The result of this crate.
pub type Result<T> = std::result::Result<T, Error>;
