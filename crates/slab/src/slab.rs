//! Extents out of segments: allocation in constant time, reuse, and finding them again.

use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::arena::{Arena, Need, STEP};
use crate::backing::random;
use crate::error::{Error, Result};
use crate::extent::{BufferRef, Extent};
use crate::options::{SlabOptions, SlabUsage};
use crate::segment::{Segment, SegmentId, SegmentOptions};
use crate::{ALIGNMENT, LARGE, LARGEST};

/// How many arenas with room are looked at for one whose room is memory that was used before.
const LOOKED_AT: usize = 32;

/// Names that no other slab has: 40 random bits, then a number.
struct Names {
    prefix: u64,
    next: u64,
}

const NUMBER_BITS: u32 = 24;

impl Names {
    fn new() -> Self {
        Self { prefix: random() << NUMBER_BITS, next: 1 }
    }

    fn take(&mut self) -> SegmentId {
        if self.next >> NUMBER_BITS > 0 {
            *self = Self::new();
        }
        let id = self.prefix | self.next;
        self.next += 1;
        id
    }
}

/// A name is a number that nobody else chooses: one multiplication spreads it enough.
#[derive(Default)]
pub(crate) struct NameHasher(u64);

impl Hasher for NameHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    fn write_u64(&mut self, id: u64) {
        self.0 = (self.0 ^ id).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

pub(crate) struct State {
    pub arenas: HashMap<SegmentId, Arena, BuildHasherDefault<NameHasher>>,
    // The arenas that have room, by how much: a full one costs nothing. The first that fits is the fullest, and of those the oldest.
    rooms: BTreeSet<(u32, SegmentId)>,
    names: Names,
    pub used: u64,
    pub touched: u64,
    /// So many idle bytes make a free extent the occasion to give memory back.
    pub next_trim: u64,
}

impl State {
    pub fn idle(&self) -> u64 {
        self.touched.saturating_sub(self.used)
    }

    /// Note how much room an arena has now.
    pub fn relist(&mut self, id: SegmentId) {
        if let Some(arena) = self.arenas.get_mut(&id) {
            list(&mut self.rooms, id, arena);
        }
    }

    /// Remove an arena without extents. The caller drops it when it no longer holds the lock, as unmapping takes long.
    pub fn remove(&mut self, id: SegmentId) -> Option<Arena> {
        let arena = self.arenas.remove(&id)?;
        if let Some(room) = arena.listed {
            self.rooms.remove(&(room, id));
        }
        self.touched -= arena.touched() as u64;
        Some(arena)
    }

    /// An arena with room, preferably one whose room has been used before.
    fn choose(&self, need: &Need) -> Option<SegmentId> {
        let fits = || self.rooms.range((need.units, 0)..).map(|(_, id)| *id);
        fits().take(LOOKED_AT).find(|id| self.arenas[id].idle() >= need.bytes).or_else(|| fits().next())
    }

    /// A place in an arena, and how many of its bytes were not used before.
    fn allocate_in(&mut self, id: SegmentId, need: &Need) -> Result<Option<(Arc<Segment>, usize, usize)>> {
        let Some(arena) = self.arenas.get_mut(&id) else { return Ok(None) };
        let before = arena.touched();
        let place = arena.allocate(need);
        // Also after an error: setting space aside in a file may have come half way.
        self.touched += (arena.touched() - before) as u64;
        list(&mut self.rooms, id, arena);
        let Some((offset, fresh)) = place? else { return Ok(None) };
        self.used += need.bytes as u64;
        Ok(Some((Arc::clone(&arena.segment), offset, fresh)))
    }

