//! The bytes of Python objects, borrowed for the duration of a call.

use std::ptr::NonNull;
use std::sync::Arc;

use arrow_buffer::Buffer;
use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;

/// Export the memory of Python objects, which must be contiguous, for the duration of a call.
pub fn exported(objects: &[Bound<'_, PyAny>]) -> PyResult<Vec<PyUntypedBuffer>> {
    let one = |object: &Bound<'_, PyAny>| {
        let buffer = PyUntypedBuffer::get(object)?;
        if buffer.is_c_contiguous() {
            return Ok(buffer);
        }
        let kind = object.get_type().qualname()?;
        Err(PyBufferError::new_err(format!("the memory of a {kind} is not contiguous; pass contiguous memory")))
    };
    objects.iter().map(one).collect()
}

/// The bytes of each export.
pub fn slices(exports: &[PyUntypedBuffer]) -> Vec<&[u8]> {
    let one = |export: &PyUntypedBuffer| -> &[u8] {
        if export.len_bytes() == 0 {
            return &[];
        }
        // SAFETY: the export guarantees contiguous memory of this length until it is released.
        unsafe { std::slice::from_raw_parts(export.buf_ptr().cast(), export.len_bytes()) }
    };
    exports.iter().map(one).collect()
}

/// A buffer over memory that the caller keeps alive until the call that uses the buffer has returned.
pub fn borrowed(bytes: &[u8]) -> Buffer {
    let Some(start) = NonNull::new(bytes.as_ptr().cast_mut()).filter(|_| !bytes.is_empty()) else {
        return Buffer::from_vec(Vec::<u8>::new());
    };
    // SAFETY: the buffer does not outlive the call, during which the caller keeps the memory alive.
    unsafe { Buffer::from_custom_allocation(start, bytes.len(), Arc::new(())) }
}
