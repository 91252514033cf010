//! Hash aggregation: groups rows by key in a virtual hash buffer, which may be larger than the store's memory.
//!
//! The rows of a [`HashBuffer`] are divided by the highest bits of the hash of their key among *root partitions*, each with a lock of its own.
//! A partition consists of *leaves*, each of which covers a range of hashes. A leaf has one open page: an independent hash table in one extent of
//! the store, together with its keys and the states of its aggregates. A page that is full is replaced by a larger one; one that has the full
//! size is split in two leaves. When the open pages have used up the buffer's memory, a full page is sealed instead: it becomes a page of the
//! set like any other, holds partial results, and may be evicted. At the end, the partial results of each leaf are aggregated again, in more leaves
//! if they do not fit in the memory.
//!
//! The columns of a page are Arrow arrays, so that a page is sealed, and its groups are returned, without a copy. The order of the rows of one
//! key is kept, so that sums of floats depend only on the order of the rows, as long as one thread adds them.

mod aggregate;
mod buffer;
mod groups;
pub(super) mod keys;
mod layout;
mod pages;
mod partition;
mod table;

pub use aggregate::{Aggregate, Number, Rows, Values};
pub use buffer::{HashBuffer, HashOptions};
pub use groups::HashGroups;
pub use keys::{Keys, NULL_KEY, view_of};
