//! Shared memory: segments, extents in them, and references that other processes understand.
//!
//! A [`Segment`] is a memfd and its mapping. An [`Extent`] is a range in one that somebody owns; when its last owner goes, the range is free
//! again. A [`BufferRef`] names a range by segment, offset and length: what travels between processes instead of bytes.

mod error;
mod extent;
mod segment;
mod slab;

pub use error::{Error, Result};
pub use extent::{BufferRef, Extent};
pub use segment::{Segment, SegmentId, locate};
pub use slab::{Slab, SlabOptions, SlabUsage};

/// Every extent starts at a multiple of this, in bytes: Arrow's recommended alignment.
pub const ALIGNMENT: usize = 64;
