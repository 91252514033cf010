//! `craton._native.ShuffleWriter`: rows into the pages of one locality set a partition.
//!
//! What is written is collected until it makes pages of a good size, then partitioned in one pass into extents of the
//! store, and sealed. Any number of threads write to one writer, so that their rows share pages; other processes have
//! writers of their own to the same sets.

use std::collections::HashMap;
use std::panic::RefUnwindSafe;
use std::ptr::NonNull;
use std::sync::Arc;

use arrow_array::{Array, RecordBatch};
use arrow_buffer::Buffer;
use arrow_schema::{DataType, SchemaRef};
use craton_shuffle::{Memory, MemoryError, Ranges, Region, Route};
use craton_slab::Extent;
use craton_store::services::SequentialWriter;
use craton_store::{Error, Home, PageSpec, Pinned, Reference, SetId};
use craton_wire::Trim;
use parking_lot::{Mutex, MutexGuard};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::arrow::import_batches;
use crate::place::{Placed, place};
use crate::shuffle::{positions, raise, ranges_of};
use crate::store::{Store, raised};

/// Bytes of a page that are aimed at, and the bounds of what is collected for all pages.
const PAGE: u64 = 4 << 20;
const LEAST: u64 = 64 << 20;
const MOST: u64 = 512 << 20;

/// A flush of fewer rows than this is not cut further when memory is short.
const FEWEST_ROWS: usize = 1024;

/// Rows that are looked at to estimate the bytes of strings.
const SAMPLE: usize = 1024;

enum Kind {
    Hash(u64),
    Ranges(Ranges),
}

#[derive(Default)]
struct Pending {
    input: Option<(SchemaRef, Vec<usize>)>,
    batches: Vec<RecordBatch>,
    bytes: u64,
    // Why nothing is taken any more.
    closed: Option<&'static str>,
}

/// What went wrong, in either part.
enum Failure {
    Store(Error),
    Shuffle(craton_shuffle::Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Store(error)
    }
}

fn raise_failure(failure: Failure) -> PyErr {
    match failure {
        Failure::Store(error) => raised(error),
        Failure::Shuffle(craton_shuffle::Error::Memory { bytes, source }) => match source.downcast::<Error>() {
            Ok(error) => raised(*error),
            Err(source) => raise(craton_shuffle::Error::Memory { bytes, source }),
        },
        Failure::Shuffle(error) => raise(error),
    }
}

/// Appends tables to the sets of their partitions; see the stub for the contract.
#[pyclass(frozen, module = "craton._native")]
pub struct ShuffleWriter {
    home: Arc<dyn Home>,
    // One a partition, until the writer is finished.
    writers: Mutex<Vec<SequentialWriter>>,
    keys: Py<PyAny>,
    kind: Kind,
    collect: u64,
    pending: Mutex<Pending>,
    // Held while rows are partitioned. It is taken before `pending` is let go of, so that rows are sealed in the order in
    // which they were collected.
    flushing: Mutex<()>,
}

#[pymethods]
impl ShuffleWriter {
    #[new]
    #[pyo3(signature = (store, sets, keys, /, *, seed=0, boundaries=None, descending=None, nulls_first=None, collect=None))]
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
        collect: Option<u64>,
    ) -> PyResult<Self> {
        let kind = match boundaries {
            Some(boundaries) => Kind::Ranges(ranges_of(boundaries, descending, nulls_first)?),
            None => Kind::Hash(seed),
        };
        match &kind {
            Kind::Ranges(ranges) if ranges.count() > sets.len() => {
                return Err(PyValueError::new_err(format!(
                    "the boundaries make {} ranges, there are {} partitions",
                    ranges.count(),
                    sets.len()
                )));
            }
            _ if !(1..=craton_shuffle::MOST_PARTITIONS).contains(&sets.len()) => {
                let most = craton_shuffle::MOST_PARTITIONS;
                return Err(PyValueError::new_err(format!("{} partitions; 1 to {most} are possible", sets.len())));
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
            .map_err(raised)?;
        let collect = collect.unwrap_or_else(|| (PAGE * sets.len() as u64).clamp(LEAST, MOST)).min(limit / 4).max(1);
        Ok(Self {
            home,
            writers: Mutex::new(writers),
            keys,
            kind,
            collect,
            pending: Mutex::default(),
            flushing: Mutex::new(()),
        })
    }

    /// Append a table.
    fn write(&self, py: Python<'_>, data: &Bound<'_, PyAny>) -> PyResult<()> {
        let (schema, batches) = import_batches(data)?;
        let columns = positions(&schema, self.keys.bind(py))?;
        py.detach(|| self.add(&schema, columns, batches)).map_err(raise_failure)
    }

    /// Seal what was collected. Nothing is taken afterwards.
    fn finish(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| {
            let mut pending = self.pending.lock();
            let first = pending.closed.is_none();
            pending.closed.get_or_insert("it is finished");
            if first {
                drop(self.flush(pending)?);
            }
            self.writers.lock().clear();
            Ok(())
        })
        .map_err(raise_failure)
    }

    /// Take nothing any more, and give up what was collected and is not in a page.
    fn abandon(&self, py: Python<'_>) {
        py.detach(|| {
            let mut pending = self.pending.lock();
            pending.closed.get_or_insert("it was abandoned");
            let batches = std::mem::take(&mut pending.batches);
            drop(pending);
            drop(batches);
            let _flushing = self.flushing.lock();
            self.writers.lock().clear();
        });
    }
}

