//! One segment of a slab: which ranges are extents, and which pages have been used.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Weak};

use offset_allocator::{Allocation, Allocator};

use crate::error::{Error, Result};
use crate::extent::Extent;
use crate::pages::PageSet;
use crate::segment::Segment;
use crate::{ALIGNMENT, LARGE, LARGE_ALIGNMENT, LARGEST};

/// The size of the allocator's largest bin. It counts units of [`ALIGNMENT`] bytes in 32 bits.
pub(crate) const MOST_UNITS: u32 = 0xf << 28;

/// Segment lengths are multiples of this many bytes: a huge page.
pub(crate) const STEP: usize = 1 << 21;

// Space in a file is reserved in steps of this many bytes.
const RESERVED_AT_ONCE: usize = 1 << 20;

/// The size of a requested extent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Need {
    /// Bytes that the extent occupies: its length rounded up to whole units, at least one.
    pub bytes: usize,
    pub alignment: usize,
    /// Units to ask the allocator for.
    pub units: u32,
}

impl Need {
    pub fn new(length: usize, alignment: usize) -> Result<Self> {
        if !alignment.is_power_of_two() || !(ALIGNMENT..=LARGE_ALIGNMENT).contains(&alignment) {
            return Err(Error::Alignment { asked: alignment as u64 });
        }
        let alignment = if length >= LARGE { alignment.max(LARGE_ALIGNMENT) } else { alignment };
        let bytes = length.div_ceil(ALIGNMENT).max(1).saturating_mul(ALIGNMENT);
        let units = (bytes.saturating_add(alignment - ALIGNMENT)) / ALIGNMENT;
        let too_large = || {
            let (asked, alignment) = (length as u64, alignment as u64);
            Error::TooLarge { asked, alignment, most: LARGEST as u64 }
        };
        if length > LARGEST {
            return Err(too_large());
        }
        let units = u32::try_from(units).ok().and_then(whole_bin).ok_or_else(too_large)?;
        Ok(Self { bytes, alignment, units })
    }

    /// Length of a segment that is created for this extent alone.
    pub fn segment(&self) -> usize {
        (self.units as usize * ALIGNMENT).next_multiple_of(STEP)
    }
}

/// The least bin size that has room for `units`.
///
/// The allocator keeps free ranges in bins by their size, rounded down to its leading bit and the three bits after it. It searches the bins
/// from the requested size rounded up, so it would miss a hole of exactly an intermediate size. If all requests are bin sizes, each hole is
/// reused by the next extent of that size. The rounding wastes less than an eighth, and only of address space.
fn whole_bin(units: u32) -> Option<u32> {
    let shift = (u32::BITS - units.leading_zeros()).saturating_sub(4);
    let step = 1_u32 << shift;
    units.checked_next_multiple_of(step).filter(|&size| size <= MOST_UNITS)
}

pub(crate) struct Live {
    pub bytes: usize,
    // None for a block of an adopted segment.
    allocation: Option<Allocation>,
    pub shared: Weak<Extent>,
}

pub(crate) struct Arena {
    pub segment: Arc<Segment>,
    allocator: Allocator,
    pub live: BTreeMap<usize, Live>,
    pages: PageSet,
    page: usize,
    used: usize,
    /// The room by which the slab lists it among the arenas with room; `None` if it is not listed.
    pub listed: Option<u32>,
    /// Nothing is allocated from it, because its memory is being returned to the system, or could not be restored afterwards.
    pub closed: bool,
}

/// A range of whole pages that no extent overlaps.
#[derive(Debug, Clone)]
pub(crate) struct Gap {
    /// Bytes from the segment's start.
    pub range: Range<usize>,
    /// Bytes of it that take memory.
    pub touched: usize,
}

