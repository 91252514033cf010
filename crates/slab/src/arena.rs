//! One segment of a slab: which parts of it are extents, which pages were used.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Weak};

use offset_allocator::{Allocation, Allocator};

use crate::error::{Error, Result};
use crate::extent::Extent;
use crate::pages::PageSet;
use crate::segment::Segment;
use crate::{ALIGNMENT, LARGE, LARGE_ALIGNMENT, LARGEST};

/// The allocator counts units of [`ALIGNMENT`] bytes in 32 bits, and this is its largest bin.
pub(crate) const MOST_UNITS: u32 = 0xf << 28;

/// Segments have a multiple of this many bytes: a huge page.
pub(crate) const STEP: usize = 1 << 21;

// Space in a file is set aside in ranges of this many bytes.
const RESERVED_AT_ONCE: usize = 1 << 20;

/// What is asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Need {
    /// Bytes from the extent's start that nobody else gets: its length in whole units, at least one.
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

    /// Bytes of a segment that is made for it.
    pub fn segment(&self) -> usize {
        (self.units as usize * ALIGNMENT).next_multiple_of(STEP)
    }
}

/// The least size of a bin that has room for `units`.
///
/// The allocator keeps free ranges in bins by size: three bits after the leading one, rounded down. It looks for room in the bins from the
/// size rounded up, so it would not find a hole of exactly a size in between. Asked for sizes of bins only, it reuses each hole for the
/// next extent of that size. The difference, less than an eighth, is address space at most.
fn whole_bin(units: u32) -> Option<u32> {
    let shift = (u32::BITS - units.leading_zeros()).saturating_sub(4);
    let step = 1_u32 << shift;
    units.checked_next_multiple_of(step).filter(|&size| size <= MOST_UNITS)
}

pub(crate) struct Live {
    pub bytes: usize,
    allocation: Allocation,
    pub shared: Weak<Extent>,
}

pub(crate) struct Arena {
    pub segment: Arc<Segment>,
    allocator: Allocator,
    pub live: BTreeMap<usize, Live>,
    pages: PageSet,
    page: usize,
    used: usize,
    /// Under which size the slab has it in its list of arenas with room, if it has.
    pub listed: Option<u32>,
    /// Memory of it is being given back, or could not be taken back: nothing is allocated from it.
    pub closed: bool,
}

/// Whole pages without an extent.
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
        // 32 bytes each, touched at once: 2 MiB for a quarter of a GiB. With more extents than that, another segment is made.
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

    /// Bytes of pages that were used.
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

    /// Where the extent is, and how many of its bytes are on pages that are used for the first time; `None` when there is no room.
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
        self.live.insert(offset, Live { bytes: need.bytes, allocation, shared: Weak::new() });
        Ok(Some((offset, fresh)))
    }

    /// Free the extent at `offset`; its bytes.
    pub fn free(&mut self, offset: usize) -> usize {
        let Some(live) = self.live.remove(&offset) else { return 0 };
        self.allocator.free(live.allocation);
        self.used -= live.bytes;
        live.bytes
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

    /// The gaps between its extents that take memory.
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

    /// The memory of whole pages was given back; how many bytes that were used.
    pub fn forget(&mut self, range: Range<usize>) -> usize {
        let pages = self.page_range(range.start, range.end);
        self.pages.remove(pages) * self.page
    }

    /// The last pages of a gap that have about `bytes` to give back.
    pub fn end_of(&self, gap: &Gap, bytes: usize) -> Range<usize> {
        if gap.touched <= bytes {
            return gap.range.clone();
        }
        // Half of what is left at a time: where its used pages lie is not known without counting.
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
