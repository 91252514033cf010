//! Read-only memory that a Python object owns.

use std::ffi::{c_int, c_void};

use arrow_buffer::Buffer;
use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;

/// The owner that keeps the memory alive.
enum Keeper {
    /// An object that exports the memory, and does not move or free it until the export is released.
    Export { _buffer: PyUntypedBuffer },
    /// A Python object that owns the memory.
    Object { _object: Py<PyAny> },
    /// A page of a store.
    Page { _buffer: Buffer },
    /// A value that another rank has sent.
    Block { _block: craton_comm::Block },
}

/// Read-only memory with the buffer protocol: the base object of decoded arrays.
#[pyclass(frozen, module = "craton._native")]
pub struct Memory {
    start: *const u8,
    length: usize,
    _keeper: Keeper,
}

// SAFETY: the pointer is used for reading only, and the keeper, which any thread may use, keeps the memory alive.
unsafe impl Send for Memory {}
// SAFETY: as above; no field changes.
unsafe impl Sync for Memory {}

/// A range of memory, and the object that keeps it alive.
pub struct Place<'a> {
    /// The base object of arrays over the memory.
    pub keeper: &'a Py<PyAny>,
    /// The memory.
    pub bytes: &'a [u8],
}

impl Memory {
    /// The memory of an object with the buffer protocol.
    pub fn of(object: &Bound<'_, PyAny>) -> PyResult<Py<Self>> {
        if let Ok(memory) = object.cast_exact::<Self>() {
            return Ok(memory.clone().unbind());
        }
        let buffer = PyUntypedBuffer::get(object)?;
        if !buffer.is_c_contiguous() {
            return Err(PyBufferError::new_err(format!(
                "the memory of a {} is not contiguous; pass contiguous memory",
                object.get_type().qualname()?
            )));
        }
        let (start, length) = (buffer.buf_ptr().cast::<u8>().cast_const(), buffer.len_bytes());
        Py::new(object.py(), Self { start, length, _keeper: Keeper::Export { _buffer: buffer } })
    }

    /// A buffer of a page, which stays pinned while the value lives.
    pub fn of_page(buffer: Buffer) -> Self {
        Self { start: buffer.as_ptr(), length: buffer.len(), _keeper: Keeper::Page { _buffer: buffer } }
    }

    /// A value that another rank has sent.
    pub fn of_block(block: craton_comm::Block) -> Self {
        let (start, length) = (block.bytes().as_ptr(), block.bytes().len());
        Self { start, length, _keeper: Keeper::Block { _block: block } }
    }

    /// Memory that another object keeps alive.
    pub fn at(py: Python<'_>, place: &Place<'_>) -> PyResult<Py<Self>> {
        let keeper = Keeper::Object { _object: place.keeper.clone_ref(py) };
        Py::new(py, Self { start: place.bytes.as_ptr(), length: place.bytes.len(), _keeper: keeper })
    }

    /// The part `start..stop` of the memory, limited to its length.
    pub fn part(py: Python<'_>, whole: &Py<Self>, start: usize, stop: usize) -> PyResult<Py<Self>> {
        let bytes = whole.get().bytes();
        let stop = stop.min(bytes.len());
        Self::at(py, &Place { keeper: whole.as_any(), bytes: &bytes[start.min(stop)..stop] })
    }

    /// The length in bytes.
    pub fn len(&self) -> usize {
        self.length
    }

    /// The memory. Its owner may write to it, so two reads of the same place may return different values.
    pub fn bytes(&self) -> &[u8] {
        if self.length == 0 {
            return &[];
        }
        // SAFETY: the keeper keeps these contiguous bytes alive for as long as it lives.
        unsafe { std::slice::from_raw_parts(self.start, self.length) }
    }
}

#[pymethods]
impl Memory {
    fn __len__(&self) -> usize {
        self.length
    }

    /// Fill in the structure of a buffer request.
    ///
    /// # Safety
    ///
    /// `view` must be null or point to a structure to fill, as the buffer protocol requires.
    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        let memory = slf.get();
        let length = ffi::Py_ssize_t::try_from(memory.length)?;
        let start = memory.bytes().as_ptr().cast_mut().cast::<c_void>();
        // SAFETY: the memory lives as long as `slf`, to which the view gets a reference; the view is read-only.
        let status = unsafe { ffi::PyBuffer_FillInfo(view, slf.as_ptr(), start, length, 1, flags) };
        if status == 0 { Ok(()) } else { Err(PyErr::fetch(slf.py())) }
    }
}
