//! The errors of the pure crates as Python exceptions: each class of error is mapped here and nowhere else.

use arrow_schema::ArrowError;
use pyo3::exceptions::{
    PyConnectionError, PyFileExistsError, PyFileNotFoundError, PyKeyError, PyKeyboardInterrupt, PyMemoryError,
    PyOSError, PyOverflowError, PyRuntimeError, PyTimeoutError, PyTypeError, PyValueError,
};
use pyo3::prelude::*;

pyo3::create_exception!(craton._native, CorruptPage, PyOSError, "A page on disk differs from what was written.");
pyo3::create_exception!(
    craton._native,
    SetConflict,
    PyRuntimeError,
    "Another writer has changed a durable set meanwhile."
);
pyo3::create_exception!(
    craton._native,
    CorruptSet,
    PyOSError,
    "A file of a durable set differs from what was written."
);

/// The exception for an error of the store.
pub fn store_error(error: craton_store::Error) -> PyErr {
    use craton_store::Error;
    let text = error.to_string();
    match error {
        Error::NoSet(_) | Error::NoPage(_) => PyKeyError::new_err(text),
        Error::Exists(_) => PyFileExistsError::new_err(text),
        Error::Full { .. } | Error::Quota { .. } => PyMemoryError::new_err(text),
        Error::Corrupt { .. } | Error::Damaged { .. } => CorruptPage::new_err(text),
        Error::Io { code, .. } if code != 0 => PyOSError::new_err((code, text)),
        Error::Io { .. } => PyOSError::new_err(text),
        Error::Overflow(_) => PyOverflowError::new_err(text),
        Error::Connection { .. } => PyConnectionError::new_err(text),
        _ => PyValueError::new_err(text),
    }
}

/// The exception for an error of a durable set.
pub fn set_error(error: craton_store::durable::Error) -> PyErr {
    use craton_store::durable::Error;
    let text = error.to_string();
    match error {
        Error::Missing(_) => PyFileNotFoundError::new_err(text),
        Error::Conflict(_) => SetConflict::new_err(text),
        Error::Damaged { .. } => CorruptSet::new_err(text),
        Error::Io { source, .. } => match source.raw_os_error() {
            Some(code) => PyOSError::new_err((code, text)),
            None => PyOSError::new_err(text),
        },
        _ => PyValueError::new_err(text),
    }
}

/// The exception for an error of a communicator, of a class of `craton.comm.errors` where it has one.
pub fn comm_error(py: Python<'_>, error: craton_comm::Error) -> PyErr {
    use craton_comm::Error;
    let text = error.to_string();
    let named = |name: &str, text: String| match py.import("craton.comm.errors").and_then(|errors| errors.getattr(name))
    {
        Ok(class) => class.call1((text,)).map_or_else(|error| error, PyErr::from_value),
        Err(error) => error,
    };
    match error {
        Error::Failed { rank, reason } => {
            let class = py.import("craton.comm.errors").and_then(|errors| errors.getattr("RankFailed"));
            class.and_then(|class| class.call1((rank, reason))).map_or_else(|error| error, PyErr::from_value)
        }
        Error::Timeout(_) => PyTimeoutError::new_err(text),
        Error::Closed(_) => named("CommunicatorClosed", text),
        Error::Mismatch(_) => named("CollectiveMismatch", text),
        Error::Interrupted => PyKeyboardInterrupt::new_err(text),
        Error::Invalid(_) => PyValueError::new_err(text),
        Error::Refused(_) => PyConnectionError::new_err(text),
        _ => PyOSError::new_err(text),
    }
}

/// The exception for an error of hashing or partitioning.
pub fn shuffle_error(error: craton_shuffle::Error) -> PyErr {
    use craton_shuffle::Error;
    let text = error.to_string();
    match error {
        Error::Type { .. } => PyTypeError::new_err(text),
        Error::Memory { .. } => PyMemoryError::new_err(text),
        Error::Threads { .. } => PyRuntimeError::new_err(text),
        _ => PyValueError::new_err(text),
    }
}

/// The exception for an error of the page format.
pub fn page_error(error: craton_wire::Error) -> PyErr {
    match error {
        craton_wire::Error::Arrow(error) => arrow_error(error),
        other => PyValueError::new_err(other.to_string()),
    }
}

/// The exception for an error of Arrow, of the class that pyarrow raises for it.
pub fn arrow_error(error: ArrowError) -> PyErr {
    match error {
        ArrowError::MemoryError(text) => PyMemoryError::new_err(text),
        other => PyValueError::new_err(other.to_string()),
    }
}
