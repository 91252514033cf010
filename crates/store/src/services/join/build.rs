//! Building the index pages of a map.

use std::ops::Range;
use std::sync::Arc;

use super::MOST_ROWS;
use super::page::{OpenPage, Part, Parts, Shape};
use super::pieces::{KeyPieces, in_parallel};
use crate::api::{Attributes, DataInfo, Home, Writing};
use crate::error::{Error, Result};
use crate::ids::SetId;
use crate::services::Use;
use crate::services::hash::Keys;
use crate::services::hash::keys::{INLINE, length};

/// The most bits of a hash that choose the page.
const MOST_BITS: u32 = 12;
/// The least and the most bytes of a page by default.
const PAGE: Range<u64> = 64 << 10..32 << 20;
/// Pages are written together as long as they have at most this share of the store's memory.
const SHARE: u64 = 4;

/// The index pages of a map.
#[derive(Debug, Clone)]
pub struct BuiltIndex {
    /// The pages, in the order of the hashes that they are for; their number is a power of two.
    pub pages: Vec<DataInfo>,
    /// The rows of the map.
    pub rows: u64,
}

/// Write the index pages of a map of these keys to a set.
///
/// `page_bytes` is the size that pages have at most if no key has very many rows; by default a sixteenth of the store's limit, from 64 KiB to 32 MiB.
///
/// # Errors
/// [`Invalid`](Error::Invalid) for [`MOST_ROWS`] rows or more, if the rows of one key do not fit in a page, or if the keys change meanwhile; those
/// of reading the keys, of [`Home::allocate`] and [`Home::seal`].
pub fn build<P: KeyPieces>(home: &Arc<dyn Home>, set: SetId, keys: &P, page_bytes: Option<u64>) -> Result<BuiltIndex> {
    let attributes = Attributes { writing: Some(Writing::Sequential), ..Attributes::default() };
    let _using = Use::begin(home, set, true, attributes)?;
    let counted = count_all(keys)?;
    let rows: u64 = counted.rows.iter().sum();
    if rows >= MOST_ROWS {
        return Err(Error::Invalid(format!("{rows} rows are too many: a map has fewer than {MOST_ROWS} rows")));
    }
    let limit = home.counters()?.limit;
    let most = page_bytes.unwrap_or((limit / 16).clamp(PAGE.start, PAGE.end)).max(1);
    let shapes = counted.shapes(most);
    shapes.iter().try_for_each(Shape::check)?;
    let bits = shapes.len().ilog2();
    let mut pages = Vec::with_capacity(shapes.len());
    let mut share = limit / SHARE;
    while pages.len() < shapes.len() {
        let start = pages.len();
        let mut bytes = 0;
        let fit = shapes[start..].iter().take_while(|shape| {
            bytes += shape.bytes() as u64;
            bytes <= share
        });
        let parts = start..start + fit.count().max(1);
        match write(home, set, keys, &shapes, parts.clone(), bits) {
            Ok(sealed) => pages.extend(sealed),
            // The memory is used for something else: write fewer pages at a time.
            Err(Error::Full { .. } | Error::Quota { .. }) if parts.len() > 1 => share /= 2,
            Err(error) => return Err(error),
        }
    }
    Ok(BuiltIndex { pages, rows })
}

/// The number of entries and the bytes of long keys for each value of the highest [`MOST_BITS`] bits of the hash, and the bytes of the longest key.
struct Counted {
    rows: Vec<u64>,
    heap: Vec<u64>,
    longest: usize,
}

impl Counted {
    fn of(keys: &Keys<'_>) -> Self {
        let mut counted = Self { rows: vec![0; 1 << MOST_BITS], heap: vec![0; 1 << MOST_BITS], longest: 0 };
        for view in keys.views {
            let place = (keys.hash(*view) >> (64 - MOST_BITS)) as usize;
            let bytes = length(*view);
            counted.rows[place] += 1;
            counted.heap[place] += if bytes > INLINE { bytes as u64 } else { 0 };
            counted.longest = counted.longest.max(bytes);
        }
        counted
    }

    fn add(&mut self, other: &Self) {
        self.rows.iter_mut().zip(&other.rows).for_each(|(sum, more)| *sum += more);
        self.heap.iter_mut().zip(&other.heap).for_each(|(sum, more)| *sum += more);
        self.longest = self.longest.max(other.longest);
    }

