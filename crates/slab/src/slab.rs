//! A slab: allocates extents from segments in constant time, reuses freed ranges, and finds an extent by its address.

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

/// How many arenas with enough room are examined to find one whose free memory has been used before.
const EXAMINED_ARENAS: usize = 32;

/// Segment identifiers that are unique to a slab: 40 random bits, then a counter.
pub(crate) struct Names {
    prefix: u64,
    next: u64,
}

const NUMBER_BITS: u32 = 24;

impl Names {
    fn new() -> Self {
        Self { prefix: random() << NUMBER_BITS, next: 1 }
    }

    pub(crate) fn take(&mut self) -> SegmentId {
        if self.next >> NUMBER_BITS > 0 {
            *self = Self::new();
        }
        let id = self.prefix | self.next;
        self.next += 1;
        id
    }
}

/// A hasher of segment identifiers. They cannot be chosen by others, so one multiplication mixes them enough.
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
    // The arenas that have room, ordered by how much, then by age, so that the first fit is the fullest. Full arenas are not listed, so
    // they cost nothing.
    rooms: BTreeSet<(u32, SegmentId)>,
    pub names: Names,
    pub used: u64,
    pub touched: u64,
    /// When the idle bytes exceed this, freeing an extent triggers a trim.
    pub next_trim: u64,
}

impl State {
    pub fn idle(&self) -> u64 {
        self.touched.saturating_sub(self.used)
    }

    /// Update the list of arenas with the room that this one has now.
    pub fn relist(&mut self, id: SegmentId) {
        if let Some(arena) = self.arenas.get_mut(&id) {
            list(&mut self.rooms, id, arena);
        }
    }

    /// Remove an arena without extents. The caller drops it after releasing the lock, because unmapping is slow.
    pub fn remove(&mut self, id: SegmentId) -> Option<Arena> {
        let arena = self.arenas.remove(&id)?;
        if let Some(room) = arena.listed {
            self.rooms.remove(&(room, id));
        }
        self.touched -= arena.touched() as u64;
        Some(arena)
    }

    /// An arena with enough room, preferably one whose free memory has been used before.
    fn choose(&self, need: &Need) -> Option<SegmentId> {
        let fits = || self.rooms.range((need.units, 0)..).map(|(_, id)| *id);
        fits().take(EXAMINED_ARENAS).find(|id| self.arenas[id].idle() >= need.bytes).or_else(|| fits().next())
    }

    /// A place in an arena, and how many of its bytes have not been used before.
    fn allocate_in(&mut self, id: SegmentId, need: &Need) -> Result<Option<(Arc<Segment>, usize, usize)>> {
        let Some(arena) = self.arenas.get_mut(&id) else { return Ok(None) };
        let before = arena.touched();
        let place = arena.allocate(need);
        // Also after an error: the reservation of space in a file may have partly succeeded.
        self.touched += (arena.touched() - before) as u64;
        list(&mut self.rooms, id, arena);
        let Some((offset, fresh)) = place? else { return Ok(None) };
        self.used += need.bytes as u64;
        Ok(Some((Arc::clone(&arena.segment), offset, fresh)))
    }

    /// Free an extent; returns whether its arena has no other extents.
    fn free(&mut self, id: SegmentId, offset: usize) -> bool {
        let Some(arena) = self.arenas.get_mut(&id) else { return false };
        self.used -= arena.free(offset) as u64;
        list(&mut self.rooms, id, arena);
        arena.live.is_empty()
    }
}

/// List an arena by the room that it has now.
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

/// An allocator of extents, which creates segments as needed.
pub struct Slab {
    pub(crate) options: SlabOptions,
    pub(crate) maker: u32,
    pub(crate) state: Mutex<State>,
    /// Held while memory is returned to the system.
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
    /// [`Error::Full`] beyond the limit; [`Error::TooLarge`] beyond [`LARGEST`]; [`Error::Forked`] in a forked child of the
    /// slab's process; an error of the system when it cannot create a segment, or reserve space for one that is a file.
    pub fn allocate(self: &Arc<Self>, length: usize) -> Result<Extent> {
        self.allocate_aligned(length, ALIGNMENT)
    }

    /// As [`Slab::allocate`], at a multiple of `alignment` bytes in the segment and in memory.
    ///
    /// # Errors
    /// As [`Slab::allocate`]; [`Error::Alignment`] unless the alignment is a power of two from [`ALIGNMENT`] to
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

    pub(crate) fn free(&self, id: SegmentId, offset: usize) {
        let mut state = self.state.lock();
        let empty = state.free(id, offset);
        let (idle, watermark) = (state.idle(), self.options.watermark());
        if idle <= watermark {
            state.next_trim = watermark;
        }
        let trim = idle > state.next_trim || (empty && idle > watermark);
        drop(state);
        if trim {
            self.try_trim();
        }
    }

    /// Share an extent after it was written: if it is one of this slab, [`Slab::find`] finds it from now on.
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

    /// The live shared extent that contains the byte at `offset` of `segment`. An extent of 0 bytes is found at its start.
    #[must_use]
    pub fn find(&self, segment: SegmentId, offset: usize) -> Option<Arc<Extent>> {
        // `candidate` releases the lock before the extent can be dropped here: dropping the last reference takes the lock.
        let extent = self.candidate(segment, offset)?;
        let within = offset - extent.offset();
        (within < extent.len() || within == 0).then_some(extent)
    }

    /// The live shared extent that contains all of `place`. An empty range at the very end of an extent counts as contained.
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

    /// The last shared extent that starts at or before `offset`.
    fn candidate(&self, segment: SegmentId, offset: usize) -> Option<Arc<Extent>> {
        let state = self.state.lock();
        let (_, live) = state.arenas.get(&segment)?.live.range(..=offset).next_back()?;
        live.shared.upgrade()
    }

    /// The segment with that identifier, if it is one of this slab's.
    #[must_use]
    pub fn segment(&self, id: SegmentId) -> Option<Arc<Segment>> {
        self.state.lock().arenas.get(&id).map(|arena| Arc::clone(&arena.segment))
    }

    /// The identifiers of its segments, in no particular order. A segment that is no longer listed was dropped, and may be unmapped everywhere.
    #[must_use]
    pub fn segment_ids(&self) -> Vec<SegmentId> {
        self.state.lock().arenas.keys().copied().collect()
    }

    /// Bytes of memory that it has by its own count, in extents and idle. Makes no system call.
    #[must_use]
    pub fn touched(&self) -> u64 {
        self.state.lock().touched
    }

    /// Bytes of memory that it has by its own count and that are in no extent.
    #[must_use]
    pub fn idle(&self) -> u64 {
        self.state.lock().idle()
    }

    /// The current usage. Makes a system call for each segment.
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
