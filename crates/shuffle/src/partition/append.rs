//! Appends rows to pages to which other threads append concurrently.
//!
//! A page is columnar, and has room for a number of rows, and for a number of units of each leaf of varying size (`plan::Leaf`).
//! A writer is granted a range of rows and a range of the units of each such leaf, in one step, so that the bytes of strings are
//! in row order. It fills the ranges without a lock, by the same copy routines as `partition`. When all writers have filled their
//! parts, the page becomes one batch.

use std::ops::Range;
use std::ptr::NonNull;

use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, make_array};
use arrow_data::transform::MutableArrayData;
use arrow_schema::SchemaRef;
use rayon::prelude::*;

use super::assemble::assemble;
use super::layout::{Group, Starts, nowhere, varying};
use super::plan::{Layout, Plan};
use super::{MOST_PARTITIONS, Route, check_route, check_schemas, cut};
use crate::error::{Error, Result};
use crate::memory::{ALIGNMENT, MemoryError, Region};

/// The layout of the pages of a schema: which buffers they have, and where.
///
/// The room and the use of a page are given as *counts*: the number of rows, then the number of units of each leaf of varying size,
/// such as the bytes of a string column.
pub struct Form {
    schema: SchemaRef,
    // The plan of the schema, without batches.
    plan: Plan,
    varying: Vec<Option<usize>>,
    counts: usize,
}

/// A part of a page that was granted to one writer.
pub struct Granted {
    /// The start of the page, at a multiple of 64.
    pub start: NonNull<u8>,
    /// The room of the page, as counts.
    pub room: Vec<u64>,
    /// The counts of the page that come before the part.
    pub before: Vec<u64>,
}

// SAFETY: `Pages` guarantees exclusive access to the part, from any thread.
unsafe impl Send for Granted {}
// SAFETY: as above; a shared value gives no access to the memory.
unsafe impl Sync for Granted {}

/// A part of a page that was granted and not written: the counts before it, and its own counts.
pub type Lost = (Vec<u64>, Vec<u64>);

/// Grants parts of pages.
///
/// # Safety
/// The granted page must have [`Form::bytes`] bytes for its room, and [`Form::prepare`] must have been called for it. The part
/// must be within the room and granted to no other writer. The page must live until [`append`] returns.
pub unsafe trait Pages: Sync {
    /// Grant a part with these counts of a page of that partition. Called once for each partition that has rows.
    ///
    /// # Errors
    /// When memory is not available; nothing is appended then.
    fn grant(&self, partition: usize, counts: &[u64]) -> std::result::Result<Granted, MemoryError>;
}

impl Form {
    /// The form of a schema's pages; `None` if it has types whose rows cannot be appended to those of other batches: lists, maps,
    /// unions, dictionaries, run-end encoded columns and list views.
    ///
    /// # Errors
    /// When types are nested too deeply.
    pub fn new(schema: &SchemaRef) -> Result<Option<Self>> {
        let plan = Plan::appending(schema, &[])?;
        if !plan.foreign.is_empty() {
            return Ok(None);
        }
        let (varying, count) = varying(&plan);
        Ok(Some(Self { schema: schema.clone(), plan, varying, counts: count + 1 }))
    }

    /// The schema.
    #[must_use]
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The number of counts.
    #[must_use]
    pub fn counts(&self) -> usize {
        self.counts
    }

    /// The room of a page of about `bytes` bytes, but at least `least`. Strings are expected to be as long on average as in `like`,
    /// the counts of earlier rows.
    ///
    /// # Errors
    /// When `least` exceeds what a page can have.
    pub fn room(&self, bytes: usize, least: &[u64], like: &[u64]) -> Result<Vec<u64>> {
        // Without earlier rows, the page has room for `least`.
        let mean = |count: usize| if like[0] == 0 { 0.0 } else { like[count] as f64 / like[0] as f64 };
        let mut bits = 0.0;
        for (leaf, varying) in self.plan.leaves.iter().zip(&self.varying) {
            let mean = varying.map_or(0.0, |number| mean(number + 1));
            bits += match &leaf.layout {
                Layout::Fixed(width) => (width * 8) as f64,
                Layout::Bits | Layout::Valid => 1.0,
                Layout::Ranges { wide, unit } => (if *wide { 64.0 } else { 32.0 }) + mean * (*unit * 8) as f64,
                Layout::Views(_) => 128.0 + mean * 8.0,
            };
        }
        let rows = if like[0] == 0 { 0 } else { (bytes as f64 * 8.0 / bits.max(1.0)) as u64 };
        let mut room = vec![rows.max(least[0])];
        for (leaf, number) in self.plan.leaves.iter().zip(&self.varying) {
            let Some(number) = number else { continue };
            let least = least[number + 1];
            if least > leaf.most() {
                return Err(Error::Strings { bytes: least });
            }
            let expected = (room[0] as f64 * mean(number + 1) * 17.0 / 16.0) as u64;
            room.push(expected.max(least).min(leaf.most()));
        }
        Ok(room)
    }

