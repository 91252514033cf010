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

/// Return [`Error::Invalid`] with a formatted text.
macro_rules! invalid {
    ($($text:tt)*) => { return Err($crate::Error::Invalid(format!($($text)*))) };
}
pub(crate) use invalid;

/// Fail when more than `limit` of `what` was found.
pub(crate) fn at_most(what: &'static str, found: u64, limit: u64) -> Result<()> {
    if found > limit { Err(Error::TooLarge { what, found, limit }) } else { Ok(()) }
}

/// A length as it is in memory.
pub(crate) fn size(what: &str, value: impl TryInto<usize> + Copy + std::fmt::Display) -> Result<usize> {
    match value.try_into() {
        Ok(value) => Ok(value),
        Err(_) => invalid!("{what} is {value}, which is no length"),
    }
}
