//! DBMIN: each set has a desired size, and the set that exceeds its desired size most loses a page.

use super::{Members, Policy, Scene};
use crate::api::Operation;
use crate::ids::PageId;

/// How the desired size of a set is determined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DesiredSize {
    /// The same number of pages for every set.
    Fixed(u64),
    /// By the set's reference pattern.
    Adaptive,
}

/// DBMIN (Chou and DeWitt), in the form that Pangea compares itself with.
///
/// The adaptive sizes are: 1 page for a set that is written or scanned once; all pages for a set that is scanned repeatedly; for random
/// access, the number of distinct pages that this many references are expected to touch (Yao). A set that is scanned repeatedly loses its
/// most recently used page, every other set its least recently used one.
///
/// It deviates from DBMIN in two ways. The original blocks a request when the desired sizes exceed the memory in total; here a desired size is
/// bounded by the memory, and when no set exceeds its own, the least recently used set loses a page. And patterns are not declared by a query
/// optimiser but detected: a set counts as scanned repeatedly once it was pinned more often than it has pages.
#[derive(Debug, Clone, Copy)]
pub struct Dbmin {
    /// How the sizes are determined.
    pub size: DesiredSize,
}

impl Dbmin {
    fn is_loop(set: &Members) -> bool {
        !set.is_random() && set.operation != Operation::Write && set.references > set.pages
    }

    fn desired(&self, set: &Members, scene: &Scene) -> u64 {
        let size = match self.size {
            DesiredSize::Fixed(pages) => pages,
            DesiredSize::Adaptive if set.is_random() => touched(set.pages, set.references),
            DesiredSize::Adaptive if Self::is_loop(set) => set.pages,
            DesiredSize::Adaptive => 1,
        };
        let page = set.oldest().next().map_or(1, |(_, victim)| victim.bytes.max(1));
        size.min((scene.capacity / page).max(1))
    }
}

/// The expected number of distinct pages, out of `pages`, that `references` random references touch.
fn touched(pages: u64, references: u64) -> u64 {
    if pages < 2 {
        return 1;
    }
    let missed = ((1.0 - 1.0 / pages as f64).ln() * references as f64).exp();
    ((pages as f64 * (1.0 - missed)).ceil() as u64).max(1)
}

impl Policy for Dbmin {
    fn name(&self) -> &'static str {
        match self.size {
            DesiredSize::Fixed(1) => "dbmin-1",
            DesiredSize::Fixed(1000) => "dbmin-1000",
            DesiredSize::Fixed(_) => "dbmin-fixed",
            DesiredSize::Adaptive => "dbmin-adaptive",
        }
    }

    fn victims(&self, sets: &[&Members], scene: &Scene) -> Vec<PageId> {
        let excess = |set: &Members| set.resident.saturating_sub(self.desired(set, scene));
        let last = |set: &Members| set.oldest().next_back().map_or(0, |(tick, _)| tick);
        let chosen = sets.iter().max_by_key(|set| (excess(set), std::cmp::Reverse(last(set))));
        let Some(set) = chosen else { return Vec::new() };
        // With a fixed size, only the declared pattern is known; as in Pangea, a sequential set uses MRU.
        let newest = match self.size {
            DesiredSize::Fixed(_) => !set.is_random(),
            DesiredSize::Adaptive => Self::is_loop(set),
        };
        set.from(newest).take(1).map(|(_, victim)| set.page(victim)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::{members, named, scene};
    use super::*;
    use crate::api::Reading;

    #[test]
    fn the_set_furthest_above_its_size_loses_a_page() {
        let (small, large) = (members(1, &[1, 2]), members(2, &[3, 4, 5, 6]));
        let policy = Dbmin { size: DesiredSize::Fixed(1) };
        assert_eq!(named(&policy.victims(&[&small, &large], &scene(9))), [(2, 3)]);
    }

    #[test]
    fn without_a_set_above_its_size_the_one_used_longest_ago_loses_a_page() {
        let (first, second) = (members(1, &[1, 8]), members(2, &[2, 7]));
        let policy = Dbmin { size: DesiredSize::Fixed(1000) };
        assert_eq!(named(&policy.victims(&[&first, &second], &scene(9))), [(2, 1)]);
    }

    #[test]
    fn a_set_that_is_looped_over_wants_all_its_pages_and_a_scan_wants_one() {
        let policy = Dbmin { size: DesiredSize::Adaptive };
        let scan = members(1, &[1, 2, 3]);
        let mut looped = members(2, &[4, 5, 6, 7, 8]);
        looped.operation = Operation::Read;
        looped.references = 50;
        assert_eq!(named(&policy.victims(&[&looped, &scan], &scene(9))), [(1, 0)]);
        // A set larger than the memory: its size is bounded by the memory, and it uses MRU.
        let scene = Scene { capacity: 200, ..scene(9) };
        assert_eq!(named(&policy.victims(&[&looped, &scan], &scene)), [(2, 4)]);
    }

    #[test]
    fn random_references_want_the_pages_that_they_are_expected_to_touch() {
        assert_eq!(touched(1, 100), 1);
        assert_eq!(touched(100, 0), 1);
        assert_eq!(touched(100, 100), 64);
        assert_eq!(touched(100, 100_000), 100);
        let policy = Dbmin { size: DesiredSize::Adaptive };
        let mut random = members(1, &[1, 2, 3, 4]);
        random.reading = Reading::Random;
        random.references = 1;
        assert_eq!(named(&policy.victims(&[&random], &scene(9))), [(1, 0)]);
    }
}
