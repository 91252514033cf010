//! A page with a hash table: keys and the states of their aggregates, found by open addressing.
//!
//! A slot is empty (0), or has 16 bits of the hash of a key and the number of its entry plus one. Entries are numbered in the order of their
//! creation; the views of their keys and the states of each aggregate are arrays.

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow_array::{ArrayRef, BinaryViewArray, Float64Array, Int64Array, RecordBatch};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer, ScalarBuffer};
use craton_slab::Extent;

use super::aggregate::{Number, Rows};
use super::keys::{INLINE, Keys, Routed, hash_inline, hash_long, length};
use super::layout::{Form, Layout};
use crate::error::{Error, Result};
use crate::services::held::{Held, fetch};

/// How many rows ahead slots are fetched into the processor's cache.
const AHEAD: usize = 16;

/// How many entries are copied to another page at a time.
const BLOCK: usize = 32;

/// Bytes of open pages, which are subtracted from the total when the value is dropped.
pub(super) struct Open {
    total: Arc<AtomicU64>,
    bytes: u64,
}

impl Open {
    pub(super) fn new(total: &Arc<AtomicU64>, bytes: u64) -> Self {
        total.fetch_add(bytes, Ordering::Relaxed);
        Self { total: Arc::clone(total), bytes }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.total.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// An open page.
pub(super) struct HashPage {
    extent: Extent,
    // The start of the extent's memory.
    base: NonNull<u8>,
    layout: Layout,
    // The number of entries.
    len: usize,
    // Used bytes of the heap of long keys, and how many of them belong to removed entries.
    heap: usize,
    lost: usize,
    open: Open,
}

// SAFETY: the page owns the extent that `base` points into.
unsafe impl Send for HashPage {}
// SAFETY: a shared page is only read.
unsafe impl Sync for HashPage {}

/// The parts of a page that lookups use.
struct Parts<'a> {
    slots: &'a mut [u32],
    views: &'a mut [u128],
    heap: &'a mut [u8],
}

#[inline(always)]
fn tag_of(hash: u64) -> u32 {
    (hash >> 20) as u32 & 0xffff
}

impl Parts<'_> {
    /// Whether the key `view` of `keys` is the stored key `stored`.
    #[inline(always)]
    fn equal(&self, keys: &Keys<'_>, view: u128, stored: u128) -> bool {
        if length(view) <= INLINE {
            return view == stored;
        }
        view as u64 == stored as u64 && keys.long(view) == self.long(stored)
    }

    #[inline(always)]
    fn long(&self, stored: u128) -> &[u8] {
        let offset = (stored >> 96) as usize;
        &self.heap[offset..offset + length(stored)]
    }

    fn hash(&self, stored: u128) -> u64 {
        if length(stored) <= INLINE { hash_inline(stored) } else { hash_long(self.long(stored)) }
    }

    /// The entry of a key, or the empty slot at which the search ended.
    #[inline(always)]
    fn find(&self, keys: &Keys<'_>, view: u128, hash: u64) -> std::result::Result<usize, usize> {
        let mask = self.slots.len() - 1;
        let mut slot = hash as usize & mask;
        loop {
            let found = self.slots[slot];
            if found == 0 {
                return Err(slot);
            }
            if found >> 16 == tag_of(hash) {
                let entry = (found & 0xffff) as usize - 1;
                if self.equal(keys, view, self.views[entry]) {
                    return Ok(entry);
                }
            }
            slot = (slot + 1) & mask;
        }
    }

    /// The first empty slot for a hash.
    #[inline(always)]
    fn vacant(&self, hash: u64) -> usize {
        let mask = self.slots.len() - 1;
        let mut slot = hash as usize & mask;
        while self.slots[slot] != 0 {
            slot = (slot + 1) & mask;
        }
        slot
    }
}

/// A page that entries of another page are copied to.
struct Target<'a> {
    parts: Parts<'a>,
    capacity: usize,
    len: usize,
    heap: usize,
}

impl<'a> Target<'a> {
    fn new(page: &'a mut HashPage) -> Self {
        let (capacity, len, heap) = (page.layout.capacity, page.len, page.heap);
        Self { parts: page.parts(), capacity, len, heap }
    }

    /// Insert a key of another page, which this page does not have; returns its entry, or `None` if there is no room.
    #[inline(always)]
    fn insert(&mut self, source: &Parts<'_>, view: u128, hash: u64) -> Option<usize> {
        let entry = self.len;
        if entry == self.capacity {
            return None;
        }
        self.parts.views[entry] = if length(view) <= INLINE {
            view
        } else {
            let key = source.long(view);
            self.parts.heap.get_mut(self.heap..self.heap + key.len())?.copy_from_slice(key);
            let stored = (view & u128::from(u64::MAX)) | (self.heap as u128) << 96;
            self.heap += key.len();
            stored
        };
        let slot = self.parts.vacant(hash);
        self.parts.slots[slot] = tag_of(hash) << 16 | (entry as u32 + 1);
        self.len += 1;
        Some(entry)
    }
}

