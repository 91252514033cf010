//! LRU and MRU over the pages of all sets: the baselines of data-aware paging.

use std::collections::BinaryHeap;

use super::{Members, Policy, Scene, tenth};
use crate::ids::PageId;

/// Evicts the least recently used tenth of all pages.
#[derive(Debug, Clone, Copy, Default)]
pub struct Lru;

/// Evicts the most recently used tenth of all pages.
#[derive(Debug, Clone, Copy, Default)]
pub struct Mru;

impl Policy for Lru {
    fn name(&self) -> &'static str {
        "lru"
    }

    fn victims(&self, sets: &[&Members], scene: &Scene) -> Vec<PageId> {
        merge(sets, false, scene)
    }
}

impl Policy for Mru {
    fn name(&self) -> &'static str {
        "mru"
    }

    fn victims(&self, sets: &[&Members], scene: &Scene) -> Vec<PageId> {
        merge(sets, true, scene)
    }
}

/// A tenth of the pages in memory by recency, merged from the orders of all sets.
fn merge(sets: &[&Members], newest: bool, scene: &Scene) -> Vec<PageId> {
    let count = tenth(sets.iter().map(|set| set.len() as u64).sum(), scene);
    // The page with the largest rank is the next victim.
    let rank = |tick: u64| if newest { tick } else { !tick };
    let mut orders: Vec<_> = sets.iter().map(|set| set.from(newest)).collect();
    let mut heads = BinaryHeap::with_capacity(sets.len());
    for (index, order) in orders.iter_mut().enumerate() {
        heads.extend(order.next().map(|(tick, victim)| (rank(tick), index, victim.number)));
    }
    let mut victims = Vec::with_capacity(count);
    while victims.len() < count {
        let Some((_, index, number)) = heads.pop() else { break };
        victims.push(PageId { set: sets[index].set, number });
        heads.extend(orders[index].next().map(|(tick, victim)| (rank(tick), index, victim.number)));
    }
    victims
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::{members, named, scene};
    use super::*;

    #[test]
    fn recency_counts_across_sets() {
        let first = members(1, &[1, 4, 5, 8, 9, 12, 13, 16, 17, 20]);
        let second = members(2, &[2, 3, 6, 7, 10, 11, 14, 15, 18, 19]);
        assert_eq!(named(&Lru.victims(&[&first, &second], &scene(30))), [(1, 0), (2, 0)]);
        assert_eq!(named(&Mru.victims(&[&first, &second], &scene(30))), [(1, 9), (2, 9)]);
    }

    #[test]
    fn one_page_goes_when_only_the_next_is_asked_for() {
        let ticks: Vec<u64> = (1..=30).collect();
        let scene = super::Scene { single: true, ..scene(40) };
        assert_eq!(named(&Lru.victims(&[&members(1, &ticks)], &scene)), [(1, 0)]);
        assert_eq!(named(&Mru.victims(&[&members(1, &ticks)], &scene)), [(1, 29)]);
    }

    #[test]
    fn at_least_one_page_goes() {
        assert_eq!(named(&Lru.victims(&[&members(1, &[7])], &scene(8))), [(1, 0)]);
        assert_eq!(named(&Mru.victims(&[&members(1, &[7, 9])], &scene(10))), [(1, 1)]);
    }
}
