//! The copy routines: they copy one leaf of one chunk, partition after partition.

use std::sync::atomic::{AtomicU64, Ordering};

use arrow_buffer::{BooleanBuffer, Buffer};

use super::cache::{Ahead, Ends, Line, prefetch, stream_bytes};
use super::plan::{Layout, Leaf, Sharing, Source, Views};
use super::sizes::INLINE;
use super::sorted::Chunk;

/// The starts of a leaf's buffers in each partition. Their lengths are those of the layout.
pub(super) struct Target<'a> {
    /// Numbers, bits, offsets or views.
    pub items: &'a [*mut u8],
    /// Bytes of strings; empty where the leaf has none of its own.
    pub payload: &'a [*mut u8],
    /// For each partition, the units before the chunk in the group; empty if sizes do not vary.
    pub before: &'a [u64],
    pub after: &'a [u64],
}

/// How many rows ahead the bytes of strings are prefetched.
const AHEAD: usize = 32;

impl Leaf {
    /// The size of the values if they are written by streaming stores; otherwise `None`.
    pub fn streamed(&self) -> Option<usize> {
        match self.layout {
            Layout::Fixed(size @ (4 | 8 | 16)) => Some(size),
            Layout::Views(_) => Some(16),
            _ => None,
        }
    }
}

/// Copy a chunk's rows of one leaf to their partitions. `ends` is for streamed leaves: the caller passes it from chunk to chunk and
/// finishes it. `stage` is scratch memory.
///
/// # Safety
/// The target's buffers must have room for the rows (and units) before the chunk and for the chunk's own. Bitmaps must be zeroed
/// (validity bitmaps: all set), with lengths that are multiples of 8 bytes. No other thread may write to the chunk's part of the
/// buffers. `ends` must have been created for an earlier chunk or this one, and passed through all chunks from that one on.
pub(super) unsafe fn scatter(leaf: &Leaf, chunk: &Chunk, target: &Target, ends: &mut Ends, stage: &mut Stage) {
    // SAFETY: the callees need exactly what the caller guarantees.
    unsafe {
        match (&leaf.layout, &leaf.sources[chunk.batch]) {
            (Layout::Fixed(1), Source::Fixed(values)) => fixed::<1>(values, chunk, target),
            (Layout::Fixed(2), Source::Fixed(values)) => fixed::<2>(values, chunk, target),
            (Layout::Fixed(4), Source::Fixed(values)) => lines::<u32>(values, chunk, target, ends),
            (Layout::Fixed(8), Source::Fixed(values)) => lines::<u64>(values, chunk, target, ends),
            (Layout::Fixed(12), Source::Fixed(values)) => fixed::<12>(values, chunk, target),
            (Layout::Fixed(16), Source::Fixed(values)) => lines::<u128>(values, chunk, target, ends),
            (Layout::Fixed(32), Source::Fixed(values)) => fixed::<32>(values, chunk, target),
            (Layout::Fixed(width), Source::Fixed(values)) => any_fixed(*width, values, chunk, target),
            (Layout::Bits, Source::Bits(Some(bits))) => scatter_bits(bits, chunk, target),
            (Layout::Bits, Source::Bits(None)) => set_bits(chunk, target),
            (Layout::Valid, Source::Bits(Some(bits))) => clear_bits(bits, chunk, target),
            (Layout::Valid, Source::Bits(None)) => {}
            (Layout::Ranges { wide: false, unit }, Source::Ranges { offsets, payload }) => {
                ranges(offsets.typed_data::<i32>(), payload, *unit, chunk, target);
            }
            (Layout::Ranges { wide: true, unit }, Source::Ranges { offsets, payload }) => {
                ranges(offsets.typed_data::<i64>(), payload, *unit, chunk, target);
            }
            // Without long strings, and without nulls, whose views are undefined, views are plain values.
            (Layout::Views(_), Source::Views(source)) if source.buffers.is_empty() && source.nulls.is_none() => {
                lines::<u128>(&source.views, chunk, target, ends);
            }
            (Layout::Views(Sharing::Each), Source::Views(source)) if !source.buffers.is_empty() => {
                copied_views(source, chunk, target, ends, stage);
            }
            (Layout::Views(Sharing::Whole(_)), Source::Views(source)) => {
                moved_views(source, chunk, target, ends, rebased)
            }
            (Layout::Views(_), Source::Views(source)) => moved_views(source, chunk, target, ends, |view, to| {
                view & !(u128::from(u32::MAX) << 64) | (u128::from(to) << 64)
            }),
            _ => unreachable!("a leaf's sources have its layout"),
        }
    }
}

