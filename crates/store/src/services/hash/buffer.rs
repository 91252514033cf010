//! The virtual hash buffer: rows are added by any number of threads, and their groups are looked up or taken.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow_array::{ArrayRef, RecordBatch};
use arrow_buffer::NullBuffer;
use parking_lot::{Mutex, RwLock};
use rayon::prelude::*;

use super::aggregate::{Aggregate, Rows};
use super::keys::{Keys, Routed, length};
use super::layout::Form;
use super::pages::{LEAST_PAGES, Pages, SMALLEST, is_full};
use super::partition::HashPartition;
use super::table::array_of;
use crate::api::Home;
use crate::error::{Error, Result};
use crate::ids::SetId;

/// The size of a page in bytes, by default.
const PAGE: u64 = 1 << 20;
/// The most root partitions.
const MOST_ROOTS: u64 = 64;
/// Rows that are added in one pass over the partitions.
const PASS: usize = 1 << 17;
/// Rows that one thread hashes at a time.
const SLICE: usize = 1 << 14;

/// The options of a buffer.
#[derive(Debug, Clone, Copy, Default)]
pub struct HashOptions {
    /// The most bytes of open pages; by default half of the store's limit.
    pub memory: Option<u64>,
    /// The bytes of a page of full size; by default 1 MiB, or less if the memory is small. The longest key has half of that.
    pub page_bytes: Option<u64>,
}

/// Why a buffer takes no rows.
const FINISHED: &str = "it is finished";
const FAILED: &str = "rows were lost when it failed before";

/// Groups rows by key, within a part of a store's memory.
pub struct HashBuffer {
    pages: Pages,
    roots: Vec<Mutex<HashPartition>>,
    // How many bits of the hash are the root partition's.
    bits: u32,
    longest: usize,
    // Why no rows are taken any more. Threads that add rows hold the lock for reading.
    closed: RwLock<Option<&'static str>>,
    // Where the next thread begins with the partitions, so that threads seldom wait for each other.
    turn: AtomicUsize,
}

/// Rows in the order of their root partitions.
struct Slice {
    rows: Vec<Routed>,
    // The start of each partition's rows, and their end.
    starts: Vec<u32>,
}

impl HashBuffer {
    /// An empty buffer.
    ///
    /// # Errors
    /// [`Invalid`](Error::Invalid) for sizes that are too small; those of [`Home::create_set`].
    pub fn new(home: &Arc<dyn Home>, aggregates: Vec<Aggregate>, options: HashOptions) -> Result<Self> {
        let limit = home.counters()?.limit;
        let memory = options.memory.unwrap_or(limit / 2).min(limit).max(SMALLEST as u64);
        let share = memory / LEAST_PAGES;
        let page = match options.page_bytes {
            Some(bytes) if bytes < SMALLEST as u64 => {
                return Err(Error::Invalid(format!(
                    "a page has at least {SMALLEST} bytes, and {bytes} were asked for"
                )));
            }
            Some(bytes) if bytes > share.max(SMALLEST as u64) => {
                return Err(Error::Invalid(format!(
                    "pages of {bytes} bytes are more than a quarter of the memory for them, {memory} bytes"
                )));
            }
            Some(bytes) => bytes,
            // Small memory has fewer root partitions first, then smaller pages.
            None => (share / 8).clamp(SMALLEST as u64, PAGE),
        };
        let roots = (share / page).clamp(1, MOST_ROOTS);
        let bits = roots.ilog2();
        let pages = Pages::new(home, Form::new(aggregates), memory, 1 << bits, page as usize)?;
        let roots = (0..1 << bits).map(|_| Mutex::new(HashPartition::new(bits))).collect();
        let longest = page as usize / 2;
        Ok(Self { pages, roots, bits, longest, closed: RwLock::new(None), turn: AtomicUsize::new(0) })
    }

    /// The set that full pages are sealed in.
    #[must_use]
    pub fn set(&self) -> SetId {
        self.pages.set()
    }

    /// The most bytes of a key.
    #[must_use]
    pub fn longest_key(&self) -> usize {
        self.longest
    }

    /// How many pages were sealed with partial results.
    #[must_use]
    pub fn sealed(&self) -> u64 {
        self.pages.sealed()
    }

    /// The aggregates.
    #[must_use]
    pub fn aggregates(&self) -> &[Aggregate] {
        &self.pages.form.aggregates
    }

    fn root(&self, hash: u64) -> usize {
        if self.bits == 0 { 0 } else { (hash >> (64 - self.bits)) as usize }
    }

