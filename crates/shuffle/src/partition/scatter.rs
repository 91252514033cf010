//! The copies themselves: one leaf of one chunk, partition after partition.

use std::sync::atomic::{AtomicU64, Ordering};

use arrow_buffer::{BooleanBuffer, Buffer};

use super::cache::{Ahead, Ends, Line, prefetch, stream_bytes};
use super::chunk::Chunk;
use super::plan::{Layout, Leaf, Sharing, Source, Views};

/// A view's length is in its low 32 bits; strings up to this long are in the view itself.
const INLINE: u32 = 12;

/// Where a leaf's buffers of each partition start. They are as long as the layout says.
pub(super) struct Target<'a> {
    /// Numbers, bits, offsets or views.
    pub items: &'a [*mut u8],
    /// Bytes of strings; empty where the leaf has none of its own.
    pub payload: &'a [*mut u8],
    /// For each partition, the units of the group's chunks before the chunk and with it; empty where sizes do not vary.
    pub before: &'a [u64],
    pub after: &'a [u64],
}

/// So many rows before a string is copied, its bytes are asked for.
const AHEAD: usize = 32;

/// Units of the rows from `start` on in each of so many partitions; `numbers` are the rows' partitions. Rows are read one
/// after another, as memory likes it.
pub(super) fn sizes(leaf: &Leaf, source: &Source, start: usize, numbers: &[u16], partitions: usize) -> Vec<u64> {
    let mut sizes = vec![0_u64; partitions];
    match source {
        Source::Ranges { offsets, .. } if matches!(leaf.layout, Layout::Ranges { wide: true, .. }) => {
            let offsets = &offsets.typed_data::<i64>()[start..=start + numbers.len()];
            for (number, pair) in numbers.iter().zip(offsets.windows(2)) {
                sizes[usize::from(*number)] += (pair[1] - pair[0]) as u64;
            }
        }
        Source::Ranges { offsets, .. } => {
            let offsets = &offsets.typed_data::<i32>()[start..=start + numbers.len()];
            for (number, pair) in numbers.iter().zip(offsets.windows(2)) {
                sizes[usize::from(*number)] += (pair[1] - pair[0]) as u64;
            }
        }
        // Nothing is long where there are no buffers.
        Source::Views(source) if source.buffers.is_empty() => {}
        Source::Views(source) => {
            let views = &source.views.typed_data::<u128>()[start..start + numbers.len()];
            for (row, (number, view)) in numbers.iter().zip(views).enumerate() {
                let length = *view as u32;
                let long = length > INLINE && source.is_valid(start + row);
                sizes[usize::from(*number)] += if long { u64::from(length) } else { 0 };
            }
            if let Some(few) = &source.few {
                sizes.iter_mut().for_each(|size| *size = (*size).min(few.len() as u64));
            }
        }
        Source::Fixed(_) | Source::Bits(_) => sizes.clear(),
    }
    sizes
}

impl Views {
    #[inline(always)]
    fn is_valid(&self, row: usize) -> bool {
        self.nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row))
    }
}

impl Leaf {
    /// Bytes of the values that are written past the cache; `None` where they are not.
    pub fn streamed(&self) -> Option<usize> {
        match self.layout {
            Layout::Fixed(size @ (4 | 8 | 16)) => Some(size),
            Layout::Views(_) => Some(16),
            _ => None,
        }
    }
}

/// Write a chunk's rows of one leaf to where they belong. `ends` are for leaves that are streamed: they go from chunk to
/// chunk, and are finished by the caller. `stage` is scratch memory.
///
/// # Safety
/// The target's buffers have room for the rows (and units) that come before the chunk's and the chunk's own, those of bits
/// are zeroed (those of validity set) and a multiple of 8 bytes, and nobody else writes to the chunk's part of them. `ends` were made for a chunk, and
/// went through all from that to this one.
pub(super) unsafe fn scatter(leaf: &Leaf, chunk: &Chunk, target: &Target, ends: &mut Ends, stage: &mut Stage) {
    // SAFETY: the caller's promise is what each of them needs.
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
            // Without long strings, and without nulls whose views may say anything, views are plain values.
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
            _ => unreachable!("a leaf's sources are of its layout"),
        }
    }
}

