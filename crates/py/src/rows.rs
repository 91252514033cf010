//! `craton._native`: row numbers of sorted and joined rows.

use craton_rows::{JoinMap as Map, MOST_ROWS, Matches as Pairs, View};
use pyo3::buffer::{Element, PyBuffer};
use pyo3::exceptions::{PyOverflowError, PyValueError};
use pyo3::prelude::*;

/// The items of a buffer.
///
/// # Safety
///
/// The buffer must not be written to while the slice lives.
pub unsafe fn items<T: Element>(buffer: &PyBuffer<T>) -> PyResult<&[T]> {
    if !buffer.is_c_contiguous() {
        return Err(PyValueError::new_err("the buffer is not contiguous"));
    }
    if buffer.item_count() == 0 {
        return Ok(&[]);
    }
    // SAFETY: the buffer is contiguous; PyBuffer has checked type and alignment, and keeps the memory alive.
    Ok(unsafe { std::slice::from_raw_parts(buffer.buf_ptr().cast::<T>(), buffer.item_count()) })
}

/// The items of a buffer, for writing.
///
/// # Safety
///
/// The buffer must not be read or written elsewhere while the slice lives.
#[allow(clippy::mut_from_ref)]
pub unsafe fn items_mut<T: Element>(buffer: &PyBuffer<T>) -> PyResult<&mut [T]> {
    if buffer.readonly() || !buffer.is_c_contiguous() {
        return Err(PyValueError::new_err("the buffer is read-only or not contiguous"));
    }
    if buffer.item_count() == 0 {
        return Ok(&mut []);
    }
    // SAFETY: as in `items`, and the buffer is writable.
    Ok(unsafe { std::slice::from_raw_parts_mut(buffer.buf_ptr().cast::<T>(), buffer.item_count()) })
}

fn few_enough(count: usize) -> PyResult<()> {
    if count < MOST_ROWS {
        return Ok(());
    }
    Err(PyOverflowError::new_err(format!("{count} rows are too many for row numbers of 32 bits")))
}

/// Write the row numbers of the sorted keys; see the stub for the contract.
#[pyfunction]
#[pyo3(text_signature = "(keys, descending, rows, ordered=None, /)", signature = (keys, descending, rows, ordered=None, /))]
pub fn argsort(
    py: Python<'_>,
    keys: PyBuffer<i64>,
    descending: bool,
    rows: PyBuffer<u32>,
    ordered: Option<PyBuffer<i64>>,
) -> PyResult<()> {
    few_enough(keys.item_count())?;
    let places = ordered.as_ref().map_or(keys.item_count(), |ordered| ordered.item_count());
    if keys.item_count() != rows.item_count() || keys.item_count() != places {
        return Err(PyValueError::new_err(format!(
            "argsort() has {} keys and room for {} row numbers and {places} keys",
            keys.item_count(),
            rows.item_count()
        )));
    }
    // SAFETY: by the function's contract the buffers are not accessed elsewhere until the call returns, and they are different buffers.
    let (keys, rows) = unsafe { (items(&keys)?, items_mut(&rows)?) };
    // SAFETY: as above.
    let ordered = ordered.as_ref().map(|ordered| unsafe { items_mut(ordered) }).transpose()?;
    py.detach(|| craton_rows::sort(keys, descending, rows, ordered));
    Ok(())
}

/// Write the values of some rows; see the stub for the contract.
#[pyfunction]
#[pyo3(text_signature = "(values, rows, out, /)", signature = (values, rows, out, /))]
pub fn gather(py: Python<'_>, values: &Bound<'_, PyAny>, rows: PyBuffer<u32>, out: &Bound<'_, PyAny>) -> PyResult<()> {
    if let (Ok(values), Ok(out)) = (PyBuffer::<u8>::get(values), PyBuffer::<u8>::get(out)) {
        return gather_items(py, &values, &rows, &out);
    }
    if let (Ok(values), Ok(out)) = (PyBuffer::<u16>::get(values), PyBuffer::<u16>::get(out)) {
        return gather_items(py, &values, &rows, &out);
    }
    if let (Ok(values), Ok(out)) = (PyBuffer::<u32>::get(values), PyBuffer::<u32>::get(out)) {
        return gather_items(py, &values, &rows, &out);
    }
    gather_items(py, &PyBuffer::<u64>::get(values)?, &rows, &PyBuffer::<u64>::get(out)?)
}

fn gather_items<T: Element + Send + Sync>(
    py: Python<'_>,
    values: &PyBuffer<T>,
    rows: &PyBuffer<u32>,
    out: &PyBuffer<T>,
) -> PyResult<()> {
    if rows.item_count() != out.item_count() {
        return Err(PyValueError::new_err(format!(
            "gather() has {} row numbers and room for {} values",
            rows.item_count(),
            out.item_count()
        )));
    }
    // SAFETY: by the function's contract the buffers are not accessed elsewhere until the call returns.
    let (values, rows, out) = unsafe { (items(values)?, items(rows)?, items_mut(out)?) };
    py.detach(|| craton_rows::gather(values, rows, out));
    Ok(())
}

