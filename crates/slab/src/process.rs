//! The id of this process, cached. A forked child inherits its parent's values and must be able to tell that they are not its own.

#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) use remembered::id;

#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(crate) use std::process::id;

#[cfg(any(target_os = "linux", target_os = "android"))]
mod remembered {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU32, Ordering};

    use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};

    // The id is cached in a page that the kernel zeroes in a forked child (MADV_WIPEONFORK); `None` if the kernel does not support that. A
    // system call each time would cost as much as an allocation.
    static PAGE: OnceLock<Option<&'static AtomicU32>> = OnceLock::new();

    fn page() -> Option<&'static AtomicU32> {
        let length = rustix::param::page_size();
        // SAFETY: a fresh mapping that is never unmapped, is aligned for the atomic, and is zeroed, which is a valid value.
        unsafe {
            let protection = ProtFlags::READ | ProtFlags::WRITE;
            let start = mmap_anonymous(std::ptr::null_mut(), length, protection, MapFlags::PRIVATE).ok()?;
            madvise(start, length, Advice::LinuxWipeOnFork).ok()?;
            Some(AtomicU32::from_ptr(start.cast()))
        }
    }

    /// The id of this process.
    pub(crate) fn id() -> u32 {
        let Some(known) = PAGE.get_or_init(page) else { return std::process::id() };
        match known.load(Ordering::Relaxed) {
            0 => {
                let id = std::process::id();
                known.store(id, Ordering::Relaxed);
                id
            }
            id => id,
        }
    }
}
