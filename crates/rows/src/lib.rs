//! Row numbers of sorted and joined rows, for keys of 64-bit integers.
//!
//! pandas guarantees a row order where query engines guarantee none: equal keys keep their order in a stable sort, and
//! a join returns the rows of one side in their order, each row's matches in theirs. Engines pay for such guarantees
//! with a second sort. Both operations here produce the order without one:
//!
//! - [`argsort`] (and [`sort`]) is a radix sort, least significant digit first, which is stable;
//! - [`JoinMap`] keeps the rows of each key in their order, and is probed in order.
//!
//! The results are row numbers. [`gather`] fetches columns of fixed-width values by them; the caller fetches other
//! columns. [`copy_texts`] gives texts the layout that pandas has. Work is spread over rayon's threads.

mod gather;
mod huge;
mod join;
mod numbers;
mod radix;
mod runs;
mod texts;

pub use gather::gather;
pub use join::{JoinMap, Matches, NO_ROW};
pub use radix::{argsort, sort};
pub use texts::{OutOfBounds, Present, View, copy_texts, offsets_of_texts};

/// Row numbers have 32 bits, and the last number means no row, so there must be fewer rows than this.
pub const MOST_ROWS: usize = u32::MAX as usize;
