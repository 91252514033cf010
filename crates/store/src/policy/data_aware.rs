//! Pangea's data-aware paging: chooses the set whose next victim has the lowest expected cost, and victims by the set's access pattern.

use super::{Candidate, Members, Policy, Scene, tenth};
use crate::api::{Durability, Operation};
use crate::ids::PageId;

/// The factor by which reloading a randomly read page costs more than one of a scan: structures built on it must be rebuilt.
const RANDOM_PENALTY: f64 = 2.0;

/// Data-aware paging.
///
/// Each set has one next victim: its most recently used page when it is written or read from first to last, its least recently used one
/// when it is used at random. The set is chosen whose next victim has the lowest expected cost `c_w + p_reuse · c_r`:
/// - `c_w` is the profiled time to write it: 0 when an image exists (always so for write-through) or when it is never written;
/// - `c_r` is the profiled time to read it, twice that for random reading, and the time to make it again for a page that is not written;
/// - `p_reuse = 1 − e^(−λ)` is the probability that it is used within the next tick of the clock, with `λ = 1 / (t_now − t_ref)`.
///
/// Sets whose lifetime has ended come first, and lose as many pages as are needed. Any other set loses a tenth of its pages if its current
/// operation is reading, else one page.
#[derive(Debug, Clone, Copy, Default)]
pub struct DataAware;

impl DataAware {
    fn cost(set: &Members, tick: u64, victim: &Candidate, scene: &Scene) -> f64 {
        let bytes = victim.bytes as f64;
        let write = if victim.dirty && !set.ended && set.durability != Durability::Discard {
            bytes * scene.costs.write
        } else {
            0.0
        };
        let again = if set.durability == Durability::Discard && victim.rebuild > 0 {
            victim.rebuild as f64
        } else {
            bytes * scene.costs.read * if set.is_random() { RANDOM_PENALTY } else { 1.0 }
        };
        let rate = 1.0 / scene.now.saturating_sub(tick).max(1) as f64;
        write + (1.0 - (-rate).exp()) * again
    }

    fn next(set: &Members) -> Option<(u64, &Candidate)> {
        if set.is_random() { set.oldest().next() } else { set.oldest().next_back() }
    }
}

impl Policy for DataAware {
    fn name(&self) -> &'static str {
        "data-aware"
    }

    fn victims(&self, sets: &[&Members], scene: &Scene) -> Vec<PageId> {
        let any_ended = sets.iter().any(|set| set.ended);
        let chosen = sets
            .iter()
            .filter(|set| set.ended == any_ended)
            .filter_map(|set| Self::next(set).map(|(tick, victim)| (Self::cost(set, tick, victim, scene), *set)))
            .min_by(|a, b| a.0.total_cmp(&b.0).then(a.1.set.cmp(&b.1.set)));
        let Some((_, set)) = chosen else { return Vec::new() };
        let pages = set.from(!set.is_random());
        if set.ended {
            let mut freed = 0;
            return pages
                .take_while(|(_, victim)| {
                    let more = freed < scene.need.max(1);
                    freed += victim.bytes;
                    more
                })
                .map(|(_, victim)| set.page(victim))
                .collect();
        }
        let count = if set.operation == Operation::Read { tenth(set.resident, scene) } else { 1 };
        pages.take(count).map(|(_, victim)| set.page(victim)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::{members, named, scene};
    use super::*;
    use crate::api::{Reading, Writing};

    #[test]
    fn sequential_sets_lose_their_newest_page_and_random_ones_their_oldest() {
        let mut set = members(1, &[1, 2, 3]);
        assert_eq!(named(&DataAware.victims(&[&set], &scene(10))), [(1, 2)]);
        set.writing = Writing::Concurrent;
        assert_eq!(named(&DataAware.victims(&[&set], &scene(10))), [(1, 2)]);
        set.reading = Reading::Random;
        assert_eq!(named(&DataAware.victims(&[&set], &scene(10))), [(1, 0)]);
        set.operation = Operation::Write;
        assert_eq!(named(&DataAware.victims(&[&set], &scene(10))), [(1, 2)]);
        set.writing = Writing::RandomMutable;
        assert_eq!(named(&DataAware.victims(&[&set], &scene(10))), [(1, 0)]);
    }

    #[test]
    fn a_tenth_goes_while_reading_and_one_page_while_writing() {
        let ticks: Vec<u64> = (1..=25).collect();
        let mut set = members(1, &ticks);
        for (operation, count) in
            [(Operation::Read, 3), (Operation::Write, 1), (Operation::ReadWrite, 1), (Operation::None, 1)]
        {
            set.operation = operation;
            assert_eq!(DataAware.victims(&[&set], &scene(30)).len(), count, "{operation:?}");
        }
        set.operation = Operation::Read;
        assert_eq!(named(&DataAware.victims(&[&set], &scene(30))), [(1, 24), (1, 23), (1, 22)]);
    }

    #[test]
    fn the_set_with_the_cheapest_next_victim_is_chosen() {
        // Sets that differ only in the time of last use: the one that was used longer ago is chosen.
        let (old, new) = (members(1, &[5]), members(2, &[90]));
        assert_eq!(named(&DataAware.victims(&[&new, &old], &scene(100))), [(1, 0)]);
        // A page that has an image costs nothing to write.
        let mut through = members(3, &[99]);
        through.remove(99);
        through.insert(99, Candidate { number: 7, bytes: 100, dirty: false, rebuild: 0 });
        assert_eq!(named(&DataAware.victims(&[&new, &old, &through], &scene(100))), [(3, 7)]);
        // A page that is never written, but expensive to make again.
        let mut made = members(4, &[99]);
        made.durability = Durability::Discard;
        made.remove(99);
        made.insert(99, Candidate { number: 1, bytes: 100, dirty: true, rebuild: 1_000_000 });
        assert_eq!(named(&DataAware.victims(&[&made, &old], &scene(100))), [(1, 0)]);
        // The same page, used long ago, is cheap again.
        assert_eq!(named(&DataAware.victims(&[&made, &old], &scene(100_000_000))), [(4, 1)]);
    }

    #[test]
    fn random_reading_raises_the_cost_of_a_page() {
        let mut random = members(1, &[50]);
        random.reading = Reading::Random;
        let sequential = members(2, &[50]);
        assert_eq!(named(&DataAware.victims(&[&random, &sequential], &scene(51))), [(2, 0)]);
    }

    #[test]
    fn ended_sets_come_first_and_as_many_pages_as_are_needed() {
        let mut ended = members(9, &[95, 96, 97]);
        ended.ended = true;
        let other = members(1, &[1]);
        assert_eq!(named(&DataAware.victims(&[&other, &ended], &scene(100))), [(9, 2)]);
        let scene = Scene { need: 150, ..scene(100) };
        assert_eq!(named(&DataAware.victims(&[&other, &ended], &scene)), [(9, 2), (9, 1)]);
        let scene = Scene { need: 1_000, ..scene };
        assert_eq!(DataAware.victims(&[&other, &ended], &scene).len(), 3);
    }
}