/// Copy values whose size divides that of a cache line.
unsafe fn lines<T: Line>(values: &Buffer, chunk: &Chunk, target: &Target, ends: &mut Ends) {
    let size = size_of::<T>();
    let values = &values.as_slice()[chunk.start * size..(chunk.start + chunk.order.len()) * size];
    let mut next = Ahead::new(values, target.items.len());
    let values = values.as_ptr().cast::<T>();
    for (partition, items) in target.items.iter().enumerate() {
        let run = chunk.run(partition);
        next.step();
        // SAFETY: the rows of the chunk are within the values sliced above; the target has room for them, and its buffers start at
        // multiples of 64 bytes.
        unsafe {
            let at = chunk.before[partition] as usize;
            ends.fill(partition, items.cast::<T>(), at, run, |row| values.add(usize::from(row)).read_unaligned());
        }
    }
}

/// Copy values of `W` bytes.
unsafe fn fixed<const W: usize>(values: &Buffer, chunk: &Chunk, target: &Target) {
    let values = &values.as_slice()[chunk.start * W..(chunk.start + chunk.order.len()) * W];
    let values = values.as_ptr().cast::<[u8; W]>();
    for (partition, items) in target.items.iter().enumerate() {
        let run = chunk.run(partition);
        // SAFETY: the rows of the chunk are within the values sliced above; the target has room for them.
        unsafe {
            let out = items.cast::<[u8; W]>().add(chunk.before[partition] as usize);
            for (place, row) in run.iter().enumerate() {
                out.add(place).write(values.add(usize::from(*row)).read());
            }
        }
    }
}

unsafe fn any_fixed(width: usize, values: &Buffer, chunk: &Chunk, target: &Target) {
    let values = &values.as_slice()[chunk.start * width..(chunk.start + chunk.order.len()) * width];
    for (partition, items) in target.items.iter().enumerate() {
        for (place, row) in chunk.run(partition).iter().enumerate() {
            let value = &values[usize::from(*row) * width..(usize::from(*row) + 1) * width];
            // SAFETY: the target has room for the rows before and the run.
            unsafe {
                let out = items.add((chunk.before[partition] as usize + place) * width);
                out.copy_from_nonoverlapping(value.as_ptr(), width);
            }
        }
    }
}

/// Set bits of a word atomically, because another thread may be setting other bits of it.
///
/// # Safety
/// `words` must be a zeroed buffer of complete words that contains the word.
unsafe fn add_bits(words: *mut u8, word: usize, bits: u64) {
    if bits != 0 {
        // SAFETY: buffers start at multiples of 64, and while they are filled, their bits are only accessed atomically.
        let word = unsafe { AtomicU64::from_ptr(words.cast::<u64>().add(word)) };
        // Arrow counts bits from the least significant one of the first byte.
        word.fetch_or(bits.to_le(), Ordering::Relaxed);
    }
}

unsafe fn scatter_bits(bits: &BooleanBuffer, chunk: &Chunk, target: &Target) {
    let (bytes, first) = (bits.values(), bits.offset() + chunk.start);
    for (partition, items) in target.items.iter().enumerate() {
        let mut place = chunk.before[partition] as usize;
        let mut word = 0_u64;
        for row in chunk.run(partition) {
            let bit = first + usize::from(*row);
            word |= u64::from(bytes[bit / 8] >> (bit % 8) & 1) << (place % 64);
            place += 1;
            if place % 64 == 0 {
                // SAFETY: the target has room for the rows before and the run.
                unsafe { add_bits(*items, place / 64 - 1, word) };
                word = 0;
            }
        }
        // SAFETY: as above; without bits, no memory is accessed.
        unsafe { add_bits(*items, place / 64, word) };
    }
}

/// Clear the validity bits of rows whose values are null, atomically, because another thread may change other bits of the word.
unsafe fn clear_bits(bits: &BooleanBuffer, chunk: &Chunk, target: &Target) {
    let (bytes, first) = (bits.values(), bits.offset() + chunk.start);
    for (partition, items) in target.items.iter().enumerate() {
        let mut place = chunk.before[partition] as usize;
        let mut word = 0_u64;
        let clear = |number: usize, word: u64| {
            if word != 0 {
                // SAFETY: as for `add_bits`; the target has room for the rows before and the run.
                let place = unsafe { AtomicU64::from_ptr(items.cast::<u64>().add(number)) };
                place.fetch_and(!word.to_le(), Ordering::Relaxed);
            }
        };
        for row in chunk.run(partition) {
            let bit = first + usize::from(*row);
            word |= u64::from(!bytes[bit / 8] >> (bit % 8) & 1) << (place % 64);
            place += 1;
            if place % 64 == 0 {
                clear(place / 64 - 1, word);
                word = 0;
            }
        }
        clear(place / 64, word);
    }
}

