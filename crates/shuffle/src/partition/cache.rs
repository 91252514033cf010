//! Telling the cache what comes: reads in order, ahead of those that jump, and writes that leave it alone.
//!
//! A value that is written in the usual way has its cache line read from memory first. Where partitions are larger than the
//! cache, that is a third of all traffic. So whole lines are written past it; what is left of a line at the ends of a run is
//! written in the usual way, as another run goes on there.

const LINE: usize = 64;

/// A value of which a cache line holds a whole number.
pub(super) trait Line: Copy {
    /// Write past the cache, where the processor can.
    ///
    /// # Safety
    /// As for `std::ptr::write`.
    unsafe fn stream(out: *mut Self, value: Self);

    /// Write the value of each row, one after another.
    ///
    /// # Safety
    /// `out` is a multiple of the value's size, and as many values as rows can be written to it.
    #[inline(always)]
    unsafe fn fill(out: *mut Self, rows: &[u16], stream: bool, mut value: impl FnMut(u16) -> Self) {
        let size = size_of::<Self>();
        let (first, whole) = if stream {
            let first = (out.addr().wrapping_neg() % LINE / size).min(rows.len());
            (first, (rows.len() - first) / (LINE / size) * (LINE / size))
        } else {
            (rows.len(), 0)
        };
        let (head, rest) = rows.split_at(first);
        let (lines, tail) = rest.split_at(whole);
        // SAFETY: each is a place of one of the rows.
        unsafe {
            for (place, row) in head.iter().enumerate() {
                out.add(place).write(value(*row));
            }
            let out = out.add(first);
            for (place, row) in lines.iter().enumerate() {
                Self::stream(out.add(place), value(*row));
            }
            let out = out.add(whole);
            for (place, row) in tail.iter().enumerate() {
                out.add(place).write(value(*row));
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod machine {
    use std::arch::x86_64::{
        _MM_HINT_T1, _mm_prefetch, _mm_set_epi64x, _mm_sfence, _mm_stream_si32, _mm_stream_si64, _mm_stream_si128,
    };

    use super::Line;

    impl Line for u32 {
        #[inline(always)]
        unsafe fn stream(out: *mut Self, value: Self) {
            // SAFETY: the caller may write there; every processor of this kind has the instruction.
            unsafe { _mm_stream_si32(out.cast(), value as _) };
        }
    }

    impl Line for u64 {
        #[inline(always)]
        unsafe fn stream(out: *mut Self, value: Self) {
            // SAFETY: as above.
            unsafe { _mm_stream_si64(out.cast(), value as _) };
        }
    }

    impl Line for u128 {
        #[inline(always)]
        unsafe fn stream(out: *mut Self, value: Self) {
            // SAFETY: as above; the place is a multiple of 16, as `fill` asks for.
            unsafe { _mm_stream_si128(out.cast(), _mm_set_epi64x((value >> 64) as i64, value as i64)) };
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
                unsafe fn stream(out: *mut Self, value: Self) {
                    // SAFETY: the caller's promise.
                    unsafe { out.write(value) };
                }
            }
        )*};
    }
    plain!(u32 u64 u128);

    pub fn publish() {}

    pub fn prefetch(_address: *const u8) {}
}

pub(super) use machine::{prefetch, publish};

/// Ask for all values, in their order; they are going to be read in another one, soon.
#[inline(always)]
pub(super) fn prefetch_all<T>(values: &[T]) {
    let start = values.as_ptr().cast::<u8>();
    for offset in (0..size_of_val(values)).step_by(LINE) {
        prefetch(start.wrapping_add(offset));
    }
}