impl HashPage {
    /// An empty page in that extent, which may have any contents.
    ///
    /// # Errors
    /// When the extent is read-only or smaller than the layout.
    pub(super) fn new(mut extent: Extent, layout: Layout, open: Open) -> Result<Self> {
        let memory = extent.as_mut_slice().ok_or_else(|| Error::Invalid("the extent is read-only".into()))?;
        if memory.len() < layout.bytes || memory.as_ptr().addr() % 64 != 0 {
            return Err(Error::Invalid(format!("an extent of {} bytes for {} bytes", memory.len(), layout.bytes)));
        }
        memory[..layout.views_at].fill(0);
        memory[layout.mask_at(0)..layout.heap_at].fill(0);
        let base = NonNull::from(memory).cast::<u8>();
        Ok(Self { extent, base, layout, len: 0, heap: 0, lost: 0, open })
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The size of the page in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.layout.bytes
    }

    /// Bytes of long keys for each entry.
    pub(super) fn long(&self) -> f64 {
        self.heap as f64 / self.len.max(1) as f64
    }

    /// Whether much of the memory of long keys belongs to removed entries.
    pub(super) fn is_wasteful(&self) -> bool {
        self.lost > self.layout.heap / 4
    }

    fn parts(&mut self) -> Parts<'_> {
        let layout = self.layout;
        // SAFETY: by the layout, the parts are disjoint, aligned and within the extent, which this page owns and `new` has initialised.
        unsafe {
            Parts {
                slots: self.items(0, layout.slots),
                views: self.items(layout.views_at, layout.capacity),
                heap: self.items(layout.heap_at, layout.heap),
            }
        }
    }

    /// Items that start at that byte.
    ///
    /// # Safety
    /// They are within the extent, aligned, and there is no other reference to them.
    #[allow(clippy::mut_from_ref)]
    unsafe fn items<T>(&self, at: usize, count: usize) -> &mut [T] {
        // SAFETY: by the function's contract.
        unsafe { std::slice::from_raw_parts_mut(self.base.add(at).cast::<T>().as_ptr(), count) }
    }

    /// The states and the mask of an aggregate; the mask is empty if it has none.
    fn states(&mut self, form: &Form, aggregate: usize) -> (&mut [u64], &mut [u8]) {
        let bits =
            form.masks[aggregate].map_or((0, 0), |mask| (self.layout.mask_at(mask), self.layout.capacity.div_ceil(8)));
        // SAFETY: as in `parts`; states and masks are disjoint.
        unsafe { (self.items(self.layout.states_at(aggregate), self.layout.capacity), self.items(bits.0, bits.1)) }
    }

    /// Find or create the entries of rows; returns the number of rows done, which is less than all if the page is full.
    pub(super) fn place(&mut self, form: &Form, keys: &Keys<'_>, rows: &[Routed], entries: &mut Vec<u32>) -> usize {
        entries.clear();
        entries.reserve(rows.len());
        let (capacity, before, mut len, mut heap) = (self.layout.capacity, self.len, self.len, self.heap);
        let parts = self.parts();
        let mask = parts.slots.len() - 1;
        for (number, routed) in rows.iter().enumerate() {
            if let Some(later) = rows.get(number + AHEAD) {
                fetch(parts.slots, later.hash as usize & mask);
            }
            let view = keys.views[routed.row as usize];
            let entry = match parts.find(keys, view, routed.hash) {
                Ok(entry) => entry,
                Err(slot) => {
                    if len == capacity {
                        break;
                    }
                    parts.views[len] = if length(view) <= INLINE {
                        view
                    } else {
                        let key = keys.long(view);
                        let Some(place) = parts.heap.get_mut(heap..heap + key.len()) else { break };
                        place.copy_from_slice(key);
                        let stored = (view & u128::from(u64::MAX)) | (heap as u128) << 96;
                        heap += key.len();
                        stored
                    };
                    len += 1;
                    parts.slots[slot] = tag_of(routed.hash) << 16 | len as u32;
                    len - 1
                }
            };
            entries.push(entry as u32);
        }
        (self.len, self.heap) = (len, heap);
        for (number, aggregate) in form.aggregates.iter().enumerate() {
            self.states(form, number).0[before..len].fill(aggregate.initial());
        }
        entries.len()
    }

    /// Change the states of entries by the values of rows. If `merge`, the values are partial results.
    ///
    /// # Errors
    /// [`Overflow`](Error::Overflow).
    pub(super) fn update(
        &mut self,
        form: &Form,
        entries: &[u32],
        rows: &[Routed],
        of: &Rows<'_>,
        merge: bool,
    ) -> Result<()> {
        for (number, aggregate) in form.aggregates.iter().enumerate() {
            let aggregate = if merge { aggregate.merging() } else { *aggregate };
            let (states, mask) = self.states(form, number);
            if !aggregate.update(states, mask, entries, rows, &of.values[number]) {
                return Err(Error::Overflow(number));
            }
        }
        Ok(())
    }

    /// The entry of each row's key.
    pub(super) fn find(&mut self, keys: &Keys<'_>, rows: &[Routed], mut found: impl FnMut(&Routed, Option<usize>)) {
        let parts = self.parts();
        let mask = parts.slots.len() - 1;
        for (number, routed) in rows.iter().enumerate() {
            if let Some(later) = rows.get(number + AHEAD) {
                fetch(parts.slots, later.hash as usize & mask);
            }
            found(routed, parts.find(keys, keys.views[routed.row as usize], routed.hash).ok());
        }
    }

    /// The state of an aggregate in an entry; `None` if it is null.
    pub(super) fn state(&mut self, form: &Form, aggregate: usize, entry: usize) -> Option<u64> {
        let (states, mask) = self.states(form, aggregate);
        let is_null = mask.get(entry / 8).is_some_and(|bits| bits >> (entry % 8) & 1 == 0);
        (!is_null).then(|| states[entry])
    }

    /// Remove the entry of a key; returns whether there was one. The last entry takes its number.
    pub(super) fn remove(&mut self, form: &Form, keys: &Keys<'_>, routed: &Routed) -> bool {
        let last = self.len.wrapping_sub(1);
        let parts = self.parts();
        let Ok(entry) = parts.find(keys, keys.views[routed.row as usize], routed.hash) else { return false };
        let (removed, moved) = (parts.views[entry], parts.views[last]);
        let mask = parts.slots.len() - 1;
        let slot_of = |parts: &Parts<'_>, hash: u64, entry: usize| {
            let wanted = tag_of(hash) << 16 | (entry as u32 + 1);
            let mut slot = hash as usize & mask;
            while parts.slots[slot] != wanted {
                slot = (slot + 1) & mask;
            }
            slot
        };
        if entry != last {
            let slot = slot_of(&parts, parts.hash(moved), last);
            let hole = slot_of(&parts, routed.hash, entry);
            parts.slots[slot] = parts.slots[slot] & 0xffff_0000 | (entry as u32 + 1);
            // Mark the hole, so that it is found below.
            parts.slots[hole] = parts.slots[hole] & 0xffff_0000 | (last as u32 + 1);
        }
        let mut hole = slot_of(&parts, routed.hash, last);
        parts.views[entry] = moved;
        // Move later entries of the run of full slots into the hole, unless they would come before the slot of their hash.
        let mut next = hole;
        loop {
            next = (next + 1) & mask;
            let found = parts.slots[next];
            if found == 0 {
                break;
            }
            let home = parts.hash(parts.views[(found & 0xffff) as usize - 1]) as usize & mask;
            if next.wrapping_sub(home) & mask >= next.wrapping_sub(hole) & mask {
                parts.slots[hole] = found;
                hole = next;
            }
        }
        parts.slots[hole] = 0;
        for number in 0..form.aggregates.len() {
            let (states, bits) = self.states(form, number);
            states[entry] = states[last];
            if !bits.is_empty() {
                let bit = bits[last / 8] >> (last % 8) & 1;
                bits[entry / 8] = bits[entry / 8] & !(1 << (entry % 8)) | bit << (entry % 8);
                bits[last / 8] &= !(1 << (last % 8));
            }
        }
        if length(removed) > INLINE {
            self.lost += length(removed);
        }
        self.len = last;
        true
    }

    /// Copy all entries to other pages: to the one whose number is the `bits` bits of the hash above `shift`. Returns false if they are full;
    /// then they have only a part of the entries.
    pub(super) fn divide(&mut self, form: &Form, targets: &mut [&mut HashPage], shift: u32) -> bool {
        let len = self.len;
        let mut places = Vec::with_capacity(len);
        {
            let source = self.parts();
            let several = u64::from(targets.len() > 1);
            let mut others: Vec<Target<'_>> = targets.iter_mut().map(|page| Target::new(page)).collect();
            let mut hashes = [0; BLOCK];
            for views in source.views[..len].chunks(BLOCK) {
                for (hash, view) in hashes.iter_mut().zip(views) {
                    *hash = source.hash(*view);
                    let slots = &others[(*hash >> shift & several) as usize].parts.slots;
                    fetch(slots, *hash as usize & (slots.len() - 1));
                }
                for (hash, view) in hashes.iter().zip(views) {
                    let number = *hash >> shift & several;
                    let Some(entry) = others[number as usize].insert(&source, *view, *hash) else { return false };
                    places.push((entry as u32) << 1 | number as u32);
                }
            }
            let ends: Vec<(usize, usize)> = others.into_iter().map(|target| (target.len, target.heap)).collect();
            for (page, (len, heap)) in targets.iter_mut().zip(ends) {
                (page.len, page.heap) = (len, heap);
            }
        }
        for number in 0..form.aggregates.len() {
            let (states, bits) = self.states(form, number);
            for (entry, place) in places.iter().enumerate() {
                let (target, at) = (&mut *targets[(place & 1) as usize], (place >> 1) as usize);
                let (others, marks) = target.states(form, number);
                others[at] = states[entry];
                if !bits.is_empty() {
                    marks[at / 8] |= (bits[entry / 8] >> (entry % 8) & 1) << (at % 8);
                }
            }
        }
        true
    }

    /// A copy of the page's contents.
    ///
    /// # Errors
    /// None, unless the page is damaged.
    pub(super) fn copied(&mut self, form: &Form) -> Result<RecordBatch> {
        let (len, heap) = (self.len, self.heap);
        let parts = self.parts();
        let long = if heap > 0 { vec![Buffer::from(&parts.heap[..heap])] } else { Vec::new() };
        // SAFETY: the views of long keys refer to the used part of the heap.
        let keys = unsafe { BinaryViewArray::new_unchecked(parts.views[..len].to_vec().into(), long.into(), None) };
        let mut columns: Vec<ArrayRef> = vec![Arc::new(keys)];
        for (number, aggregate) in form.aggregates.iter().enumerate() {
            let (states, mask) = self.states(form, number);
            let nulls = form.masks[number].map(|_| NullBuffer::new(BooleanBuffer::new(Buffer::from(&*mask), 0, len)));
            columns.push(array_of(aggregate.number(), states[..len].to_vec(), nulls));
        }
        RecordBatch::try_new(Arc::clone(&form.schema), columns).map_err(|error| Error::Invalid(error.to_string()))
    }

    /// The page as arrays over its memory, and the extent that they refer to. The null key is [`NULL_KEY`](super::keys::NULL_KEY) there.
    ///
    /// # Errors
    /// None, unless the page is damaged.
    pub(super) fn into_batch(self, form: &Form) -> Result<(RecordBatch, Arc<Held>)> {
        let Self { extent, layout, len, heap, open, .. } = self;
        drop(open);
        let held = Arc::new(Held { extent });
        let buffer = |at: usize, bytes: usize| held.buffer(at, bytes);
        let views = ScalarBuffer::<u128>::new(buffer(layout.views_at, len * 16), 0, len);
        let long = if heap > 0 { vec![buffer(layout.heap_at, heap)] } else { Vec::new() };
        // SAFETY: the views of long keys refer to the used part of the heap.
        let keys = unsafe { BinaryViewArray::new_unchecked(views, long.into(), None) };
        let mut columns: Vec<ArrayRef> = vec![Arc::new(keys)];
        for (number, aggregate) in form.aggregates.iter().enumerate() {
            let states = buffer(layout.states_at(number), len * 8);
            let nulls = form.masks[number]
                .map(|mask| NullBuffer::new(BooleanBuffer::new(buffer(layout.mask_at(mask), len.div_ceil(8)), 0, len)));
            columns.push(match aggregate.number() {
                Number::Int => Arc::new(Int64Array::new(ScalarBuffer::new(states, 0, len), nulls)),
                Number::Float => Arc::new(Float64Array::new(ScalarBuffer::new(states, 0, len), nulls)),
            });
        }
        let batch = RecordBatch::try_new(Arc::clone(&form.schema), columns);
        Ok((batch.map_err(|error| Error::Invalid(error.to_string()))?, held))
    }
}

/// An array of results.
pub(super) fn array_of(number: Number, states: Vec<u64>, nulls: Option<NullBuffer>) -> ArrayRef {
    let (count, states) = (states.len(), Buffer::from_vec(states));
    match number {
        Number::Int => Arc::new(Int64Array::new(ScalarBuffer::new(states, 0, count), nulls)),
        Number::Float => Arc::new(Float64Array::new(ScalarBuffer::new(states, 0, count), nulls)),
    }
}
