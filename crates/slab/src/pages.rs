//! A bitmap of the pages of a segment that have been used.

use std::ops::Range;

/// A set of page numbers below a bound.
pub(crate) struct PageSet {
    words: Vec<u64>,
    count: usize,
}

const BITS: usize = u64::BITS as usize;

/// The words that a range of bits overlaps, each with the mask of the range's bits in it.
fn words(range: Range<usize>) -> impl Iterator<Item = (usize, u64)> {
    let last = range.end.div_ceil(BITS);
    (range.start / BITS..last.max(range.start / BITS)).map(move |word| {
        let from = range.start.saturating_sub(word * BITS);
        let to = (range.end - word * BITS).min(BITS);
        let upper = if to == BITS { u64::MAX } else { (1 << to) - 1 };
        (word, upper & (u64::MAX << from))
    })
}

impl PageSet {
    pub fn new(bound: usize) -> Self {
        Self { words: vec![0; bound.div_ceil(BITS)], count: 0 }
    }

    /// Pages in the set.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Pages of `range` in the set.
    pub fn count_in(&self, range: Range<usize>) -> usize {
        words(range).map(|(word, mask)| (self.words[word] & mask).count_ones() as usize).sum()
    }

    /// Add a range; returns how many of its pages were absent.
    pub fn insert(&mut self, range: Range<usize>) -> usize {
        let mut new = 0;
        for (word, mask) in words(range) {
            new += (mask & !self.words[word]).count_ones() as usize;
            self.words[word] |= mask;
        }
        self.count += new;
        new
    }

    /// Remove a range; returns how many of its pages were present.
    pub fn remove(&mut self, range: Range<usize>) -> usize {
        let mut gone = 0;
        for (word, mask) in words(range) {
            gone += (mask & self.words[word]).count_ones() as usize;
            self.words[word] &= !mask;
        }
        self.count -= gone;
        gone
    }

    fn contains(&self, page: usize) -> bool {
        self.words[page / BITS] >> (page % BITS) & 1 == 1
    }

    /// The first run of pages of `range` that are not in the set.
    pub fn first_absent(&self, range: Range<usize>) -> Option<Range<usize>> {
        let start = range.clone().find(|&page| !self.contains(page))?;
        let end = (start..range.end).find(|&page| self.contains(page)).unwrap_or(range.end);
        Some(start..end)
    }
}

#[cfg(test)]
mod tests {
    use super::PageSet;

    #[test]
    fn ranges_across_words() {
        let mut set = PageSet::new(300);
        assert_eq!(set.insert(10..10), 0);
        assert_eq!(set.insert(10..200), 190);
        assert_eq!(set.insert(190..256), 56);
        assert_eq!((set.len(), set.count_in(0..300), set.count_in(63..65), set.count_in(256..300)), (246, 246, 2, 0));
        assert_eq!(set.remove(64..128), 64);
        assert_eq!(set.remove(64..129), 1);
        assert_eq!(set.len(), 181);
        assert_eq!(set.first_absent(10..300), Some(64..129));
        assert_eq!(set.first_absent(129..300), Some(256..300));
        assert_eq!(set.first_absent(130..256), None);
        assert_eq!(set.first_absent(20..20), None);
    }
}
