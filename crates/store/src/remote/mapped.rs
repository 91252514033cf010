//! The server's segments that this process has mapped.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use craton_slab::{Extent, Segment, SegmentId};
use parking_lot::RwLock;

use super::protocol::Announced;
use crate::api::Reference;

/// Segments by identifier. A segment stays mapped until the server announces that it is gone, and as long as an extent in it lives here.
#[derive(Default)]
pub(super) struct Mapped {
    segments: RwLock<HashMap<SegmentId, Arc<Segment>>>,
}

impl Mapped {
    /// Map a segment whose descriptor was received. One that is mapped already stays as it is.
    pub(super) fn attach(&self, announced: Announced, descriptor: OwnedFd, writable: bool) -> Result<(), String> {
        let Announced { segment: id, length } = announced;
        if self.segments.read().contains_key(&id) {
            return Ok(());
        }
        let size = usize::try_from(length).map_err(|_| format!("segment {id:#x} has {length} bytes"))?;
        let segment = Segment::attach(id, descriptor, size, writable).map_err(|e| e.to_string())?;
        if let Entry::Vacant(place) = self.segments.write().entry(id) {
            place.insert(segment);
        }
        Ok(())
    }

    /// Forget segments.
    pub(super) fn forget(&self, gone: &[SegmentId]) {
        if gone.is_empty() {
            return;
        }
        let forgotten: Vec<_> = {
            let mut segments = self.segments.write();
            gone.iter().filter_map(|id| segments.remove(id)).collect()
        };
        // Unmap without holding the lock.
        drop(forgotten);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.segments.read().is_empty()
    }

    /// The memory of a reference, as an extent; `release` runs when it is dropped.
    pub(super) fn extent(
        &self,
        reference: Reference,
        release: Option<Box<dyn FnOnce() + Send + Sync>>,
    ) -> Result<Extent, String> {
        let Reference { segment: id, offset, length } = reference;
        let segment = self.segments.read().get(&id).cloned();
        let segment = segment.ok_or_else(|| format!("it refers to segment {id:#x}, which it did not send"))?;
        let end = offset.checked_add(length);
        if end.is_none_or(|end| end > segment.len() as u64) {
            let bytes = segment.len();
            return Err(format!("it refers to {length} bytes at {offset} of segment {id:#x}, which has {bytes} bytes"));
        }
        // The casts are lossless: both are within the segment's length, which is a `usize`.
        Ok(Extent::new(segment, offset as usize, length as usize, release))
    }
}
