//! Appends rows to the open pages of their partitions.
//!
//! Each partition has an open page, to which all threads append through sub-pages ([`SubPages`]). A thread stages tables, by
//! reference, until they have enough rows for one pass over the partitions. The first pages of a partition are small, so that
//! many partitions with few rows take little memory.

use std::collections::HashMap;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::ThreadId;

use arrow_array::RecordBatch;
use craton_shuffle::{Form, Granted, MemoryError, Pages, Region};
use craton_slab::Extent;
use craton_store::services::{SequentialWriter, Shape, SubPage, SubPages, Written};
use craton_store::{Error, Home, PageSpec, SetId};
use craton_wire::Trim;
use parking_lot::{Mutex, RwLock};
use rayon::prelude::*;

use crate::place::{Placed, place};
use crate::shuffle_rows::{
    ABANDONED, FAILED, FEWEST_ROWS, FINISHED, Failure, Held, Key, full, halves, open, pieces, rows,
};

/// The most bytes of staged rows of all threads together, as a multiple of the bytes of one pass over the partitions.
const PASSES: u64 = 4;

/// The least size in bytes to which pages are reduced when memory is short; the page of a single small row may be smaller.
const SMALLEST: u64 = 4096;

/// Appends rows to pages, from any number of threads.
pub struct Appender {
    key: Key,
    pages: Vec<Arc<SubPages>>,
    layout: Arc<Layout>,
    // Bytes of rows that are appended in one pass over the partitions.
    pass: u64,
    stages: Mutex<HashMap<ThreadId, Arc<Mutex<Stage>>>>,
    staged: AtomicU64,
    closed: Mutex<Option<&'static str>>,
    // Locked for reading while rows are appended; locked for writing by a thread that must append alone, or that finishes or abandons.
    turn: RwLock<()>,
}

/// The rows that a thread has staged. Its lock is held while they are appended, so that they keep their order.
#[derive(Default)]
struct Stage {
    batches: Vec<RecordBatch>,
    bytes: u64,
    // The stage was removed from the map: rows that are added to it would be lost.
    gone: bool,
}

impl Appender {
    /// An appender that writes pages of about `page` bytes, and `pass` bytes of rows in one pass.
    pub fn new(form: Form, key: Key, writers: Vec<SequentialWriter>, page: u64, pass: u64) -> Self {
        let seen = (0..form.counts()).map(|_| AtomicU64::new(0)).collect();
        let layout = Arc::new(Layout { form, page: AtomicU64::new(page), seen, hurried: AtomicBool::new(false) });
        let pages = writers.into_iter().map(|writer| {
            let shape: Arc<dyn Shape> = Arc::clone(&layout) as _;
            Arc::new(SubPages::within(writer, shape))
        });
        Self {
            key,
            pages: pages.collect(),
            layout,
            pass,
            stages: Mutex::default(),
            staged: AtomicU64::new(0),
            closed: Mutex::default(),
            turn: RwLock::new(()),
        }
    }

    /// Append batches.
    pub fn add(&self, batches: Vec<RecordBatch>) -> Result<(), Failure> {
        let own = Arc::clone(self.stages.lock().entry(std::thread::current().id()).or_default());
        let mut stage = own.lock();
        // `finish` and `abandon` set `closed` before they take the stages, so rows that are added to this stage now are not missed.
        open(*self.closed.lock())?;
        if stage.gone {
            drop(stage);
            return self.add(batches);
        }
        for piece in pieces(batches, self.pass) {
            stage.batches.push(piece.batch);
            stage.bytes += piece.bytes;
            self.staged.fetch_add(piece.bytes, Ordering::Relaxed);
            if stage.bytes >= self.pass {
                open(*self.closed.lock())?;
                self.flush(&mut stage)?;
            }
        }
        drop(stage);
        if self.staged.load(Ordering::Relaxed) > PASSES * self.pass {
            self.flush_all()?;
        }
        Ok(())
    }

    /// Append all staged rows and seal all pages; later rows are refused.
    pub fn finish(&self) -> Result<(), Failure> {
        {
            let mut closed = self.closed.lock();
            if closed.is_some() {
                return Ok(());
            }
            *closed = Some(FINISHED);
        }
        let done = self.flush_all().and_then(|()| {
            let _alone = self.turn.write();
            let finish = |pages: &Arc<SubPages>| pages.finish().map(drop).map_err(Failure::from);
            self.pages.par_iter().map(finish).collect()
        });
        if done.is_err() {
            *self.closed.lock() = Some(FAILED);
        }
        done
    }

