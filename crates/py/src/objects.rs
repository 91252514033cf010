//! `craton._native`: the buffers of serialized objects, and arrays over them.
//!
//! Pickle's protocol 5 leaves large buffers out of its stream; the unpickler takes them from an iterator. [`Buffers`] is that iterator. For a
//! plain array it yields the finished array, for other buffers their memory. `craton.serialize` writes these layouts and documents them.

mod arrays;
mod cursor;

use arrays::{Arrays, Dtype, Shape};
use cursor::Cursor;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyList};

use crate::memory::{Memory, Place};
use crate::page::{Page, Value};

/// The first bytes of a container.
const MAGIC: &[u8; 8] = b"CRATONOB";
/// The supported version of the layouts of containers and of meta.
const VERSION: u32 = 1;
/// Bytes of a container before its table of buffers.
const HEADER: usize = 48;
/// Bytes of an entry of the table.
const ENTRY: usize = 16;
/// The first bytes of meta.
const META_MAGIC: u32 = u32::from_le_bytes(*b"COBM");

/// The location of the buffers.
enum Source {
    /// In a container, whose table of buffers starts at this offset.
    Container { whole: Py<Memory>, table: usize },
    /// Each in separate memory.
    Separate(Vec<Py<Memory>>),
    /// In a page of a store; the first value is the metadata.
    Page { page: Py<Page>, values: Vec<Value> },
}

/// An iterator over the buffers of a serialized object; see the stub for the contract.
#[pyclass(module = "craton._native")]
pub struct Buffers {
    source: Source,
    meta: Py<Memory>,
    /// Where the description of the next buffer starts in `meta`.
    at: usize,
    /// Where the descriptions end and the stream starts.
    end: usize,
    /// The number of buffers yielded so far, and of all buffers.
    next: usize,
    count: usize,
    dtypes: Vec<Dtype>,
    copy: bool,
    shape: Shape,
}

impl Buffers {
    /// Read the header of meta, which is at `place` in `meta`, up to the descriptions of the buffers.
    fn open(
        py: Python<'_>,
        meta: Py<Memory>,
        place: (usize, usize),
        source: Source,
        given: usize,
        copy: bool,
    ) -> PyResult<Self> {
        let (start, stop) = place;
        let mut cursor = Cursor::new(meta.get().bytes(), start, stop, "the object's meta");
        let (magic, version) = (cursor.u32()?, cursor.u32()?);
        if magic != META_MAGIC {
            return Err(PyValueError::new_err(format!(
                "meta starts with {:?}, expected {:?}: these bytes are not the meta of an object that Craton encoded",
                magic.to_le_bytes().escape_ascii().to_string(),
                META_MAGIC.to_le_bytes().escape_ascii().to_string()
            )));
        }
        newer("meta", version)?;
        let (count, dtypes, bytes) = (cursor.u64()?, cursor.u32()?, cursor.size()?);
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        if count != given {
            return Err(PyValueError::new_err(format!("meta describes {count} buffers, {given} were given")));
        }
        let end = cursor.at().checked_add(bytes).filter(|end| *end <= stop).ok_or_else(|| cursor.truncated(bytes))?;
        let mut known = Vec::new();
        for _ in 0..dtypes {
            let length = usize::from(cursor.u8()?);
            known.push(arrays::dtype(py, cursor.take(length)?)?);
        }
        let at = cursor.at();
        Ok(Self { source, meta, at, end, next: 0, count, dtypes: known, copy, shape: Shape::new() })
    }
}

impl Source {
    /// The memory of the `number`-th buffer.
    fn place(&self, number: usize) -> PyResult<Place<'_>> {
        match self {
            Self::Separate(all) => {
                let memory = &all[number];
                Ok(Place { keeper: memory.as_any(), bytes: memory.get().bytes() })
            }
            Self::Page { page, values } => Ok(match &values[number + 1] {
                Value::One(place) => Place { keeper: page.as_any(), bytes: page.get().row(place) },
                Value::Many(memory) => Place { keeper: memory.as_any(), bytes: memory.get().bytes() },
            }),
            Self::Container { whole, table } => {
                let bytes = whole.get().bytes();
                let mut cursor = Cursor::new(bytes, table + number * ENTRY, bytes.len(), "the container's table");
                let (offset, length) = (cursor.size()?, cursor.size()?);
                let Some(part) = offset.checked_add(length).and_then(|end| bytes.get(offset..end)) else {
                    return Err(PyValueError::new_err(format!(
                        "buffer {number}, {length} bytes at {offset}, exceeds the container, which has {} bytes",
                        bytes.len()
                    )));
                };
                Ok(Place { keeper: whole.as_any(), bytes: part })
            }
        }
    }
}

impl Buffers {
    /// Make the next item, a plain array or memory. There must be a next buffer.
    fn made(&mut self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let place = self.source.place(self.next)?;
        let shape = &mut self.shape;
        let mut cursor = Cursor::new(self.meta.get().bytes(), self.at, self.end, "the description of buffers");
        let made = match cursor.u8()? {
            arrays::PLAIN_MEMORY if self.copy => PyByteArray::new(py, place.bytes).into_any().unbind(),
            arrays::PLAIN_MEMORY => Memory::at(py, &place)?.into_any(),
            kind => {
                let dtype = shape.read(kind, &mut cursor, &self.dtypes)?;
                Arrays::get(py)?.over(py, shape, dtype, &place, self.copy)?
            }
        };
        self.at = cursor.at();
        self.next += 1;
        Ok(made)
    }
}

