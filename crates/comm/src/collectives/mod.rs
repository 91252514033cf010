//! The collectives, as messages between the ranks of a group. Algorithms are chosen by size.
//!
//! In small groups every rank sends to every other one directly: fewer messages follow one another, which counts for more than their
//! number where ranks share processors.

mod exchange;
mod movement;
mod reductions;

pub use exchange::Values;
pub use reductions::{Array, Output};

/// Groups of at most this many ranks are small.
pub(crate) const SMALL_GROUP: usize = 8;