    /// Refuse later rows, and drop the staged rows. Unsealed pages are dropped with this value.
    pub fn abandon(&self) {
        self.closed.lock().get_or_insert(ABANDONED);
        let stages = std::mem::take(&mut *self.stages.lock());
        for stage in stages.into_values() {
            let mut stage = stage.lock();
            stage.gone = true;
            stage.batches.clear();
        }
        drop(self.turn.write());
    }

    /// Append the staged rows of all threads.
    fn flush_all(&self) -> Result<(), Failure> {
        let stages = std::mem::take(&mut *self.stages.lock());
        let flush = |stage: Arc<Mutex<Stage>>| {
            let mut stage = stage.lock();
            stage.gone = true;
            self.flush(&mut stage)
        };
        stages.into_values().map(flush).fold(Ok(()), Result::and)
    }

    fn flush(&self, stage: &mut Stage) -> Result<(), Failure> {
        let batches = std::mem::take(&mut stage.batches);
        self.staged.fetch_sub(std::mem::take(&mut stage.bytes), Ordering::Relaxed);
        if batches.is_empty() {
            return Ok(());
        }
        let turn = self.turn.read();
        let done = match self.append(&batches) {
            Err(Failure::Shuffle(craton_shuffle::Error::Memory { source, .. })) if full(&source) => {
                drop(turn);
                let _alone = self.turn.write();
                self.layout.hurried.store(true, Ordering::Relaxed);
                let done = self.squeeze(batches);
                self.layout.hurried.store(false, Ordering::Relaxed);
                done
            }
            other => other,
        };
        if done.is_err() {
            *self.closed.lock() = Some(FAILED);
        }
        done
    }

    /// Append rows for which there was too little memory; no other thread may append meanwhile. Seals the open pages, so that they
    /// can be evicted; then appends to smaller pages, and fewer rows at a time.
    fn squeeze(&self, batches: Vec<RecordBatch>) -> Result<(), Failure> {
        loop {
            self.pages.iter().try_for_each(|pages| pages.close())?;
            let smaller = self.layout.shrink();
            match self.append(&batches) {
                Err(Failure::Shuffle(craton_shuffle::Error::Memory { source, .. }))
                    if full(&source) && rows(&batches) > FEWEST_ROWS =>
                {
                    let (first, second) = halves(batches);
                    self.squeeze(first)?;
                    return self.squeeze(second);
                }
                Err(Failure::Shuffle(craton_shuffle::Error::Memory { source, .. })) if full(&source) && smaller => {}
                other => return other,
            }
        }
    }

    fn append(&self, batches: &[RecordBatch]) -> Result<(), Failure> {
        let grants = Grants { appender: self, taken: Mutex::default() };
        let (form, route) = (&self.layout.form, self.key.route());
        let done = craton_shuffle::append(form, batches, &route, self.pages.len(), &grants, 0);
        if let Err(error) = done {
            // If a sub-page could not be allocated, nothing was written.
            if matches!(error, craton_shuffle::Error::Memory { .. }) {
                grants.taken.into_inner().into_iter().try_for_each(SubPage::cancel)?;
            }
            return Err(Failure::Shuffle(error));
        }
        for sub in grants.taken.into_inner() {
            sub.finish()?;
        }
        Ok(())
    }
}

/// The sub-pages that one pass over the partitions fills. Dropping this value abandons its sub-pages.
struct Grants<'a> {
    appender: &'a Appender,
    taken: Mutex<Vec<SubPage>>,
}

// SAFETY: `Layout` allocates and prepares the pages; a sub-page's part of a page is exclusive until it is returned after the pass.
unsafe impl Pages for Grants<'_> {
    fn grant(&self, partition: usize, counts: &[u64]) -> std::result::Result<Granted, MemoryError> {
        self.appender.layout.saw(counts);
        let sub = self.appender.pages[partition].take(counts)?;
        let granted = Granted { start: sub.page(), room: sub.room().to_vec(), before: sub.before().to_vec() };
        self.taken.lock().push(sub);
        Ok(granted)
    }
}

