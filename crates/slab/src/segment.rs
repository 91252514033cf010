//! A segment: a file in memory, its mapping, and who else may do what with it.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use rustix::mm::{MapFlags, ProtFlags};

use crate::backing::{self, Backing};
use crate::error::{Error, Result};
use crate::locate;

mod memory;
mod seals;

/// The name of a segment, unique among the processes of a store.
pub type SegmentId = u64;

/// How a segment is made.
#[derive(Debug, Clone)]
pub struct SegmentOptions {
    /// What it is made of.
    pub backing: Backing,
    /// Ask for huge pages, where the segment is large enough for one and the kernel has them.
    pub huge_pages: bool,
    /// One other process will write to it too. The order is: make it so; send [`Segment::writable_fd`] to the client, which maps it with
    /// [`Segment::attach`]; wait until the client says that it has; [`Segment::seal`] it. From then on everybody else can only read it.
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
    // Another process made it.
    Attached,
}

/// Shared memory of a fixed length, mapped into this process. Its pages exist once they were touched.
pub struct Segment {
    id: SegmentId,
    fd: OwnedFd,
    reader: OnceLock<OwnedFd>,
    base: *mut u8,
    length: usize,
    writable: bool,
    kind: Kind,
    // The length never changes, not even for a moment: somebody has, or will have, a descriptor for writing.
    fixed: bool,
    sealed: AtomicBool,
    sealing: Mutex<()>,
    // A fork shares the memory and must not give it back.
    maker: u32,
}

// SAFETY: the pointer is to a mapping that lives as long as the value; who may write where is said by `Extent`.
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

    /// A new segment of `length` bytes that one other process will write to too: see [`SegmentOptions::client`].
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
    /// As [`Segment::create`]; what the folder of a file says.
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

    /// Map a segment of `length` bytes that another process made: for reading, or, before it was sealed, for writing too.
    ///
    /// # Errors
    /// [`Error::Foreign`] when the descriptor is not of a segment of that length; when it cannot be mapped so.
    pub fn attach(id: SegmentId, fd: OwnedFd, length: usize, writable: bool) -> Result<Arc<Self>> {
        let stat = rustix::fs::fstat(&fd).map_err(|e| Error::system("fstat a segment", e))?;
        let found = u64::try_from(stat.st_size).ok();
        // Its maker may be cutting the tail off just now, to give it back, and will put it on again.
        let cut = || !writable && found < Some(length as u64) && seals::may_be_cut(&fd);
        if found != Some(length as u64) && !cut() {
            return Err(Error::Foreign { id, why: "its length is not the one that was announced" });
        }
        Self::map(id, fd, OnceLock::new(), length, writable, Kind::Attached, true)
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

    /// Let nobody map it for writing from now on. Mappings that exist stay as they are. A second call does nothing.
    ///
    /// No holes can be punched into a sealed memfd any more. A file has no seals: there it means that [`Segment::writable_fd`] refuses.
    ///
    /// # Errors
    /// [`Error::Foreign`] when another process made it; when the system refuses.
    pub fn seal(&self) -> Result<()> {
        if self.is_sealed() {
            return Ok(());
        }
        if self.kind == Kind::Attached {
            return Err(Error::Foreign { id: self.id, why: "it is sealed by the process that made it" });
        }
        let _one_at_a_time = self.sealing.lock();
        if self.is_sealed() {
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
            // Sealed as it is now, nothing can be done through the descriptor but reading it.
            let copy = self.fd.try_clone().map_err(|e| Error::system("dup a segment's descriptor", e))?;
            let _ = self.reader.set(copy);
        }
        self.sealed.store(true, Ordering::Release);
        Ok(())
    }

    /// The descriptor to be sent to other processes; the segment is sealed with that. Through it they can read the memory and map it for
    /// reading: not map it for writing, nor write to it, nor change its length.
    ///
    /// # Errors
    /// As [`Segment::seal`]; [`Error::Foreign`] for one that this process was given for writing.
    pub fn share_fd(&self) -> Result<BorrowedFd<'_>> {
        if self.kind == Kind::Attached && !self.writable {
            return Ok(self.fd.as_fd());
        }
        self.seal()?;
        Ok(self.reader.get().expect("sealing leaves a descriptor for readers").as_fd())
    }

    /// The descriptor to be sent to the one client that may write.
    ///
    /// # Errors
    /// [`Error::Sealed`] after [`Segment::seal`]; [`Error::Foreign`] when it was not made for a client by this process.
    pub fn writable_fd(&self) -> Result<BorrowedFd<'_>> {
        if self.kind == Kind::Attached || !self.fixed {
            return Err(Error::Foreign { id: self.id, why: "this process did not make it for a client" });
        }
        if self.is_sealed() {
            return Err(Error::Sealed { id: self.id });
        }
        Ok(self.fd.as_fd())
    }

    /// Whether nobody can get it for writing any more.
    #[must_use]
    pub fn is_sealed(&self) -> bool {
        self.sealed.load(Ordering::Acquire)
    }

    /// Whether it was made for a client that writes to it.
    #[must_use]
    pub fn is_for_client(&self) -> bool {
        self.kind != Kind::Attached && self.fixed
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

    /// The descriptor that this process maps. To send one, take [`Segment::share_fd`] or [`Segment::writable_fd`].
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
