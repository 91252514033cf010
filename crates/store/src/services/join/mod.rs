//! Join maps: the rows of a table by key, in pages that every process probes without a copy.
//!
//! An *index page* is a hash table for a range of hashes: where the entries of each bucket start, and the entries, each with a key and the
//! number of its row. Keys of more than 12 bytes are in the page's heap. The rows of a bucket are in the order of the table, so the matches of
//! a row that probes are, too. The highest bits of a hash choose its page, the next bits the bucket.
//!
//! [`build`] visits the keys three times, and writes the pages directly into the store: the memory of the process does not grow with the number of
//! rows. [`JoinIndex`] probes with all pages pinned if they fit into half of the store's memory, and otherwise with one part of them after the other.
//!
//! Another process has written the pages, so all that is read from them is checked: an error, and never undefined behaviour, is the result of
//! a damaged page.

mod build;
mod page;
mod pieces;
mod probe;

pub use build::{BuiltIndex, build};
pub use pieces::{KeyPieces, PIECE};
pub use probe::{JoinIndex, Matches, NO_ROW};

/// A map has fewer rows than this, and so has a table that probes: row numbers have 32 bits, and the last one means no row.
pub const MOST_ROWS: u64 = u32::MAX as u64;
