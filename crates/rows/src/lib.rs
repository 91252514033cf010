//! Row numbers of sorted and joined rows, for keys of 64-bit integers.
//!
//! pandas promises an order of rows where query engines promise none: equal keys keep their order in a stable sort,
//! and a join gives the rows of one side in that side's order, each with its matches in theirs. Engines pay for such
//! promises with a second sort. Both operations here give the order as they go:
//!
//! - [`argsort`] (and [`sort`]) sorts by radix, least significant digit first, which is stable by its nature;
//! - [`JoinMap`] keeps the rows of each key in their order, and is probed in order.
//!
//! Nothing but row numbers comes out; [`gather`] fetches columns of plain values by them, other columns are the
//! caller's. Work is spread over rayon's threads.

mod gather;
mod huge;
mod join;
mod radix;
mod runs;

pub use gather::gather;
pub use join::{JoinMap, Matches, NO_ROW};
pub use radix::{argsort, sort};

/// The most rows that row numbers of 32 bits can tell apart; the last number stands for no row.
pub const MOST_ROWS: usize = u32::MAX as usize;
