//! Reads numbers from untrusted bytes.

use pyo3::exceptions::PyValueError;
use pyo3::{PyErr, PyResult};

/// A position in a byte slice; every read is checked against the end.
pub struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
    what: &'static str,
}

impl<'a> Cursor<'a> {
    /// A cursor over `bytes[at..stop]`, limited to the length of `bytes`; `what` names the bytes in error messages.
    pub fn new(bytes: &'a [u8], at: usize, stop: usize, what: &'static str) -> Self {
        let stop = stop.min(bytes.len());
        Self { bytes: &bytes[..stop], at: at.min(stop), what }
    }

    /// The position, in bytes from the start of `bytes`.
    pub fn at(&self) -> usize {
        self.at
    }

    /// The error for `wanted` missing bytes.
    pub fn truncated(&self, wanted: usize) -> PyErr {
        let left = self.bytes.len() - self.at;
        PyValueError::new_err(format!(
            "{} is truncated: {wanted} bytes expected at {}, {left} are left",
            self.what, self.at
        ))
    }

    /// Read the next `length` bytes.
    pub fn take(&mut self, length: usize) -> PyResult<&'a [u8]> {
        let bytes = self.bytes;
        match self.at.checked_add(length).and_then(|end| bytes.get(self.at..end)) {
            Some(taken) => {
                self.at += length;
                Ok(taken)
            }
            None => Err(self.truncated(length)),
        }
    }

    fn array<const N: usize>(&mut self) -> PyResult<[u8; N]> {
        match self.bytes.get(self.at..).and_then(<[u8]>::first_chunk::<N>) {
            Some(taken) => {
                self.at += N;
                Ok(*taken)
            }
            None => Err(self.truncated(N)),
        }
    }

    /// Read an unsigned number of one byte.
    pub fn u8(&mut self) -> PyResult<u8> {
        self.array().map(u8::from_le_bytes)
    }

    /// Read an unsigned number of two bytes.
    pub fn u16(&mut self) -> PyResult<u16> {
        self.array().map(u16::from_le_bytes)
    }

    /// Read an unsigned number of four bytes.
    pub fn u32(&mut self) -> PyResult<u32> {
        self.array().map(u32::from_le_bytes)
    }

    /// Read an unsigned number of eight bytes.
    pub fn u64(&mut self) -> PyResult<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// Read a size in memory, of eight bytes.
    pub fn size(&mut self) -> PyResult<usize> {
        let size = self.u64()?;
        usize::try_from(size).map_err(|_| PyValueError::new_err(format!("{} has a size of {size} bytes", self.what)))
    }

    /// Read a signed number of eight bytes.
    pub fn i64(&mut self) -> PyResult<i64> {
        self.array().map(i64::from_le_bytes)
    }
}
