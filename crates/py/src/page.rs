//! The Python classes of pages, and their conversion to Arrow data.

use std::panic::{RefUnwindSafe, UnwindSafe};
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, Weak};

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_schema::SchemaRef;
use craton_store::{DataInfo, Location, PageBuffer, Pinned};
use craton_wire::object::{self, RowPlace};
use parking_lot::Mutex;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::arrow::ArrowBatches;
use crate::errors::page_error;
use crate::memory::{Memory, Place};

/// The metadata of a page, which is sent between processes instead of its bytes.
#[pyclass(frozen, module = "craton._native", name = "PageInfo")]
pub struct PageInfo {
    pub(crate) info: DataInfo,
}

#[pymethods]
impl PageInfo {
    #[getter]
    fn set(&self) -> u64 {
        self.info.page.set.0
    }

    #[getter]
    fn number(&self) -> u32 {
        self.info.page.number
    }

    #[getter]
    fn key<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        self.info.key.as_ref().map(|key| PyBytes::new(py, key))
    }

    #[getter]
    fn rows(&self) -> u64 {
        self.info.rows
    }

    #[getter]
    fn nbytes(&self) -> u64 {
        self.info.bytes
    }

    #[getter]
    fn location(&self) -> &'static str {
        match self.info.location {
            Location::Memory => "memory",
            Location::Disk => "disk",
            Location::Both => "both",
        }
    }

    #[getter]
    fn statistics<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.info.statistics)
    }

    fn __repr__(&self) -> String {
        let DataInfo { page, rows, bytes, .. } = &self.info;
        format!("<PageInfo {page}: {rows} rows, {bytes} bytes, {}>", self.location())
    }
}

// A pin that is the shared owner of a page's Arrow buffers.
struct Pin {
    _pinned: Arc<Pinned>,
}
impl RefUnwindSafe for Pin {}
impl UnwindSafe for Pin {}

type Held = Mutex<Vec<Weak<Pinned>>>;

/// Weak references to all pages of this process that are pinned, and to some that no longer are; null before the first page. It is a pointer
/// to a lock, so that a forked process can replace the lock: it would stay locked if another thread held it at the fork.
static HELD: AtomicPtr<Held> = AtomicPtr::new(null_mut());

fn held() -> &'static Held {
    let mut there = HELD.load(Ordering::Acquire);
    if there.is_null() {
        let made = Box::into_raw(Box::default());
        there = match HELD.compare_exchange(null_mut(), made, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => made,
            Err(other) => other, // another thread was first; `made` leaks a few bytes
        };
    }
    // SAFETY: the pointer comes from a box that is never freed.
    unsafe { &*there }
}

/// Pins all pages that were pinned in this process when the object was created, until `release`.
#[pyclass(frozen, module = "craton._native", name = "HeldPages")]
pub struct HeldPages {
    pages: Mutex<Vec<Arc<Pinned>>>,
}

#[pymethods]
impl HeldPages {
    fn __len__(&self) -> usize {
        self.pages.lock().len()
    }

    fn release(&self, py: Python<'_>) {
        py.detach(|| drop(std::mem::take(&mut *self.pages.lock())));
    }
}

/// Pin all pages that are pinned in this process; see the stub for the contract.
#[pyfunction]
pub fn hold_pages() -> HeldPages {
    let pages = held().lock().iter().filter_map(Weak::upgrade).collect();
    HeldPages { pages: Mutex::new(pages) }
}

/// Forget which pages are pinned in this process; see the stub for the contract.
#[pyfunction]
pub fn forget_held_pages() {
    HELD.store(null_mut(), Ordering::Release);
}

/// A pinned page. It stays in memory while this object, or any data that was read from it, lives.
#[pyclass(frozen, module = "craton._native", name = "Page")]
pub struct Page {
    pinned: Arc<Pinned>,
}

/// A value of a pickled object that is stored as a page: the metadata, or a buffer.
pub enum Value {
    /// A value in one row, which [`Page::row`] returns.
    One(RowPlace),
    /// A value in several rows, each of which except the last has 1 GiB.
    Many(Py<Memory>),
}

impl Page {
    /// Wrap a pinned page, and add it to the list of pinned pages.
    pub fn new(pinned: Pinned) -> Self {
        let pinned = Arc::new(pinned);
        let mut held = held().lock();
        if held.len() == held.capacity() {
            held.retain(|page| page.strong_count() > 0);
            let more = held.len() + 16; // doubling: each entry is examined about twice on average
            held.reserve(more);
        }
        held.push(Arc::downgrade(&pinned));
        drop(held);
        Self { pinned }
    }

    /// The metadata and the buffers of the object that the page holds.
    pub fn values(&self, py: Python<'_>) -> PyResult<Vec<Value>> {
        let slices: Vec<&[u8]> = self.pinned.buffers.iter().map(PageBuffer::as_slice).collect();
        let places = object::locate_object(&self.pinned.header, &slices).map_err(page_error)?;
        let one = |rows: &[RowPlace]| match rows {
            [row] => Ok(Value::One(row.clone())),
            rows => {
                let buffers = self.buffers();
                let parts: Vec<Buffer> = rows
                    .iter()
                    .map(|row| buffers[row.buffer].slice_with_length(row.range.start, row.range.len()))
                    .collect();
                Ok(Value::Many(Py::new(py, Memory::of_page(joined(&parts)))?))
            }
        };
        places.values().map(one).collect()
    }

