//! The errors of shared memory.

/// The error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The system refused a call on a segment.
    #[error("{what}: {source}")]
    System {
        /// The system call, and its object.
        what: &'static str,
        /// Why.
        source: std::io::Error,
    },
    /// No segment has room, and another one would exceed the limit.
    #[error("no room for {asked} bytes: {used} of {limit} bytes of shared memory are in use")]
    Full {
        /// The requested bytes.
        asked: u64,
        /// Bytes in use.
        used: u64,
        /// The most that this slab may use.
        limit: u64,
    },
    /// The extent is larger than the largest possible one.
    #[error("an extent of {asked} bytes, aligned to {alignment} bytes, is too large: the largest one has {most} bytes")]
    TooLarge {
        /// The requested bytes.
        asked: u64,
        /// The requested alignment, in bytes.
        alignment: u64,
        /// Bytes of the largest extent.
        most: u64,
    },
    /// Extents start at multiples of a power of two, from [`ALIGNMENT`](crate::ALIGNMENT) to
    /// [`LARGE_ALIGNMENT`](crate::LARGE_ALIGNMENT).
    #[error("the alignment must be a power of two from 64 to 4096 bytes, got {asked}")]
    Alignment {
        /// The requested alignment, in bytes.
        asked: u64,
    },
    /// A received descriptor is not that of the announced segment, or the segment does not permit the operation.
    #[error("segment {id:#x}: {why}")]
    Foreign {
        /// The segment's name.
        id: u64,
        /// The reason.
        why: &'static str,
    },
    /// A range that exceeds its segment.
    #[error("the range of {asked} bytes at {offset} exceeds segment {id:#x}, which has {length} bytes")]
    Outside {
        /// The segment's name.
        id: u64,
        /// Its bytes.
        length: u64,
        /// Where the range was to start, in bytes.
        offset: u64,
        /// Bytes of the range.
        asked: u64,
    },
    /// A sealed segment permits no further writable mappings.
    #[error("segment {id:#x} is sealed: it permits no further writable mappings")]
    Sealed {
        /// The segment's name.
        id: u64,
    },
    /// The slab was created by this process's parent. Allocating in both processes would hand out the same memory twice.
    #[error("this slab belongs to process {owner} and cannot be used in its forked child {here}: create another one")]
    Forked {
        /// The process that created the slab.
        owner: u32,
        /// This process.
        here: u32,
    },
}

/// The result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(crate) fn system(what: &'static str, source: impl Into<std::io::Error>) -> Self {
        Self::System { what, source: source.into() }
    }
}