    /// The shapes of as few pages as have at most `most` bytes on average.
    fn shapes(&self, most: u64) -> Vec<Shape> {
        let width = Shape::width_for(self.longest);
        let total = Shape::new(sum(&self.rows), width, sum(&self.heap)).bytes() as u64;
        let bits = total.div_ceil(most).max(1).next_power_of_two().ilog2().min(MOST_BITS);
        let part = 1 << (MOST_BITS - bits);
        let one = |(rows, heap): (&[u64], &[u64])| Shape::new(sum(rows), width, sum(heap));
        self.rows.chunks(part).zip(self.heap.chunks(part)).map(one).collect()
    }
}

fn sum(counts: &[u64]) -> usize {
    counts.iter().sum::<u64>() as usize
}

fn count_all<P: KeyPieces>(keys: &P) -> Result<Counted> {
    // A few pieces at a time, because their counts take memory.
    const TOGETHER: usize = 64;
    let mut counted = Counted::of(&Keys { views: &[], buffers: Vec::new() });
    for start in (0..keys.count()).step_by(TOGETHER) {
        let some = TOGETHER.min(keys.count() - start);
        let parts = in_parallel(some, |piece| keys.with(start + piece, |keys| Ok(Counted::of(keys))))?;
        parts.iter().for_each(|part| counted.add(part));
    }
    Ok(counted)
}

/// Write and seal the pages of some parts.
fn write<P: KeyPieces>(
    home: &Arc<dyn Home>,
    set: SetId,
    keys: &P,
    shapes: &[Shape],
    parts: Range<usize>,
    bits: u32,
) -> Result<Vec<DataInfo>> {
    let allocate = |number: usize| OpenPage::allocate(home.as_ref(), set, Part { number, bits }, shapes[number]);
    let mut pages = parts.clone().map(allocate).collect::<Result<Vec<_>>>()?;
    let mut open = pages.iter_mut().map(OpenPage::parts).collect::<Result<Vec<_>>>()?;
    let first = parts.start;
    for_each_row(keys, |_, _, hash, _| {
        if let Some(page) = open.get_mut(part_of(hash, bits).wrapping_sub(first)) {
            page.count(hash);
        }
        true
    })?;
    open.iter_mut().for_each(Parts::begin);
    for_each_row(keys, |keys, view, hash, row| match open.get_mut(part_of(hash, bits).wrapping_sub(first)) {
        Some(page) => page.insert(keys, view, hash, row),
        None => true,
    })?;
    open.iter_mut().for_each(Parts::end);
    drop(open);
    pages.into_iter().map(|page| page.seal(home.as_ref(), set)).collect()
}

/// The page that a hash belongs to.
#[inline(always)]
pub(super) fn part_of(hash: u64, bits: u32) -> usize {
    // In two steps, because a shift by 64 bits is not defined.
    (hash >> 1 >> (63 - bits)) as usize
}

/// Call a function with the keys of a piece, the view and the hash of a key, and its row; fail if it returns false.
fn for_each_row<P: KeyPieces>(keys: &P, mut work: impl FnMut(&Keys<'_>, u128, u64, u32) -> bool) -> Result<()> {
    for piece in 0..keys.count() {
        let first = keys.rows(piece).0;
        keys.with(piece, |keys| {
            let mut row = first as u32;
            for view in keys.views {
                if !work(keys, *view, keys.hash(*view), row) {
                    return Err(Error::Invalid("the keys have changed while the map was built".into()));
                }
                row = row.wrapping_add(1);
            }
            Ok(())
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_have_at_most_the_bytes_that_were_asked_for() {
        let mut counted = Counted::of(&Keys { views: &[], buffers: Vec::new() });
        assert_eq!(counted.shapes(1 << 20), [Shape::new(0, 2, 0)]);
        counted.rows.fill(1000);
        counted.longest = 8;
        for most in [1 << 12, 1 << 16, 1 << 20, 1 << 24, 1 << 30] {
            let shapes = counted.shapes(most);
            assert!(shapes.len().is_power_of_two());
            assert_eq!(shapes.iter().map(|shape| shape.entries).sum::<usize>(), 1000 << MOST_BITS);
            let mean = shapes.iter().map(Shape::bytes).sum::<usize>() / shapes.len();
            // The number of buckets is a power of two, so pages may be a little larger than their share of one large page.
            assert!(shapes.len() == 1 << MOST_BITS || mean as u64 <= most * 5 / 4, "{mean} for {most}");
        }
    }

    #[test]
    fn the_highest_bits_choose_the_page() {
        assert_eq!((part_of(u64::MAX, 0), part_of(u64::MAX, 12), part_of(1 << 63, 1)), (0, 4095, 1));
    }
}
