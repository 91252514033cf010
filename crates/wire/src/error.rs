//! The errors of messages and images.

/// The error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The bytes are not a message of this format, or it is damaged.
    #[error("damaged or foreign data: {0}")]
    Invalid(String),
    /// The message is larger or deeper than is accepted.
    #[error("{what} is {found}, and at most {limit} is accepted")]
    TooLarge {
        /// The quantity that is too large.
        what: &'static str,
        /// The amount found.
        found: u64,
        /// The amount accepted.
        limit: u64,
    },
    /// An error of Arrow.
    #[error(transparent)]
    Arrow(#[from] arrow_schema::ArrowError),
    /// An error of the system.
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

/// Convert a length to `usize`.
pub(crate) fn size(what: &str, value: impl TryInto<usize> + Copy + std::fmt::Display) -> Result<usize> {
    match value.try_into() {
        Ok(value) => Ok(value),
        Err(_) => invalid!("{what} is {value}, which is not a valid length"),
    }
}
