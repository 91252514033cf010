//! Rows collected until they make pages of a good size, then partitioned in one pass into extents of the store, and sealed.
//!
//! That is for tables that are there as a whole, whose pages get exactly the memory that they need, and for columns whose rows
//! cannot be appended to a page: lists, maps, unions, dictionaries, run-end encoded ones and list views.

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
    // Why nothing is taken any more.
    closed: Option<&'static str>,
}

/// Collects rows, and seals pages of them.
pub struct Collector {
    home: Arc<dyn Home>,
    schema: SchemaRef,
    key: Key,
    // One a partition.
    writers: Vec<SequentialWriter>,
    collect: u64,
    pending: Mutex<Pending>,
    // Held while rows are partitioned. It is taken before `pending` is let go of, so that rows are sealed in the order in
    // which they were collected.
    flushing: Mutex<()>,
}

impl Collector {
    /// For rows of that schema; so many bytes of them are collected at a time.
    pub fn new(home: Arc<dyn Home>, schema: SchemaRef, key: Key, writers: Vec<SequentialWriter>, collect: u64) -> Self {
        Self { home, schema, key, writers, collect, pending: Mutex::default(), flushing: Mutex::new(()) }
    }

    /// Seal what was collected. Nothing is taken afterwards.
    pub fn finish(&self) -> Result<(), Failure> {
        let mut pending = self.pending.lock();
        if pending.closed.is_none() {
            pending.closed = Some(FINISHED);
            drop(self.flush(pending)?);
        }
        Ok(())
    }

    /// Take nothing any more, and give up what is in no page.
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

    /// Put what was collected into pages. Others collect meanwhile, and wait when they have as much again.
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
                // Not all at once, then; nothing is sealed yet.
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
