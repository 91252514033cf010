//! Shared memory: segments, extents in them, and references that other processes understand.
//!
//! A [`Segment`] is a memfd (elsewhere than on Linux a file without a name) and its mapping. A [`Slab`] makes segments as it needs them and
//! gives out ranges of them; an [`Extent`] is such a range with an owner, and free again when its last owner has gone. A [`BufferRef`] names
//! a range by segment, offset and length: what travels between processes instead of bytes. [`locate`] turns an address back into segment and
//! offset, [`Slab::find`] these into the extent, so that memory which came out of a slab is known when it comes back.
//!
//! # Who may write
//! The process that made a segment. Others get a descriptor that can only be mapped for reading ([`Segment::share_fd`]), after the segment
//! was sealed. One made for a client ([`SegmentOptions::client`]) is first given to that client to be mapped for writing
//! ([`Segment::writable_fd`]), then sealed.
//!
//! # Giving memory back
//! A page of a segment takes memory from its first use on. A slab reuses such pages first, and returns those beyond
//! [`SlabOptions::keep_free`] to the system: a segment without extents is dropped; holes are punched into one that was never shared; of a
//! sealed one, where the kernel punches no more, the free tail is cut off. What lies between the extents of a sealed segment stays, and is
//! what the next extents are made of.

mod arena;
mod backing;
mod error;
mod extent;
mod locate;
mod options;
mod pages;
mod process;
mod segment;
mod slab;
mod trim;

pub use backing::Backing;
pub use error::{Error, Result};
pub use extent::{BufferRef, Extent};
pub use locate::locate;
pub use options::{SlabOptions, SlabUsage};
pub use segment::{Segment, SegmentId, SegmentOptions};
pub use slab::Slab;

/// Every extent starts at a multiple of this, in bytes: Arrow's recommended alignment.
pub const ALIGNMENT: usize = 64;

/// An extent of at least this many bytes starts at a multiple of [`LARGE_ALIGNMENT`].
pub const LARGE: usize = 1 << 20;

/// What direct I/O asks of an address, in bytes; the greatest alignment that can be asked for.
pub const LARGE_ALIGNMENT: usize = 4096;

/// The most bytes of an extent: a page less than 240 GiB.
pub const LARGEST: usize = arena::MOST_UNITS as usize * ALIGNMENT - LARGE_ALIGNMENT;
