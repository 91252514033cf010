//! Cache control: prefetching, and non-temporal (streaming) stores.
//!
//! An ordinary store first reads the cache line from memory. If partitions are larger than the cache, that is a third of all
//! memory traffic. Complete lines are therefore written by streaming stores, which bypass the cache; an incomplete line at the
//! end of a run is kept until the next run completes it.

const LINE: usize = 64;

/// A value whose size divides that of a cache line.
pub(super) trait Line: Copy {
    /// Write a line of values, `value(0)` first, by a streaming store if the processor supports it.
    ///
    /// # Safety
    /// The line must be writable, and `out` a multiple of 64.
    unsafe fn stream(out: *mut Self, value: impl FnMut(usize) -> Self);
}

/// Copy bytes; complete lines by streaming stores if the processor supports them. [`publish`] makes them visible to other threads.
///
/// # Safety
/// As for `std::ptr::copy_nonoverlapping`.
pub(super) unsafe fn stream_bytes(from: *const u8, out: *mut u8, bytes: usize) {
    let head = out.align_offset(LINE).min(bytes);
    let lines = (bytes - head) / LINE;
    // SAFETY: all accesses are within the bytes; lines begin at multiples of their length.
    unsafe {
        out.copy_from_nonoverlapping(from, head);
        let (lines_from, lines_out) = (from.add(head), out.add(head));
        for line in 0..lines {
            let from = lines_from.add(line * LINE).cast::<u128>();
            u128::stream(lines_out.add(line * LINE).cast(), |place| from.add(place).read_unaligned());
        }
        let done = head + lines * LINE;
        out.add(done).copy_from_nonoverlapping(from.add(done), bytes - done);
    }
}

/// The incomplete last lines of a leaf's runs, one for each partition, kept until later runs complete them.
pub(super) struct Ends {
    lines: Vec<Open>,
}

#[derive(Clone)]
#[repr(align(64))]
struct Open {
    words: [u64; LINE / 8],
    /// The first byte of the line that is set.
    first: usize,
}

impl Ends {
    /// For runs that begin at these rows of the partitions, with values of `size` bytes.
    pub(super) fn new(before: &[u64], size: usize) -> Self {
        let open = |rows: &u64| Open { words: [0; LINE / 8], first: *rows as usize * size % LINE };
        Self { lines: before.iter().map(open).collect() }
    }

    /// Write the values of the rows in sequence, complete lines by streaming stores.
    ///
    /// # Safety
    /// `out` is the start of the partition's values, at a multiple of 64. The values of all rows must be writable from `at` on, where
    /// the previous run must have ended.
    #[inline(always)]
    pub(super) unsafe fn fill<T: Line>(
        &mut self,
        partition: usize,
        out: *mut T,
        mut at: usize,
        mut rows: &[u16],
        mut value: impl FnMut(u16) -> T,
    ) {
        let each = LINE / size_of::<T>();
        let open = &mut self.lines[partition];
        let line = open.words.as_mut_ptr().cast::<T>();
        let begun = at % each;
        // SAFETY: all places are in the line or in the range of the rows.
        unsafe {
            if begun > 0 {
                let (head, rest) = rows.split_at(rows.len().min(each - begun));
                for (place, row) in head.iter().enumerate() {
                    line.add(begun + place).write(value(*row));
                }
                at += head.len();
                rows = rest;
                if at % each != 0 {
                    return;
                }
                let out = out.add(at - each).cast::<u64>();
                if open.first == 0 {
                    u64::stream(out, |place| open.words[place]);
                } else {
                    open.write(out.cast(), LINE);
                }
            }
            open.first = 0;
            let (whole, tail) = rows.split_at(rows.len() / each * each);
            let out = out.add(at);
            for (number, rows) in whole.chunks_exact(each).enumerate() {
                T::stream(out.add(number * each), |place| value(rows[place]));
            }
            for (place, row) in tail.iter().enumerate() {
                line.add(place).write(value(*row));
            }
        }
    }

    /// Write the incomplete lines by ordinary stores, because another thread writes the rest of each line.
    ///
    /// # Safety
    /// `items` must be the starts of the partitions' values, and `rows` their current numbers of values.
    pub(super) unsafe fn finish(&self, items: &[*mut u8], rows: impl Fn(usize) -> u64, size: usize) {
        for (partition, (open, items)) in self.lines.iter().zip(items).enumerate() {
            let end = rows(partition) as usize * size;
            if end % LINE > open.first {
                // SAFETY: this is the part of the line that the runs have filled.
                unsafe { open.write(items.add(end / LINE * LINE), end % LINE) };
            }
        }
        publish();
    }
}

