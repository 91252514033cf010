//! The memory limit: accounts for the bytes of extents and reservations, and lets threads wait for memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use craton_slab::{ALIGNMENT, Extent, Slab};
use parking_lot::{Condvar, Mutex};

use crate::error::{Error, Result};

/// Bytes that an extent of `length` bytes occupies in the slab.
pub(crate) fn rounded(length: usize) -> u64 {
    (length.max(1) as u64).next_multiple_of(ALIGNMENT as u64)
}

// Several extents may together exceed the limit by at most this fraction (1/8) of it.
const OVERDRAWN: u64 = 8;

struct State {
    // Bytes of extents, including those that are about to be allocated.
    used: u64,
    // Bytes of reservations.
    reserved: u64,
    // Idle bytes, in no extent, that could not be returned to the system and count against the limit.
    idle: u64,
    // Number of operations under way (writes, reads, releases) that may free memory or make pages evictable when they end.
    pending: u64,
    // Number of events that may have made memory available. A thread compares it before it waits, so that it misses none.
    events: u64,
}

/// Accounts for memory. Its lock is the innermost one: it may be taken while any other lock is held, and no other is taken under it.
pub(crate) struct Memory {
    limit: u64,
    state: Mutex<State>,
    changed: Condvar,
    // Total bytes that threads are looking for; read without the lock by threads that might free some.
    demand: AtomicU64,
}

/// A snapshot of the account, taken before looking for memory.
pub(crate) struct Snapshot {
    pub(crate) free: u64,
    pub(crate) used: u64,
    events: u64,
}

/// The result of waiting.
pub(crate) enum Waited {
    /// An event happened since the snapshot: try again.
    Changed,
    /// No event happened, and no operation is under way that could cause one.
    Idle,
}

impl Memory {
    pub(crate) fn new(limit: u64) -> Arc<Self> {
        let state = State { used: 0, reserved: 0, idle: 0, pending: 0, events: 0 };
        Arc::new(Self { limit, state: Mutex::new(state), changed: Condvar::new(), demand: AtomicU64::new(0) })
    }

    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }

    /// Bytes of extents, and of reservations.
    pub(crate) fn usage(&self) -> (u64, u64) {
        let state = self.state.lock();
        (state.used, state.reserved)
    }

    /// Set the idle bytes that count against the limit; returns whether they are fewer than before.
    pub(crate) fn set_idle(&self, bytes: u64) -> bool {
        let mut state = self.state.lock();
        let fewer = bytes < state.idle;
        state.idle = bytes;
        if fewer {
            self.happened(&mut state);
        }
        fewer
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        let state = self.state.lock();
        let used = state.used + state.reserved + state.idle;
        Snapshot { free: self.limit.saturating_sub(used), used, events: state.events }
    }

    /// Charge `bytes` of extents, if that is within the limit.
    pub(crate) fn charge(self: &Arc<Self>, bytes: u64) -> Option<Charge> {
        let mut state = self.state.lock();
        let used = state.used.checked_add(bytes)?;
        if used.checked_add(state.reserved + state.idle)? > self.limit {
            return None;
        }
        state.used = used;
        Some(Charge { memory: Arc::clone(self), bytes })
    }

    /// Charge `bytes` even beyond the limit, for a page that has to be read while no page can be written. This is granted to one extent, or to
    /// several that together are below a fraction of the limit.
    pub(crate) fn overdraw(self: &Arc<Self>, bytes: u64) -> Option<Charge> {
        let mut state = self.state.lock();
        let before = (state.used + state.reserved).saturating_sub(self.limit);
        let most = if before == 0 { self.limit } else { self.limit / OVERDRAWN };
        let used = state.used.checked_add(bytes)?;
        if used.checked_add(state.reserved)? > self.limit.checked_add(most)? {
            return None;
        }
        state.used = used;
        Some(Charge { memory: Arc::clone(self), bytes })
    }

    /// Bytes charged beyond the limit.
    pub(crate) fn overdrawn(&self) -> u64 {
        let state = self.state.lock();
        (state.used + state.reserved).saturating_sub(self.limit)
    }

    /// Reserve `bytes`, or as many as are available if that is at least `least`.
    pub(crate) fn reserve(&self, least: u64, bytes: u64) -> Option<u64> {
        let mut state = self.state.lock();
        let given = bytes.min(self.limit.saturating_sub(state.used + state.reserved));
        if given < least {
            return None;
        }
        state.reserved += given;
        Some(given)
    }

    pub(crate) fn unreserve(&self, bytes: u64) {
        let mut state = self.state.lock();
        state.reserved -= bytes;
        self.happened(&mut state);
    }

    fn happened(&self, state: &mut State) {
        state.events += 1;
        self.changed.notify_all();
    }

    /// Wake waiting threads, because pages may have become evictable.
    pub(crate) fn nudge(&self) {
        if self.demand.load(Ordering::SeqCst) > 0 {
            self.happened(&mut self.state.lock());
        }
    }

    /// Record that an operation that may free memory is under way until the result is dropped.
    pub(crate) fn pending(self: &Arc<Self>) -> Pending {
        self.state.lock().pending += 1;
        Pending(Arc::clone(self))
    }

    /// Record that a thread is looking for `bytes` until the result is dropped.
    pub(crate) fn demand(&self, bytes: u64) -> Demand<'_> {
        self.demand.fetch_add(bytes, Ordering::SeqCst);
        Demand { memory: self, bytes }
    }

    /// Total bytes that threads are looking for.
    pub(crate) fn demanded(&self) -> u64 {
        self.demand.load(Ordering::SeqCst)
    }

    /// Wait for an event after the snapshot; returns immediately if no operation is under way.
    pub(crate) fn wait(&self, snapshot: &Snapshot) -> Waited {
        let mut state = self.state.lock();
        while state.events == snapshot.events {
            if state.pending == 0 {
                return Waited::Idle;
            }
            self.changed.wait(&mut state);
        }
        Waited::Changed
    }
}