/// The layout of the pages.
struct Layout {
    form: Form,
    // The size of a page in bytes.
    page: AtomicU64,
    // The total counts (see `Form`) of all rows appended so far.
    seen: Vec<AtomicU64>,
    // Memory is short, so pages are not copied to pages of their exact size.
    hurried: AtomicBool,
}

impl Layout {
    fn saw(&self, counts: &[u64]) {
        for (seen, count) in self.seen.iter().zip(counts) {
            seen.fetch_add(*count, Ordering::Relaxed);
        }
    }

    /// Halve the size of later pages; returns false if they have the least size already.
    fn shrink(&self) -> bool {
        let page = self.page.load(Ordering::Relaxed);
        self.page.store((page / 2).max(SMALLEST), Ordering::Relaxed);
        page > SMALLEST
    }
}

fn invalid(error: impl std::fmt::Display) -> Error {
    Error::Invalid(error.to_string())
}

impl Shape for Layout {
    fn room(&self, least: &[u64], number: u64) -> craton_store::Result<(usize, Vec<u64>)> {
        // The first page of a partition is a sixteenth of the later ones, the second a fourth.
        let bytes = self.page.load(Ordering::Relaxed) >> (4 - 2 * number.min(2));
        let seen: Vec<u64> = self.seen.iter().map(|seen| seen.load(Ordering::Relaxed)).collect();
        let room = self.form.room(usize::try_from(bytes).map_err(invalid)?, least, &seen).map_err(invalid)?;
        Ok((self.form.bytes(&room), room))
    }

    fn prepare(&self, memory: &mut [u8], room: &[u64]) {
        assert!(memory.len() >= self.form.bytes(room), "a page of {} bytes", memory.len());
        // SAFETY: the memory has the required length and is borrowed exclusively.
        unsafe { self.form.prepare(NonNull::from(memory).cast(), room) };
    }

    fn close(
        &self,
        home: &dyn Home,
        set: SetId,
        written: Written,
    ) -> craton_store::Result<Option<(PageSpec, Vec<Extent>)>> {
        let Written { mut extent, room, used, lost } = written;
        let bytes = extent.len();
        let start = NonNull::from(extent.as_mut_slice().ok_or_else(|| invalid("the extent is read-only"))?).cast();
        let held = Arc::new(Held { extent });
        // SAFETY: the extent is owned by `held`, and all writers have returned their sub-pages.
        let region = unsafe { Region::new(start, bytes, Arc::clone(&held) as _) };
        let batch = self.form.batch(region, &room, &used, &lost).map_err(invalid)?;
        if batch.num_rows() == 0 {
            return Ok(None);
        }
        let rows = batch.num_rows() as u64;
        let spec = |header, buffers| PageSpec { header, buffers, rows, ..PageSpec::default() };
        // A page that is far from full is copied to an extent of the used size.
        let loose = self.form.bytes(&used) < bytes - bytes / 8 && !self.hurried.load(Ordering::Relaxed);
        if loose || !lost.is_empty() {
            let encoded = craton_wire::encode_batch(&batch, Trim::Always).map_err(invalid)?;
            match place(home, set, &encoded.buffers, Vec::new(), false) {
                Ok(Placed { references, extents }) => return Ok(Some((spec(encoded.header, references), extents))),
                Err(Error::Full { .. } | Error::Quota { .. }) if lost.is_empty() => {}
                Err(error) => return Err(error),
            }
        }
        let encoded = craton_wire::encode_batch(&batch, Trim::Never).map_err(invalid)?;
        drop(batch);
        let find = |buffer: &arrow_buffer::Buffer| {
            let nowhere = craton_store::Reference { segment: 0, offset: 0, length: 0 };
            let found = if buffer.is_empty() { Some(nowhere) } else { held.find(buffer) };
            found.ok_or_else(|| invalid("a buffer of a page is outside the page"))
        };
        let references = encoded.buffers.iter().map(find).collect::<craton_store::Result<Vec<_>>>()?;
        drop(encoded.buffers);
        let held = Arc::into_inner(held).ok_or_else(|| invalid("the rows of a new page are in use"))?;
        Ok(Some((spec(encoded.header, references), vec![held.extent])))
    }
}
