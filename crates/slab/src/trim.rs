//! Returning memory to the system.
//!
//! Reusing a freed extent costs nothing, while the first access to a fresh page takes several times as long as writing to it. A slab
//! therefore returns memory only when much of it is idle, and first where that is cheapest: whole segments, then large gaps between extents.

use std::cmp::Reverse;
use std::sync::Arc;

use crate::arena::{Arena, Gap};
use crate::segment::{Segment, SegmentId};
use crate::slab::Slab;

impl Slab {
    /// Return idle memory to the system until about `keep_free` idle bytes are left; returns how many bytes were freed. Of a sealed segment
    /// only the tail after its last extent can be freed, and a client's segment only as a whole, when it is empty. More or fewer than
    /// `keep_free` bytes may therefore be left.
    pub fn trim(&self, keep_free: u64) -> u64 {
        let _one_at_a_time = self.trimming.lock();
        self.trim_to(keep_free)
    }

    /// Trim after an extent was freed, unless another thread is trimming.
    pub(crate) fn try_trim(&self) {
        if let Some(_one_at_a_time) = self.trimming.try_lock() {
            self.trim_to(self.options.watermark() / 2);
        }
    }

    fn trim_to(&self, keep_free: u64) -> u64 {
        let mut given = self.drop_empty(keep_free, Empty::Fitting);
        for (idle, id) in self.arenas_by_idle() {
            if idle == 0 || self.excess(keep_free) == 0 {
                break;
            }
            given += self.empty_gaps(id, keep_free);
        }
        given += self.drop_empty(keep_free, Empty::Any);
        let mut state = self.state.lock();
        let watermark = self.options.watermark();
        // Raise the threshold above the memory that could not be freed, so that the next freed extent does not try again in vain.
        let more = (watermark / 4).max(1 << 20);
        state.next_trim = if state.idle() > watermark { state.idle().saturating_add(more) } else { watermark };
        given
    }

    fn excess(&self, keep_free: u64) -> u64 {
        self.state.lock().idle().saturating_sub(keep_free)
    }

    fn arenas_by_idle(&self) -> Vec<(usize, SegmentId)> {
        let state = self.state.lock();
        let mut arenas: Vec<_> = state.arenas.iter().map(|(id, arena)| (arena.idle(), *id)).collect();
        drop(state);
        arenas.sort_unstable_by(|a, b| b.cmp(a));
        arenas
    }

    /// Drop segments without extents, those with the most memory first.
    fn drop_empty(&self, keep_free: u64, which: Empty) -> u64 {
        let mut state = self.state.lock();
        let empty = state.arenas.iter().filter(|(_, arena)| arena.live.is_empty());
        let mut empty: Vec<_> = empty.map(|(id, arena)| (arena.touched() as u64, *id)).collect();
        empty.sort_unstable_by(|a, b| b.cmp(a));
        let mut dropped: Vec<Arena> = Vec::new();
        let mut given = 0;
        for (touched, id) in empty {
            let excess = state.idle().saturating_sub(keep_free);
            let fits = match which {
                Empty::Fitting => touched <= excess,
                Empty::Any => touched == 0 || excess > 0,
            };
            if fits {
                given += touched;
                dropped.extend(state.remove(id));
            }
        }
        drop(state);
        given
    }

    /// Free the gaps between the extents of one segment. Nothing is allocated from the segment meanwhile; extents that are freed meanwhile
    /// are left for the next trim.
    fn empty_gaps(&self, id: SegmentId, keep_free: u64) -> u64 {
        let Some((segment, mut gaps)) = self.close(id) else { return 0 };
        gaps.sort_unstable_by_key(|gap| Reverse(gap.touched));
        let (mut given, mut spoilt) = (0, false);
        for gap in gaps {
            let excess = usize::try_from(self.excess(keep_free)).unwrap_or(usize::MAX);
            if excess == 0 {
                break;
            }
            let range = match self.state.lock().arenas.get(&id) {
                Some(arena) => arena.end_of(&gap, excess),
                None => break,
            };
            match segment.discard(range.start, range.len()) {
                Ok(false) => {}
                Ok(true) => {
                    let mut state = self.state.lock();
                    let bytes = state.arenas.get_mut(&id).map_or(0, |arena| arena.forget(range)) as u64;
                    state.touched -= bytes;
                    given += bytes;
                }
                Err(_) => {
                    spoilt = true;
                    break;
                }
            }
        }
        let mut state = self.state.lock();
        if let Some(arena) = state.arenas.get_mut(&id) {
            arena.closed = spoilt;
        }
        state.relist(id);
        given
    }

    fn close(&self, id: SegmentId) -> Option<(Arc<Segment>, Vec<Gap>)> {
        let mut state = self.state.lock();
        let arena = state.arenas.get_mut(&id).filter(|arena| !arena.closed)?;
        arena.closed = true;
        let found = (Arc::clone(&arena.segment), arena.gaps());
        state.relist(id);
        Some(found)
    }
}

/// Which of the segments without extents are dropped.
#[derive(Clone, Copy)]
enum Empty {
    /// Those whose memory does not exceed what is to be freed.
    Fitting,
    /// Those without memory, and others until enough has been freed.
    Any,
}