impl Open {
    /// Write the bytes from the first one to `end` to their places in the line at `out`.
    unsafe fn write(&self, out: *mut u8, end: usize) {
        // SAFETY: within the line, which the caller guarantees to be writable.
        unsafe {
            let from = self.words.as_ptr().cast::<u8>().add(self.first);
            out.add(self.first).copy_from_nonoverlapping(from, end - self.first);
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod machine {
    use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch, _mm_set_epi32, _mm_set_epi64x, _mm_sfence, _mm_stream_si128};

    use super::Line;

    // Every processor of this architecture has the instructions. Values are computed in order, before the calls that take them.
    impl Line for u32 {
        #[inline(always)]
        unsafe fn stream(out: *mut Self, mut value: impl FnMut(usize) -> Self) {
            for place in (0..16).step_by(4) {
                let [a, b, c, d] = std::array::from_fn(|next| value(place + next) as i32);
                // SAFETY: the caller's promise.
                unsafe { _mm_stream_si128(out.add(place).cast(), _mm_set_epi32(d, c, b, a)) };
            }
        }
    }

    impl Line for u64 {
        #[inline(always)]
        unsafe fn stream(out: *mut Self, mut value: impl FnMut(usize) -> Self) {
            for place in (0..8).step_by(2) {
                let [a, b] = [value(place) as i64, value(place + 1) as i64];
                // SAFETY: the caller's promise.
                unsafe { _mm_stream_si128(out.add(place).cast(), _mm_set_epi64x(b, a)) };
            }
        }
    }

    impl Line for u128 {
        #[inline(always)]
        unsafe fn stream(out: *mut Self, mut value: impl FnMut(usize) -> Self) {
            for place in 0..4 {
                let value = value(place);
                // SAFETY: the caller's promise.
                unsafe { _mm_stream_si128(out.add(place).cast(), _mm_set_epi64x((value >> 64) as i64, value as i64)) };
            }
        }
    }

    /// A store fence: makes streaming stores visible to other threads before any later store.
    #[inline(always)]
    pub fn publish() {
        // SAFETY: every processor of this kind has the instruction.
        unsafe { _mm_sfence() };
    }

    /// Prefetch the line of an address, which may be invalid.
    #[inline(always)]
    pub fn prefetch(address: *const u8) {
        // SAFETY: prefetching does not fail for any address.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(address.cast()) };
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod machine {
    use super::Line;

    macro_rules! plain {
        ($($value:ty)*) => {$(
            impl Line for $value {
                #[inline(always)]
                unsafe fn stream(out: *mut Self, mut value: impl FnMut(usize) -> Self) {
                    for place in 0..super::LINE / size_of::<Self>() {
                        // SAFETY: the caller's promise.
                        unsafe { out.add(place).write(value(place)) };
                    }
                }
            }
        )*};
    }
    plain!(u32 u64 u128);

    pub fn publish() {}

    pub fn prefetch(_address: *const u8) {}
}

pub(super) use machine::prefetch;
use machine::publish;

/// Prefetches the memory after some values step by step while these are processed: mostly those of the next chunk.
pub(super) struct Ahead {
    at: *const u8,
    end: *const u8,
    step: usize,
}

impl Ahead {
    /// Prefetch as many bytes as the values have, in `steps` steps.
    pub(super) fn new<T>(values: &[T], steps: usize) -> Self {
        let bytes = size_of_val(values);
        Self::range(values.as_ptr().cast::<u8>().wrapping_add(bytes), bytes, steps)
    }

    /// Prefetch `bytes` bytes from an address on, which may be invalid, in `steps` steps.
    pub(super) fn range(at: *const u8, bytes: usize, steps: usize) -> Self {
        Self { at, end: at.wrapping_add(bytes), step: bytes.div_ceil(steps.max(1)).next_multiple_of(LINE) }
    }

    #[inline(always)]
    pub(super) fn step(&mut self) {
        let end = self.at.wrapping_add(self.step).min(self.end);
        while self.at < end {
            prefetch(self.at);
            self.at = self.at.wrapping_add(LINE);
        }
    }
}
