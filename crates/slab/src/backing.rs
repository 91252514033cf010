//! The kinds of files behind segments.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::error::{Error, Result};

/// The kind of file behind a segment.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Backing {
    /// A memfd: memory with a descriptor and no name. The size of `/dev/shm` does not limit it.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    Memfd,
    /// An unlinked file in this folder. Other processes have read-only descriptors, but a client that once mapped it for writing cannot be
    /// prevented from writing to it later.
    File(PathBuf),
}

impl Default for Backing {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn default() -> Self {
        Self::Memfd
    }

    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    fn default() -> Self {
        Self::File(std::env::temp_dir())
    }
}

/// A new sparse file: a writable descriptor and, on systems where it cannot be opened again later, a read-only one.
pub(crate) struct Made {
    pub fd: OwnedFd,
    pub reader: Option<OwnedFd>,
}

impl Backing {
    pub(crate) fn is_memfd(&self) -> bool {
        !matches!(self, Self::File(_))
    }

    pub(crate) fn make(&self, length: usize) -> Result<Made> {
        let made = match self {
            #[cfg(any(target_os = "linux", target_os = "android"))]
            Self::Memfd => {
                use rustix::fs::MemfdFlags;
                let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
                let fd = rustix::fs::memfd_create("craton", flags).map_err(|e| Error::system("memfd_create", e))?;
                Made { fd, reader: None }
            }
            Self::File(folder) => nameless(folder).map_err(|e| Error::system("make a file for a segment", e))?,
        };
        rustix::fs::ftruncate(&made.fd, length as u64).map_err(|e| Error::system("ftruncate a segment", e))?;
        Ok(made)
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn nameless(folder: &Path) -> rustix::io::Result<Made> {
    // The file never has a name, so a process that is killed leaves nothing behind.
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    match rustix::fs::open(folder, flags, Mode::RUSR | Mode::WUSR) {
        Ok(fd) => Ok(Made { fd, reader: None }),
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => unlinked(folder),
        Err(e) => Err(e),
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn nameless(folder: &Path) -> rustix::io::Result<Made> {
    unlinked(folder)
}

fn unlinked(folder: &Path) -> rustix::io::Result<Made> {
    let common = OFlags::CLOEXEC | OFlags::NOFOLLOW;
    loop {
        let path = folder.join(format!(".craton-{}-{:016x}", std::process::id(), random()));
        let made = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | common;
        let fd = match rustix::fs::open(&path, made, Mode::RUSR | Mode::WUSR) {
            Err(Errno::EXIST) => continue,
            other => other?,
        };
        let reader = rustix::fs::open(&path, OFlags::RDONLY | common, Mode::empty());
        rustix::fs::unlink(&path)?;
        return Ok(Made { fd, reader: Some(reader?) });
    }
}

/// 64 random bits, different for each process and call: the standard library takes its hash seeds from the system.
pub(crate) fn random() -> u64 {
    use std::hash::BuildHasher;
    // A forked child inherits its parent's seeds.
    std::hash::RandomState::new().hash_one((std::process::id(), std::time::SystemTime::now()))
}

/// Open the same file read-only; `None` on systems where descriptors have no path.
pub(crate) fn reopen(fd: BorrowedFd<'_>) -> Option<OwnedFd> {
    use std::os::fd::AsRawFd;
    if !cfg!(any(target_os = "linux", target_os = "android")) {
        return None;
    }
    let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
    rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()
}

/// Reserve space in the file system for bytes of a file that were never written, so that writing to their mapping cannot raise a signal.
pub(crate) fn reserve(fd: BorrowedFd<'_>, offset: u64, length: u64) -> rustix::io::Result<()> {
    #[cfg(not(any(target_os = "openbsd", target_os = "netbsd", target_os = "dragonfly")))]
    match rustix::fs::fallocate(fd, rustix::fs::FallocateFlags::empty(), offset, length) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => {}
        Err(Errno::INTR) => return reserve(fd, offset, length),
        other => return other,
    }
    let zeros = vec![0_u8; length.min(1 << 20) as usize];
    let (mut at, end) = (offset, offset + length);
    while at < end {
        let part = &zeros[..zeros.len().min((end - at) as usize)];
        match rustix::io::pwrite(fd.as_fd(), part, at) {
            Ok(written) => at += written as u64,
            Err(Errno::INTR) => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// Punch a hole; `false` when this file has no holes, or none any more.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) fn punch(fd: BorrowedFd<'_>, offset: u64, length: u64) -> rustix::io::Result<bool> {
    use rustix::fs::FallocateFlags;
    match rustix::fs::fallocate(fd, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, offset, length) {
        Ok(()) => Ok(true),
        Err(Errno::PERM | Errno::OPNOTSUPP | Errno::NOSYS) => Ok(false),
        Err(Errno::INTR) => punch(fd, offset, length),
        Err(e) => Err(e),
    }
}

/// Punch a hole; `false` when this file has no holes, or none any more.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(crate) fn punch(_fd: BorrowedFd<'_>, _offset: u64, _length: u64) -> rustix::io::Result<bool> {
    Ok(false)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    #[test]
    fn a_file_that_had_a_name() {
        let folder = std::env::temp_dir().join(format!("craton-backing-{:016x}", super::random()));
        std::fs::create_dir(&folder).unwrap();
        let made = super::unlinked(&folder);
        // Fails when a name is left in it.
        std::fs::remove_dir(&folder).unwrap();
        let made = made.unwrap();
        let reader = made.reader.unwrap();
        rustix::fs::ftruncate(&made.fd, 1 << 20).unwrap();
        super::reserve(made.fd.as_fd(), 4096, 8192).unwrap();
        rustix::io::pwrite(&made.fd, b"x", 5000).unwrap();
        let mut byte = [0];
        rustix::io::pread(&reader, &mut byte, 5000).unwrap();
        assert_eq!(&byte, b"x");
        assert!(rustix::io::pwrite(&reader, b"y", 5000).is_err());
    }
}
