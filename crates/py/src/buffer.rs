//! Memory that Python sees through the buffer protocol.

use std::ffi::{c_int, c_void};
use std::ptr;

use arrow_buffer::Buffer;
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;

/// Read-only memory that lives as long as somebody looks at it.
#[pyclass(frozen, module = "craton._native", name = "SharedBuffer")]
pub struct SharedBuffer {
    buffer: Buffer,
}

impl SharedBuffer {
    /// A view of `buffer`.
    pub fn new(buffer: Buffer) -> Self {
        Self { buffer }
    }

    /// The memory.
    pub fn buffer(&self) -> &Buffer {
        &self.buffer
    }
}

#[pymethods]
impl SharedBuffer {
    fn __len__(&self) -> usize {
        self.buffer.len()
    }

    /// The address of the first byte.
    #[getter]
    fn address(&self) -> usize {
        self.buffer.as_ptr().addr()
    }

    // SAFETY: fills the view as the buffer protocol asks, with memory that `slf`, which the view owns, keeps alive.
    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        if flags & ffi::PyBUF_WRITABLE == ffi::PyBUF_WRITABLE {
            return Err(PyBufferError::new_err("this memory is shared and read-only"));
        }
        let buffer = &slf.get().buffer;
        let (start, length) = (buffer.as_ptr().cast_mut().cast::<c_void>(), buffer.len() as ffi::Py_ssize_t);
        // SAFETY: Python gives a view to be filled; the memory is readable for `length` bytes while `slf` lives.
        let filled = unsafe { ffi::PyBuffer_FillInfo(view, slf.as_ptr(), start, length, 1, flags) };
        if filled == -1 { Err(PyErr::fetch(slf.py())) } else { Ok(()) }
    }

    unsafe fn __releasebuffer__(&self, view: *mut ffi::Py_buffer) {
        let _ = (view, ptr::null::<c_void>());
    }
}
