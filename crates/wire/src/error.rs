//! What can go wrong with messages and images.

/// The error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The bytes are no message of this format, or one that was damaged.
    #[error("damaged or foreign data: {0}")]
    Invalid(String),
    /// The message is larger or deeper than is accepted.
    #[error("{what} is {found}, and at most {limit} is accepted")]
    TooLarge {
        /// What was counted.
        what: &'static str,
        /// How much was found.
        found: u64,
        /// How much is accepted.
        limit: u64,
    },
    /// Arrow refused.
    #[error(transparent)]
    Arrow(#[from] arrow_schema::ArrowError),
    /// The system refused.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

/// The result of this crate.
pub type Result<T> = std::result::Result<T, Error>;
