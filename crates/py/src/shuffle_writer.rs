//! `craton._native.ShuffleWriter`: distributes rows over partitions, and writes each partition to the pages of one locality set.
//!
//! Rows are appended to the open pages of their partitions immediately (`shuffle_append`), or buffered first (`shuffle_collect`).
//! Any number of threads may share a writer, so that their rows share pages. Each process has its own writer for the same sets.

use std::sync::Arc;

use arrow_schema::SchemaRef;
use craton_shuffle::Form;
use craton_store::services::SequentialWriter;
use craton_store::{Error, Home, SetId};
use parking_lot::Mutex;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::arrow::import_batches;
use crate::errors::store_error;
use crate::shuffle::{positions, ranges_of};
use crate::shuffle_append::Appender;
use crate::shuffle_collect::Collector;
use crate::shuffle_rows::{ABANDONED, FINISHED, Failure, Key, Kind, open, raise_failure};
use crate::store::Store;

/// The target size of a page in bytes, and the bounds of the total size of all open pages, or of the buffered rows.
const PAGE: u64 = 4 << 20;
const LEAST: u64 = 64 << 20;
const MOST: u64 = 512 << 20;

/// The most bytes of one page.
const LARGEST: u64 = 16 << 20;

/// The least and the most bytes of rows that are appended in one pass over the partitions.
const SHORT_PASS: u64 = 1 << 20;
const LONG_PASS: u64 = 16 << 20;

/// How rows are written to pages.
enum Way {
    Append(Appender),
    Collect(Collector),
}

/// The state of a writer that has received rows.
struct Begun {
    schema: SchemaRef,
    way: Way,
}

struct State {
    // One for each partition; empty once rows have been received or the writer was closed.
    writers: Vec<SequentialWriter>,
    begun: Option<Arc<Begun>>,
    // Why later rows are refused; `None` while the writer is open.
    closed: Option<&'static str>,
}

/// Appends tables to the sets of their partitions; see the stub for the contract.
#[pyclass(frozen, module = "craton._native")]
pub struct ShuffleWriter {
    home: Arc<dyn Home>,
    keys: Py<PyAny>,
    kind: Kind,
    // Bytes of all open pages, of one page, and of the rows that are appended in one pass.
    total: u64,
    page: u64,
    pass: u64,
    whole: bool,
    state: Mutex<State>,
}