#[pymethods]
impl Buffers {
    /// The buffers of an object that was encoded into meta and buffers.
    #[new]
    #[pyo3(signature = (meta, buffers, copy, /), text_signature = "(meta, buffers, copy, /)")]
    fn new(py: Python<'_>, meta: &Bound<'_, PyAny>, buffers: &Bound<'_, PyAny>, copy: bool) -> PyResult<Self> {
        let mut all = Vec::with_capacity(buffers.len().unwrap_or(0));
        for buffer in buffers.try_iter()? {
            all.push(Memory::of(&buffer?)?);
        }
        let meta = Memory::of(meta)?;
        let (length, given) = (meta.get().len(), all.len());
        Self::open(py, meta, (0, length), Source::Separate(all), given, copy)
    }

    /// The buffers of a container.
    #[staticmethod]
    #[pyo3(signature = (data, copy, /), text_signature = "(data, copy, /)")]
    fn of_container(py: Python<'_>, data: &Bound<'_, PyAny>, copy: bool) -> PyResult<Self> {
        let whole = Memory::of(data)?;
        let bytes = whole.get().bytes();
        let mut cursor = Cursor::new(bytes, 0, bytes.len(), "the container");
        let magic = cursor.take(MAGIC.len())?;
        if magic != MAGIC {
            return Err(PyValueError::new_err(format!(
                "the data starts with {:?}, expected {:?}: it was not made by craton.serialize",
                magic.escape_ascii().to_string(),
                MAGIC.escape_ascii().to_string()
            )));
        }
        newer("the container", cursor.u32()?)?;
        cursor.u32()?;
        let (total, start, length, count) = (cursor.size()?, cursor.size()?, cursor.size()?, cursor.size()?);
        if total > bytes.len() {
            return Err(PyValueError::new_err(format!(
                "the container is truncated: its header claims {total} bytes, {} were given",
                bytes.len()
            )));
        }
        let table = count.checked_mul(ENTRY).and_then(|bytes| bytes.checked_add(HEADER));
        let stop = start.checked_add(length);
        let (Some(stop), true) = (stop.filter(|stop| *stop <= total), table.is_some_and(|end| end <= start)) else {
            return Err(PyValueError::new_err(format!(
                "the container of {total} bytes is damaged: {count} buffers, and {length} bytes of meta at {start}"
            )));
        };
        let meta = whole.clone_ref(py);
        Self::open(py, meta, (start, stop), Source::Container { whole, table: HEADER }, count, copy)
    }

    /// The buffers of an object that is stored as a page.
    #[staticmethod]
    #[pyo3(signature = (page, copy, /), text_signature = "(page, copy, /)")]
    fn of_page(py: Python<'_>, page: Py<Page>, copy: bool) -> PyResult<Self> {
        let values = page.get().values(py)?;
        let Some(meta) = values.first() else {
            return Err(PyValueError::new_err("the page has no rows: expected the meta of an object"));
        };
        let meta = Page::memory(&page, py, meta)?;
        let (length, given) = (meta.get().len(), values.len() - 1);
        Self::open(py, meta, (0, length), Source::Page { page, values }, given, copy)
    }

    /// The pickle stream.
    #[getter]
    fn stream(&self, py: Python<'_>) -> PyResult<Py<Memory>> {
        let stop = match &self.source {
            Source::Separate(_) | Source::Page { .. } => self.meta.get().len(),
            Source::Container { whole, .. } => {
                let mut cursor = Cursor::new(whole.get().bytes(), 24, HEADER, "the container");
                cursor.size()?.saturating_add(cursor.size()?)
            }
        };
        Memory::part(py, &self.meta, self.end, stop)
    }

    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __length_hint__(&self) -> usize {
        self.count - self.next
    }

    fn __next__(&mut self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        if self.next == self.count { Ok(None) } else { self.made(py).map(Some) }
    }

    /// The remaining items, as a list.
    fn rest<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let all = (self.next..self.count).map(|_| self.made(py)).collect::<PyResult<Vec<_>>>()?;
        PyList::new(py, all)
    }
}

/// Fail unless a layout has the supported version.
fn newer(what: &str, version: u32) -> PyResult<()> {
    if version == VERSION {
        return Ok(());
    }
    Err(PyValueError::new_err(format!(
        "{what} is of version {version}; this version of Craton reads version {VERSION}"
    )))
}

/// Return the argument; see the stub for the contract.
#[pyfunction]
#[pyo3(signature = (array, /), text_signature = "(array, /)")]
pub fn array<'py>(array: &Bound<'py, PyAny>) -> Bound<'py, PyAny> {
    array.clone()
}

/// Fail if a pickle is truncated or nests deeper than `most`; see the stub for the contract.
#[pyfunction]
#[pyo3(signature = (stream, most, /), text_signature = "(stream, most, /)")]
pub fn check_pickle(stream: &Bound<'_, PyAny>, most: u32) -> PyResult<()> {
    let memory;
    let bytes = match stream.cast_exact::<PyBytes>() {
        Ok(bytes) => bytes.as_bytes(),
        Err(_) => {
            memory = Memory::of(stream)?;
            // The interpreter lock is not released, so no Python code writes to the memory during the check.
            memory.get().bytes()
        }
    };
    craton_wire::pickle::check(bytes, most).map_err(|error| PyValueError::new_err(error.to_string()))
}
