//! A segment: a shared-memory file, its mapping in this process, and the rights that other processes have to it.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use rustix::mm::{MapFlags, ProtFlags};

use crate::backing::{self, Backing};
use crate::error::{Error, Result};

mod locate;
mod memory;
mod seals;

pub use locate::locate;

/// The identifier of a segment, unique among the processes of a store.
pub type SegmentId = u64;

/// The options of a new segment.
#[derive(Debug, Clone)]
pub struct SegmentOptions {
    /// The kind of file behind the segment.
    pub backing: Backing,
    /// Ask for huge pages, if the segment is large enough for one and the kernel supports them.
    pub huge_pages: bool,
    /// Another process, the client, will write to it too. The steps are: create the segment with this option; send [`Segment::writable_fd`]
    /// to the client, which maps it with [`Segment::attach`]; wait for the client's acknowledgement; [`Segment::seal`] it. From then on all
    /// other processes can only read it.
    pub client: bool,
}

impl Default for SegmentOptions {
    fn default() -> Self {
        Self { backing: Backing::default(), huge_pages: true, client: false }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Memfd,
    File,
    // Created by another process.
    Attached,
    // Created by another process, which handed it over and no longer writes to it.
    Adopted,
}

/// Shared memory of a fixed length, mapped into this process. A page takes memory from its first access on.
pub struct Segment {
    id: SegmentId,
    fd: OwnedFd,
    reader: OnceLock<OwnedFd>,
    base: *mut u8,
    length: usize,
    writable: bool,
    kind: Kind,
    // The length must never change, not even temporarily, because a client has, or will get, a writable descriptor.
    fixed: bool,
    sealed: AtomicBool,
    sealing: Mutex<()>,
    // A forked child shares the memory and must not return it to the system.
    maker: u32,
}

// SAFETY: the pointer is to a mapping that lives as long as the value; `Extent` defines who may write where.
unsafe impl Send for Segment {}
// SAFETY: as above.
unsafe impl Sync for Segment {}

impl Segment {
    /// A new segment of `length` bytes of the system's usual [`Backing`], mapped for reading and writing.
    ///
    /// # Errors
    /// When the system gives no descriptor or no address space, and for a length of 0 bytes.
    pub fn create(id: SegmentId, length: usize) -> Result<Arc<Self>> {
        Self::create_with(id, length, &SegmentOptions::default())
    }

    /// A new segment of `length` bytes that a client will write to too: see [`SegmentOptions::client`].
    ///
    /// # Errors
    /// As [`Segment::create`].
    pub fn create_for_client(id: SegmentId, length: usize) -> Result<Arc<Self>> {
        Self::create_with(id, length, &SegmentOptions { client: true, ..SegmentOptions::default() })
    }

    /// A new segment of `length` bytes, mapped for reading and writing. Before bytes of a [`Backing::File`] are first written, they must be
    /// [reserved](Segment::reserve); slabs do that.
    ///
    /// # Errors
    /// As [`Segment::create`], and when the file cannot be created.
    pub fn create_with(id: SegmentId, length: usize, options: &SegmentOptions) -> Result<Arc<Self>> {
        let made = options.backing.make(length)?;
        let kind = if options.backing.is_memfd() { Kind::Memfd } else { Kind::File };
        if kind == Kind::Memfd && options.client {
            seals::fix_length(&made.fd)?;
        }
        let reader = made.reader.map(OnceLock::from).unwrap_or_default();
        let segment = Self::map(id, made.fd, reader, length, true, kind, options.client)?;
        if options.huge_pages {
            segment.advise_huge();
        }
        Ok(segment)
    }

    /// Map a segment of `length` bytes that another process created: for reading or, before it is sealed, also for writing.
    ///
    /// # Errors
    /// [`Error::Foreign`] when the descriptor is not that of a segment of that length; an error of the system when it cannot be mapped.
    pub fn attach(id: SegmentId, fd: OwnedFd, length: usize, writable: bool) -> Result<Arc<Self>> {
        let stat = rustix::fs::fstat(&fd).map_err(|e| Error::system("fstat a segment", e))?;
        let found = u64::try_from(stat.st_size).ok();
        // Its creator may be truncating the tail at this moment, to free its memory, and will extend it again.
        let cut = || !writable && found < Some(length as u64) && seals::may_be_cut(&fd);
        if found != Some(length as u64) && !cut() {
            return Err(Error::Foreign { id, why: "its length is not the one that was announced" });
        }
        Self::map(id, fd, OnceLock::new(), length, writable, Kind::Attached, true)
    }

    /// Take over a memfd of `length` bytes from another process, which must not write to it any more: that is best seen to by the end of that
    /// process. It is mapped for reading. Other processes get a descriptor that permits reading only, and holes can still be punched.
    ///
    /// # Errors
    /// [`Error::Foreign`] when the descriptor is not that of a memfd of that length; an error of the system when it cannot be mapped.
    pub fn adopt(id: SegmentId, fd: OwnedFd, length: usize) -> Result<Arc<Self>> {
        let stat = rustix::fs::fstat(&fd).map_err(|e| Error::system("fstat a memfd", e))?;
        if u64::try_from(stat.st_size).ok() != Some(length as u64) {
            return Err(Error::Foreign { id, why: "its length is not the one that was announced" });
        }
        let reader = seals::is_unsealed(&fd).then(|| backing::reopen(fd.as_fd())).flatten();
        let reader = reader.ok_or(Error::Foreign { id, why: "it is not a memfd that can be handed over" })?;
        Self::map(id, fd, OnceLock::from(reader), length, false, Kind::Adopted, false)
    }

