//! Sets of free pages.

use std::collections::{BTreeMap, BTreeSet};

/// Free ranges of pages; neighbours are joined.
#[derive(Debug, Default)]
pub struct Ranges {
    // First page -> pages.
    by_start: BTreeMap<u32, u32>,
    // (pages, first page)
    by_size: BTreeSet<(u32, u32)>,
    pages: usize,
}

impl Ranges {
    /// No pages.
    pub const fn new() -> Self {
        Self { by_start: BTreeMap::new(), by_size: BTreeSet::new(), pages: 0 }
    }

    /// The number of pages in all ranges.
    pub fn pages(&self) -> usize {
        self.pages
    }

    /// The pages of the largest range.
    pub fn largest(&self) -> u32 {
        self.by_size.last().map_or(0, |&(pages, _)| pages)
    }

    /// Add a range that overlaps none.
    pub fn put(&mut self, mut start: u32, mut pages: u32) {
        if pages == 0 {
            return;
        }
        self.pages += pages as usize;
        if let Some((&before, &length)) = self.by_start.range(..start).next_back() {
            if before + length == start {
                self.remove(before, length);
                (start, pages) = (before, pages + length);
            }
        }
        if let Some(&length) = self.by_start.get(&(start + pages)) {
            self.remove(start + pages, length);
            pages += length;
        }
        self.by_start.insert(start, pages);
        self.by_size.insert((pages, start));
    }

    /// Take `pages` pages from the start of the smallest range that has as many: its first page.
    pub fn take(&mut self, pages: u32) -> Option<u32> {
        let (length, start) = *self.by_size.range((pages, 0)..).next()?;
        self.remove(start, length);
        self.pages -= length as usize;
        self.put(start + pages, length - pages);
        Some(start)
    }

    /// Take the end of the largest range, at most `most` pages of it: the first page and the number of pages.
    pub fn take_end(&mut self, most: u32) -> Option<(u32, u32)> {
        let (length, start) = *self.by_size.last()?;
        let taken = length.min(most);
        self.remove(start, length);
        self.pages -= length as usize;
        self.put(start, length - taken);
        Some((start + length - taken, taken))
    }

    fn remove(&mut self, start: u32, pages: u32) {
        self.by_start.remove(&start);
        self.by_size.remove(&(pages, start));
    }
}

#[cfg(test)]
mod tests {
    use super::Ranges;

    #[test]
    fn takes_the_best_fit_and_joins_neighbours() {
        let mut free = Ranges::new();
        free.put(0, 100);
        assert_eq!((free.take(10), free.take(20), free.take(30)), (Some(0), Some(10), Some(30)));
        free.put(10, 20);
        assert_eq!((free.pages(), free.largest()), (60, 40));
        assert_eq!(free.take(15), Some(10)); // from the hole of 20, not from the range of 40
        free.put(0, 10);
        free.put(10, 15);
        assert_eq!(free.largest(), 40);
        free.put(30, 30);
        assert_eq!((free.pages(), free.largest()), (100, 100));
        assert_eq!(free.take(101), None);
        assert_eq!(free.take(100), Some(0));
        assert_eq!((free.pages(), free.largest(), free.take_end(5)), (0, 0, None));
    }

    #[test]
    fn takes_the_end_of_the_largest() {
        let mut free = Ranges::new();
        free.put(0, 4);
        free.put(10, 9);
        assert_eq!(free.take_end(6), Some((13, 6)));
        assert_eq!(free.take_end(6), Some((0, 4)));
        assert_eq!(free.take_end(6), Some((10, 3)));
        assert_eq!(free.pages(), 0);
    }

    #[test]
    fn random_ranges_never_overlap_and_all_come_back() {
        let (mut free, mut live, mut seed) = (Ranges::new(), Vec::<(u32, u32)>::new(), 1_u64);
        free.put(0, 10_000);
        for _ in 0..20_000 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let draw = (seed >> 33) as usize;
            if draw % 2 == 0 || live.is_empty() {
                let pages = (draw / 2 % 300 + 1) as u32;
                if let Some(start) = free.take(pages) {
                    assert!(live.iter().all(|&(other, length)| start + pages <= other || other + length <= start));
                    live.push((start, pages));
                }
            } else {
                let (start, pages) = live.swap_remove(draw / 2 % live.len());
                free.put(start, pages);
            }
            let used: u32 = live.iter().map(|&(_, pages)| pages).sum();
            assert_eq!(free.pages() + used as usize, 10_000);
        }
        for (start, pages) in live {
            free.put(start, pages);
        }
        assert_eq!(free.largest(), 10_000);
    }
}
