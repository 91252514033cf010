//! The memory behind a segment: allocated in advance, reserved on disk, and returned to the system.

use std::os::fd::AsFd;

use super::{Kind, Segment};
use crate::backing;
use crate::error::{Error, Result};

impl Segment {
    fn check(&self, offset: usize, length: usize) -> Result<()> {
        if offset.checked_add(length).is_some_and(|end| end <= self.length) {
            return Ok(());
        }
        let (offset, asked) = (offset as u64, length as u64);
        Err(Error::Outside { id: self.id, length: self.length as u64, offset, asked })
    }

    /// Bytes that it takes according to the system: memory, or disk space for a file.
    ///
    /// # Errors
    /// When the system call fails.
    pub fn resident(&self) -> Result<u64> {
        let stat = rustix::fs::fstat(&self.fd).map_err(|e| Error::system("fstat a segment", e))?;
        Ok(u64::try_from(stat.st_blocks).unwrap_or(0) * 512)
    }

    /// Allocate the pages of `length` bytes at `offset` in one system call, instead of by a page fault each. Contents do not change. Does
    /// nothing on systems without such a call.
    ///
    /// # Errors
    /// [`Error::Outside`]; an error of the system when there is no memory.
    pub fn prefault(&self, offset: usize, length: usize) -> Result<()> {
        self.check(offset, length)?;
        #[cfg(any(target_os = "linux", target_os = "android"))]
        if length > 0 {
            use rustix::io::Errno;
            use rustix::mm::Advice;
            let page = rustix::param::page_size();
            let start = offset / page * page;
            let end = (offset + length).next_multiple_of(page).min(self.length);
            let advice = if self.writable { Advice::LinuxPopulateWrite } else { Advice::LinuxPopulateRead };
            // SAFETY: the range is in our mapping, and the advice changes no byte of it.
            match unsafe { rustix::mm::madvise(self.base.add(start).cast(), end - start, advice) } {
                // EINVAL: a kernel before 5.14.
                Ok(()) | Err(Errno::INVAL) => {}
                Err(e) => return Err(Error::system("madvise a segment", e)),
            }
        }
        Ok(())
    }

    /// Reserve disk space for the `length` bytes at `offset`, which were never written, so that a full disk is an error here and not a signal
    /// later. Does nothing for a memfd.
    ///
    /// # Errors
    /// [`Error::Outside`]; an error of the system when there is no space.
    pub fn reserve(&self, offset: usize, length: usize) -> Result<()> {
        self.check(offset, length)?;
        if self.kind != Kind::File || length == 0 {
            return Ok(());
        }
        backing::reserve(self.fd.as_fd(), offset as u64, length as u64)
            .map_err(|e| Error::system("reserve space for a segment's file", e))
    }

    pub(crate) fn is_file(&self) -> bool {
        self.kind == Kind::File
    }

    /// Return the memory of whole pages that are in no extent to the system; their contents become zeros. `false` when that is not possible:
    /// of a sealed memfd only the tail can be freed, and of a client's segment nothing.
    ///
    /// After an error the range must not be used again.
    pub(crate) fn discard(&self, offset: usize, length: usize) -> Result<bool> {
        self.check(offset, length)?;
        if self.maker != crate::process::id() || self.kind == Kind::Attached {
            return Ok(false);
        }
        if !(self.kind == Kind::Memfd && self.is_sealed()) {
            let punched = backing::punch(self.fd.as_fd(), offset as u64, length as u64);
            if punched.map_err(|e| Error::system("punch a hole into a segment", e))? {
                return Ok(true);
            }
        }
        let told = self.kind == Kind::File && self.is_sealed();
        if self.fixed || told || offset + length != self.length {
            return Ok(false);
        }
        for end in [offset, self.length] {
            rustix::fs::ftruncate(&self.fd, end as u64).map_err(|e| Error::system("cut a segment's tail off", e))?;
        }
        Ok(true)
    }

    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub(super) fn advise_huge(&self) {
        if self.length >= 1 << 21 {
            // SAFETY: the mapping is this segment's, and the advice changes no byte of it. A kernel without huge pages refuses it: ignored.
            let _ = unsafe { rustix::mm::madvise(self.base.cast(), self.length, rustix::mm::Advice::LinuxHugepage) };
        }
    }

    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    #[allow(clippy::unused_self)]
    pub(super) fn advise_huge(&self) {}
}