    fn map(
        id: SegmentId,
        fd: OwnedFd,
        reader: OnceLock<OwnedFd>,
        length: usize,
        writable: bool,
        kind: Kind,
        fixed: bool,
    ) -> Result<Arc<Self>> {
        let protection = if writable { ProtFlags::READ | ProtFlags::WRITE } else { ProtFlags::READ };
        // SAFETY: a fresh mapping at an address of the kernel's choice overlaps nothing.
        let base = unsafe { rustix::mm::mmap(std::ptr::null_mut(), length, protection, MapFlags::SHARED, &fd, 0) }
            .map_err(|e| Error::system("mmap a segment", e))?
            .cast::<u8>();
        let sealed = AtomicBool::new(kind == Kind::Attached && !writable);
        let (sealing, maker) = (Mutex::new(()), crate::process::id());
        let segment = Arc::new(Self { id, fd, reader, base, length, writable, kind, fixed, sealed, sealing, maker });
        locate::enter(&segment);
        Ok(segment)
    }

    /// Forbid new writable mappings. Existing mappings stay as they are. A second call does nothing.
    ///
    /// Holes cannot be punched into a sealed memfd. A regular file has no seals: for it, [`Segment::writable_fd`] fails from now on.
    ///
    /// # Errors
    /// [`Error::Foreign`] when another process created it; an error of the system when it refuses.
    pub fn seal(&self) -> Result<()> {
        if self.is_sealed() {
            return Ok(());
        }
        if self.kind == Kind::Attached {
            return Err(Error::Foreign { id: self.id, why: "only the process that created it can seal it" });
        }
        let _one_at_a_time = self.sealing.lock();
        if self.is_sealed() {
            return Ok(());
        }
        if self.kind == Kind::Adopted {
            // Only this process has a descriptor that permits writing, and it needs it to punch holes.
            self.sealed.store(true, Ordering::Release);
            return Ok(());
        }
        let mut narrow = self.reader.get().is_some();
        if let (false, Some(reader)) = (narrow, backing::reopen(self.fd.as_fd())) {
            let _ = self.reader.set(reader);
            narrow = true;
        }
        if self.kind == Kind::Memfd {
            seals::seal(&self.fd, !narrow || self.fixed)?;
        }
        if !narrow {
            // After sealing, a copy of the descriptor permits reading only.
            let copy = self.fd.try_clone().map_err(|e| Error::system("dup a segment's descriptor", e))?;
            let _ = self.reader.set(copy);
        }
        self.sealed.store(true, Ordering::Release);
        Ok(())
    }

    /// Seal the segment, and return a descriptor to send to other processes. It permits reading and read-only mappings; it permits no
    /// writing, no writable mapping and no change of the length.
    ///
    /// # Errors
    /// As [`Segment::seal`]; [`Error::Foreign`] for a segment of another process that this process maps for writing.
    pub fn share_fd(&self) -> Result<BorrowedFd<'_>> {
        if self.kind == Kind::Attached && !self.writable {
            return Ok(self.fd.as_fd());
        }
        self.seal()?;
        Ok(self.reader.get().expect("sealing leaves a descriptor for readers").as_fd())
    }

    /// The descriptor to send to the client that may write.
    ///
    /// # Errors
    /// [`Error::Sealed`] after [`Segment::seal`]; [`Error::Foreign`] unless this process created it for a client.
    pub fn writable_fd(&self) -> Result<BorrowedFd<'_>> {
        if self.kind == Kind::Attached || !self.fixed {
            return Err(Error::Foreign { id: self.id, why: "this process did not create it for a client" });
        }
        if self.is_sealed() {
            return Err(Error::Sealed { id: self.id });
        }
        Ok(self.fd.as_fd())
    }

    /// Whether it is sealed: no new writable mapping is possible.
    #[must_use]
    pub fn is_sealed(&self) -> bool {
        self.sealed.load(Ordering::Acquire)
    }

    /// Whether it was created for a client that writes to it.
    #[must_use]
    pub fn is_for_client(&self) -> bool {
        self.kind != Kind::Attached && self.fixed
    }

    /// Whether another process made it, and handed it over.
    #[must_use]
    pub fn is_adopted(&self) -> bool {
        self.kind == Kind::Adopted
    }

    /// Its identifier.
    #[must_use]
    pub fn id(&self) -> SegmentId {
        self.id
    }

    /// Its length in bytes.
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

    /// The descriptor that this process maps. To send a descriptor, use [`Segment::share_fd`] or [`Segment::writable_fd`].
    #[must_use]
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        locate::leave(self);
        // SAFETY: the mapping is ours, and nothing that points into it outlives the segment.
        let _ = unsafe { rustix::mm::munmap(self.base.cast(), self.length) };
    }
}
