//! `craton._native.HashTable`: groups the rows of tables by key, in the memory of a store.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{ArrayRef, BooleanArray, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use craton_store::services::hash::{Aggregate, HashBuffer, HashGroups, HashOptions, Rows};
use craton_store::{Error, Home};
use parking_lot::Mutex;
use pyo3::exceptions::{PyKeyError, PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;

use crate::arrow::{ArrowBatches, import_batches};
use crate::errors::{arrow_error, store_error};
use crate::hash_keys::{decode, encode, is_key, longest, value_type};
use crate::hash_values::{NumberColumn, aggregate_of, fits, numbers, typed};
use crate::store::Store;

/// Rows that are encoded at a time.
const PIECE: usize = 1 << 17;

/// The name of a result, that of its column, and that of its aggregate.
type Wanted = (String, Option<String>, String);

/// The columns of the tables that are added, and of the results.
struct Columns {
    keys: Vec<Field>,
    aggregates: Vec<Aggregate>,
    // The type of the values of each aggregate; `None` if rows are counted.
    values: Vec<Option<DataType>>,
    results: SchemaRef,
}

struct Begun {
    columns: Columns,
    buffer: Arc<HashBuffer>,
}

/// Groups rows by key; see the stub for the contract.
#[pyclass(frozen, module = "craton._native")]
pub struct HashTable {
    home: Arc<dyn Home>,
    keys: Vec<String>,
    wanted: Vec<Wanted>,
    options: HashOptions,
    // `None` until the first table was added.
    begun: Mutex<Option<Arc<Begun>>>,
}

#[pymethods]
impl HashTable {
    #[new]
    #[pyo3(signature = (store, keys, aggregates, /, *, memory=None, page_bytes=None))]
    fn new(
        store: &Bound<'_, Store>,
        keys: Vec<String>,
        aggregates: Vec<Wanted>,
        memory: Option<u64>,
        page_bytes: Option<u64>,
    ) -> Self {
        let options = HashOptions { memory, page_bytes };
        let home = Arc::clone(store.get().home());
        Self { home, keys, wanted: aggregates, options, begun: Mutex::new(None) }
    }

    /// Add the rows of a table.
    fn add(&self, py: Python<'_>, data: &Bound<'_, PyAny>) -> PyResult<()> {
        let (schema, batches) = import_batches(data)?;
        let found = self.columns(&schema)?;
        py.detach(|| {
            let begun = self.begin(found, &schema)?;
            let key_positions = positions(&schema, &self.keys)?;
            let value_positions = self.value_positions(&schema)?;
            let mut parts = Vec::new();
            for batch in &batches {
                let keys: Vec<ArrayRef> = key_positions.iter().map(|at| Arc::clone(batch.column(*at))).collect();
                check_keys(&keys, begun.buffer.longest_key())?;
                for (at, (name, ..)) in value_positions.iter().zip(&self.wanted) {
                    if at.is_some_and(|at| !fits(batch.column(at))) {
                        return Err(PyOverflowError::new_err(format!("{name}: values beyond 64 bits with a sign")));
                    }
                }
                parts.push(keys);
            }
            let zeros = vec![0; batches.iter().map(RecordBatch::num_rows).max().unwrap_or(0).min(PIECE)];
            for (batch, keys) in batches.iter().zip(parts) {
                for start in (0..batch.num_rows()).step_by(PIECE) {
                    let count = PIECE.min(batch.num_rows() - start);
                    let keys: Vec<ArrayRef> = keys.iter().map(|key| key.slice(start, count)).collect();
                    let encoded = encode(&keys).map_err(arrow_error)?;
                    let value = |(at, aggregate): (&Option<usize>, &Aggregate)| match at {
                        Some(at) => numbers(&batch.column(*at).slice(start, count), *aggregate).map_err(arrow_error),
                        None => Ok(NumberColumn::Rows),
                    };
                    let pairs = value_positions.iter().zip(&begun.columns.aggregates);
                    let values = pairs.map(value).collect::<PyResult<Vec<_>>>()?;
                    let values = values.iter().map(|values| values.values(&zeros)).collect();
                    begun.buffer.add(&Rows { keys: encoded.keys(), values }).map_err(|error| self.raise(error))?;
                }
            }
            Ok(())
        })
    }

    /// The columns of the results, as a table without rows; `None` before the first table.
    fn schema(&self) -> Option<ArrowBatches> {
        let begun = self.begun()?;
        Some(ArrowBatches::new(Arc::clone(&begun.columns.results), Vec::new()))
    }

    /// The number of groups.
    fn count(&self, py: Python<'_>) -> PyResult<u64> {
        let Some(begun) = self.begun() else { return Ok(0) };
        py.detach(|| begun.buffer.count()).map_err(|error| self.raise(error))
    }

    /// How many pages were sealed with partial results.
    #[getter]
    fn sealed_pages(&self) -> u64 {
        self.begun().map_or(0, |begun| begun.buffer.sealed())
    }

    /// The results of keys, with a last column that says whether each has a group; `None` before the first table.
    fn find(&self, py: Python<'_>, data: &Bound<'_, PyAny>) -> PyResult<Option<ArrowBatches>> {
        let Some((begun, batches)) = self.given(data)? else { return Ok(None) };
        py.detach(|| {
            let fields = begun.columns.results.fields().iter().skip(self.keys.len());
            let mut fields: Vec<Field> = fields.map(|field| field.as_ref().clone().with_nullable(true)).collect();
            fields.push(Field::new("", DataType::Boolean, false));
            let schema = Arc::new(Schema::new(fields));
            let mut found = Vec::new();
            for batch in batches {
                let encoded = encode(batch.columns()).map_err(arrow_error)?;
                let (known, columns) = begun.buffer.find(&encoded.keys()).map_err(|error| self.raise(error))?;
                let mut columns = begun.columns.typed(&columns)?;
                columns.push(Arc::new(BooleanArray::from(known)));
                found.push(RecordBatch::try_new(Arc::clone(&schema), columns).map_err(arrow_error)?);
            }
            Ok(Some(ArrowBatches::new(schema, found)))
        })
    }

    /// Remove the groups of keys; returns how many there were.
    fn remove(&self, py: Python<'_>, data: &Bound<'_, PyAny>) -> PyResult<u64> {
        let Some((begun, batches)) = self.given(data)? else { return Ok(0) };
        py.detach(|| {
            let one = |batch: &RecordBatch| {
                let encoded = encode(batch.columns()).map_err(arrow_error)?;
                begun.buffer.remove(&encoded.keys()).map_err(|error| self.raise(error))
            };
            batches.iter().map(one).sum()
        })
    }

    /// The groups: taken out of the table, which takes no more rows, or copied. `None` before the first table.
    fn groups(&self, py: Python<'_>, take: bool) -> PyResult<Option<TableGroups>> {
        let Some(begun) = self.begun() else { return Ok(None) };
        let buffer = Arc::clone(&begun.buffer);
        let groups = py.detach(|| if take { HashGroups::take(buffer) } else { HashGroups::copy(buffer) });
        let groups = groups.map_err(|error| self.raise(error))?;
        Ok(Some(TableGroups { begun, groups: Mutex::new(Some(groups)) }))
    }

    /// Drop all groups, and refuse nothing later: the table is empty again.
    fn clear(&self, py: Python<'_>) {
        let begun = self.begun.lock().take();
        py.detach(|| drop(begun));
    }
}

impl HashTable {
    fn begun(&self) -> Option<Arc<Begun>> {
        self.begun.lock().clone()
    }

    fn raise(&self, error: Error) -> PyErr {
        match error {
            Error::Overflow(number) => {
                let name = self.wanted.get(number).map_or("", |wanted| &wanted.0);
                PyOverflowError::new_err(format!("{name}: a sum of integers overflows 64 bits"))
            }
            other => store_error(other),
        }
    }

    fn value_positions(&self, schema: &Schema) -> PyResult<Vec<Option<usize>>> {
        let one = |(_, column, _): &Wanted| column.as_ref().map(|column| position(schema, column)).transpose();
        self.wanted.iter().map(one).collect()
    }

    /// The columns for tables of that schema.
    fn columns(&self, schema: &Schema) -> PyResult<Columns> {
        let mut keys = Vec::new();
        for at in positions(schema, &self.keys)? {
            let field = schema.field(at);
            if !is_key(field.data_type()) {
                return Err(PyTypeError::new_err(format!(
                    "column {:?} of type {} cannot be a key: keys are text, binary, numbers of at most 64 bits, booleans, dates or times",
                    field.name(),
                    field.data_type()
                )));
            }
            keys.push(Field::new(field.name(), value_type(field.data_type()).clone(), true));
        }
        let (mut aggregates, mut values, mut results) = (Vec::new(), Vec::new(), keys.clone());
        for ((name, column, how), at) in self.wanted.iter().zip(self.value_positions(schema)?) {
            let data_type = at.map(|at| schema.field(at).data_type());
            let Some((aggregate, result)) = aggregate_of(how, data_type) else {
                return Err(PyTypeError::new_err(format!(
                    "{name}: column {:?} of type {} has no {how}: columns of integers, floats, booleans, dates and times have a minimum, a \
                     maximum and a last value, and those of integers, floats, booleans and durations a sum",
                    column.as_deref().unwrap_or_default(),
                    data_type.map_or_else(String::new, DataType::to_string)
                )));
            };
            aggregates.push(aggregate);
            values.push(data_type.filter(|_| aggregate != Aggregate::Count).cloned());
            results.push(Field::new(name, result, true));
        }
        Ok(Columns { keys, aggregates, values, results: Arc::new(Schema::new(results)) })
    }

    /// The state of the table; the first table determines the types of its columns.
    fn begin(&self, found: Columns, schema: &Schema) -> PyResult<Arc<Begun>> {
        let mut begun = self.begun.lock();
        if let Some(begun) = &*begun {
            let same = |expected: &[Field], given: &[Field]| {
                expected.iter().zip(given).all(|(one, other)| alike(one.data_type(), other.data_type()))
            };
            if same(&begun.columns.keys, &found.keys) && begun.columns.values == found.values {
                return Ok(Arc::clone(begun));
            }
            let given: Vec<String> =
                schema.fields().iter().map(|field| format!("{}: {}", field.name(), field.data_type())).collect();
            let keys = begun.columns.keys.iter().map(|field| format!("{}: {}", field.name(), field.data_type()));
            let values = self.wanted.iter().zip(&begun.columns.values).filter_map(|((_, column, _), data_type)| {
                Some(format!("{}: {}", column.as_ref()?, data_type.as_ref()?))
            });
            let expected: Vec<String> = keys.chain(values).collect();
            return Err(PyValueError::new_err(format!(
                "expected columns of the same types as in the table added before, {expected:?}, got {given:?}"
            )));
        }
        let buffer = HashBuffer::new(&self.home, found.aggregates.clone(), self.options).map_err(store_error)?;
        let made = Arc::new(Begun { columns: found, buffer: Arc::new(buffer) });
        *begun = Some(Arc::clone(&made));
        Ok(made)
    }

    /// Keys that were given, with the state of the table; `None` before the first table.
    fn given(&self, data: &Bound<'_, PyAny>) -> PyResult<Option<(Arc<Begun>, Vec<RecordBatch>)>> {
        let (schema, batches) = import_batches(data)?;
        let Some(begun) = self.begun() else { return Ok(None) };
        let expected = &begun.columns.keys;
        let same = |(key, field): (&Field, &Arc<Field>)| alike(key.data_type(), value_type(field.data_type()));
        if expected.len() != schema.fields().len() || !expected.iter().zip(schema.fields()).all(same) {
            let given: Vec<String> = schema.fields().iter().map(|field| field.data_type().to_string()).collect();
            let expected: Vec<String> = expected.iter().map(|field| field.data_type().to_string()).collect();
            return Err(PyTypeError::new_err(format!("expected keys of the types {expected:?}, got {given:?}")));
        }
        for batch in &batches {
            check_keys(batch.columns(), begun.buffer.longest_key())?;
        }
        Ok(Some((begun, batches)))
    }
}

impl Columns {
    /// Results in the types of the columns.
    fn typed(&self, columns: &[ArrayRef]) -> PyResult<Vec<ArrayRef>> {
        let fields = self.results.fields().iter().skip(self.keys.len());
        fields.zip(columns).map(|(field, column)| typed(column, field.data_type()).map_err(arrow_error)).collect()
    }
}

/// Whether keys of these types have the same encoding.
fn alike(one: &DataType, other: &DataType) -> bool {
    use DataType::{Binary, BinaryView, LargeBinary, LargeUtf8, Utf8, Utf8View};
    let class = |data_type: &DataType| match data_type {
        Utf8 | LargeUtf8 | Utf8View => Utf8View,
        Binary | LargeBinary | BinaryView => BinaryView,
        other => other.clone(),
    };
    class(one) == class(other)
}

fn check_keys(keys: &[ArrayRef], most: usize) -> PyResult<()> {
    if longest(keys) <= most {
        return Ok(());
    }
    // The longest values may be in different rows.
    let encoded = encode(keys).map_err(arrow_error)?;
    let longest = encoded.views.iter().map(|view| *view as u32 as usize).max().unwrap_or(0);
    if longest <= most {
        return Ok(());
    }
    Err(PyValueError::new_err(format!(
        "a key of {longest} bytes is too long: with the size of the pages, keys have at most {most} bytes; increase page_bytes"
    )))
}

/// The positions of columns of these names.
pub fn positions(schema: &Schema, names: &[String]) -> PyResult<Vec<usize>> {
    names.iter().map(|name| position(schema, name)).collect()
}

fn position(schema: &Schema, name: &str) -> PyResult<usize> {
    let mut named = schema.fields().iter().enumerate().filter(|(_, field)| field.name() == name);
    match (named.next(), named.next()) {
        (Some((at, _)), None) => Ok(at),
        (Some(_), Some(_)) => Err(PyKeyError::new_err(format!("several columns are named {name:?}"))),
        (None, _) => {
            let names: Vec<_> = schema.fields().iter().take(20).map(|field| field.name()).collect();
            Err(PyKeyError::new_err(format!("no column is named {name:?}; there are {names:?}")))
        }
    }
}

/// An iterator over groups.
#[pyclass(frozen, module = "craton._native")]
pub struct TableGroups {
    begun: Arc<Begun>,
    groups: Mutex<Option<HashGroups>>,
}

#[pymethods]
impl TableGroups {
    /// The next groups; `None` at the end.
    fn next(&self, py: Python<'_>) -> PyResult<Option<ArrowBatches>> {
        py.detach(|| {
            let mut groups = self.groups.lock();
            let Some(some) = &mut *groups else { return Ok(None) };
            let Some(batch) = some.next_batch().map_err(store_error)? else {
                // The memory of the store is returned.
                *groups = None;
                return Ok(None);
            };
            let columns = &self.begun.columns;
            let types: Vec<DataType> = columns.keys.iter().map(|field| field.data_type().clone()).collect();
            let mut arrays = decode(batch.column(0).as_binary_view(), &types).map_err(arrow_error)?;
            arrays.extend(columns.typed(&batch.columns()[1..])?);
            let batch = RecordBatch::try_new(Arc::clone(&columns.results), arrays).map_err(arrow_error)?;
            Ok(Some(ArrowBatches::new(Arc::clone(&columns.results), vec![batch])))
        })
    }
}
