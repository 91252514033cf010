//! Reading numbers out of bytes that are not trusted.

use pyo3::exceptions::PyValueError;
use pyo3::{PyErr, PyResult};

/// A place in bytes; every read is checked.
pub struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
    what: &'static str,
}

impl<'a> Cursor<'a> {
    /// Read `bytes[at..stop]`, or what there is of it; errors call it `what`.
    pub fn new(bytes: &'a [u8], at: usize, stop: usize, what: &'static str) -> Self {
        let stop = stop.min(bytes.len());
        Self { bytes: &bytes[..stop], at: at.min(stop), what }
    }

    /// Bytes from the start of all.
    pub fn at(&self) -> usize {
        self.at
    }

    /// The error that says that `wanted` bytes are not there.
    pub fn truncated(&self, wanted: usize) -> PyErr {
        let left = self.bytes.len() - self.at;
        PyValueError::new_err(format!(
            "{} is truncated: {wanted} bytes expected at {}, {left} are left",
            self.what, self.at
        ))
    }

    /// The next bytes.
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

    /// One byte.
    pub fn u8(&mut self) -> PyResult<u8> {
        self.array().map(u8::from_le_bytes)
    }

    /// Two bytes.
    pub fn u16(&mut self) -> PyResult<u16> {
        self.array().map(u16::from_le_bytes)
    }

    /// Four bytes.
    pub fn u32(&mut self) -> PyResult<u32> {
        self.array().map(u32::from_le_bytes)
    }

    /// Eight bytes.
    pub fn u64(&mut self) -> PyResult<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// Eight bytes that are a size in memory.
    pub fn size(&mut self) -> PyResult<usize> {
        let size = self.u64()?;
        usize::try_from(size).map_err(|_| PyValueError::new_err(format!("{} has a size of {size} bytes", self.what)))
    }

    /// Eight bytes with a sign.
    pub fn i64(&mut self) -> PyResult<i64> {
        self.array().map(i64::from_le_bytes)
    }
}