    /// The memory of a value.
    pub fn memory(slf: &Py<Self>, py: Python<'_>, value: &Value) -> PyResult<Py<Memory>> {
        match value {
            Value::One(place) => Memory::at(py, &Place { keeper: slf.as_any(), bytes: slf.get().row(place) }),
            Value::Many(memory) => Ok(memory.clone_ref(py)),
        }
    }

    /// The bytes of a [`Value::One`].
    pub fn row(&self, place: &RowPlace) -> &[u8] {
        &self.pinned.buffers[place.buffer].as_slice()[place.range.clone()]
    }

    /// The page as a record batch; `columns` selects columns by position.
    pub fn decoded(&self, columns: Option<&[usize]>) -> craton_wire::Result<RecordBatch> {
        let (header, buffers) = (&self.pinned.header, self.buffers());
        match columns {
            None => craton_wire::decode(header, &buffers, craton_wire::Trust::Own),
            Some(columns) => craton_wire::decode_columns(header, &buffers, columns, craton_wire::Trust::Own),
        }
    }

    fn buffers(&self) -> Vec<Buffer> {
        let owner: Arc<dyn arrow_buffer::alloc::Allocation> = Arc::new(Pin { _pinned: Arc::clone(&self.pinned) });
        let one = |part: &PageBuffer| {
            let slice = part.as_slice();
            let Some(start) = NonNull::new(slice.as_ptr().cast_mut()).filter(|_| !slice.is_empty()) else {
                return Buffer::from_vec(Vec::<u8>::new());
            };
            // SAFETY: the slice is readable as long as the page is pinned, which `owner` ensures; sealed pages are never written to.
            unsafe { Buffer::from_custom_allocation(start, slice.len(), Arc::clone(&owner)) }
        };
        self.pinned.buffers.iter().map(one).collect()
    }
}

#[pymethods]
impl Page {
    #[getter]
    fn info(&self) -> PageInfo {
        PageInfo { info: self.pinned.info.clone() }
    }

    /// The bytes that the page's writer stored to describe its contents.
    #[getter]
    fn statistics<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.pinned.info.statistics)
    }

    /// The metadata of the object that the page holds.
    fn meta(slf: Py<Self>, py: Python<'_>) -> PyResult<Py<Memory>> {
        match slf.get().values(py)?.first() {
            Some(value) => Self::memory(&slf, py, value),
            None => Err(PyValueError::new_err("the page does not hold an object: it has no rows")),
        }
    }

    /// The page as Arrow data; `columns` selects columns by position.
    #[pyo3(signature = (columns=None), text_signature = "($self, columns=None)")]
    fn batch(&self, py: Python<'_>, columns: Option<Vec<usize>>) -> PyResult<ArrowBatches> {
        let batch = py.detach(|| self.decoded(columns.as_deref())).map_err(page_error)?;
        Ok(ArrowBatches::new(batch.schema(), vec![batch]))
    }

    /// The address and the length of each buffer.
    fn addresses(&self) -> Vec<(usize, usize)> {
        self.pinned.buffers.iter().map(|part| (part.as_slice().as_ptr().addr(), part.as_slice().len())).collect()
    }
}

/// Pages as Arrow data, in order; `columns` selects columns by position. Consecutive pages with equal schemas form one stream.
///
/// # Errors
/// When a page does not hold Arrow data, or has no column at a position.
pub fn batches(
    pinned: impl Iterator<Item = Pinned>,
    columns: Option<&[usize]>,
) -> craton_wire::Result<Vec<ArrowBatches>> {
    let mut streams: Vec<(SchemaRef, Vec<RecordBatch>)> = Vec::new();
    for page in pinned.map(Page::new) {
        let batch = page.decoded(columns)?;
        match streams.last_mut() {
            Some((schema, batches)) if **schema == *batch.schema() => batches.push(batch),
            _ => streams.push((batch.schema(), vec![batch])),
        }
    }
    Ok(streams.into_iter().map(|(schema, batches)| ArrowBatches::new(schema, batches)).collect())
}

/// Join the parts of a buffer; without a copy if they adjoin in memory, as in a page.
fn joined(parts: &[Buffer]) -> Buffer {
    let [first, rest @ ..] = parts else { return Buffer::from_vec(Vec::<u8>::new()) };
    if rest.is_empty() {
        return first.clone();
    }
    let adjoining = parts.windows(2).all(|pair| pair[0].as_slice().as_ptr_range().end == pair[1].as_ptr());
    let length = parts.iter().map(Buffer::len).sum();
    match NonNull::new(first.as_ptr().cast_mut()).filter(|_| adjoining) {
        // SAFETY: the parts adjoin, and the new buffer owns all of them.
        Some(start) => unsafe { Buffer::from_custom_allocation(start, length, Arc::new(parts.to_vec())) },
        None => Buffer::from_vec(parts.iter().flat_map(|part| part.as_slice().iter().copied()).collect::<Vec<u8>>()),
    }
}
