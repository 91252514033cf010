//! `craton._native.JoinTable`: probes a join map in a store; and building its index.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch, UInt32Array};
use arrow_schema::{DataType, Field, Schema};
use craton_store::services::hash::Keys;
use craton_store::services::join::{JoinIndex, KeyPieces, PIECE, build};
use craton_store::{Error, Home, PageId, Result, SetId};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

use super::keys::{encode, kind_of};
use crate::arrow::{ArrowBatches, import_batches};
use crate::errors::{arrow_error, store_error};
use crate::hash_table::positions;
use crate::page::Page;
use crate::store::Store;

/// The rows of a piece: the batch or page that it is in, the first row there, how many there are, and the first row in the table.
struct Piece {
    part: usize,
    start: usize,
    rows: usize,
    first: u64,
}

/// The pieces of parts with so many rows and categories each, of about `PIECE` rows. A piece has at least as many rows as there are categories,
/// which are encoded once for each piece.
fn pieces_of(parts: impl Iterator<Item = (usize, usize)>) -> Vec<Piece> {
    let (mut pieces, mut first) = (Vec::new(), 0);
    for (part, (rows, categories)) in parts.enumerate() {
        let each = PIECE.max(categories);
        for start in (0..rows).step_by(each) {
            let rows = each.min(rows - start);
            pieces.push(Piece { part, start, rows, first });
            first += rows as u64;
        }
    }
    pieces
}