    fn check(&self, rows: &Rows<'_>) -> Result<()> {
        self.check_keys(&rows.keys)?;
        let aggregates = &self.pages.form.aggregates;
        if rows.values.len() != aggregates.len() {
            return Err(Error::Invalid(format!("values for {} of {} aggregates", rows.values.len(), aggregates.len())));
        }
        for (values, aggregate) in rows.values.iter().zip(aggregates) {
            if !values.suit(*aggregate) {
                return Err(Error::Invalid(format!("values of another type than those of {aggregate:?}")));
            }
            let (expected, nulls) = (rows.keys.views.len(), values.nulls().map(NullBuffer::len));
            if let Some(found) = [values.len(), nulls].into_iter().flatten().find(|found| *found != expected) {
                return Err(Error::Invalid(format!("{found} values for {expected} keys")));
            }
        }
        Ok(())
    }

    fn check_keys(&self, keys: &Keys<'_>) -> Result<()> {
        if u32::try_from(keys.views.len()).is_err() {
            return Err(Error::Invalid(format!("{} keys are too many at once", keys.views.len())));
        }
        let longest = keys.views.iter().map(|view| length(*view)).max().unwrap_or(0);
        if longest > self.longest {
            return Err(Error::Invalid(format!(
                "a key of {longest} bytes is too long: with the size of the pages, keys have at most {} bytes",
                self.longest
            )));
        }
        Ok(())
    }

    /// Add rows. Invalid rows are refused before any row is added. After another error the buffer has failed, and takes no more rows.
    ///
    /// # Errors
    /// [`Invalid`](Error::Invalid); [`Overflow`](Error::Overflow); those of [`Home::allocate`] and [`Home::seal`].
    pub fn add(&self, rows: &Rows<'_>) -> Result<()> {
        self.check(rows)?;
        let done = {
            let closed = self.closed.read();
            open(*closed)?;
            let count = rows.keys.views.len();
            (0..count).step_by(PASS).try_for_each(|start| self.pass(rows, start..(start + PASS).min(count)))
        };
        if done.is_err() {
            *self.closed.write() = Some(FAILED);
        }
        done
    }

    fn pass(&self, rows: &Rows<'_>, range: Range<usize>) -> Result<()> {
        let starts: Vec<usize> = range.clone().step_by(SLICE).collect();
        let slice = |start: &usize| self.slice(&rows.keys, *start..(start + SLICE).min(range.end));
        let few = starts.len() == 1;
        let slices: Vec<Slice> =
            if few { starts.iter().map(slice).collect() } else { starts.par_iter().map(slice).collect() };
        let turn = self.turn.fetch_add(self.roots.len() / 3 + 1, Ordering::Relaxed);
        let one = |number: usize| {
            let root = (number + turn) % self.roots.len();
            let mut todo = collected(&slices, root);
            if todo.is_empty() {
                return Ok(());
            }
            self.work(root, |partition| partition.add(&self.pages, rows, &mut todo))
        };
        if few {
            (0..self.roots.len()).try_for_each(one)
        } else {
            (0..self.roots.len()).into_par_iter().try_for_each(one)
        }
    }

    /// Work on a root partition; `work` is called again, to continue, when it failed because memory is short.
    fn work<T>(&self, root: usize, mut work: impl FnMut(&mut HashPartition) -> Result<T>) -> Result<T> {
        loop {
            let done = work(&mut self.roots[root].lock());
            match done {
                Err(error) if is_full(&error) => {
                    // The store needs the memory for something else: seal all pages, and continue with fewer and smaller ones.
                    let sealed = self.pages.sealed();
                    self.seal_all()?;
                    if !self.pages.shrink() && self.pages.sealed() == sealed {
                        return Err(error);
                    }
                }
                other => return other,
            }
        }
    }

    /// Rows in the order of their root partitions.
    fn slice(&self, keys: &Keys<'_>, range: Range<usize>) -> Slice {
        let hashes: Vec<u64> = keys.views[range.clone()].iter().map(|view| keys.hash(*view)).collect();
        let mut starts = vec![0u32; self.roots.len() + 1];
        for hash in &hashes {
            starts[self.root(*hash) + 1] += 1;
        }
        for root in 0..self.roots.len() {
            starts[root + 1] += starts[root];
        }
        let mut next = starts.clone();
        let mut rows = vec![Routed { hash: 0, row: 0 }; hashes.len()];
        for (hash, row) in hashes.iter().zip(range) {
            let place = &mut next[self.root(*hash)];
            rows[*place as usize] = Routed { hash: *hash, row: row as u32 };
            *place += 1;
        }
        Slice { rows, starts }
    }

    /// Seal all open pages.
    pub(super) fn seal_all(&self) -> Result<()> {
        self.roots.iter().try_for_each(|root| root.lock().seal_all(&self.pages))
    }

