//! The segments of a server that this process has mapped.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use craton_slab::{Extent, Segment, SegmentId};
use parking_lot::RwLock;

use super::protocol::Announced;
use crate::api::Reference;

/// Segments by name. They stay mapped until the server says that they are gone, and then as long as something lies in them here.
#[derive(Default)]
pub(super) struct Mapped {
    segments: RwLock<HashMap<SegmentId, Arc<Segment>>>,
}

impl Mapped {
    /// Map a segment whose descriptor has come. One that is mapped already stays as it is.
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
        // Unmapped with no lock held.
        drop(forgotten);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.segments.read().is_empty()
    }

    /// The memory that a reference names; `release` runs when it is dropped.
    pub(super) fn extent(
        &self,
        reference: Reference,
        release: Option<Box<dyn FnOnce() + Send + Sync>>,
    ) -> Result<Extent, String> {
        let Reference { segment: id, offset, length } = reference;
        let segment = self.segments.read().get(&id).cloned();
        let segment = segment.ok_or_else(|| format!("it speaks of segment {id:#x}, which it did not send"))?;
        let end = offset.checked_add(length);
        if end.is_none_or(|end| end > segment.len() as u64) {
            let bytes = segment.len();
            return Err(format!("it speaks of {length} bytes at {offset} of segment {id:#x}, which has {bytes}"));
        }
        // Both are within a length that is a `usize`.
        Ok(Extent::new(segment, offset as usize, length as usize, release))
    }
}
