//! Taking over the memory of another process, which has ended.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use crate::arena::Arena;
use crate::error::{Error, Result};
use crate::extent::Extent;
use crate::segment::{Segment, SegmentId};
use crate::slab::Slab;
use crate::{ALIGNMENT, backing};

impl Slab {
    /// Take over a memfd of another process, which must not write to it any more, as a segment with one extent for each of the `blocks`: an
    /// offset, a multiple of [`ALIGNMENT`], and bytes. All other memory of the memfd is returned to the system at once, and that of a block
    /// when its extent is dropped. Nothing else is allocated from the segment.
    ///
    /// # Errors
    /// As [`Segment::adopt`]; [`Error::Outside`] or [`Error::Foreign`] when the blocks exceed the memfd, overlap or are not aligned;
    /// [`Error::Full`] beyond the limit; [`Error::Forked`] in a forked child of the slab's process.
    pub fn adopt(self: &Arc<Self>, fd: OwnedFd, length: usize, blocks: &[(usize, usize)]) -> Result<Vec<Extent>> {
        let here = crate::process::id();
        if here != self.maker {
            return Err(Error::Forked { owner: self.maker, here });
        }
        let id = self.state.lock().names.take();
        let blocks = sorted(id, length, blocks)?;
        let needed = blocks.iter().fold(0_u64, |sum, &(_, bytes)| sum.saturating_add(occupied(bytes)));
        let limit = self.options.limit;
        let used = self.state.lock().used;
        if used.saturating_add(needed) > limit {
            return Err(Error::Full { asked: needed, used, limit });
        }
        let page = rustix::param::page_size();
        let end = blocks.last().map_or(0, |&(offset, bytes)| offset + bytes).max(1).next_multiple_of(page).min(length);
        let cut = |to: usize| {
            rustix::fs::ftruncate(&fd, to as u64).map_err(|e| Error::system("cut the end of a memfd off", e))
        };
        cut(end)?;
        let segment = Segment::adopt(id, fd, end)?;
        let mut start = 0;
        for &(offset, bytes) in blocks.iter().chain([&(end, 0)]) {
            let (from, to) = (usize::next_multiple_of(start, page), offset / page * page);
            if from < to {
                // Memory that cannot be returned is only idle; the blocks are not affected.
                let _ = backing::punch(segment.fd(), from as u64, (to - from) as u64);
            }
            start = offset + bytes;
        }
        if blocks.is_empty() {
            return Ok(Vec::new());
        }
        let arena = Arena::adopted(Arc::clone(&segment), &blocks);
        let mut state = self.state.lock();
        state.used += needed;
        state.touched += arena.touched() as u64;
        state.arenas.insert(id, arena);
        drop(state);
        let extent = |&(offset, bytes): &(usize, usize)| {
            let slab = Arc::clone(self);
            Extent::new(Arc::clone(&segment), offset, bytes, Some(Box::new(move || slab.free_adopted(id, offset))))
        };
        Ok(blocks.iter().map(extent).collect())
    }

    /// Free an extent of an adopted segment, and return its memory to the system.
    fn free_adopted(&self, id: SegmentId, offset: usize) {
        let mut state = self.state.lock();
        let Some(arena) = state.arenas.get_mut(&id) else { return };
        let Some(bytes) = arena.live.get(&offset).map(|live| live.bytes) else { return };
        let range = arena.own_pages(offset, bytes);
        let last = arena.live.len() == 1;
        // Under the lock: until the extent is freed, nothing else happens to its pages.
        let freed = arena.discard(range);
        state.touched -= freed as u64;
        drop(state);
        self.free(id, offset);
        if last {
            let mut state = self.state.lock();
            let dropped = state.remove(id);
            drop(state);
            drop(dropped);
        }
    }
}

/// Bytes that a block occupies.
fn occupied(bytes: usize) -> u64 {
    (bytes.max(1) as u64).next_multiple_of(ALIGNMENT as u64)
}

/// The blocks in order, once it is certain that they are aligned, do not overlap and lie in the memfd.
fn sorted(id: SegmentId, length: usize, blocks: &[(usize, usize)]) -> Result<Vec<(usize, usize)>> {
    let mut blocks = blocks.to_vec();
    blocks.sort_unstable();
    let mut before = 0;
    for &(offset, bytes) in &blocks {
        let end = offset.checked_add(bytes).filter(|&end| end <= length);
        let Some(end) = end else {
            let (offset, asked) = (offset as u64, bytes as u64);
            return Err(Error::Outside { id, length: length as u64, offset, asked });
        };
        if offset % ALIGNMENT != 0 || offset < before || bytes == 0 {
            return Err(Error::Foreign {
                id,
                why: "its blocks overlap, are empty, or do not begin at multiples of 64 bytes",
            });
        }
        before = end.next_multiple_of(ALIGNMENT);
    }
    Ok(blocks)
}
