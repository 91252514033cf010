//! From an address to the segment it lies in.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use parking_lot::RwLock;

use crate::segment::Segment;

// Where the segments of this process are mapped: start address → bytes and segment. A process has one address space, hence one table.
static MAPPED: RwLock<BTreeMap<usize, (usize, Weak<Segment>)>> = RwLock::new(BTreeMap::new());

/// The segment and offset of `length` bytes at `start`, if all of them lie in a segment that this process has mapped.
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

pub(crate) fn enter(segment: &Arc<Segment>) {
    MAPPED.write().insert(segment.as_ptr().addr(), (segment.len(), Arc::downgrade(segment)));
}

/// Must come before the addresses are unmapped: afterwards another thread's mapping may have them.
pub(crate) fn leave(segment: &Segment) {
    MAPPED.write().remove(&segment.as_ptr().addr());
}
