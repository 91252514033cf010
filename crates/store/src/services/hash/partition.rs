//! A root partition: a directory of leaves by ranges of hashes, each with an open page and sealed pages of partial results.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{Array, RecordBatch};

use super::aggregate::{Number, Rows, Values};
use super::keys::{INLINE, Keys, Routed, length};
use super::pages::{Pages, Partial};
use super::table::HashPage;
use crate::error::{Error, Result};

/// The most bits of a hash, below those of the root partition, that a leaf is found by.
pub(super) const DEEPEST: u32 = 20;
/// By how much a page is enlarged that is not of full size yet.
const GROWTH: usize = 4;
/// How many rows are sampled for the length of keys.
const SAMPLE: usize = 64;

/// The keys of a range of hashes.
#[derive(Default)]
struct Leaf {
    // The range: the hashes that have these highest bits, below those of the root partition.
    prefix: u64,
    depth: u32,
    page: Option<HashPage>,
    // In the order of their sealing, all before the open page.
    partials: Vec<Partial>,
    // The expected number of entries, if it is known.
    expected: usize,
    // Its partial results were combined, but did not fit in one page.
    combined: bool,
}

/// A root partition.
pub(super) struct HashPartition {
    // How many bits of the hash the root partition has.
    root: u32,
    // The depth of the directory, which maps that many bits of a hash to a leaf.
    depth: u32,
    directory: Vec<u32>,
    leaves: Vec<Leaf>,
    // Bytes of long keys for each entry of the page that was full last.
    long: f64,
    // The bytes of its open pages.
    open: Arc<AtomicU64>,
    // Partial results that are being combined. They come before all rows that are added later.
    combining: VecDeque<Partial>,
    // The rows of the first of these that were not added yet, if some were.
    rest: Option<Vec<Routed>>,
}

/// The room in a leaf after its page was full.
enum Room {
    /// The leaf has room for another entry.
    Made,
    /// The leaf was split, so rows must be distributed again.
    Split,
}

impl HashPartition {
    pub(super) fn new(root: u32) -> Self {
        Self {
            root,
            depth: 0,
            directory: vec![0],
            leaves: vec![Leaf::default()],
            long: 0.0,
            open: Arc::default(),
            combining: VecDeque::new(),
            rest: None,
        }
    }

    /// Whether open pages of `bytes` more are within the partition's memory.
    fn fits(&self, pages: &Pages, bytes: usize) -> bool {
        self.open.load(Ordering::Relaxed) + bytes as u64 <= pages.share()
    }

    fn leaf_of(&self, hash: u64) -> usize {
        let below = hash << self.root;
        if self.depth == 0 { 0 } else { self.directory[(below >> (64 - self.depth)) as usize] as usize }
    }

    /// Rows in the order of their leaves, and the leaves with the ends of their rows.
    fn by_leaf(&self, rows: Vec<Routed>) -> (Vec<Routed>, Vec<(usize, usize)>) {
        let count = rows.len();
        if self.leaves.len() == 1 {
            return (rows, vec![(0, count)]);
        }
        let mut starts = vec![0u32; self.leaves.len() + 1];
        for routed in &rows {
            starts[self.leaf_of(routed.hash) + 1] += 1;
        }
        let mut total = 0;
        for start in &mut starts {
            total += *start;
            *start = total;
        }
        let mut sorted = vec![Routed { hash: 0, row: 0 }; count];
        for routed in &rows {
            let start = &mut starts[self.leaf_of(routed.hash)];
            sorted[*start as usize] = *routed;
            *start += 1;
        }
        let ends = starts[..self.leaves.len()].iter().enumerate().map(|(leaf, end)| (leaf, *end as usize));
        (sorted, ends.collect())
    }

    /// Add the rows of `todo`, whose hashes are of this partition. After an error, `todo` has the rows that were not added.
    pub(super) fn add(&mut self, pages: &Pages, of: &Rows<'_>, todo: &mut Vec<Routed>) -> Result<()> {
        self.resume(pages)?;
        self.add_rows(pages, of, false, todo)
    }

