//! Imports and exports Arrow data through the PyCapsule interface, without copying.

use std::ffi::CStr;
use std::sync::Arc;

use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi, to_ffi};
use arrow_array::ffi_stream::{FFI_ArrowArrayStream, RecordBatchStreamReader};
use arrow_array::{Array, RecordBatch, RecordBatchIterator, RecordBatchOptions, RecordBatchReader, StructArray};
use arrow_schema::{DataType, Schema, SchemaRef};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyTuple};

use crate::errors::arrow_error;

const SCHEMA: &CStr = c"arrow_schema";
const ARRAY: &CStr = c"arrow_array";
const STREAM: &CStr = c"arrow_array_stream";

/// The record batches of an object that exports structs by `__arrow_c_array__` or `__arrow_c_stream__`.
///
/// # Errors
/// `TypeError` for other objects; any exception that the producer of a stream raises.
pub fn import_batches(data: &Bound<'_, PyAny>) -> PyResult<(SchemaRef, Vec<RecordBatch>)> {
    if data.hasattr("__arrow_c_array__")? {
        let pair = data.call_method0("__arrow_c_array__")?.cast_into::<PyTuple>()?;
        let batch = import_array(&pair.get_item(0)?, &pair.get_item(1)?)?;
        return Ok((batch.schema(), vec![batch]));
    }
    if data.hasattr("__arrow_c_stream__")? {
        let capsule = data.call_method0("__arrow_c_stream__")?;
        let reader = import_stream(&capsule)?;
        let schema = reader.schema();
        let batches = data.py().detach(|| reader.collect::<Result<Vec<_>, _>>()).map_err(arrow_error)?;
        return Ok((schema, batches));
    }
    let given = data.get_type().qualname()?;
    Err(PyTypeError::new_err(format!(
        "expected Arrow data (a table or record batch of pyarrow or Polars), got {given}"
    )))
}

fn import_stream(capsule: &Bound<'_, PyAny>) -> PyResult<RecordBatchStreamReader> {
    let capsule = capsule.cast::<PyCapsule>()?;
    let stream = capsule.pointer_checked(Some(STREAM))?.cast::<FFI_ArrowArrayStream>();
    // SAFETY: a capsule of that name contains a stream; from_raw moves it out and marks the original as released.
    let reader = unsafe { RecordBatchStreamReader::from_raw(stream.as_ptr()) };
    reader.map_err(arrow_error)
}

fn import_array(schema: &Bound<'_, PyAny>, array: &Bound<'_, PyAny>) -> PyResult<RecordBatch> {
    let schema = schema.cast::<PyCapsule>()?.pointer_checked(Some(SCHEMA))?.cast::<FFI_ArrowSchema>();
    let array = array.cast::<PyCapsule>()?.pointer_checked(Some(ARRAY))?.cast::<FFI_ArrowArray>();
    // SAFETY: capsules of these names contain these structures; from_raw moves the array out and marks the original as released.
    let (schema, array) = unsafe { (schema.as_ref(), FFI_ArrowArray::from_raw(array.as_ptr())) };
    let fields = Schema::try_from(schema).map_err(arrow_error)?;
    // SAFETY: the PyCapsule interface requires the producer to export a valid array of that schema.
    let data = unsafe { from_ffi(array, schema) }.map_err(arrow_error)?;
    if !matches!(data.data_type(), DataType::Struct(_)) {
        return Err(PyTypeError::new_err(format!(
            "expected a record batch, got an Arrow array of {}",
            data.data_type()
        )));
    }
    let (rows, columns) = (data.len(), StructArray::from(data).into_parts().1);
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(Arc::new(fields), columns, &options).map_err(arrow_error)
}

/// Export batches as a stream capsule.
pub fn export_batches<'py>(
    py: Python<'py>,
    schema: &SchemaRef,
    batches: &[RecordBatch],
) -> PyResult<Bound<'py, PyCapsule>> {
    let owned: Vec<RecordBatch> = batches.to_vec();
    let reader = RecordBatchIterator::new(owned.into_iter().map(Ok), Arc::clone(schema));
    PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(Box::new(reader)), STREAM)
}

/// Export a schema as a capsule.
pub fn export_schema<'py>(py: Python<'py>, schema: &Schema) -> PyResult<Bound<'py, PyCapsule>> {
    PyCapsule::new_with_value(py, FFI_ArrowSchema::try_from(schema).map_err(arrow_error)?, SCHEMA)
}

/// Export a type as a schema capsule.
pub fn export_type<'py>(py: Python<'py>, data_type: &DataType) -> PyResult<Bound<'py, PyCapsule>> {
    PyCapsule::new_with_value(py, FFI_ArrowSchema::try_from(data_type).map_err(arrow_error)?, SCHEMA)
}

/// Export an array as two capsules: its schema, and the array.
pub fn export_array<'py>(py: Python<'py>, array: &dyn Array) -> PyResult<Bound<'py, PyTuple>> {
    let (array, schema) = to_ffi(&array.to_data()).map_err(arrow_error)?;
    let schema = PyCapsule::new_with_value(py, schema, SCHEMA)?.into_any();
    PyTuple::new(py, [schema, PyCapsule::new_with_value(py, array, ARRAY)?.into_any()])
}

/// Record batches of one schema, which pyarrow, Polars and pandas import through the PyCapsule interface without copying.
#[pyclass(frozen, module = "craton._native", name = "ArrowBatches")]
pub struct ArrowBatches {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
}

impl ArrowBatches {
    /// Batches that all have `schema`.
    pub fn new(schema: SchemaRef, batches: Vec<RecordBatch>) -> Self {
        Self { schema, batches }
    }
}

#[pymethods]
impl ArrowBatches {
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema; // the interface permits ignoring the requested schema
        export_batches(py, &self.schema, &self.batches)
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        export_schema(py, &self.schema)
    }

    #[getter]
    fn num_rows(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }

    fn __len__(&self) -> usize {
        self.batches.len()
    }
}
