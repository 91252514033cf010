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
    /// A descriptor that was received is not the segment it is said to be.
    #[error("segment {id:#x}: {why}")]
    Foreign {
        /// The segment's name.
        id: u64,
        /// What is wrong with it.
        why: &'static str,
    },
}

/// The result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(crate) fn system(what: &'static str, source: impl Into<std::io::Error>) -> Self {
        Self::System { what, source: source.into() }
    }
}