fn with_encoded<T>(columns: &[ArrayRef], piece: &Piece, work: impl FnOnce(&Keys<'_>) -> Result<T>) -> Result<T> {
    let slices: Vec<ArrayRef> = columns.iter().map(|column| column.slice(piece.start, piece.rows)).collect();
    let encoded = encode(&slices).map_err(|error| Error::Invalid(error.to_string()))?;
    if encoded.views.len() != piece.rows {
        return Err(Error::Invalid(format!("{} keys in {} rows", encoded.views.len(), piece.rows)));
    }
    work(&encoded.keys())
}

/// The key columns of record batches.
struct Batches {
    columns: Vec<Vec<ArrayRef>>,
    pieces: Vec<Piece>,
}

impl Batches {
    fn new(batches: &[RecordBatch]) -> Self {
        let categories = |column: &ArrayRef| column.as_any_dictionary_opt().map_or(0, |column| column.values().len());
        let parts =
            batches.iter().map(|batch| (batch.num_rows(), batch.columns().iter().map(categories).max().unwrap_or(0)));
        Self { pieces: pieces_of(parts), columns: batches.iter().map(|batch| batch.columns().to_vec()).collect() }
    }
}

impl KeyPieces for Batches {
    fn count(&self) -> usize {
        self.pieces.len()
    }

    fn rows(&self, piece: usize) -> (u64, usize) {
        (self.pieces[piece].first, self.pieces[piece].rows)
    }

    fn with<T>(&self, piece: usize, work: impl FnOnce(&Keys<'_>) -> Result<T>) -> Result<T> {
        let piece = &self.pieces[piece];
        with_encoded(&self.columns[piece.part], piece, work)
    }
}

/// The key columns of the pages of a set.
struct StoredPages {
    home: Arc<dyn Home>,
    set: SetId,
    numbers: Vec<u32>,
    // The positions of the key columns.
    columns: Vec<usize>,
    pieces: Vec<Piece>,
}

impl KeyPieces for StoredPages {
    fn count(&self) -> usize {
        self.pieces.len()
    }

    fn rows(&self, piece: usize) -> (u64, usize) {
        (self.pieces[piece].first, self.pieces[piece].rows)
    }

    fn with<T>(&self, piece: usize, work: impl FnOnce(&Keys<'_>) -> Result<T>) -> Result<T> {
        let piece = &self.pieces[piece];
        let page = PageId { set: self.set, number: self.numbers[piece.part] };
        let page = Page::new(self.home.pin(page)?);
        let batch = page.decoded(Some(&self.columns)).map_err(|error| Error::Invalid(error.to_string()))?;
        if batch.num_rows() < piece.start + piece.rows {
            return Err(Error::Invalid(format!("a page has {} rows, fewer than before", batch.num_rows())));
        }
        with_encoded(batch.columns(), piece, work)
    }
}

/// The positions of key columns, and the kind of the values of each; see the stub for the contract.
#[pyfunction]
#[pyo3(signature = (data, names, /), text_signature = "(data, names, /)")]
pub fn key_columns(data: &Bound<'_, PyAny>, names: Vec<String>) -> PyResult<Vec<(usize, &'static str)>> {
    let (schema, _) = import_batches(data)?;
    let one = |at: usize| {
        let field = schema.field(at);
        match kind_of(field.data_type()) {
            Some(kind) => Ok((at, kind)),
            None => Err(PyTypeError::new_err(format!(
                "column {:?} of type {} cannot be a key: keys are text, binary, integers and floats, booleans, dates, times, durations, or \
                 categories of these",
                field.name(),
                field.data_type()
            ))),
        }
    };
    positions(&schema, &names)?.into_iter().map(one).collect()
}

/// Write the index of a join map; see the stub for the contract.
#[pyfunction]
#[pyo3(
    signature = (store, set, pages, columns, page_bytes=None, /),
    text_signature = "(store, set, pages, columns, page_bytes=None, /)"
)]
pub fn build_join_index(
    py: Python<'_>,
    store: &Bound<'_, Store>,
    set: u64,
    pages: Vec<(u32, usize, usize)>,
    columns: Vec<usize>,
    page_bytes: Option<u64>,
) -> PyResult<Vec<(u32, u64)>> {
    let home = Arc::clone(store.get().home());
    let set = SetId(set);
    py.detach(|| {
        let pieces = pieces_of(pages.iter().map(|(_, rows, categories)| (*rows, *categories)));
        let numbers = pages.iter().map(|(number, ..)| *number).collect();
        let keys = StoredPages { home: Arc::clone(&home), set, numbers, columns, pieces };
        let built = build(&home, set, &keys, page_bytes)?;
        Ok(built.pages.iter().map(|info| (info.page.number, info.bytes)).collect())
    })
    .map_err(store_error)
}

/// The index of a join map; see the stub for the contract.
#[pyclass(frozen, module = "craton._native")]
pub struct JoinTable {
    index: JoinIndex,
    kinds: Vec<String>,
}

#[pymethods]
impl JoinTable {
    #[new]
    #[pyo3(signature = (store, set, pages, rows, nbytes, kinds, /), text_signature = "(store, set, pages, rows, nbytes, kinds, /)")]
    fn new(
        py: Python<'_>,
        store: &Bound<'_, Store>,
        set: u64,
        pages: Vec<u32>,
        rows: u64,
        nbytes: u64,
        kinds: Vec<String>,
    ) -> PyResult<Self> {
        let home = Arc::clone(store.get().home());
        let index = py.detach(|| JoinIndex::new(&home, SetId(set), &pages, rows, nbytes)).map_err(store_error)?;
        Ok(Self { index, kinds })
    }

    /// The pairs of matching rows: a table with two columns of row numbers.
    #[pyo3(signature = (keys, keep, /), text_signature = "($self, keys, keep, /)")]
    fn probe(&self, py: Python<'_>, keys: &Bound<'_, PyAny>, keep: bool) -> PyResult<ArrowBatches> {
        let (schema, batches) = import_batches(keys)?;
        self.check(&schema)?;
        let found = py.detach(|| self.index.probe(&Batches::new(&batches), keep)).map_err(store_error)?;
        let field = |name| Field::new(name, DataType::UInt32, false);
        let schema = Arc::new(Schema::new(vec![field("ours"), field("theirs")]));
        let columns: Vec<ArrayRef> =
            vec![Arc::new(UInt32Array::from(found.ours)), Arc::new(UInt32Array::from(found.theirs))];
        let batch = RecordBatch::try_new(Arc::clone(&schema), columns).map_err(arrow_error)?;
        Ok(ArrowBatches::new(schema, vec![batch]))
    }
}

impl JoinTable {
    fn check(&self, schema: &Schema) -> PyResult<()> {
        if schema.fields().len() != self.kinds.len() {
            return Err(PyValueError::new_err(format!(
                "expected {} key columns, got {}",
                self.kinds.len(),
                schema.fields().len()
            )));
        }
        for (field, expected) in schema.fields().iter().zip(&self.kinds) {
            let kind = kind_of(field.data_type());
            if kind.is_none_or(|kind| kind != expected && kind != "null" && expected != "null") {
                return Err(PyTypeError::new_err(format!(
                    "expected column {:?} of the kind {expected:?}, as in the map, got type {}",
                    field.name(),
                    field.data_type()
                )));
            }
        }
        Ok(())
    }
}
