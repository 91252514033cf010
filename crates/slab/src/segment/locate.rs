//! Finds the segment that contains an address.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use parking_lot::RwLock;

use super::Segment;

// The segments mapped in this process: start address → length and segment. Global, because a process has one address space.
static MAPPED: RwLock<BTreeMap<usize, (usize, Weak<Segment>)>> = RwLock::new(BTreeMap::new());

/// The segment and offset of `length` bytes at `start`, if all of them are in a segment that this process has mapped.
#[must_use]
pub fn locate(start: *const u8, length: usize) -> Option<(Arc<Segment>, usize)> {
    let start = start.addr();
    let mapped = MAPPED.read();
    let (base, (extent, segment)) = mapped.range(..=start).next_back()?;
    let offset = start - base;
    if offset.checked_add(length)? > *extent {
        return None;
    }
    segment.upgrade().map(|segment| (segment, offset))
}

pub(super) fn enter(segment: &Arc<Segment>) {
    MAPPED.write().insert(segment.as_ptr().addr(), (segment.len(), Arc::downgrade(segment)));
}

/// Must be called before the addresses are unmapped: afterwards another thread may map something else there.
pub(super) fn leave(segment: &Segment) {
    MAPPED.write().remove(&segment.as_ptr().addr());
}