    /// The bytes of a page with that room.
    #[must_use]
    pub fn bytes(&self, room: &[u64]) -> usize {
        self.places(room, room).1
    }

    /// Initialise what [`append`] does not write: the bitmaps, and the first offsets.
    ///
    /// # Safety
    /// The [`bytes`](Self::bytes) of the page from `start` on must be writable, and not be accessed by others meanwhile.
    pub unsafe fn prepare(&self, start: NonNull<u8>, room: &[u64]) {
        let (places, _) = self.places(room, room);
        let mut next = 0;
        for leaf in &self.plan.leaves {
            let (at, bytes) = places[next];
            next += leaf.buffers();
            let (value, bytes) = match leaf.layout {
                Layout::Bits => (0, bytes),
                Layout::Valid => (0xff, bytes),
                Layout::Ranges { wide, .. } => (0, 4 + 4 * usize::from(wide)),
                Layout::Fixed(_) | Layout::Views(_) => continue,
            };
            // SAFETY: inside the page, by the layout.
            unsafe { start.add(at).write_bytes(value, bytes) };
        }
    }

    /// Make the batch of a page with that room, of which `used` was granted. All granted parts must have been written except those in
    /// `lost`, whose rows are left out; that requires a copy of the other rows.
    ///
    /// # Errors
    /// An error of Arrow, which is not expected.
    pub fn batch(&self, page: Region, room: &[u64], used: &[u64], lost: &[Lost]) -> Result<RecordBatch> {
        let (places, bytes) = self.places(room, used);
        assert!(bytes <= page.len(), "a page of {bytes} bytes in a region of {}", page.len());
        for (before, counts) in lost {
            self.blank(&page, &places, before, counts);
        }
        let page = page.into_buffer();
        let buffers: Vec<_> = places.iter().map(|(start, bytes)| page.slice_with_length(*start, *bytes)).collect();
        let rows = used[0] as usize;
        let whole = assemble(&self.schema, &self.plan, rows, &buffers, &[])?;
        if lost.is_empty() {
            return Ok(whole);
        }
        let kept = without(rows, lost);
        let keep = |column: &ArrayRef| -> Result<ArrayRef> {
            let data = column.to_data();
            let mut out = MutableArrayData::try_new(vec![&data], false, rows)?;
            for range in &kept {
                out.try_extend(0, range.start, range.end)?;
            }
            Ok(make_array(out.freeze()))
        };
        let columns = whole.columns().iter().map(keep).collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(kept.iter().map(ExactSizeIterator::len).sum()));
        Ok(RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)?)
    }

    /// Write valid offsets and views to a part that was not written, so that the batch is valid.
    fn blank(&self, page: &Region, places: &[(usize, usize)], before: &[u64], counts: &[u64]) {
        let (first, rows) = (before[0] as usize, counts[0] as usize);
        let mut next = 0;
        for (leaf, varying) in self.plan.leaves.iter().zip(&self.varying) {
            let (at, bytes) = places[next];
            next += leaf.buffers();
            let end = varying.map_or(0, |number| before[number + 1] + counts[number + 1]);
            let (first, rows, value, size) = match leaf.layout {
                // The first offset of the part is the last one of the rows before.
                Layout::Ranges { wide, .. } => (first + 1, rows, end.to_le_bytes(), 4 + 4 * usize::from(wide)),
                Layout::Views(_) => (2 * first, 2 * rows, [0; 8], 8),
                Layout::Fixed(_) | Layout::Bits | Layout::Valid => continue,
            };
            assert!((first + rows) * size <= bytes, "the part must be within its page");
            for row in first..first + rows {
                // SAFETY: inside the buffer, which is inside the region.
                unsafe { page.as_mut_ptr().add(at + row * size).copy_from_nonoverlapping(value.as_ptr(), size) };
            }
        }
    }

    /// The start and the used length of each buffer of a page with that room, and the total bytes of the page.
    fn places(&self, room: &[u64], used: &[u64]) -> (Vec<(usize, usize)>, usize) {
        let mut places = Vec::with_capacity(2 * self.plan.leaves.len());
        let mut end = 0;
        for (leaf, varying) in self.plan.leaves.iter().zip(&self.varying) {
            let of = |counts: &[u64]| {
                leaf.lengths(counts[0] as usize, varying.map_or(0, |number| counts[number + 1] as usize))
            };
            let ((items, payload), (used_items, used_payload)) = (of(room), of(used));
            let both = [Some((items, used_items)), payload.zip(used_payload)];
            for (bytes, used) in both.into_iter().flatten() {
                places.push((end, used));
                end += bytes.next_multiple_of(ALIGNMENT);
            }
        }
        (places, end)
    }
}