    fn add_rows(&mut self, pages: &Pages, of: &Rows<'_>, merge: bool, todo: &mut Vec<Routed>) -> Result<()> {
        let mut entries = Vec::new();
        while !todo.is_empty() {
            let (sorted, ends) = self.by_leaf(std::mem::take(todo));
            let mut start = 0;
            for (leaf, end) in ends {
                let done = self.add_to(pages, leaf, of, merge, &sorted[start..end], &mut entries);
                match done {
                    Ok(done) => todo.extend_from_slice(&sorted[start + done..end]),
                    Err((done, error)) => {
                        todo.extend_from_slice(&sorted[start + done..]);
                        return Err(error);
                    }
                }
                start = end;
            }
        }
        Ok(())
    }

    /// Add rows to a leaf; returns how many were added before it was split, or all.
    fn add_to(
        &mut self,
        pages: &Pages,
        leaf: usize,
        of: &Rows<'_>,
        merge: bool,
        rows: &[Routed],
        entries: &mut Vec<u32>,
    ) -> std::result::Result<usize, (usize, Error)> {
        let mut done = 0;
        while done < rows.len() {
            let rest = &rows[done..];
            if self.leaves[leaf].page.is_none() {
                self.open_page(pages, leaf, &of.keys, rest).map_err(|error| (done, error))?;
            }
            let Some(page) = &mut self.leaves[leaf].page else { continue };
            let placed = page.place(&pages.form, &of.keys, rest, entries);
            page.update(&pages.form, entries, &rest[..placed], of, merge).map_err(|error| (done, error))?;
            done += placed;
            if done < rows.len() {
                let least = outside(of.keys.views[rows[done].row as usize]);
                match self.make_room(pages, leaf, least).map_err(|error| (done, error))? {
                    Room::Made => {}
                    Room::Split => break,
                }
            }
        }
        Ok(done)
    }

    /// Give a leaf an open page for these rows.
    fn open_page(&mut self, pages: &Pages, leaf: usize, keys: &Keys<'_>, rows: &[Routed]) -> Result<()> {
        let sample = rows.iter().take(SAMPLE).map(|routed| outside(keys.views[routed.row as usize]));
        let long = (sample.sum::<usize>() as f64 / rows.len().min(SAMPLE) as f64).max(self.long);
        let least = outside(keys.views[rows[0].row as usize]);
        let wanted = match &self.leaves[leaf] {
            Leaf { expected: 0, partials, .. } if !partials.is_empty() => pages.full(),
            Leaf { expected: 0, .. } => pages.form.bytes_for(rows.len(), long),
            Leaf { expected, .. } => pages.form.bytes_for(*expected, long),
        };
        let mut bytes = wanted.min(pages.full());
        while !self.fits(pages, bytes) {
            // Another leaf gives up its page; one page of each partition is within the buffer's memory in any case.
            match self.largest(leaf) {
                Some(victim) => self.seal(pages, victim)?,
                None => break,
            }
            bytes = bytes.min(pages.full());
        }
        self.leaves[leaf].page = Some(pages.allocate(bytes, long, least, &self.open)?);
        Ok(())
    }

    /// The leaf, other than this one, with the most entries in its page.
    fn largest(&self, except: usize) -> Option<usize> {
        let open = self.leaves.iter().enumerate().filter(|(number, leaf)| *number != except && leaf.page.is_some());
        open.max_by_key(|(_, leaf)| leaf.page.as_ref().map_or(0, HashPage::len)).map(|(number, _)| number)
    }

