//! `craton._native`: hashes rows, and distributes tables over partitions.
//!
//! Tables are passed through the Arrow PyCapsule interface, which depends on no particular library and copies nothing.

use arrow_array::{RecordBatch, UInt64Array};
use arrow_schema::{DataType, SchemaRef};
use craton_shuffle::sketch::{REGISTERS, sketch};
use craton_shuffle::texts::{Texts, texts};
use craton_shuffle::{Heap, Order, Ranges, Route};
use pyo3::exceptions::{PyIndexError, PyKeyError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule, PyTuple};

use crate::arrow::{export_array, export_batches, export_schema, export_type, import_batches};
use crate::errors::shuffle_error;

/// A table: its schema and batches.
type Table = (SchemaRef, Vec<RecordBatch>);

/// Positions of columns that are given by name or position; negative positions count from the end.
pub fn positions(schema: &SchemaRef, keys: &Bound<'_, PyAny>) -> PyResult<Vec<usize>> {
    let count = schema.fields().len();
    let mut found = Vec::new();
    for key in keys.try_iter()? {
        let key = key?;
        if let Ok(name) = key.extract::<String>() {
            let mut named = schema.fields().iter().enumerate().filter(|(_, field)| *field.name() == name);
            match (named.next(), named.next()) {
                (Some((position, _)), None) => found.push(position),
                (Some(_), Some(_)) => {
                    return Err(PyKeyError::new_err(format!(
                        "several columns are named {name:?}; give their positions"
                    )));
                }
                (None, _) => {
                    let names: Vec<_> = schema.fields().iter().take(20).map(|field| field.name()).collect();
                    return Err(PyKeyError::new_err(format!("no column is named {name:?}; there are {names:?}")));
                }
            }
            continue;
        }
        let given = key.extract::<isize>()?;
        let position = if given < 0 { given.checked_add_unsigned(count) } else { Some(given) };
        match position.and_then(|position| usize::try_from(position).ok()).filter(|position| *position < count) {
            Some(position) => found.push(position),
            None => return Err(PyIndexError::new_err(format!("column {given} of {count}"))),
        }
    }
    Ok(found)
}

/// Hash the rows of a table; see the stub for the contract.
#[pyfunction]
#[pyo3(text_signature = "(data, keys=None, /, *, seed=0)", signature = (data, keys=None, /, *, seed=0))]
pub fn hash_rows(
    py: Python<'_>,
    data: &Bound<'_, PyAny>,
    keys: Option<&Bound<'_, PyAny>>,
    seed: u64,
) -> PyResult<Hashes> {
    let (schema, batches) = import_batches(data)?;
    let columns = match keys {
        Some(keys) => positions(&schema, keys)?,
        None => (0..schema.fields().len()).collect(),
    };
    py.detach(move || {
        let mut hashes = Vec::with_capacity(batches.iter().map(RecordBatch::num_rows).sum());
        for batch in batches {
            let columns: Vec<_> = columns.iter().map(|column| batch.column(*column).clone()).collect();
            hashes.extend(craton_shuffle::hash_rows(&columns, seed)?);
        }
        Ok(Hashes(UInt64Array::from(hashes)))
    })
    .map_err(shuffle_error)
}

/// Sketch the distinct values of the columns of a table; see the stub for the contract.
#[pyfunction]
#[pyo3(text_signature = "(data, /)", signature = (data, /))]
pub fn distinct_sketches<'py>(py: Python<'py>, data: &Bound<'py, PyAny>) -> PyResult<Vec<Bound<'py, PyBytes>>> {
    let (schema, batches) = import_batches(data)?;
    let sketches = py.detach(move || {
        let mut sketches = vec![[0_u8; REGISTERS]; schema.fields().len()];
        for batch in batches {
            for (column, registers) in batch.columns().iter().zip(&mut sketches) {
                sketch(column, registers)?;
            }
        }
        Ok::<_, craton_shuffle::Error>(sketches)
    });
    Ok(sketches.map_err(shuffle_error)?.iter().map(|registers| PyBytes::new(py, registers)).collect())
}

/// What is known of the texts of a column: the least, the greatest, and the different ones.
type KnownTexts = Option<(String, String, Option<Vec<String>>)>;

/// Describe the texts of the columns of a batch; see the stub for the contract.
#[pyfunction]
#[pyo3(text_signature = "(data, most, /)", signature = (data, most, /))]
pub fn text_statistics(py: Python<'_>, data: &Bound<'_, PyAny>, most: usize) -> PyResult<Vec<KnownTexts>> {
    let (_, batches) = import_batches(data)?;
    let [batch] = batches.as_slice() else {
        return Err(PyValueError::new_err(format!("expected one batch, got {}", batches.len())));
    };
    py.detach(|| {
        let owned = |found: Texts<'_>| {
            let different = found.different.map(|texts| texts.into_iter().map(str::to_owned).collect());
            (found.least.to_owned(), found.greatest.to_owned(), different)
        };
        batch.columns().iter().map(|column| Ok(texts(column, most)?.map(owned))).collect::<Result<_, _>>()
    })
    .map_err(shuffle_error)
}

