//! What can go wrong with shared memory.

/// The error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The system refused a call on a segment.
    #[error("{what}: {source}")]
    System {
        /// The call, and on what.
        what: &'static str,
        /// Why.
        source: std::io::Error,
    },
    /// No segment has room, and another one would pass the limit.
    #[error("no room for {asked} bytes: {used} of {limit} bytes of shared memory are in use")]
    Full {
        /// Bytes that were asked for.
        asked: u64,
        /// Bytes in use.
        used: u64,
        /// The most that this slab may use.
        limit: u64,
    },
    /// No extent can be as large as that.
    #[error("an extent of {asked} bytes at a multiple of {alignment} bytes: the largest one has {most} bytes")]
    TooLarge {
        /// Bytes that were asked for.
        asked: u64,
        /// The alignment that was asked for, in bytes.
        alignment: u64,
        /// Bytes of the largest extent.
        most: u64,
    },
    /// Extents start at multiples of a power of two, from [`ALIGNMENT`](crate::ALIGNMENT) to
    /// [`LARGE_ALIGNMENT`](crate::LARGE_ALIGNMENT).
    #[error("alignment of {asked} bytes: not a power of two from 64 to 4096")]
    Alignment {
        /// The alignment that was asked for, in bytes.
        asked: u64,
    },
    /// A descriptor that was received is not the segment it is said to be, or not one that this can be done with.
    #[error("segment {id:#x}: {why}")]
    Foreign {
        /// The segment's name.
        id: u64,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A range that does not lie in its segment.
    #[error("segment {id:#x} has {length} bytes: no range of {asked} bytes at {offset}")]
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
    /// Nobody gets a sealed segment for writing any more.
    #[error("segment {id:#x} is sealed: it is given to nobody for writing")]
    Sealed {
        /// The segment's name.
        id: u64,
    },
    /// The slab was made by the parent of this process, and both would give out the same memory.
    #[error("this slab belongs to process {owner}, and this is its fork {here}: make another one")]
    Forked {
        /// The process that made the slab.
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
