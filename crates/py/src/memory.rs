//! Memory that belongs to a Python object, read-only.

use std::ffi::{c_int, c_void};

use arrow_buffer::Buffer;
use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;

/// Who keeps the memory.
enum Keeper {
    /// An object that exports it, and will not move or free it until the export is released.
    Export { _buffer: PyUntypedBuffer },
    /// A Python object that keeps the memory for as long as it lives.
    Object { _object: Py<PyAny> },
    /// A page of a store.
    Page { _buffer: Buffer },
}

/// Read-only memory with the buffer protocol: what arrays that are read back have as their base.
#[pyclass(frozen, module = "craton._native")]
pub struct Memory {
    start: *const u8,
    length: usize,
    _keeper: Keeper,
}

// SAFETY: the memory is only read through the pointer, and the keeper, which may be used by any thread, keeps it.
unsafe impl Send for Memory {}
// SAFETY: as above; nothing in it changes.
unsafe impl Sync for Memory {}

/// Memory, and the object that keeps it.
pub struct Place<'a> {
    /// What arrays over the memory have as their base.
    pub keeper: &'a Py<PyAny>,
    /// What is there.
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
                "the memory of a {} is not contiguous: pass one that is",
                object.get_type().qualname()?
            )));
        }
        let (start, length) = (buffer.buf_ptr().cast::<u8>().cast_const(), buffer.len_bytes());
        Py::new(object.py(), Self { start, length, _keeper: Keeper::Export { _buffer: buffer } })
    }

    /// A buffer of a page, which stays in memory meanwhile.
    pub fn of_page(buffer: Buffer) -> Self {
        Self { start: buffer.as_ptr(), length: buffer.len(), _keeper: Keeper::Page { _buffer: buffer } }
    }

    /// Memory that another object keeps.
    pub fn at(py: Python<'_>, place: &Place<'_>) -> PyResult<Py<Self>> {
        let keeper = Keeper::Object { _object: place.keeper.clone_ref(py) };
        Py::new(py, Self { start: place.bytes.as_ptr(), length: place.bytes.len(), _keeper: keeper })
    }

    /// A part of it: `start..stop`, cut to what there is.
    pub fn part(py: Python<'_>, whole: &Py<Self>, start: usize, stop: usize) -> PyResult<Py<Self>> {
        let bytes = whole.get().bytes();
        let stop = stop.min(bytes.len());
        Self::at(py, &Place { keeper: whole.as_any(), bytes: &bytes[start.min(stop)..stop] })
    }

    /// Bytes.
    pub fn len(&self) -> usize {
        self.length
    }

    /// What is there. It belongs to others, who may write to it; whoever reads a number twice may see two.
    pub fn bytes(&self) -> &[u8] {
        if self.length == 0 {
            return &[];
        }
        // SAFETY: the keeper exports these bytes, contiguous, for as long as it lives.
        unsafe { std::slice::from_raw_parts(self.start, self.length) }
    }
}

#[pymethods]
impl Memory {
    fn __len__(&self) -> usize {
        self.length
    }

    /// Fill in a request for the memory.
    ///
    /// # Safety
    ///
    /// `view` is null or points to a structure to fill, as the protocol demands.
    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        let memory = slf.get();
        let length = ffi::Py_ssize_t::try_from(memory.length)?;
        let start = memory.bytes().as_ptr().cast_mut().cast::<c_void>();
        // SAFETY: the memory lives as long as `slf`, which the view is given a reference to; it is marked as read-only.
        let status = unsafe { ffi::PyBuffer_FillInfo(view, slf.as_ptr(), start, length, 1, flags) };
        if status == 0 { Ok(()) } else { Err(PyErr::fetch(slf.py())) }
    }
}
