//! Extents out of segments: O(1) allocation, reuse, and giving memory back.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use offset_allocator::{Allocation, Allocator};
use parking_lot::Mutex;

use crate::ALIGNMENT;
use crate::error::{Error, Result};
use crate::extent::Extent;
use crate::segment::{Segment, SegmentId};

/// How a slab is set up.
#[derive(Debug, Clone)]
pub struct SlabOptions {
    /// The most bytes that its extents may have together.
    pub limit: u64,
    /// Bytes of a segment; a larger extent gets a segment of its own.
    pub segment_bytes: u64,
}

impl Default for SlabOptions {
    fn default() -> Self {
        Self { limit: u64::MAX, segment_bytes: 1 << 28 }
    }
}

/// What a slab uses, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SlabUsage {
    /// In extents that are owned.
    pub used: u64,
    /// Address space of all segments.
    pub reserved: u64,
    /// Segments.
    pub segments: u64,
}

struct Arena {
    segment: Arc<Segment>,
    allocator: Allocator,
}

struct State {
    arenas: HashMap<SegmentId, Arena>,
    // Who owns what lies where, so that a reference that comes back finds the extent it is a part of.
    extents: HashMap<SegmentId, std::collections::BTreeMap<usize, Weak<Extent>>>,
    used: u64,
    next: u64,
}

/// An allocator of extents over segments that it makes as it needs them.
pub struct Slab {
    options: SlabOptions,
    state: Mutex<State>,
}

impl Slab {
    /// A slab without segments yet.
    #[must_use]
    pub fn new(options: SlabOptions) -> Arc<Self> {
        let state = State { arenas: HashMap::new(), extents: HashMap::new(), used: 0, next: 1 };
        Arc::new(Self { options, state: Mutex::new(state) })
    }

    /// An extent of `length` bytes at a multiple of [`ALIGNMENT`]; its contents are arbitrary.
    ///
    /// # Errors
    /// [`Error::Full`] beyond the limit; what the system says when it gives no segment.
    pub fn allocate(self: &Arc<Self>, length: usize) -> Result<Extent> {
        let units = length.div_ceil(ALIGNMENT).max(1);
        let bytes = (units * ALIGNMENT) as u64;
        let mut state = self.state.lock();
        if state.used.saturating_add(bytes) > self.options.limit {
            return Err(Error::Full { asked: length as u64, used: state.used, limit: self.options.limit });
        }
        let count = u32::try_from(units).map_err(|_| Error::Full {
            asked: bytes,
            used: state.used,
            limit: self.options.limit,
        })?;
        let found = state.arenas.values_mut().find_map(|arena| {
            arena.allocator.allocate(count).map(|allocation| (Arc::clone(&arena.segment), allocation))
        });
        let (segment, allocation) = match found {
            Some(found) => found,
            None => {
                let size = (self.options.segment_bytes.max(bytes) as usize).next_multiple_of(1 << 21);
                let id = (u64::from(std::process::id()) << 32) | state.next;
                state.next += 1;
                let segment = Segment::create(id, size)?;
                let mut allocator = Allocator::new((size / ALIGNMENT) as u32);
                let allocation = allocator.allocate(count).expect("a fresh segment has room");
                state.arenas.insert(id, Arena { segment: Arc::clone(&segment), allocator });
                (segment, allocation)
            }
        };
        state.used += bytes;
        drop(state);
        let (slab, id) = (Arc::clone(self), segment.id());
        let offset = allocation.offset as usize * ALIGNMENT;
        Ok(Extent::new(segment, offset, length, Some(Box::new(move || slab.free(id, allocation, bytes)))))
    }

    fn free(&self, id: SegmentId, allocation: Allocation, bytes: u64) {
        let mut state = self.state.lock();
        state.used -= bytes;
        if let Some(arena) = state.arenas.get_mut(&id) {
            arena.allocator.free(allocation);
        }
        if let Some(extents) = state.extents.get_mut(&id) {
            extents.remove(&(allocation.offset as usize * ALIGNMENT));
        }
    }

    /// Share an extent that was written: from now on [`Slab::find`] finds it.
    pub fn share(&self, extent: Extent) -> Arc<Extent> {
        let extent = Arc::new(extent);
        let place = (extent.segment().id(), extent.offset());
        self.state.lock().extents.entry(place.0).or_default().insert(place.1, Arc::downgrade(&extent));
        extent
    }

    /// The shared extent that has the byte `offset` of `segment`, if it is alive.
    #[must_use]
    pub fn find(&self, segment: SegmentId, offset: usize) -> Option<Arc<Extent>> {
        let state = self.state.lock();
        let (_, extent) = state.extents.get(&segment)?.range(..=offset).next_back()?;
        extent.upgrade().filter(|extent| offset < extent.offset() + extent.len())
    }

    /// What is used now.
    #[must_use]
    pub fn usage(&self) -> SlabUsage {
        let state = self.state.lock();
        let reserved = state.arenas.values().map(|arena| arena.segment.len() as u64).sum();
        SlabUsage { used: state.used, reserved, segments: state.arenas.len() as u64 }
    }
}
