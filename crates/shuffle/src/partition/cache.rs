//! Telling the cache what comes: reads in order, ahead of those that jump, and writes that leave it alone.
//!
//! A value that is written in the usual way has its cache line read from memory first. Where partitions are larger than the
//! cache, that is a third of all traffic. So whole lines are written past it, and what is left of a line at the end of a
//! run waits for the next one.

const LINE: usize = 64;

/// A value of which a cache line holds a whole number.
pub(super) trait Line: Copy {
    /// Write a line of values, the first one that of place 0, past the cache, where the processor can.
    ///
    /// # Safety
    /// The line can be written; `out` is a multiple of 64.
    unsafe fn stream(out: *mut Self, value: impl FnMut(usize) -> Self);
}

/// Copy bytes past the cache, where the processor can: the whole lines among them. [`publish`] makes them visible.
///
/// # Safety
/// As for `std::ptr::copy_nonoverlapping`.
pub(super) unsafe fn stream_bytes(from: *const u8, out: *mut u8, bytes: usize) {
    let head = out.align_offset(LINE).min(bytes);
    let lines = (bytes - head) / LINE;
    // SAFETY: places among the bytes; lines begin at multiples of their length.
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

/// The lines that a leaf's runs end in, one a partition, kept until later runs make them whole.
pub(super) struct Ends {
    lines: Vec<Open>,
}

#[derive(Clone)]
#[repr(align(64))]
struct Open {
    words: [u64; LINE / 8],
    /// The first byte that is there.
    first: usize,
}

impl Ends {
    /// For runs that begin at these rows of partitions, of `size` bytes a value.
    pub(super) fn new(before: &[u64], size: usize) -> Self {
        let open = |rows: &u64| Open { words: [0; LINE / 8], first: *rows as usize * size % LINE };
        Self { lines: before.iter().map(open).collect() }
    }

    /// Write the value of each row, one after another: whole lines past the cache.
    ///
    /// # Safety
    /// `out` is where the partition's values begin, a multiple of 64; as many values as rows can be written from `at` on,
    /// and the run before ended there.
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
        // SAFETY: places in the line, or of one of the rows.
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

    /// Write what is left of lines, in the usual way: somebody else writes the rest of them.
    ///
    /// # Safety
    /// `items` and `rows` are where the partitions' values begin, and how many there are now.
    pub(super) unsafe fn finish(&self, items: &[*mut u8], rows: impl Fn(usize) -> u64, size: usize) {
        for (partition, (open, items)) in self.lines.iter().zip(items).enumerate() {
            let end = rows(partition) as usize * size;
            if end % LINE > open.first {
                // SAFETY: the line's part that runs wrote to.
                unsafe { open.write(items.add(end / LINE * LINE), end % LINE) };
            }
        }
        publish();
    }
}

impl Open {
    /// Write the bytes from the first one to `end` to where they belong in the line at `out`.
    unsafe fn write(&self, out: *mut u8, end: usize) {
        // SAFETY: inside the line, and what the caller says.
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

    // Every processor of this kind has the instructions. Values are made in order, so before the calls that take them.
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

    /// Make what was written past the cache visible to other threads before what is written next.
    #[inline(always)]
    pub fn publish() {
        // SAFETY: every processor of this kind has the instruction.
        unsafe { _mm_sfence() };
    }

    /// Ask for the line of an address, which may be any.
    #[inline(always)]
    pub fn prefetch(address: *const u8) {
        // SAFETY: a hint that no address makes fail.
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

/// What follows some values in memory, asked for bit by bit while these are worked on: most often the next chunk's.
pub(super) struct Ahead {
    at: *const u8,
    end: *const u8,
    step: usize,
}

impl Ahead {
    /// As many bytes as the values have, in so many steps.
    pub(super) fn new<T>(values: &[T], steps: usize) -> Self {
        let bytes = size_of_val(values);
        Self::range(values.as_ptr().cast::<u8>().wrapping_add(bytes), bytes, steps)
    }

    /// So many bytes from an address on, which need not be anybody's, in so many steps.
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