/// Bytes of extents that are charged to the limit; dropping it returns those that were not used.
pub(crate) struct Charge {
    memory: Arc<Memory>,
    bytes: u64,
}

impl Charge {
    /// Allocate an extent of `length` bytes, which holds its part of the charge until it is dropped.
    ///
    /// # Errors
    /// When the slab cannot allocate the extent, for example because the system is out of memory.
    pub(crate) fn extent(&mut self, slab: &Arc<Slab>, length: usize) -> Result<Extent> {
        let extent = slab.allocate(length).map_err(|error| match error {
            craton_slab::Error::Full { asked, used, limit } => Error::Full { asked, used, limit },
            other => Error::slab(format!("allocate {length} bytes"), &other),
        })?;
        Ok(self.held_by(extent))
    }

    /// The extent, which holds its part of the charge until it is dropped.
    pub(crate) fn held_by(&mut self, extent: Extent) -> Extent {
        let bytes = rounded(extent.len());
        debug_assert!(bytes <= self.bytes, "an extent that was not charged");
        self.bytes = self.bytes.saturating_sub(bytes);
        let (segment, offset, length) = (Arc::clone(extent.segment()), extent.offset(), extent.len());
        let charge = Charge { memory: Arc::clone(&self.memory), bytes };
        let release = move || {
            drop(extent);
            drop(charge);
        };
        Extent::new(segment, offset, length, Some(Box::new(release)))
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        if self.bytes > 0 {
            let mut state = self.memory.state.lock();
            state.used -= self.bytes;
            self.memory.happened(&mut state);
        }
    }
}

/// See [`Memory::pending`].
pub(crate) struct Pending(Arc<Memory>);

impl Drop for Pending {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.pending -= 1;
        self.0.happened(&mut state);
    }
}

/// See [`Memory::demand`].
pub(crate) struct Demand<'a> {
    memory: &'a Memory,
    bytes: u64,
}

impl Drop for Demand<'_> {
    fn drop(&mut self) {
        self.memory.demand.fetch_sub(self.bytes, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use craton_slab::SlabOptions;

    #[test]
    fn extents_and_reservations_share_one_limit() {
        let memory = Memory::new(1000);
        let slab = Slab::new(SlabOptions::default());
        let mut charge = memory.charge(rounded(500)).unwrap();
        let extent = charge.extent(&slab, 500).unwrap();
        drop(charge);
        assert_eq!(memory.usage(), (512, 0));
        assert_eq!(memory.reserve(600, 700), None);
        assert_eq!(memory.reserve(400, 700), Some(488));
        assert!(memory.charge(1).is_none());
        memory.unreserve(488);
        drop(extent);
        assert_eq!(memory.usage(), (0, 0));
        assert!(memory.charge(1000).is_some());
        assert!(memory.charge(u64::MAX).is_none());
    }

    #[test]
    fn idle_memory_counts_until_it_is_gone() {
        let memory = Memory::new(1000);
        assert!(!memory.set_idle(300));
        assert!(memory.charge(800).is_none());
        assert_eq!(memory.snapshot().free, 700);
        let charge = memory.charge(700).unwrap();
        assert!(memory.set_idle(100));
        drop(charge);
        assert!(memory.charge(900).is_some());
    }

    #[test]
    fn one_extent_or_a_few_small_ones_go_beyond_the_limit() {
        let memory = Memory::new(800);
        let full = memory.charge(800).unwrap();
        let small = memory.overdraw(60).unwrap();
        assert_eq!(memory.overdrawn(), 60);
        assert!(memory.overdraw(50).is_none() && memory.overdraw(u64::MAX).is_none());
        assert!(memory.charge(1).is_none() && memory.reserve(1, 1).is_none());
        let more = memory.overdraw(40).unwrap();
        drop((small, more));
        assert_eq!(memory.overdrawn(), 0);
        let large = memory.overdraw(800).unwrap();
        assert!(memory.overdraw(1).is_none());
        drop(full);
        assert_eq!(memory.overdrawn(), 0);
        drop(large);
        assert!(memory.charge(800).is_some());
    }

    #[test]
    fn waiting_ends_with_what_is_under_way() {
        let memory = Memory::new(100);
        let snapshot = memory.snapshot();
        assert!(matches!(memory.wait(&snapshot), Waited::Idle));
        let pending = memory.pending();
        std::thread::scope(|scope| {
            scope.spawn(|| drop(pending));
            assert!(matches!(memory.wait(&snapshot), Waited::Changed));
        });
    }
}