    /// The number of groups.
    ///
    /// # Errors
    /// As for [`add`](Self::add).
    pub fn count(&self) -> Result<u64> {
        let closed = self.closed.read();
        open(*closed)?;
        (0..self.roots.len()).map(|root| self.work(root, |partition| partition.count(&self.pages))).sum()
    }

    /// Which keys have groups, and their results: an array for each aggregate, null for a key without a group.
    ///
    /// # Errors
    /// As for [`add`](Self::add).
    pub fn find(&self, keys: &Keys<'_>) -> Result<(Vec<bool>, Vec<ArrayRef>)> {
        self.check_keys(keys)?;
        let closed = self.closed.read();
        open(*closed)?;
        let form = &self.pages.form;
        let count = keys.views.len();
        let mut known = vec![false; count];
        let mut states = vec![vec![0u64; count]; form.aggregates.len()];
        let mut valid = vec![vec![false; count]; form.aggregates.len()];
        self.visit(keys, |page, rows| {
            let Some(page) = page else { return };
            let mut entries = Vec::new();
            page.find(keys, rows, |routed, entry| entries.extend(entry.map(|entry| (routed.row as usize, entry))));
            for (row, entry) in entries {
                known[row] = true;
                for aggregate in 0..form.aggregates.len() {
                    let state = page.state(form, aggregate, entry);
                    (states[aggregate][row], valid[aggregate][row]) = (state.unwrap_or(0), state.is_some());
                }
            }
        })?;
        let columns = states.into_iter().zip(valid).zip(&form.aggregates);
        let array = |((states, valid), aggregate): ((Vec<u64>, Vec<bool>), &Aggregate)| {
            array_of(aggregate.number(), states, Some(NullBuffer::from(valid)))
        };
        Ok((known, columns.map(array).collect()))
    }

    /// Remove the groups of keys; returns how many there were.
    ///
    /// # Errors
    /// As for [`add`](Self::add).
    pub fn remove(&self, keys: &Keys<'_>) -> Result<u64> {
        self.check_keys(keys)?;
        let closed = self.closed.read();
        open(*closed)?;
        let mut removed = 0;
        self.visit(keys, |page, rows| {
            let Some(page) = page else { return };
            removed += rows.iter().filter(|routed| page.remove(&self.pages.form, keys, routed)).count() as u64;
        })?;
        Ok(removed)
    }

    fn visit(
        &self,
        keys: &Keys<'_>,
        mut visit: impl FnMut(Option<&mut super::table::HashPage>, &[Routed]),
    ) -> Result<()> {
        for start in (0..keys.views.len()).step_by(PASS) {
            let slices = [self.slice(keys, start..(start + PASS).min(keys.views.len()))];
            for root in 0..self.roots.len() {
                let mut todo = collected(&slices, root);
                if !todo.is_empty() {
                    self.work(root, |partition| partition.visit(&self.pages, &mut todo, &mut visit))?;
                }
            }
        }
        Ok(())
    }

    /// Refuse later rows, and prepare for taking the groups of so many root partitions at a time; returns whether there are partial results.
    pub(super) fn finish(&self, together: usize) -> Result<bool> {
        let mut closed = self.closed.write();
        open(*closed)?;
        *closed = Some(FINISHED);
        let spilled = self.roots.iter().any(|root| root.lock().has_partials());
        if spilled {
            self.seal_all()?;
            self.pages.divide(together as u64);
            self.pages.read_only();
        }
        Ok(spilled)
    }

    /// The number of root partitions.
    pub(super) fn root_count(&self) -> usize {
        self.roots.len()
    }

    /// Take, or copy, the next groups of a root partition.
    pub(super) fn next_of(&self, root: usize, position: &mut u64, take: bool) -> Result<Option<RecordBatch>> {
        self.work(root, |partition| {
            if take { partition.take_next(&self.pages, position) } else { partition.copy_next(&self.pages, position) }
        })
    }

    /// Fail unless rows are taken.
    pub(super) fn check_open(&self) -> Result<()> {
        open(*self.closed.read())
    }
}

/// The rows of a root partition.
fn collected(slices: &[Slice], root: usize) -> Vec<Routed> {
    let part = |slice: &Slice| slice.starts[root] as usize..slice.starts[root + 1] as usize;
    let mut rows = Vec::with_capacity(slices.iter().map(|slice| part(slice).len()).sum());
    slices.iter().for_each(|slice| rows.extend_from_slice(&slice.rows[part(slice)]));
    rows
}

fn open(closed: Option<&'static str>) -> Result<()> {
    match closed {
        None => Ok(()),
        Some(why) => Err(Error::Invalid(format!("the hash buffer cannot be used any more: {why}"))),
    }
}