    /// Make room in a leaf whose page has no room for a key with `least` bytes outside of its view.
    fn make_room(&mut self, pages: &Pages, leaf: usize, least: usize) -> Result<Room> {
        let Leaf { page: Some(page), partials, depth, .. } = &mut self.leaves[leaf] else { return Ok(Room::Made) };
        let long = page.long();
        self.long = long;
        let (bytes, full, is_fresh) = (page.bytes(), pages.full(), partials.is_empty() && *depth < DEEPEST);
        if page.len() == 0 || page.is_wasteful() {
            return self.rebuild(pages, leaf, bytes, long, least);
        }
        if bytes < full {
            let larger = (bytes * GROWTH).min(full);
            if self.fits(pages, larger) {
                return self.rebuild(pages, leaf, larger, long, least);
            }
        } else if is_fresh && self.can_split(pages) {
            return self.split(pages, leaf, long);
        }
        self.seal(pages, leaf)?;
        Ok(Room::Made)
    }

    /// Whether the partition's memory has a page of full size for one more leaf.
    fn can_split(&self, pages: &Pages) -> bool {
        let open = self.leaves.iter().filter(|leaf| leaf.page.is_some()).count();
        (open as u64 + 1) * pages.full() as u64 <= pages.share()
    }

    /// Move the entries of a leaf to a new page.
    fn rebuild(&mut self, pages: &Pages, leaf: usize, bytes: usize, long: f64, least: usize) -> Result<Room> {
        let Some(page) = &mut self.leaves[leaf].page else { return Ok(Room::Made) };
        let mut fresh = pages.allocate(bytes, long, least, &self.open)?;
        if page.divide(&pages.form, &mut [&mut fresh], 0) {
            self.leaves[leaf].page = Some(fresh);
        } else {
            // The lengths of keys are too uneven.
            drop(fresh);
            self.seal(pages, leaf)?;
        }
        Ok(Room::Made)
    }

    /// Split a leaf in two.
    fn split(&mut self, pages: &Pages, leaf: usize, long: f64) -> Result<Room> {
        let shift = 63 - self.root - self.leaves[leaf].depth;
        let Some(page) = &mut self.leaves[leaf].page else { return Ok(Room::Made) };
        let bytes = page.bytes();
        let (mut low, mut high) =
            (pages.allocate(bytes, long, 0, &self.open)?, pages.allocate(bytes, long, 0, &self.open)?);
        if !page.divide(&pages.form, &mut [&mut low, &mut high], shift) {
            drop((low, high));
            self.seal(pages, leaf)?;
            return Ok(Room::Made);
        }
        let other = self.halve(leaf);
        let some = |page: HashPage| (page.len() > 0).then_some(page);
        self.leaves[leaf].page = some(low);
        self.leaves[other].page = some(high);
        Ok(Room::Split)
    }

    /// Divide the range of a leaf; returns the new leaf, which has the upper half.
    fn halve(&mut self, leaf: usize) -> usize {
        let Leaf { prefix, depth, .. } = self.leaves[leaf];
        if depth == self.depth {
            self.directory = self.directory.iter().flat_map(|leaf| [*leaf, *leaf]).collect();
            self.depth += 1;
        }
        let (low, depth, other) = (prefix << 1, depth + 1, self.leaves.len());
        let step = self.depth - depth;
        let from = ((low + 1) << step) as usize;
        self.directory[from..from + (1 << step)].fill(other as u32);
        let lower = &mut self.leaves[leaf];
        (lower.prefix, lower.depth) = (low, depth);
        lower.expected /= 2;
        let expected = lower.expected;
        self.leaves.push(Leaf { prefix: low + 1, depth, expected, ..Leaf::default() });
        other
    }

    /// Seal the page of a leaf.
    fn seal(&mut self, pages: &Pages, leaf: usize) -> Result<()> {
        let leaf = &mut self.leaves[leaf];
        if let Some(page) = leaf.page.take().filter(|page| page.len() > 0) {
            leaf.partials.push(pages.seal(page)?);
        }
        Ok(())
    }