unsafe fn set_bits(chunk: &Chunk, target: &Target) {
    for (partition, items) in target.items.iter().enumerate() {
        let mut place = chunk.before[partition] as usize;
        let end = place + chunk.run(partition).len();
        while place < end {
            let take = (64 - place % 64).min(end - place);
            // SAFETY: the target has room for the rows before and the run.
            unsafe { add_bits(*items, place / 64, (u64::MAX >> (64 - take)) << (place % 64)) };
            place += take;
        }
    }
}

trait Offset: Copy {
    fn get(self) -> usize;
    fn of(value: u64) -> Self;
}

impl Offset for i32 {
    #[inline(always)]
    fn get(self) -> usize {
        self as usize
    }
    #[inline(always)]
    fn of(value: u64) -> Self {
        value as i32
    }
}

impl Offset for i64 {
    #[inline(always)]
    fn get(self) -> usize {
        self as usize
    }
    #[inline(always)]
    fn of(value: u64) -> Self {
        value as i64
    }
}

unsafe fn ranges<O: Offset>(offsets: &[O], payload: &Buffer, unit: usize, chunk: &Chunk, target: &Target) {
    let offsets = &offsets[chunk.start..=chunk.start + chunk.order.len()];
    let payload = payload.as_slice();
    for (partition, items) in target.items.iter().enumerate() {
        let run = chunk.run(partition);
        if run.is_empty() {
            continue;
        }
        let (mut position, end) = (target.before[partition], target.after[partition]);
        // SAFETY: there is one more offset than rows, and the units are those that `sizes` computed from these offsets.
        unsafe {
            let out = items.cast::<O>().add(chunk.before[partition] as usize + 1);
            let bytes = target.payload[partition];
            for (place, row) in run.iter().enumerate() {
                let (from, to) = (offsets[usize::from(*row)].get(), offsets[usize::from(*row) + 1].get());
                let value = &payload[from * unit..to * unit];
                let (behind, room) = (payload.len() - from * unit, (end - position) as usize * unit);
                copy(value, behind, bytes.add(position as usize * unit), room);
                position += (to - from) as u64;
                out.add(place).write(O::of(position));
            }
        }
    }
}

/// The most bytes of a short string.
const SHORT: usize = 64;

/// Copy a value. A short one is copied as 64 bytes if that is within both buffers: a mispredicted branch on the length costs more
/// than copying unneeded bytes.
///
/// # Safety
/// `behind` bytes must be readable from the value's start on, and `room` bytes writable at `out`; both at least the value's length.
/// The bytes after the copied value are undefined.
#[inline(always)]
unsafe fn copy(value: &[u8], behind: usize, out: *mut u8, room: usize) {
    let least = behind.min(room);
    // SAFETY: both lengths are within the bounds that the caller guarantees.
    unsafe {
        if value.len() <= SHORT && least >= SHORT {
            out.copy_from_nonoverlapping(value.as_ptr(), SHORT);
        } else {
            out.copy_from_nonoverlapping(value.as_ptr(), value.len());
        }
    }
}

/// Scratch memory.
#[derive(Default)]
pub(super) struct Stage {
    views: Vec<u128>,
    bytes: Vec<u8>,
}

/// The most bytes of long strings of a run that are first gathered in the cache, and then written by streaming stores.
const STAGED: usize = 1 << 16;

