//! The errors of a store.

use crate::ids::{PageId, SetId};

/// The error of this crate.
#[derive(Debug, Clone, thiserror::Error, serde::Serialize, serde::Deserialize)]
#[non_exhaustive]
pub enum Error {
    /// There is no such set; it may have been dropped.
    #[error("no set {0}")]
    NoSet(SetId),
    /// There is no such page; it may have been dropped.
    #[error("no page {0}")]
    NoPage(PageId),
    /// A set of that name exists.
    #[error("a set named {0:?} exists already")]
    Exists(String),
    /// The request is invalid, for this reason.
    #[error("{0}")]
    Invalid(String),
    /// There is not enough memory, even after evicting all pages that can be evicted.
    #[error(
        "{asked} bytes do not fit: {used} of {limit} bytes are in use by pinned pages, unsealed pages and reservations"
    )]
    Full {
        /// The requested bytes.
        asked: u64,
        /// Bytes that cannot be evicted.
        used: u64,
        /// The limit.
        limit: u64,
    },
    /// The request would exceed the client's quota.
    #[error("{asked} bytes more would exceed this client's quota of {quota} bytes ({used} in use)")]
    Quota {
        /// The requested bytes.
        asked: u64,
        /// Bytes in use.
        used: u64,
        /// The quota.
        quota: u64,
    },
    /// A page image is damaged: it is not what was written.
    #[error("page {page} is damaged on disk ({path}): {why}")]
    Corrupt {
        /// The page.
        page: PageId,
        /// Its file.
        path: String,
        /// How it differs from what was written.
        why: String,
    },
    /// The contents of a page are not what the service that reads it has written.
    #[error("page {page} is damaged: {why}")]
    Damaged {
        /// The page.
        page: PageId,
        /// What is wrong.
        why: String,
    },
    /// An error of the system.
    #[error("{what}: {why}")]
    Io {
        /// The operation, and the file.
        what: String,
        /// The system's message.
        why: String,
        /// The system's error number, 0 if unknown.
        code: i32,
    },
    /// The connection was lost or refused, or the peer violated the protocol.
    #[error("the store at {address}: {why}")]
    Connection {
        /// The address of the store.
        address: String,
        /// The cause.
        why: String,
    },
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
    /// A sum of integers overflows: that of the aggregate with this number.
    #[error("the sum of aggregate {0} overflows 64 bits")]
    Overflow(usize),
}

/// The result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// The system's error in the operation `what`.
    pub(crate) fn io(what: String, error: &std::io::Error) -> Self {
        Self::Io { what, why: error.to_string(), code: error.raw_os_error().unwrap_or(0) }
    }

    /// The error of shared memory in the operation `what`.
    pub(crate) fn slab(what: String, error: &craton_slab::Error) -> Self {
        let code = match error {
            craton_slab::Error::System { source, .. } => source.raw_os_error().unwrap_or(0),
            _ => 0,
        };
        Self::Io { what, why: error.to_string(), code }
    }
}
