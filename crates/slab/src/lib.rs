//! Shared memory: segments, extents in them, and references that other processes understand.
//!
//! A [`Segment`] is a memfd (on systems other than Linux an unlinked file) and its mapping. A [`Slab`] creates segments as needed and
//! allocates ranges of them. An [`Extent`] is such a range with an owner; it is freed with its last owner. A [`BufferRef`] identifies a range
//! by segment, offset and length: it is sent to other processes instead of the bytes. [`locate`] maps an address to its segment and offset,
//! and [`Slab::find`] maps these to the extent, so that a slab recognises its own memory and need not copy it.
//!
//! # Write access
//! Only the process that created a segment writes to it. Others get a descriptor that permits read-only mappings ([`Segment::share_fd`]),
//! after the segment was sealed. The exception is a segment created for a client ([`SegmentOptions::client`]): its client first maps it for
//! writing ([`Segment::writable_fd`]), and then it is sealed.
//!
//! # Returning memory to the system
//! A page of a segment takes memory from its first use on. A slab reuses such pages first, and returns those beyond
//! [`SlabOptions::keep_free`] to the system: it drops segments without extents, and punches holes into segments that were never shared. A
//! sealed segment does not permit holes, so only its free tail is truncated; the gaps between its extents keep their memory and are reused.

mod adopt;
mod arena;
mod backing;
mod error;
mod extent;
mod options;
mod pages;
mod process;
mod segment;
mod slab;
mod trim;

pub use backing::Backing;
pub use error::{Error, Result};
pub use extent::{BufferRef, Extent};
pub use options::{SlabOptions, SlabUsage};
pub use segment::{Segment, SegmentId, SegmentOptions, locate};
pub use slab::Slab;

/// Every extent starts at a multiple of this, in bytes: Arrow's recommended alignment.
pub const ALIGNMENT: usize = 64;

/// An extent of at least this many bytes starts at a multiple of [`LARGE_ALIGNMENT`].
pub const LARGE: usize = 1 << 20;

/// The alignment in bytes that direct I/O needs; the greatest alignment that an extent can have.
pub const LARGE_ALIGNMENT: usize = 4096;

/// The most bytes of an extent: 240 GiB less one page.
pub const LARGEST: usize = arena::MOST_UNITS as usize * ALIGNMENT - LARGE_ALIGNMENT;