impl Arena {
    pub fn new(segment: Arc<Segment>) -> Self {
        let length = segment.len();
        let page = rustix::param::page_size();
        let units = u32::try_from(length / ALIGNMENT).unwrap_or(u32::MAX);
        // The allocator takes 32 bytes for each possible extent, allocated in advance: 2 MiB for a segment of 256 MiB. If there are more
        // extents than that, the slab creates another segment.
        let extents = (length / 1024).clamp(2048, 65536) as u32;
        Self {
            allocator: Allocator::with_max_allocs(units, extents),
            live: BTreeMap::new(),
            pages: PageSet::new(length.div_ceil(page)),
            segment,
            page,
            used: 0,
            listed: None,
            closed: false,
        }
    }

    /// Bytes of pages that have been used.
    pub fn touched(&self) -> usize {
        self.pages.len() * self.page
    }

    /// Bytes that take memory and are in no extent.
    pub fn idle(&self) -> usize {
        self.touched().saturating_sub(self.used)
    }

    /// The largest size that an allocation is sure to get, in units.
    pub fn room(&self) -> u32 {
        if self.closed { 0 } else { self.allocator.storage_report().largest_free_region }
    }

    /// Allocate: the offset of the extent, and how many of its bytes are on pages that are used for the first time; `None` without room.
    pub fn allocate(&mut self, need: &Need) -> Result<Option<(usize, usize)>> {
        let Some(allocation) = self.allocator.allocate(need.units) else { return Ok(None) };
        let offset = (allocation.offset as usize * ALIGNMENT).next_multiple_of(need.alignment);
        let range = self.page_range(offset, offset + need.bytes);
        if self.segment.is_file() {
            if let Err(error) = self.reserve(range.clone()) {
                self.allocator.free(allocation);
                return Err(error);
            }
        }
        let fresh = self.pages.insert(range) * self.page;
        self.used += need.bytes;
        self.live.insert(offset, Live { bytes: need.bytes, allocation: Some(allocation), shared: Weak::new() });
        Ok(Some((offset, fresh)))
    }

    /// The arena of an adopted segment with these blocks, each an offset and bytes. Nothing else is ever allocated from it.
    pub fn adopted(segment: Arc<Segment>, blocks: &[(usize, usize)]) -> Self {
        let page = rustix::param::page_size();
        let mut arena = Self {
            allocator: Allocator::with_max_allocs(1, 2),
            live: BTreeMap::new(),
            pages: PageSet::new(segment.len().div_ceil(page)),
            segment,
            page,
            used: 0,
            listed: None,
            closed: true,
        };
        for &(offset, length) in blocks {
            let bytes = length.div_ceil(ALIGNMENT).max(1) * ALIGNMENT;
            let pages = arena.page_range(offset, (offset + bytes).min(arena.segment.len()));
            arena.pages.insert(pages);
            arena.used += bytes;
            arena.live.insert(offset, Live { bytes, allocation: None, shared: Weak::new() });
        }
        arena
    }

    /// The pages of an extent that no other extent overlaps, as bytes: what can be returned to the system when it is freed.
    pub fn own_pages(&self, offset: usize, bytes: usize) -> Range<usize> {
        let before = self.live.range(..offset).next_back().map_or(0, |(start, live)| start + live.bytes);
        let after = self.live.range(offset + 1..).next().map_or(self.segment.len(), |(start, _)| *start);
        let start = (offset / self.page * self.page).max(before.next_multiple_of(self.page));
        let end = (offset + bytes).next_multiple_of(self.page).min(after / self.page * self.page);
        start..end.max(start)
    }

    /// Free the extent at `offset`; returns its bytes.
    pub fn free(&mut self, offset: usize) -> usize {
        let Some(live) = self.live.remove(&offset) else { return 0 };
        if let Some(allocation) = live.allocation {
            self.allocator.free(allocation);
        }
        self.used -= live.bytes;
        live.bytes
    }

    /// Return whole pages to the system; returns how many bytes of memory that were.
    pub fn discard(&mut self, range: Range<usize>) -> usize {
        match self.segment.discard(range.start, range.len()) {
            Ok(true) => self.forget(range),
            _ => 0,
        }
    }

