//! `craton._native`: sums of floats that do not depend on the order of the additions.

use craton_sums::Moment;
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::rows::{items, items_mut};

/// Check that there are offsets for this many lists, and that they ascend and are within the values.
fn check(values: &[f64], offsets: &[i64], lists: usize) -> PyResult<()> {
    if offsets.len() != lists + 1 {
        return Err(PyValueError::new_err("the number of offsets must be the number of lists plus one"));
    }
    let ascend = offsets.windows(2).all(|pair| pair[0] <= pair[1]);
    let (first, last) = (offsets.first().copied().unwrap_or(-1), offsets.last().copied().unwrap_or(0));
    if ascend && first >= 0 && last as usize <= values.len() {
        return Ok(());
    }
    Err(PyValueError::new_err("offsets must ascend, begin at 0 or more, and not exceed the number of values"))
}

/// Write an aggregate of each list of numbers; see the stub for the contract.
#[pyfunction]
#[pyo3(text_signature = "(name, values, offsets, out, ddof=1, /)", signature = (name, values, offsets, out, ddof=1, /))]
pub fn exact_aggregate(
    py: Python<'_>,
    name: &str,
    values: PyBuffer<f64>,
    offsets: PyBuffer<i64>,
    out: PyBuffer<f64>,
    ddof: i64,
) -> PyResult<()> {
    // SAFETY: by the contract in the stub, the buffers are not accessed elsewhere until the call returns.
    let (values, offsets, out) = unsafe { (items(&values)?, items(&offsets)?, items_mut(&out)?) };
    check(values, offsets, out.len())?;
    let of_moment = |moment, out: &mut [f64]| craton_sums::moments(values, offsets, moment, out);
    py.detach(|| {
        match name {
            "sum" => craton_sums::sums(values, offsets, out),
            "mean" => craton_sums::means(values, offsets, out),
            "product" => craton_sums::products(values, offsets, out),
            "var" => of_moment(Moment::Variance { ddof }, out),
            "skew" => of_moment(Moment::Skewness, out),
            "kurtosis" => of_moment(Moment::Kurtosis, out),
            _ => return Err(PyValueError::new_err(format!("there is no exact aggregate {name:?}"))),
        }
        Ok(())
    })
}

/// Write the means of numbers that are given as terms; see the stub for the contract.
#[pyfunction]
#[pyo3(text_signature = "(values, offsets, counts, out, /)")]
pub fn exact_means(
    py: Python<'_>,
    values: PyBuffer<f64>,
    offsets: PyBuffer<i64>,
    counts: PyBuffer<i64>,
    out: PyBuffer<f64>,
) -> PyResult<()> {
    // SAFETY: by the contract in the stub, the buffers are not accessed elsewhere until the call returns.
    let (values, offsets, counts, out) =
        unsafe { (items(&values)?, items(&offsets)?, items(&counts)?, items_mut(&out)?) };
    check(values, offsets, out.len())?;
    if counts.len() != out.len() {
        return Err(PyValueError::new_err("the number of counts must be the number of results"));
    }
    py.detach(|| craton_sums::means_of_terms(values, offsets, counts, out));
    Ok(())
}

/// Return, for each list, a few numbers with the same exact sum; see the stub for the contract.
#[pyfunction]
#[pyo3(text_signature = "(values, offsets, /)")]
pub fn exact_terms<'py>(
    py: Python<'py>,
    values: PyBuffer<f64>,
    offsets: PyBuffer<i64>,
) -> PyResult<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)> {
    // SAFETY: by the contract in the stub, the buffers are not written to until the call returns.
    let (values, offsets) = unsafe { (items(&values)?, items(&offsets)?) };
    check(values, offsets, offsets.len().saturating_sub(1))?;
    let (terms, ends) = py.detach(|| {
        let (terms, ends) = craton_sums::terms(values, offsets);
        let terms: Vec<u8> = terms.iter().flat_map(|term| term.to_ne_bytes()).collect();
        let ends: Vec<u8> = ends.iter().flat_map(|end| end.to_ne_bytes()).collect();
        (terms, ends)
    });
    Ok((PyBytes::new(py, &terms), PyBytes::new(py, &ends)))
}
