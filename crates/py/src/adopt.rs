//! Pages of memory that another process wrote: encoded there, and taken over here.

use std::os::fd::{BorrowedFd, OwnedFd};

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use craton_store::{HandedOver, PageSpec, Reference};
use craton_wire::Trim;
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::arrow::import_batches;
use crate::errors::page_error;

/// The address and the bytes of a buffer, and its segment and offset if it lies in a store's memory.
type BufferPlace = (usize, usize, Option<(u64, usize)>);

/// A record batch as the header of a page and its buffers, which it keeps alive.
#[pyclass(frozen, module = "craton._native", name = "EncodedBatch")]
pub struct EncodedBatch {
    header: Vec<u8>,
    buffers: Vec<Buffer>,
    rows: u64,
}

#[pymethods]
impl EncodedBatch {
    #[getter]
    fn header<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.header)
    }

    #[getter]
    fn rows(&self) -> u64 {
        self.rows
    }

    /// The address and the bytes of each buffer, and its segment and offset if it lies in a store's memory.
    fn buffers(&self) -> Vec<BufferPlace> {
        let one = |buffer: &Buffer| {
            let place = craton_slab::locate(buffer.as_ptr(), buffer.len()).filter(|_| !buffer.is_empty());
            (buffer.as_ptr().addr(), buffer.len(), place.map(|(segment, offset)| (segment.id(), offset)))
        };
        self.buffers.iter().map(one).collect()
    }
}

/// Encode Arrow data, one page for each batch; see the stub for the contract.
#[pyfunction]
#[pyo3(signature = (data, /), text_signature = "(data, /)")]
pub fn encode_batches(py: Python<'_>, data: &Bound<'_, PyAny>) -> PyResult<Vec<EncodedBatch>> {
    let (schema, mut batches) = import_batches(data)?;
    if batches.is_empty() {
        batches.push(RecordBatch::new_empty(schema));
    }
    let encode = |batch| {
        let craton_wire::Encoded { header, buffers, rows } = craton_wire::encode_batch(batch, Trim::Never)?;
        Ok(EncodedBatch { header, buffers, rows })
    };
    py.detach(|| batches.iter().map(encode).collect::<craton_wire::Result<Vec<_>>>()).map_err(page_error)
}

/// A memfd that another process hands over: a descriptor, its length, and the offset and bytes of each block.
pub type Memfd = (i32, usize, Vec<(usize, usize)>);

/// A page: its header, its rows, and for each buffer the segment (or the number of a memfd), the offset and the bytes.
pub type Described = (Vec<u8>, u64, Vec<(u64, u64, u64)>);

/// The memfds, with descriptors of their own.
pub fn memfds(given: Vec<Memfd>) -> PyResult<Vec<HandedOver>> {
    let one = |(fd, length, blocks)| {
        if fd < 0 {
            return Err(PyOSError::new_err("a descriptor is not negative"));
        }
        // SAFETY: the number is not -1; if it is no open descriptor, it cannot be duplicated, which is reported.
        let fd: OwnedFd = unsafe { BorrowedFd::borrow_raw(fd) }.try_clone_to_owned()?;
        Ok(HandedOver { fd, length, blocks })
    };
    given.into_iter().map(one).collect()
}

/// The pages.
pub fn pages(described: Vec<Described>) -> Vec<PageSpec> {
    let one = |(header, rows, buffers): Described| {
        let place = |(segment, offset, length)| Reference { segment, offset, length };
        PageSpec { header, buffers: buffers.into_iter().map(place).collect(), rows, ..PageSpec::default() }
    };
    described.into_iter().map(one).collect()
}