    /// Seal all open pages.
    pub(super) fn seal_all(&mut self, pages: &Pages) -> Result<()> {
        (0..self.leaves.len()).try_for_each(|leaf| self.seal(pages, leaf))
    }

    /// Whether it has partial results.
    pub(super) fn has_partials(&self) -> bool {
        self.leaves.iter().any(|leaf| !leaf.partials.is_empty())
    }

    /// Aggregate the partial results of a leaf again, in as many leaves as that may need.
    fn combine(&mut self, pages: &Pages, leaf: usize) -> Result<()> {
        self.seal(pages, leaf)?;
        let Leaf { partials, depth, combined, .. } = &mut self.leaves[leaf];
        let (depth, again) = (*depth, std::mem::replace(combined, true));
        if again && depth == DEEPEST {
            return Err(Error::Invalid("the hashes of too many keys are alike".into()));
        }
        let partials = std::mem::take(partials);
        let rows = partials.iter().map(|partial| partial.rows).sum::<u64>() as usize;
        let bytes = partials.iter().map(|partial| partial.bytes).sum::<u64>() as usize;
        let expected = rows + rows / 8;
        let long = bytes.saturating_sub(rows * pages.form.entry_bytes()) as f64 / rows.max(1) as f64;
        // One page for each leaf is enough, unless the results are larger than the memory. Then each leaf gets partial results again, but fewer.
        let count = pages.form.bytes_for(expected, long).div_ceil(pages.full()).next_power_of_two();
        let most = (pages.share() / (2 * pages.full() as u64)).max(1).ilog2();
        // A leaf that was combined before is divided, because its results did not fit in one.
        let bits = count.trailing_zeros().min(most).max(again.into()).min(DEEPEST - depth);
        self.leaves[leaf].expected = expected;
        let mut parts = vec![leaf];
        for _ in 0..bits {
            let more: Vec<usize> = parts.iter().map(|part| self.halve(*part)).collect();
            parts.extend(more);
        }
        pages.prefetch(&partials);
        self.combining = partials.into();
        let done = self.resume(pages);
        parts.into_iter().for_each(|part| self.leaves[part].expected = 0);
        done
    }

    /// Add the partial results that are being combined. If this fails, a later call continues.
    fn resume(&mut self, pages: &Pages) -> Result<()> {
        while let Some(partial) = self.combining.front().copied() {
            let batch = pages.read(&partial)?;
            let array = batch.column(0).as_binary_view();
            let buffers = array.data_buffers().iter().map(|buffer| buffer.as_slice()).collect();
            let keys = Keys { views: array.views(), buffers };
            let columns = pages.form.aggregates.iter().zip(&batch.columns()[1..]);
            let values = columns.map(|(aggregate, column)| match aggregate.number() {
                Number::Int => Values::Int(column.as_primitive::<Int64Type>().values(), column.nulls()),
                Number::Float => Values::Float(column.as_primitive::<Float64Type>().values(), column.nulls()),
            });
            let rows = Rows { keys, values: values.collect() };
            let route = |(view, row): (&u128, u32)| Routed { hash: rows.keys.hash(*view), row };
            let mut todo = self.rest.take().unwrap_or_else(|| rows.keys.views.iter().zip(0..).map(route).collect());
            if let Err(error) = self.add_rows(pages, &rows, true, &mut todo) {
                self.rest = Some(todo);
                return Err(error);
            }
            self.combining.pop_front();
            pages.drop_page(&partial);
        }
        Ok(())
    }

    /// The leaf with a position, which is the highest [`DEEPEST`] bits of a hash below those of the partition.
    fn leaf_at(&self, position: u64) -> usize {
        self.directory[(position >> (DEEPEST - self.depth)) as usize] as usize
    }

    /// A leaf that has all results of its keys, at that position; its partial results are combined if necessary.
    fn whole_leaf(&mut self, pages: &Pages, position: u64, single: bool) -> Result<usize> {
        self.resume(pages)?;
        loop {
            let leaf = self.leaf_at(position);
            let Leaf { page, partials, .. } = &self.leaves[leaf];
            if partials.is_empty() || (single && page.is_none() && partials.len() == 1) {
                self.leaves[leaf].combined = false;
                return Ok(leaf);
            }
            self.combine(pages, leaf)?;
        }
    }

