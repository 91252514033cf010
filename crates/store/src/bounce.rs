//! Bounce buffers for direct I/O.
//!
//! Physically contiguous memory takes one disk request, while memory scattered over pages of 4 KiB, as shared memory is on most systems, takes
//! hundreds of small ones. Reading into a few huge pages and copying from there is up to twice as fast as reading into place.

use std::alloc::{self, Layout};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use parking_lot::{Condvar, Mutex};

/// The block size of direct I/O, in bytes, which suffices for all common devices.
pub(crate) const BLOCK: usize = 4096;
/// Bytes of the buffers that are pooled.
pub(crate) const LARGE: usize = 2 * HUGE;

// Bytes of a huge page.
const HUGE: usize = 2 << 20;

/// Memory aligned to [`BLOCK`]; a large buffer is on huge pages, if the system supports them.
pub(crate) struct Bounce {
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: it owns its memory.
unsafe impl Send for Bounce {}

impl Bounce {
    /// A zeroed buffer of at least `length` bytes.
    fn new(length: usize) -> Self {
        let align = if length < HUGE { BLOCK } else { HUGE };
        let layout = Layout::from_size_align(length.max(1).next_multiple_of(align), align);
        let Ok(layout) = layout else { panic!("a buffer of {length} bytes exceeds the address space") };
        // SAFETY: the size is not 0.
        let start = unsafe { alloc::alloc(layout) };
        let Some(start) = NonNull::new(start) else { alloc::handle_alloc_error(layout) };
        #[cfg(any(target_os = "linux", target_os = "android"))]
        if align == HUGE {
            // SAFETY: the memory is this buffer's, and the advice changes no byte of it. A system without huge pages refuses it: ignored.
            let _ =
                unsafe { rustix::mm::madvise(start.as_ptr().cast(), layout.size(), rustix::mm::Advice::LinuxHugepage) };
        }
        // SAFETY: this many bytes were allocated.
        unsafe { start.write_bytes(0, layout.size()) };
        Self { start, layout }
    }
}

impl Deref for Bounce {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: allocated and initialised by `new`.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.layout.size()) }
    }
}

impl DerefMut for Bounce {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `&mut self` is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.layout.size()) }
    }
}

impl Drop for Bounce {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout.
        unsafe { alloc::dealloc(self.start.as_ptr(), self.layout) }
    }
}

/// A pool of large buffers. Their number is small, because their memory is not part of the store's limit. A thread that finds all of them in
/// use waits for one; no thread that has one waits for another, so this cannot deadlock.
pub(crate) struct Bounces {
    lent: Mutex<Lent>,
    returned: Condvar,
    most: usize,
}

#[derive(Default)]
struct Lent {
    free: Vec<Bounce>,
    made: usize,
}

impl Bounces {
    /// A pool of at most `most` buffers, at least one.
    pub(crate) fn new(most: usize) -> Self {
        Self { lent: Mutex::default(), returned: Condvar::new(), most: most.max(1) }
    }

    /// Take a buffer of at least `wanted` bytes, or of [`LARGE`] bytes if `wanted` is more.
    pub(crate) fn take(&self, wanted: u64) -> Borrowed<'_> {
        let small = usize::try_from(wanted).ok().filter(|&wanted| wanted < HUGE);
        let bounce = match small {
            Some(wanted) => Bounce::new(wanted),
            None => self.large(),
        };
        Borrowed { bounce: Some(bounce), home: self }
    }

    fn large(&self) -> Bounce {
        let mut lent = self.lent.lock();
        loop {
            if let Some(bounce) = lent.free.pop() {
                return bounce;
            }
            if lent.made < self.most {
                lent.made += 1;
                drop(lent);
                return Bounce::new(LARGE);
            }
            self.returned.wait(&mut lent);
        }
    }
}

/// A buffer that is returned to the pool when it is dropped.
pub(crate) struct Borrowed<'a> {
    bounce: Option<Bounce>,
    home: &'a Bounces,
}

impl Deref for Borrowed<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.bounce.as_deref().unwrap_or_default()
    }
}

impl DerefMut for Borrowed<'_> {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.bounce.as_deref_mut().unwrap_or_default()
    }
}

impl Drop for Borrowed<'_> {
    fn drop(&mut self) {
        let Some(bounce) = self.bounce.take().filter(|bounce| bounce.len() == LARGE) else { return };
        self.home.lent.lock().free.push(bounce);
        self.home.returned.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_buffers_are_kept_and_small_ones_are_not() {
        let bounces = Bounces::new(1);
        for (wanted, length) in [(0, BLOCK), (1, BLOCK), (5000, 2 * BLOCK), (HUGE as u64, LARGE), (u64::MAX, LARGE)] {
            let mut taken = bounces.take(wanted);
            assert_eq!((taken.len(), taken.as_ptr().addr() % BLOCK), (length, 0));
            taken[length - 1] = 1;
        }
        let lent = bounces.lent.lock();
        assert_eq!((lent.free.len(), lent.made), (1, 1));
    }

    #[test]
    fn there_are_never_more_than_that() {
        let bounces = Bounces::new(2);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| (0..50).for_each(|_| assert_eq!(bounces.take(1 << 30).len(), LARGE)));
            }
        });
        let lent = bounces.lent.lock();
        assert!(lent.made <= 2 && lent.free.len() == lent.made);
    }
}