/// Copy views whose long strings are copied one by one; or copy all data buffers, if these have fewer bytes.
unsafe fn copied_views(source: &Views, chunk: &Chunk, target: &Target, ends: &mut Ends, stage: &mut Stage) {
    let views = &source.views.typed_data::<u128>()[chunk.start..chunk.start + chunk.order.len()];
    let mut next = Ahead::new(views, target.items.len());
    let mut later = chunk.order.get(AHEAD..).unwrap_or_default().iter();
    for (partition, items) in target.items.iter().enumerate() {
        next.step();
        let (before, end) = (target.before[partition], target.after[partition]);
        let (at, run) = (chunk.before[partition] as usize, chunk.run(partition));
        let length = (end - before) as usize;
        // SAFETY: the target has room for the views, and for the bytes that `sizes` computed by the same rule.
        unsafe {
            let bytes = target.payload[partition].add(before as usize);
            if let Some(few) = source.few.as_ref().filter(|few| few.len() == length) {
                bytes.copy_from_nonoverlapping(few.as_ptr(), few.len());
                ends.fill(partition, items.cast::<u128>(), at, run, |row| {
                    moved_view(source, chunk, views, row, |view, to| rebased(view, before as u32 + to))
                });
                later.by_ref().take(run.len()).for_each(drop);
                continue;
            }
            let staged = length <= STAGED;
            let (out, room) = if staged {
                // Copying a short string may write up to `SHORT` bytes.
                stage.bytes.resize(STAGED + SHORT, 0);
                (stage.bytes.as_mut_ptr(), length + SHORT)
            } else {
                (bytes, length)
            };
            stage.views.resize(chunk.order.len(), 0);
            let mut done = 0;
            for (row, moved) in run.iter().zip(&mut stage.views) {
                if let Some(row) = later.next() {
                    ask(source, views, *row);
                }
                let view = views[usize::from(*row)];
                let length = view as u32;
                *moved = view;
                if !source.is_valid(chunk.start + usize::from(*row)) {
                    *moved = 0;
                } else if length > INLINE {
                    let buffer = source.buffers[(view >> 64) as u32 as usize].as_slice();
                    let from = &buffer[(view >> 96) as u32 as usize..];
                    let value = &from[..length as usize];
                    copy(value, from.len(), out.add(done), room - done);
                    *moved = u128::from(view as u64) | (u128::from(before + done as u64) << 96);
                    done += length as usize;
                }
            }
            let mut moved = stage.views.iter();
            ends.fill(partition, items.cast::<u128>(), at, run, |_| moved.next().copied().unwrap_or_default());
            if staged {
                stream_bytes(out, bytes, done);
            }
        }
    }
}

/// Prefetch the bytes of a row's long string, which may be anywhere in memory, for example in a dictionary.
#[inline(always)]
fn ask(source: &Views, views: &[u128], row: u16) {
    let view = views[usize::from(row)];
    let length = view as u32;
    // The view of a null is undefined, so check its range.
    if length > INLINE
        && let Some(buffer) = source.buffers.get((view >> 64) as u32 as usize)
    {
        let start = buffer.as_ptr().wrapping_add((view >> 96) as usize);
        prefetch(start);
        prefetch(start.wrapping_add(length as usize - 1));
    }
}

/// Copy views whose long strings have moved: `moved` makes the new view, given the new place of its buffer.
#[inline(always)]
unsafe fn moved_views(
    source: &Views,
    chunk: &Chunk,
    target: &Target,
    ends: &mut Ends,
    moved: impl Fn(u128, u32) -> u128,
) {
    let views = &source.views.typed_data::<u128>()[chunk.start..chunk.start + chunk.order.len()];
    let mut next = Ahead::new(views, target.items.len());
    for (partition, items) in target.items.iter().enumerate() {
        next.step();
        // SAFETY: the target has room for the views.
        unsafe {
            let at = chunk.before[partition] as usize;
            ends.fill(partition, items.cast::<u128>(), at, chunk.run(partition), |row| {
                moved_view(source, chunk, views, row, &moved)
            });
        }
    }
}

/// The moved view of a row. Branch-free, because the length of strings is hard to predict.
#[inline(always)]
fn moved_view(source: &Views, chunk: &Chunk, views: &[u128], row: u16, moved: impl Fn(u128, u32) -> u128) -> u128 {
    let view = views[usize::from(row)];
    if !source.is_valid(chunk.start + usize::from(row)) {
        return 0;
    }
    let long = view as u32 > INLINE;
    let buffer = if long { (view >> 64) as u32 as usize } else { 0 };
    let to = if source.moved.is_empty() { &[0][..] } else { &source.moved[..] };
    let mask = u128::from(long).wrapping_neg();
    moved(view, to[buffer]) & mask | view & !mask
}

/// Rebase a view to buffer 0, at offset `to`. The end of its bytes must be below 2³¹. The result for an inline view is meaningless.
#[inline(always)]
fn rebased(view: u128, to: u32) -> u128 {
    u128::from(view as u64) | (u128::from(((view >> 96) as u32).wrapping_add(to)) << 96)
}
