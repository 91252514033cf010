//! Creates NumPy arrays over memory through NumPy's C interface.
//!
//! Calling `numpy.ndarray` takes about a microsecond for each array, and the C constructor a tenth of that. An object with many arrays is
//! therefore read much faster. Two functions are looked up by their index in the table that NumPy exports. Their indices and signatures have
//! not changed since NumPy 1.7, and the version of the table is checked.

use std::collections::HashMap;
use std::ffi::{c_int, c_uint, c_void};
use std::sync::Mutex;

use pyo3::exceptions::{PyImportError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use super::cursor::Cursor;
use crate::memory::Place;

/// The kind of a buffer that is not an array.
pub const PLAIN_MEMORY: u8 = 0;
/// An array in C order.
const ROWS_FIRST: u8 = 1;
/// An array in Fortran order.
const COLUMNS_FIRST: u8 = 2;
/// An array with explicit strides.
const STRIDED: u8 = 3;

/// The most dimensions of a NumPy array.
const MOST_DIMENSIONS: usize = 64;
/// The most dtypes that are cached.
const MOST_DTYPES: usize = 1024;
/// `NPY_ARRAY_F_CONTIGUOUS`.
const FORTRAN: c_int = 2;

/// `npy_intp`.
type Intp = isize;
type NewFromDescr = unsafe extern "C" fn(
    *mut ffi::PyTypeObject,
    *mut ffi::PyObject,
    c_int,
    *const Intp,
    *const Intp,
    *mut c_void,
    c_int,
    *mut ffi::PyObject,
) -> *mut ffi::PyObject;
type SetBaseObject = unsafe extern "C" fn(*mut ffi::PyObject, *mut ffi::PyObject) -> c_int;

/// The parts of NumPy's C interface that are used.
pub struct Arrays {
    array_type: *mut ffi::PyTypeObject,
    new_from_descr: NewFromDescr,
    set_base_object: SetBaseObject,
}

// SAFETY: the pointers are to functions and a type, which are never freed and never change.
unsafe impl Send for Arrays {}
// SAFETY: as above.
unsafe impl Sync for Arrays {}

/// A dtype without references to objects, so that any memory may be interpreted as its items.
pub struct Dtype {
    object: Py<PyAny>,
    item: usize,
}

/// The shape and layout of an array. One value is reused for all arrays of an object.
pub struct Shape {
    kind: u8,
    lengths: Vec<Intp>,
    /// In bytes; empty unless the kind is [`STRIDED`].
    strides: Vec<Intp>,
    /// Bytes from the start of the buffer to the first item.
    offset: usize,
    /// The least bytes that the buffer must have.
    needed: usize,
}

/// The dtype of a name such as `<f8`.
pub fn dtype(py: Python<'_>, name: &[u8]) -> PyResult<Dtype> {
    static KNOWN: Mutex<Option<HashMap<Vec<u8>, Dtype>>> = Mutex::new(None);
    if let Ok(mut known) = KNOWN.lock()
        && let Some(found) = known.get_or_insert_default().get(name)
    {
        return Ok(Dtype { object: found.object.clone_ref(py), item: found.item });
    }
    let make = py.import("numpy")?.getattr("dtype")?;
    let unknown = || PyValueError::new_err(format!("NumPy has no dtype {:?}", name.escape_ascii().to_string()));
    let text = std::str::from_utf8(name).map_err(|_| unknown())?;
    let object = make.call1((text,)).map_err(|_| unknown())?;
    if object.getattr("hasobject")?.is_truthy()? || object.getattr("num")?.extract::<i64>()? >= 256 {
        return Err(PyValueError::new_err(format!("an array over memory cannot be of type {text:?}")));
    }
    let item = object.getattr("itemsize")?.extract()?;
    if let Ok(mut known) = KNOWN.lock() {
        let known = known.get_or_insert_default();
        if known.len() >= MOST_DTYPES {
            known.clear();
        }
        known.insert(name.to_vec(), Dtype { object: object.clone().unbind(), item });
    }
    Ok(Dtype { object: object.unbind(), item })
}

impl Shape {
    /// An empty shape, to be filled in by `read`.
    pub fn new() -> Self {
        Self { kind: ROWS_FIRST, lengths: Vec::with_capacity(4), strides: Vec::new(), offset: 0, needed: 0 }
    }

    /// Read the description that follows its first byte, `kind`; return the array's dtype.
    pub fn read<'a>(&mut self, kind: u8, cursor: &mut Cursor<'_>, dtypes: &'a [Dtype]) -> PyResult<&'a Dtype> {
        if !matches!(kind, ROWS_FIRST | COLUMNS_FIRST | STRIDED) {
            return Err(PyValueError::new_err(format!("a buffer of kind {kind}, expected 0 to 3")));
        }
        self.kind = kind;
        let dimensions = usize::from(cursor.u8()?);
        if dimensions > MOST_DIMENSIONS {
            return Err(PyValueError::new_err(format!(
                "an array of {dimensions} dimensions, expected {MOST_DIMENSIONS} at most"
            )));
        }
        let number = usize::from(cursor.u16()?);
        let dtype = dtypes.get(number).ok_or_else(|| {
            PyValueError::new_err(format!("an array of type number {number}, of {} types", dtypes.len()))
        })?;
        self.lengths.clear();
        for _ in 0..dimensions {
            self.lengths.push(Intp::try_from(cursor.size()?)?);
        }
        self.strides.clear();
        self.offset = 0;
        if kind == STRIDED {
            for _ in 0..dimensions {
                self.strides.push(Intp::try_from(cursor.i64()?)?);
            }
            self.offset = cursor.size()?;
        }
        self.needed = self.reach(dtype.item).ok_or_else(|| {
            PyValueError::new_err(format!(
                "an array of shape {:?} and strides {:?} from byte {} reaches outside of any memory",
                self.lengths, self.strides, self.offset
            ))
        })?;
        Ok(dtype)
    }

    /// The bytes that the buffer must have; `None` if no buffer can hold the array.
    fn reach(&self, item: usize) -> Option<usize> {
        let lengths = &self.lengths;
        // NumPy also checks that the product of the lengths that are not 0 does not overflow.
        let mut bytes = item.max(1);
        for length in lengths {
            bytes = bytes.checked_mul(length.unsigned_abs().max(1))?;
        }
        Intp::try_from(bytes).ok()?;
        if lengths.contains(&0) {
            return Some(0);
        }
        if self.kind != STRIDED {
            return Some(if item == 0 { 0 } else { bytes });
        }
        let (mut before, mut after) = (0usize, item);
        for (length, stride) in lengths.iter().zip(&self.strides) {
            let span = (length.unsigned_abs() - 1).checked_mul(stride.unsigned_abs())?;
            if *stride < 0 {
                before = before.checked_add(span)?;
            } else {
                after = after.checked_add(span)?;
            }
        }
        if before > self.offset {
            return None;
        }
        self.offset.checked_add(after)
    }
}

impl Arrays {
    /// The interface of the installed NumPy; looked up once.
    pub fn get(py: Python<'_>) -> PyResult<&'static Self> {
        static FOUND: PyOnceLock<Arrays> = PyOnceLock::new();
        FOUND.get_or_try_init(py, || Self::find(py))
    }

    fn find(py: Python<'_>) -> PyResult<Self> {
        let capsule = py.import("numpy._core._multiarray_umath")?.getattr("_ARRAY_API")?;
        // SAFETY: the call fails if the object is not a capsule; NumPy's capsule has no name.
        let table = unsafe { ffi::PyCapsule_GetPointer(capsule.as_ptr(), std::ptr::null()) }.cast::<*mut c_void>();
        if table.is_null() {
            return Err(PyErr::fetch(py));
        }
        // SAFETY: in every version, entry 0 of the table is the function that returns the version.
        let version: unsafe extern "C" fn() -> c_uint = unsafe { std::mem::transmute(*table) };
        // SAFETY: the function has no parameters and no precondition.
        let version = unsafe { version() };
        if version >> 24 != 2 {
            return Err(PyImportError::new_err(format!("NumPy's C interface is of version {version:#x}, expected 2")));
        }
        // SAFETY: in version 2 of the table, entry 2 is ndarray's type and entries 94 and 282 are these functions.
        unsafe {
            Ok(Self {
                array_type: (*table.add(2)).cast(),
                new_from_descr: std::mem::transmute::<*mut c_void, NewFromDescr>(*table.add(94)),
                set_base_object: std::mem::transmute::<*mut c_void, SetBaseObject>(*table.add(282)),
            })
        }
    }

    /// A read-only array over this memory; with `copy`, a writable array that owns its memory.
    pub fn over(
        &self,
        py: Python<'_>,
        shape: &Shape,
        dtype: &Dtype,
        place: &Place<'_>,
        copy: bool,
    ) -> PyResult<Py<PyAny>> {
        let bytes = place.bytes;
        if shape.needed > bytes.len() {
            return Err(PyValueError::new_err(format!(
                "an array of shape {:?} needs {} bytes, its buffer has {}",
                shape.lengths,
                shape.needed,
                bytes.len()
            )));
        }
        // An array without items is not dereferenced, so any address is valid.
        let first = if shape.needed == 0 { bytes.as_ptr() } else { bytes[shape.offset..].as_ptr() };
        let strides = if shape.kind == STRIDED { shape.strides.as_ptr() } else { std::ptr::null() };
        let flags = if shape.kind == COLUMNS_FIRST { FORTRAN } else { 0 };
        // SAFETY: the memory has the `needed` bytes that lengths, strides and item size span. The dtype has no references, so any bytes are
        // valid items. The array is read-only. The call takes ownership of the reference to the dtype.
        let array = unsafe {
            (self.new_from_descr)(
                self.array_type,
                dtype.object.clone_ref(py).into_ptr(),
                shape.lengths.len() as c_int,
                shape.lengths.as_ptr(),
                strides,
                first.cast_mut().cast(),
                flags,
                std::ptr::null_mut(),
            )
        };
        // SAFETY: the call returned a new reference, or null with an exception set.
        let array = unsafe { Bound::from_owned_ptr_or_err(py, array) }?;
        // SAFETY: the array is new; the call takes ownership of the reference to the object that keeps the memory alive.
        if unsafe { (self.set_base_object)(array.as_ptr(), place.keeper.clone_ref(py).into_ptr()) } < 0 {
            return Err(PyErr::fetch(py));
        }
        if copy { Ok(array.call_method1("copy", ("K",))?.unbind()) } else { Ok(array.unbind()) }
    }
}