    /// Free an extent; whether its arena has no other.
    fn free(&mut self, id: SegmentId, offset: usize) -> bool {
        let Some(arena) = self.arenas.get_mut(&id) else { return false };
        self.used -= arena.free(offset) as u64;
        list(&mut self.rooms, id, arena);
        arena.live.is_empty()
    }
}

/// Enter an arena under the room that it has now.
fn list(rooms: &mut BTreeSet<(u32, SegmentId)>, id: SegmentId, arena: &mut Arena) {
    let room = Some(arena.room()).filter(|&room| room > 0);
    if arena.listed == room {
        return;
    }
    if let Some(before) = std::mem::replace(&mut arena.listed, room) {
        rooms.remove(&(before, id));
    }
    if let Some(now) = room {
        rooms.insert((now, id));
    }
}

/// An allocator of extents over segments that it makes as it needs them.
pub struct Slab {
    pub(crate) options: SlabOptions,
    maker: u32,
    pub(crate) state: Mutex<State>,
    /// Held by who gives memory back.
    pub(crate) trimming: Mutex<()>,
}

impl Slab {
    /// A slab without segments yet.
    #[must_use]
    pub fn new(options: SlabOptions) -> Arc<Self> {
        let state = State {
            arenas: HashMap::default(),
            rooms: BTreeSet::new(),
            names: Names::new(),
            used: 0,
            touched: 0,
            next_trim: options.watermark(),
        };
        Arc::new(Self { options, maker: crate::process::id(), state: Mutex::new(state), trimming: Mutex::new(()) })
    }

    /// An extent of `length` bytes at a multiple of [`ALIGNMENT`], or of [`LARGE_ALIGNMENT`](crate::LARGE_ALIGNMENT) if it has at least
    /// [`LARGE`] bytes; its contents are arbitrary.
    ///
    /// # Errors
    /// [`Error::Full`] beyond the limit; [`Error::TooLarge`] beyond [`LARGEST`]; [`Error::Forked`] in a fork of the
    /// slab's process; what the system says when it gives no segment, or no space for one that is a file.
    pub fn allocate(self: &Arc<Self>, length: usize) -> Result<Extent> {
        self.allocate_aligned(length, ALIGNMENT)
    }

    /// As [`Slab::allocate`], at a multiple of `alignment` bytes in the segment and in memory.
    ///
    /// # Errors
    /// As [`Slab::allocate`]; [`Error::Alignment`] for what is no power of two from [`ALIGNMENT`] to
    /// [`LARGE_ALIGNMENT`](crate::LARGE_ALIGNMENT).
    pub fn allocate_aligned(self: &Arc<Self>, length: usize, alignment: usize) -> Result<Extent> {
        let here = crate::process::id();
        if here != self.maker {
            return Err(Error::Forked { owner: self.maker, here });
        }
        let need = Need::new(length, alignment)?;
        let (segment, offset, fresh) = self.place(length, &need)?;
        let (slab, id) = (Arc::clone(self), segment.id());
        let extent = Extent::new(segment, offset, length, Some(Box::new(move || slab.free(id, offset))));
        if self.options.prefault && fresh > 0 && length >= LARGE {
            extent.prefault()?;
        }
        Ok(extent)
    }

    fn place(&self, length: usize, need: &Need) -> Result<(Arc<Segment>, usize, usize)> {
        let mut state = self.state.lock();
        let limit = self.options.limit;
        if state.used.checked_add(need.bytes as u64).is_none_or(|used| used > limit) {
            return Err(Error::Full { asked: length as u64, used: state.used, limit });
        }
        if let Some(id) = state.choose(need) {
            if let Some(place) = state.allocate_in(id, need)? {
                return Ok(place);
            }
        }
        let usual = usize::try_from(self.options.segment_bytes).unwrap_or(LARGEST).clamp(1, LARGEST + 1);
        let size = usual.next_multiple_of(STEP).max(need.segment());
        let id = state.names.take();
        let options = SegmentOptions {
            backing: self.options.backing.clone(),
            huge_pages: self.options.huge_pages,
            client: self.options.client,
        };
        let segment = Segment::create_with(id, size, &options)?;
        state.arenas.insert(id, Arena::new(segment));
        state.relist(id);
        Ok(state.allocate_in(id, need)?.expect("a segment has room for what it was made for"))
    }

