//! The memory of partitions, which the caller provides.

use std::alloc::{Layout, alloc, dealloc};
use std::ptr::NonNull;
use std::sync::Arc;

use arrow_buffer::Buffer;
use arrow_buffer::alloc::Allocation;

/// The error of a [`Memory`].
pub type MemoryError = Box<dyn std::error::Error + Send + Sync>;

/// Every region, and every buffer in one, starts at a multiple of this, in bytes: Arrow's recommended alignment.
pub const ALIGNMENT: usize = 64;

/// Allocates memory for partitions.
pub trait Memory: Sync {
    /// Allocate a region of `bytes` bytes (more than 0) for the partition of that number. It must start at a multiple of 64
    /// and must not be shared. It may be uninitialised; every byte is written before it is read.
    ///
    /// # Errors
    /// When the memory is not available; partitioning fails then, and frees the regions that it has.
    fn allocate(&self, partition: usize, bytes: usize) -> Result<Region, MemoryError>;

    /// Whether partitions may share the bytes of long strings with the input. If not, the bytes are copied for each view that
    /// points to them, which may take more memory than the input.
    fn shares_strings(&self) -> bool {
        true
    }
}

/// An exclusive range of memory, kept alive by its owner.
pub struct Region {
    start: NonNull<u8>,
    bytes: usize,
    owner: Arc<dyn Allocation>,
}

// SAFETY: the memory belongs to the region alone, and its owner may be sent.
unsafe impl Send for Region {}
// SAFETY: a shared region exposes only the pointer to its bytes, whose use is unsafe.
unsafe impl Sync for Region {}

impl Region {
    /// The `bytes` bytes from `start` on, which live as long as `owner`.
    ///
    /// # Panics
    /// When `start` is not a multiple of 64.
    ///
    /// # Safety
    /// The range must be readable and writable while `owner` lives, and must not be accessed otherwise.
    #[must_use]
    pub unsafe fn new(start: NonNull<u8>, bytes: usize, owner: Arc<dyn Allocation>) -> Self {
        assert!(start.addr().get() % ALIGNMENT == 0, "a region must start at a multiple of 64, not at {start:p}");
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

    /// A pointer to the first byte, for writing.
    #[must_use]
    pub fn as_mut_ptr(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// A part of the region as a buffer that keeps the owner alive. The part must be initialised, and not be written again.
    pub(crate) fn part(&self, start: usize, bytes: usize) -> Buffer {
        assert!(start.checked_add(bytes).is_some_and(|end| end <= self.bytes), "the part must be within its region");
        // SAFETY: within the region, and by the contract of `new` readable while the owner lives.
        unsafe { Buffer::from_custom_allocation(self.start.add(start), bytes, self.owner.clone()) }
    }

    /// The region as a buffer that keeps its owner alive. All of it must be initialised.
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

/// The size of huge pages. Regions of at least a few of them ask for huge pages, because page faults take longer than
/// filling the memory.
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

/// Advise the system to use huge pages within the block; a system without them ignores or refuses that.
#[cfg(target_os = "linux")]
fn advise(start: NonNull<u8>, bytes: usize) {
    // SAFETY: the range is within the block, and the advice does not change its contents.
    let _ =
        unsafe { rustix::mm::madvise(start.as_ptr().cast(), bytes / HUGE * HUGE, rustix::mm::Advice::LinuxHugepage) };
}

#[cfg(not(target_os = "linux"))]
fn advise(_: NonNull<u8>, _: usize) {}
