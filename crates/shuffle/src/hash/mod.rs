//! The hash of rows, specified in full so that it can be implemented independently.
//!
//! # Notation
//! `XXH3(bytes, seed)` is the 64-bit XXH3 with a seed, as xxHash 0.8 defines it. Numbers are written little-endian; `i64`,
//! `u64`, `i128`, `f64` stand for their 8 or 16 bytes. `seed` is the caller's, 64 bits. A *class* is a constant,
//! `XXH3(name, 0)` of its name in ASCII; `seed ^ class` keeps values of different kinds apart.
//!
//! # Values
//! The hash of a value does not depend on how the value is stored:
//!
//! | value | hash |
//! | --- | --- |
//! | null, of any type | `XXH3("", seed ^ NULL)` |
//! | whole number in [-2⁶³, 2⁶³) | `XXH3(i64, seed)` |
//! | whole number in [2⁶³, 2⁶⁴) | `XXH3(u64, seed ^ UNSIGNED)` |
//! | another float, widened to 64 bits | `XXH3(f64, seed ^ FLOAT)`, every NaN as `0x7ff8000000000000` |
//! | another decimal | `XXH3(digits, scale as i16; seed ^ DECIMAL)` |
//! | string | `XXH3(UTF-8, seed ^ STRING)` |
//! | binary | `XXH3(bytes, seed ^ BINARY)` |
//! | date, timestamp | `XXH3(i128 of nanoseconds since 1970 in UTC, seed ^ INSTANT)` |
//! | time of day | `XXH3(i64 of nanoseconds since midnight, seed ^ TIME)` |
//! | duration | `XXH3(i128 of nanoseconds, seed ^ DURATION)` |
//! | interval | `XXH3(i32 months, i32 days, i64 nanoseconds; seed ^ INTERVAL)` |
//! | list of any kind, map | `XXH3(u64 hash of each element, in order; seed ^ LIST)` |
//! | struct | `XXH3(u64 hash of each field, in order; seed ^ STRUCT)` |
//!
//! - **Whole numbers** may be of every integer type, of floats (so `1.0` is `1`, `-0.0` is `0`), of decimals (so `1.00` is
//!   `1`), and booleans as 0 and 1. Numbers are equal if their exact values are: the integer 2⁵³ + 1 does not equal the float
//!   2⁵³. The decimal 0.5 and the float 0.5 have different hashes.
//! - **Decimals** are stripped of trailing zeros first: `1.50` is 15 with the scale 1. Then a whole number in [-2⁶³, 2⁶⁴) is
//!   hashed as such; `digits` of others are two's complement in 16 bytes, or in 32 if they do not fit into 16.
//! - **Timestamps** without a time zone are taken as UTC, dates as midnight UTC.
//! - **Intervals** of months have no days, those of days and milliseconds no months.
//! - **Dictionary and run-end encoded arrays** have the hashes of the values that they encode. A **union** has the hash of its
//!   value, whichever field has it. The elements of a map are structs of key and value. Names are ignored.
//! - Binary never equals a string, nor a date a number.
//!
//! # Rows
//! The hash of a row of one column is that of its value. The hashes of several columns are folded from the left: `h = XXH3(h,
//! hash of the next value; seed)`, two `u64`. The order of columns therefore matters.
//!
//! # Partitions
//! The partition of a hash among `n` is `⌊hash · n / 2⁶⁴⌋`, which depends on its high bits.

mod columns;
mod value;

use arrow_array::{Array, ArrayRef};
use rayon::prelude::*;

use crate::error::{Error, Result};
pub(crate) use columns::Hashable;

/// The deepest nesting of types that is hashed.
pub const DEEPEST: usize = 64;

/// Rows that are hashed at a time.
const BLOCK: usize = 1 << 15;

/// The hash of every row of `columns`, as the [module](self) defines it, on all threads.
///
/// # Errors
/// When there are no columns, they differ in length, or a type is nested too deeply.
pub fn hash_rows(columns: &[ArrayRef], seed: u64) -> Result<Vec<u64>> {
    let rows = columns.first().ok_or(Error::NoKeys)?.len();
    let columns = hashables(columns, seed)?;
    let mut hashes = vec![0; rows];
    hashes
        .par_chunks_mut(BLOCK)
        .enumerate()
        .try_for_each_init(Vec::new, |scratch, (block, out)| hash_range(&columns, block * BLOCK, seed, scratch, out))?;
    Ok(hashes)
}

/// The partition of a hash among `partitions`.
#[must_use]
#[inline(always)]
pub fn partition_of(hash: u64, partitions: u64) -> u64 {
    ((u128::from(hash) * u128::from(partitions)) >> 64) as u64
}

pub(crate) fn hashables(columns: &[ArrayRef], seed: u64) -> Result<Vec<Hashable>> {
    let expected = columns.first().ok_or(Error::NoKeys)?.len();
    for (column, array) in columns.iter().enumerate() {
        if array.len() != expected {
            return Err(Error::Length { column, found: array.len(), expected });
        }
    }
    columns.iter().map(|column| Hashable::new(column, seed)).collect()
}

/// Write the hashes of the rows from `start` on to `out`.
pub(crate) fn hash_range(
    columns: &[Hashable],
    start: usize,
    seed: u64,
    scratch: &mut Vec<u64>,
    out: &mut [u64],
) -> Result<()> {
    let (first, others) = columns.split_first().ok_or(Error::NoKeys)?;
    first.hash(start, seed, out)?;
    scratch.resize(out.len(), 0);
    for column in others {
        column.hash(start, seed, scratch)?;
        for (hash, next) in out.iter_mut().zip(scratch.iter()) {
            *hash = value::pair(*hash, *next, seed);
        }
    }
    Ok(())
}