impl ShuffleWriter {
    fn add(&self, schema: &SchemaRef, columns: Vec<usize>, batches: Vec<RecordBatch>) -> Result<(), Failure> {
        let mut pending = self.pending.lock();
        open(&pending)?;
        match &pending.input {
            None => pending.input = Some((Arc::clone(schema), columns)),
            Some((expected, _)) => same(expected, schema)?,
        }
        for batch in batches {
            let row_bytes = (bytes_of(&batch) / batch.num_rows().max(1) as u64).max(1);
            let (mut start, rows) = (0, batch.num_rows());
            while start < rows {
                let room = self.collect.saturating_sub(pending.bytes) / row_bytes;
                let take = usize::try_from(room).unwrap_or(usize::MAX).clamp(1, rows - start);
                pending.batches.push(batch.slice(start, take));
                pending.bytes += row_bytes * take as u64;
                start += take;
                if pending.bytes >= self.collect {
                    pending = self.flush(pending)?;
                    open(&pending)?;
                }
            }
        }
        Ok(())
    }

    /// Put what was collected into pages. Others collect meanwhile, and wait when they have as much again.
    fn flush<'a>(&'a self, mut pending: MutexGuard<'a, Pending>) -> Result<MutexGuard<'a, Pending>, Failure> {
        let batches = std::mem::take(&mut pending.batches);
        pending.bytes = 0;
        let Some((schema, columns)) = pending.input.clone().filter(|_| !batches.is_empty()) else { return Ok(pending) };
        let flushing = self.flushing.lock();
        drop(pending);
        let result = self.seal(&schema, &columns, batches);
        drop(flushing);
        let mut pending = self.pending.lock();
        if result.is_err() {
            pending.closed = Some("rows were lost when it failed before");
        }
        result.map(|()| pending)
    }

    fn seal(&self, schema: &SchemaRef, columns: &[usize], batches: Vec<RecordBatch>) -> Result<(), Failure> {
        let writers = self.writers.lock();
        let memory = Extents { home: self.home.as_ref(), writers: &writers, held: Mutex::default() };
        let route = match &self.kind {
            Kind::Hash(seed) => Route::Hash { columns: columns.to_vec(), seed: *seed },
            Kind::Ranges(ranges) => Route::Ranges { columns: columns.to_vec(), ranges },
        };
        let parts = craton_shuffle::partition(schema, &batches, &route, writers.len(), &memory, 0);
        let mut held = memory.held.into_inner();
        let parts = match parts {
            Err(craton_shuffle::Error::Memory { source, .. }) if full(&source) && rows(&batches) > FEWEST_ROWS => {
                // Not all at once, then; nothing is sealed yet.
                drop((held, writers, route));
                let (first, second) = halves(batches);
                let columns =
                    self.pending.lock().input.as_ref().map(|(_, columns)| columns.clone()).unwrap_or_default();
                self.seal(schema, &columns, first)?;
                return self.seal(schema, &columns, second);
            }
            other => other.map_err(Failure::Shuffle)?,
        };
        drop(batches);
        let mut shared = Shared::default();
        for (number, part) in parts.into_iter().enumerate() {
            let mut own = held.remove(&number).unwrap_or_default();
            for batch in part.batches.into_iter().filter(|batch| batch.num_rows() > 0) {
                self.seal_page(writers[number].set(), batch, &mut own, &mut shared)?;
            }
        }
        Ok(())
    }

    fn seal_page(
        &self,
        set: SetId,
        batch: RecordBatch,
        own: &mut Vec<Arc<Held>>,
        shared: &mut Shared,
    ) -> craton_store::Result<()> {
        let mine = |buffer: &Buffer| own.iter().any(|held| held.find(buffer).is_some());
        let encoded =
            craton_wire::encode_batch(&batch, Trim::Unless(&mine)).map_err(|e| Error::Invalid(e.to_string()))?;
        drop(batch);
        let nowhere = Reference { segment: 0, offset: 0, length: 0 };
        let mut references = vec![nowhere; encoded.buffers.len()];
        let mut used = vec![false; own.len()];
        let mut foreign = Vec::new();
        for (number, buffer) in encoded.buffers.iter().enumerate().filter(|(_, buffer)| !buffer.is_empty()) {
            let place = own.iter().enumerate().find_map(|(at, held)| Some((at, held.find(buffer)?)));
            if let Some((at, reference)) = place {
                used[at] = true;
                references[number] = reference;
            } else if let Some(reference) = shared.places.get(&(buffer.as_ptr().addr(), buffer.len())) {
                references[number] = *reference;
            } else {
                foreign.push((number, buffer.clone()));
            }
        }
        // What is not the partition's own, such as the values of dictionaries, is copied for the first page, which the
        // others refer to.
        let copied: Vec<Buffer> = foreign.iter().map(|(_, buffer)| buffer.clone()).collect();
        let Placed { references: places, mut extents } = place(self.home.as_ref(), set, &copied, Vec::new(), false)?;
        for ((number, _), place) in foreign.iter().zip(&places) {
            references[*number] = *place;
        }
        drop(encoded.buffers);
        for at in (0..own.len()).rev().filter(|at| used[*at]) {
            let held = Arc::into_inner(own.swap_remove(at));
            extents.push(held.ok_or_else(|| Error::Invalid("the rows of a new page are in use".into()))?.extent);
        }
        let spec = PageSpec { header: encoded.header, buffers: references, rows: encoded.rows, ..PageSpec::default() };
        let info = self.home.seal(set, spec, extents)?;
        if !foreign.is_empty() {
            shared.pins.push(self.home.pin(info.page)?);
            for ((_, buffer), place) in foreign.into_iter().zip(places) {
                shared.places.insert((buffer.as_ptr().addr(), buffer.len()), place);
                shared.sources.push(buffer);
            }
        }
        Ok(())
    }
}