#[pymethods]
impl ShuffleWriter {
    #[new]
    #[pyo3(signature = (
        store, sets, keys, /, *, seed=0, boundaries=None, descending=None, nulls_first=None, page_bytes=None, whole=false
    ))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        py: Python<'_>,
        store: &Bound<'_, Store>,
        sets: Vec<u64>,
        keys: Py<PyAny>,
        seed: u64,
        boundaries: Option<&Bound<'_, PyAny>>,
        descending: Option<Vec<bool>>,
        nulls_first: Option<Vec<bool>>,
        page_bytes: Option<u64>,
        whole: bool,
    ) -> PyResult<Self> {
        let kind = match boundaries {
            Some(boundaries) => Kind::Ranges(Arc::new(ranges_of(boundaries, descending, nulls_first)?)),
            None => Kind::Hash(seed),
        };
        match &kind {
            Kind::Ranges(ranges) if ranges.count() > sets.len() => {
                return Err(PyValueError::new_err(format!(
                    "the boundaries make {} ranges, but there are {} partitions",
                    ranges.count(),
                    sets.len()
                )));
            }
            _ if !(1..=craton_shuffle::MOST_PARTITIONS).contains(&sets.len()) => {
                let most = craton_shuffle::MOST_PARTITIONS;
                return Err(PyValueError::new_err(format!("expected 1 to {most} partitions, got {}", sets.len())));
            }
            _ => {}
        }
        let home = Arc::clone(store.get().home());
        let (writers, limit) = py
            .detach(|| {
                let writer = |set: &u64| SequentialWriter::beside_others(&home, SetId(*set));
                let writers = sets.iter().map(writer).collect::<craton_store::Result<Vec<_>>>()?;
                Ok((writers, home.counters()?.limit))
            })
            .map_err(store_error)?;
        let count = sets.len() as u64;
        let wanted = page_bytes.unwrap_or_else(|| ((PAGE * count).clamp(LEAST, MOST) / count).min(LARGEST));
        let total = wanted.saturating_mul(count).min(limit / 4).max(count);
        let page = (total / count).max(1);
        let pass = (total / 32).clamp(SHORT_PASS, LONG_PASS).min(limit / 16).max(1);
        let state = Mutex::new(State { writers, begun: None, closed: None });
        Ok(Self { home, keys, kind, total, page, pass, whole, state })
    }

    /// Append a table.
    fn write(&self, py: Python<'_>, data: &Bound<'_, PyAny>) -> PyResult<()> {
        let (schema, batches) = import_batches(data)?;
        let columns = positions(&schema, self.keys.bind(py))?;
        py.detach(|| {
            let begun = self.begin(&schema, columns)?;
            match &begun.way {
                Way::Append(appender) => appender.add(batches),
                Way::Collect(collector) => collector.add(batches),
            }
        })
        .map_err(raise_failure)
    }

    /// Seal all pages; later rows are refused.
    fn finish(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| match self.end(FINISHED).as_deref().map(|begun| &begun.way) {
            Some(Way::Append(appender)) => appender.finish(),
            Some(Way::Collect(collector)) => collector.finish(),
            None => Ok(()),
        })
        .map_err(raise_failure)
    }

    /// Refuse later rows, and drop all rows that are not in sealed pages.
    fn abandon(&self, py: Python<'_>) {
        py.detach(|| match self.end(ABANDONED).as_deref().map(|begun| &begun.way) {
            Some(Way::Append(appender)) => appender.abandon(),
            Some(Way::Collect(collector)) => collector.abandon(),
            None => {}
        });
    }
}

impl ShuffleWriter {
    /// The state of the writer; the first table determines the schema and how rows are written.
    fn begin(&self, schema: &SchemaRef, columns: Vec<usize>) -> Result<Arc<Begun>, Failure> {
        let mut state = self.state.lock();
        open(state.closed)?;
        if let Some(begun) = &state.begun {
            same(&begun.schema, schema)?;
            return Ok(Arc::clone(begun));
        }
        let form = if self.whole { None } else { Form::new(schema).map_err(Failure::Shuffle)? };
        let key = Key { kind: self.kind.clone(), columns };
        let writers = std::mem::take(&mut state.writers);
        let way = match form {
            Some(form) => Way::Append(Appender::new(form, key, writers, self.page, self.pass)),
            None => {
                let home = Arc::clone(&self.home);
                Way::Collect(Collector::new(home, Arc::clone(schema), key, writers, self.total))
            }
        };
        let begun = Arc::new(Begun { schema: Arc::clone(schema), way });
        state.begun = Some(Arc::clone(&begun));
        Ok(begun)
    }

    /// Refuse later rows; returns the writer's state. Threads that are still writing keep their own references to it.
    fn end(&self, why: &'static str) -> Option<Arc<Begun>> {
        let mut state = self.state.lock();
        state.closed.get_or_insert(why);
        state.writers.clear();
        state.begun.take()
    }
}

fn same(expected: &SchemaRef, found: &SchemaRef) -> Result<(), Failure> {
    let columns = |schema: &SchemaRef| -> Vec<String> {
        schema.fields().iter().map(|field| format!("{}: {}", field.name(), field.data_type())).collect()
    };
    let (wanted, given) = (columns(expected), columns(found));
    if wanted == given {
        return Ok(());
    }
    Err(Error::Invalid(format!("expected the columns {wanted:?} as in the table written before, got {given:?}")).into())
}