    fn free(&self, id: SegmentId, offset: usize) {
        let mut state = self.state.lock();
        let empty = state.free(id, offset);
        let (idle, watermark) = (state.idle(), self.options.watermark());
        if idle <= watermark {
            state.next_trim = watermark;
        }
        let trim = idle > state.next_trim || (empty && idle > watermark);
        drop(state);
        if trim {
            self.trim_if_nobody_does();
        }
    }

    /// Share an extent that was written: from now on [`Slab::find`] finds it, if it is one of this slab.
    pub fn share(&self, extent: Extent) -> Arc<Extent> {
        let extent = Arc::new(extent);
        let mut state = self.state.lock();
        let arena = state.arenas.get_mut(&extent.segment().id());
        let arena = arena.filter(|arena| Arc::ptr_eq(&arena.segment, extent.segment()));
        if let Some(live) = arena.and_then(|arena| arena.live.get_mut(&extent.offset())) {
            live.shared = Arc::downgrade(&extent);
        }
        drop(state);
        extent
    }

    /// The shared extent that has the byte at `offset` of `segment`, if it is alive. An extent of 0 bytes is found where it starts.
    #[must_use]
    pub fn find(&self, segment: SegmentId, offset: usize) -> Option<Arc<Extent>> {
        // Only the lock's holder is in `candidate`: the last owner of an extent takes the lock, and that may be who lets go of it here.
        let extent = self.candidate(segment, offset)?;
        let within = offset - extent.offset();
        (within < extent.len() || within == 0).then_some(extent)
    }

    /// The shared extent that all of `place` lies in, if it is alive. Nothing at the very end of an extent lies in it, too.
    #[must_use]
    pub fn find_range(&self, place: &BufferRef) -> Option<Arc<Extent>> {
        let (offset, length) = (usize::try_from(place.offset).ok()?, usize::try_from(place.length).ok()?);
        let covers = |extent: &Arc<Extent>| {
            let end = offset.checked_add(length);
            extent.offset() <= offset && end.is_some_and(|end| end <= extent.offset() + extent.len())
        };
        let found = self.candidate(place.segment, offset).filter(covers);
        if found.is_some() || length > 0 || offset == 0 {
            return found;
        }
        self.candidate(place.segment, offset - 1).filter(covers)
    }

    /// The last shared extent that starts at `offset` or before.
    fn candidate(&self, segment: SegmentId, offset: usize) -> Option<Arc<Extent>> {
        let state = self.state.lock();
        let (_, live) = state.arenas.get(&segment)?.live.range(..=offset).next_back()?;
        live.shared.upgrade()
    }

    /// The segment of that name, if it is one of this slab's.
    #[must_use]
    pub fn segment(&self, id: SegmentId) -> Option<Arc<Segment>> {
        self.state.lock().arenas.get(&id).map(|arena| Arc::clone(&arena.segment))
    }

    /// The names of its segments, in no order. One that is no longer among them was dropped, and may be unmapped everywhere.
    #[must_use]
    pub fn segment_ids(&self) -> Vec<SegmentId> {
        self.state.lock().arenas.keys().copied().collect()
    }

    /// Bytes of memory that it has, by its own account: in extents, and idle. Asks nobody.
    #[must_use]
    pub fn touched(&self) -> u64 {
        self.state.lock().touched
    }

    /// Bytes of memory that it has and that no extent has, by its own account.
    #[must_use]
    pub fn idle(&self) -> u64 {
        self.state.lock().idle()
    }

    /// What is used now. Asks the system about each segment.
    #[must_use]
    pub fn usage(&self) -> SlabUsage {
        let state = self.state.lock();
        let segments: Vec<_> = state.arenas.values().map(|arena| Arc::clone(&arena.segment)).collect();
        let (used, touched, idle) = (state.used, state.touched, state.idle());
        drop(state);
        SlabUsage {
            used,
            reserved: segments.iter().map(|segment| segment.len() as u64).sum(),
            segments: segments.len() as u64,
            sealed: segments.iter().filter(|segment| segment.is_sealed()).count() as u64,
            touched,
            idle,
            resident: segments.iter().map(|segment| segment.resident().unwrap_or(0)).sum(),
        }
    }
}