/// Buffers that several pages of one flush refer to, and what keeps them where they are.
#[derive(Default)]
struct Shared {
    places: HashMap<(usize, usize), Reference>,
    pins: Vec<Pinned>,
    // An address means the same bytes only while these live.
    sources: Vec<Buffer>,
}

/// An extent that a partition was written to.
struct Held {
    extent: Extent,
}

impl RefUnwindSafe for Held {}

impl Held {
    fn find(&self, buffer: &Buffer) -> Option<Reference> {
        let offset = buffer.as_ptr().addr().checked_sub(self.extent.as_ptr().addr())?;
        let inside = offset.checked_add(buffer.len())? <= self.extent.len();
        let whole = self.extent.reference();
        inside.then(|| Reference {
            segment: whole.segment,
            offset: whole.offset + offset as u64,
            length: buffer.len() as u64,
        })
    }
}

/// The store's memory: an extent a region.
struct Extents<'a> {
    home: &'a dyn Home,
    writers: &'a [SequentialWriter],
    held: Mutex<HashMap<usize, Vec<Arc<Held>>>>,
}

impl Memory for Extents<'_> {
    fn allocate(&self, partition: usize, bytes: usize) -> Result<Region, MemoryError> {
        let mut extents = self.home.allocate(self.writers[partition].set(), &[bytes])?;
        let mut extent = extents.pop().ok_or("the store granted no extent")?;
        let start = extent.as_mut_slice().ok_or("the extent that was granted cannot be written")?.as_mut_ptr();
        let start = NonNull::new(start).ok_or("the extent that was granted is nowhere")?;
        let held = Arc::new(Held { extent });
        self.held.lock().entry(partition).or_default().push(Arc::clone(&held));
        // SAFETY: the extent is ours alone until it is sealed, which takes it out of the owner when nobody else has it.
        Ok(unsafe { Region::new(start, bytes, held) })
    }

    fn shares_strings(&self) -> bool {
        false
    }
}

fn full(error: &MemoryError) -> bool {
    matches!(error.downcast_ref(), Some(Error::Full { .. } | Error::Quota { .. }))
}

fn rows(batches: &[RecordBatch]) -> usize {
    batches.iter().map(RecordBatch::num_rows).sum()
}

/// The first and the second half of the rows.
fn halves(batches: Vec<RecordBatch>) -> (Vec<RecordBatch>, Vec<RecordBatch>) {
    let mut left = rows(&batches) / 2;
    let (mut first, mut second) = (Vec::new(), Vec::new());
    for batch in batches {
        let take = left.min(batch.num_rows());
        left -= take;
        first.push(batch.slice(0, take));
        second.push(batch.slice(take, batch.num_rows() - take));
    }
    (first, second)
}

fn open(pending: &Pending) -> Result<(), Failure> {
    match pending.closed {
        None => Ok(()),
        Some(why) => Err(Error::Invalid(format!("the writer takes no rows: {why}")).into()),
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
    Err(Error::Invalid(format!("expected the columns {wanted:?} of what was written before, got {given:?}")).into())
}

/// About how many bytes the rows of a batch have.
fn bytes_of(batch: &RecordBatch) -> u64 {
    batch.columns().iter().map(|column| bytes_of_array(column.as_ref())).sum()
}

fn bytes_of_array(array: &dyn Array) -> u64 {
    let data = array.to_data();
    let fixed = data.get_slice_memory_size().unwrap_or_else(|_| array.get_array_memory_size()) as u64;
    if !matches!(data.data_type(), DataType::Utf8View | DataType::BinaryView) {
        return fixed;
    }
    // Views are as long as strings of at most 12 bytes; of longer ones, a sample is looked at.
    let Some(views) = data.buffers().first() else { return fixed };
    let views = &views.typed_data::<u128>()[data.offset()..data.offset() + data.len()];
    let step = (views.len() / SAMPLE).max(1);
    let long = views.iter().step_by(step).map(|view| *view as u32).filter(|length| *length > 12).map(u64::from);
    (views.len() * 16) as u64 + long.sum::<u64>() * step as u64
}
