//! `craton._native`: passes of k-means over blocks of points.

use craton_kmeans::{Column, Points};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::rows::{items, items_mut};

/// A column of either kind of floats; it keeps its memory alive.
enum Held {
    F64(PyBuffer<f64>),
    F32(PyBuffer<f32>),
}

/// The points of a block, as they were given.
pub struct Block {
    held: Vec<Held>,
    weights: Option<PyBuffer<f64>>,
    rows: usize,
}

impl Block {
    fn new(columns: &[Bound<'_, PyAny>], weights: Option<PyBuffer<f64>>) -> PyResult<Self> {
        let mut held = Vec::with_capacity(columns.len());
        let mut rows = weights.as_ref().map(|weights| weights.item_count());
        for column in columns {
            let (one, dimensions, count) = match PyBuffer::<f64>::get(column) {
                Ok(buffer) => {
                    let shape = (buffer.dimensions(), buffer.item_count());
                    (Held::F64(buffer), shape.0, shape.1)
                }
                Err(_) => {
                    let buffer = PyBuffer::<f32>::get(column)?;
                    let shape = (buffer.dimensions(), buffer.item_count());
                    (Held::F32(buffer), shape.0, shape.1)
                }
            };
            if dimensions != 1 || *rows.get_or_insert(count) != count {
                return Err(PyValueError::new_err("columns and weights must have one dimension and equal lengths"));
            }
            held.push(one);
        }
        match rows {
            Some(rows) if rows > 0 && !held.is_empty() => Ok(Block { held, weights, rows }),
            _ => Err(PyValueError::new_err("a block must have a column and a row")),
        }
    }

    /// Call a function with the points, without the interpreter lock.
    ///
    /// # Safety
    ///
    /// Nobody writes to the columns and weights during the call.
    unsafe fn with<T: Send>(&self, py: Python<'_>, run: impl FnOnce(&Points<'_>) -> T + Send) -> PyResult<T> {
        let columns: Vec<Column<'_>> = self
            .held
            .iter()
            .map(|held| {
                // SAFETY: the buffer has so many numbers, at its stride, is kept alive, and is not written to by the contract.
                unsafe {
                    match held {
                        Held::F64(buffer) => Column::strided(buffer.buf_ptr().cast(), buffer.strides()[0], self.rows),
                        Held::F32(buffer) => {
                            Column::strided_f32(buffer.buf_ptr().cast(), buffer.strides()[0], self.rows)
                        }
                    }
                }
            })
            .collect();
        // SAFETY: by the contract.
        let weights = self.weights.as_ref().map(|weights| unsafe { items(weights) }).transpose()?;
        let (columns, rows) = (columns.as_slice(), self.rows);
        Ok(py.detach(|| run(&Points::new(columns, weights, rows))))
    }
}

fn check(fits: bool) -> PyResult<()> {
    if fits { Ok(()) } else { Err(PyValueError::new_err("the lengths of the buffers do not fit together")) }
}

fn bytes<'py>(py: Python<'py>, numbers: &[f64]) -> Bound<'py, PyBytes> {
    let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_ne_bytes()).collect();
    PyBytes::new(py, &bytes)
}

/// What a pass found: sums and weights of clusters, inertia, changed labels.
type Found<'py> = (Bound<'py, PyBytes>, Bound<'py, PyBytes>, f64, usize);

/// Label each point by its nearest centre; see the stub for the contract.
#[pyfunction]
#[pyo3(text_signature = "(columns, weights, centers, labels, distances, update, /)")]
pub fn kmeans_assign<'py>(
    py: Python<'py>,
    columns: Vec<Bound<'py, PyAny>>,
    weights: Option<PyBuffer<f64>>,
    centers: PyBuffer<f64>,
    labels: PyBuffer<i32>,
    distances: Option<PyBuffer<f64>>,
    update: bool,
) -> PyResult<Found<'py>> {
    let block = Block::new(&columns, weights)?;
    // SAFETY: by the contract in the stub, the buffers are not accessed elsewhere until the call returns.
    let (centers, labels) = unsafe { (items(&centers)?, items_mut(&labels)?) };
    // SAFETY: as above.
    let distances = distances.as_ref().map_or(Ok(&mut [][..]), |distances| unsafe { items_mut(distances) })?;
    check(!centers.is_empty() && centers.len() % columns.len() == 0 && labels.len() == block.rows)?;
    check(distances.is_empty() || distances.len() == block.rows)?;
    // SAFETY: as above.
    let found = unsafe { block.with(py, |points| craton_kmeans::assign(points, centers, labels, distances, update))? };
    Ok((bytes(py, &found.sums), bytes(py, &found.weights), found.inertia, found.changed))
}

/// Write the squared distance of each point from each centre; see the stub for the contract.
#[pyfunction]
#[pyo3(text_signature = "(columns, centers, out, /)")]
pub fn kmeans_distances(
    py: Python<'_>,
    columns: Vec<Bound<'_, PyAny>>,
    centers: PyBuffer<f64>,
    out: PyBuffer<f64>,
) -> PyResult<()> {
    let block = Block::new(&columns, None)?;
    // SAFETY: by the contract in the stub, the buffers are not accessed elsewhere until the call returns.
    let (centers, out) = unsafe { (items(&centers)?, items_mut(&out)?) };
    check(!centers.is_empty() && centers.len() % columns.len() == 0)?;
    check(out.len() == block.rows * (centers.len() / columns.len()))?;
    // SAFETY: as above.
    unsafe { block.with(py, |points| craton_kmeans::distances(points, centers, out)) }
}

/// Return the potentials of k-means++; see the stub for the contract.
#[pyfunction]
#[pyo3(text_signature = "(columns, weights, chosen, candidates, closest, /)")]
pub fn kmeans_potentials<'py>(
    py: Python<'py>,
    columns: Vec<Bound<'py, PyAny>>,
    weights: Option<PyBuffer<f64>>,
    chosen: PyBuffer<f64>,
    candidates: PyBuffer<f64>,
    closest: PyBuffer<f64>,
) -> PyResult<Vec<f64>> {
    let block = Block::new(&columns, weights)?;
    // SAFETY: by the contract in the stub, the buffers are not accessed elsewhere until the call returns.
    let (chosen, candidates, closest) = unsafe { (items(&chosen)?, items(&candidates)?, items_mut(&closest)?) };
    check(chosen.len() == columns.len() && candidates.len() % columns.len() == 0 && closest.len() == block.rows)?;
    // SAFETY: as above.
    unsafe { block.with(py, |points| craton_kmeans::potentials(points, chosen, candidates, closest)) }
}

/// Return the sums of columns and of their squared deviations; see the stub for the contract.
#[pyfunction]
#[pyo3(text_signature = "(columns, /)")]
pub fn kmeans_summary(py: Python<'_>, columns: Vec<Bound<'_, PyAny>>) -> PyResult<(Vec<f64>, Vec<f64>)> {
    let block = Block::new(&columns, None)?;
    // SAFETY: by the contract in the stub, the columns are not written to until the call returns.
    unsafe { block.with(py, craton_kmeans::summary) }
}
