//! The errors of communicators.

/// Why a call failed. Ranks are those of the group that the call was made on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A rank has ended, or cannot be reached.
    #[error("rank {rank} has failed: {reason}")]
    Failed {
        /// Its number in the group.
        rank: usize,
        /// What is known.
        reason: String,
    },
    /// The call did not end in time.
    #[error("{0}")]
    Timeout(String),
    /// The communicator was closed or aborted, or is unusable after an earlier error.
    #[error("{0}")]
    Closed(String),
    /// The ranks called different collectives, or one with arguments that do not agree.
    #[error("{0}")]
    Mismatch(String),
    /// The caller's hook ended the call.
    #[error("the call was interrupted")]
    Interrupted,
    /// An argument is wrong; nothing was sent, and the communicator remains usable.
    #[error("{0}")]
    Invalid(String),
    /// The key of another rank differs.
    #[error("{0}")]
    Refused(String),
    /// A system call failed.
    #[error("{what}: {reason}")]
    System {
        /// What was attempted.
        what: &'static str,
        /// The error of the system.
        reason: String,
    },
}

impl Error {
    pub(crate) fn system(what: &'static str, source: impl std::fmt::Display) -> Self {
        Self::System { what, reason: source.to_string() }
    }
}

/// The result of a call.
pub type Result<T> = std::result::Result<T, Error>;
