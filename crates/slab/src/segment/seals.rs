//! Seals of a memfd, by which the Linux kernel guarantees its receivers what can no longer change. Other systems have no seals.

use std::os::fd::OwnedFd;

use crate::error::Result;

pub(super) use system::{fix_length, is_unsealed, may_be_cut, seal};

#[cfg(any(target_os = "linux", target_os = "android"))]
mod system {
    use rustix::fs::{Mode, SealFlags, fcntl_add_seals, fcntl_get_seals};

    use super::{OwnedFd, Result};
    use crate::error::Error;

    pub fn fix_length(fd: &OwnedFd) -> Result<()> {
        fcntl_add_seals(fd, SealFlags::GROW | SealFlags::SHRINK)
            .map_err(|e| Error::system("seal a segment's length", e))
    }

    pub fn seal(fd: &OwnedFd, length_too: bool) -> Result<()> {
        let mut seals = SealFlags::FUTURE_WRITE | SealFlags::SEAL;
        if length_too {
            seals |= SealFlags::GROW | SealFlags::SHRINK;
        }
        fcntl_add_seals(fd, seals).map_err(|e| Error::system("seal a segment", e))?;
        // Without write permission, a read-only descriptor cannot be reopened for writing by mistake.
        rustix::fs::fchmod(fd, Mode::RUSR).map_err(|e| Error::system("fchmod a segment", e))
    }

    /// Whether it is a memfd without seals that forbid writing or changing its length.
    pub fn is_unsealed(fd: &OwnedFd) -> bool {
        let forbidding = SealFlags::WRITE | SealFlags::FUTURE_WRITE | SealFlags::SHRINK | SealFlags::GROW;
        fcntl_get_seals(fd).is_ok_and(|seals| !seals.intersects(forbidding))
    }

    /// Whether it is a memfd shared by `share_fd` whose creator may still truncate its tail.
    pub fn may_be_cut(fd: &OwnedFd) -> bool {
        fcntl_get_seals(fd)
            .is_ok_and(|seals| seals.contains(SealFlags::FUTURE_WRITE) && !seals.contains(SealFlags::SHRINK))
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
mod system {
    use super::{OwnedFd, Result};

    pub fn fix_length(_fd: &OwnedFd) -> Result<()> {
        Ok(())
    }

    pub fn seal(_fd: &OwnedFd, _length_too: bool) -> Result<()> {
        Ok(())
    }

    pub fn is_unsealed(_fd: &OwnedFd) -> bool {
        false
    }

    pub fn may_be_cut(_fd: &OwnedFd) -> bool {
        false
    }
}