    fn page_range(&self, start: usize, end: usize) -> Range<usize> {
        start / self.page..end.div_ceil(self.page)
    }

    fn reserve(&mut self, pages: Range<usize>) -> Result<()> {
        let pages = if self.pages.first_absent(pages.clone()).is_none() {
            return Ok(());
        } else {
            let start = pages.start * self.page / RESERVED_AT_ONCE * RESERVED_AT_ONCE;
            let end = (pages.end * self.page).next_multiple_of(RESERVED_AT_ONCE).min(self.segment.len());
            self.page_range(start, end)
        };
        while let Some(absent) = self.pages.first_absent(pages.clone()) {
            self.segment.reserve(absent.start * self.page, absent.len() * self.page)?;
            self.pages.insert(absent);
        }
        Ok(())
    }

    /// The gaps between its extents that have memory.
    pub fn gaps(&self) -> Vec<Gap> {
        let mut gaps = Vec::new();
        let mut start = 0_usize;
        let ends = std::iter::once((self.segment.len(), 0));
        for (offset, bytes) in self.live.iter().map(|(offset, live)| (*offset, live.bytes)).chain(ends) {
            let (from, to) = (start.next_multiple_of(self.page), offset / self.page * self.page);
            if from < to {
                let touched = self.pages.count_in(self.page_range(from, to)) * self.page;
                if touched > 0 {
                    gaps.push(Gap { range: from..to, touched });
                }
            }
            start = offset + bytes;
        }
        gaps
    }

    /// Record that the memory of whole pages was returned to the system; returns how many bytes of it had been used.
    pub fn forget(&mut self, range: Range<usize>) -> usize {
        let pages = self.page_range(range.start, range.end);
        self.pages.remove(pages) * self.page
    }

    /// The tail of a gap that has about `bytes` of memory.
    pub fn end_of(&self, gap: &Gap, bytes: usize) -> Range<usize> {
        if gap.touched <= bytes {
            return gap.range.clone();
        }
        // Bisect: the positions of used pages are known only by counting them.
        let mut range = gap.range.clone();
        while range.len() > self.page {
            let middle = (range.start + range.len() / 2).next_multiple_of(self.page);
            if middle >= range.end || self.pages.count_in(self.page_range(middle, gap.range.end)) * self.page < bytes {
                break;
            }
            range.start = middle;
        }
        range.start..gap.range.end
    }
}

#[cfg(test)]
mod tests {
    use super::{MOST_UNITS, Need, whole_bin};
    use crate::{ALIGNMENT, LARGE_ALIGNMENT, LARGEST};

    #[test]
    fn sizes_of_bins() {
        for (asked, given) in [(1, 1), (7, 7), (8, 8), (15, 15), (16, 16), (17, 18), (31, 32), (33, 36), (16447, 18432)]
        {
            assert_eq!(whole_bin(asked), Some(given));
        }
        for units in (1..200_000).chain([MOST_UNITS - 1, MOST_UNITS]) {
            let size = whole_bin(units).unwrap();
            assert!(size >= units && f64::from(size) <= f64::from(units) * 1.125);
            assert_eq!(whole_bin(size), Some(size));
        }
        assert_eq!(whole_bin(MOST_UNITS + 1), None);
        assert_eq!(whole_bin(u32::MAX), None);
    }

    #[test]
    fn needs() {
        assert!(Need::new(LARGEST, LARGE_ALIGNMENT).is_ok());
        assert!(Need::new(LARGEST + 1, ALIGNMENT).is_err());
        assert!(Need::new(usize::MAX, ALIGNMENT).is_err());
        assert!(Need::new(1, 32).is_err() && Need::new(1, 96).is_err() && Need::new(1, 8192).is_err());
        assert_eq!(Need::new(0, ALIGNMENT).unwrap().bytes, ALIGNMENT);
    }
}