/// Distribute a table by the hash of keys; see the stub for the contract.
#[pyfunction]
#[pyo3(
    text_signature = "(data, keys, n, /, *, seed=0, threads=0)",
    signature = (data, keys, n, /, *, seed=0, threads=0)
)]
pub fn partition(
    py: Python<'_>,
    data: &Bound<'_, PyAny>,
    keys: &Bound<'_, PyAny>,
    n: usize,
    seed: u64,
    threads: usize,
) -> PyResult<Vec<Partition>> {
    let table = import_batches(data)?;
    let columns = positions(&table.0, keys)?;
    distribute(py, table, &Route::Hash { columns, seed }, n, threads)
}

/// Distribute a table by ranges of keys; see the stub for the contract.
#[pyfunction]
#[pyo3(
    text_signature = "(data, keys, boundaries, /, *, descending=None, nulls_first=None, threads=0)",
    signature = (data, keys, boundaries, /, *, descending=None, nulls_first=None, threads=0)
)]
pub fn partition_by_ranges(
    py: Python<'_>,
    data: &Bound<'_, PyAny>,
    keys: &Bound<'_, PyAny>,
    boundaries: &Bound<'_, PyAny>,
    descending: Option<Vec<bool>>,
    nulls_first: Option<Vec<bool>>,
    threads: usize,
) -> PyResult<Vec<Partition>> {
    let table = import_batches(data)?;
    let columns = positions(&table.0, keys)?;
    let ranges = ranges_of(boundaries, descending, nulls_first)?;
    distribute(py, table, &Route::Ranges { columns, ranges: &ranges }, ranges.count(), threads)
}

/// The ranges between the rows of a table.
pub fn ranges_of(
    boundaries: &Bound<'_, PyAny>,
    descending: Option<Vec<bool>>,
    nulls_first: Option<Vec<bool>>,
) -> PyResult<Ranges> {
    let (schema, mut batches) = import_batches(boundaries)?;
    batches.retain(|batch| batch.num_rows() > 0);
    if batches.len() > 1 {
        return Err(PyValueError::new_err(format!(
            "the boundaries have {} batches; combine them into one",
            batches.len()
        )));
    }
    let boundaries = batches.pop().unwrap_or_else(|| RecordBatch::new_empty(schema));
    let width = boundaries.num_columns();
    let flags = |given: Option<Vec<bool>>, name: &str| {
        let flags = given.unwrap_or_else(|| vec![false; width]);
        if flags.len() == width {
            return Ok(flags);
        }
        Err(PyValueError::new_err(format!("{name} has {} values for {width} columns of boundaries", flags.len())))
    };
    let orders = flags(descending, "descending")?.into_iter().zip(flags(nulls_first, "nulls_first")?);
    let orders: Vec<_> = orders.map(|(descending, nulls_first)| Order { descending, nulls_first }).collect();
    Ranges::new(boundaries.columns(), &orders).map_err(shuffle_error)
}

/// Distribute a table by given numbers; see the stub for the contract.
#[pyfunction]
#[pyo3(
    text_signature = "(data, numbers, n, /, *, threads=0)",
    signature = (data, numbers, n, /, *, threads=0)
)]
pub fn partition_by_numbers(
    py: Python<'_>,
    data: &Bound<'_, PyAny>,
    numbers: pyo3::buffer::PyBuffer<u32>,
    n: usize,
    threads: usize,
) -> PyResult<Vec<Partition>> {
    let table = import_batches(data)?;
    if !numbers.is_c_contiguous() {
        return Err(PyValueError::new_err("the buffer of numbers is not contiguous"));
    }
    // A copy, because numbers that change after they were checked would cause writes out of bounds.
    let numbers = numbers.to_vec(py)?;
    distribute(py, table, &Route::Numbers(&numbers), n, threads)
}

fn distribute(
    py: Python<'_>,
    (schema, batches): Table,
    route: &Route<'_>,
    n: usize,
    threads: usize,
) -> PyResult<Vec<Partition>> {
    py.detach(|| {
        let partitions = craton_shuffle::partition(&schema, &batches, route, n, &Heap, threads)?;
        // Drop the input without the interpreter lock, because freeing it may take long.
        drop(batches);
        Ok(partitions.into_iter().map(|partition| Partition { schema: schema.clone(), partition }).collect())
    })
    .map_err(shuffle_error)
}

/// An array of hashes; see the stub for the contract.
#[pyclass(frozen, module = "craton._native")]
pub struct Hashes(UInt64Array);

#[pymethods]
impl Hashes {
    fn __len__(&self) -> usize {
        self.0.len()
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        // The interface lets a producer disregard the request.
        let _ = requested_schema;
        export_array(py, &self.0)
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        export_type(py, &DataType::UInt64)
    }
}

/// The rows of one partition; see the stub for the contract.
#[pyclass(frozen, module = "craton._native")]
pub struct Partition {
    schema: SchemaRef,
    partition: craton_shuffle::Partition,
}

#[pymethods]
impl Partition {
    fn __len__(&self) -> usize {
        self.partition.rows
    }

    #[getter]
    fn nbytes(&self) -> usize {
        self.partition.bytes
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // The interface lets a producer disregard the request.
        let _ = requested_schema;
        export_batches(py, &self.schema, &self.partition.batches)
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        export_schema(py, &self.schema)
    }
}