/// Values of which a cache line holds a whole number.
unsafe fn lines<T: Line>(values: &Buffer, chunk: &Chunk, target: &Target, ends: &mut Ends) {
    let size = size_of::<T>();
    let values = &values.as_slice()[chunk.start * size..(chunk.start + chunk.order.len()) * size];
    let mut next = Ahead::new(values, target.items.len());
    let values = values.as_ptr().cast::<T>();
    for (partition, items) in target.items.iter().enumerate() {
        let run = chunk.run(partition);
        next.step();
        // SAFETY: rows of a chunk lie in the values that were sliced above; the target has room for them, and its buffers
        // start at multiples of 64 bytes.
        unsafe {
            let at = chunk.before[partition] as usize;
            ends.fill(partition, items.cast::<T>(), at, run, |row| values.add(usize::from(row)).read_unaligned());
        }
    }
}

/// Values of `W` bytes.
unsafe fn fixed<const W: usize>(values: &Buffer, chunk: &Chunk, target: &Target) {
    let values = &values.as_slice()[chunk.start * W..(chunk.start + chunk.order.len()) * W];
    let values = values.as_ptr().cast::<[u8; W]>();
    for (partition, items) in target.items.iter().enumerate() {
        let run = chunk.run(partition);
        // SAFETY: rows of a chunk lie in the values that were sliced above; the target has room for them.
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

/// Set those bits of a word that another thread may be setting others of.
///
/// # Safety
/// `words` is a buffer of whole, zeroed words with room for the word.
unsafe fn add_bits(words: *mut u8, word: usize, bits: u64) {
    if bits != 0 {
        // SAFETY: buffers start at multiples of 64, and while they are filled their bits are only written so.
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
        // SAFETY: as above; without a bit nothing is touched.
        unsafe { add_bits(*items, place / 64, word) };
    }
}

/// Clear the bits of a word for rows whose values are null; the word's others may be changed by another thread.
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
        // SAFETY: there is one offset more than rows, and units as many as sizes said, which come from these offsets.
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

/// Bytes of short strings, at the most.
const SHORT: usize = 64;

/// Copy a value. Short ones are copied as 64 bytes where that stays inside both buffers: a guess at the length that is wrong
/// costs more than bytes that are not needed.
///
/// # Safety
/// `behind` bytes can be read from the value's start on, `room` bytes be written to `out`, each at least the value's.
/// What is written behind the value is garbage.
#[inline(always)]
unsafe fn copy(value: &[u8], behind: usize, out: *mut u8, room: usize) {
    let least = behind.min(room);
    // SAFETY: both lengths are within what the caller says may be read and written.
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

/// Runs whose long strings have at most so many bytes are put together in the cache, and written past it then.
const STAGED: usize = 1 << 16;

/// Views whose long strings are copied one by one, or all that there are where these are fewer.
unsafe fn copied_views(source: &Views, chunk: &Chunk, target: &Target, ends: &mut Ends, stage: &mut Stage) {
    let views = &source.views.typed_data::<u128>()[chunk.start..chunk.start + chunk.order.len()];
    let mut next = Ahead::new(views, target.items.len());
    let mut later = chunk.order.get(AHEAD..).unwrap_or_default().iter();
    for (partition, items) in target.items.iter().enumerate() {
        next.step();
        let (before, end) = (target.before[partition], target.after[partition]);
        let (at, run) = (chunk.before[partition] as usize, chunk.run(partition));
        let length = (end - before) as usize;
        // SAFETY: the target has room for the views, and for as many bytes as sizes said, by the same rule.
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
                // One string may be followed by as much as is copied of short ones.
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

/// Ask for the bytes of a row's long string: strings may lie anywhere, as those of a dictionary do.
#[inline(always)]
fn ask(source: &Views, views: &[u128], row: u16) {
    let view = views[usize::from(row)];
    let length = view as u32;
    // What a null's view says may be nonsense.
    if length > INLINE
        && let Some(buffer) = source.buffers.get((view >> 64) as u32 as usize)
    {
        let start = buffer.as_ptr().wrapping_add((view >> 96) as usize);
        prefetch(start);
        prefetch(start.wrapping_add(length as usize - 1));
    }
}

/// Views whose long strings are elsewhere than before: `moved` makes the new view, given where its buffer went.
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

/// A row's view, given where its buffer went. Whether a string is long is hard to guess, so nothing is left to a guess.
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

/// A view of bytes that lie in buffer 0 from `to` on, which stays below 2³¹, as all its bytes do. Of a view without bytes
/// elsewhere it makes nothing of use.
#[inline(always)]
fn rebased(view: u128, to: u32) -> u128 {
    u128::from(view as u64) | (u128::from(((view >> 96) as u32).wrapping_add(to)) << 96)
}