/// The views of a buffer of bytes.
fn views(bytes: &[u8]) -> PyResult<&[View]> {
    let (count, rest) = (bytes.len() / size_of::<View>(), bytes.len() % size_of::<View>());
    if rest != 0 {
        return Err(PyValueError::new_err("views have 16 bytes each"));
    }
    // SAFETY: views are arrays of bytes, and so many of them are in the slice.
    Ok(unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast(), count) })
}

/// Write where texts begin; see the stub for the contract.
#[pyfunction]
#[pyo3(text_signature = "(views, present, offsets, /)", signature = (views, present, offsets, /))]
pub fn offsets_of_texts(
    py: Python<'_>,
    views: PyBuffer<u8>,
    present: Option<PyBuffer<u8>>,
    offsets: PyBuffer<i64>,
) -> PyResult<usize> {
    // SAFETY: by the function's contract the buffers are not accessed elsewhere until the call returns, and they are different buffers.
    let (found, offsets) = unsafe { (self::views(items(&views)?)?, items_mut(&offsets)?) };
    // SAFETY: as above.
    let present = present.as_ref().map(|bits| unsafe { items(bits) }).transpose()?;
    if offsets.len() != found.len() + 1 || present.is_some_and(|bits| bits.len() * 8 < found.len()) {
        return Err(PyValueError::new_err("there must be an offset more than views, and a bit for each view"));
    }
    Ok(py.detach(|| craton_rows::offsets_of_texts(found, present, offsets)))
}

/// Copy texts out of their views; see the stub for the contract.
#[pyfunction]
#[pyo3(text_signature = "(views, buffers, offsets, out, /)", signature = (views, buffers, offsets, out, /))]
pub fn copy_texts(
    py: Python<'_>,
    views: PyBuffer<u8>,
    buffers: Vec<PyBuffer<u8>>,
    offsets: PyBuffer<i64>,
    out: PyBuffer<u8>,
) -> PyResult<()> {
    // SAFETY: by the function's contract the buffers are not accessed elsewhere until the call returns, and they are different buffers.
    let (found, offsets, out) = unsafe { (self::views(items(&views)?)?, items(&offsets)?, items_mut(&out)?) };
    // SAFETY: as above.
    let buffers = buffers.iter().map(|buffer| unsafe { items(buffer) }).collect::<PyResult<Vec<&[u8]>>>()?;
    if offsets.len() != found.len() + 1 || offsets[found.len()] != out.len() as i64 || !offsets.is_sorted() {
        return Err(PyValueError::new_err("the offsets are not those of the views and of out"));
    }
    py.detach(|| craton_rows::copy_texts(found, &buffers, offsets, out))
        .map_err(|_| PyValueError::new_err("a view names bytes that are in no buffer"))
}

/// A map from each key of one side of a join to its rows; see the stub for the contract.
#[pyclass(frozen, module = "craton._native")]
pub struct JoinMap(Map);

#[pymethods]
impl JoinMap {
    #[new]
    #[pyo3(text_signature = "(keys, /)", signature = (keys, /))]
    fn new(py: Python<'_>, keys: PyBuffer<i64>) -> PyResult<Self> {
        few_enough(keys.item_count())?;
        // SAFETY: by the class's contract the buffer is not written to until the constructor returns.
        let keys = unsafe { items(&keys)? };
        Ok(Self(py.detach(|| Map::new(keys))))
    }

    #[pyo3(text_signature = "(keys, keep, /)", signature = (keys, keep, /))]
    fn probe(&self, py: Python<'_>, keys: PyBuffer<i64>, keep: bool) -> PyResult<Matches> {
        few_enough(keys.item_count())?;
        // SAFETY: by the method's contract the buffer is not written to until the call returns.
        let keys = unsafe { items(&keys)? };
        Ok(Matches(py.detach(|| self.0.probe(keys, keep))))
    }
}

/// Pairs of matching rows; see the stub for the contract.
#[pyclass(frozen, module = "craton._native")]
pub struct Matches(Pairs);

#[pymethods]
impl Matches {
    fn __len__(&self) -> usize {
        self.0.len()
    }

    #[pyo3(text_signature = "(ours, theirs, /)", signature = (ours, theirs, /))]
    fn write(&self, py: Python<'_>, ours: PyBuffer<u32>, theirs: PyBuffer<u32>) -> PyResult<()> {
        if (ours.item_count(), theirs.item_count()) != (self.0.len(), self.0.len()) {
            return Err(PyValueError::new_err(format!(
                "there are {} pairs and room for {} and {}",
                self.0.len(),
                ours.item_count(),
                theirs.item_count()
            )));
        }
        if ours.item_count() > 0 && ours.buf_ptr() == theirs.buf_ptr() {
            return Err(PyValueError::new_err("ours and theirs must be different buffers"));
        }
        // SAFETY: by the method's contract the buffers are not accessed elsewhere until the call returns, and they are different buffers.
        let (ours, theirs) = unsafe { (items_mut(&ours)?, items_mut(&theirs)?) };
        py.detach(|| self.0.write(ours, theirs));
        Ok(())
    }
}
