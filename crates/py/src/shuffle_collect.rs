//! Buffers tables until their rows fill pages of a good size, then partitions them in one pass into extents of the store, and seals these.
//!
//! This way is used for tables that are complete in memory, whose pages then have exactly the size of their rows, and for columns whose
//! rows cannot be appended to a page: lists, maps, unions, dictionaries, run-end encoded columns and list views.

use std::collections::HashMap;
use std::ptr::NonNull;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_schema::SchemaRef;
use craton_shuffle::{Memory, MemoryError, Region};
use craton_store::services::SequentialWriter;
use craton_store::{Error, Home, PageSpec, Pinned, Reference, SetId};
use craton_wire::Trim;
use parking_lot::{Mutex, MutexGuard};

use crate::place::{Placed, place};
use crate::shuffle_rows::{
    ABANDONED, FAILED, FEWEST_ROWS, FINISHED, Failure, Held, Key, full, halves, open, pieces, rows,
};

#[derive(Default)]
struct Pending {
    batches: Vec<RecordBatch>,
    bytes: u64,
    // Why later rows are refused; `None` while the collector is open.
    closed: Option<&'static str>,
}

/// Buffers rows, and seals pages of them.
pub struct Collector {
    home: Arc<dyn Home>,
    schema: SchemaRef,
    key: Key,
    // One for each partition.
    writers: Vec<SequentialWriter>,
    collect: u64,
    pending: Mutex<Pending>,
    // Held while rows are partitioned. It is locked before `pending` is unlocked, so that rows are sealed in the order in which
    // they were added.
    flushing: Mutex<()>,
}

impl Collector {
    /// A collector for rows of that schema, which writes pages for every `collect` bytes of rows.
    pub fn new(home: Arc<dyn Home>, schema: SchemaRef, key: Key, writers: Vec<SequentialWriter>, collect: u64) -> Self {
        Self { home, schema, key, writers, collect, pending: Mutex::default(), flushing: Mutex::new(()) }
    }

    /// Write and seal pages of the buffered rows; later rows are refused.
    pub fn finish(&self) -> Result<(), Failure> {
        let mut pending = self.pending.lock();
        if pending.closed.is_none() {
            pending.closed = Some(FINISHED);
            drop(self.flush(pending)?);
        }
        Ok(())
    }

    /// Refuse later rows, and drop the buffered rows.
    pub fn abandon(&self) {
        let mut pending = self.pending.lock();
        pending.closed.get_or_insert(ABANDONED);
        let batches = std::mem::take(&mut pending.batches);
        drop(pending);
        drop(batches);
        drop(self.flushing.lock());
    }

    /// Append batches.
    pub fn add(&self, batches: Vec<RecordBatch>) -> Result<(), Failure> {
        let mut pending = self.pending.lock();
        open(pending.closed)?;
        for piece in pieces(batches, self.collect) {
            pending.bytes += piece.bytes;
            pending.batches.push(piece.batch);
            if pending.bytes >= self.collect {
                pending = self.flush(pending)?;
                open(pending.closed)?;
            }
        }
        Ok(())
    }

    /// Write and seal pages of the buffered rows. Other threads buffer rows meanwhile, and wait when the buffer is full again.
    fn flush<'a>(&'a self, mut pending: MutexGuard<'a, Pending>) -> Result<MutexGuard<'a, Pending>, Failure> {
        let batches = std::mem::take(&mut pending.batches);
        pending.bytes = 0;
        if batches.is_empty() {
            return Ok(pending);
        }
        let flushing = self.flushing.lock();
        drop(pending);
        let result = self.seal(batches);
        drop(flushing);
        let mut pending = self.pending.lock();
        if result.is_err() {
            pending.closed = Some(FAILED);
        }
        result.map(|()| pending)
    }

    fn seal(&self, batches: Vec<RecordBatch>) -> Result<(), Failure> {
        let writers = &self.writers;
        let memory = Extents { home: self.home.as_ref(), writers, held: Mutex::default() };
        let parts = craton_shuffle::partition(&self.schema, &batches, &self.key.route(), writers.len(), &memory, 0);
        let mut held = memory.held.into_inner();
        let parts = match parts {
            Err(craton_shuffle::Error::Memory { source, .. }) if full(&source) && rows(&batches) > FEWEST_ROWS => {
                // Too little memory for all rows at once: write them in two halves. Nothing was sealed yet.
                drop(held);
                let (first, second) = halves(batches);
                self.seal(first)?;
                return self.seal(second);
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
        // Buffers that are not the partition's own, such as the values of dictionaries, are copied into the first page; later
        // pages refer to that copy.
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

/// Buffers that several pages of one flush refer to, and the pins that keep them in place.
#[derive(Default)]
struct Shared {
    places: HashMap<(usize, usize), Reference>,
    pins: Vec<Pinned>,
    // Keeps the source buffers alive, because the keys of `places` are their addresses.
    sources: Vec<Buffer>,
}

/// The store's memory: each region is an extent.
struct Extents<'a> {
    home: &'a dyn Home,
    writers: &'a [SequentialWriter],
    held: Mutex<HashMap<usize, Vec<Arc<Held>>>>,
}

impl Memory for Extents<'_> {
    fn allocate(&self, partition: usize, bytes: usize) -> Result<Region, MemoryError> {
        let mut extents = self.home.allocate(self.writers[partition].set(), &[bytes])?;
        let mut extent = extents.pop().ok_or("the store granted no extent")?;
        let start = extent.as_mut_slice().ok_or("the store granted a read-only extent")?.as_mut_ptr();
        let start = NonNull::new(start).ok_or("the store granted an extent at a null address")?;
        let held = Arc::new(Held { extent });
        self.held.lock().entry(partition).or_default().push(Arc::clone(&held));
        // SAFETY: the extent is exclusive until it is sealed; sealing takes it out of `Held` only if there is no other reference.
        Ok(unsafe { Region::new(start, bytes, held) })
    }

    fn shares_strings(&self) -> bool {
        false
    }
}