    /// Take the next groups from `position` on, and move it past them; `None` at the end.
    pub(super) fn take_next(&mut self, pages: &Pages, position: &mut u64) -> Result<Option<RecordBatch>> {
        while *position < 1 << DEEPEST {
            let leaf = self.whole_leaf(pages, *position, true)?;
            let end = self.end(leaf);
            if end < 1 << DEEPEST {
                pages.prefetch(&self.leaves[self.leaf_at(end)].partials);
            }
            let Leaf { page, partials, .. } = &mut self.leaves[leaf];
            let batch = match (page.take(), partials.last().copied()) {
                (Some(page), _) if page.len() > 0 => Some(page.into_batch(&pages.form)?.0),
                (_, Some(partial)) => {
                    let batch = pages.read(&partial)?;
                    partials.clear();
                    pages.drop_page(&partial);
                    Some(batch)
                }
                _ => None,
            };
            *position = end;
            if batch.is_some() {
                return Ok(batch);
            }
        }
        Ok(None)
    }

    fn end(&self, leaf: usize) -> u64 {
        let Leaf { prefix, depth, .. } = self.leaves[leaf];
        (prefix + 1) << (DEEPEST - depth)
    }

    /// Copies of the next groups from `position` on, which stay in the partition.
    pub(super) fn copy_next(&mut self, pages: &Pages, position: &mut u64) -> Result<Option<RecordBatch>> {
        while *position < 1 << DEEPEST {
            let leaf = self.whole_leaf(pages, *position, false)?;
            *position = self.end(leaf);
            if let Some(page) = self.leaves[leaf].page.as_mut().filter(|page| page.len() > 0) {
                return page.copied(&pages.form).map(Some);
            }
        }
        Ok(None)
    }

    /// Call a function with the page and the rows of each leaf. After an error, `todo` has the rows that are left.
    pub(super) fn visit(
        &mut self,
        pages: &Pages,
        todo: &mut Vec<Routed>,
        mut visit: impl FnMut(Option<&mut HashPage>, &[Routed]),
    ) -> Result<()> {
        let (mut sorted, ends) = self.by_leaf(std::mem::take(todo));
        let mut start = 0;
        for (_, end) in ends {
            // The rows were of one leaf, which may be split now.
            while start < end {
                let position = sorted[start].hash << self.root >> (64 - DEEPEST);
                let leaf = match self.whole_leaf(pages, position, false) {
                    Ok(leaf) => leaf,
                    Err(error) => {
                        todo.extend_from_slice(&sorted[start..]);
                        return Err(error);
                    }
                };
                let (own, others): (Vec<_>, Vec<_>) =
                    sorted[start..end].iter().partition(|routed| self.leaf_of(routed.hash) == leaf);
                visit(self.leaves[leaf].page.as_mut(), &own);
                let first = start + own.len();
                sorted[first..end].copy_from_slice(&others);
                start = first;
            }
        }
        Ok(())
    }

    /// The number of groups.
    pub(super) fn count(&mut self, pages: &Pages) -> Result<u64> {
        let (mut position, mut count) = (0, 0);
        while position < 1 << DEEPEST {
            let leaf = self.whole_leaf(pages, position, true)?;
            position = self.end(leaf);
            let Leaf { page, partials, .. } = &self.leaves[leaf];
            count += page.as_ref().map_or(0, |page| page.len() as u64);
            count += partials.iter().map(|partial| partial.rows).sum::<u64>();
        }
        Ok(count)
    }
}

/// The bytes of a key outside of its view.
fn outside(view: u128) -> usize {
    let length = length(view);
    if length > INLINE { length } else { 0 }
}
