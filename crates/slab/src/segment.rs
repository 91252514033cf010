//! A memfd and its mapping.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Weak};

use parking_lot::RwLock;
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::mm::{MapFlags, ProtFlags};

use crate::error::{Error, Result};

/// The name of a segment, unique among the processes of a store.
pub type SegmentId = u64;

/// Shared memory of a fixed length, mapped into this process. Its pages exist once they were touched.
pub struct Segment {
    id: SegmentId,
    fd: OwnedFd,
    base: *mut u8,
    length: usize,
    writable: bool,
}

// SAFETY: the pointer is to a mapping that lives as long as the value; who may write where is said by `Extent`.
unsafe impl Send for Segment {}
// SAFETY: as above.
unsafe impl Sync for Segment {}

// Where the segments of this process are mapped: start address → segment. A process has one address space, hence one table.
static MAPPED: RwLock<BTreeMap<usize, (usize, Weak<Segment>)>> = RwLock::new(BTreeMap::new());

/// The segment and offset of memory that lies in a segment which this process has mapped.
#[must_use]
pub fn locate(start: *const u8, length: usize) -> Option<(Arc<Segment>, usize)> {
    let start = start.addr();
    let mapped = MAPPED.read();
    let (base, (extent, segment)) = mapped.range(..=start).next_back()?;
    let offset = start - base;
    if offset.checked_add(length)? > *extent {
        return None;
    }
    segment.upgrade().map(|segment| (segment, offset))
}

impl Segment {
    /// A new segment of `length` bytes, mapped for reading and writing.
    ///
    /// # Errors
    /// When the system gives no descriptor or no address space.
    pub fn create(id: SegmentId, length: usize) -> Result<Arc<Self>> {
        let fd = rustix::fs::memfd_create("craton", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)
            .map_err(|e| Error::system("memfd_create", e))?;
        rustix::fs::ftruncate(&fd, length as u64).map_err(|e| Error::system("ftruncate a segment", e))?;
        Self::map(id, fd, length, true)
    }

    /// Map a segment that another process made: for reading, or, before it was sealed, for writing too.
    ///
    /// # Errors
    /// When the descriptor is not a memfd of that length, or cannot be mapped so.
    pub fn attach(id: SegmentId, fd: OwnedFd, length: usize, writable: bool) -> Result<Arc<Self>> {
        let stat = rustix::fs::fstat(&fd).map_err(|e| Error::system("fstat a segment", e))?;
        if usize::try_from(stat.st_size).ok() != Some(length) {
            return Err(Error::Foreign { id, why: "its length is not the one that was announced" });
        }
        Self::map(id, fd, length, writable)
    }

    fn map(id: SegmentId, fd: OwnedFd, length: usize, writable: bool) -> Result<Arc<Self>> {
        let protection = if writable { ProtFlags::READ | ProtFlags::WRITE } else { ProtFlags::READ };
        // SAFETY: a fresh mapping at an address of the kernel's choice overlaps nothing.
        let base = unsafe { rustix::mm::mmap(std::ptr::null_mut(), length, protection, MapFlags::SHARED, &fd, 0) }
            .map_err(|e| Error::system("mmap a segment", e))?
            .cast::<u8>();
        let segment = Arc::new(Self { id, fd, base, length, writable });
        MAPPED.write().insert(base.addr(), (length, Arc::downgrade(&segment)));
        Ok(segment)
    }

    /// Let nobody map it for writing from now on, nor change its length. Mappings that exist stay as they are.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn seal(&self) -> Result<()> {
        let seals = SealFlags::FUTURE_WRITE | SealFlags::GROW | SealFlags::SHRINK;
        rustix::fs::fcntl_add_seals(&self.fd, seals).map_err(|e| Error::system("seal a segment", e))
    }

    /// Its name.
    #[must_use]
    pub fn id(&self) -> SegmentId {
        self.id
    }

    /// Bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether it has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Whether this process may write to it.
    #[must_use]
    pub fn is_writable(&self) -> bool {
        self.writable
    }

    /// The first byte of the mapping.
    #[must_use]
    pub fn as_ptr(&self) -> *const u8 {
        self.base
    }

    /// The descriptor, to be sent to another process.
    #[must_use]
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        MAPPED.write().remove(&self.base.addr());
        // SAFETY: the mapping is ours, and nothing that points into it outlives the segment.
        let _ = unsafe { rustix::mm::munmap(self.base.cast(), self.length) };
    }
}
