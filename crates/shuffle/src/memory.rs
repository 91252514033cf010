//! Where partitions are put: memory that the caller provides.

use std::alloc::{Layout, alloc, dealloc};
use std::ptr::NonNull;
use std::sync::Arc;

use arrow_buffer::Buffer;
use arrow_buffer::alloc::Allocation;

/// What a [`Memory`] says when it has none.
pub type MemoryError = Box<dyn std::error::Error + Send + Sync>;

/// Every region, and every buffer in one, starts at a multiple of this, in bytes: Arrow's recommended alignment.
pub const ALIGNMENT: usize = 64;

/// Gives memory to partitions.
pub trait Memory: Sync {
    /// A region of `bytes` bytes (more than 0) for a partition, by its number, that starts at a multiple of 64 and belongs
    /// to nobody else. Its contents may be anything; every byte of it is written before it is read.
    ///
    /// # Errors
    /// When there is no such memory; partitioning ends then, and gives back what it was given.
    fn allocate(&self, partition: usize, bytes: usize) -> Result<Region, MemoryError>;

    /// Whether partitions may share the bytes of long strings with the input. Without, they are copied, as often as views
    /// point to them, which may take more than the input does.
    fn shares_strings(&self) -> bool {
        true
    }
}

/// A range of memory that nobody else touches, kept alive by its owner.
pub struct Region {
    start: NonNull<u8>,
    bytes: usize,
    owner: Arc<dyn Allocation>,
}

// SAFETY: the memory belongs to the region alone, and its owner may be sent.
unsafe impl Send for Region {}
// SAFETY: a shared region gives out no access to the bytes but the pointer, whose use is unsafe.
unsafe impl Sync for Region {}

impl Region {
    /// The `bytes` bytes from `start` on, which live as long as `owner`.
    ///
    /// # Panics
    /// When `start` is not a multiple of 64.
    ///
    /// # Safety
    /// The range can be read and written while `owner` lives, and nobody else does either.
    #[must_use]
    pub unsafe fn new(start: NonNull<u8>, bytes: usize, owner: Arc<dyn Allocation>) -> Self {
        assert!(start.addr().get() % ALIGNMENT == 0, "a region that starts at {start:p}, no multiple of 64");
        Self { start, bytes, owner }
    }

    /// Bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Whether it has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// The first byte, to be written through.
    #[must_use]
    pub fn as_mut_ptr(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// A part of it as a buffer that keeps the owner alive. That part must have been written, and not be written again.
    pub(crate) fn part(&self, start: usize, bytes: usize) -> Buffer {
        assert!(start.checked_add(bytes).is_some_and(|end| end <= self.bytes), "a part outside its region");
        // SAFETY: inside the region, by the contract of `new` readable while the owner lives.
        unsafe { Buffer::from_custom_allocation(self.start.add(start), bytes, self.owner.clone()) }
    }

    /// The region as a buffer that keeps its owner alive. All of it must have been written.
    #[must_use]
    pub fn into_buffer(self) -> Buffer {
        // SAFETY: the contract of `new`; from here on the bytes are only read.
        unsafe { Buffer::from_custom_allocation(self.start, self.bytes, self.owner) }
    }
}

/// The process's own memory.
#[derive(Debug, Clone, Copy, Default)]
pub struct Heap;

struct Block {
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: the block is only freed through this value, from whichever thread drops it.
unsafe impl Send for Block {}
// SAFETY: as above; it gives no access to the memory.
unsafe impl Sync for Block {}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout, and freed once.
        unsafe { dealloc(self.start.as_ptr(), self.layout) };
    }
}

/// The size of huge pages; regions from a few of them on are made of such, because first touching memory page by page
/// takes longer than filling it.
const HUGE: usize = 2 << 20;

impl Memory for Heap {
    fn allocate(&self, _partition: usize, bytes: usize) -> Result<Region, MemoryError> {
        let huge = bytes >= 2 * HUGE;
        let layout = Layout::from_size_align(bytes.max(1), if huge { HUGE } else { ALIGNMENT })?;
        // SAFETY: the layout's size is not 0.
        let start = NonNull::new(unsafe { alloc(layout) }).ok_or_else(|| format!("{bytes} bytes of heap refused"))?;
        if huge {
            advise(start, bytes);
        }
        // SAFETY: freshly allocated, and freed when the block is dropped.
        Ok(unsafe { Region::new(start, bytes, Arc::new(Block { start, layout })) })
    }
}

/// Ask for huge pages where they lie in the block entirely. It is only advice: a system without them says no.
#[cfg(target_os = "linux")]
fn advise(start: NonNull<u8>, bytes: usize) {
    // SAFETY: the range is our own, and the advice does not change its contents.
    let _ =
        unsafe { rustix::mm::madvise(start.as_ptr().cast(), bytes / HUGE * HUGE, rustix::mm::Advice::LinuxHugepage) };
}

#[cfg(not(target_os = "linux"))]
fn advise(_: NonNull<u8>, _: usize) {}
