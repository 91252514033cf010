//! What can go wrong in a store.

use crate::api::{PageId, SetId};

/// The error of this crate.
#[derive(Debug, Clone, thiserror::Error, serde::Serialize, serde::Deserialize)]
#[non_exhaustive]
pub enum Error {
    /// There is no such set: never, or dropped.
    #[error("no set {0}")]
    NoSet(SetId),
    /// There is no such page: never, or dropped.
    #[error("no page {0}")]
    NoPage(PageId),
    /// A set of that name exists.
    #[error("a set named {0:?} exists already")]
    Exists(String),
    /// The request makes no sense.
    #[error("{0}")]
    Invalid(String),
    /// More memory than there is or than this client may have, with everything evicted that could be.
    #[error(
        "{asked} bytes do not fit: {used} of {limit} bytes are in use by pinned pages, unsealed pages and reservations"
    )]
    Full {
        /// Bytes that were asked for.
        asked: u64,
        /// Bytes that cannot be evicted.
        used: u64,
        /// The limit.
        limit: u64,
    },
    /// A client passed its quota.
    #[error("{asked} bytes more would pass this client's quota of {quota} bytes ({used} in use)")]
    Quota {
        /// Bytes that were asked for.
        asked: u64,
        /// Bytes in use.
        used: u64,
        /// The quota.
        quota: u64,
    },
    /// A page image is not what was written.
    #[error("page {page} is damaged on disk ({path}): {why}")]
    Corrupt {
        /// The page.
        page: PageId,
        /// Its file.
        path: String,
        /// What does not agree.
        why: String,
    },
    /// The system refused; what was being done.
    #[error("{what}: {why}")]
    Io {
        /// What was being done, and to which file.
        what: String,
        /// The system's words.
        why: String,
        /// The system's number, 0 when unknown.
        code: i32,
    },
    /// The other side is gone, or does not speak this protocol.
    #[error("the store at {address}: {why}")]
    Connection {
        /// Where it was.
        address: String,
        /// What happened.
        why: String,
    },
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
}

/// The result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// What the system said of `what`.
    pub(crate) fn io(what: String, error: &std::io::Error) -> Self {
        Self::Io { what, why: error.to_string(), code: error.raw_os_error().unwrap_or(0) }
    }

    /// What shared memory said of `what`.
    pub(crate) fn slab(what: String, error: &craton_slab::Error) -> Self {
        let code = match error {
            craton_slab::Error::System { source, .. } => source.raw_os_error().unwrap_or(0),
            _ => 0,
        };
        Self::Io { what, why: error.to_string(), code }
    }
}
