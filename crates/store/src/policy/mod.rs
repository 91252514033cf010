//! Eviction policies: pure functions over a compact view of the sets.
//!
//! The pool keeps one [`Members`] for each set, with the evictable pages in the order of their last use; a [`Policy`] chooses victims from
//! these. It does no I/O and keeps no state, so that policies can be compared and tested in isolation.

mod data_aware;
mod dbmin;
mod simple;

use std::collections::BTreeMap;
use std::sync::Arc;

pub use data_aware::DataAware;
pub use dbmin::{Dbmin, DesiredSize};
pub use simple::{Lru, Mru};

use crate::api::{Durability, Operation, Reading, Writing};
use crate::ids::{PageId, SetId};

/// An evictable page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Candidate {
    /// Its number in its set.
    pub number: u32,
    /// Bytes of memory that it occupies.
    pub bytes: u64,
    /// Whether it has to be written before its memory can be freed.
    pub dirty: bool,
    /// Nanoseconds that making it again takes; 0 if unknown.
    pub rebuild: u64,
}

/// A policy's view of a set.
#[derive(Debug, Clone)]
pub struct Members {
    /// The set.
    pub set: SetId,
    /// When its pages are written.
    pub durability: Durability,
    /// How they are written.
    pub writing: Writing,
    /// How they are read.
    pub reading: Reading,
    /// The current operation on it.
    pub operation: Operation,
    /// Whether its lifetime has ended.
    pub ended: bool,
    /// The number of its pages.
    pub pages: u64,
    /// The number of its pages in memory, including pinned ones.
    pub resident: u64,
    /// How often any of its pages was pinned.
    pub references: u64,
    order: BTreeMap<u64, Candidate>,
}

impl Members {
    /// A set without pages.
    #[must_use]
    pub fn new(set: SetId, durability: Durability, writing: Writing, reading: Reading) -> Self {
        Self {
            set,
            durability,
            writing,
            reading,
            operation: Operation::None,
            ended: false,
            pages: 0,
            resident: 0,
            references: 0,
            order: BTreeMap::new(),
        }
    }

    /// Add an evictable page; `tick` is the time of its last use, which is unique.
    pub fn insert(&mut self, tick: u64, candidate: Candidate) {
        self.order.insert(tick, candidate);
    }

    /// Remove the page that was last used at `tick`: it is no longer evictable.
    pub fn remove(&mut self, tick: u64) -> Option<Candidate> {
        self.order.remove(&tick)
    }

    /// Whether no page is evictable.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// The number of evictable pages.
    #[must_use]
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// The evictable pages with the ticks of their last use, least recently used first.
    pub fn oldest(&self) -> impl DoubleEndedIterator<Item = (u64, &Candidate)> {
        self.order.iter().map(|(tick, candidate)| (*tick, candidate))
    }

    /// The evictable pages from one end of the order: most recently used first if `newest`.
    fn from(&self, newest: bool) -> Box<dyn Iterator<Item = (u64, &Candidate)> + '_> {
        if newest { Box::new(self.oldest().rev()) } else { Box::new(self.oldest()) }
    }

    fn page(&self, candidate: &Candidate) -> PageId {
        PageId { set: self.set, number: candidate.number }
    }

    /// Whether the current operation accesses its pages at random.
    fn is_random(&self) -> bool {
        let (writing, reading) = (self.writing == Writing::RandomMutable, self.reading == Reading::Random);
        match self.operation {
            Operation::Write => writing,
            Operation::Read => reading,
            Operation::None | Operation::ReadWrite => writing || reading,
        }
    }
}

/// The costs of reading and writing in nanoseconds per byte, as moving averages of measurements.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Costs {
    /// Writing.
    pub write: f64,
    /// Reading.
    pub read: f64,
}

impl Default for Costs {
    /// 1 GB/s both ways, until the first measurement.
    fn default() -> Self {
        Self { write: 1.0, read: 1.0 }
    }
}

impl Costs {
    /// The weight of a new measurement.
    const WEIGHT: f64 = 0.125;

    /// Record that writing `bytes` took `nanoseconds`.
    pub fn wrote(&mut self, bytes: u64, nanoseconds: u64) {
        Self::measure(&mut self.write, bytes, nanoseconds);
    }

    /// Record that reading `bytes` took `nanoseconds`.
    pub fn read(&mut self, bytes: u64, nanoseconds: u64) {
        Self::measure(&mut self.read, bytes, nanoseconds);
    }

    fn measure(average: &mut f64, bytes: u64, nanoseconds: u64) {
        if bytes > 0 {
            *average += Self::WEIGHT * (nanoseconds as f64 / bytes as f64 - *average);
        }
    }
}

/// The state of the pool in which victims are chosen.
#[derive(Debug, Clone, Copy, Default)]
pub struct Scene {
    /// The tick of the pool's clock; it advances with every use of a page.
    pub now: u64,
    /// The measured costs.
    pub costs: Costs,
    /// Bytes to free.
    pub need: u64,
    /// Bytes of memory that pages may occupy.
    pub capacity: u64,
    /// Return the next victim only; the caller may decide not to evict it.
    pub single: bool,
}

/// Chooses the pages to evict.
pub trait Policy: std::fmt::Debug + Send + Sync {
    /// Its name.
    fn name(&self) -> &'static str;

    /// The next pages to evict, at least one. There is at least one set, and none is empty. If the victims free too little, the method is
    /// called again without them. It must take no longer than O(sets + victims × log sets).
    fn victims(&self, sets: &[&Members], scene: &Scene) -> Vec<PageId>;
}

/// The names that [`by_name`] accepts.
pub const NAMES: [&str; 6] = ["data-aware", "lru", "mru", "dbmin-1", "dbmin-1000", "dbmin-adaptive"];

/// The policy of that [`Policy::name`].
#[must_use]
pub fn by_name(name: &str) -> Option<Arc<dyn Policy>> {
    let all: [Arc<dyn Policy>; 6] = [
        Arc::new(DataAware),
        Arc::new(Lru),
        Arc::new(Mru),
        Arc::new(Dbmin { size: DesiredSize::Fixed(1) }),
        Arc::new(Dbmin { size: DesiredSize::Fixed(1000) }),
        Arc::new(Dbmin { size: DesiredSize::Adaptive }),
    ];
    all.into_iter().find(|policy| policy.name() == name)
}

/// A tenth of `count`, at least one; exactly one if only the next victim is wanted.
fn tenth(count: u64, scene: &Scene) -> usize {
    if scene.single {
        return 1;
    }
    usize::try_from(count.div_ceil(10).max(1)).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod fixtures {
    use super::*;

    /// A set whose pages 0, 1, … were last used at `ticks`, each of 100 bytes and dirty.
    pub(crate) fn members(set: u64, ticks: &[u64]) -> Members {
        let mut members = Members::new(SetId(set), Durability::WriteBack, Writing::Sequential, Reading::Sequential);
        for (number, tick) in (0..).zip(ticks) {
            members.insert(*tick, Candidate { number, bytes: 100, dirty: true, rebuild: 0 });
            members.pages += 1;
            members.resident += 1;
        }
        members
    }

    pub(crate) fn named(pages: &[PageId]) -> Vec<(u64, u32)> {
        pages.iter().map(|page| (page.set.0, page.number)).collect()
    }

    pub(crate) fn scene(now: u64) -> Scene {
        Scene { now, need: 1, capacity: 10_000, ..Scene::default() }
    }
}