/// The ranges of rows that remain without the lost parts.
fn without(rows: usize, lost: &[Lost]) -> Vec<Range<usize>> {
    let mut lost: Vec<_> = lost.iter().map(|(before, counts)| (before[0] as usize, counts[0] as usize)).collect();
    lost.sort_unstable();
    let mut kept = Vec::with_capacity(lost.len() + 1);
    let mut next = 0;
    for (start, rows) in lost {
        kept.push(next..start);
        next = start + rows;
    }
    kept.push(next..rows);
    kept.retain(|range| !range.is_empty());
    kept
}

/// Append the rows of `batches`, which must have the form's schema, to pages of their partitions. The rows of a partition keep
/// their order. Besides the pages it allocates two bytes for each row, and four to twelve bytes for each partition, string column
/// and few thousand rows.
///
/// The other parameters are those of [`partition`](super::partition).
///
/// # Errors
/// As for [`partition`](super::partition). Nothing is written then.
pub fn append(
    form: &Form,
    batches: &[RecordBatch],
    route: &Route,
    partitions: usize,
    pages: &dyn Pages,
    threads: usize,
) -> Result<()> {
    if !(1..=MOST_PARTITIONS).contains(&partitions) {
        return Err(Error::Partitions { given: partitions, most: MOST_PARTITIONS });
    }
    check_schemas(&form.schema, batches)?;
    let rows = batches.iter().map(RecordBatch::num_rows).sum();
    check_route(&form.schema, route, rows, partitions)?;
    crate::on_threads(threads, || {
        let plan = Plan::appending(&form.schema, batches)?;
        let mut chunks = cut(&plan, batches, route, partitions)?;
        let mut counts = vec![vec![0_u64; form.counts]; partitions];
        for chunk in &chunks {
            for (partition, counts) in counts.iter_mut().enumerate() {
                counts[0] += chunk.run(partition).len() as u64;
                for (count, sizes) in counts[1..].iter_mut().zip(&chunk.sizes) {
                    *count += sizes[partition];
                }
            }
        }
        let grant = |(partition, counts): (usize, &Vec<u64>)| {
            if counts[0] == 0 {
                return Ok(None);
            }
            match pages.grant(partition, counts) {
                Ok(granted) => Ok(Some((form.places(&granted.room, &granted.room).0, granted))),
                Err(source) => Err(Error::Memory { bytes: form.bytes(counts), source }),
            }
        };
        let granted = counts.par_iter().enumerate().map(grant).collect::<Result<Vec<_>>>()?;
        let before = |count: usize| -> Vec<u64> {
            granted.iter().map(|granted| granted.as_ref().map_or(0, |(_, granted)| granted.before[count])).collect()
        };
        let totals = (1..form.counts).map(before).collect();
        let group = Group::after(&plan, &mut chunks, before(0), totals);
        group.scatter(|buffer| {
            let start = |granted: &Option<(Vec<(usize, usize)>, Granted)>| match granted {
                // SAFETY: the buffer is in the page, by what `Pages` promises.
                Some((places, granted)) => unsafe { granted.start.add(places[buffer].0).as_ptr() },
                None => nowhere(),
            };
            Starts(granted.iter().map(start).collect())
        });
        Ok(())
    })
}
